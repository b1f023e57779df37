"""One folder of every kind that narl writes, for tests that damage copies of it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import narl
from narl import storage
from narl.deep.checked_config import make_config
from narl.deep.training_run import TrainingStopped, run_training
from narl.report.contents import Chart, Claim, Outcome, Series, Table, load_outcome, save_outcome
from narl.storage.checkpoints import load_checkpoint
from narl.storage.files import open_log
from narl.sweeps.grid import expand, read_grid_file
from narl.sweeps.planned_run import SweepRun, label_runs, sweep_run
from narl.sweeps.run_notes import SWEEPS, RunNotes, record_sweep, recorded_runs
from narl.sweeps.status import SweepStatus
from narl.tabular import load_npz, riverswim, save_npz
from narl.tabular.config import make_config as make_tabular

FIXTURES = Path(__file__).resolve().parents[1] / "storage" / "fixtures"
OPTIONS: dict[str, Any] = {
    "steps": 60,
    "epoch_length": 20,
    "initial_steps": 20,
    "updates_per_step": 1,
    "batch": 16,
    "hidden": (8,),
    "eval_episodes": 1,
    "eval_horizon": 20,
}
"""A training of SAC of three epochs, the first of them with random actions."""
GRID = """\
env = "Pendulum-v1"
steps = 2000
seeds = "0:2"

[[grid]]
algo = ["narl", "mbpo"]
radius = [0.1, "none"]

[[grid]]
algo = "sac"
hidden = [[64, 64], [256, 256]]
"""


class Artifacts(NamedTuple):
    """Paths below one folder."""

    folder: Path
    finished_id: str
    unfinished_id: str
    kept_id: str = ""
    """A finished training that keeps its data; none in quick artifacts."""

    @property
    def runs(self) -> Path:
        """The folder of runs: two of a tabular kind, finished trainings and an unfinished one."""
        return self.folder / "runs"

    @property
    def finished(self) -> Path:
        """The folder of the finished training."""
        return self.runs / self.finished_id

    @property
    def unfinished(self) -> Path:
        """The folder of the training that was stopped, with its checkpoints."""
        return self.runs / f"{self.unfinished_id}{storage.PART_SUFFIX}"

    @property
    def kept(self) -> Path | None:
        """The folder of the finished training that keeps its data, if there is one."""
        return self.runs / self.kept_id if self.kept_id else None

    @property
    def sweeps(self) -> Path:
        """The folder of a sweep's files: its record, and notes and a log of each run."""
        return self.runs / SWEEPS

    @property
    def grid(self) -> Path:
        """The TOML file of a grid."""
        return self.folder / "grid.toml"

    @property
    def agent(self) -> Path:
        """The folder of a saved agent with its data; not there in quick artifacts."""
        return self.folder / "agent"

    @property
    def mdp(self) -> Path:
        """The file of an MDP."""
        return self.folder / "river.npz"

    @property
    def outcome(self) -> Path:
        """The file of an experiment's outcome."""
        return self.folder / "results" / "demo-smoke.json"

    def copy_to(self, folder: Path) -> Artifacts:
        """Return a copy of everything."""
        shutil.rmtree(folder, ignore_errors=True)
        return self._replace(folder=shutil.copytree(self.folder, folder))


def training_config(**changes: Any) -> narl.deep.Config:
    """Return the configuration of a tiny training."""
    return make_config("Pendulum-v1", "sac", **OPTIONS, **changes)


def make_artifacts(folder: Path) -> Artifacts:
    """Make one of each kind; the unfinished training has checkpoints of steps 40 and 50."""
    stopped, kept = training_config(seeds=(1,)), training_config(seeds=(2,))
    made = Artifacts(folder, training_config().run_id, stopped.run_id, kept.run_id)
    run_training([training_config()], made.runs)
    run_training([kept], made.runs, keep_data=True)
    steps: list[int] = []
    with contextlib.suppress(TrainingStopped):
        run_training([stopped], made.runs, on_step=steps.append, should_stop=lambda: 50 in steps)
    narl.SAC("Pendulum-v1", **OPTIONS).learn(60, progress=False).save(made.agent, data=True)
    _make_small_ones(made)
    return made


def make_quick_artifacts(folder: Path) -> Artifacts:
    """Make one of each kind but a saved agent, with no training: they are those of test fixtures.

    The fixtures are older than checksums and numbers of formats, so these are added.
    """
    shutil.copytree(FIXTURES, folder / "runs")
    (unfinished,) = (folder / "runs").glob(f"*{storage.PART_SUFFIX}")
    (finished,) = (path for path in (folder / "runs").iterdir() if path != unfinished)
    made = Artifacts(folder, finished.name, unfinished.name.removesuffix(storage.PART_SUFFIX))
    sign_again(finished)
    config = json.loads((unfinished / storage.TRAINING_FILE).read_bytes())["config"]
    made = made._replace(unfinished_id=storage.run_id(config))  # as this version would name it
    for checkpoint in (unfinished / storage.CHECKPOINTS).iterdir():
        sign_again(checkpoint, schema=1, run=made.unfinished_id)
    unfinished.rename(made.unfinished)
    storage.record_config(made.unfinished, config, 1)
    _make_small_ones(made)
    return made


