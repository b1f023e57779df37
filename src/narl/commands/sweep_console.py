"""A sweep on the console: its plan, a live table while it goes on, and its end."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from narl import storage
from narl.commands.executor_arguments import ExecutorArguments
from narl.commands.runs_table import NUM_DIGITS
from narl.console import (
    console_of,
    duration,
    make_table,
    note,
    print_json,
    stdout,
    warnings_as_notes,
)
from narl.display import counted
from narl.host_memory import size_as_text
from narl.interrupts import run_interruptible
from narl.run_lookup import command_line
from narl.sweeps.driver import Executor, drive
from narl.sweeps.estimate import Estimate, checkpoint_size, estimate
from narl.sweeps.planned_run import SweepRun
from narl.sweeps.run_notes import record_sweep
from narl.sweeps.status import RunStatus, SweepStatus, count_states
from narl.sweeps.tasks import Task, make_tasks, share_program

REFRESH_SECONDS = 1.0
STYLES = {"done": "green", "running": "bold", "failed": "red", "unfinished": "yellow"}
MOST_NAMED = 4
"""Runs up to which the command that draws them names each."""
ORDER = ("running", "failed", "unfinished", "waiting", "done")


class SweepConsole:
    """The runs of a sweep, shown and executed."""

    def __init__(
        self,
        runs: Sequence[SweepRun],
        root: Path,
        executor: str,
        arguments: ExecutorArguments,
        json: bool,
    ) -> None:
        self.runs, self.json = runs, json
        self.typed_root, self.root = root, root.absolute()  # workers work in other folders
        self.executor, self.arguments = executor, arguments
        self.status = SweepStatus(runs, self.root)

    # --- before ---------------------------------------------------------------------------------

    def show_plan(self) -> int:
        """Print what would be run, and what it would cost; return the exit status."""
        missing = [run for run in self.runs if run.find_current(self.root) is None]
        programs = share_program([run for run in missing if run.is_training])
        tasks = self._make_tasks()
        cost = self._estimate(missing, tasks)
        script = self._job_script(len(tasks)) if self.executor == "slurm" else None
        if self.json:
            result: dict[str, Any] = {
                "runs": [status.to_json() for status in self.status.read()],
                "programs": [[run.id for run in program] for program in programs],
                "tasks": [[run.id for run in task] for task in tasks],
                "estimate": cost._asdict() if cost.num_estimated else None,
            }
            print_json(result if script is None else result | {"script": script})
            return 0
        console = stdout()
        console.print(status_table(self.status.read()))
        console.print(f"{len(self.runs)} runs, {len(self.runs) - len(missing)} of them are done")
        for number, program in enumerate(programs, start=1):
            seeds = sum(len(run.config.seeds) for run in program)
            names = "; ".join(run.label or run.id for run in program)
            console.print(f"program {number} with {seeds} seeds in all: {names}")
        if missing:
            console.print(f"processes: {len(tasks)}; {describe_estimate(cost)}")
        if script is not None:
            console.print(f"\n{script}", soft_wrap=True)
        return 0

    def _estimate(self, missing: Sequence[SweepRun], tasks: Sequence[Task]) -> Estimate:
        """Return what runs will cost; unless it is left off, by trials where none is finished."""
        from narl.sweeps.trial import try_out

        trial = None if self.arguments.no_trial else try_out
        at_once = len(self._slots()) if self.executor == "local" else self.arguments.jobs

        def work() -> Estimate:
            cost = estimate(missing, self.root, trial)
            return cost._replace(checkpoints=checkpoint_size(tasks, at_once or len(tasks)))

        with warnings_as_notes():
            return run_interruptible(work)

    def _make_tasks(self) -> list[Task]:
        arguments = self.arguments
        if self.executor == "local":
            group, workers = arguments.group, len(self._slots())
        else:
            group, workers = arguments.group or 1, 1
        return make_tasks(self.runs, self.root, group=group, num_workers=workers)

    # --- execution ------------------------------------------------------------------------------

    def execute(self) -> int:
        """Do every run that is not done; return the exit status: 1 if a run has failed."""
        if self.executor == "slurm":
            return self._submit()
        begin = time.perf_counter()
        self.run()
        return self._finish(time.perf_counter() - begin)

    def run(self) -> None:
        """Do every run that is not done, and show the progress."""
        self.status = SweepStatus(self.runs, self.root, opens_env=True)
        tasks = self._begin()
        retries = 2 if self.arguments.retries is None else self.arguments.retries
        executor = self._executor() if tasks else None
        # Ray prints what happens in its cluster.
        with contextlib.redirect_stdout(sys.stderr), self._shown() as show:
            if executor is not None:
                drive(tasks, executor, self.root, retries=retries, on_poll=show)

    def _begin(self) -> list[Task]:
        """Return what is to be done, once the sweep is recorded in the folder of runs."""
        storage.check_root(self.root)
        tasks = self._make_tasks()
        record_sweep(self.root, self.runs)
        return tasks

    def _slots(self) -> list[Any]:
        from narl.sweeps.local_executor import make_slots
        from narl.sweeps.resources import visible_gpus

        return make_slots(self.arguments.jobs, self.arguments.resources(), visible_gpus())

    def _executor(self) -> Executor:
        if self.executor == "ray":
            from narl.sweeps.ray_executor import RayExecutor

            return RayExecutor(self.root, self.arguments.resources(), self.arguments.address)
        from narl.sweeps.local_executor import LocalExecutor

        return LocalExecutor(self.root, self._slots())

    def _job_script(self, num_tasks: int) -> str:
        from narl.sweeps.slurm import job_script

        return job_script(num_tasks, self.root, self._slurm_parameters())

    def _slurm_parameters(self) -> dict[str, Any]:
        from narl.sweeps.slurm import slurm_parameters

        arguments = self.arguments
        return slurm_parameters(arguments.resources(), arguments.jobs, arguments.sbatch_options())

    def _submit(self) -> int:
        ids = self.submit_jobs()
        if self.json:
            print_json({"jobs": ids, "runs": [run.id for run in self.runs]})
        elif ids:
            stdout().print(f"submitted {len(ids)} jobs: {ids[0]} to {ids[-1]}")
            stdout().print(f"`narl sweep --status --runs {self.root}` shows how far they are")
        else:
            stdout().print("every run is done")
        return 0

    def submit_jobs(self) -> list[str]:
        """Submit what is not done to SLURM and return the ids of the jobs."""
        from narl.sweeps.slurm import submit

        parameters, tasks = self._slurm_parameters(), self._begin()
        gpus = self.arguments.resources().gpus
        jobs = submit(tasks, self.root, parameters, gpus) if tasks else []
        return [job.job_id for job in jobs]

    @contextlib.contextmanager
    def _shown(self) -> Iterator[Any]:
        """Give a function that shows the progress: a live table, or a line per ended run."""
        last = 0.0
        ended = {x.run.id for x in self.status.read() if x.state == "done"}
        if ended:
            note(f"{len(ended)} of {len(self.runs)} runs are done already")
        with live_table() as live:

            def show(now: bool = False) -> None:
                nonlocal last
                if not now and time.monotonic() - last < REFRESH_SECONDS:
                    return
                last = time.monotonic()
                statuses = self.status.read()
                if live is not None:
                    live.update(live_view(statuses, live.console.height), refresh=True)
                    return
                for status in statuses:
                    if status.state in ("done", "failed") and status.run.id not in ended:
                        ended.add(status.run.id)
                        name = status.run.label or status.run.id
                        note(f"{len(ended)}/{len(self.runs)} {name}: {status.state}")

            yield show
            show(now=True)

    def _finish(self, seconds: float) -> int:
        """Print the outcome, and the failed runs with their logs; return the exit status."""
        statuses = self.status.read()
        counts = count_states(statuses)
        if self.json:
            runs = [status.to_json() for status in statuses]
            print_json({"counts": counts, "runs": runs, "seconds": round(seconds, 3)})
        else:
            stdout().print(f"{counts['done']} of {len(statuses)} runs are done")
            if done := [status.run.id for status in statuses if status.state == "done"]:
                stdout().print(f"`{self._report_command(done)}` draws them", soft_wrap=True)
        note_failures(statuses)
        return 0 if counts["done"] == len(statuses) else 1

    def _report_command(self, ids: Sequence[str]) -> str:
        """Return the command that draws these runs; where they are many, all of the folder."""
        if len(ids) > MOST_NAMED:
            return f"{command_line('report', str(self.typed_root))}/*"
        return command_line("report", *(id_[-NUM_DIGITS:] for id_ in ids), runs=self.typed_root)

    # --- status ---------------------------------------------------------------------------------

    def show_status(self, follow: bool) -> int:
        """Print how far every run is; return the exit status: 1 if a run has failed."""
        statuses = self.status.read()
        if not statuses and not self.json:
            stdout().print(f"no sweep was executed in {self.root}")
            return 0
        if follow:
            statuses = self._follow(statuses)
        counts = count_states(statuses)
        if self.json:
            print_json({"counts": counts, "runs": [status.to_json() for status in statuses]})
        else:
            stdout().print(status_table(statuses))
            stdout().print(describe_counts(counts))
        return 1 if counts["failed"] else 0

    def _follow(self, statuses: list[RunStatus]) -> list[RunStatus]:
        """Wait until every run is done or has failed, and show a table meanwhile in a terminal."""
        with live_table() as live:
            while any(status.state not in ("done", "failed") for status in statuses):
                if live is not None:
                    live.update(live_view(statuses, live.console.height), refresh=True)
                time.sleep(REFRESH_SECONDS)
                statuses = self.status.read()
        return statuses


@contextlib.contextmanager
def live_table() -> Iterator[Live | None]:
    """Give a table that can be updated in place; None where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with Live(console=console_of(sys.stderr), transient=True, auto_refresh=False) as live:
        yield live


