"""Fixtures of all tests: `narl` in this process, compiled programs and a trained run to share.

Every shape annotation of `narl` is checked while the tests run (jaxtyping with beartype).
"""

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import typecheck

# Must be in place before anything imports narl.
typecheck.install()

# Traced programs are very many objects that live long: with Python's own threshold (700), a fifth
# of the tests' time goes into looking for garbage among them.
gc.set_threshold(50_000, 10, 10)


def pytest_collection_finish() -> None:
    """Keep the modules out of later searches for garbage."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with pages and notebooks, which take longest, so that no worker waits for them."""
    items.sort(key=lambda item: item.path.name not in ("test_docs.py", "test_notebook.py"))


class Result(NamedTuple):
    """The exit status and the output of a call of `narl`."""

    status: int
    out: str
    err: str


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run `narl` in this process and an empty folder, without the user's compiled programs."""
    from narl import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NARL_RUNS", raising=False)
    monkeypatch.delenv("NARL_DEBUG", raising=False)
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)

    def run(*arguments: str) -> Result:
        status = cli.main(arguments)
        return Result(status, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def programs(request: pytest.FixtureRequest) -> Path:
    """A folder for compiled programs that all tests share, also those of a later session."""
    return request.config.cache.mkdir("programs")


@pytest.fixture(scope="session", autouse=True)
def cache(programs: Path) -> None:
    """Compile every program of the tests once, also the small ones: there are thousands."""
    import jax

    # For the processes that tests start; and with them narl does not turn on the user's cache.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(programs)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    jax.config.update("jax_compilation_cache_dir", str(programs))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)


MOST_MAPS = 40_000
"""Memory maps of a process from which on compiled programs are dropped; Linux allows 65 530."""


@pytest.fixture(scope="module", autouse=True)
def few_memory_maps() -> None:
    """Drop compiled programs before a module if there are many: each of them holds memory maps."""
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        import jax

        jax.clear_caches()


class Trainings(NamedTuple):
    """A folder of runs with two short trainings of SAC and a tabular run, by folder name."""

    root: Path
    finished: str
    """300 steps with seeds 4 and 6; solved at step 100."""
    unfinished: str
    """Seed 0 with another buffer, stopped at step 200 of 300."""
    tabular: str


@pytest.fixture(scope="session")
def shared_trainings(tmp_path_factory: pytest.TempPathFactory, cache: None) -> Trainings:
    """Trainings for tests that only read; `trainings` is a copy for tests that write."""
    from narl import storage
    from narl.deep.training_run import TrainingStopped, run_training
    from short_trainings import short_config

    root = tmp_path_factory.mktemp("trainings")
    config = {"experiment": "tabular", "agent": "psrl", "env": "riverswim", "seeds": [0]}
    tabular = storage.save_run(root, config, {"episodes": 7}, {})
    finished = short_config(seeds=(4, 6), solved_return=-1e6)
    run_training([finished], root)
    unfinished = short_config(buffer=5000)
    with pytest.raises(TrainingStopped):
        run_training([unfinished], root, on_epoch=lambda metrics: metrics["step"] < 200)
    return Trainings(root, finished.run_id, f"{unfinished.run_id}{storage.PART_SUFFIX}", tabular.id)


@pytest.fixture
def trainings(shared_trainings: Trainings, tmp_path: Path) -> Trainings:
    """A copy of the shared trainings in the folder `runs` of the test's own folder."""
    root = tmp_path / "runs"
    shutil.copytree(shared_trainings.root, root)
    return shared_trainings._replace(root=root)


@pytest.fixture
def registry() -> Iterator[None]:
    """Forget the algorithms that a test registers when the test is over."""
    from narl.deep.algorithm_registry import ALGORITHMS

    before = dict(ALGORITHMS)
    yield
    ALGORITHMS.clear()
    ALGORITHMS.update(before)
