"""The model of a sweep's time on several workers (benchmarks/sweep_scaling.py)."""

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "sweep_scaling.py"


@pytest.fixture
def scaling():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("sweep_scaling", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_free_worker_takes_the_longest_run_that_is_left(scaling):
    seconds = [2.0, 7.0, 3.0, 4.0, 4.0]
    assert [scaling.makespan(seconds, number) for number in (1, 2, 3, 9)] == [20.0, 10.0, 7.0, 7.0]


def test_seeds_of_a_training_are_apart_or_together_and_shared_runs_count_once(scaling):
    together = scaling.run_seconds(["fig3a"], seeds_apart=False)
    apart = scaling.run_seconds(["fig3a"], seeds_apart=True)
    assert (len(together), len(apart)) == (4, 40)
    assert sum(together) == pytest.approx(sum(apart)) == pytest.approx(40 * 4750 / 21.6)
    both = scaling.run_seconds(["fig1a", "fig1b"], seeds_apart=False)
    assert len(both) < 7 + 8
