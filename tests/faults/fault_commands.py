"""Generated command lines and configurations: answered, or refused in one line."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from unittest import mock

from fault_artifacts import Artifacts
from fault_tally import Tally, call_narl, check_answer, refused_in_one_line

from narl.deep import training_run
from narl.deep.config import Config as TrainingConfig
from narl.errors import Failure
from narl.options import OptionField, option_fields
from narl.tabular.checked_options import all_option_fields
from narl.tabular.config import Config as TabularConfig

VALID = "this training would begin"
WORDS = [
    *("", " ", "-", "--", "---", "-1", "0", "1e999", "nan", "inf", "none", "None", "True", "[]"),
    *("0:5", "5:0", "0:5:0", "1,2", ",", "a,b", "../..", "/dev/null", "x" * 300, "é", "\udc80"),
    *("Hopper-v5", "Pendulum-v1", "Hoper-v5", "evil:X-v0", ":", "a:b:c", "1" * 40, "0x10", "1_0"),
    *("--help", "--json", "--version", "--debug=1", "-h", "--", "${HOME}", "$(ls)", "a\nb", "%s"),
]
"""Words that people and scripts type by mistake."""
ENVIRONMENTS = ["Pendulum-v1", "MountainCarContinuous-v0", "CartPole-v1", "riverswim", "chain"]
COMMANDS = ["tabular", "train", "runs", "resume", "eval", "report", "reproduce", "paper", "help"]


def _value(field: OptionField, random: Random) -> str:
    """Return a value of an option: often a valid one, or one near its bounds."""
    option = field.option
    choices = [str(choice) for choice in option.choices] or [option.example or "1"]
    bounds = [x for x in (option.minimum, option.maximum) if x is not None and abs(x) < 1e9]
    near = [str(x + step) for x in bounds for step in (-1, 0, 1, 0.5)]
    return random.choice(
        [*choices, *choices, *near, *near, "2", "3", "0.5", *random.sample(WORDS, 3)]
    )


def _options(fields: list[OptionField], random: Random) -> list[str]:
    words = []
    for field in random.sample(fields, random.choice([0, 1, 1, 2, 3, 6])):
        name = "--" + field.name.replace("_", "-")
        if random.random() < 0.05:
            name = name[:-1]
        if random.random() < 0.15:
            words.append(name)
        elif random.random() < 0.5:
            words.append(f"{name}={_value(field, random)}")
        else:
            words += [name, _value(field, random)]
    return words


def generate_words(random: Random, made: Artifacts) -> list[str]:
    """Return the words of a command line; it ends quickly where it is valid."""
    command = random.choice(
        [*COMMANDS, "train", "tabular", "train", "tabular", random.choice(WORDS)]
    )
    runs = [*(path.name for path in made.runs.iterdir()), *WORDS, str(made.agent), str(made.mdp)]
    run = random.choice(runs)
    words = [command]
    if command == "train":
        words += [
            random.choice([*ENVIRONMENTS, *WORDS]),
            f"--algo={random.choice(['narl', 'sac'])}",
        ]
        words += _options(option_fields(TrainingConfig), random)
    elif command == "tabular":
        words += [random.choice(["psrl", "greedy", "narl-ucrl", *WORDS[:8]])]
        words += [random.choice([*ENVIRONMENTS, *WORDS, str(made.mdp)])]
        fields = [*option_fields(TabularConfig), *all_option_fields()]
        words += _options([field for field in fields if field.name != "episodes"], random)
        words += ["--episodes=3"]
    elif command == "runs":
        words += random.choice([[], ["list"], ["show", run], ["shw", run], ["remove", run]])
    elif command in ("resume", "report"):
        words += [run]
    elif command == "eval":
        words += [run, random.choice(["--episodes=1", "--episodes=0", "--seed=7", "--seed=x"])]
    elif command in ("reproduce", "paper"):
        words += [random.choice(WORDS), *random.sample(WORDS, random.randrange(2))]
    words += random.sample(WORDS, random.choice([0, 0, 0, 1, 2]))
    if random.random() < 0.3:
        words.append("--json")
    if random.random() < 0.1:
        random.shuffle(words)
    return words


@contextlib.contextmanager
def _without_work() -> Iterator[None]:
    """Let valid trainings and experiments end where they would begin."""

    def would_begin(*arguments: object, **options: object) -> None:
        raise Failure(VALID)

    with (
        mock.patch.object(training_run, "_train", would_begin),
        mock.patch("narl.tabular.stored_run._run_missing", would_begin),
        mock.patch("narl.report.write_report", would_begin),
        mock.patch("narl.compilation.enable_cache", return_value=None),
    ):
        yield


def try_command_lines(made: Artifacts, number: int, folder: Path, seed: int = 0) -> Tally:
    """Call `narl` with generated words, in a folder with runs."""
    tally, random = Tally("generated command lines"), Random(seed)
    copy, before = made.copy_to(folder / "copy"), Path.cwd()
    names = sorted(path.name for path in copy.folder.iterdir())
    os.chdir(copy.folder)
    try:
        with _without_work():
            for i in range(number):
                words = generate_words(random, copy)
                with tally.trial(f"{i} {words}", seconds=60):
                    answer = call_narl(*words)
                    if VALID not in answer.err:
                        check_answer(answer)
                    if random.random() < 0.01 and "remove" not in words:
                        left = sorted(path.name for path in copy.folder.iterdir())
                        assert {*names} <= {*left}, left
    finally:
        os.chdir(before)
    return tally


def try_configurations(number: int, seed: int = 0) -> Tally:
    """Make configurations from generated options, of any type."""
    import numpy as np

    from narl.deep.checked_config import make_config as make_training
    from narl.tabular.config import make_config as make_tabular

    tally, random = Tally("generated configurations"), Random(seed)
    values = [
        *(None, True, False, 0, 1, -1, 2.5, float("nan"), float("inf"), 10**30, "", "x", b"x", []),
        *((), (1,), (1, 2), [0, 1], {}, {"a": 1}, np.float32(1), np.array([1, 2]), object(), "0:3"),
    ]
    kinds = [
        (make_training, ("Pendulum-v1", "narl"), option_fields(TrainingConfig)),
        (
            make_tabular,
            ("psrl", "riverswim"),
            [*option_fields(TabularConfig), *all_option_fields()],
        ),
    ]
    for i in range(number):
        make, first, fields = random.choice(kinds)
        chosen = random.sample(fields, random.choice([1, 1, 2, 3]))
        given = {field.name: random.choice(values) for field in chosen}
        given = {name: x for name, x in given.items() if name not in ("env", "algo", "agent")}
        with tally.trial(f"{i} {given}", seconds=60), refused_in_one_line():
            assert make(*first, **given).run_id
    return tally
