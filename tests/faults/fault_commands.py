"""Generated command lines and configurations: answered, or refused in one line.

Hypothesis generates them; the seed decides which. Of those that are lost, it looks for smaller ones
that are lost for the same reason.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis
from fault_artifacts import Artifacts
from fault_tally import Answer, Tally, call_narl, check_answer, refused_in_one_line, time_limit
from fault_words import command_lines, configurations
from hypothesis import HealthCheck, Phase

from narl import storage
from narl.commands import sweep_console
from narl.commands.train import COMMAND
from narl.deep import training_run
from narl.deep.checked_config import config_from_record
from narl.deep.checked_config import make_config as make_training
from narl.deep.config import Config as TrainingConfig
from narl.errors import Failure
from narl.report.training_summary import command_of
from narl.sweeps.planned_run import runs_from_json, runs_to_json, sweep_run
from narl.tabular import stored_run
from narl.tabular.config import make_config as make_tabular

VALID = "this would begin now"
SECONDS = 60
"""The longest time that the answer to a command line may take."""
MOST_TURNS = 20
"""Times that Hypothesis is asked for more examples, where it gives the same ones again."""


def try_examples(
    tally: Tally,
    examples: hypothesis.strategies.SearchStrategy[Any],
    check: Callable[[Any], None],
    number: int,
    seed: int,
) -> None:
    """Check so many different examples; note the smallest for each reason by which one is lost."""

    def run(turn: int, num_examples: int, phases: list[Phase], each: Callable[[Any], None]) -> None:
        settings = hypothesis.settings(
            max_examples=num_examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=phases,
            suppress_health_check=list(HealthCheck),
        )
        hypothesis.seed(1000 * seed + turn)(settings(hypothesis.given(examples)(each)))()

    seen: set[str] = set()

    def count(example: Any) -> None:
        if len(seen) < number and (text := _short(example)) not in seen:
            seen.add(text)
            with tally.trial(text, seconds=SECONDS):
                check(example)

    numbers: list[int] = []
    while len(seen) < number and len(numbers) < MOST_TURNS:  # some examples are given again
        numbers.append(max(number - len(seen), 100))
        run(len(numbers), numbers[-1], [Phase.generate], count)
    if not tally.lost:
        return
    smallest: dict[str, str] = {}

    def fail(example: Any) -> None:
        try:
            with time_limit(SECONDS):
                check(example)
        except Exception as error:
            what = re.sub(r"[0-9]+|/\S+|'[^']*'", "…", str(error))  # without what differs
            reason = f"{type(error).__name__}: {what[:80]}"
            text = _short(example)  # of two that are equally long, the later one is simpler
            if len(text) <= len(smallest.get(reason, text)):
                smallest[reason] = text
            raise

    for turn, num_examples in enumerate(numbers, start=1):
        with contextlib.suppress(Exception):
            run(turn, num_examples, [Phase.generate, Phase.shrink], fail)
    tally.notes += [f"{reason}: smallest: {example}" for reason, example in smallest.items()]


def _short(example: Any) -> str:
    """Return an example as text, with long repetitions left out."""
    return re.sub(r"(.)\1{30,}", r"\1\1\1…", repr(example))


# --- command lines --------------------------------------------------------------------------------


@contextlib.contextmanager
def without_work() -> Iterator[list[TrainingConfig]]:
    """Let valid commands end where their work would begin; give the trainings that would begin."""
    begun: list[TrainingConfig] = []

    def would_begin(*arguments: Any, **options: Any) -> Any:
        raise Failure(VALID)

    def would_train(configs: Any, *arguments: Any) -> Any:
        begun[:] = configs
        raise Failure(VALID)

    def would_run(configs: Any, *arguments: Any) -> Any:
        return would_begin() if configs else []

    clock = types.SimpleNamespace(**vars(sweep_console.time) | {"sleep": would_begin})
    with (
        mock.patch.object(training_run, "_train", would_train),
        mock.patch.object(stored_run, "_run_missing", would_run),
        mock.patch.object(sweep_console, "drive", would_begin),
        mock.patch.object(sweep_console, "time", clock),  # --follow waits for ever
        mock.patch("narl.sweeps.trial.try_out", would_begin),
        mock.patch("narl.sweeps.ray_executor.RayExecutor", would_begin),
        mock.patch("narl.sweeps.slurm.submit", would_begin),
        mock.patch("narl.report.write_report", would_begin),
        mock.patch("narl.compilation.enable_cache", return_value=None),
        mock.patch("narl.deep.rendering_backend.check_rendering", return_value="egl"),
        mock.patch("narl.deep.window.is_headless", return_value=True),
    ):
        yield begun


class CommandLines:
    """Calls `narl` in a copy of artifacts, and checks its answers and what they leave."""

    def __init__(self, made: Artifacts, folder: Path) -> None:
        self._made, self._folder = made, folder / "a" / "b"
        self.copy = self._renew()

    def _renew(self) -> Artifacts:
        self.copy = self._made.copy_to(self._folder)
        os.chdir(self._folder)
        self._before = self._state()
        return self.copy

    def _state(self) -> dict[str, tuple[int, int]]:
        """Return size and time of every file."""
        paths = {path: path.lstat() for path in self.copy.folder.rglob("*") if path.is_file()}
        return {str(path): (x.st_size, x.st_mtime_ns) for path, x in paths.items()}

    def check(self, words: list[str]) -> None:
        """Check the answer to some words, and that no run or file is changed without a word."""
        with without_work() as begun:
            answer = call_narl(*words)
            if VALID not in answer.err:
                _check_answer(words, answer)
            for config in begun:
                _check_command(config)
        if (after := self._state()) != self._before:
            lost = [path for path, state in self._before.items() if after.get(path) != state]
            self._renew()
            assert "remove" in words or "rm" in words or all(map(self._may_change, lost)), lost

    def _may_change(self, path: str) -> bool:
        """Return whether commands that begin a training or a sweep may change a file."""
        return (
            Path(path).is_relative_to(self.copy.unfinished)
            or storage.files.PARTIAL in path
            or (Path(path).is_relative_to(self.copy.sweeps))
        )


def _check_answer(words: list[str], answer: Answer) -> None:
    """Check an answer; with --json, stdout is one JSON object."""
    if words[:1] == ["doctor"] and answer.status == 1:
        assert "problem" in answer.out, answer
    elif words[:1] == ["sweep"] and "--status" in words and answer.status == 1:
        assert "failed" in answer.out, answer
    else:
        check_answer(answer)
    if words[:1] == ["sweep"] and "--executor=print" in words and answer.status == 0:
        _check_printed(words, answer)
    helps = {"--help", "-h", "help", "--version", "-V"} & {*words}
    if answer.status < 2 and "--json" in words and not helps:
        assert isinstance(json.loads(answer.out), dict), answer.out[:200]


def _check_printed(words: list[str], answer: Answer) -> None:
    """Check that the commands that `narl sweep` prints are of the runs that it plans."""
    lines = json.loads(answer.out)["commands"] if "--json" in words else answer.out.splitlines()
    if {"--status", "--dry-run", "--help", "-h"} & {*words} or len(lines) > 10:
        return

    def planned(given: list[str]) -> list[str]:
        plan = call_narl(*given, "--dry-run", "--json")
        assert plan.status == 0, plan
        return [run["run"] for run in json.loads(plan.out)["runs"]]

    each = [planned(shlex.split(line)[1:]) for line in lines]
    whole = planned([word for word in words if word not in ("--executor=print", "--json")])
    assert each == [[id_] for id_ in whole], lines


def _check_command(config: TrainingConfig) -> None:
    """Check that a configuration leads to itself: from its record, and from its command line."""
    again = config_from_record(storage.parse_json(storage.json_bytes(config.record())))
    assert again.run_id == config.run_id, f"record: {again} {config}"
    words = shlex.split(command_of(config))
    options, _ = COMMAND.parse(words[2:])
    assert make_training(**options).run_id == config.run_id, f"command: {words}"


def try_command_lines(made: Artifacts, number: int, folder: Path, seed: int = 0) -> Tally:
    """Call `narl` with generated words, in a folder with runs."""
    tally, before = Tally("generated command lines"), Path.cwd()
    try:
        lines = CommandLines(made, folder)
        try_examples(tally, command_lines(lines.copy), lines.check, number, seed)
    finally:
        os.chdir(before)
    return tally


# --- configurations -------------------------------------------------------------------------------


def _check_configuration(example: tuple[str, dict[str, Any]]) -> None:
    half, given = example
    with refused_in_one_line():
        if half == "train":
            config = make_training("Pendulum-v1", **given)
            _check_command(config)
        else:
            config = make_tabular("psrl", "riverswim", **given)
        content = storage.json_bytes(runs_to_json([sweep_run(config)]))
        (again,) = runs_from_json(storage.parse_json(content))
        assert again.config == config, f"as JSON: {again.config}"
        assert again.config.run_id == config.run_id


def try_configurations(number: int, seed: int = 0) -> Tally:
    """Make configurations from generated options, of any type."""
    tally = Tally("generated configurations")
    try_examples(tally, configurations(), _check_configuration, number, seed)
    return tally
