"""The command line: finds the command, and turns whatever happens into an exit status.

0 done, 2 the input is wrong, 3 interrupted (the same command continues), 1 anything else.
Commands, and tyro, NumPy and JAX with them, are imported when they are asked for.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import IO

from narl import __version__
from narl.errors import Failure, InputError, nearest

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 3

COMMANDS = (
    *("tabular", "train", "eval", "resume", "reproduce", "report", "runs", "paper", "doctor"),
)
"""Each is the module of that name in `narl.commands`."""

HELP = """\
usage: narl COMMAND [ARGUMENTS]

Optimistic model-based reinforcement learning: noise-augmented RL (NARL), its
rivals, exact regret and what it is made of.

  narl tabular AGENT ENV   run an agent with many seeds, score it exactly
  narl train ENV           train NARL, MBPO or SAC with many seeds at once
  narl eval RUN            episodes of a trained policy, and a video of it
  narl resume RUN          continue a training that was stopped
  narl reproduce ID...     an experiment of the paper, with its claims:
                           fig1a fig1b fig1c table1 ablation fig3a table2,
                           or all
  narl report [RUN...]     charts, tables and claims in one offline HTML file,
                           or the trainings that are named
  narl runs                the runs that are kept: list, show, remove
  narl paper               which code implements which equation
  narl doctor              versions, device, MuJoCo, rendering, disk

  narl COMMAND --help      what a command takes
  narl --version           the version

Start with:  narl tabular narl-ucrl riverswim
             narl train InvertedPendulum-v5

Every command takes --json (one JSON object on stdout, all else on stderr) and
--debug (also NARL_DEBUG=1: the traceback of an error). Runs are kept in the
folder `runs`, or in the one that NARL_RUNS names; a finished run is found
again, not repeated. Exit status: 0 done, 2 the input is wrong, 3 interrupted
(the same command continues), 1 anything else.
"""

INTERRUPTED_LINE = "interrupted; finished runs are kept, the same command continues from there"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; `arguments` are those after `narl`."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given or os.environ.get("NARL_DEBUG", "") not in ("", "0")
    given = [argument for argument in given if argument != "--debug"]
    _prepare_streams()
    try:
        with _answering_interrupts(), _without_warnings(debug):
            status = _dispatch(given)
            sys.stdout.flush()
    except SystemExit as end:  # tyro ends so after it has printed a command's help
        status = DONE if not end.code else WRONG_INPUT
    except KeyboardInterrupt as interrupt:
        status = _interrupted(interrupt)
    except BrokenPipeError:
        # The reader has seen enough (`narl runs | head`), and the work is done by the time
        # that its result is printed.
        status = DONE
    except Exception as error:
        if debug:
            traceback.print_exc()
        status = WRONG_INPUT if isinstance(error, InputError) else FAILED
        hint = "" if debug or status == WRONG_INPUT else " (--debug shows where)"
        _say(f"{_line(error, given)}{hint}")
    _drop_what_cannot_be_printed()
    return status


def _dispatch(given: list[str]) -> int:
    command, *rest = given or ["help"]
    if command in ("-h", "--help") or given in ([], ["help"]):
        sys.stdout.write(HELP)
        return DONE
    if command in ("-V", "--version"):
        sys.stdout.write(f"narl {__version__}\n")
        return DONE
    if command == "help":
        command, rest = rest[0], ["--help"]
    if command.startswith("-"):
        close = nearest(command, ("--help", "--version", "--debug"))
        raise InputError(
            f"{command}: unknown option; did you mean {close}? "
            "Options of a command come after it (see narl --help)"
        )
    if command not in COMMANDS:
        raise InputError(
            f"{command}: unknown command; did you mean {nearest(command, COMMANDS)!r}? "
            f"(one of {', '.join(COMMANDS)})"
        )
    module = importlib.import_module(f"narl.commands.{command}")
    return int(module.main(rest))


@contextlib.contextmanager
def _answering_interrupts() -> Iterator[None]:
    """SIGTERM, which schedulers send, counts as Ctrl-C, and neither is lost.

    Python drops an exception that is raised in a callback of the garbage collector (JAX has
    one); then the interrupt is sent again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def dropped(args: sys.UnraisableHookArgs) -> None:
        if issubclass(args.exc_type, KeyboardInterrupt):
            # From another thread, because here it would be dropped as well; and as a signal,
            # because that ends a wait.
            again = (threading.main_thread().ident, signal.SIGTERM)
            threading.Timer(0.01, signal.pthread_kill, again).start()
        else:
            hook(args)

    before, hook = signal.signal(signal.SIGTERM, interrupt), sys.unraisablehook
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _without_warnings(debug: bool) -> Iterator[None]:
    """Warnings of libraries are for programmers: they are shown with --debug."""
    with warnings.catch_warnings():
        if not debug:
            # Not by a filter, because libraries put their own in front of it.
            warnings.showwarning = lambda *given, **more: None
        yield


def _interrupted(interrupt: KeyboardInterrupt) -> int:
    _say(str(interrupt) or INTERRUPTED_LINE)
    if getattr(interrupt, "busy", False):
        # XLA cannot be stopped, and Python would wait for it, or crash with it, on the way out.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(INTERRUPTED)
    return INTERRUPTED


def _line(error: Exception, given: Sequence[str] = ()) -> str:
    """What went wrong, in one line, when this was asked for."""
    text = " ".join(str(error).split())
    if isinstance(error, InputError | Failure):
        return text
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "Out of memory" in text:
        if given[:1] in (["train"], ["resume"]):
            smaller = "a smaller --rollout-batch, --retain-epochs, --buffer or --batch"
        else:
            smaller = "fewer members or a smaller environment"
        return f"out of memory; take fewer seeds, {smaller}"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}"
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _say(line: str) -> None:
    # If nobody is listening, the exit status says it as well.
    with contextlib.suppress(OSError):
        print(f"narl: {line}", file=sys.stderr, flush=True)


def _prepare_streams() -> None:
    """Closed streams swallow what is printed; letters that a terminal lacks become '?'."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _drop_what_cannot_be_printed() -> None:
    """What a closed pipe or a full disk refused; Python would try again, and complain, at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _nowhere() -> IO[str]:
    return open(os.devnull, "w", encoding="utf-8")
