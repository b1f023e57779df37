"""The work of one process: every run is looked up, leased, resumed, and saved once."""

import csv
import io

import pytest
from small_sweeps import tabular_runs, training_runs

import narl.tabular.stored_run
from narl import storage
from narl.deep.training_run import TrainingStopped, run_training
from narl.errors import EnvironmentFault, InputError
from narl.sweeps.results import results_csv
from narl.sweeps.run_notes import RunNotes, record_sweep, recorded_runs
from narl.sweeps.run_task import run_task
from narl.sweeps.status import SweepStatus, count_states
from narl.sweeps.task_log import output_to
from narl.sweeps.tasks import make_tasks
from short_trainings import assert_same_outcome


@pytest.fixture(autouse=True)
def no_user_cache(monkeypatch) -> None:
    """Leave the cache of compiled programs to the fixture `cache`."""
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)


def states(runs, root) -> list[str]:
    return [status.state for status in SweepStatus(runs, root).read()]


def test_runs_are_done_once(tmp_path, cache, capsys):
    runs = tabular_runs(3)
    assert states(runs, tmp_path) == ["waiting"] * 3
    run_task(runs[:2], tmp_path)
    assert states(runs, tmp_path) == ["done", "done", "waiting"]
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"{word} {run.id}" for run in runs[:2] for word in ("begins", "finished")]
    run_task(runs, tmp_path)
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == [runs[2].id] * 2
    assert count_states(SweepStatus(runs, tmp_path).read())["done"] == 3


def test_a_leased_run_is_left_to_its_process(tmp_path, cache, capsys):
    runs = tabular_runs(2)
    notes = RunNotes(tmp_path, runs[0].id)
    with notes.lease() as is_mine:
        assert is_mine
        notes.note_worker(step=3)
        run_task(runs, tmp_path)
        assert states(runs, tmp_path) == ["running", "done"]
        (status, _) = SweepStatus(runs, tmp_path).read()
        assert (status.step, status.worker.rpartition(":")[0] != "") == (3, True)
    assert states(runs, tmp_path) == ["unfinished", "done"]
    run_task(runs, tmp_path)
    assert states(runs, tmp_path) == ["done", "done"]


def test_a_failure_is_noted_and_the_other_runs_are_done(tmp_path, cache, monkeypatch, capsys):
    runs = tabular_runs(3)
    works = narl.tabular.stored_run.run

    def run(options, mdp, episodes, seeds, **others):
        if seeds == (1,):
            raise RuntimeError("two\nlines")
        return works(options, mdp, episodes, seeds, **others)

    monkeypatch.setattr("narl.tabular.stored_run.run", run)
    run_task(runs, tmp_path)
    assert states(runs, tmp_path) == ["done", "failed", "done"]
    failed = SweepStatus(runs, tmp_path).read()[1]
    assert failed.error == "RuntimeError: two"
    assert failed.to_json()["log"] == str(RunNotes(tmp_path, runs[0].id).log)
    assert "Traceback" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)
    run_task(runs, tmp_path)
    assert states(runs, tmp_path) == ["done"] * 3


@pytest.mark.slow
def test_trainings_of_one_program_stop_and_go_on_together(tmp_path, cache, capsys):
    runs = training_runs(seeds=((0,), (1,)))
    steps = iter(range(10**6))
    with pytest.raises(TrainingStopped):
        run_task(runs, tmp_path, should_stop=lambda: next(steps) == 150)
    assert states(runs, tmp_path) == ["unfinished"] * 2
    # Another number of workers would divide the runs, but they share a checkpoint.
    (task,) = make_tasks(runs, tmp_path, num_workers=2)
    run_task(task, tmp_path)
    assert "continues from step" in capsys.readouterr().err
    assert states(runs, tmp_path) == ["done"] * 2
    for run in runs:
        together = run.find(tmp_path)
        ((alone, _),) = run_training([run.config], tmp_path / "alone")
        alone.metrics["replicas"] = together.metrics["replicas"]
        assert_same_outcome(together, alone)


def test_after_a_failure_together_each_training_is_tried_alone(tmp_path, monkeypatch, capsys):
    runs = training_runs(seeds=((0,), (1,), (2,)))
    tried = []

    def run_training(configs, root, **options):
        tried.append([config.seeds for config in configs])
        if any(config.seeds == (1,) for config in configs):
            raise EnvironmentFault("the simulator is gone")
        for config in configs:
            storage.save_run(root, config.record(), {}, {})

    monkeypatch.setattr("narl.deep.training_run.run_training", run_training)
    run_task(runs, tmp_path)
    assert tried == [[(0,), (1,), (2,)], [(0,)], [(1,)], [(2,)]]
    assert states(runs, tmp_path) == ["done", "failed", "done"]
    assert SweepStatus(runs, tmp_path).read()[1].error == "the simulator is gone"
    assert make_tasks(runs, tmp_path) == [(runs[1],)]


def test_trainings_that_failed_together_are_alone_in_the_next_sweep(tmp_path):
    runs = training_runs(seeds=((0,), (1,), (2,), (3,)))
    for run in runs[:2]:  # as a process leaves them that was killed before it tried them alone
        RunNotes(tmp_path, run.id).note_failure(error="out of memory", together=2)
    assert states(runs, tmp_path) == ["unfinished"] * 2 + ["waiting"] * 2
    assert make_tasks(runs, tmp_path) == [(runs[0],), (runs[1],), (runs[2], runs[3])]


@pytest.mark.slow
def test_a_training_of_another_command_is_left_to_it(tmp_path, cache, capsys):
    (run,) = training_runs()
    with storage.lock_folder(tmp_path / f"{run.id}{storage.PART_SUFFIX}"):
        run_task([run], tmp_path)
    assert "process" in capsys.readouterr().err
    assert states([run], tmp_path) != ["failed"]


