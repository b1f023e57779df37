"""`narl eval`: the returns of trained policies, and a video of an episode."""

import json
import statistics
import sys
from pathlib import Path

import pytest

import narl
from narl import storage
from narl.deep import rendering_backend
from narl.deep.environment import HostEnv
from narl.errors import EnvironmentFault, InputError
from short_trainings import ENV, short_config

pytestmark = pytest.mark.slow


@pytest.fixture
def evaluate(call, shared_trainings):
    """Run `narl eval` on the finished training of seeds 4 and 6."""
    where = ("eval", shared_trainings.finished, "--runs", str(shared_trainings.root))
    return lambda *arguments: call(*where, *arguments)


@pytest.fixture
def no_episodes(monkeypatch):
    """Fail if an episode is played."""

    def fail(*args):
        raise AssertionError("an episode was played")

    monkeypatch.setattr("narl.deep.agent.evaluate", fail)


def test_json_has_the_returns_of_every_seed(evaluate, shared_trainings):
    answer = evaluate("--episodes", "3", "--json")
    assert (answer.status, answer.err) == (0, "")
    result = json.loads(answer.out)
    agent = narl.load(shared_trainings.root / shared_trainings.finished)
    per_seed = result.pop("seeds")
    best = max(per_seed, key=lambda one: one["mean"])
    assert result == {
        "run": shared_trainings.finished,
        "path": str(shared_trainings.root / shared_trainings.finished),
        "algo": "sac",
        "env": ENV,
        "step": 300,
        "finished": True,
        "best": False,
        "episodes": 3,
        "best_seed": best["seed"],
        "video": None,
    }
    for one, seed in zip(per_seed, (4, 6), strict=True):
        assert one["seed"] == seed
        assert one["returns"] == agent.evaluate(3, seed).returns
        assert one["mean"] == pytest.approx(statistics.mean(one["returns"]))
        assert one["std"] == pytest.approx(statistics.pstdev(one["returns"]))
        assert (one["min"], one["max"]) == (min(one["returns"]), max(one["returns"]))


def test_text_has_a_row_per_seed(evaluate):
    per_seed = json.loads(evaluate("--json").out)["seeds"]
    lines = evaluate().out.splitlines()
    assert lines[0] == f"sac on {ENV}, step 300: returns of 10 episodes"
    assert lines[1].split() == ["seed", "mean", "std", "min", "max", "length"]
    for line, one in zip(lines[2:], per_seed, strict=True):
        assert line.split()[:2] == [str(one["seed"]), f"{one['mean']:.1f}"]
        assert line.split()[5] == f"{one['length']:.1f}"
    assert evaluate("--episodes", "1").out.splitlines()[0].endswith(": returns of 1 episode")
    one_seed = json.loads(evaluate("--seed", "6", "--json").out)["seeds"]
    assert one_seed == [per_seed[1]]


def test_best_policies_are_those_of_the_best_evaluations(call, trainings):
    run = storage.load_run(trainings.root, trainings.finished)
    arrays = run.arrays()
    last, best = arrays["sac.actor.0.w"], arrays["best.sac.actor.0.w"]
    rows = [json.loads(line) for line in run.extra(storage.METRICS_LOG).splitlines()]
    for place in range(2):
        returns = [row["eval_return"][place] for row in rows]
        assert arrays["best.return"][place] == max(returns)
        assert arrays["best.step"][place] == rows[returns.index(max(returns))]["step"]
        is_last = arrays["best.step"][place] == 300
        assert (last[place] == best[place]).all() == is_last
    arguments = ("eval", trainings.finished, "--episodes", "1")
    result = json.loads(call(*arguments, "--best", "--json").out)
    assert result["best"] is True
    head, columns, *rows_shown = call(*arguments, "--best").out.splitlines()
    assert head == f"sac on {ENV}, best policies: returns of 1 episode"
    assert columns.split()[:2] == ["seed", "step"]
    steps = [["4", str(arrays["best.step"][0])], ["6", str(arrays["best.step"][1])]]
    assert [row.split()[:2] for row in rows_shown] == steps
    assert [one["step"] for one in result["seeds"]] == arrays["best.step"].tolist()
    unfinished = ("eval", trainings.unfinished, "--episodes", "1", "--best", "--json")
    assert json.loads(call(*unfinished).out)["step"] == 200
    folder = narl.SAC(ENV, hidden=(8,)).save(trainings.root / "agent")
    answer = call("eval", str(folder), "--best")
    assert answer.status == 2
    assert "holds the last policies only" in answer.err


def test_unfinished_training_gives_the_policy_of_its_last_checkpoint(call, trainings):
    result = json.loads(call("eval", trainings.unfinished, "--episodes", "1", "--json").out)
    assert (result["step"], result["finished"]) == (200, False)
    assert result["run"] == trainings.unfinished
    assert ", step 200, not finished: returns" in call("eval", trainings.unfinished).out


