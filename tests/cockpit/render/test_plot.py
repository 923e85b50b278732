"""Curves share one scale; what cannot be drawn is left out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.widgets.metrics_pane import (
    Plotted,
    measure_scale,
    render_legend,
    render_plot,
)
from autoexp_tui.model.snapshot import Curve

FALLING = Curve((0, 100, 200), (4.0, 3.0, 2.0))
LOW = Curve((0, 400), (0.5, 0.4))


def drawn(*curves: Curve, cells: int = 60, rows: int = 14, log: bool = False) -> str:
    plotted = [Plotted(f"c{n}", curve) for n, curve in enumerate(curves)]
    return "\n".join(plain(row) for row in render_plot(plotted, cells, rows, log=log))


def test_one_scale_holds_all_curves() -> None:
    found = measure_scale([Plotted("a", FALLING), Plotted("b", LOW)], log=False)
    assert found is not None
    assert (found.x0, found.x1) == (0, 400)
    assert found.y0 < 0.4
    assert found.y1 > 4.0


def test_a_plot_has_letters_its_last_step_and_the_newest_value() -> None:
    text = drawn(FALLING, LOW)
    assert all(part in text for part in ("a", "b", "400 steps"))
    assert "2.000" in plain(next(render_legend([Plotted("a", FALLING)], 60)))
    assert "nothing to draw yet" in drawn(Curve())
    assert "too small" in drawn(FALLING, cells=12, rows=4)


@pytest.mark.parametrize(
    ("values", "log", "ends"),
    [((1.0, math.nan, math.inf), False, (0, 0)), ((-1.0, 10.0), True, (1, 1))],
    ids=["no numbers", "not positive on a logarithmic scale"],
)
def test_what_cannot_be_drawn_is_left_out(
    values: tuple[float, ...], *, log: bool, ends: tuple[int, int]
) -> None:
    curve = Curve(tuple(range(len(values))), values)
    found = measure_scale([Plotted("a", curve)], log=log)
    assert found is not None
    assert (found.x0, found.x1) == ends


@pytest.mark.parametrize("cells", [30, 60, 119])
def test_no_row_is_too_wide(cells: int) -> None:
    plotted = [Plotted("a", FALLING), Plotted("b" * 200, LOW)]
    assert all(width(row) <= cells for row in render_plot(plotted, cells, 20))
    assert all(width(row) <= cells for row in render_legend(plotted, cells))


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=40),
    st.booleans(),
)
def test_any_values_can_be_drawn(values: list[float], log: bool) -> None:
    curve = Curve(tuple(range(len(values))), tuple(values))
    rows = render_plot([Plotted("a", curve)], 60, 14, log=log)
    assert all(width(row) <= 60 for row in rows)
