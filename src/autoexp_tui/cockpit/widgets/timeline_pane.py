"""The time-line: a strip for each stage, and for each job of the stages that are open.

Only visible jobs are worked out. A stage's strip is kept until its jobs, the window or
the present move by a cell.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.cockpit.render.timeline import (
    Window,
    build_job_strip,
    build_stage_strip,
    build_window,
    render_axis,
)
from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    fit,
    join,
    join_cells,
    outside,
    shorten_middle,
)
from autoexp_tui.cockpit.state.parameters import describe_job
from autoexp_tui.cockpit.state.stages import StageView
from autoexp_tui.cockpit.widgets.list_pane import GroupsPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin

_LEGEND: tuple[tuple[str, str], ...] = (
    ("·", "waits"),
    ("░", "queued"),
    ("█", "ran"),
    ("▒", "in vain"),
    ("✗", "failed"),
)
_LEGEND_CELLS: Final = 76
"""From here on all of the legend has room in the title; else it does without the mark
that the rows have too.
"""


class TimelinePane(GroupsPane[StageView]):
    """Stages and jobs over time."""

    name_in_table = "timeline"
    number = "9"
    heading = "Time-line"

    def __init__(self, skin: Skin, model: SessionModel, **options: Any) -> None:
        super().__init__(skin, model, **options)
        self.window: Window | None = None
        """What a person chose to see; None: everything."""
        self._strips: dict[str, tuple[object, tuple[JobView, ...], list[Span]]] = {}

    # -------------------------------------------------------------------- contents
    def renew(self) -> None:
        """Take the model's newest session."""
        self.list_groups(self.model.stages)

    def find_key(self, group: StageView) -> str:
        return f"stage:{group.name}"

    def describe_row(self) -> str:
        """What a stage under the cursor is called; empty on a job."""
        stage = self.find_group()
        return f"stage {stage.name}" if stage and self.find_job() is None else ""

    @property
    def label_width(self) -> int:
        """Cells left of the strips."""
        return 18 if self.cells < 100 else 32

    @property
    def strip_width(self) -> int:
        """Cells of a strip."""
        return max(1, self.cells - self.lead - self.label_width)

    def find_window(self) -> Window:
        """The window as it is drawn now."""
        if self.window is not None:
            return Window(self.window.begin, self.window.seconds, self.strip_width)
        return build_window(self._find_begin(), self._find_end(), self.strip_width)

    def _find_begin(self) -> float:
        snapshot = self.model.session.snapshot
        return snapshot.started_at or self.model.session.now

    def _find_end(self) -> float:
        playback = self.model.session.snapshot.playback
        latest = max(self.model.session.now, self.model.ends.session or 0.0)
        return latest if playback is None else max(latest, playback.end)

    # -------------------------------------------------------------------- the window
    def resize_window(self, factor: float) -> None:
        """Show less, or more, around the present, or around the middle."""
        shown, now = self.find_window(), self.model.session.now
        middle = shown.begin + shown.seconds / 2
        around = now if shown.begin <= now < shown.end else middle
        self.window = shown.zoom(factor, around)
        self.update_lines()

    def move_window(self, share: float) -> None:
        """Move the window by a share of its length."""
        self.window = self.find_window().move(share)
        self.update_lines()

    def show_all(self) -> None:
        """Show everything again, and follow the present."""
        self.window = None
        self.update_lines()

    # -------------------------------------------------------------------------- rows
    def build_head(self, cells: int) -> Sequence[Line]:
        session = self.model.session
        indent = self.lead + self.label_width
        return render_axis(
            self.find_window(), session.now, session.snapshot.gaps, indent
        )

    def row(self, place: int, cells: int) -> Line:
        stage, job = self._rows[place]
        window, now = self.find_window(), self.model.session.now
        if job is None:
            mark = "▾" if self.is_open(stage) else "▹"
            name = fit(f"{mark} {stage.name}", self.label_width - 6)
            label = Span(f"{name}{stage.total:>5} ", "strong")
            return (label, *join_cells(self._build_strip(stage, window)))
        words = describe_job(job.record.spec, self.model.words.parameters)
        name = shorten_middle(words or outside(job.name), self.label_width - 5)
        strip = build_job_strip(job.record, self._find_begin(), now, window)
        return (
            Span(f"  {job.look.glyph} ", job.look.role),
            Span(fit(name, self.label_width - 4)),
            *join_cells(strip),
        )

    def _build_strip(self, stage: StageView, window: Window) -> list[Span]:
        now = self.model.session.now
        wish = (window, window.cell(now))
        known = self._strips.get(stage.name)
        if known is not None and known[0] == wish and _is_same(known[1], stage.jobs):
            return known[2]
        cells = build_stage_strip(stage.jobs, self._find_begin(), now, window)
        self._strips[stage.name] = (wish, stage.jobs, cells)
        return cells

    def build_title(self) -> Line:
        parts: list[Line] = []
        wide = self.cells >= _LEGEND_CELLS
        if self.window is not None:
            parts.append((Span("f shows all" if wide else "f all", "accent"),))
        legend = [
            (Span(glyph, "text"), Span(f" {word}", "muted"))
            for glyph, word in (_LEGEND if wide else _LEGEND[:-1])
        ]
        return join([*parts, *legend], "  ")

    def describe_nothing(self) -> Line:
        return (Span(" Nothing is planned yet.", "muted"),)


def _is_same(old: tuple[JobView, ...], new: tuple[JobView, ...]) -> bool:
    return len(old) == len(new) and all(map(operator.is_, old, new))
