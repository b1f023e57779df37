"""`narl tabular`: its output, its stored runs, and options that reach their agents."""

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from narl import storage
from narl.commands import tabular
from narl.options import choices_of, options_of, split_optional
from narl.tabular.checked_options import agent_options, all_option_fields
from narl.tabular.config import make_config
from narl.tabular.options import AGENT_OPTIONS

TINY = ["riverswim", "--size", "2", "--horizon", "2", "--episodes", "5", "--seeds", "0:2"]


def test_json_is_one_object_and_a_finished_run_is_found(call, tmp_path):
    first = call("tabular", "greedy", *TINY, "--json")
    assert (first.status, first.err) == (0, "")
    assert first.out.count("\n") == 1
    result = json.loads(first.out)
    assert set(result) == {
        *("agent", "env", "horizon", "episodes", "seeds", "options", "v_star", "seconds"),
        *("regret", "optimism", "estimation_error", "run", "path", "found"),
    }
    for term in ("regret", "optimism", "estimation_error"):
        assert set(result[term]) == {"median", "q25", "q75", "mean", "worst"}
        assert result[term]["q25"] <= result[term]["median"] <= result[term]["q75"]
    assert (result["agent"], result["env"]) == ("greedy", "riverswim")
    assert (result["episodes"], result["horizon"], result["seeds"]) == (5, 2, [0, 1])
    assert result["v_star"] == pytest.approx(0.602, abs=1e-3)
    assert set(result["seconds"]) == {"compile", "run"}
    assert result["found"] is False
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [result["run"]]
    assert Path(result["path"]).resolve() == (tmp_path / "runs" / result["run"]).resolve()

    again = json.loads(call("tabular", "greedy", *TINY, "--json").out)
    assert again == result | {"found": True}
    fresh = json.loads(call("tabular", "greedy", *TINY, "--json", "--fresh").out)
    assert (fresh["found"], fresh["regret"]) == (False, result["regret"])
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_text_shows_the_decomposition_of_the_regret(call, tmp_path, monkeypatch):
    monkeypatch.setenv("NARL_RUNS", str(tmp_path / "elsewhere"))
    answer = call("tabular", "greedy", *TINY)
    (run,) = storage.list_runs(tmp_path / "elsewhere")
    assert (answer.status, answer.err) == (0, "")
    for text in (
        "greedy on riverswim-2: 5 episodes of 2 steps, 2 seeds, V* = 0.6020",
        *(f"{run.metrics['regret'][name]:.2f}" for name in ("median", "mean", "worst")),
        *("= optimism", "+ estimation error", str(run.path)),
    ):
        assert text in answer.out
    assert "found, not run again" in call("tabular", "greedy", *TINY).out


@pytest.mark.slow
def test_deep_sea_says_when_it_was_solved(call):
    arguments = ["tabular", "narl-ucrl", "deep-sea", "--size", "2", "--seeds", "0:3"]
    arguments += ["--episodes", "600", "--until-solved"]
    result = json.loads(call(*arguments, "--json").out)
    assert len(result["solved_episode"]) == 3
    assert all(1 <= episode <= result["episodes"] for episode in result["solved_episode"])
    assert result["episodes"] < 600
    assert "solved with 3 of 3 seeds, at episode" in call(*arguments).out


def test_solved_line_counts_the_seeds_that_solved():
    assert tabular._solved([3, None, 5]) == "solved with 2 of 3 seeds, at episode 5 (median)"
    assert tabular._solved([None]) == "solved with 0 of 1 seed"
    line = "solved with 3 of 3 seeds, at episode 4 (median; the last at 11, mean 6)"
    assert tabular._solved([3, 4, 11]) == line


@pytest.mark.parametrize(
    ("rewards", "remark"), [((0.0, 1.0), None), ((-100.0, -1.0), "[-100, -1]")]
)
def test_rewards_outside_the_unit_interval_give_a_note(call, tmp_path, rewards, remark):
    p, r = np.full((2, 2, 2), 0.5), np.array([rewards, rewards])
    np.savez(tmp_path / "mine.npz", p=p, r=r, p0=[1, 0], horizon=2)
    for arguments in (["--json"], ["--json"], []):
        answer = call("tabular", "greedy", "mine.npz", "--episodes=2", "--seeds=0", *arguments)
        assert answer.status == 0
        assert "note" not in answer.out
        if remark is None:
            assert answer.err == ""
        else:
            assert answer.err.startswith(f"note: mean rewards of mine lie in {remark}; ")
            assert answer.err.count("\n") == 1


