"""The agents by name: their options, the presets, and how mistakes are named."""

import dataclasses
import typing

import numpy as np
import pytest

from narl.errors import InputError
from narl.tabular import AGENTS, PRESETS, Agent, agent_options, riverswim
from narl.tabular.narl_ucrl import NarlUcrl
from narl.tabular.problem import make_problem
from narl.tabular.registry import make_agent

NUMERIC = [
    (name, field.name)
    for name, entry in AGENTS.items()
    for field in dataclasses.fields(entry.options)
    if {int, float} & set(typing.get_args(hint := typing.get_type_hints(entry.options)[field.name]))
    or hint in (int, float)
]
CHOICES = [
    (name, field.name)
    for name, entry in AGENTS.items()
    for field in dataclasses.fields(entry.options)
    if "Literal" in str(typing.get_type_hints(entry.options)[field.name])
]
SWITCHES = [
    (name, field.name)
    for name, entry in AGENTS.items()
    for field in dataclasses.fields(entry.options)
    if typing.get_type_hints(entry.options)[field.name] is bool
]


def refusal(*args, **options) -> str:
    """The line with which the options are refused."""
    with pytest.raises(InputError) as caught:
        agent_options(*args, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_the_agents_of_the_paper_and_its_rivals_are_there():
    assert set(AGENTS) == {
        *("narl-ucrl", "narl-ucbvi", "ucrl2", "ucrl2-tabularl", "ucbvi"),
        *("psrl", "opsrl", "rlsvi", "greedy"),
    }


@pytest.mark.parametrize("name", AGENTS)
def test_defaults_are_valid_and_every_option_can_be_spelled_out(name):
    options = agent_options(name)
    assert isinstance(options, AGENTS[name].options)
    assert agent_options(name, **dataclasses.asdict(options)) == options


def test_a_given_option_replaces_that_one_and_no_other():
    options = agent_options("narl-ucrl", c=0.3, noise="bootstrap")
    assert options == dataclasses.replace(NarlUcrl(), c=0.3, noise="bootstrap")


# --- presets -------------------------------------------------------------------------------


def test_the_paper_preset_is_the_paper_as_printed():
    options = agent_options("narl-ucrl", "paper")
    assert options.noise == "gaussian"
    assert options.noised == "both"
    assert options.measure == "signed"
    assert options.c == 1
    assert options.members == 10
    assert options.members_r is None
    assert options.members_p is None
    assert options.clip == "none"
    assert options.clip_reward is False
    assert options.per_stage is False


def test_the_paper_preset_of_the_other_agents():
    assert agent_options("narl-ucbvi", "paper").rescaled is False
    assert agent_options("ucrl2", "paper").clip == "none"
    assert agent_options("psrl", "paper") == agent_options("psrl")
    assert set(PRESETS["paper"]) <= set(AGENTS)


def test_options_go_on_top_of_a_preset():
    options = agent_options("narl-ucrl", "paper", c=0.5)
    assert options == dataclasses.replace(PRESETS["paper"]["narl-ucrl"], c=0.5)


# --- mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "nearest"), [("narl-ucr", "narl-ucrl"), ("UCBVI", "ucbvi"), ("pslr", "psrl")]
)
def test_an_unknown_agent_is_answered_with_the_nearest(given, nearest):
    line = refusal(given)
    assert line.startswith("agent: ")
    assert repr(given) in line
    assert f"did you mean {nearest!r}?" in line


def test_an_unknown_preset_is_answered_with_the_nearest():
    line = refusal("narl-ucrl", "papre")
    assert line.startswith("preset: ")
    assert "'paper'" in line
    assert refusal("narl-ucrl", 5).startswith("preset: ")


def test_an_unknown_option_is_answered_with_the_nearest():
    line = refusal("narl-ucrl", membres=3)
    assert line.startswith("membres: ")
    assert "'members'" in line
    assert "narl-ucrl" in line
    line = refusal("greedy", c=1.0)
    assert line.startswith("c: ")
    assert "greedy takes no options" in line


def test_an_option_of_another_agent_is_refused():
    assert refusal("psrl", members=3).startswith("members: not an option of psrl")


@pytest.mark.parametrize(("name", "option"), CHOICES)
def test_a_choice_outside_its_list_is_answered_with_the_list(name, option):
    line = refusal(name, **{option: "no-such-choice"})
    assert line.startswith(f"{option}: ")
    hint = typing.get_type_hints(AGENTS[name].options)[option]
    is_choice = typing.get_origin(hint) is typing.Literal
    hints = (hint,) if is_choice else typing.get_args(hint)  # the latter for "or None"
    listed = [choice for part in hints for choice in typing.get_args(part)]
    assert listed
    assert all(choice in line for choice in listed)


