"""A training on the console: what an interrupt says, and the result as it is printed."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from narl.commands import training_console
from narl.commands.training_console import TrainingConsole, print_training
from narl.deep.checked_config import make_config
from narl.storage.unfinished import CHECKPOINTS


@pytest.mark.parametrize(
    ("changes", "steps", "solved", "line"),
    [
        ({"until_solved": True}, 40, 20, "stopped early: every seed has reached the return 7.5"),
        ({"patience": 3}, 40, 20, "stopped early: 3 evaluations in turn no better than the best"),
        ({"patience": 1}, 40, None, "stopped early: 1 evaluation in turn no better than the best"),
        ({"until_solved": True, "patience": 3}, 40, None, "stopped early: 3 evaluations in turn"),
        ({"until_solved": True, "patience": 3}, 60, 60, ""),
        ({}, 60, None, ""),
    ],
)
def test_reason_of_an_early_stop_is_printed(capsys, changes, steps, solved, line):
    settings = {"steps": 60, "solved_return": 7.5}
    if "patience" in changes:
        settings["stop_when_no_better"] = changes["patience"]
    until_solved = changes.get("until_solved", False)
    run = SimpleNamespace(
        config={
            "algo": "sac",
            "env": "X",
            "seeds": [0],
            "until_solved": until_solved,
            "settings": settings,
        },
        metrics={
            "steps": steps,
            "updates": 5,
            "seconds": {"total": 62.0},
            "solved_step": [solved],
            "final_return": [8.0],
        },
        path=Path("runs/x"),
        arrays=lambda: {"eval_return": np.array([[8.0]]), "step": np.array([steps])},
    )
    print_training(run, was_found=False)
    lines = [text for text in capsys.readouterr().out.splitlines() if "stopped" in text]
    assert len(lines) == bool(line)
    assert line in "".join(lines)


def test_best_evaluations_stand_beside_the_last_ones(capsys):
    run = SimpleNamespace(
        config={"algo": "sac", "env": "X", "seeds": [0, 1], "settings": {"steps": 30}},
        metrics={
            "steps": 30,
            "updates": 5,
            "seconds": {"total": 62.0},
            "solved_step": [None, None],
            "final_return": [3.0, None],
        },
        path=Path("runs/x"),
        arrays=lambda: {  # the first of two equal evaluations counts, one without a number never
            "eval_return": np.array([[7.0, np.nan], [7.0, np.nan], [3.0, np.nan]]),
            "step": np.array([10, 20, 30]),
        },
    )
    print_training(run, was_found=False)
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if re.match(r"\s*[01] +[-\d]", line)]
    assert rows == [["0", "3.0", "7.0", "10"], ["1", "-", "-", "-"]]
    assert "`narl eval runs/x --best` takes" in out
    run.config["env"] = "my_worlds:X-v0"
    print_training(run, was_found=False)
    assert "`narl eval runs/x --best --trust-env-module` takes" in capsys.readouterr().out


def test_options_that_stop_a_training_stand_in_one_group(call):
    text = call("train", "--help").out
    groups = [block for block in text.split("\n\n") if re.search(r"^  --stop-", block, re.M)]
    assert len(groups) == 1
    assert groups[0].startswith("episodes and evaluation:")
    assert {*re.findall(r"^  (--stop-\S+)", groups[0], re.M)} == {
        "--stop-at-return",
        "--stop-when-no-better",
    }


def test_interrupt_says_what_is_kept(monkeypatch, tmp_path):
    """Before the first step no checkpoint is written, and none is there unless one was resumed."""
    config = make_config("Pendulum-v1", "sac")
    checkpoints = tmp_path / f"{config.run_id}.part" / CHECKPOINTS
    lines = []

    def train(configs, root, **options):
        options["on_step"](1)
        (checkpoints / "step-000000200").mkdir(parents=True)
        return [(None, False)]

    def interrupt(work, continues, at_once, stopping):
        lines.append((stopping(), at_once()))
        work(lambda: False)
        lines.append((stopping(), at_once()))
        raise KeyboardInterrupt

    monkeypatch.setattr(training_console, "enable_cache", lambda: None)
    monkeypatch.setattr(training_console, "run_training", train)
    monkeypatch.setattr(training_console, "run_with_checkpoint", interrupt)
    with pytest.raises(KeyboardInterrupt):
        TrainingConsole(tmp_path).train(config)
    resume = f"the same command or `narl resume {config.run_id} --runs {tmp_path}`"
    assert lines == [
        ("stopping …", f"interrupted; no checkpoint yet; {resume} begins anew"),
        (
            "stopping: a checkpoint is written …",
            f"interrupted; the checkpoint of step 200 is kept; {resume} continues from there",
        ),
    ]