def test_a_run_that_was_planned_with_another_version_is_refused(tmp_path, capsys):
    (run,) = tabular_runs(1)
    planned = run._replace(id=f"{run.id[:-10]}{'0' * 10}")
    run_task([planned], tmp_path)
    (status,) = SweepStatus([planned], tmp_path).read()
    assert status.state == "failed"
    assert status.error.startswith(f"run: it is {run.id} with narl ")
    assert storage.list_runs(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="runs folder"):
        run_task(tabular_runs(1), tmp_path / "file")


def test_sweeps_are_recorded(tmp_path, caplog):
    first, second = tabular_runs(2), tabular_runs(3)
    for runs in (first, second, first):
        record_sweep(tmp_path, runs)
    assert {run.id for run in recorded_runs(tmp_path)} == {run.id for run in second}
    assert len(list((tmp_path / "sweeps").iterdir())) == 2
    good = (tmp_path / "sweeps").glob("sweep-*.json").__next__().read_text()
    bad = ['{"runs": [{}]}', '{"runs": 3}', "[]", "{", good.replace(first[0].id, "../../victim")]
    bad.append(good.replace('"config": {', '"config": [], "other": {'))
    for i, content in enumerate(bad):
        (tmp_path / "sweeps" / f"sweep-{i}.json").write_text(content)
    caplog.clear()
    assert {run.id for run in recorded_runs(tmp_path)} == {run.id for run in second}
    assert len(caplog.messages) == len(bad)
    assert "sweep-0.json is damaged or of another version" in caplog.text


def test_sweeps_of_another_version_are_left_out(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("narl.sweeps.run_notes.__version__", "0.1.9")
    record_sweep(tmp_path, tabular_runs(2))
    monkeypatch.undo()
    assert recorded_runs(tmp_path) == []
    assert "is a sweep of narl 0.1.9; it is left out" in caplog.text


def test_notes_that_somebody_changed_do_no_harm(tmp_path, cache):
    (run,) = tabular_runs(1)
    folder = RunNotes(tmp_path, run.id).folder
    folder.mkdir(parents=True)
    (folder / "worker.json").write_text('{"step": "x", "return": []}')
    assert states([run], tmp_path) == ["unfinished"]
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    (folder / "log.txt").symlink_to(outside)
    with pytest.raises(OSError, match="it is a symbolic link"), output_to(folder / "log.txt"):
        pass
    assert outside.read_text() == "mine"


@pytest.mark.slow
def test_run_of_other_code_of_its_environment_is_done_again(tmp_path, cache, capsys, monkeypatch):
    (run,) = training_runs(env="toy_worlds:Toy-v0")
    run_task([run], tmp_path)
    first = run.find(tmp_path)
    assert run.find_current(tmp_path) == first
    assert make_tasks([run], tmp_path) == []
    # As if a new process had imported other code.
    monkeypatch.setattr("narl.sweeps.planned_run._env_codes", {"toy_worlds:Toy-v0": "other"})
    monkeypatch.setattr("narl.deep.training_run.current_env_code", lambda *_: "other")
    monkeypatch.setattr("narl.deep.training_run.env_code", lambda *_: "other")
    assert run.find_current(tmp_path) is None
    assert make_tasks([run], tmp_path) == [(run,)]
    assert SweepStatus([run], tmp_path, opens_env=True).read()[0].state != "done"
    assert states([run], tmp_path) == ["done"]  # nothing is imported for `narl sweep --status`
    run_task([run], tmp_path)
    second = run.find_current(tmp_path)
    assert second.environment["env_code"] == "other" != first.environment["env_code"]
    assert len(storage.list_runs(tmp_path)) == 2  # the first one is kept under another id


def test_run_whose_environment_cannot_be_opened_here_counts_as_done(tmp_path, monkeypatch):
    (run,) = training_runs(env="not_there:Toy-v0")
    stored = storage.save_run(
        tmp_path, run.config.record(), {}, {}, provenance={"env_code": "of another machine"}
    )
    assert run.find_current(tmp_path) == stored


def test_look_at_the_code_of_an_environment_has_a_time_out(tmp_path, monkeypatch):
    (run,) = training_runs(env="toy_worlds:Toy-v0")
    stored = storage.save_run(tmp_path, run.config.record(), {}, {}, provenance={"env_code": "x"})
    seen = []

    def current_env_code(config, *, timeout):
        seen.append(timeout)
        raise EnvironmentFault("it hangs")

    monkeypatch.setattr("narl.sweeps.planned_run._env_codes", {})
    monkeypatch.setattr("narl.deep.env_code.current_env_code", current_env_code)
    assert run._replace(env_timeout=2.5).find_current(tmp_path) == stored
    assert seen == [2.5]


@pytest.mark.slow
def test_results_of_both_halves_have_columns_of_their_own(tmp_path, cache):
    runs = [*tabular_runs(1), *training_runs()]
    for run in runs:
        run_task([run], tmp_path)
    tabular, training = csv.DictReader(io.StringIO(results_csv(runs, tmp_path).decode()))
    regret = runs[0].find(tmp_path).arrays()["regret"].astype(float).sum()
    assert float(tabular["regret"]) == pytest.approx(regret)
    assert (tabular["final_return"], tabular["episodes (result)"]) == ("", "")
    metrics = runs[1].find(tmp_path).metrics
    assert float(training["final_return"]) == metrics["final_return"][0]
    assert training["episodes (result)"] == str(metrics["episodes"][0])
    assert (training["regret"], training["episodes"], tabular["episodes"]) == ("", "", "5")
