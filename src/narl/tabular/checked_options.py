"""The checked options of an agent, and the options of all agents as one list."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable
from typing import Any, Literal

from narl.display import in_words
from narl.errors import InputError, NoEffect, unknown
from narl.options import (
    OptionField,
    check_effect,
    check_used_by,
    check_value,
    has_effect,
    option_fields,
    options_of,
)
from narl.tabular.options import AGENT_OPTIONS, PRESETS, AgentOptions, NarlUcrl


def used_by(name: str) -> tuple[str, ...]:
    """Return the agents that have an option of this name."""
    return tuple(
        agent
        for agent, options in AGENT_OPTIONS.items()
        if any(field.name == name for field in dataclasses.fields(options))
    )


def agent_options(agent: str, preset: str | None = None, **given: Any) -> AgentOptions:
    """Return the checked options of an agent: the preset's or the defaults, then the given ones.

    A given option that has no effect is an error, and so is a preset that changes nothing.

    Args:
        agent: A name of `AGENTS`.
        preset: A name of `PRESETS`.
        **given: Options by name.

    Returns:
        The options, which `run` takes in place of a name.

    Example:
        >>> options = narl.tabular.agent_options("narl-ucrl", members=20)
        >>> options.members, options.noise
        (20, 'gaussian')
    """
    if agent not in AGENT_OPTIONS:
        raise unknown("agent", agent, AGENT_OPTIONS)
    options = AGENT_OPTIONS[agent]()
    if preset is not None:
        options = _preset_options(agent, preset)
    names = {field.name for field in all_option_fields()}
    for name in given:
        if name not in names:
            raise unknown("option", name, sorted(names))
    check_used_by(given, used_by, agent, "agent")
    fields = {field.name: field for field in option_fields(type(options))}
    for name, value in given.items():
        given[name] = check_value(name, value, fields[name].annotation, fields[name].option)
    options = dataclasses.replace(options, **given)
    descriptions = options_of(options)
    check_effect(given, descriptions, _values(options))
    if isinstance(options, NarlUcrl):
        _check_measure(options)
    if preset is not None:
        changed = [
            field.name
            for field in option_fields(type(options))
            if field.name not in given and getattr(options, field.name) != field.default
        ]
        if not any(has_effect(descriptions[name], _values(options)) for name in changed):
            raise InputError(f"preset: {preset!r} changes nothing with these options; leave it out")
    return options


def _preset_options(agent: str, preset: str) -> AgentOptions:
    if not isinstance(preset, str) or preset not in PRESETS:
        raise unknown("preset", str(preset), PRESETS)
    if agent not in PRESETS[preset]:
        raise NoEffect(
            "preset",
            f"{preset!r} has no effect with agent {agent}, "
            f"only with {in_words([*PRESETS[preset]])}; leave it out",
        )
    return PRESETS[preset][agent]


def _values(options: AgentOptions) -> dict[str, Any]:
    """Return the values of all options by name, defaults that depend on others filled in."""
    noised = {"noised": options.noised_parts} if isinstance(options, NarlUcrl) else {}
    return vars(options) | noised


def _check_measure(options: NarlUcrl) -> None:
    """Refuse a projection of dynamics that bootstrap members already estimate as distributions."""
    if options.noise == "bootstrap" and options.measure == "simplex":
        raise InputError(
            "measure: 'simplex' is for gaussian and theorem noise; "
            "with bootstrap noise the nearest is 'signed'"
        )


@functools.cache
def all_option_fields() -> tuple[OptionField, ...]:
    """Return the options of all agents, each once, with the agents that use it.

    None stands for the default of the agent.
    """
    by_name: dict[str, dict[str, OptionField]] = {}
    for agent, options in AGENT_OPTIONS.items():
        for field in option_fields(options):
            by_name.setdefault(field.name, {})[agent] = field
    return tuple(_merge(by_agent) for by_agent in by_name.values())


def _merge(by_agent: dict[str, OptionField]) -> OptionField:
    """Return one field for an option that several agents have, perhaps with other choices."""
    first = next(iter(by_agent.values()))
    users: dict[str, list[str]] = {}
    for agent, field in by_agent.items():
        users.setdefault(field.option.default_as_text(field.default), []).append(agent)
    texts = [f"{text} for {' and '.join(agents)}" for text, agents in users.items()]
    # Conditions that differ between agents are left to the checks of each agent.
    is_shared = all(field.option.only_with == first.option.only_with for field in by_agent.values())
    description = dataclasses.replace(
        first.option,
        used_by=tuple(by_agent),
        only_with=first.option.only_with if is_shared else (),
        choices=_all_choices(field.annotation for field in by_agent.values()),
        default_text=next(iter(users)) if len(users) == 1 else ", ".join(texts),
    )
    return OptionField(first.name, first.annotation, description, None)


def _all_choices(annotations: Iterable[Any]) -> tuple[str, ...]:
    """Return the choices of several Literal types (or None), each once."""
    kinds = [kind for hint in annotations for kind in (hint, *typing.get_args(hint))]
    literals = [kind for kind in kinds if typing.get_origin(kind) is Literal]
    return tuple(dict.fromkeys(choice for kind in literals for choice in typing.get_args(kind)))
