"""A word on an end that was heard once stays true for its run."""

from __future__ import annotations

from autoexp_tui.adapters.slurm_last_words import LastWords
from autoexp_tui.adapters.slurm_text import AccountRow, raw_state

TASK = ("a", 1)


def row(word: str, executor_id: str = "6") -> AccountRow:
    return AccountRow(
        id=executor_id,
        raw_id=executor_id,
        state=raw_state(word),
        exit_code=0,
        signal=0,
        submitted_at=1.0,
        ended_at=16.0,
        nodes="n2",
        name="a-0c34",
    )


def heard(word: str) -> LastWords[AccountRow]:
    words: LastWords[AccountRow] = LastWords()
    words.of(TASK, 0, "6", row(word))
    return words


def test_an_end_that_was_told_is_not_forgotten_by_answers_that_lack_it() -> None:
    words = heard("PREEMPTED")
    assert words.of(TASK, 0, "6", None) == row("PREEMPTED")


def test_who_was_told_to_live_may_have_ended_since() -> None:
    assert heard("RUNNING").of(TASK, 0, "6", None) is None


def test_an_end_of_one_run_is_none_of_the_next() -> None:
    assert heard("PREEMPTED").of(TASK, 1, "6", None) is None


def test_an_end_of_another_start_is_none_of_this_one() -> None:
    assert heard("PREEMPTED").of(TASK, 0, "7", None) is None


def test_what_is_told_now_counts_and_is_remembered() -> None:
    words = heard("PREEMPTED")
    words.of(TASK, 0, "6", row("NODE_FAIL"))
    assert words.of(TASK, 0, "6", None) == row("NODE_FAIL")


def test_nothing_is_kept_of_tasks_that_nobody_asks_about() -> None:
    words = heard("PREEMPTED")
    words.keep_only({("b", 1)})
    assert words.of(TASK, 0, "6", None) is None
