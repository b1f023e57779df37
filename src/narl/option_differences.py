"""The options in which configurations differ, from each other or from the defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from narl.options import as_text


def differing_options(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the options that do not have one value in all configurations.

    Values are compared as they are typed, because JSON has lists for tuples. An option that only
    some configurations have differs, too.
    """
    names = dict.fromkeys(name for options in configs for name in options)
    return [
        name
        for name in names
        if len({as_text(options[name]) if name in options else None for options in configs}) > 1
    ]


def without_defaults(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options without those that have their default value."""
    return {
        name: value
        for name, value in options.items()
        if name not in defaults or as_text(defaults[name]) != as_text(value)
    }
