"""Conversion of MDPs from and to Gymnasium and `.npz` files."""

import dataclasses
import math
import os

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from narl import gymnasium_registration
from narl.errors import InputError
from narl.tabular.checked_mdp import make_mdp
from narl.tabular.envs import deep_sea, random_mdp, riverswim, stochastic_chain
from narl.tabular.exact_values import policy_value, solve
from narl.tabular.io import (
    TabularEnv,
    from_gymnasium,
    load_npz,
    save_npz,
    to_gymnasium,
)
from narl.tabular.mdp import LARGE_TABLE, TabularMDP

ARRAYS = ("p", "r", "r_std", "p0", "bad")


def assert_same(one: TabularMDP, two: TabularMDP) -> None:
    assert (one.horizon, one.name) == (two.horizon, two.name)
    assert one.solved_rule == two.solved_rule
    for field in ARRAYS:
        a, b = getattr(one, field), getattr(two, field)
        assert (a is None) == (b is None), field
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-15, err_msg=field)


# --- from Gymnasium ------------------------------------------------------------------------


def test_slippery_frozen_lake_by_hand():
    mdp = from_gymnasium("FrozenLake-v1", horizon=100)
    assert (mdp.p.shape, mdp.horizon, mdp.name) == ((17, 4, 17), 100, "FrozenLake-v1")
    # Next to the goal, "down" slides left (13), stays (14) or reaches the goal: the end (16).
    np.testing.assert_allclose(mdp.p[14, 1, [13, 14, 16]], 1 / 3)
    assert mdp.r[14, 1] == pytest.approx(1 / 3)
    assert mdp.r_std[14, 1] == pytest.approx(np.sqrt(1 / 3 * 2 / 3))
    # The id of a run depends on the last digit: it is that of additions one after the other.
    chances, mean = (0.33333333333333337, 0.3333333333333333), mdp.r[14, 3]
    low, high = mean**2, (1 - mean) ** 2
    variance = chances[0] * high + chances[1] * low + chances[0] * low
    assert mdp.r_std[14, 3] == math.sqrt(variance)
    # From the start, "left" stays in two of three cases.
    np.testing.assert_allclose(mdp.p[0, 0, [0, 4]], [2 / 3, 1 / 3])
    assert (mdp.p[16, :, 16] == 1).all()
    assert not mdp.r[16].any()
    assert np.count_nonzero(mdp.r) == 3
    assert mdp.p0[0] == 1


def test_taxi_has_its_known_optimum():
    mdp = from_gymnasium("Taxi-v4")
    assert (mdp.num_states, mdp.num_actions, mdp.horizon) == (501, 6, 200)
    assert np.count_nonzero(mdp.p0) == 300
    assert solve(mdp).value == pytest.approx(7.93)


class Table(gymnasium.Env):
    """An environment of a user with a given table."""

    def __init__(self, table, start=0, **attributes):
        self.P = table
        self.start = start
        for name, value in attributes.items():
            setattr(self, name, value)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.start(self.np_random) if callable(self.start) else self.start, {}


LOOP = {0: {0: [(0.25, 0, 4, False), (0.75, 1, 0, False)]}, 1: {0: [(1.0, 1, 2, False)]}}


def test_table_without_termination_has_no_added_state():
    mdp = from_gymnasium(Table(LOOP), 5)
    assert mdp.name == "Table"
    np.testing.assert_allclose(mdp.p, [[[0.25, 0.75]], [[0, 1]]])
    np.testing.assert_allclose(mdp.r, [[1], [2]])
    np.testing.assert_allclose(mdp.r_std, [[np.sqrt(0.25 * 9 + 0.75)], [0]])


def test_outcomes_with_the_same_next_state_are_summed():
    table = [[[(0.5, 0, 1, False), (0.25, 0, 0, False), (0.25, 0, 0, True)]]]
    mdp = from_gymnasium(Table(table), 5)
    np.testing.assert_allclose(mdp.p, [[[0.75, 0.25]], [[0, 1]]])
    np.testing.assert_allclose(mdp.r, [[0.5], [0]])
    np.testing.assert_allclose(mdp.r_std, [[0.5], [0]])


