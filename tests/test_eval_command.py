"""`narl eval`: episodes of a trained policy, and a video of one."""

import json
import os
import statistics
from pathlib import Path

import pytest

import narl
from narl import storage
from narl.deep import rendering
from narl.deep.environment import HostEnv
from narl.deep.training_run import Stopped, train
from narl.errors import EnvironmentFault, InputError
from short_courses import cache, call, course, programs  # noqa: F401

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache) -> storage.Run:  # noqa: F811
    return train(course(seeds=(4, 6)), tmp_path_factory.mktemp("runs"))[0]


@pytest.fixture
def evaluate(call, run):  # noqa: F811
    """`narl eval` of that run."""
    return lambda *given: call("eval", run.id, "--runs", str(run.path.parent), *given)


def test_every_seed_is_evaluated(evaluate, run):
    said = evaluate("--episodes", "3", "--json")
    assert (said.status, said.err) == (0, "")
    result = json.loads(said.out)
    assert set(result) == {
        *("run", "path", "algo", "env", "step", "finished", "episodes", "seeds"),
        *("best_seed", "video"),
    }
    assert (result["run"], result["step"], result["finished"]) == (run.id, 300, True)
    assert (result["algo"], result["env"]) == ("sac", "toy_worlds:Toy-v0")
    agent = narl.load(run.path)
    for one, seed in zip(result["seeds"], (4, 6), strict=True):
        assert one["seed"] == seed
        assert one["returns"] == agent.evaluate(3, seed).returns
        assert one["mean"] == pytest.approx(statistics.mean(one["returns"]))
        assert one["std"] == pytest.approx(statistics.pstdev(one["returns"]))
        assert (one["min"], one["max"]) == (min(one["returns"]), max(one["returns"]))
    best = max(result["seeds"], key=lambda one: one["mean"])
    assert result["best_seed"] == best["seed"]
    assert json.loads(evaluate("--episodes", "3", "--json").out) == result


def test_for_people_a_row_per_seed(evaluate):
    result = json.loads(evaluate("--json").out)
    lines = evaluate().out.splitlines()
    assert lines[0] == "sac on toy_worlds:Toy-v0, step 300: returns of 10 episodes"
    assert lines[1].split() == ["seed", "mean", "std", "min", "max", "length"]
    for line, one in zip(lines[2:], result["seeds"], strict=True):
        assert line.split()[:2] == [str(one["seed"]), f"{one['mean']:.1f}"]
        assert line.split()[5] == f"{one['length']:.1f}"


def test_one_seed_alone(evaluate):
    result = json.loads(evaluate("--seed", "6", "--json").out)
    assert [one["seed"] for one in result["seeds"]] == [6]


@pytest.mark.parametrize("name", ["toy.gif", "deep/inside/toy.mp4"])
def test_a_video(evaluate, tmp_path, name):
    said = evaluate("--video", name, "--episodes", "2", "--json")
    assert said.status == 0
    result = json.loads(said.out)
    assert said.err == f"recording the first episode of seed {result['best_seed']}\n"
    assert result["video"] == str(Path(name))
    assert (tmp_path / name).stat().st_size > 100
    assert f"in {Path(name)}" in evaluate("--video", name, "--seed", "4").out


def test_where_pictures_are_impossible_it_is_one_line_before_anything_runs(
    evaluate, tmp_path, monkeypatch
):
    def impossible():
        raise InputError("rendering: MuJoCo cannot draw (egl: no driver); install libegl1")

    def broken(env):
        raise EnvironmentFault("Toy-v0: render: GLError")

    def never(*given):
        raise AssertionError("episodes were run")

    monkeypatch.setattr(HostEnv, "render", broken)
    monkeypatch.setattr(rendering, "check_rendering", impossible)
    monkeypatch.setattr("narl.deep.agent.evaluate", never)
    said = evaluate("--video", "toy.gif")
    assert (said.status, said.out) == (2, "")
    assert said.err == "narl: rendering: MuJoCo cannot draw (egl: no driver); install libegl1\n"
    monkeypatch.setattr(rendering, "check_rendering", lambda: "egl")
    said = evaluate("--video", "toy.gif")
    assert said.status == 1
    assert said.err == "narl: video: Toy-v0: render: GLError (--debug shows where)\n"
    assert list(tmp_path.iterdir()) == []


