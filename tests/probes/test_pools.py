"""The thread pool: one call a key, answers in order, threads that survive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from queue import Queue

import pytest

from autoexp_tui.probes.pools import ThreadPool

WAIT = 10.0
"""Seconds before a test that hangs is failed."""


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    made = ThreadPool("test", 2)
    yield made
    made.close()


Answer = tuple[object, BaseException | None]


class Answers:
    def __init__(self) -> None:
        self.queue = Queue[Answer]()

    def __call__(self, answer: object, error: BaseException | None) -> None:
        self.queue.put((answer, error))

    def wait(self, count: int) -> list[Answer]:
        return [self.queue.get(timeout=WAIT) for _ in range(count)]


class Held:
    def __init__(self) -> None:
        self.started, self.release = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.started.set()
        assert self.release.wait(WAIT)


def test_a_call_runs_elsewhere_and_an_exception_is_an_answer(pool: ThreadPool) -> None:
    answers = Answers()
    here = threading.get_ident()
    for number in range(5):
        pool.submit(str(number), lambda: 1 / 0, answers)
    assert pool.submit("good", lambda: threading.get_ident() != here, answers)
    got = answers.wait(6)
    assert sum(isinstance(error, ZeroDivisionError) for _, error in got) == 5
    assert (True, None) in got


def test_other_keys_run_beside_a_hung_one_which_is_refused(pool: ThreadPool) -> None:
    hung, answers = Held(), Answers()
    pool.submit("hung", hung, answers)
    assert hung.started.wait(WAIT)
    assert not pool.submit("hung", lambda: 2, answers)
    for number in range(3):
        pool.submit(str(number), lambda: 1, answers)
    assert answers.wait(3) == [(1, None)] * 3
    held = [hung, *(Held() for _ in range(4))]
    for number, call in enumerate(held[1:]):
        pool.submit(str(number), call, answers)
    assert held[1].started.wait(WAIT)  # never more threads than were asked for
    assert sum(call.started.is_set() for call in held) == 2
    for call in held:
        call.release.set()
    answers.wait(5)


def test_answers_of_one_key_do_not_overtake_each_other(pool: ThreadPool) -> None:
    order, second_ran = Queue[str](), threading.Event()

    def first(answer: object, error: BaseException | None) -> None:
        pool.submit("a", second_ran.set, lambda *_: order.put("2"))
        assert not second_ran.wait(0.05)
        order.put("1")

    pool.submit("a", lambda: None, first)
    assert [order.get(timeout=WAIT), order.get(timeout=WAIT)] == ["1", "2"]


def test_a_delivery_that_fails_is_logged_and_the_thread_goes_on(
    pool: ThreadPool, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(answer: object, error: BaseException | None) -> None:
        raise ValueError("no room")

    answers = Answers()
    with caplog.at_level(logging.ERROR):
        for number in range(4):
            pool.submit(str(number), lambda: 1, broken)
        pool.submit("good", lambda: 2, answers)
        answers.wait(1)
    assert "could not be delivered" in caplog.text


def test_after_close_nothing_is_taken_and_nothing_is_delivered() -> None:
    pool, answers, held = ThreadPool("test", 1), Answers(), Held()
    pool.submit("running", held, answers)
    assert held.started.wait(WAIT)
    pool.submit("waiting", lambda: 1, answers)
    pool.close()
    assert not pool.submit("late", lambda: 1, answers)
    threads = [t for t in threading.enumerate() if t.name.startswith("test-")]
    held.release.set()
    for thread in threads:
        thread.join(WAIT)
    assert answers.queue.empty()