@pytest.mark.parametrize(
    ("env", "p0"),
    [
        (Table(LOOP, start=1), [0, 1]),
        (Table(LOOP, start_state_index=1), [0, 1]),
        (Table(LOOP, initial_state_distrib=[0.3, 0.7]), [0.3, 0.7]),
    ],
)
def test_first_state_of_a_table(env, p0):
    np.testing.assert_allclose(from_gymnasium(env, 2).p0, p0)


@pytest.mark.parametrize(
    ("env", "line"),
    [
        (Table(None), r"^env: Table has no transition table P; .* FrozenLake-v1"),
        (Table({1: {0: []}}), r"^env: Table: P is not P\[0..S-1\]\[0..A-1\]$"),
        (Table({0: {0: []}, 1: {}}), r"^env: Table: P does not give every state the same"),
        (Table([[[(1, 7, 0, False)]]]), r"^env: Table: P\[0\]\[0\] leads to 7, .* 0..0$"),
        (Table([[[(0.5, 0, 0, False)]]]), r"^p\[0, 0, :\] sums to 0.5; it must sum to 1$"),
        (Table([[[(1, 0, np.inf, False)]]]), r"^r\[0, 0\] = inf; it must be finite$"),
        (Table(LOOP, start=lambda rng: int(rng.integers(2))), r"^env: Table starts at random"),
        (Table(LOOP, initial_state_distrib=[1.0]), r"^env: Table: initial_state_distrib .* 2 ent"),
        (Table(LOOP, fickle_passenger=True), r"^env: Table with fickle_passenger=True"),
        ("Blackjack-v1", r"^env: Blackjack-v1 has no transition table P"),
        ("NoSuch-v0", r"^env: Gymnasium cannot make 'NoSuch-v0'"),
        ("no_such_module:Env-v0", r"^env: Gymnasium cannot make 'no_such_module:Env-v0'"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_from_gymnasium_refuses_unusable_tables(env, line):
    with pytest.raises(InputError, match=line) as error:
        from_gymnasium(env, 3)
    assert "\n" not in str(error.value)


def test_from_gymnasium_refuses_wrong_horizons_and_options():
    with pytest.raises(InputError, match=r"^horizon: Table has no time limit of its own"):
        from_gymnasium(Table(LOOP))
    with pytest.raises(InputError, match=r"^horizon: 0 is wrong"):
        from_gymnasium("FrozenLake-v1", 0)
    with pytest.raises(InputError, match=r"^is_slippery: only goes with an id"):
        from_gymnasium(Table(LOOP), 3, is_slippery=False)
    with pytest.raises(InputError, match=r"^env: Gymnasium cannot make .*'slippery'"):
        from_gymnasium("FrozenLake-v1", 3, slippery=False)


# --- to Gymnasium --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mdp",
    [riverswim(), deep_sea(3, stochastic=True), random_mdp(1, 1, horizon=1)],
    ids=lambda mdp: f"{mdp.name}-H{mdp.horizon}",
)
@pytest.mark.parametrize("render_mode", [None, "ansi"])
def test_environments_pass_the_checker_of_gymnasium(mdp, render_mode):
    env = to_gymnasium(mdp, render_mode)
    check_env(env)  # its warnings are errors here
    assert env.observation_space.n == mdp.num_states
    assert env.action_space.n == mdp.num_actions


@pytest.mark.parametrize("gymnasium_id", gymnasium_registration.NAMES)
def test_registered_environments_pass_the_checker_of_gymnasium(gymnasium_id):
    gymnasium_registration.register()
    env = gymnasium.make(gymnasium_id).unwrapped
    check_env(env)
    assert env.spec.id == gymnasium_id


def test_episode_terminates_at_the_horizon():
    env = to_gymnasium(riverswim(horizon=3))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    state, info = env.reset(seed=1)
    assert (state, info) == (0, {"h": 0})
    for h in (1, 2, 3):
        state, reward, terminated, truncated, info = env.step(0)
        assert (state, reward, info) == (0, 0.005, {"h": h})
        assert terminated == (h == 3)
        assert not truncated
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset()
    with pytest.raises(InputError, match=r"^action: 2 is wrong; it must lie in 0..1$"):
        env.step(2)


def test_reset_seed_decides_the_episode():
    def play(seed):
        env = to_gymnasium(random_mdp(horizon=30))
        states = [env.reset(seed=seed)[0]]
        for _ in range(30):
            state, reward, *_ = env.step(1)
            states += [state, reward]
        return states

    assert play(3) == play(3)
    assert play(3) != play(4)


def test_steps_follow_the_tables():
    mdp = random_mdp(3, 2, horizon=4, reward_std=0.5, seed=5)
    env = to_gymnasium(mdp)
    policy = np.random.default_rng(0).integers(2, size=(4, 3))
    num_moves, returns = np.zeros((3, 2, 3)), []
    env.reset(seed=0)
    for _ in range(3000):
        (state, info), total, over = env.reset(), 0.0, False
        while not over:
            action = int(policy[info["h"], state])
            following, reward, over, _, info = env.step(action)
            num_moves[state, action, following] += 1
            state, total = following, total + reward
        returns.append(total)
    visits = num_moves.sum(axis=-1, keepdims=True)
    for s, a in np.argwhere(visits[..., 0] > 0):
        bound = 5 * np.sqrt(mdp.p[s, a] * (1 - mdp.p[s, a]) / visits[s, a])
        assert (np.abs(num_moves[s, a] / visits[s, a] - mdp.p[s, a]) < bound).all()
    error = 5 * np.std(returns) / np.sqrt(len(returns))
    assert np.mean(returns) == pytest.approx(policy_value(mdp, policy), abs=error)


def test_render_describes_the_step():
    env = to_gymnasium(riverswim(), render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "step 0 of 20: state 0\n"
    env.step(0)
    assert env.render() == "step 1 of 20: state 0, after action 0 with reward 0.005\n"
    assert to_gymnasium(riverswim()).render() is None
    with pytest.raises(InputError, match=r"^render_mode: unknown value 'human'"):
        to_gymnasium(riverswim(), render_mode="human")


def test_conversion_to_gymnasium_and_back_is_exact():
    mdp = deep_sea(4, stochastic=True)
    env = to_gymnasium(mdp)
    assert isinstance(env, TabularEnv)
    assert_same(from_gymnasium(env), mdp)
    assert from_gymnasium(env, 9).horizon == 9
    with pytest.raises(InputError, match=r"^horizon: -1 is wrong"):
        from_gymnasium(env, -1)
    gymnasium_registration.register()
    assert_same(from_gymnasium("narl/DeepSeaStochastic-v0", size=4), mdp)


# --- npz files -----------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(
    num_states=st.integers(1, 5),
    num_actions=st.integers(1, 3),
    horizon=st.integers(1, 10**6),
    seed=st.integers(0, 10**6),
)
def test_load_npz_returns_what_was_saved(tmp_path_factory, num_states, num_actions, horizon, seed):
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    mdp = random_mdp(num_states, num_actions, horizon, seed=seed)
    assert save_npz(path, mdp) == path
    assert_same(load_npz(path), mdp)
    assert [entry.name for entry in path.parent.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("rule", [(0.9, 1), (0.8, 100), (1e-3, 7)])
def test_npz_keeps_bad_actions_and_the_rule_for_solved(tmp_path, rule):
    mdp = dataclasses.replace(deep_sea(4), solved_rule=rule)
    loaded = load_npz(save_npz(tmp_path / "sea.npz", mdp))
    assert loaded.solved_rule == rule
    assert [type(part) for part in loaded.solved_rule] == [float, int]
    assert_same(loaded, mdp)


GOOD = {
    "p": np.full((2, 1, 2), 0.5),
    "r": np.zeros((2, 1)),
    "p0": np.array([1.0, 0.0]),
    "horizon": np.array(3),
}


def test_load_npz_needs_four_entries(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, **GOOD)
    mdp = load_npz(str(path))
    assert_same(mdp, make_mdp(GOOD["p"], GOOD["r"], GOOD["p0"], 3, name="mine"))
    assert not mdp.r_std.any()
    np.savez(path, **GOOD, r_std=np.ones((2, 1)))
    assert load_npz(path).r_std.tolist() == [[1], [1]]


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"p": np.full((2, 1, 2), 0.4)}, r"p\[0, 0, :\] sums to 0.8; it must sum to 1$"),
        ({"p": GOOD["p"][:1]}, r"p: shape \(1, 1, 2\) is wrong; it must be \(S, A, S\)"),
        ({"horizon": np.array(0)}, r"horizon: 0 is wrong; it must be a whole number >= 1$"),
        ({"horizon": np.array([3, 4])}, r"horizon: an array of shape \(2,\) is wrong"),
        ({"horizon": np.array("three")}, r"horizon: three is wrong"),
        ({"p": GOOD["p"].astype(object)}, r"p cannot be read: Object arrays cannot be loaded"),
        ({"horizon": np.array(None)}, r"horizon cannot be read: Object arrays"),
        ({"p": GOOD["p"].astype(str)}, r"p: holds <U32 values; it must hold real numbers$"),
        ({"p": None}, r"p is missing; p, r, p0 and horizon are needed$"),
        ({"horizon": None}, r"horizon is missing; p, r, p0 and horizon are needed$"),
        ({"rstd": np.zeros((2, 1))}, r"entry: unknown value 'rstd'; did you mean 'r_std'\?"),
        ({"name": np.array(["a", "b"])}, r"name must be one string$"),
        ({"name": np.array("a\nb")}, r"name: holds '\\n'; it must be printable text on one line$"),
        ({"name": np.array("a\u2028b")}, r"name: holds '\\u2028'; it must be printable text"),
        (
            {"solved_rule": np.array([0.9])},
            r"solved_rule: \[0.9\] is wrong; it must be like \[0.9, 1",
        ),
        ({"solved_rule": np.array([0.0, 1])}, r"solved_rule: \[0.0, 1.0\] is wrong"),
        ({"solved_rule": np.array([1.1, 1])}, r"solved_rule: \[1.1, 1.0\] is wrong"),
        ({"solved_rule": np.array([0.9, 0])}, r"solved_rule: \[0.9, 0.0\] is wrong"),
        ({"solved_rule": np.array([0.9, 1.5])}, r"solved_rule: \[0.9, 1.5\] is wrong"),
        ({"solved_rule": np.array([0.9, 1e300])}, r"solved_rule: \[0.9, 1e\+300\] is wrong"),
        ({"bad": np.array([[-7.3], [0]])}, r"bad\[0, 0\] = -7.3; it must be 0 or 1$"),
        ({"bad": np.array([[0.5], [0]])}, r"bad\[0, 0\] = 0.5; it must be 0 or 1$"),
        ({"successors": np.zeros((2, 1))}, r"successors: holds float64 values; it must hold whole"),
        ({"successors": np.zeros((2, 1), int)}, r"successors: shape \(2, 1\) beside \(2, 1, 2\)"),
        (
            {"successors": np.array([[[0, 1]], [[0, 2]]])},
            r"successors\[1, 0, 1\] = 2; it must be a state in 0..1$",
        ),
        ({"solved_rule": np.array([np.nan, 1])}, r"solved_rule\[0\] = nan; it must be finite$"),
        ({"solved_rule": np.array(["0.9", "1"])}, r"solved_rule: holds <U3 values; it must hold"),
    ],
)
def test_load_npz_names_the_wrong_entry(tmp_path, wrong, line):
    path = tmp_path / "bad.npz"
    entries = GOOD | wrong
    np.savez(path, **{k: v for k, v in entries.items() if v is not None})
    with pytest.raises(InputError, match=rf"^bad.npz: {line}") as error:
        load_npz(path)
    assert "\n" not in str(error.value)


