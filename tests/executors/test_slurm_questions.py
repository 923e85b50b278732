"""Questions to the controller hold nobody up, and their faults are not lost."""

from __future__ import annotations

import threading
import time

import pytest

from autoexp_tui.executors.slurm.commands import OwnThread


def until(holds: threading.Event) -> None:
    assert holds.wait(5)


def test_who_puts_a_question_does_not_wait_for_its_answer() -> None:
    asked, release = threading.Event(), threading.Event()

    def hangs() -> None:
        asked.set()
        release.wait(5)

    OwnThread().put(hangs)
    until(asked)
    release.set()


def test_no_second_question_while_one_is_under_way() -> None:
    questions, asked, release = OwnThread(), threading.Event(), threading.Event()

    def hangs() -> None:
        asked.set()
        release.wait(5)

    second = threading.Event()
    questions.put(hangs)
    until(asked)
    questions.put(second.set)
    release.set()
    assert not second.wait(0.1)


def ask_until_it_ends(questions: OwnThread) -> None:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        questions.put(lambda: None)


def test_a_fault_reaches_the_next_who_asks() -> None:
    questions = OwnThread()

    def breaks() -> None:
        raise ZeroDivisionError("a bug")

    questions.put(breaks)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        ask_until_it_ends(questions)
    done = threading.Event()
    questions.put(done.set)
    until(done)
