"""`narl play`: episodes in a window, or one line that says why there is none."""

import json

import pytest

import narl
import toy_worlds
from short_trainings import ENV

pytestmark = pytest.mark.slow


@pytest.fixture
def play(call, shared_trainings, monkeypatch):
    """Run `narl play` on the finished training of seeds 4 and 6, as if there were a screen."""
    monkeypatch.setattr("narl.deep.window.is_headless", lambda: False)
    modes = ["rgb_array", "human"]
    monkeypatch.setitem(toy_worlds.Toy.metadata, "render_modes", modes)
    where = ("--runs", str(shared_trainings.root))
    return lambda name, *arguments: call("play", name, *where, *arguments)


def test_episodes_are_those_of_the_evaluation(play, shared_trainings):
    name = shared_trainings.finished
    answer = play(name, "--episodes", "2", "--json", "--seed", "6")
    assert answer.status == 0, answer.err
    result = json.loads(answer.out)
    assert (result["run"], result["algo"], result["env"]) == (name, "sac", ENV)
    agent = narl.load(shared_trainings.root / name)
    assert result["returns"][0] == agent.evaluate(1, seed=6).returns[0]
    assert len(result["lengths"]) == 2
    lines = play(name, "--episodes", "2").out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["episode 1", "episode 2"]
    assert play(name[-10:], "--episodes", "1", "--best").status == 0


def test_wrong_input_is_one_line(play, monkeypatch, shared_trainings):
    name = shared_trainings.finished
    wrong = {
        (name, "--episodes", "0"): "--episodes: 0 is too small",
        (name, "--seed", "5"): "--seed: 5 was not trained",
        ("nothing",): "run: unknown value 'nothing'",
        ("",): "RUN: it is empty",
    }
    for arguments, message in wrong.items():
        answer = play(*arguments)
        assert (answer.status, answer.out) == (2, "")
        assert message in answer.err.splitlines()[-1]
    monkeypatch.setattr("narl.deep.window.is_headless", lambda: True)
    answer = play(name)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("narl: screen: there is none (no DISPLAY); record a video instead")
