"""The command line: runs one command and turns its outcome into an exit status.

0 done, 2 the input is wrong, 3 interrupted (the same command continues), 1 anything else.
A command, and tyro, NumPy and JAX with it, is imported when it is called.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import textwrap
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import IO

from narl import __version__
from narl.errors import (
    Failure,
    InputError,
    did_you_mean,
    is_out_of_memory,
    nearest,
    system_error_line,
)
from narl.experiments.registry import EXPERIMENTS

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 3

COMMANDS = (
    *("tabular", "train", "sweep", "tune", "eval", "play", "resume"),
    *("reproduce", "report", "runs", "paper", "doctor", "completion"),
)
"""Names of commands; the module of this name in `narl.commands` has a function `main`."""

_IDS = textwrap.wrap(f"{' '.join(EXPERIMENTS)}, or all", 52, break_on_hyphens=False)
HELP = f"""\
usage: narl COMMAND [ARGUMENTS]

Optimistic model-based reinforcement learning: noise-augmented RL (NARL), its
baselines, exact regret and its decomposition.

  narl tabular AGENT ENV   run an agent with many seeds and its exact regret
  narl train ENV           train NARL or a rival with many seeds at once
  narl sweep ENV,...       run a grid of options, on one machine or many
  narl tune ENV            search for good values of options
  narl eval RUN            play episodes of a trained policy, record a video
  narl play RUN            watch a trained policy in a window
  narl resume RUN          continue a training that was stopped
  narl reproduce ID...     run experiments of the paper and check its claims:
{textwrap.indent(chr(10).join(_IDS), " " * 27)}
  narl report [RUN...]     write charts, tables and claims as one offline HTML
                           file; with RUN, a report on these trainings
  narl runs                list, show, compare or remove stored runs
  narl paper               list which code implements which equation
  narl doctor              check versions, device, MuJoCo, rendering, disk
  narl completion SHELL    print a script for bash, zsh or fish

  narl COMMAND --help      arguments and options of a command
  narl --version           the version

Start with:  narl tabular narl-ucrl riverswim
             narl train InvertedPendulum-v5

Every command takes --json (one JSON object on stdout, all else on stderr) and
--debug (also NARL_DEBUG=1: the traceback of an error). Runs are stored in the
folder `runs`, or in the folder that NARL_RUNS names; a finished run is found
there and not repeated. Exit status: 0 done, 2 the input is wrong, 3
interrupted (the same command continues), 1 anything else.
"""

INTERRUPTED_LINE = "interrupted; finished runs are kept, the same command continues from there"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; ``arguments`` are those after `narl`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words or os.environ.get("NARL_DEBUG", "") not in ("", "0")
    words = [word for word in words if word != "--debug"]
    _prepare_streams()
    try:
        with _answering_interrupts(), _without_warnings(debug):
            status = _run_command(words)
            sys.stdout.flush()
    except SystemExit as end:  # raised by tyro after it has printed a command's help
        status = DONE if not end.code else WRONG_INPUT
    except KeyboardInterrupt as interrupt:
        status = _end_interrupted(interrupt)
    except BrokenPipeError:
        # The reader has closed the pipe (`narl runs | head`); results are printed when the work
        # is done.
        status = DONE
    except Exception as error:
        if debug:
            traceback.print_exc()
        status = WRONG_INPUT if isinstance(error, InputError) else FAILED
        hint = "" if debug or status == WRONG_INPUT else " (--debug shows where)"
        _print_line(f"{_error_line(error, words)}{hint}")
    _discard_unprintable_output()
    return status


def _run_command(words: list[str]) -> int:
    command, *rest = words or ["help"]
    if command in ("-h", "--help") or words in ([], ["help"]):
        sys.stdout.write(HELP)
        return DONE
    if command in ("-V", "--version"):
        sys.stdout.write(f"narl {__version__}\n")
        return DONE
    if command == "help":
        command, rest = rest[0], ["--help"]
    if command.startswith("-"):
        close = nearest(command, ("--help", "--version", "--debug"))
        hint = "" if close is None else f"; did you mean {close}?"
        raise InputError(
            f"{command}: unknown option{hint or ';'} options of a command come after it (see narl "
            "--help)"
        )
    if command not in COMMANDS:
        raise InputError(
            f"{command}: unknown command{did_you_mean(command, COMMANDS) or ';'} it must be one of "
            f"{', '.join(COMMANDS)}"
        )
    module = importlib.import_module(f"narl.commands.{command}")
    return int(module.main(rest))


@contextlib.contextmanager
def _answering_interrupts() -> Iterator[None]:
    """Treat SIGTERM, which schedulers send, as Ctrl-C, and lose neither of them.

    Python drops an exception that is raised in a callback of the garbage collector (JAX has
    one); then the signal is sent again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def send_again(args: sys.UnraisableHookArgs) -> None:
        if issubclass(args.exc_type, KeyboardInterrupt):
            # From another thread, because an exception raised here is dropped as well; as a
            # signal, because a signal ends a wait.
            target = (threading.main_thread().ident, signal.SIGTERM)
            threading.Timer(0.01, signal.pthread_kill, target).start()
        else:
            hook(args)

    before, hook = signal.signal(signal.SIGTERM, interrupt), sys.unraisablehook
    sys.unraisablehook = send_again
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _without_warnings(debug: bool) -> Iterator[None]:
    """Hide the warnings of libraries, which are for programmers, except with --debug."""
    with warnings.catch_warnings():
        if not debug:
            # A filter does not suffice: libraries put their own filters in front of it.
            warnings.showwarning = lambda *args, **kwargs: None
        yield


def _end_interrupted(interrupt: KeyboardInterrupt) -> int:
    """Print the line of an interrupt and return the exit status, or end the process with it."""
    _print_line(str(interrupt) or INTERRUPTED_LINE)
    if getattr(interrupt, "busy", False):
        # XLA cannot be stopped; Python would wait for XLA, or crash with it, when it exits.
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(INTERRUPTED)
    return INTERRUPTED


def _error_line(error: Exception, words: Sequence[str]) -> str:
    """Return one line that describes an error of the command that these words called."""
    text = " ".join(str(error).split())
    if isinstance(error, InputError | Failure):
        return text
    if is_out_of_memory(error):
        if words[:1] in (["train"], ["resume"]):
            smaller = "a smaller --rollout-batch, --retain-epochs, --buffer or --batch"
        else:
            smaller = "fewer members or a smaller environment"
        return f"out of memory; take fewer seeds, {smaller}"
    if line := system_error_line(error):
        return line
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__


def _print_line(line: str) -> None:
    # Where stderr is closed, the exit status has to suffice.
    with contextlib.suppress(OSError):
        print(f"narl: {line}", file=sys.stderr, flush=True)


def _prepare_streams() -> None:
    """Replace closed streams by the null device, and letters that a terminal lacks by '?'."""
    sys.stdout = sys.stdout or _null_stream()
    sys.stderr = sys.stderr or _null_stream()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _discard_unprintable_output() -> None:
    """Discard output that a closed pipe or a full disk refused; Python would retry it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _null_stream() -> IO[str]:
    return open(os.devnull, "w", encoding="utf-8")
