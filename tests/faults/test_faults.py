"""Every kind of fault of `make faults`, a few times each: nothing is lost."""

import logging

import pytest
from fault_artifacts import make_artifacts, make_quick_artifacts
from fault_commands import try_command_lines, try_configurations, try_examples
from fault_environments import try_environments
from fault_hostile import try_hostile
from fault_mutations import try_mutations
from fault_processes import NARL, Processes, try_full_disks, try_kills, try_many, undisturbed
from fault_sweeps import try_sweep_kills
from fault_tally import Tally
from hypothesis import strategies as st


@pytest.fixture(autouse=True)
def _no_warnings(monkeypatch):
    monkeypatch.delenv("NARL_RUNS", raising=False)
    logging.getLogger("narl").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("narl").setLevel(logging.NOTSET)


@pytest.mark.slow
def test_files_and_words_do_no_harm(tmp_path):
    made = make_quick_artifacts(tmp_path / "made")
    for tally in (
        try_mutations(made, 12, tmp_path),
        try_hostile(made, 6, tmp_path, trains=False),
        try_command_lines(made, 6, tmp_path),
        try_configurations(50),
    ):
        assert tally.lost == [], tally.name
        assert tally.tried >= 6


@pytest.mark.slow
def test_trained_artifacts_and_environments_do_no_harm(tmp_path, cache):
    made = make_artifacts(tmp_path / "made")
    assert try_mutations(made, 40, tmp_path, seed=1).lost == []
    assert try_hostile(made, 15, tmp_path, seed=1).lost == []
    assert try_environments(8, tmp_path).lost == []


@pytest.mark.slow
def test_killed_and_competing_processes_lose_nothing(tmp_path, programs):
    processes = Processes(tmp_path / "processes", programs / "faults")
    reference = undisturbed(processes)
    assert try_kills(processes, reference, 2).lost == []
    assert try_full_disks(processes, reference, 2).lost == []
    assert try_many(processes, reference, 3).lost == []


@pytest.mark.slow
def test_killed_training_with_models_loses_nothing(tmp_path, programs):
    processes = Processes(tmp_path / "processes", programs / "faults")
    reference = undisturbed(processes, NARL)
    assert reference.run.config["algo"] == "narl"
    assert try_kills(processes, reference, 2).lost == []


@pytest.mark.slow
def test_killed_workers_and_drivers_of_sweeps_lose_nothing(tmp_path, programs):
    assert try_sweep_kills(tmp_path, programs / "faults", 2).lost == []


def test_tally_counts_errors_and_trials_that_take_too_long():
    tally = Tally("a fault")
    with tally.trial("fine"):
        pass
    with tally.trial("wrong"):
        raise KeyError("x\ny")
    with tally.trial("endless", seconds=1):
        while True:
            pass
    assert tally.tried == 3
    assert [line.split(":")[:2] for line in tally.lost] == [
        ["wrong", " KeyError"],
        ["endless", " TimeoutError"],
    ]


def test_lost_examples_are_counted_and_made_smaller():
    def check(number: int) -> None:
        if number >= 1000:
            raise KeyError(f"{number} is too large")

    def tally_of(seed: int) -> Tally:
        tally = Tally("numbers")
        try_examples(tally, st.integers(0, 10_000), check, 60, seed)
        return tally

    tally = tally_of(0)
    assert tally.tried == 60
    assert len({*tally.lost}) == len(tally.lost) > 10  # every example is another one
    assert tally.notes == ["KeyError: …: smallest: 1000"]
    assert tally_of(0).lost == tally.lost
    assert tally_of(1).lost != tally.lost
