"""`narl train` in processes of their own that are killed, run out of disk, or compete.

Afterwards the same command, or `narl resume`, leads to the run of an undisturbed training, bit for
bit. The processes are forked from one that has imported everything, so that each starts quickly.
"""

from __future__ import annotations

import errno
import io
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from fault_tally import Answer, Tally, check_answer

from narl import storage
from short_trainings import assert_same_outcome, short_arguments

ENV = "Pendulum-v1"
SAC = ["train", ENV, *short_arguments(steps=500, hidden=(8,), batch=16), "--json"]
TINY = {"hidden": (8,), "batch": 16, "model_width": 8, "model_depth": 1, "most_model_epochs": 3}
NARL = ["train", ENV, *short_arguments("narl", steps=500, rollout_batch=50, **TINY), "--json"]
"""Trainings of five epochs, without and with models."""
OPERATIONS = (
    *((io, "open"), (os, "open"), (os, "fsync"), (os, "rename"), (os, "replace")),
    *((os, "mkdir"), (os, "unlink"), (os, "rmdir")),
)
"""Functions at whose calls a fault can come; every write of narl calls some of them."""
SECONDS = 120


class Fault(NamedTuple):
    """A fault at the n-th operation: "kill", or the number of an error that all later ones raise.

    With `file_size`, the system refuses to let any file grow beyond so many bytes.
    """

    kind: str | int = ""
    at: int = 0
    file_size: int = 0


NO_FAULT = Fault()


def _install(fault: Fault) -> list[str]:
    """Make operations fail; return the list to which every one of them is added."""
    seen: list[str] = []

    def failing(module: Any, name: str) -> Callable[..., Any]:
        original = getattr(module, name)

        def operation(*arguments: Any, **options: Any) -> Any:
            if name == "open" and not _opens_for_writing(*arguments, **options):
                return original(*arguments, **options)
            seen.append(name)
            if fault.kind == "kill" and len(seen) == fault.at:
                os.kill(os.getpid(), signal.SIGKILL)
            if isinstance(fault.kind, int) and len(seen) >= fault.at and name not in _FREEING:
                path = None if name == "fsync" else str(arguments[0])
                raise OSError(fault.kind, os.strerror(fault.kind), path)
            return original(*arguments, **options)

        return operation

    for module, name in OPERATIONS:
        setattr(module, name, failing(module, name))
    if fault.file_size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault.file_size, fault.file_size))
    return seen


