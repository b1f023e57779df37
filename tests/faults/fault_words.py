"""Strategies of Hypothesis for the words of command lines and for options of configurations.

The first choices are the plain ones, because Hypothesis makes a failing example smaller in that
direction. Words that name files to be written are chosen from lists, so that nothing is written
outside of the folder of a test.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np
from fault_artifacts import Artifacts
from hypothesis import strategies as st

from narl.deep.config import Config as TrainingConfig
from narl.experiments import EXPERIMENTS
from narl.options import OptionField, as_text, choices_of, option_fields, split_optional
from narl.tabular.checked_options import all_option_fields
from narl.tabular.config import Config as TabularConfig

Words = list[str]
TRAINING = tuple(option_fields(TrainingConfig))
TABULAR = (*option_fields(TabularConfig), *all_option_fields())
MISTAKES = [
    *("", " ", "-", "--", "---", "-1", "0", "1e999", "nan", "inf", "none", "None", "True", "[]"),
    *("0:5", "5:0", "0:5:0", "1,2", ",", "a,b", "../..", "/dev/null", "x" * 300, "é", "\udc80"),
    *("Hopper-v5", "Pendulum-v1", "Hoper-v5", "evil:X-v0", ":", "a:b:c", "1" * 40, "0x10", "1_0"),
    *("--help", "--json", "--version", "--debug=1", "-h", "--", "${HOME}", "$(ls)", "a\nb", "%s"),
]
"""Words that people and scripts type by mistake."""
ENVIRONMENTS = ["Pendulum-v1", "MountainCarContinuous-v0", "CartPole-v1", "Hopper-v5"]
TABULAR_ENVIRONMENTS = ["riverswim", "deep-sea", "random-mdp", "stochastic-chain", "gym:Taxi-v3"]
ALGORITHMS = ["sac", "narl", "mbpo", "thompson", "sombrl"]
AGENTS = ["psrl", "greedy", "narl-ucrl", "narl-ucbvi", "ucrl2"]
PLACES = ["new", "runs", "no/such/folder", "grid.toml", "/dev/null/x", "x" * 300, ".", "../..", ""]
"""Folders and files; `try_command_lines` calls narl two folders below that of the test."""
TABLES = ["new.csv", "no/such/folder/new.csv", "/dev/null/x.csv", "runs/.csv", *PLACES]
COMMANDS = [
    *("runs", "tabular", "train", "sweep", "tune", "extend", "resume", "eval", "play", "report"),
    *("reproduce", "paper", "doctor", "completion", "help", "other"),
    *("train", "tabular", "sweep"),  # these have the most options
]

# Neither a shell nor the system passes a null character on to a program.
TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12).filter(
    lambda text: not text.startswith("/")
)
NUMBERS = st.one_of(
    st.integers(-2, 20).map(str), st.integers().map(str), st.floats().map(str), st.just("2.5")
)
WORDS = st.one_of(st.sampled_from(MISTAKES), NUMBERS, TEXTS)


@st.composite
def _among(draw: st.DrawFn, words: Sequence[str], one_in: int = 8) -> str:
    """Draw one of the words; one time in so many, another."""
    is_other = draw(st.integers(1, one_in)) == one_in
    return draw(WORDS if is_other else st.sampled_from(list(words)))


def _values(field: OptionField) -> st.SearchStrategy[str]:
    """Return values of an option: often a valid one, or one near its bounds."""
    option = field.option
    kind, is_optional = split_optional(field.annotation)
    choices = [str(choice) for choice in choices_of(field.annotation, option)]
    if kind is bool:
        choices = ["on", "off", ""]
    elif not choices:
        bounds = [x for x in (option.minimum, option.maximum) if x is not None and abs(x) < 1e9]
        near = [f"{x + step:g}" for x in bounds for step in (0, 1, 0.5, -1)]
        default = [] if field.default in (None, dataclasses.MISSING) else [as_text(field.default)]
        choices = [*default, option.example or "1", *default, *default, *default, "2", *near]
    return _among([*choices, "none"] if is_optional else choices, one_in=12)


_VALUES = {id(field): _values(field) for field in (*TRAINING, *TABULAR)}


@st.composite
def _options(draw: st.DrawFn, fields: Sequence[OptionField], *, several: bool = False) -> Words:
    """Draw options of a configuration; with ``several``, each with up to three values."""
    words = []
    most = 2 if several else 4
    chosen = draw(st.lists(st.sampled_from(fields), max_size=most, unique_by=lambda x: x.name))
    for field in chosen:
        name = "--" + field.name.replace("_", "-")
        values = draw(st.lists(_VALUES[id(field)], min_size=1, max_size=3 if several else 1))
        kind, _ = split_optional(field.annotation)
        value = (";" if typing.get_origin(kind) is tuple else ",").join(values)
        forms = [[f"{name}={value}"], [name, value], [name], [f"{name[:-1]}={value}"]]
        if split_optional(field.annotation)[0] is bool and not several:
            forms = [[name], [name.replace("--", "--no-")], [f"{name}={value}"], [name, value]]
        words += forms[draw(st.sampled_from([0] * 9 + [1] * 9 + [2, 3]))]
    return words


@st.composite
def _some(
    draw: st.DrawFn, *groups: Sequence[str] | st.SearchStrategy[str], one_in: int = 3
) -> Words:
    """Draw a word from each of the groups, in their order, but only one time in so many."""
    words = []
    for group in groups:
        if draw(st.integers(1, one_in)) == one_in:
            words.append(draw(group if isinstance(group, st.SearchStrategy) else _among(group)))
    return words


def _with(name: str, values: Sequence[str]) -> st.SearchStrategy[str]:
    """Return an option with one of the values."""
    return st.sampled_from([f"{name}={value}" for value in values])


_COUNTS = ["1", "2", "0", "-1", "1e9", "x", "", "99999999999999999999"]
_RESOURCES = st.one_of(
    _with("--jobs", _COUNTS),
    _with("--group", _COUNTS),
    _with("--retries", _COUNTS),
    _with("--cpus", _COUNTS),
    _with("--gpus", ["1", "0", "0.25", "1.5", "nan", "-1"]),
    _with("--memory", ["1", "0", "0.5", "inf", "1e30"]),
    _with("--time", ["90", "1:30:00", "2-00:00:00", "0", "1:2:3:4", "99999999"]),
    _with("--address", ["auto", "127.0.0.1:1", "ray://nowhere:1", ":", ""]),
    _with("--slurm", ["partition=gpu", "a=b,c=d", "=", "x", ""]),
    _with("--env-timeout", ["10", "0", "nan"]),
)
_SCALES = _with("--scale", ["smoke", "smoke", "small", "tiny"])


@st.composite
def _swept(draw: st.DrawFn, made: Artifacts) -> Words:
    """Draw the words of `narl sweep`."""
    if draw(st.integers(0, 3)) == 0:
        words = [
            draw(st.sampled_from(["grid.toml", str(made.grid), "none.toml", "river.npz.toml"]))
        ]
        words += draw(_options(TRAINING, several=True))
    elif draw(st.booleans()):
        words = ["tabular", draw(_lists(AGENTS)), draw(_lists(TABULAR_ENVIRONMENTS))]
        words += ["--episodes=3", *draw(_options(TABULAR, several=True))]
    else:
        words = [draw(_lists(ENVIRONMENTS)), f"--algo={draw(_lists(ALGORITHMS))}"]
        words += draw(_options(TRAINING, several=True))
    actions = [["--dry-run"], ["--status"], ["--status", "--follow"], ["--executor=print"], []]
    words += draw(st.sampled_from([*actions, ["--executor=ray"], ["--executor=slurm"]]))
    return words + draw(
        _some(
            _RESOURCES, _with("--seeds-per-run", _COUNTS), _with("--csv", PLACES), _RUNS, one_in=6
        )
    )


def _lists(words: Sequence[str]) -> st.SearchStrategy[str]:
    """Return one to three words with commas between them."""
    return st.lists(_among(words, one_in=30), min_size=1, max_size=3, unique=True).map(",".join)


_RUNS = _with("--runs", PLACES)
_OVER = ["radius=0.01:1", "members=2:5", "exclude", "joint", "hidden", "radius", "seeds", "x=1:2"]
_SPANS = ["learning_rate=0:1", "learning_rate=1:1", "radius=nan:1", "batch=1:1e9", "steps=1:2:3"]


@st.composite
def command_lines(draw: st.DrawFn, made: Artifacts) -> Words:
    """Draw the words of a command line, which ends quickly where it is valid."""
    names = sorted(path.name for path in made.runs.iterdir())
    runs = _among([*names, "latest", "train", "agent", "river.npz"], one_in=4)
    command = draw(st.sampled_from(COMMANDS))
    words: Words
    if command == "train":
        words = ["train", draw(_among(ENVIRONMENTS)), f"--algo={draw(_among(ALGORITHMS))}"]
        words += draw(_options(TRAINING))
        words += draw(_some(["--keep-data", "--fresh", "--any-code", "--env-timeout=1"], _RUNS))
    elif command == "extend":
        words = ["train", "--extend", draw(_among([made.kept_id or "latest", *names], one_in=5))]
        words += draw(_some(_with("--steps", ["80", "60", "100", "0", "x", "1" * 30]), _RUNS))
        words += draw(_some(["--keep-data", "--any-code", "--fresh"], _options_of_checkpoints()))
    elif command == "tabular":
        words = ["tabular", draw(_among(AGENTS))]
        words += [draw(_among([*TABULAR_ENVIRONMENTS, "river.npz"])), "--episodes=3"]
        words += draw(_options([field for field in TABULAR if field.name != "episodes"]))
    elif command == "sweep":
        words = ["sweep", *draw(_swept(made))]
    elif command == "tune":
        words = ["tune", draw(_among(ENVIRONMENTS)), f"--algo={draw(_among(ALGORITHMS))}"]
        words += draw(_options(TRAINING))
        over = st.lists(st.sampled_from([*_OVER, *_SPANS]), min_size=1, max_size=3).map(",".join)
        words += draw(_some(over.map("--over={}".format), _with("--trials", _COUNTS), _RUNS))
        words += draw(_some(_with("--sampler-seed", _COUNTS)))
    elif command == "runs":
        actions = ["list", "show", "compare", "shw", "remove", "compare"]
        words = ["runs", *draw(_some(actions)), *draw(st.lists(runs, max_size=3))]
        words += draw(_some(["--all", "--yes", "--env=pendulum", "--algo=sac", "--env="], _RUNS))
    elif command in ("resume", "report"):
        words = [command, *draw(st.lists(runs, min_size=1, max_size=2))]
        words += draw(_some(["--env-workers=0", "--env-timeout=1", "--out=new.html", "--out=."]))
    elif command in ("eval", "play"):
        words = [command, draw(runs), draw(_with("--episodes", ["1", "0", "x"]))]
        words += draw(_some(["--seed=7", "--seed=x", "--seed=0"], ["--best"], _RUNS))
    elif command == "reproduce":
        words = ["reproduce", *draw(st.lists(_among([*EXPERIMENTS]), min_size=1, max_size=2))]
        words += [draw(_SCALES), *draw(_some(["--dry-run", "--executor=print", "--fresh"]))]
        parts = _with("--part", ["1/2", "2/2", "3/2", "x", "1/0", "1/999999"])
        executors = _with("--executor", ["local", "ray", "slurm", "print", "other"])
        words += draw(_some(parts, executors, _RESOURCES, _with("--minutes", _COUNTS), _RUNS))
    elif command == "doctor":
        words = ["doctor", *draw(_some(_RUNS))]
    elif command == "other":
        words = [draw(WORDS)]
    else:
        words = [command, *draw(st.lists(_among(["bash", "--json", "sweep"]), max_size=2))]
    most = draw(st.sampled_from([0, 0, 0, 0, 0, 2]))
    words += draw(st.lists(st.sampled_from(MISTAKES), max_size=most))
    if draw(st.integers(0, 2)) == 0:
        words.append("--json")
    return draw(st.permutations(words)) if draw(st.integers(0, 9)) == 9 else words


def _options_of_checkpoints() -> st.SearchStrategy[str]:
    return _with("--checkpoint-every", _COUNTS)


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [1, 0, 2, -1, 0.5, None, True, False, "0:3", "narl", "x", b"x", (1, 2), [0, 1]]
    ),
    st.integers(),
    st.floats(),
    st.text(max_size=4),
    st.lists(st.one_of(st.integers(), st.floats(), st.none()), max_size=3),
    st.tuples(st.integers(), st.integers()),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
    st.builds(np.float32, st.floats(width=32)),
    st.builds(np.int64, st.integers(-(2**60), 2**60)),
    st.builds(lambda values: np.array(values), st.lists(st.integers(-9, 9), max_size=3)),
    st.builds(object),
)
"""Values of any type."""


@st.composite
def configurations(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Draw "train" or "tabular" and options of such a configuration, each with any value."""
    half = draw(st.sampled_from(["train", "tabular"]))
    fields = [x for x in (TRAINING if half == "train" else TABULAR) if x.name not in _FIXED]
    names = draw(st.lists(st.sampled_from(fields), min_size=1, max_size=3, unique_by=id))
    first = {"algo": draw(st.sampled_from(ALGORITHMS))} if half == "train" else {}
    return half, first | {field.name: draw(_any_value(field)) for field in names}


_FIXED = ("env", "algo", "agent")


@st.composite
def _any_value(draw: st.DrawFn, field: OptionField) -> Any:
    """Draw a value of an option near its bounds; one time in three, a value of any type."""
    option = field.option
    kind, is_optional = split_optional(field.annotation)
    values: list[Any] = [*choices_of(field.annotation, option), *([None] if is_optional else [])]
    bounds = [x for x in (option.minimum, option.maximum) if x is not None]
    if kind is bool:
        values += [True, False]
    elif kind in (int, float):
        values += [kind(x + step) for x in bounds for step in (0, 1, 2, -1)] + [kind(3), 0.5]
    if not values or draw(st.integers(1, 3)) == 3:
        return draw(VALUES)
    return draw(st.sampled_from(values))