class Payload:
    """Unpickling it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return self.path.write_text, ("executed",)


def test_load_npz_executes_nothing(tmp_path):
    trap, path = tmp_path / "trap", tmp_path / "bad.npz"
    np.savez(path, **GOOD | {"r": np.array([[Payload(trap)], [0]], dtype=object)})
    with pytest.raises(InputError, match=r"^bad.npz: r cannot be read"):
        load_npz(path)
    assert not trap.exists()


def test_load_npz_refuses_other_files(tmp_path):
    path = tmp_path / "bad.npz"
    with pytest.raises(InputError, match=r"^env: there is no file '.*bad.npz'$"):
        load_npz(path)
    for content in (b"", b"not a zip", b"\x80\x04N."):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"^env: bad.npz is not an .npz file"):
            load_npz(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(InputError, match=r"^env: bad.npz is not an .npz file"):
        load_npz(path)


def test_load_npz_refuses_damaged_files(tmp_path):
    path = tmp_path / "a.npz"
    mdp = stochastic_chain(3)
    whole = save_npz(path, mdp).read_bytes()
    rng = np.random.default_rng(0)
    refusals = []
    for at in rng.choice(len(whole), size=120, replace=False):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        try:
            loaded = load_npz(path)
        except InputError as error:
            refusals.append(str(error))
            continue
        # A damaged index can hide an optional entry; the needed ones are whole or refused.
        assert loaded.horizon == mdp.horizon
        for field in ("p", "r", "p0"):
            np.testing.assert_array_equal(getattr(loaded, field), getattr(mdp, field))
    assert len(refusals) > 60
    assert not any("\n" in line for line in refusals)
    for length in range(0, len(whole), 50):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            load_npz(path)


def test_saved_npz_is_read_by_numpy(tmp_path):
    mdp = deep_sea(3)
    with np.load(save_npz(tmp_path / "a.npz", mdp), allow_pickle=False) as entries:
        assert sorted(entries) == sorted((*ARRAYS, "horizon", "solved_rule", "name"))
        np.testing.assert_array_equal(entries["p"], mdp.p)
        assert (entries["horizon"], entries["name"]) == (3, "deep_sea-3")
    with np.load(save_npz(tmp_path / "b.npz", riverswim())) as entries:
        assert "bad" not in entries  # RiverSwim has none


def test_large_mdp_is_written_in_slots_and_read_again(tmp_path):
    mdp = deep_sea(54, stochastic=True)
    assert mdp.num_states**2 * mdp.num_actions > LARGE_TABLE
    path = save_npz(tmp_path / "sea.npz", mdp)
    with np.load(path) as entries:
        assert entries["p"].shape == entries["successors"].shape == (2916, 2, 2)
    again = load_npz(path)
    np.testing.assert_array_equal(again.prob, mdp.prob)
    np.testing.assert_array_equal(again.successors, mdp.successors)
    assert path.stat().st_size < 200_000


def test_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = save_npz(tmp_path / "a.npz", riverswim())

    def full_disk(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        save_npz(path, deep_sea(3))
    assert_same(load_npz(path), riverswim())
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


def test_save_npz_refuses_wrong_paths(tmp_path):
    with pytest.raises(InputError, match=r"^path: 'a.txt' is wrong; .* end in .npz$"):
        save_npz(tmp_path / "a.txt", riverswim())
    with pytest.raises(InputError, match=r"^path: there is no folder '.*none' to write to$"):
        save_npz(tmp_path / "none" / "a.npz", riverswim())