def _make_small_ones(made: Artifacts) -> None:
    """Make two tabular runs, the files of a sweep, a grid, an MDP and an outcome."""
    for agent in ("psrl", "greedy"):
        config = {"experiment": "tabular", "agent": agent, "env": "riverswim", "seeds": [0, 1]}
        regret = np.arange(8.0).reshape(2, 4)
        storage.save_run(made.runs, config, {"episodes": 4}, {"regret": regret})
    _make_sweep(made)
    made.grid.write_text(GRID)
    save_npz(made.mdp, riverswim(4))
    chart = Chart("c", "Regret", "episode", "regret", [Series("a", [0.0, 1.0], [0.5, None])])
    table = Table("t", "End", ["agent", "regret"], [["a", 0.5]])
    claim = Claim("k", "a is low", "ours", "holds", "0.5")
    outcome = Outcome("demo", "Demo", "smoke", "narl", "about", [chart], [table], [claim])
    save_outcome(outcome, made.outcome.parent)


def _make_sweep(made: Artifacts) -> None:
    """Write the files of a sweep of which a run is done, one failed and others are not finished."""
    configs = [training_config(seeds=(seed,)) for seed in range(5)]
    tabular = make_tabular("psrl", "riverswim", episodes=5, seeds=(0,))
    runs = [sweep_run(config, options={"seeds": config.seeds}) for config in (*configs, tabular)]
    record_sweep(made.runs, label_runs(runs))
    for run in runs[1:]:
        notes = RunNotes(made.runs, run.id)
        with open_log(notes.log) as log:
            log.write(b"begins\n")
        notes.note_worker(step=20)
    RunNotes(made.runs, runs[3].id).note_failure(error="it fell", together=1)
    RunNotes(made.runs, runs[4].id).note_failure(error="one of two fell", together=2)


def plain(value: Any) -> Any:
    """Return a value in a form in which equal values are equal: arrays as types and bytes."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    return value


def read_finished(path: Path) -> Any:
    """Return everything that a run holds."""
    run = storage.load_run(path)
    extras = {}
    if run.config.get("experiment") == "train":
        extras = {"log": run.extra(storage.METRICS_LOG)}
    return plain({"config": run.config, "metrics": run.metrics, "arrays": run.arrays(), **extras})


def read_kept(path: Path) -> Any:
    """Return everything that a run holds, and the data from which it can be extended."""
    whole = read_finished(path)
    data = load_checkpoint(path / storage.CHECKPOINTS, run=storage.load_run(path).id)
    return whole | plain({"data": data.arrays, "notes": data.notes})


def read_sweeps(path: Path) -> dict[str, dict[str, Any]]:
    """Return the state of every run of the sweeps in a folder by id, without the places of logs."""
    runs: list[SweepRun] = recorded_runs(path.parent)
    statuses = SweepStatus(runs, path.parent).read()
    return {status.run.id: status.to_json() | {"log": None} for status in statuses}


def read_grid(path: Path) -> None:
    """Make the runs of a grid; it has no checksum, so a change can lead to other runs."""
    half, grids = read_grid_file(path)
    expand(half, grids)


def read_unfinished(path: Path) -> Any:
    """Return everything that the newest checkpoint holds."""
    run = storage.open_unfinished_run(path)
    if run.problems:
        raise narl.InputError(run.problems[0])
    checkpoint = load_checkpoint(path / storage.CHECKPOINTS, run=run.id)
    parts = {"config": run.config, "every": run.checkpoint_every, "notes": checkpoint.notes}
    return plain(parts | {"arrays": checkpoint.arrays, "history": narl.load(path).history})


def read_agent(path: Path) -> Any:
    """Return everything that a saved agent holds; "state" is None if its data are lost."""
    agent = narl.load(path)
    state = agent._learner.state
    arrays = None if state is None else {"arrays": state[0], "notes": state[1]}
    parts = {"networks": agent._learner.networks, "history": agent.history, "config": agent.config}
    return plain(parts | {"state": arrays, "steps": agent.num_steps})


def read_mdp(path: Path) -> Any:
    """Return the tables of an MDP."""
    mdp = load_npz(path)
    return plain(mdp.portable_dynamics() | {"r": mdp.r, "p0": mdp.p0, "horizon": mdp.horizon})


def read_outcome(path: Path) -> Any:
    """Return an outcome."""
    return load_outcome(path)


def readers(made: Artifacts) -> dict[Path, Callable[[Path], Any]]:
    """Return every artifact with the function that reads it."""
    tabular = [path for path in made.runs.iterdir() if path.name.startswith("tabular")]
    return {
        **dict.fromkeys(tabular, read_finished),
        made.finished: read_finished,
        made.unfinished: read_unfinished,
        **({} if made.kept is None else {made.kept: read_kept}),
        made.sweeps: read_sweeps,
        made.grid: read_grid,
        **({made.agent: read_agent} if made.agent.exists() else {}),
        made.mdp: read_mdp,
        made.outcome: read_outcome,
    }


def sign_again(folder: Path, **fields: Any) -> None:
    """Give a folder whose files were changed a manifest that fits them, with more fields."""
    file = folder / storage.MANIFEST
    manifest = storage.without_checksum(json.loads(file.read_bytes())) | fields
    manifest["files"] = {
        name: storage.files.checksum((folder / name).read_bytes()) for name in manifest["files"]
    }
    file.write_bytes(storage.json_bytes(storage.with_checksum(manifest)))