def status_table(statuses: Sequence[RunStatus]) -> Table:
    """Return a table with a row for every run."""
    table = make_table("run", "options", "state", "step", "return", "where", numbers=("step",))
    for status in statuses:
        mean = "" if status.mean_return is None else f"{status.mean_return:z.1f}"
        step = f"{status.step}/{status.run.length}" if status.step else ""
        where = f"{status.error} ({status.log})" if status.state == "failed" else status.worker
        state = Text(status.state, style=STYLES.get(status.state, ""))
        table.add_row(status.run.id, status.run.label, state, step, mean, where)
    return table


def live_view(statuses: Sequence[RunStatus], height: int) -> Group:
    """Return the table for a terminal: running and failed runs first, as many as there is room."""
    ordered = sorted(statuses, key=lambda status: ORDER.index(status.state))
    room = max(height - 4, 3)
    more = len(ordered) - room
    lines: list[Any] = [status_table(ordered[:room])]
    if more > 0:
        lines.append(Text(f"and {more} more", style="dim"))
    return Group(*lines, Text(describe_counts(count_states(statuses))))


def note_failures(statuses: Sequence[RunStatus]) -> None:
    """Print a line for every failed run: its error and its log."""
    for status in statuses:
        if status.state == "failed":
            label = f" ({status.run.label})" if status.run.label else ""
            note(f"failed: {status.run.id}{label}: {status.error}; its log is {status.log}")


def describe_counts(counts: Any) -> str:
    """Return the numbers of runs in each state as text."""
    return ", ".join(f"{number} {state}" for state, number in counts.items() if number)


def describe_estimate(cost: Estimate) -> str:
    """Return the estimated time and disk as text."""
    if not cost.num_estimated:
        return "no finished run of these algorithms is in the folder, so time and disk are unknown"
    unknown = f"; {cost.num_unknown} runs cannot be estimated" if cost.num_unknown else ""
    sources = {"finished run": cost.num_examples, "short trial": cost.num_trials}
    source = " and ".join(counted(number, name) for name, number in sources.items() if number)
    size = size_as_text(cost.size)
    line = f"about {duration(cost.seconds)} one after the other and {size} of disk"
    if cost.checkpoints:
        line += f" (meanwhile up to {size_as_text(cost.checkpoints)} more for checkpoints)"
    line += f", from {source}"
    if cost.num_trials:
        line += ", extrapolated to all steps, episodes and seeds"
    return line + unknown