def _opens_for_writing(path: Any, how: Any = "r", *arguments: Any, **options: Any) -> bool:
    """Return whether a file in the working folder is opened to be written."""
    if isinstance(path, int) or not Path(path).absolute().is_relative_to(Path.cwd()):
        return False  # the cache of compiled programs, whose errors JAX reports by itself
    if isinstance(how, str):
        return bool({*how} & {*"wxa+"})
    return bool(how & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


_FREEING = ("unlink", "rmdir")
"""Operations that succeed on a disk that is full."""


def _run(words: list[str], folder: str, output: str, fault: Fault) -> None:
    """Run `narl` in this process, with its output in files, and end the process."""
    os.chdir(folder)
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{output}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from narl.cli import main

    seen = _install(fault)
    status = main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    if not fault.file_size:
        with open(f"{output}.count", "w") as file:
            file.write(str(len(seen)))
    os._exit(status)


class Processes:
    """Starts `narl` in processes that share the imports and the compiled programs."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(programs)
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        os.environ.pop("NARL_RUNS", None)
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["narl.cli", "narl.commands.train", "narl.commands.training_console", "optax"]
        )
        self._number = 0

    def start(self, words: list[str], root: Path, fault: Fault = NO_FAULT) -> tuple[Any, Path]:
        """Start `narl` in a folder; return the process and the beginning of its output files."""
        root.mkdir(parents=True, exist_ok=True)
        self._number += 1
        output = self.folder / f"output-{self._number}"
        process = self._context.Process(target=_run, args=(words, str(root), str(output), fault))
        process.start()
        return process, output

    def run(self, words: list[str], root: Path, fault: Fault = NO_FAULT) -> Answer:
        """Run `narl` to its end."""
        return self.end(*self.start(words, root, fault))

    def end(self, process: Any, output: Path) -> Answer:
        """Wait for the end of a process and return its answer."""
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"`narl` took more than {SECONDS} s")
        texts = [Path(f"{output}.{name}").read_text(errors="replace") for name in ("out", "err")]
        return Answer(process.exitcode, *texts)

    def count(self, words: list[str], root: Path) -> tuple[Answer, int]:
        """Run `narl` undisturbed; also return the number of its operations."""
        process, output = self.start(words, root)
        answer = self.end(process, output)
        return answer, int(Path(f"{output}.count").read_text())


class Reference(NamedTuple):
    """An undisturbed training: its command, its run, its operations and seconds."""

    arguments: list[str]
    run: storage.Run
    num_operations: int
    seconds: float


def undisturbed(processes: Processes, arguments: list[str] = SAC) -> Reference:
    """Train once without a fault (twice, as the first time compiles)."""
    for name in ("compiled", "whole"):
        begin, folder = time.monotonic(), processes.folder / f"{name}-{arguments[2]}"
        answer, number = processes.count(arguments, folder)
        check_answer(answer, (0,))
    run = storage.load_run(folder / "runs", json.loads(answer.out)["run"])
    return Reference(arguments, run, number, time.monotonic() - begin)


def finish(processes: Processes, reference: Reference, root: Path, random: Random) -> None:
    """Continue a training that was disturbed, and compare its run with the undisturbed one."""
    id_, runs = reference.run.id, root / "runs"
    if (
        random.random() < 0.5
        and (runs / f"{id_}{storage.PART_SUFFIX}" / storage.TRAINING_FILE).exists()
    ):
        answer = processes.run(["resume", id_, "--json"], root)
    else:
        answer = processes.run(reference.arguments, root)
    check_answer(answer, (0,))
    assert_same_outcome(storage.load_run(runs, id_), reference.run)
    if (runs / f"{id_}{storage.PART_SUFFIX}").exists():
        # It was killed after its run was in place: it can still be continued to the same end.
        check_answer(processes.run(["resume", id_, "--json"], root), (0,))
        assert_same_outcome(storage.load_run(runs, id_), reference.run)
    left = [path.name for path in runs.iterdir() if not path.name.startswith(".")]
    assert left == [id_], left


def try_kills(processes: Processes, reference: Reference, number: int, seed: int = 0) -> Tally:
    """Kill trainings at random times and operations, up to three times in a row."""
    what = "training, checkpoint, finishing, resume"
    if reference.arguments is NARL:
        what = "NARL with its models"
    tally, random = Tally(f"kill -9 ({what})"), Random(seed)
    for i in range(number):
        root = processes.folder / f"kill-{reference.run.id}-{seed}-{i}"
        with tally.trial(f"kill {i}", seconds=5 * SECONDS):
            for _ in range(random.choice([1, 1, 2, 3])):
                if random.random() < 0.4:
                    process, output = processes.start(reference.arguments, root)
                    process.join(random.uniform(0, reference.seconds))
                    process.kill()
                    processes.end(process, output)
                else:
                    # Half of them come late, while the finished run is put in place.
                    most = reference.num_operations
                    at = random.choice([random.randint(1, most), most - random.randrange(25)])
                    processes.run(reference.arguments, root, Fault("kill", at))
            finish(processes, reference, root, random)
    return tally


def try_full_disks(processes: Processes, reference: Reference, number: int, seed: int = 0) -> Tally:
    """Let the disk be full, or the folder not be writable, from a random operation on."""
    tally, random = Tally("disk full, no permission"), Random(seed)
    for i in range(number):
        root = processes.folder / f"disk-{seed}-{i}"
        kind = random.choice([errno.ENOSPC, errno.EACCES, errno.EROFS, 0])
        at = random.randint(1, reference.num_operations)
        fault = Fault(kind, at) if kind else Fault(file_size=random.randrange(1, 60_000))
        with tally.trial(f"{i}: {fault}", seconds=5 * SECONDS):
            answer = processes.run(reference.arguments, root, fault)
            if answer.status:
                last = answer.err.strip().splitlines()[-1]
                assert answer.status in (1, 2), answer.status
                assert "Traceback" not in answer.err, answer.err[-500:]
                assert last.startswith("narl: "), last
                assert str(root) in last or "runs" in last, f"no file is named: {last}"
            finish(processes, reference, root, random)
    return tally


def try_many(processes: Processes, reference: Reference, number: int) -> Tally:
    """Start the same training many times at once: one trains, the others say who does."""
    tally = Tally("processes on one run")
    root = processes.folder / f"many-{number}"
    started = [processes.start(reference.arguments, root) for _ in range(number)]
    trained = 0
    for i, (process, output) in enumerate(started):
        with tally.trial(f"process {i}", seconds=5 * SECONDS):
            answer = processes.end(process, output)
            check_answer(answer)
            if answer.status:
                assert "is writing to" in answer.err, answer.err
            else:
                trained += not json.loads(answer.out)["found"]
    with tally.trial("the run"):
        assert trained == 1, f"{trained} have trained"
        run = storage.load_run(root / "runs", reference.run.id)
        assert_same_outcome(run, reference.run)
    return tally
