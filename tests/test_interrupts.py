"""Work in a thread that an interrupt ends at once, or asks to stop."""

import os
import signal
import threading
import time

import pytest

from narl import interrupts
from narl.interrupts import (
    Interrupted,
    hold_interrupts,
    run_interruptible,
    run_stoppable,
    run_with_checkpoint,
)


@pytest.fixture
def interrupt():
    """Send Ctrl-C to this process after each of the given delays."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timers = []

    def send(*delays):
        for delay in delays:
            timers.append(threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)))
            timers[-1].start()

    yield send
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGINT, before)


def wait_for_end(work, patience=0.2):
    """Run work that does not look whether it should stop."""
    return run_stoppable(lambda should_stop: work(), lambda: None, patience)


def with_patience(work):
    """Run such work with a patience that only a second interrupt ends."""
    return wait_for_end(work, patience=25)


@pytest.mark.parametrize("run", [run_interruptible, wait_for_end])
def test_result_or_error_of_the_work_comes_through(run):
    assert run(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("run", "delays"),
    [(run_interruptible, [0.1]), (wait_for_end, [0.1]), (with_patience, [0.1, 0.4])],
)
def test_interrupt_does_not_wait_for_work_that_goes_on(interrupt, run, delays):
    release, begin = threading.Event(), time.monotonic()
    interrupt(*delays)
    with pytest.raises(Interrupted):
        run(lambda: release.wait(30))
    assert time.monotonic() - begin < 10
    release.set()


def test_work_is_asked_to_stop_and_given_time(interrupt):
    def work(should_stop):
        while not should_stop():
            time.sleep(0.01)
        return "checkpoint"

    calls = []
    interrupt(0.1)
    assert run_stoppable(work, lambda: calls.append("stopping"), patience=10) == "checkpoint"
    assert calls == ["stopping"]


@pytest.mark.parametrize("is_compiling", [False, True])
@pytest.mark.parametrize(
    ("raised", "line"),
    [
        (KeyboardInterrupt("stopped at step 7"), "stopped at step 7; try again"),
        (KeyboardInterrupt(), ""),
        (Interrupted(), "at once"),
    ],
)
def test_stopped_work_says_where_and_how_it_goes_on(monkeypatch, raised, line, is_compiling):
    monkeypatch.setattr(interrupts, "is_compiling", lambda: is_compiling)

    def work(should_stop):
        raise raised

    with pytest.raises(KeyboardInterrupt) as stop:
        run_with_checkpoint(work, "try again", lambda: "at once")
    assert str(stop.value) == line
    # A program that is being compiled has to be left alone: the process ends without it.
    assert isinstance(stop.value, Interrupted) == (is_compiling or isinstance(raised, Interrupted))


def test_interrupt_announces_the_checkpoint(interrupt, capsys):
    def work(should_stop):
        while not should_stop():
            time.sleep(0.01)
        raise KeyboardInterrupt("stopped at step 7")

    interrupt(0.1)
    with pytest.raises(KeyboardInterrupt, match=r"^stopped at step 7$"):
        run_with_checkpoint(work)
    assert capsys.readouterr().err == "stopping: a checkpoint is written …\n"


@pytest.mark.usefixtures("interrupt")
@pytest.mark.parametrize("run", [run_interruptible, wait_for_end])
def test_signal_that_another_thread_receives_is_answered(run):
    release, begin = threading.Event(), time.monotonic()

    def work():
        # The system may hand a process's signal to any thread, which wakes no other thread.
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        release.wait(20)

    timer = threading.Timer(5.0, release.set)  # so that a failure ends soon
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(work)
    assert time.monotonic() - begin < 4
    timer.cancel()
    release.set()


def test_held_interrupt_is_noticed_and_a_second_one_raised(interrupt):
    with hold_interrupts() as is_interrupted:
        interrupt(0.05)
        while not is_interrupted():
            time.sleep(0.01)
        interrupt(0.05)
        with pytest.raises(KeyboardInterrupt):
            time.sleep(10)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
