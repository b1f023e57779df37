"""The options of the agents: defaults, presets, checks, and the registry that builds agents."""

import dataclasses

import numpy as np
import pytest

from narl.errors import InputError
from narl.options import choices_of, option_fields, split_optional
from narl.tabular import AGENTS, PRESETS, Agent, agent_options, riverswim
from narl.tabular.options import AGENT_OPTIONS, NarlUcrl, all_option_fields, used_by
from narl.tabular.problem import make_problem
from narl.tabular.registry import make_agent

OPTIONS = [(agent, field) for agent in AGENTS for field in option_fields(AGENT_OPTIONS[agent])]


def error_of(*args, **options) -> str:
    """Return the line with which options are refused."""
    with pytest.raises(InputError) as caught:
        agent_options(*args, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("agent", AGENTS)
def test_agent_options_accept_their_own_defaults(agent):
    options = agent_options(agent)
    assert isinstance(options, AGENTS[agent].options)
    assert agent_options(agent, **dataclasses.asdict(options)) == options
    # Every field is an option with a help text.
    assert len(option_fields(type(options))) == len(dataclasses.fields(options))
    assert all(field.option.help for field in option_fields(type(options)))


def test_agent_options_change_only_the_given_option():
    options = agent_options("narl-ucrl", c=0.3, noise="bootstrap")
    assert options == dataclasses.replace(NarlUcrl(), c=0.3, noise="bootstrap")


def test_preset_paper_is_the_paper_as_printed():
    options = agent_options("narl-ucrl", "paper")
    assert dataclasses.asdict(options) == {
        **dataclasses.asdict(NarlUcrl()),
        "noise": "gaussian",
        "noised": "both",
        "measure": "signed",
        "c": 1.0,
        "members": 10,
        "members_r": None,
        "members_p": None,
        "clip": "none",
        "clip_reward": False,
        "per_stage": False,
    }
    assert agent_options("narl-ucbvi", "paper").rescaled is False
    assert agent_options("ucrl2", "paper").clip == "none"
    assert agent_options("psrl", "paper") == agent_options("psrl")
    assert set(PRESETS["paper"]) <= set(AGENTS)
    assert agent_options("narl-ucrl", "paper", c=0.5) == dataclasses.replace(options, c=0.5)


def test_merged_options_name_their_agents_and_all_choices():
    merged = {field.name: field for field in all_option_fields()}
    assert set(merged) == {field.name for _, field in OPTIONS}
    for agent, field in OPTIONS:
        assert agent in merged[field.name].option.used_by
        assert merged[field.name].option.help == field.option.help
        choices = choices_of(field.annotation, field.option)
        assert set(choices) <= set(merged[field.name].option.choices)
        kinds = (
            split_optional(field.annotation)[0],
            split_optional(merged[field.name].annotation)[0],
        )
        assert choices or kinds[0] is kinds[1]
    assert merged["clip"].option.used_by == used_by("clip") == ("narl-ucrl", "ucrl2", "rlsvi")
    assert "0.1 for rlsvi" in merged["c"].option.default_hint(None)


# --- mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "options", "start", "right"),
    [
        (("narl-ucr",), {}, "agent: ", "did you mean 'narl-ucrl'?"),
        (("narl-ucrl", "papre"), {}, "preset: ", "'paper'"),
        (("narl-ucrl",), {"membres": 3}, "option: ", "'members'"),
        (("greedy",), {"c": 1.0}, "c: it has no effect with agent greedy", "rlsvi"),
        (("narl-ucrl",), {"noise": "bootstrap", "members_r": 5}, "members_r: ", "10"),
        (("narl-ucrl",), {"noise": "bootstrap", "measure": "simplex"}, "measure: ", "'signed'"),
        (("narl-ucrl",), {"noise": "dirichlet", "measure": "simplex"}, "measure: ", "'signed'"),
    ],
)
def test_agent_options_refuse_what_does_not_fit(args, options, start, right):
    line = error_of(*args, **options)
    assert line.startswith(start)
    assert right in line


def test_bootstrap_members_may_be_spelled_out():
    options = agent_options("narl-ucrl", noise="bootstrap", members=5, members_r=5)
    assert options.members_r == 5


@pytest.mark.parametrize("field", all_option_fields(), ids=lambda field: field.name)
def test_option_refuses_another_type_and_values_out_of_range(field):
    name = field.name
    for agent in field.option.used_by:
        (own,) = [own for own in option_fields(AGENT_OPTIONS[agent]) if own.name == name]
        kind, option = split_optional(own.annotation)[0], own.option
        if choices := choices_of(own.annotation, option):
            line = error_of(agent, **{name: "no-such-choice"})
            assert all(choice in line for choice in choices)
            continue
        wrong = (1, "true", None)
        if kind is not bool:
            wrong = ("3", [1], True, float("nan"), option.minimum - 1, 2 * option.maximum)
            ends = {option.minimum: option.above_minimum, option.maximum: option.below_maximum}
            for value in (end for end, is_open in ends.items() if not is_open):
                assert getattr(agent_options(agent, **{name: value}), name) == value
        for value in wrong:
            assert error_of(agent, **{name: value}).startswith(f"{name}: ")


# --- values and agents ---------------------------------------------------------------------


def test_numbers_of_one_value_are_one_configuration():
    options = agent_options("opsrl", members=np.int64(3), alpha0=np.float32(0.5), tau=1)
    assert options == agent_options("opsrl", members=3, alpha0=0.5, tau=1.0)
    assert [type(options.members), type(options.alpha0), type(options.tau)] == [int, float, float]


def test_make_agent_returns_one_agent_per_set_of_options():
    # Compiled programs are found by the agent's identity.
    problem = make_problem(riverswim(), 10)

    def made(problem=problem, **options):
        return make_agent("narl-ucrl", agent_options("narl-ucrl", **options), problem)

    assert isinstance(made(), Agent)
    assert made() is made(noised="reward") is made(members=10) is made(members_r=10)
    assert made(c=0.5) is not made()
    # The sizes of Theorem 1 depend on the problem.
    longer = make_problem(riverswim(), 10**6)
    assert made(noise="theorem") is made(noise="theorem")
    assert made(noise="theorem") is not made(longer, noise="theorem")
