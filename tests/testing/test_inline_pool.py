"""The pool without threads."""

from __future__ import annotations

import pytest

from tests.support.inline_pool import InlinePool


def test_nothing_happens_until_a_step_is_taken() -> None:
    pool = InlinePool()
    seen: list[str] = []
    pool.submit("a", lambda: seen.append("called"), lambda *_: seen.append("told"))
    assert seen == []
    pool.step()
    assert seen == ["called"]
    pool.step()
    assert seen == ["called", "told"]
    assert not pool.step()


def test_a_key_is_refused_until_its_answer_is_delivered() -> None:
    pool = InlinePool()
    pool.submit("a", lambda: 1, lambda *_: None)
    pool.call("a")
    assert not pool.submit("a", lambda: 2, lambda *_: None)
    pool.deliver("a")
    assert pool.submit("a", lambda: 3, lambda *_: None)


def test_an_answer_may_submit_its_own_key_again() -> None:
    pool = InlinePool()
    seen: list[object] = []

    def again(answer: object, error: BaseException | None) -> None:
        seen.append(pool.submit("a", lambda: 2, lambda got, _: seen.append(got)))

    pool.submit("a", lambda: 1, again)
    pool.drain()
    assert seen == [True, 2]


def test_a_failed_call_delivers_its_error() -> None:
    pool = InlinePool(immediate=True)
    errors: list[BaseException | None] = []
    pool.submit("a", lambda: 1 / 0, lambda _, error: errors.append(error))
    assert [type(error) for error in errors] == [ZeroDivisionError]


def order_of(seed: int) -> list[object]:
    pool = InlinePool(seed=seed)
    order: list[object] = []
    for number in range(8):
        key = str(number)
        pool.submit(key, key.upper, lambda got, _: order.append(got))
    pool.drain()
    return order


def test_one_seed_gives_one_order_and_seeds_differ() -> None:
    assert order_of(3) == order_of(3)
    assert len({tuple(order_of(seed)) for seed in range(6)}) > 1


def test_what_was_taken_is_never_delivered_after_close() -> None:
    pool = InlinePool()
    seen: list[object] = []
    pool.submit("a", lambda: 1, lambda got, _: seen.append(got))
    pool.call("a")
    pool.close()
    assert not pool.step()
    assert not pool.submit("b", lambda: 1, lambda *_: None)
    assert seen == []


def test_a_pool_that_never_rests_is_an_error() -> None:
    pool = InlinePool()

    def again(answer: object, error: BaseException | None) -> None:
        pool.submit("a", lambda: 1, again)

    pool.submit("a", lambda: 1, again)
    with pytest.raises(RuntimeError, match="did not come to rest"):
        pool.drain(most=50)
