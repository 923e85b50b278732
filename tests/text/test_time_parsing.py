"""A moment of a journal is typed as a time, a distance or a share."""

from __future__ import annotations

import time

import pytest

from autoexp_tui.text.spelling import NoMoment, parse_moment


def local(*parts: int) -> float:
    return time.mktime((2026, *parts, *(0,) * (5 - len(parts)), 0, 0, -1))  # type: ignore[arg-type]


BEGIN, END, AT = local(3, 7, 8, 41), local(3, 14, 5), local(3, 10, 19, 9, 43)


@pytest.mark.parametrize(("text", "wanted"), [
    ("14:02", local(3, 10, 14, 2)), (" 14:02:30 ", local(3, 10, 14, 2, 30)),
    ("03-12 14:02", local(3, 12, 14, 2)), ("2026-03-12 14:02", local(3, 12, 14, 2)),
    ("2026-03-12T14:02", local(3, 12, 14, 2)), ("03-12", local(3, 12)),
    ("+2h", AT + 7200), ("-1d", AT - 86400), ("+ 1.5 min", AT + 90),
    ("0%", BEGIN), ("50 %", (BEGIN + END) / 2), ("100%", END),
])  # fmt: skip
def test_what_is_typed_is_understood(text: str, wanted: float) -> None:
    assert parse_moment(text, AT, BEGIN, END) == pytest.approx(wanted)


def test_a_time_that_the_shown_day_has_not_is_the_nearest_of_the_journal() -> None:
    assert parse_moment("06:00", BEGIN + 60, BEGIN, END) == local(3, 8, 6)
    assert parse_moment("23:00", END, BEGIN, END) == local(3, 13, 23)


@pytest.mark.parametrize("text", ["", "noon", "25:00", "14:61", "02-30", "+2", "%"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(NoMoment):
        parse_moment(text, AT, BEGIN, END)
