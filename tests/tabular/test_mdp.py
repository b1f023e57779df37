"""The type of MDPs: a pytree, scaled rewards, large MDPs in little memory."""

import dataclasses

import jax
import numpy as np
import pytest
from agent_data import noisy_mdp

from narl import tabular
from narl.errors import InputError
from narl.tabular.checked_mdp import make_mdp
from narl.tabular.envs import deep_sea
from narl.tabular.exact_values import solve
from narl.tabular.mdp import scale_rewards
from narl.tabular.runner import run


def test_mdp_is_a_pytree_with_static_horizon():
    mdp = noisy_mdp(0, num_states=2, num_actions=3, horizon=4)
    doubled = jax.tree.map(lambda leaf: 2 * leaf, mdp)
    assert len(jax.tree.leaves(mdp)) == 4
    assert doubled.horizon == 4
    np.testing.assert_array_equal(doubled.r, 2 * mdp.r)
    assert (mdp.num_states, mdp.num_actions) == (2, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mdp.horizon = 5


def test_scale_rewards_keeps_the_best_policies():
    mdp = noisy_mdp(3, num_states=4, num_actions=3, horizon=5)
    scaled = scale_rewards(mdp)
    low, span = mdp.r.min(), mdp.r.max() - mdp.r.min()
    assert (scaled.r.min(), scaled.r.max()) == (0, 1)
    np.testing.assert_allclose(scaled.r_std * span, mdp.r_std)
    before, after = solve(mdp), solve(scaled)
    assert after.value * span + 5 * low == pytest.approx(before.value)
    np.testing.assert_allclose(after.gap * span, before.gap, atol=1e-12)
    flat = make_mdp(mdp.p, np.full((4, 3), -2.0), mdp.p0, 5, name="flat")
    assert not scale_rewards(flat).r.any()
    assert scale_rewards(flat).name == "flat-scaled"


def test_large_deep_sea_needs_little_memory():
    mdp = deep_sea(200)
    assert mdp.prob.shape == (40_000, 2, 1)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(mdp)) < 10e6
    assert mdp.next_state(0, 0).sum() == 1
    with pytest.raises(InputError, match=r"^p: the dense table of deep_sea-200 has 3.2e\+09 ent"):
        _ = mdp.p


@pytest.mark.slow
def test_large_deep_sea_is_solved_and_run_exactly():
    mdp = deep_sea(100)
    assert solve(mdp).value == pytest.approx(0.99)
    trace = run("greedy", mdp, 2, (0,))
    assert trace.regret.shape == (1, 2)
    # A policy that never earns the reward pays up to .01 for its moves to the right.
    assert ((trace.regret >= 0.99 - 1e-5) & (trace.regret <= 1.0)).all()


# --- MDPs by name -----------------------------------------------------------------------------


def test_functions_of_an_mdp_take_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mdp = tabular.riverswim()
    policy = np.ones((mdp.horizon, mdp.num_states), int)
    assert tabular.solve("riverswim").value == tabular.solve(mdp).value
    assert tabular.policy_value("riverswim", policy) == tabular.policy_value(mdp, policy)
    by_name, given = (tabular.evaluate(x, policy) for x in ("riverswim", mdp))
    np.testing.assert_array_equal(by_name, given)
    assert tabular.to_gymnasium("riverswim").mdp.name == "riverswim"
    assert tabular.scale_rewards("riverswim").name == "riverswim-scaled"
    path = tabular.save_npz("river.npz", "riverswim")
    assert tabular.solve(path).value == tabular.solve("river.npz").value == tabular.solve(mdp).value


@pytest.mark.parametrize(
    "use",
    [
        tabular.solve,
        lambda mdp: tabular.evaluate(mdp, np.zeros((20, 6), int)),
        lambda mdp: tabular.policy_value(mdp, np.zeros((20, 6), int)),
        tabular.to_gymnasium,
        tabular.scale_rewards,
        lambda mdp: tabular.save_npz("river.npz", mdp),
    ],
)
def test_wrong_mdp_is_one_line(use):
    with pytest.raises(InputError, match=r"^env: unknown value 'riverswin'; did you mean 'river"):
        use("riverswin")
    with pytest.raises(InputError, match=r"^mdp: a int given; it must be a TabularMDP or a name$"):
        use(3)
