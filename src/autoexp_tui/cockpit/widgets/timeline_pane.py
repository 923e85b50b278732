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
from autoexp_tui.cockpit.widgets.list_pane import ListPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import Desk
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.state.stages import StageView
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


class TimelinePane(ListPane):
    """Stages and jobs over time."""

    name_in_table = "timeline"
    number = "9"
    heading = "Time-line"

    def __init__(self, skin: Skin, desk: Desk, **options: Any) -> None:
        super().__init__(skin, **options)
        self.desk = desk
        self.open: set[str] = set()
        self.window: Window | None = None
        """What a person chose to see; None: everything."""
        self._rows: list[tuple[StageView, JobView | None]] = []
        self._strips: dict[str, tuple[object, tuple[JobView, ...], list[Span]]] = {}

    # -------------------------------------------------------------------- contents
    def renew(self) -> None:
        """Take the desk's newest session."""
        rows: list[tuple[StageView, JobView | None]] = []
        keys: list[str] = []
        for stage in self.desk.stages:
            rows.append((stage, None))
            keys.append(f"stage:{stage.name}")
            if stage.name in self.open:
                rows += [(stage, job) for job in stage.jobs]
                keys += [job.name for job in stage.jobs]
        self._rows = rows
        self.set_keys(self.keys if keys == self.keys else keys)

    @property
    def label_cells(self) -> int:
        """Cells left of the strips."""
        return 18 if self.inner_cells < 100 else 32

    @property
    def strip_cells(self) -> int:
        """Cells of a strip."""
        return max(1, self.inner_cells - self.lead - self.label_cells)

    def shown(self) -> Window:
        """The window as it is drawn now."""
        if self.window is not None:
            return Window(self.window.begin, self.window.seconds, self.strip_cells)
        return build_window(self._begin(), self._end(), self.strip_cells)

    def _begin(self) -> float:
        snapshot = self.desk.session.snapshot
        return snapshot.started_at or self.desk.session.now

    def _end(self) -> float:
        playback = self.desk.session.snapshot.playback
        latest = max(self.desk.session.now, self.desk.ends.session or 0.0)
        return latest if playback is None else max(latest, playback.end)

    # -------------------------------------------------------------------- the window
    def zoom(self, factor: float) -> None:
        """Show less, or more, around the present, or around the middle."""
        shown, now = self.shown(), self.desk.session.now
        middle = shown.begin + shown.seconds / 2
        around = now if shown.begin <= now < shown.end else middle
        self.window = shown.zoom(factor, around)
        self.repaint()

    def pan(self, share: float) -> None:
        """Move the window by a share of its length."""
        self.window = self.shown().move(share)
        self.repaint()

    def fit_all(self) -> None:
        """Show everything again, and follow the present."""
        self.window = None
        self.repaint()

    # -------------------------------------------------------------------------- rows
    def unfold(self, *, on: bool) -> None:
        """Show, or hide, the jobs of the stage under the cursor."""
        stage = self.stage()
        if stage is None or (stage.name in self.open) == on:
            return
        (self.open.add if on else self.open.discard)(stage.name)
        self.renew()
        if not on:
            self.move_to_key(f"stage:{stage.name}")

    def stage(self) -> StageView | None:
        """The stage under the cursor, or that of the job there."""
        return self._rows[self.cursor][0] if self._rows else None

    def job(self) -> JobView | None:
        """The job under the cursor; None on a stage."""
        return self._rows[self.cursor][1] if self._rows else None

    def jobs(self) -> tuple[JobView, ...]:
        """The job under the cursor, or all of the stage there."""
        job, stage = self.job(), self.stage()
        if job is not None:
            return (job,)
        return stage.jobs if stage is not None else ()

    def head(self, cells: int) -> Sequence[Line]:
        session = self.desk.session
        indent = self.lead + self.label_cells
        return render_axis(self.shown(), session.now, session.snapshot.gaps, indent)

    def row(self, place: int, cells: int) -> Line:
        stage, job = self._rows[place]
        window, now = self.shown(), self.desk.session.now
        if job is None:
            mark = "▾" if stage.name in self.open else "▹"
            name = fit(f"{mark} {stage.name}", self.label_cells - 6)
            label = Span(f"{name}{stage.total:>5} ", "strong")
            return (label, *join_cells(self._stage_strip(stage, window)))
        words = describe_job(job.record.spec, self.desk.words.parameters)
        name = shorten_middle(words or outside(job.name), self.label_cells - 5)
        strip = build_job_strip(job.record, self._begin(), now, window)
        return (
            Span(f"  {job.look.glyph} ", job.look.role),
            Span(fit(name, self.label_cells - 4)),
            *join_cells(strip),
        )

    def _stage_strip(self, stage: StageView, window: Window) -> list[Span]:
        now = self.desk.session.now
        wish = (window, window.cell(now))
        known = self._strips.get(stage.name)
        if known is not None and known[0] == wish and _same(known[1], stage.jobs):
            return known[2]
        cells = build_stage_strip(stage.jobs, self._begin(), now, window)
        self._strips[stage.name] = (wish, stage.jobs, cells)
        return cells

    def title(self) -> Line:
        parts: list[Line] = []
        wide = self.inner_cells >= _LEGEND_CELLS
        if self.window is not None:
            parts.append((Span("f shows all" if wide else "f all", "accent"),))
        legend = [
            (Span(glyph, "text"), Span(f" {word}", "muted"))
            for glyph, word in (_LEGEND if wide else _LEGEND[:-1])
        ]
        return join([*parts, *legend], "  ")

    def placeholder(self) -> Line:
        return (Span(" Nothing is planned yet.", "muted"),)


def _same(old: tuple[JobView, ...], new: tuple[JobView, ...]) -> bool:
    return len(old) == len(new) and all(map(operator.is_, old, new))
