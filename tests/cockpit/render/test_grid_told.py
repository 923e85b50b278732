"""What is said of a cell of the grid that has no job."""

from __future__ import annotations

import pytest

from autoexp_tui.cockpit.widgets.grid_pane import explain_cell
from autoexp_tui.planning.grid import build_grid
from tests.planning.plans import job, plan


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (1, "1 more combination that filters took has no row here."),
        (1200, "1200 more combinations that filters took have no row here."),
    ],
)
def test_what_filters_took_and_no_row_shows_is_counted(more: int, said: str) -> None:
    grid = build_grid(plan([job("a", 0, stage="s")], holes_more=more))
    told = explain_cell(grid, (), "t")
    assert said in "".join(span.text for span in told.lines[-1])