def test_mdp_is_built_and_options_are_checked_once(call, monkeypatch):
    from narl.options import check_value
    from narl.tabular import checked_mdp, checked_options, envs

    calls = []

    def counted(name, function):
        def count(*args, **kwargs):
            calls.append((name, args[0]) if name == "option" else name)
            return function(*args, **kwargs)

        return count

    monkeypatch.setattr(envs, "make_mdp", counted("mdp", checked_mdp.make_mdp))
    monkeypatch.setattr(checked_options, "check_value", counted("option", check_value))
    assert call("tabular", "ucrl2", *TINY, "--scale", "0.5", "--delta", "0.1").status == 0
    assert sorted(calls, key=str) == [("option", "delta"), ("option", "scale"), "mdp"]


def test_figure_that_is_not_a_number_is_a_dash(call, monkeypatch):
    from narl.tabular import stored_run

    run = stored_run.run

    def without_values(*args, **kwargs):
        trace = run(*args, **kwargs)
        return dataclasses.replace(trace, value=np.full_like(trace.value, np.nan))

    monkeypatch.setattr(stored_run, "run", without_values)
    lines = call("tabular", "greedy", *TINY).out.splitlines()
    (line,) = [line for line in lines if "optimism" in line]
    assert line.split()[-3:] == ["-", "-", "-"]


def test_scaled_rewards_need_no_note(call, tmp_path):
    np.savez(
        tmp_path / "mine.npz",
        p=np.full((2, 2, 2), 0.5),
        r=np.array([[-100.0, -1.0]] * 2),
        p0=[1, 0],
        horizon=2,
    )
    arguments = ["greedy", "mine.npz", "--episodes=2", "--seeds=0", "--scale-rewards"]
    answer = call("tabular", *arguments, "--json")
    assert (answer.status, answer.err) == (0, "")
    assert json.loads(answer.out)["v_star"] == 2.0
    assert "on mine-scaled:" in call("tabular", *arguments).out


def test_folder_that_refuses_runs_is_named_before_the_run(call, monkeypatch):
    from narl.tabular import stored_run

    def refuse(path, *args, **kwargs):
        raise OSError(30, "Read-only file system")

    def never(*args, **kwargs):
        raise AssertionError("the run began")

    monkeypatch.setattr(stored_run, "run", never)
    monkeypatch.setattr(Path, "mkdir", refuse)
    answer = call("tabular", "greedy", *TINY, "--runs", "elsewhere")
    assert answer.status == 2
    assert "is not writable; choose another (NARL_RUNS)" in answer.err
    assert answer.err.count("\n") == 1


# --- options ----------------------------------------------------------------------------------


@pytest.fixture
def configs(monkeypatch) -> list[tuple[Any, Path, bool]]:
    """Record configuration, root and `fresh` of every run instead of running it."""
    recorded = []

    def record(config, root, *, fresh, **kwargs):
        recorded.append((config, root, fresh))
        run = SimpleNamespace(config=config.record(), metrics={}, id="run", path=root)
        return run, True

    monkeypatch.setattr("narl.tabular.stored_run.run_config", record)
    return recorded


def other_value(agent: str, field: Any) -> Any:
    """Return a valid value of an option that is not the agent's default."""
    default = getattr(agent_options(agent), field.name)
    kind, _ = split_optional(field.annotation)
    if choices := choices_of(field.annotation, field.option):
        return next(choice for choice in choices if choice != default)
    return {bool: not default, int: 3, float: 0.25}[kind]


def needed_options(agent: str, name: str) -> dict[str, Any]:
    """Return options that give an option of an agent an effect."""
    ways = options_of(AGENT_OPTIONS[agent])[name].only_with
    return {other: valid[0] for other, valid in ways[0].items() if valid[0]} if ways else {}


@pytest.mark.parametrize("field", all_option_fields(), ids=lambda field: field.name)
def test_option_reaches_its_agents(call, configs, field):
    for agent in field.option.used_by:
        value = other_value(agent, field)
        others = needed_options(agent, field.name)
        flag = f"--{field.name}".replace("_", "-")
        argument = f"{flag}={value}"
        if isinstance(value, bool):
            argument = flag if value else flag.replace("--", "--no-", 1)
        needed = [f"--{name}={given}" for name, given in others.items()]
        answer = call("tabular", agent, "riverswim", *needed, argument, "--json")
        assert answer.status == 0, answer.err
        options = configs.pop()[0].options
        assert options == agent_options(agent, **others, **{field.name: value})
        assert options != agent_options(agent, **others)


def test_arguments_reach_the_configuration(call, configs):
    arguments = ["--size=5", "--horizon", "7", "--env-seed", "2", "--episodes", "9"]
    arguments += ["--seeds", "1,3", "--runs", "kept", "--fresh", "--json", "--preset", "paper"]
    assert call("tabular", "ucrl2", "random-mdp", *arguments).status == 0
    config = make_config(
        *("ucrl2", "random-mdp"),
        size=5,
        horizon=7,
        env_seed=2,
        episodes=9,
        seeds=(1, 3),
        preset="paper",
    )
    assert configs == [(config, Path("kept"), True)]