def test_a_video_that_could_not_be_written_is_refused_before_anything_runs(
    evaluate, tmp_path, monkeypatch
):
    def never(*given):
        raise AssertionError("episodes were run")

    monkeypatch.setattr("narl.deep.agent.evaluate", never)
    (tmp_path / "file").write_text("")
    said = evaluate("--video", "file/toy.gif")
    assert said.status == 2
    assert f"--video: {tmp_path / 'file'} is not a folder; choose another place" in said.err
    shut = tmp_path / "shut"
    shut.mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != shut and access(path, mode))
    said = evaluate("--video", "shut/deep/toy.gif")
    assert (said.status, said.out) == (2, "")
    assert said.err == (
        f"narl: --video: {shut} is not writable; choose another place than shut/deep/toy.gif\n"
    )
    assert list(shut.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device"), "toy.gif was not written: No space left on dev"),
        (InputError("video: ffmpeg could not write toy.gif: full"), "ffmpeg could not write toy"),
        (EnvironmentFault("Toy-v0: render: GLError"), "Toy-v0: render: GLError"),
    ],
)
def test_when_the_video_fails_the_returns_are_not_lost(evaluate, monkeypatch, error, line):
    def fail(*given):
        raise error

    expected = json.loads(evaluate("--episodes", "2", "--json").out)
    monkeypatch.setattr("narl.deep.agent.record_episode", fail)
    said = evaluate("--episodes", "2", "--json", "--video", "toy.gif")
    assert said.status == 1
    assert json.loads(said.out) == expected
    assert line in said.err.splitlines()[-1]
    said = evaluate("--video", "toy.gif")
    assert said.status == 1
    assert "returns of 10 episodes" in said.out
    assert "toy.gif" not in said.out


def test_a_video_of_mujoco_without_a_screen(call, tmp_path):  # noqa: F811
    try:
        rendering.check_rendering()
    except InputError as reason:
        pytest.skip(str(reason))
    folder = narl.SAC("InvertedPendulum-v5", hidden=(8,)).save(tmp_path / "agent")
    said = call("eval", str(folder), "--episodes", "1", "--video", "pole.mp4", "--json")
    assert said.status == 0, said.err
    assert (tmp_path / "pole.mp4").stat().st_size > 1000


def test_an_unfinished_training_gives_its_last_checkpoint(call, tmp_path, run):  # noqa: F811
    with pytest.raises(Stopped):
        train(course(), tmp_path / "runs", on_epoch=lambda row: row["step"] < 200)
    result = json.loads(call("eval", "train", "--json").out)
    assert (result["step"], result["finished"], result["run"]) == (
        200,
        False,
        f"{course().id}.part",
    )
    assert ", step 200, not finished: returns" in call("eval", "train").out


def test_a_saved_agent_is_evaluated_as_well(call, tmp_path, run):  # noqa: F811
    agent = narl.load(run.path)
    agent.save(tmp_path / "saved")
    result = json.loads(call("eval", "saved", "--episodes", "2", "--json").out)
    assert [one["returns"] for one in result["seeds"]] == [
        agent.evaluate(2, seed).returns for seed in (4, 6)
    ]


def test_wrong_input_is_one_line(evaluate, call, tmp_path):  # noqa: F811
    wrong = {
        ("--episodes", "0"): "--episodes: 0 is too small; the nearest valid value is 1",
        ("--seed", "5"): "--seed: 5 was not trained; one of 4, 6",
        ("--video", "toy.avi"): "--video: toy.avi must end in .mp4 or .gif",
        ("--vido", "x"): "--vido: unknown option; did you mean --video?",
    }
    for given, line in wrong.items():
        said = evaluate(*given)
        assert (said.status, said.out) == (2, "")
        assert said.err.count("\n") == 1
        assert line in said.err
    (tmp_path / "there.gif").mkdir()
    assert "--video: there.gif is a folder" in evaluate("--video", "there.gif").err
    assert "RUN: missing; it is like `narl eval" in call("eval").err
    assert "run: 'nothing' is not there; runs holds no runs" in call("eval", "nothing").err
    kept = storage.save_run(tmp_path / "runs", {"experiment": "tabular", "agent": "psrl"}, {}, {})
    assert "is no training; `narl train` makes one" in call("eval", kept.id).err
    with pytest.raises(Stopped):
        train(course(), tmp_path / "runs", should_stop=lambda: True)
    assert "has no checkpoint yet; wait for its first epoch" in call("eval", "train").err
