"""The queue of programs for the device: one after the other, in a thread of its own."""

import threading

import pytest

from narl.deep.device_queue import DeviceQueue


class FakeProgram:
    """A program that appends its arguments to the state, once it may."""

    def __init__(self, error=None):
        self.error, self.may_run = error, threading.Event()
        self.may_run.set()
        self.waited_in, self.ran_in = None, None

    def wait(self):
        self.waited_in = threading.current_thread()

    def __call__(self, state, own, shared):
        assert self.may_run.wait(10)
        self.ran_in = threading.current_thread()
        if self.error is not None:
            raise self.error
        return [*state, (own, shared)], len(state)


@pytest.fixture
def queue():
    queue = DeviceQueue([])
    yield queue
    queue.close()


def test_programs_run_in_order_while_the_caller_goes_on(queue):
    slow, quick = FakeProgram(), FakeProgram()
    slow.may_run.clear()
    results = [queue.submit(slow, 1, "a"), queue.submit(quick, 2, "b")]
    assert not results[0].done()
    slow.may_run.set()
    assert queue.wait() == [(1, "a"), (2, "b")]
    assert [result.result() for result in results] == [0, 1]
    # Compilation is waited for by the caller, whose clock subtracts it.
    assert slow.waited_in is threading.current_thread()
    assert slow.ran_in is quick.ran_in is not threading.current_thread()


def test_error_stops_later_programs_and_reaches_every_caller(queue):
    queue.submit(FakeProgram(), 1, "a")
    failed, later = queue.submit(FakeProgram(OSError("gone")), 2, "b"), FakeProgram()
    skipped = queue.submit(later, 3, "c")
    for call in (failed.result, skipped.result, queue.wait, lambda: queue.replace([])):
        with pytest.raises(OSError, match="gone"):
            call()
    assert later.ran_in is None


def test_replaced_state_is_used_after_the_programs_before_it(queue):
    slow = FakeProgram()
    slow.may_run.clear()
    first = queue.submit(slow, 1, "a")
    threading.Timer(0.05, slow.may_run.set).start()
    queue.replace(["new"])
    assert first.result() == 0
    assert queue.submit(FakeProgram(), 2, "b").result() == 1
    assert queue.wait() == ["new", (2, "b")]


def test_close_waits_for_the_last_program():
    queue, slow = DeviceQueue([]), FakeProgram()
    slow.may_run.clear()
    result = queue.submit(slow, 1, "a")
    threading.Timer(0.05, slow.may_run.set).start()
    queue.close()
    assert result.done()
