"""`narl resume` in this process: the runs that it continues and those that it refuses."""

import json
from pathlib import Path

import pytest

import narl
from narl import storage
from narl.commands.training_console import TrainingConsole
from narl.deep.checked_config import config_from_record
from narl.deep.user_parts import UserParts
from short_trainings import ENV, flip_bit, short_arguments


@pytest.fixture
def trained(monkeypatch):
    """Record calls of `TrainingConsole.train` instead of training."""
    calls = []

    def record(console, config, **options):
        calls.append((console, config, options))
        return 0

    monkeypatch.setattr(TrainingConsole, "train", record)
    return calls


@pytest.mark.slow
def test_unfinished_training_is_continued_to_its_end(call, trainings):
    part = trainings.root / trainings.unfinished
    (part / storage.METRICS_LOG).unlink()
    answer = call("resume", part.name[:-9], "--json")
    assert answer.status == 0
    assert answer.err.splitlines()[:2] == [
        "progress.jsonl is damaged or was changed; it is restored from checkpoint step-000000200",
        "continues from step 200",
    ]
    result = json.loads(answer.out)
    assert (result["resumed_from"], result["found"], result["steps"]) == (200, False, 300)
    assert f"{result['run']}.part" == part.name
    assert not part.exists()
    run = storage.load_run(trainings.root, result["run"])
    rows = [json.loads(line) for line in run.extra(storage.METRICS_LOG).splitlines()]
    assert [row["step"] for row in rows] == [100, 200, 300]


@pytest.mark.slow
def test_finished_training_is_shown_and_not_trained(call, trainings, trained):
    answer = call("resume", trainings.finished, "--json")
    assert answer.status == 0
    assert answer.err == f"{trainings.finished} is finished; there is nothing to continue\n"
    result = json.loads(answer.out)
    assert (result["run"], result["found"], result["resumed_from"]) == (
        *(trainings.finished, True, None),
    )
    text = call("resume", trainings.finished).out
    assert "found, not trained again (`narl train … --fresh` trains it again)" in text
    assert trained == []


@pytest.mark.slow
def test_training_is_continued_as_it_was_begun(call, trainings, trained, monkeypatch, tmp_path):
    part = trainings.root / trainings.unfinished
    content = json.loads((part / storage.TRAINING_FILE).read_bytes())
    storage.record_config(part, content["config"], checkpoint_every=7, keep_data=True)
    assert call("resume", part.name, "--tensorboard", "logs").status == 0
    monkeypatch.setenv("NARL_RUNS", str(tmp_path / "others"))
    assert call("resume", str(part), "--json", "--env-timeout", "3").status == 0
    assert (
        "--env-timeout: inf given; it must be a"
        in call("resume", str(part), "--env-timeout", "inf").err
    )
    config = config_from_record(content["config"])
    options = {"checkpoint_every": 7, "keep_data": True, "any_code": False, "unfinished": True}
    parts = [UserParts(), UserParts(env_timeout=3.0)]
    assert trained == [
        (TrainingConsole(tensorboard="logs"), config, options | {"parts": parts[0]}),
        # A folder elsewhere is continued there.
        (TrainingConsole(trainings.root, True), config, options | {"parts": parts[1]}),
    ]


@pytest.mark.slow
def test_runs_that_cannot_be_resumed_are_refused_in_one_line(call, trainings, trained):
    part = trainings.root / trainings.unfinished
    record = storage.without_checksum(storage.read_json(part / storage.TRAINING_FILE))
    group = {"experiment": "train", "algo": "group", "configs": [{}, {}]}
    several = f"{storage.run_id(group)}.part"
    storage.record_config(trainings.root / several, group, 1)
    (part / storage.TRAINING_FILE).write_text(json.dumps(record | {"narl": "0.0.9"}))
    wrong = {
        trainings.tabular: "run: it is no training; give a run of `narl train`",
        several: "run: it is 2 trainings together; the command that began them continues them",
        part.name: f"narl 0.0.9 began it and this is {narl.__version__}; train it anew",
    }
    for argument, message in wrong.items():
        answer = call("resume", argument)
        assert (answer.status, answer.out) == (2, "")
        assert answer.err.count("\n") == 1
        assert message in answer.err
    assert trained == []


@pytest.mark.slow
def test_training_without_an_intact_checkpoint_is_refused_unless_fresh(call, trainings):
    part = trainings.root / trainings.unfinished
    for path in (part / storage.CHECKPOINTS).iterdir():
        flip_bit(path)
    answer = call("resume", part.name)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert "no checkpoint is intact" in answer.err
    assert f"`narl runs remove {part.name}`" in answer.err
    arguments = ["train", ENV, *short_arguments(buffer=5000)]
    assert call(*arguments).status == 2
    assert call(*arguments, "--fresh").status == 0


@pytest.mark.slow
def test_saved_agent_is_evaluated_but_is_no_run(call, trainings, tmp_path):
    narl.load(trainings.root / trainings.finished).save(tmp_path / "saved")
    for command in (["resume"], ["runs", "show"]):
        answer = call(*command, "saved")
        assert (answer.status, answer.out) == (2, "")
        assert answer.err.count("\n") == 1
        assert "narl.load and `narl eval` take it" in answer.err
    assert call("eval", "saved", "--episodes", "1").status == 0


@pytest.mark.slow
def test_full_disk_names_the_remaining_checkpoint(call, monkeypatch):
    from narl.storage import folder

    def full(final, *args, **kwargs):
        if final.name == "step-000000200":
            raise OSError(28, "No space left on device")
        return folder.write_folder(final, *args, **kwargs)

    monkeypatch.setattr("narl.storage.checkpoints.write_folder", full)
    answer = call("train", ENV, *short_arguments())
    assert (answer.status, answer.out) == (1, "")
    line = answer.err.splitlines()[-1]
    assert "No space left on device; the checkpoint of step 100 is kept in " in line
    (unfinished,) = storage.list_unfinished_runs(Path("runs"))
    assert (unfinished.step, unfinished.problems) == (100, ())
