"""What a person types for a moment of a journal: a time, a distance, a share."""

from __future__ import annotations

import re
import time
from typing import Final

_DISTANCE_UNITS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_DISTANCE: Final = re.compile(r"([+-])\s*(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")
_SHARE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_TIME: Final = re.compile(
    r"(?:(?:(\d{4})-)?(\d{1,2})-(\d{1,2})[ T])?(\d{1,2}):(\d{2})(?::(\d{2}))?"
)


_DAY: Final = re.compile(r"(?:(\d{4})-)?(\d{1,2})-(\d{1,2})")
EXAMPLES: Final = "14:02, 03-12 14:02, +2h, -1d, 50%"


class NoMoment(ValueError):
    """What was typed is no moment; the message says what would be."""


def parse_moment(text: str, at: float, begin: float, end: float) -> float:
    """The moment (UTC) that is meant, seen from `at`; raises NoMoment.

    It may lie outside the journal. A time of day without a date is that of the nearest
    day on which the journal has it.
    """
    wanted = text.strip()
    if match := _DISTANCE.fullmatch(wanted):
        seconds = float(match[2]) * _DISTANCE_UNITS[match[3]]
        return at + (seconds if match[1] == "+" else -seconds)
    if match := _SHARE.fullmatch(wanted):
        return begin + (end - begin) * float(match[1]) / 100
    if match := _TIME.fullmatch(wanted):
        year, month, day, *clock = match.groups()
        hours, minutes, seconds = (int(part or 0) for part in clock)
        if hours > 23 or minutes > 59 or seconds > 59:
            raise NoMoment(f"no time of day: {wanted}")
        of_day = (hours, minutes, int(seconds))
        if month is None:
            return _find_nearest(of_day, at, begin, end)
        return _build_moment(year, month, day, of_day, at)
    if match := _DAY.fullmatch(wanted):
        return _build_moment(match[1], match[2], match[3], (0, 0, 0), at)
    raise NoMoment(f"a time reads {EXAMPLES}")


def _build_moment(
    year: str | None, month: str, day: str, clock: tuple[int, int, int], at: float
) -> float:
    """A date and time in the machine's zone; the year is that of `at` if not given."""
    wanted = int(year or time.localtime(at).tm_year)
    made = time.mktime((wanted, int(month), int(day), *clock, 0, 0, -1))
    if time.localtime(made)[1:3] != (int(month), int(day)):
        raise NoMoment(f"no such day: {month}-{day}")
    return made


def _find_nearest(
    clock: tuple[int, int, int], at: float, begin: float, end: float
) -> float:
    """That time of the shown day, or of the nearest one at which the journal has it."""
    year, month, today = time.localtime(at)[:3]
    moments = [
        time.mktime((year, month, today + day, *clock, 0, 0, -1))
        for day in sorted(range(-31, 32), key=abs)
    ]
    return next((one for one in moments if begin <= one <= end), moments[0])
