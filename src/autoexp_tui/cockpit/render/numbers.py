"""Numbers as the screens spell them: short, of a steady width, never misleading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from autoexp_tui.model.moment import wall_time
from autoexp_tui.model.wording import clock_time, count, duration, number

BARS: Final = "▁▂▃▄▅▆▇█"
FULL: Final = "█"
EMPTY: Final = "░"


def measure(value: float | None) -> str:
    """A metric's value with four digits; `nan` and `inf` by name, None as `-`."""
    if value is None:
        return "-"
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")
    places = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    return f"{value:.{places}f}"


def pace(rate: float) -> str:
    """`2.6 steps a second`: three digits, for it is measured over seconds, no finer."""
    return f"{number(float(f'{rate:.3g}'))} steps a second"


def progress(step: int | None, total: int | None) -> str:
    """`31.2k/60k`; the step alone without a total; `-` without a step."""
    if step is None:
        return "-"
    return f"{count(step)}/{count(total)}" if total else count(step)


def percent(step: int | None, total: int | None) -> str:
    """`52 %`; the step alone without a total; `-` without a step."""
    if step is None or not total:
        return progress(step, total)
    return f"{min(step / total, 9.99):.0%}".replace("%", " %")


def elapsed(seconds: float | None) -> str:
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


def moment(t: float, now: float) -> str:
    """An estimated time to come: `~19:40` within a day, `in ~3 d 4 h` beyond."""
    return (
        f"~{clock_time(wall_time(t, now))}"
        if t - now < 20 * 3600
        else f"in ~{duration(t - now)}"
    )


def sparkline(values: Sequence[float], cells: int) -> str:
    """The values' shape, at most `cells` wide; what is not finite leaves a gap."""
    shown = _thin(values, cells)
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    reach = (high - low) or 1.0
    return "".join(
        BARS[round((value - low) / reach * 7)] if math.isfinite(value) else " "
        for value in shown
    )


def _thin(values: Sequence[float], cells: int) -> Sequence[float]:
    if len(values) <= cells:
        return values
    last = len(values) - 1
    return [values[round(place * last / (cells - 1))] for place in range(cells)]


def bar(done: float, cells: int) -> tuple[str, str]:
    """The filled and the empty part of a bar; anything begun shows at least one."""
    fraction = min(max(done, 0.0), 1.0)
    filled = int(fraction * cells)
    if fraction > 0 and filled == 0:
        filled = 1
    return FULL * filled, EMPTY * (cells - filled)
