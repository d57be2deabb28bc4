"""The time limit of a run: what its hint names, and where it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dbanon.errors import DbanonError, TimeLimit
from dbanon.run.time_limit import limit_time
from dbanon.sessions.thread_connections import thread_connections
from dbanon.stores.interrupts import interruptible_until_commit


def stall(phase: str | None) -> None:
    """Be in a phase until the limit ends it."""
    with limit_time(0.02) as progress:
        assert progress is not None
        if phase is not None:
            progress(phase, 0.0)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            time.sleep(0.01)
            if threading.current_thread() is not threading.main_thread():
                progress(phase or "", 0.5)


def run(phase: str | None) -> str:
    with pytest.raises(TimeLimit) as caught:
        stall(phase)
    return str(caught.value.hint)


def in_a_thread(work: Callable[[], str]) -> str:
    answers: list[Any] = []

    def call() -> None:
        try:
            answers.append(work())
        except DbanonError as error:
            answers.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return str(answers[0])


@pytest.mark.parametrize("thread", [False, True], ids=["alarm", "thread"])
@pytest.mark.parametrize(
    ("phase", "method"),
    [(None, False), ("read", False), ("write", False), ("verify", False), ("cluster", True)],
)
def test_a_server_that_stalls_is_no_matter_of_the_method(
    phase: str | None, method: bool, thread: bool
) -> None:
    hint = in_a_thread(lambda: run(phase)) if thread else run(phase)
    assert ("faster method" in hint) is method
    assert ("server answers" in hint) is not method
    assert "time_limit" in hint


@pytest.mark.parametrize("moment", ["while committing", "after the commit"])
def test_the_limit_ends_with_the_commit(moment: str) -> None:
    """A published release is not reported as a run that took too long and was rolled back."""
    with limit_time(0.02):
        with interruptible_until_commit() as before_commit:
            before_commit()
            if moment == "while committing":
                time.sleep(0.1)
        time.sleep(0.1)


@pytest.mark.parametrize("thread", [False, True], ids=["alarm", "thread"])
def test_progress_after_the_commit_ends_no_run(thread: bool) -> None:
    """A chain reports progress after its state is committed."""

    def commit_late() -> str:
        with thread_connections().scope(), limit_time(0.02) as progress:
            assert progress is not None
            with interruptible_until_commit() as before_commit:
                before_commit()
                time.sleep(0.1)
            progress("write", 1.0)
        return "committed"

    assert (in_a_thread(commit_late) if thread else commit_late()) == "committed"


@pytest.mark.parametrize("thread", [False, True], ids=["alarm", "thread"])
def test_the_limit_outlasts_a_commit_that_publishes_nothing(thread: bool) -> None:
    """Such as that of the budget: the release itself comes later."""

    def stall_later() -> None:
        with thread_connections().scope(), limit_time(0.05) as progress:
            assert progress is not None
            connections = thread_connections()
            with connections.preliminary_commits(), interruptible_until_commit() as before_commit:
                before_commit()
            until = time.monotonic() + 10
            while time.monotonic() < until:
                time.sleep(0.01)
                if threading.current_thread() is not threading.main_thread():
                    progress("read", 0.5)

    def message() -> str:
        with pytest.raises(TimeLimit) as caught:
            stall_later()
        return str(caught.value.message)

    assert "nothing was published" in (in_a_thread(message) if thread else message())
