"""`narl tune`: its output, and one line for wrong input."""

import json

import pytest

from narl.sweeps import tuning
from narl.sweeps.tuning import Trial
from short_trainings import ENV

TRIALS = [
    Trial(0, "done", {"radius": 0.123456}, 3.0, "train-a", True),
    Trial(1, "pruned", {"radius": 0.5}, 1.0, "train-b", False),
    Trial(2, "done", {"radius": 0.7}, 5.0, "train-c", False),
]


@pytest.fixture
def asked(monkeypatch) -> list:
    """Replace the search by three trials; list what it is asked for."""
    calls: list = []

    def tune(env, algo, options, axes, num_trials, root, *, on_trial, **others):
        names = [axis.name for axis in axes]
        given = others["sampler_seed"], others["env_timeout"]
        calls.append((env, algo, options, names, num_trials, *given))
        for trial in TRIALS:
            on_trial(trial)
        return TRIALS

    monkeypatch.setattr(tuning, "tune", tune)
    return calls


def test_best_trials_come_first(call, asked):
    words = ["tune", ENV, "--trials=3", "--over=radius", "--steps=5000", "--seeds=0:2"]
    answer = call(*words, "--env-timeout=20")
    assert answer.status == 0, answer.err
    assert asked == [(ENV, "narl", {"steps": 5000, "seeds": (0, 1)}, ["radius"], 3, 0, 20.0)]
    lines = answer.out.splitlines()
    assert lines[1].split() == ["2", "5.0", "train-c", "radius=0.7"]
    assert lines[2].split() == ["0", "3.0", "train-a", "radius=0.1235"]
    assert lines[-1] == "3 trials, 1 pruned, 0 failed"
    assert answer.err.splitlines()[0] == "trial 0: radius=0.1235: done, return 3.0 (found)"


def test_json_has_the_best_trial_and_all_of_them(call, asked):
    result = json.loads(call("tune", ENV, "--json").out)
    assert result["best"]["run"] == "train-c"
    assert [trial["state"] for trial in result["trials"]] == ["done", "pruned", "done"]


def test_default_options_are_searched_unless_they_are_given(call, asked):
    assert call("tune", ENV, "--radius=0.1").status == 0
    names = ["learning_rate", "updates_per_step", "members"]
    assert asked == [(ENV, "narl", {"radius": 0.1}, names, 20, 0, None)]


WRONG = {
    "tune": "ENV: missing; it is like `narl tune",
    f"tune {ENV} --trials 0": "--trials: 0 is too small",
    f"tune {ENV} --over radius=": "--over: 'radius=' is wrong; it must be like radius=0.01:1",
    f"tune {ENV} --over hidden,steps": "--over: hidden is a list of numbers, which cannot",
    f"tune {ENV} --env-timeout 0": "--env-timeout: 0 given; it must be a finite number above 0",
    f"tune {ENV} --sampler-seed -1": "--sampler-seed: -1 is too small",
    f"tune {ENV} --radius 0.1 --over radius": "--over: radius is given as well; leave one of",
    f"tune {ENV} --algo sac --over radius=0:1": "--radius: it has no effect with algorithm sac",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_is_one_line_and_nothing_is_written(call, tmp_path, words):
    pytest.importorskip("optuna")
    answer = call(*words.split())
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.err.count("\n") == 1
    assert answer.err.startswith(f"narl: {WRONG[words]}")
    assert list(tmp_path.iterdir()) == []
