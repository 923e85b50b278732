"""Curves are told apart without colour, broken at gaps, and cut at the frame."""

from __future__ import annotations

import pytest

from autoexp_tui.cockpit.render.plot import MARGIN, render_plot
from autoexp_tui.cockpit.spans import plain, width
from autoexp_tui.cockpit.state.curves import Band, Drawn, Frame
from autoexp_tui.model.snapshot import Curve

RISING = Curve(tuple(range(101)), tuple(map(float, range(101))))


def draw(*drawn: Drawn, cells: int = 50, rows: int = 12, **frame: object) -> list[str]:
    shown = Frame(**frame)  # type: ignore[arg-type]
    return [plain(one)[MARGIN:] for one in render_plot(drawn, cells, rows, shown)][:-2]


def test_a_line_has_no_hole_from_edge_to_edge() -> None:
    rows = draw(Drawn(0, RISING))
    assert all(any(row[column] != " " for row in rows) for column in range(41))
    assert rows[-1][0] != " "


def test_what_was_not_finite_or_has_no_logarithm_breaks_a_curve() -> None:
    gap = Curve((0, 40, 60, 100), (1.0, 1.0, 1.0, 1.0), (50,))
    middle = {row[20] for row in draw(Drawn(0, gap))}
    negative = Curve((1, 40, 50, 60, 100), (1.0, 1.0, -1.0, 1.0, 1.0))
    other = {row[20] for row in draw(Drawn(0, negative), log_y=True)}
    assert middle == other == {" "}


def test_a_part_shows_the_lines_that_pass_through_it() -> None:
    sparse = Curve((0, 1000), (0.0, 1.0))
    rows = draw(Drawn(0, sparse), window=(400.0, 600.0))
    assert sum(row.strip() != "" for row in rows) == len(rows)


def test_curves_of_ascii_are_made_of_letters_and_of_26_each_has_its_own() -> None:
    flat = [Curve((0, 100), (float(at), float(at))) for at in range(26)]
    drawn = [Drawn(at, one) for at, one in enumerate(flat)]
    letters = set("".join(draw(*drawn, rows=40, ascii=True)))
    assert letters == {chr(ord("a") + at) for at in range(26)} | {" "}
    assert set("".join(draw(*drawn, rows=40))) > letters - {" "}


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_band_stands_out_from_its_mean_without_colour(ascii_only: bool) -> None:
    flat = Curve((0, 100), (5.0, 5.0))
    band = Band((0, 100), (0.0, 0.0), (10.0, 10.0))
    rows = draw(Drawn(0, flat, band=band), ascii=ascii_only)
    strewn, mean = rows[2][10], rows[5][10]
    assert strewn not in (" ", mean)
    assert len({row[10] for row in (*rows[1:4], *rows[6:9])}) == 1


def test_of_a_logarithm_a_band_without_a_lower_edge_reaches_the_bottom() -> None:
    flat = Curve((1, 100), (5.0, 5.0))
    band = Band((1, 100), (-1.0, -1.0), (10.0, 10.0))
    assert draw(Drawn(0, flat, band=band), log_y=True)[-1][10] != " "


def test_a_readout_stands_at_its_step_and_too_little_room_is_said() -> None:
    lines = [
        plain(one) for one in render_plot([Drawn(0, RISING)], 50, 12, Frame(cursor=50))
    ]
    assert lines[-1][MARGIN + 19 : MARGIN + 23].strip() == "50"
    assert lines[-2][MARGIN + 20] == "┴"
    small = render_plot([Drawn(0, RISING)], 50, 4, Frame())
    assert [plain(one).strip() for one in small] == ["too small to draw", "", "", ""]
    none = render_plot([Drawn(0, RISING)], 50, 8, Frame(window=(1.0, 0.5)))
    assert all(width(one) == 50 for one in (*small, *none))