@pytest.mark.parametrize(("name", "option"), NUMERIC)
def test_numbers_must_be_finite_numbers(name, option):
    for wrong in ("3", [1], True, float("nan"), -np.inf):
        line = refusal(name, **{option: wrong})
        assert line.startswith(f"{option}: ")


@pytest.mark.parametrize(("name", "option"), SWITCHES)
def test_switches_are_true_or_false(name, option):
    for wrong in (1, "true", None):
        assert refusal(name, **{option: wrong}).startswith(f"{option}: ")


@pytest.mark.parametrize(
    ("name", "option", "wrong", "bound"),
    [
        ("narl-ucrl", "members", 0, ">= 1"),
        ("narl-ucrl", "members_r", 0, ">= 1"),
        ("narl-ucrl", "members_p", -3, ">= 1"),
        ("narl-ucrl", "c", -0.1, ">= 0"),
        ("narl-ucrl", "epsilon", 0.0, "> 0"),
        ("narl-ucrl", "epsilon", 1, "< 1"),
        ("narl-ucbvi", "members", 0, ">= 1"),
        ("narl-ucbvi", "fakes", 0, ">= 1"),
        ("narl-ucbvi", "c", -1, ">= 0"),
        ("ucrl2", "delta", 0.0, "> 0"),
        ("ucrl2", "delta", 1.0, "< 1"),
        ("ucrl2", "scale", -1.0, ">= 0"),
        ("ucrl2-tabularl", "delta", 2, "< 1"),
        ("ucbvi", "scale", -0.5, ">= 0"),
        ("psrl", "alpha0", 0, "> 0"),
        ("psrl", "tau", 0.0, "> 0"),
        ("opsrl", "tau0", -1, "> 0"),
        ("opsrl", "members", 0, ">= 1"),
        ("rlsvi", "c", -0.1, ">= 0"),
    ],
)
def test_a_value_out_of_range_is_answered_with_the_range(name, option, wrong, bound):
    line = refusal(name, **{option: wrong})
    assert line.startswith(f"{option}: {wrong} is out of range")
    assert line.endswith(f"it must be {bound}")


def test_every_number_but_a_prior_mean_has_a_range():
    for name, option in NUMERIC:
        if option != "mu0":
            assert refusal(name, **{option: -1}).startswith(f"{option}: -1 is out of range")


def test_a_number_of_members_is_whole():
    assert "whole number" in refusal("narl-ucrl", members=2.5)
    assert "whole number" in refusal("opsrl", members=2.0)


def test_members_of_a_bootstrap_hold_rewards_and_dynamics_together():
    line = refusal("narl-ucrl", noise="bootstrap", members_r=5)
    assert line.startswith("members_r: ")
    assert "10" in line
    options = agent_options("narl-ucrl", noise="bootstrap", members=5, members_r=5)
    assert options.members_r == 5


@pytest.mark.parametrize("noise", ["bootstrap", "dirichlet"])
def test_a_projection_needs_gaussian_noise(noise):
    line = refusal("narl-ucrl", noise=noise, measure="simplex")
    assert line.startswith("measure: ")
    assert "'signed'" in line


# --- values --------------------------------------------------------------------------------


def test_numpy_numbers_are_numbers():
    options = agent_options("opsrl", members=np.int64(3), alpha0=np.float32(0.5))
    assert options == agent_options("opsrl", members=3, alpha0=0.5)
    assert type(options.members) is int
    assert type(options.alpha0) is float


def test_whole_and_real_numbers_of_one_value_are_one_configuration():
    options = agent_options("rlsvi", c=1)
    assert type(options.c) is float
    assert options == agent_options("rlsvi", c=1.0)


def test_one_agent_per_set_of_options():
    # Compiled programs are found by the agent's identity.
    problem = make_problem(riverswim(), 10)

    def made(**options):
        return make_agent("narl-ucrl", agent_options("narl-ucrl", **options), problem)

    assert isinstance(made(), Agent)
    assert made() is made()
    assert made(noised="reward") is made()
    assert made(c=0.5) is not made()
    assert made(members=10) is made(members_r=10)


def test_theorem_sizes_depend_on_the_problem():
    options = agent_options("narl-ucrl", noise="theorem")
    short, long = (make_problem(riverswim(), k) for k in (10, 10**6))
    assert make_agent("narl-ucrl", options, short) is not make_agent("narl-ucrl", options, long)
    assert make_agent("narl-ucrl", options, short) is make_agent("narl-ucrl", options, short)
