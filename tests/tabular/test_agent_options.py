"""The options of the agents: defaults, presets, checks, and the registry that builds agents."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl.errors import InputError
from narl.options import OptionField, choices_of, option_fields, split_optional
from narl.tabular import AGENTS, PRESETS, Agent, agent_options, riverswim
from narl.tabular.agent_registry import make_agent
from narl.tabular.checked_options import all_option_fields, used_by
from narl.tabular.mdp import Episode
from narl.tabular.options import AGENT_OPTIONS, AgentOptions, NarlUcrl
from narl.tabular.problem import make_problem

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
    # Every field is an option with a help text.
    assert len(option_fields(type(options))) == len(dataclasses.fields(options))
    assert all(field.option.help for field in option_fields(type(options)))


def test_agent_options_change_only_the_given_option():
    options = agent_options("narl-ucrl", c=0.3, noised="both")
    assert options == dataclasses.replace(NarlUcrl(), c=0.3, noised="both")


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
    assert agent_options("narl-ucbvi", "paper", noise="fake-reward").rescaled is False
    assert agent_options("ucrl2", "paper").clip == "none"
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


def needed_options(field: OptionField) -> dict[str, Any]:
    """Return options that give an option an effect."""
    ways = field.option.only_with
    return {name: valid[0] for name, valid in ways[0].items() if valid[0]} if ways else {}


# --- mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "options", "start", "right"),
    [
        (("narl-ucr",), {}, "agent: ", "did you mean 'narl-ucrl'?"),
        (("narl-ucrl", "papre"), {}, "preset: ", "'paper'"),
        (("narl-ucrl",), {"membres": 3}, "option: ", "'members'"),
        (("greedy",), {"c": 1.0}, "c: it has no effect with agent greedy", "rlsvi"),
        (("narl-ucrl",), {"noise": "bootstrap", "members_r": 5}, "members_r: ", "noise gaussian"),
        (("narl-ucrl",), {"noise": "bootstrap", "measure": "simplex"}, "measure: ", "'signed'"),
        (("psrl", "paper"), {}, "preset: 'paper' has no effect with agent psrl", "narl-ucrl"),
        (("narl-ucbvi", "paper"), {}, "preset: 'paper' changes nothing", "leave it out"),
        (("ucrl2", "paper"), {"clip": "none"}, "preset: 'paper' changes nothing", "leave it out"),
    ],
)
def test_agent_options_refuse_what_does_not_fit(args, options, start, right):
    line = error_of(*args, **options)
    assert line.startswith(start)
    assert right in line


@pytest.mark.parametrize(
    ("agent", "options", "line"),
    [
        ("narl-ucrl", {"measure": "signed"}, "noised reward, only with noised dynamics or both"),
        ("narl-ucrl", {"per_stage": True}, "noised reward, only with noised dynamics or both"),
        ("narl-ucrl", {"members_p": 3}, "noised reward, only with noised dynamics or both"),
        ("narl-ucrl", {"corrected": True}, "noise gaussian, only with noise theorem"),
        ("narl-ucrl", {"epsilon": 0.1}, "noise gaussian, only with noise theorem"),
        ("narl-ucrl", {"empty": "one"}, "noise gaussian, only with noise bootstrap"),
        ("narl-ucrl", {"c": 1, "noise": "bootstrap"}, "noise bootstrap, only with noise gaussian"),
        ("narl-ucrl", {"c": 1, "noise": "theorem"}, "noise theorem, only with noise gaussian"),
        (
            "narl-ucrl",
            {"members": 3, "noise": "theorem"},
            "noise theorem, only with noise gaussian or dirichlet or bootstrap or bootstrap-prior",
        ),
        ("narl-ucbvi", {"fakes": 3}, "noise gaussian, only with noise fake-reward"),
        ("ucbvi", {"delta": 0.1}, "constants practical, only with constants theory"),
        (
            "rlsvi",
            {"c": 1, "constants": "theory"},
            "constants theory, only with constants practical",
        ),
    ],
)
def test_option_without_effect_is_refused_in_one_line(agent, options, line):
    name = next(iter(options))
    assert error_of(agent, **options) == f"{name}: it has no effect with {line}; leave it out"


BASES: dict[str, list[dict[str, Any]]] = {
    "narl-ucrl": [
        {},
        {"noised": "both"},
        {"noised": "dynamics", "members_p": 3},
        {"members_r": 3},
        {"noise": "theorem"},
        {"noise": "theorem", "corrected": True},
        {"noise": "theorem", "noised": "reward"},
        {"noise": "bootstrap"},
        {"noise": "bootstrap", "empty": "one"},
        {"noise": "bootstrap", "noised": "reward"},
        {"noise": "bootstrap-prior"},
        {"noise": "dirichlet"},
        {"noise": "dirichlet", "members_r": 3, "members_p": 3},
    ],
    "narl-ucbvi": [
        {},
        {"noise": "theorem"},
        {"noise": "fake-reward"},
        {"noise": "fake-reward", "corrected": True},
        {"noise": "fake-reward", "fakes": 3},
    ],
    "ucbvi": [{}, {"bonus": "bernstein"}, {"constants": "theory"}, {"bonus": "simplified"}],
    "rlsvi": [{}, {"constants": "theory"}],
    **{agent: [{}] for agent in ("ucrl2", "ucrl2-tabularl", "psrl", "opsrl")},
}


def program_of(options: AgentOptions) -> str:
    """Return the three functions of an agent as JAX traces them, numbers included."""
    problem, key = make_problem(riverswim(horizon=3), 10), jax.random.key(0)
    agent = make_agent(options, problem)
    state = agent.init(key, problem)
    episode = Episode(jnp.zeros(4, int), jnp.zeros(3, int), jnp.zeros(3))
    traced = (
        jax.make_jaxpr(lambda key: agent.init(key, problem))(key),
        jax.make_jaxpr(agent.plan)(key, problem, state),
        jax.make_jaxpr(agent.observe)(key, problem, state, episode),
    )
    return "\n".join(map(str, traced))


def other_value(field: OptionField, value: Any) -> Any:
    """Return a valid value of an option that is not the given one."""
    if choices := choices_of(field.annotation, field.option):
        return next(choice for choice in choices if choice != value)
    kind, _ = split_optional(field.annotation)
    return {bool: not value, int: 17, float: 0.25}[kind]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "base"), [(agent, base) for agent, bases in BASES.items() for base in bases]
)
def test_options_are_refused_exactly_where_they_have_no_effect(agent, base):
    options = agent_options(agent, **base)
    program = program_of(options)
    for field in option_fields(type(options)):
        name = field.name
        now = getattr(options, "noised_parts" if name == "noised" else name)
        value = other_value(field, now)
        if name in base or name in ("noise", "bonus", "constants"):
            continue
        try:
            agent_options(agent, **base, **{name: value})
            accepted = True
        except InputError as error:
            accepted = False
            if not str(error).startswith(f"{name}: it has no effect"):
                continue  # the new value takes the effect of an option of the base
        # `replace` sets the value without the checks.
        changed = program_of(dataclasses.replace(options, **{name: value})) != program
        assert changed == accepted, name


def test_strong_prior_is_a_preset_of_posterior_sampling():
    for agent in ("psrl", "opsrl"):
        options = agent_options(agent, "strong-prior")
        assert (options.alpha0, options.tau, options.mu0, options.tau0) == (None, 1e4, 0.0, 1.0)
        assert agent_options(agent, "strong-prior", tau=5.0).tau == 5.0
        resolved = AGENTS[agent].resolve(options, make_problem(riverswim(), 10))
        assert resolved == dataclasses.replace(options, alpha0=1 / 6)
        assert agent_options(agent, alpha0=None, tau=1e4) == options
    line = error_of("narl-ucrl", "strong-prior")
    assert line.startswith("preset: 'strong-prior' has no effect with agent narl-ucrl")


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
                others = needed_options(own)
                assert getattr(agent_options(agent, **others, **{name: value}), name) == value
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
        return make_agent(agent_options("narl-ucrl", **options), problem)

    assert isinstance(made(), Agent)
    assert made() is made(noised="reward") is made(members=10) is made(members_r=10)
    assert made(c=0.5) is not made()
    # The sizes of Theorem 1 depend on the problem.
    longer = make_problem(riverswim(), 10**6)
    assert made(noise="theorem") is made(noise="theorem")
    assert made(noise="theorem") is not made(longer, noise="theorem")
