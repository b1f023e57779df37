"""Arguments of commands that spread runs over processes or machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from narl.commands.arguments import EnvTimeout, Switch, environment_parts, value
from narl.errors import InputError
from narl.options import check_used_by
from narl.validation import check_count

if TYPE_CHECKING:
    from narl.sweeps.planned_run import SweepRun
    from narl.sweeps.resources import Resources

USED_BY: dict[str, tuple[str, ...]] = {
    "jobs": ("local", "slurm"),
    "group": ("local", "ray", "slurm"),
    "retries": ("local", "ray"),
    "cpus": ("local", "ray", "slurm"),
    "gpus": ("local", "ray", "slurm"),
    "memory": ("ray", "slurm"),
    "time": ("slurm",),
    "address": ("ray",),
    "slurm": ("slurm",),
}
"""The executors that use each argument."""


@dataclasses.dataclass(frozen=True)
class ExecutorArguments:
    """Processes or jobs that do the runs, and the resources of each of them."""

    jobs: Annotated[int | None, value("N", "(default: one per GPU, or 1; 100 with slurm)")] = None
    """largest number of processes at a time [local, slurm]"""
    group: Annotated[
        int | None, value("N", "(default: shares of the jobs; 1 with ray and slurm)")
    ] = None
    """largest number of runs in a process: trainings in one program, tabular runs in turn"""
    retries: Annotated[int | None, value("N", "(default: 2)")] = None
    """times that a run is begun again after its process was killed [local, ray]"""
    cpus: Annotated[
        int | None, value("N", "(default: a share of all cores; 1 with ray and slurm)")
    ] = None
    """cores of each process; ray reserves them, and does not bind the process to them"""
    gpus: Annotated[float | None, value("X")] = None
    """GPUs of each process, or a share such as 0.25, which also limits JAX's memory"""
    memory: Annotated[float | None, value("GB")] = None
    """memory of each process [ray, slurm]"""
    time: Annotated[str | None, value("TIME", "(default: 1-00:00:00)")] = None
    """time limit of a job, in minutes, H:MM:SS or D-HH:MM:SS; unfinished trainings are queued
    again [slurm]"""
    address: Annotated[str | None, value("ADDRESS")] = None
    """address of a Ray cluster, such as auto or ray://host:10001 [ray]"""
    slurm: Annotated[str | None, value("NAME=VALUE,...")] = None
    """further options of sbatch, such as partition=gpu,account=lab [slurm]"""
    env_timeout: EnvTimeout = None
    dry_run: Switch = False
    """print the runs, those that share a program, and the time and disk they need; run nothing"""
    no_trial: Switch = False
    """with --dry-run: do not try out what runs cost of which none is finished"""

    def check(self, executor: str | None, has_trainings: bool) -> None:
        """Refuse arguments that are wrong, or have no effect with the executor or the runs."""
        given = [name for name in USED_BY if getattr(self, name) is not None]
        if executor is None and given:
            raise InputError(f"{given[0]}: it has no effect without an executor; leave it out")
        check_used_by(given, USED_BY.__getitem__, executor or "", "executor")
        for name, least in (("jobs", 1), ("group", 1), ("retries", 0)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least)
        if self.no_trial and not self.dry_run:
            raise InputError("no_trial: it has no effect without --dry-run; leave it out")
        if self.env_timeout is not None:
            environment_parts(None, self.env_timeout)  # refuses what is no time
            if not has_trainings:
                raise InputError("env_timeout: it has no effect on tabular runs; leave it out")
        self.resources()
        self.sbatch_options()

    def with_timeout(self, runs: Iterable[SweepRun]) -> list[SweepRun]:
        """Return the runs with the time-out of their environments."""
        return [run._replace(env_timeout=self.env_timeout) for run in runs]

    def resources(self) -> Resources:
        """Return the checked resources of each process."""
        from narl.sweeps.resources import make_resources

        return make_resources(self.cpus, self.gpus, self.memory, self.time)

    def sbatch_options(self) -> dict[str, str]:
        """Return the further options of sbatch by name."""
        pairs = [] if self.slurm is None else self.slurm.split(",")
        for pair in pairs:
            if not all(pair.partition("=")):
                raise InputError(
                    f"slurm: {pair!r} is wrong; it must be like partition=gpu,account=lab"
                )
        return {name.strip(): text for name, _, text in (pair.partition("=") for pair in pairs)}