def test_wrong_input_is_one_line(evaluate, call, trainings, tmp_path):
    (tmp_path / "there.gif").mkdir()
    fresh = f"{short_config(seeds=(9,)).run_id}.part"
    storage.record_config(trainings.root / fresh, short_config(seeds=(9,)).record(), 1)
    wrong = {
        ("--episodes", "0"): "--episodes: 0 is too small; the nearest valid value is 1",
        ("--seed", "5"): "--seed: 5 was not trained",
        ("--video", "toy.avi"): "--video: toy.avi must end in .mp4 or .gif",
        ("--video", "there.gif"): "--video: there.gif is a folder",
    }
    answers = {message: evaluate(*arguments) for arguments, message in wrong.items()}
    runs = {
        (trainings.tabular,): "run: it is no training; give a run of `narl train`",
        (fresh,): "has no checkpoint yet; wait for its first epoch",
    }
    answers |= {message: call("eval", *arguments) for arguments, message in runs.items()}
    for message, answer in answers.items():
        assert (answer.status, answer.out) == (2, "")
        assert answer.err.count("\n") == 1
        assert message in answer.err


# --- videos -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["toy.gif", "deep/inside/toy.mp4"])
def test_video_is_of_the_best_seed(evaluate, tmp_path, name):
    answer = evaluate("--video", name, "--episodes", "2", "--json")
    assert answer.status == 0
    result = json.loads(answer.out)
    assert answer.err == f"recording the first episode of seed {result['best_seed']}\n"
    assert result["video"] == str(Path(name))
    assert (tmp_path / name).stat().st_size > 100
    assert f"in {Path(name)}" in evaluate("--video", name, "--seed", "4").out


def test_video_of_mujoco_needs_no_screen(call, tmp_path):
    try:
        rendering_backend.check_rendering()
    except InputError as reason:
        pytest.skip(str(reason))
    folder = narl.SAC("InvertedPendulum-v5", hidden=(8,)).save(tmp_path / "agent")
    answer = call("eval", str(folder), "--episodes", "1", "--video", "pole.mp4", "--json")
    assert answer.status == 0, answer.err
    assert (tmp_path / "pole.mp4").stat().st_size > 1000


def test_video_that_cannot_be_drawn_does_not_lose_the_returns(evaluate, tmp_path, monkeypatch):
    def cannot_draw():
        raise InputError("rendering: MuJoCo cannot draw (egl: no driver); install libegl1")

    def broken(env):
        raise EnvironmentFault("Toy-v0: render: GLError")

    expected = json.loads(evaluate("--episodes", "2", "--json").out)
    monkeypatch.setattr(HostEnv, "render", broken)
    monkeypatch.setattr(rendering_backend, "check_rendering", cannot_draw)
    answer = evaluate("--video", "toy.gif", "--episodes", "2", "--json")
    assert (answer.status, json.loads(answer.out)) == (1, expected)
    assert "no video was made: rendering: MuJoCo cannot draw (egl: no driver)" in answer.err
    monkeypatch.setattr(rendering_backend, "check_rendering", lambda: "egl")
    answer = evaluate("--video", "toy.gif", "--episodes", "2")
    assert answer.status == 1
    assert "returns of 2 episodes" in answer.out
    assert "no video was made: Toy-v0: render: GLError" in answer.err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_missing_encoder_does_not_lose_the_returns(evaluate, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    answer = evaluate("--video", "toy.gif", "--episodes", "2")
    assert answer.status == 1
    assert "returns of 2 episodes" in answer.out
    assert (
        'imageio-ffmpeg is not installed; pip install -c constraints.txt ".[video]"' in answer.err
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_episodes")
def test_video_that_cannot_be_written_is_refused_before_any_episode(
    evaluate, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    answer = evaluate("--video", "file/toy.gif")
    assert answer.status == 2
    assert f"--video: {tmp_path / 'file'} is not a folder; choose another place" in answer.err
    closed = tmp_path / "closed"
    closed.mkdir()
    mkdir = Path.mkdir

    def refuse(path, *arguments, **options):
        if path.parent == closed:
            raise PermissionError
        mkdir(path, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    answer = evaluate("--video", "closed/deep/toy.gif")
    assert (answer.status, answer.out) == (2, "")
    assert f"--video: {closed} is not writable; choose another place than" in answer.err
    assert list(closed.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "toy.gif was not written: No space left on dev"),
        (EnvironmentFault("Toy-v0: render: GLError"), "Toy-v0: render: GLError"),
    ],
)
def test_failed_video_does_not_lose_the_returns(evaluate, monkeypatch, error, message):
    def fail(*args):
        raise error

    expected = json.loads(evaluate("--episodes", "2", "--json").out)
    monkeypatch.setattr("narl.deep.agent.record_episode", fail)
    answer = evaluate("--episodes", "2", "--json", "--video", "toy.gif")
    assert answer.status == 1
    assert json.loads(answer.out) == expected
    assert message in answer.err.splitlines()[-1]
    answer = evaluate("--video", "toy.gif")
    assert answer.status == 1
    assert "returns of 10 episodes" in answer.out
    assert "toy.gif" not in answer.out
