"""The types of options that editors and mypy see are those of the configuration."""

import subprocess
import sys
import typing
from collections.abc import Sequence
from pathlib import Path

import pytest

from narl.deep.config import Config
from narl.deep.option_types import AgentSettings, Settings
from narl.deep.training_run import TrainingOptions, TrainingSettings
from narl.options import option_fields
from narl.tabular.checked_options import all_option_fields
from narl.tabular.config import Config as TabularConfig
from narl.tabular.option_types import AgentSettings as TabularSettings
from narl.tabular.option_types import Settings as TabularConfigSettings
from narl.tabular.options import AGENT_OPTIONS

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {"env", "algo", "seeds", "termination"}
"""Options that are arguments of their own."""


def test_settings_of_agents_are_the_fields_of_the_configuration():
    declared = {field.name: field.annotation for field in option_fields(Config)}
    expected = {
        name: Sequence[int] if typing.get_origin(hint) is tuple else hint
        for name, hint in declared.items()
        if name not in ELSEWHERE
    }
    assert typing.get_type_hints(AgentSettings) == expected
    whole = typing.get_type_hints(Settings)
    assert set(whole) == set(declared) - {"env", "algo"}
    assert whole["termination"] == declared["termination"]


def test_settings_of_a_training_are_the_fields_of_its_options():
    assert typing.get_type_hints(TrainingSettings) == typing.get_type_hints(TrainingOptions)


def kinds_of(hint: typing.Any) -> set[typing.Any]:
    """Return the types and the choices that a hint allows."""
    if typing.get_origin(hint) is typing.Literal:
        return set(typing.get_args(hint))
    parts = typing.get_args(hint)
    return set().union(*map(kinds_of, parts)) if parts else {hint}


def test_settings_of_tabular_agents_allow_what_some_agent_takes():
    hints = typing.get_type_hints(TabularSettings)
    assert set(hints) == {field.name for field in all_option_fields()}
    for name, hint in hints.items():
        declared = [
            field.annotation
            for options in AGENT_OPTIONS.values()
            for field in option_fields(options)
            if field.name == name
        ]
        assert kinds_of(hint) == set().union(*map(kinds_of, declared)), name


def test_settings_of_a_tabular_configuration_are_its_fields_and_those_of_agents():
    hints = typing.get_type_hints(TabularConfigSettings)
    agents = typing.get_type_hints(TabularSettings)
    own = {name: hint for name, hint in hints.items() if name not in agents}
    declared = {field.name: field for field in option_fields(TabularConfig)}
    assert set(own) == set(declared) - {"agent", "env"}
    for name in set(own) - {"seeds", "preset"}:
        assert own[name] == declared[name].annotation, name
    assert kinds_of(own["preset"]) == {*declared["preset"].option.choices, type(None)}


@pytest.mark.slow
def test_mypy_finds_misspelled_and_mistyped_settings(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import narl\n"
        "narl.NARL('X', lerning_rate=3)\n"
        "narl.NARL('X', learning_rate='3')\n"
        "narl.NARL('X', learning_rate=3e-4, hidden=[8, 8], radius=None, seeds='0:5')\n"
        "narl.run('psrl', 'riverswim', seeds='0:5', members=3)\n"
        "narl.run('psrl', 'riverswim', memebers=3)\n"
        "narl.deep.make_config('X', 'narl', exclude='bal')\n"
        "narl.tabular.make_config('psrl', 'riverswim', episodes=9, seeds='0:3', tau=2.0)\n"
        "narl.tabular.make_config('psrl', 'riverswim', alpha=3)\n"
        "narl.tabular.make_config('psrl', 'riverswim', episodes='9')\n"
        "narl.deep.run_training([], 'runs', fresh=True, on_epoch=lambda row: False)\n"
        "narl.deep.run_training([], 'runs', frehs=True)\n"
        "narl.deep.run_training([], 'runs', keep_data='yes')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if "program.py" in line and "error" in line]
    assert [int(line.split(":")[1]) for line in lines] == [2, 3, 6, 7, 9, 10, 12, 13], done.stdout
