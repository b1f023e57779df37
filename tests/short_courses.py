"""Trainings so small that a test can afford them, and what tests compare of them."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import pytest

from narl import cli, storage
from narl.deep.config import make_settings
from narl.deep.owners import owners_of
from narl.deep.training_run import Course

SHORT: dict[str, Any] = {
    "hidden": (16, 16),
    "members": 2,
    "model_width": 16,
    "model_depth": 2,
    "most_model_epochs": 10,
    "rollout_batch": 200,
    "updates_per_step": 1,
    "batch": 32,
    "steps": 300,
    "epoch_length": 100,
    "initial_steps": 100,
    "model_every": 50,
    "eval_episodes": 1,
    "eval_horizon": 40,
}
"""Three epochs, the first of them random."""


def short(algo: str, **changes: Any) -> dict[str, Any]:
    """The settings of `SHORT` that an algorithm uses."""
    used = {name: value for name, value in SHORT.items() if algo in owners_of(name)}
    return used | changes


def course(
    env: str = "toy_worlds:Toy-v0",
    seeds: tuple[int, ...] = (0,),
    algo: str = "sac",
    until_solved: bool = False,
    **changes: Any,
) -> Course:
    """A short course; by default without a model, which compiles in a quarter of the time."""
    return Course(make_settings(env, algo, **short(algo, **changes)), seeds, until_solved)


def options(algo: str = "sac", **changes: Any) -> list[str]:
    """The same algorithm and settings as they are typed."""
    typed = [f"--algo={algo}"]
    for name, value in short(algo, **changes).items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        typed.append(f"--{name.replace('_', '-')}={text}")
    return typed


def journal(run: storage.Run) -> list[dict[str, Any]]:
    """Its rows, without what depends on the clock."""
    rows = [json.loads(line) for line in run.extra("progress.jsonl").decode().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def assert_same_outcome(a: storage.Run, b: storage.Run) -> None:
    """Equal to the last bit: every array, the journal, and all metrics but the times."""
    arrays_a, arrays_b = a.arrays(), b.arrays()
    assert sorted(arrays_a) == sorted(arrays_b)
    for name, array in arrays_a.items():
        assert array.tobytes() == arrays_b[name].tobytes(), name
    assert journal(a) == journal(b)
    drop = {"seconds"}
    assert {k: v for k, v in a.metrics.items() if k not in drop} == {
        k: v for k, v in b.metrics.items() if k not in drop
    }


def spoil(checkpoint: Path) -> None:
    """Flips one bit."""
    file = checkpoint / "arrays.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


def checkpoints(root: Path, of: Course) -> list[Path]:
    """Those of an unfinished training, the oldest first."""
    return sorted((root / f"{of.id}.part" / "checkpoints").glob("step-*"))


class Said(NamedTuple):
    """What a call of `narl` came to."""

    status: int
    out: str
    err: str


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """`narl` in an empty folder, in this process, without the user's compiled programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NARL_RUNS", raising=False)
    monkeypatch.delenv("NARL_DEBUG", raising=False)
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)

    def narl_(*given: str) -> Said:
        status = cli.main(given)
        return Said(status, *capsys.readouterr())

    return narl_


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for compiled programs that the tests of this session share."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "programs"
    shared.mkdir(exist_ok=True)
    return shared


@pytest.fixture(scope="module")
def cache(programs: Path) -> Iterator[None]:
    """Compiles every program of these tests once."""
    from jax.experimental.compilation_cache import compilation_cache

    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    compilation_cache.reset_cache()
    jax.config.update(names[0], str(programs))
    jax.config.update(names[1], 0.0)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
