"""How numbers, spans of time and names are spelled for people, everywhere alike, and
what a person types for a moment of a journal. Pure: the present is an argument. Times
of day are in the machine's own zone."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, Literal, TypeAlias
from unicodedata import combining, east_asian_width

from autoexp_tui.text.sanitize import clean_line

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86400
UNKNOWN: Final = "?"
"""For a number or a time that says nothing."""


class Present(float):
    """The present `t` of a session, which knows what the wall clock shows."""

    __slots__ = ("wall_ahead",)
    wall_ahead: float
    """Seconds by which the wall clock shows more than `t`."""

    def __new__(cls, t: float, wall_ahead: float = 0.0) -> Present:
        """`t` as a number; `wall_ahead` is what makes a time of day of it."""
        made = super().__new__(cls, t)
        made.wall_ahead = wall_ahead
        return made


def wall_time(t: float, now: float | None) -> float:
    """UTC of a moment `t`, by the wall clock as it goes at `now`."""
    return t + now.wall_ahead if isinstance(now, Present) else t


def duration(seconds: float) -> str:
    """A span of time in two units: `40 s`, `52 min`, `3 h 12`, `2 d 4 h`."""
    if not math.isfinite(seconds):
        return UNKNOWN
    whole = max(0, int(seconds))  # negative where clocks differ
    if whole < 100:
        return f"{whole} s"
    if whole < 100 * MINUTE:
        return f"{whole // MINUTE} min"
    if whole < 2 * DAY:
        minutes = whole % HOUR // MINUTE
        return f"{whole // HOUR} h" + (f" {minutes:02d}" if minutes else "")
    hours = whole % DAY // HOUR
    return f"{whole // DAY} d" + (f" {hours} h" if hours else "")


def clock_time(t: float, now: float | None = None) -> str:
    """The time of day of `t`, `14:07`; with its date when not of the day of `now`."""
    moment = _local(wall_time(t, now))
    if moment is None:
        return UNKNOWN
    clock = time.strftime("%H:%M", moment)
    today = _local(wall_time(now, now)) if now is not None else moment
    if today is None or moment[:3] == today[:3]:
        return clock
    return f"{time.strftime('%Y-%m-%d', moment)} {clock}"


def _local(t: float) -> time.struct_time | None:
    try:
        return time.localtime(t)
    except (ValueError, OverflowError, OSError):
        return None


def count(number: float) -> str:
    """A count for a narrow column: `812`, `9999`, `31.2k`, `60k`, `1.5M`."""
    if math.isfinite(number) and abs(number) < 10_000:
        return f"{number:.0f}"
    return _scale(number, ("", "k", "M", "G", "T"))


def size(count_of_bytes: float) -> str:
    """A number of bytes: `0 B`, `312 B`, `4.1 MB` (powers of ten)."""
    return _scale(count_of_bytes, (" B", " kB", " MB", " GB", " TB"))


def _scale(number: float, units: Sequence[str]) -> str:
    """A number in the unit that leaves up to three digits, no idle zeros."""
    if not math.isfinite(number):
        return UNKNOWN
    steps = sum(abs(number) >= 999.5 * 1e3**step for step in range(len(units) - 1))
    number /= 1e3**steps
    places = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    text = f"{number:.{places}f}"
    text = text.rstrip("0").rstrip(".") if places else text
    return text + units[steps]


def plural(number: int, noun: str) -> str:
    """`1 job`, `3 jobs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def join_some(texts: Sequence[str], most: int) -> str:
    """`a, b`; of more than `most`: `a, b and 3 more`."""
    rest = len(texts) - most
    shown = ", ".join(texts[:most])
    return f"{shown} and {rest} more" if rest > 0 else shown


def ordinal(number: int) -> str:
    """A place in line: `first`, `third`, `12th`."""
    if 1 <= number <= len(_PLACES):
        return _PLACES[number - 1]
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{'th' if 10 <= number % 100 <= 20 else ending}"


_PLACES: Final = ("first", "second", "third", "fourth", "fifth", "sixth")


Notation: TypeAlias = Literal["shorter", "decimal", "scientific"]
"""Of floats; `shorter`: of each the one that is."""


def format_float(number: float, notation: Notation = "shorter") -> str:
    """The shorter of decimal and scientific, which reads back as the same float:
    `1e-4`, `2.5e-4`, `0.01`, `50`; an `int` stays decimal, and so does zero."""
    if isinstance(number, int):
        return str(int(number))
    if not math.isfinite(number):
        return str(number)
    from decimal import Decimal  # few need it

    exact = Decimal(repr(abs(float(number)))).normalize()
    first, *rest = map(str, exact.as_tuple().digits)
    scientific = f"{first}.{''.join(rest)}" if rest else first
    scientific += f"e{exact.adjusted()}"
    decimal = f"{exact:f}"
    sign = "-" if number < 0 else ""
    if notation == "shorter":
        return sign + min(decimal, scientific, key=len)
    return sign + (scientific if notation == "scientific" and number else decimal)


def choose_notation(values: Iterable[object]) -> Notation:
    """In which the floats among `values` stand below each other, all alike: the one
    that takes fewer characters for all, decimal on a tie."""
    floats = [one for one in values if isinstance(one, float)]
    scientific = sum(len(format_float(one, "scientific")) for one in floats)
    decimal = sum(len(format_float(one, "decimal")) for one in floats)
    return "scientific" if scientific < decimal else "decimal"


def spell_alike(texts: Sequence[str]) -> tuple[str, ...]:
    """The same values, those that are floats all in one notation."""
    floats: dict[str, float] = {}
    for text in texts:
        with suppress(ValueError):
            if not text.lstrip("-").isdecimal():
                floats[text] = float(text)
    notation = choose_notation(floats.values())
    spelled = {text: format_float(one, notation) for text, one in floats.items()}
    return tuple(spelled.get(text, text) for text in texts)


def format_number(value: float) -> str:
    """A measured number in at most four significant digits: `2.914`, `1e-4`, `8000`."""
    if isinstance(value, int) or not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return format_float(float(f"{value:.4g}"))


def format_yaml_value(value: object, notation: Notation = "shorter") -> str:
    """A value of a config as YAML has it, cleaned: `true`, `null`, `1e-4`, `""`."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float):
        return format_float(value, notation)
    return clean_line(value) or '""'


def count_columns(text: str) -> int:
    """Columns that `text` takes in a terminal, wide characters as two."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
        for char in text
    )


def fit(text: str, width: int) -> str:
    """`text` in at most `width` columns, an ellipsis where it was cut."""
    if count_columns(text) <= width:
        return text
    kept = text[: max(width, 0)]
    while kept and count_columns(kept) > width - 1:
        kept = kept[:-1]
    return kept.rstrip() + "…" if width > 0 else ""


def format_metric(value: float | None, digits: int = 4) -> str:
    """A metric's value with so many digits, `2.914`, `0.9812`, very small and large
    ones with two fewer, `2.5e-3`; `nan` and `inf` by name, None as `-`."""
    if value is None:
        return "-"
    size = abs(value)
    if 1e-2 <= size < 1e5:  # most are such
        places = digits - (size >= 1) - (size >= 10) - (size >= 100)
        return f"{value:.{places}f}"
    if value == 0:
        return f"{value:.{digits - 1}f}"
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return format_float(float(f"{value:.{max(1, digits - 3)}e}"), "scientific")


def format_pace(rate: float) -> str:
    """`2.6 steps a second`: three digits, for it is measured over seconds, no finer."""
    return f"{format_number(float(f'{rate:.3g}'))} steps a second"


def format_progress(step: int | None, total: int | None) -> str:
    """`31.2k/60k`; the step alone without a total; `-` without a step."""
    if step is None:
        return "-"
    return f"{count(step)}/{count(total)}" if total else count(step)


def format_percent(step: int | None, total: int | None) -> str:
    """`52 %`; the step alone without a total; `-` without a step."""
    if step is None or not total:
        return format_progress(step, total)
    return f"{min(step / total, 9.99):.0%}".replace("%", " %")


def format_elapsed(seconds: float | None) -> str:
    """A span of time in at most five cells: `12s`, `4m05`, `3h12`, `2d04`."""
    if seconds is None:
        return "-"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}"
    return f"{whole // 86400}d{whole % 86400 // 3600:02}"


def format_estimate(t: float, now: float) -> str:
    """An estimated time to come: `~19:40` within a day, `in ~3 d 4 h` beyond."""
    return (
        f"~{clock_time(wall_time(t, now))}"
        if t - now < 20 * 3600
        else f"in ~{duration(t - now)}"
    )


_SPANS: Final = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_AMOUNT: Final = r"\d+(?:\.\d+)?"
_FLAGS: Final = re.ASCII | re.IGNORECASE
_UNITS: Final = "|".join(_SPANS)
_DISTANCE: Final = re.compile(rf"([+-])\s*({_AMOUNT})\s*({_UNITS})")
_SPAN: Final = re.compile(rf"\s*({_AMOUNT})\s*({_UNITS})(?![a-z])", _FLAGS)
_MINUTES: Final = re.compile(r"(h\s+\d\d)\s*$", _FLAGS)
_SHARE: Final = re.compile(rf"({_AMOUNT})\s*%")
_CLOCKS: Final = ("%H:%M", "%H:%M:%S")
_DATES: Final = ("%m-%d", "%Y-%m-%d")
EXAMPLES: Final = "14:02, 03-12 14:02, +2h, -1d, 50%"


def parse_duration(text: str) -> float:
    """Seconds of `90 s`, `2h`, `3 h 12` or `1 d 4 h`; raises ValueError with a
    sentence."""
    whole, seconds, at = _MINUTES.sub(r"\1 min", text), 0.0, 0
    while part := _SPAN.match(whole, at):
        seconds, at = seconds + float(part[1]) * _SPANS[part[2].lower()], part.end()
    if not at or whole[at:].strip() or not math.isfinite(seconds):
        raise ValueError(f'"{clean_line(text)}" is no time: 90 s, 30 min, 2 h, 1 d 4 h')
    return seconds


def format_duration(seconds: float) -> str:
    """A span of time without rounding, which `parse_duration` reads back: in the
    largest unit of which it is a whole number, `90 min`; else in seconds."""
    for unit in ("d", "h", "min"):
        if seconds and not seconds % _SPANS[unit]:
            return f"{int(seconds // _SPANS[unit])} {unit}"
    return f"{format_float(seconds, 'decimal')} s"


class NoMoment(ValueError):
    """What was typed is no moment; the message says what would be."""


def parse_moment(text: str, at: float, begin: float, end: float) -> float:
    """The moment (UTC) that is meant, seen from `at`; raises NoMoment. It may lie
    outside the journal. A time of day without a date is that of the nearest day on
    which the journal has it."""
    wanted = text.strip().replace("T", " ")
    if match := _DISTANCE.fullmatch(wanted):
        seconds = float(match[2]) * _SPANS[match[3]]
        return at + (seconds if match[1] == "+" else -seconds)
    if match := _SHARE.fullmatch(wanted):
        return begin + (end - begin) * float(match[1]) / 100
    year, month, today = time.localtime(at)[:3]
    for form in _CLOCKS:
        with suppress(ValueError):
            clock = time.strptime(wanted, form)[3:6]
            days = (today + day for day in sorted(range(-31, 32), key=abs))
            moments = [_make_moment(year, month, day, *clock) for day in days]
            there = (one for one in moments if begin <= one <= end)
            return next(there, moments[0])
    for form in (*_DATES, *(f"{date} {clock}" for date in _DATES for clock in _CLOCKS)):
        # A year is given, for otherwise there is no 29th of February.
        dated = (wanted, form) if "%Y" in form else (f"{year}-{wanted}", f"%Y-{form}")
        with suppress(ValueError):
            return _make_moment(*time.strptime(*dated)[:6])
    raise NoMoment(f"a time reads {EXAMPLES}")


def _make_moment(*parts: int) -> float:
    """A date and time in the machine's zone, in UTC."""
    return time.mktime((*parts, 0, 0, -1))  # type: ignore[arg-type]
