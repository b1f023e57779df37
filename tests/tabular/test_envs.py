"""The environments against values by hand, and Deep Sea against bsuite itself."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from narl import gymnasium_registration
from narl.errors import InputError
from narl.options import options_of
from narl.tabular.config import Config
from narl.tabular.envs import (
    ENVIRONMENTS,
    MAX_DEEP_SEA,
    deep_sea,
    make,
    random_mdp,
    riverswim,
    six_arms,
    stochastic_chain,
)
from narl.tabular.exact_values import policy_value, solve
from narl.tabular.io import save_npz

ROOT = Path(__file__).resolve().parents[2]
LEFT, RIGHT = 0, 1


def test_riverswim_tables():
    mdp = riverswim()
    assert mdp.p.shape == (6, 2, 6)
    assert (mdp.horizon, mdp.name) == (20, "riverswim")
    for s, left_to in enumerate([0, 0, 1, 2, 3, 4]):
        assert mdp.p[s, LEFT, left_to] == 1
    np.testing.assert_allclose(mdp.p[0, RIGHT], [0.4, 0.6, 0, 0, 0, 0])
    np.testing.assert_allclose(mdp.p[3, RIGHT], [0, 0, 0.05, 0.6, 0.35, 0])
    np.testing.assert_allclose(mdp.p[5, RIGHT], [0, 0, 0, 0, 0.4, 0.6])
    assert mdp.r[0, LEFT] == 0.005
    assert mdp.r[5, RIGHT] == 1
    assert np.count_nonzero(mdp.r) == 2
    assert not mdp.r_std.any()
    np.testing.assert_array_equal(mdp.p0, [1, 0, 0, 0, 0, 0])


def test_riverswim_values():
    mdp = riverswim()
    assert solve(mdp).value == pytest.approx(3.3973, abs=5e-5)
    assert policy_value(mdp, np.full((20, 6), LEFT)) == pytest.approx(0.1)
    # Too short to reach the right end: the left end pays .005 twice.
    assert solve(riverswim(horizon=2)).value == pytest.approx(0.01)
    smallest = riverswim(num_states=2, horizon=2)
    assert smallest.name == "riverswim-2"
    assert solve(smallest).value == pytest.approx(0.4 * 0.005 + 0.6 * 1)


def test_stochastic_chain_tables():
    mdp = stochastic_chain(4)
    assert (mdp.horizon, mdp.name) == (4, "stochastic_chain-4")
    np.testing.assert_array_equal(mdp.p[:, LEFT].argmax(axis=-1), [0, 0, 1, 2])
    np.testing.assert_allclose(mdp.p[:, LEFT].max(axis=-1), 1)
    np.testing.assert_allclose(mdp.p[0, RIGHT], [0.25, 0.75, 0, 0])
    np.testing.assert_allclose(mdp.p[1, RIGHT], [0.25, 0, 0.75, 0])
    np.testing.assert_allclose(mdp.p[3, RIGHT], [0, 0, 0.25, 0.75])
    np.testing.assert_array_equal(mdp.r, [[0, 0], [0, 0], [0, 0], [0, 1]])
    np.testing.assert_array_equal(mdp.r_std, [[1, 0], [0, 0], [0, 0], [0, 1]])
    assert mdp.p0[0] == 1


@pytest.mark.parametrize("size", [2, 3, 10, 30])
def test_stochastic_chain_optimum(size):
    assert solve(stochastic_chain(size)).value == pytest.approx((1 - 1 / size) ** (size - 1))
    assert stochastic_chain(size, horizon=7).horizon == 7


def test_noisy_riverswim_is_riverswim_with_noise_on_every_reward():
    mdp, plain = make("noisy-riverswim"), riverswim()
    assert mdp.name == "noisy_riverswim"
    np.testing.assert_array_equal(mdp.p, plain.p)
    np.testing.assert_array_equal(mdp.r, plain.r)
    assert (mdp.r_std == 0.5).all()
    with pytest.raises(InputError, match=r"^reward_std: -1 is wrong; it must be finite and >= 0"):
        riverswim(reward_std=-1)


def test_six_arms_by_hand():
    mdp = six_arms()
    assert (mdp.p.shape, mdp.horizon, mdp.name) == ((7, 6, 7), 20, "six_arms")
    np.testing.assert_allclose(mdp.p[0, 3, [0, 4]], [0.95, 0.05])
    assert mdp.p[4, 3, 4] == 1  # the arm's own action stays
    assert (mdp.p[4, [0, 1, 2, 4, 5], 0] == 1).all()  # the others lead back
    assert mdp.r[6, 5] == 1
    assert mdp.r[4, 3] == pytest.approx(800 / 6000)
    assert np.count_nonzero(mdp.r) == 6
    # Trying arm a + 1 until it is entered, then staying: entering at step k leaves H − 1 − k.
    chances = (1, 0.15, 0.1, 0.05, 0.03, 0.01)
    values = []
    for a, chance in enumerate(chances):
        policy = np.full((20, 7), a)
        expected = sum(chance * (1 - chance) ** k * (19 - k) for k in range(19)) * mdp.r[a + 1, a]
        assert policy_value(mdp, policy) == pytest.approx(expected)
        values.append(expected)
    assert np.argmax(values) == 5
    assert solve(mdp).q_star[0, 0].argmax() == 5
    assert make("six-arms", size=2).p.shape == (3, 2, 3)


@pytest.mark.parametrize("size", [2, 10, 28])
def test_deep_sea_optimum(size):
    mdp = deep_sea(size)
    assert mdp.name == f"deep_sea-{size}"
    assert mdp.horizon == size
    solution = solve(mdp)
    assert solution.value == pytest.approx(0.99, abs=1e-12)
    # After going left from the start, which is free, the best value is 0.
    assert solution.q_star[0, 0].min() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("size", [2, 10, 28])
def test_stochastic_deep_sea_optimum(size):
    mdp = deep_sea(size, stochastic=True)
    assert mdp.name == f"deep_sea_stochastic-{size}"
    succeeds = 1 - 1 / size
    # Once a move right has failed, the best policy goes left and pays no more: it beats the
    # (1 - 1/N)^(N-1) - .01 of going right N times, which bsuite calls optimal.
    optimum = succeeds ** (size - 1) - 0.01 * (1 - succeeds**size)
    assert solve(mdp).value == pytest.approx(optimum, abs=1e-12)
    always_right = mdp.r.astype(bool).argmax(axis=-1)  # only going right costs
    bsuites = succeeds ** (size - 1) - 0.01
    assert policy_value(mdp, np.tile(always_right, (size, 1))) == pytest.approx(bsuites)


def test_deep_sea_without_random_actions_has_right_as_action_one():
    mdp = deep_sea(3, randomize_actions=False)
    assert policy_value(mdp, np.ones((3, 9), dtype=int)) == pytest.approx(0.99)
    assert (mdp.bad[[0, 4, 8]] == [1, 0]).all()
    assert mdp.bad.sum() == 3


@pytest.fixture(scope="module")
def bsuite_deep_sea():
    """bsuite's own Deep Sea, imported without the package itself.

    `import bsuite` loads pandas and scikit-image for other experiments; Deep Sea needs neither.
    """
    spec = importlib.util.find_spec("bsuite")
    if spec is None:
        pytest.skip("bsuite is missing: pip install --no-deps bsuite==0.3.6 dm-env==1.6")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "bsuite", importlib.util.module_from_spec(spec))
        yield importlib.import_module("bsuite.environments.deep_sea")
        for name in [name for name in sys.modules if name.startswith("bsuite.")]:
            patch.delitem(sys.modules, name)
        patch.undo()


class Scripted:
    """A replacement of bsuite's generator that returns given numbers."""

    def __init__(self, uniform: float, normal: float) -> None:
        self.rand = lambda: uniform
        self.randn = lambda: normal


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("size", [2, 7])
def test_deep_sea_moves_are_those_of_bsuite(bsuite_deep_sea, size, stochastic):
    mdp = deep_sea(size, stochastic=stochastic)
    theirs = bsuite_deep_sea.DeepSea(size, deterministic=not stochastic, mapping_seed=42)
    normal = 0.7
    # A uniform draw just below or just above 1/N: a failing and a succeeding move.
    chances = {1 / size - 1e-9: 1 / size, 1 / size + 1e-9: 1 - 1 / size}
    for s in range(size * size):
        row, column = divmod(s, size)
        for a in (0, 1):
            expected = np.zeros(size * size)
            for uniform, chance in chances.items():
                theirs.reset()
                theirs._row, theirs._column = row, column
                theirs._rng = Scripted(uniform, normal)
                step = theirs.step(a)
                over = row == size - 1
                assert step.last() == over
                expected[0 if over else int(step.observation.argmax())] += chance
                ours = mdp.r[s, a] + normal * mdp.r_std[s, a]
                assert step.reward == pytest.approx(ours, abs=1e-15)
                assert theirs._bad_episode == mdp.bad[s, a]
            np.testing.assert_allclose(mdp.p[s, a], expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("mapping_seed", [0, 1, 42])
def test_deep_sea_mapping_is_that_of_bsuite(bsuite_deep_sea, mapping_seed):
    theirs = bsuite_deep_sea.DeepSea(10, mapping_seed=mapping_seed)
    right = deep_sea(10, mapping_seed=mapping_seed).r.astype(bool).argmax(axis=-1)
    np.testing.assert_array_equal(right.reshape(10, 10), theirs._action_mapping)
    assert 0 < right.mean() < 1


LARGE_DEEP_SEA = """
import re, sys, time
import narl
begin = time.process_time()
mdp = narl.tabular.deep_sea(int(sys.argv[1]))
value = narl.tabular.solve(mdp).value
seconds = time.process_time() - begin  # other processes may use the cores meanwhile
# Of this program alone: the largest size by `resource` is also that of the process that starts it.
status = open("/proc/self/status").read()
gigabytes = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 2**20
trace = narl.tabular.run("narl-ucrl", mdp, 2, seeds=[0])
print(seconds, gigabytes, value, *trace.regret[0], *trace.solved_episode)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize(("size", "longest", "most"), [(100, 3.0, 1.0), (200, 12.0, 2.0)])
def test_large_deep_sea_is_set_up_within_seconds_and_gigabytes(size, longest, most):
    """Both first episodes miss the treasure: the regret is V* = 0.99 and the cost of moves."""
    command = [sys.executable, "-c", LARGE_DEEP_SEA, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *numbers, solved = done.stdout.split()
    seconds, gigabytes, value, *regret = map(float, numbers)
    assert seconds < longest
    assert 0.05 < gigabytes < most
    assert value == pytest.approx(0.99, abs=1e-12)
    assert all(0.99 <= each <= 1.0 for each in regret)
    assert solved == "None"


def test_random_mdp_has_its_sizes_and_ranges():
    mdp, again = (random_mdp(4, 3, 7, concentration=0.5, reward_std=2.0, seed=2**40) for _ in "12")
    np.testing.assert_array_equal(mdp.p, again.p)
    np.testing.assert_array_equal(mdp.r, again.r)
    assert (mdp.p.shape, mdp.horizon) == ((4, 3, 4), 7)
    assert ((mdp.r >= 0) & (mdp.r <= 1)).all()
    assert (mdp.r_std == 2.0).all()
    np.testing.assert_allclose(mdp.p0, 1 / 4)
    assert random_mdp(1, 1, 1).p.shape == (1, 1, 1)


def test_random_mdp_depends_on_concentration_and_seed():
    assert random_mdp(20, 2, concentration=0.001).p.max(axis=-1).mean() > 0.9
    assert random_mdp(20, 2, concentration=1000).p.max() < 0.1
    assert not np.array_equal(random_mdp(seed=0).p, random_mdp(seed=1).p)
    # Moments of Dirichlet(2, …, 2) over 5 states: mean 1/5, variance (1/5)(4/5)/(10 + 1).
    p = random_mdp(5, 20_000, concentration=2).p
    assert p.mean() == pytest.approx(0.2)
    assert p[..., 0].var() == pytest.approx(0.16 / 11, rel=0.05)


@pytest.mark.parametrize(
    ("name", "shape", "horizon"),
    [
        ("riverswim", (6, 2, 6), 20),
        ("stochastic-chain", (10, 2, 10), 10),
        ("deep-sea", (100, 2, 100), 10),
        ("noisy-riverswim", (6, 2, 6), 20),
        ("deep-sea-stochastic", (100, 2, 100), 10),
        ("random-mdp", (10, 3, 10), 10),
    ],
)
def test_make_builds_every_named_environment(name, shape, horizon):
    mdp = make(name)
    assert (mdp.p.shape, mdp.horizon) == (shape, horizon)
    bigger = make(name, size=12)
    assert bigger.num_states == (144 if "deep-sea" in name else 12)
    with pytest.raises(InputError, match="size: 1 is too small; the nearest valid value is 2"):
        make(name, size=1)


def test_gymnasium_names_cover_all_environments():
    assert list(gymnasium_registration.NAMES.values()) == list(ENVIRONMENTS)


def test_make_uses_horizon_and_seed():
    assert make("riverswim", horizon=5).horizon == 5
    assert make("stochastic-chain", size=4, horizon=9).horizon == 9
    assert make("random-mdp", horizon=3).horizon == 3
    assert make("deep-sea", size=5, horizon=5).horizon == 5
    np.testing.assert_array_equal(make("random-mdp", seed=4).p, random_mdp(seed=4).p)
    assert make("deep-sea-stochastic", size=3).r_std.any()
    np.testing.assert_array_equal(make("deep-sea", seed=3).p, deep_sea(10).p)


def test_make_reads_files_and_gymnasium(tmp_path):
    path = save_npz(tmp_path / "mine.npz", random_mdp(3, 2, horizon=4))
    assert make(path).horizon == 4
    assert make(str(path), horizon=8).horizon == 8
    lake = make("gym:FrozenLake-v1")
    assert (lake.num_states, lake.horizon, lake.name) == (17, 100, "FrozenLake-v1")
    assert make("gym:CliffWalking-v1", horizon=30).horizon == 30


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"name": "riverswm"}, r"^env: unknown value 'riverswm'; did you mean 'riverswim'\?"),
        (
            {"name": "tanks:Tanks-v0"},
            r"^env: unknown value 'tanks:Tanks-v0'; it must be one of riverswim, .*, six-arms, a "
            r"file such as my.npz, or gym:ID for an environment of Gymnasium with a table$",
        ),
        ({"name": "FrozenLake-v1"}, r"^env: unknown .*; did you mean 'gym:FrozenLake-v1'\?"),
        ({"name": "gym:FrozenLak-v1"}, r"^env: Gymnasium cannot make 'FrozenLak-v1': .*FrozenLake"),
        ({"name": "gym:CartPole-v1"}, r"^env: CartPole-v1 has no transition table P"),
        ({"name": "gym:FrozenLake-v1", "size": 4}, r"^size: gym:FrozenLake-v1 has a fixed size"),
        ({"name": "gym:CliffWalking-v1"}, r"^horizon: CliffWalking-v1 has no time limit"),
        ({"name": "none.npz"}, r"^env: there is no file 'none.npz'"),
        ({"name": "riverswim", "horizon": 0}, r"^horizon: 0 is too small; .* value is 1$"),
        ({"name": "riverswim", "size": 2.5}, r"^size: 2.5 is wrong; .* whole number >= 2$"),
        ({"name": "deep-sea", "size": 1000}, rf"^size: 1000 is too large; .* {MAX_DEEP_SEA}$"),
        ({"name": "deep-sea", "horizon": 20}, r"^horizon: 20 is wrong .* value is 10$"),
        ({"name": "random-mdp", "seed": -1}, r"^seed: -1 is too small; .* value is 0$"),
    ],
)
def test_make_refuses_wrong_values(arguments, line):
    with pytest.raises(InputError, match=line) as error:
        make(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("build", "line"),
    [
        (lambda: riverswim(1), r"^num_states: 1 is too small; the nearest valid value is 2$"),
        (lambda: stochastic_chain(1), r"^size: 1 is too small"),
        (lambda: deep_sea(1), r"^size: 1 is too small"),
        (lambda: deep_sea(5, mapping_seed=-1), r"^mapping_seed: -1 is too small"),
        (lambda: random_mdp(0), r"^num_states: 0 is too small; the nearest valid value is 1$"),
        (lambda: random_mdp(concentration=0), r"^concentration: 0 is wrong; .* > 0$"),
        (lambda: random_mdp(concentration=np.nan), r"^concentration: nan is wrong"),
        (lambda: random_mdp(reward_std=-1), r"^reward_std: -1 is wrong; .* >= 0$"),
    ],
)
def test_builders_refuse_wrong_values(build, line):
    with pytest.raises(InputError, match=line):
        build()


def test_registered_environments_take_options():
    gymnasium_registration.register()
    gymnasium_registration.register()
    assert set(gymnasium_registration.NAMES) <= set(gymnasium.registry)
    env = gymnasium.make("narl/DeepSea-v0", size=4)
    assert env.observation_space.n == 16
    assert gymnasium.make("narl/RandomMDP-v0", seed=3).unwrapped.mdp.name == "random_mdp-10-3"
    with pytest.raises(InputError, match="size: 1 is too small"):
        gymnasium.make("narl/DeepSea-v0", size=1)


@pytest.mark.parametrize(
    ("imports", "env_id"),
    [
        ("import narl, gymnasium, sys; assert 'jax' not in sys.modules", "narl/RiverSwim-v0"),
        ("import gymnasium, narl.tabular", "narl.tabular:narl/RiverSwim-v0"),
        ("import gymnasium", "narl:narl/RiverSwim-v0"),
    ],
)
def test_registered_ids_can_be_made_after_imports(imports, env_id):
    program = f"""
{imports}
env = gymnasium.make({env_id!r})
print(env.unwrapped.mdp.name, len(env.reset(seed=0)))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.stdout == "riverswim 2\n", done.stderr


def test_help_of_the_command_line_names_every_environment():
    text = options_of(Config)["env"].help
    assert [name for name in ENVIRONMENTS if name not in text] == []
