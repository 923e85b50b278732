"""Lists of headings that open: stages, what needs a person, what waits, the time-line.

Of the time-line only visible jobs are worked out. A stage's strip is kept until its
jobs, the window or the present move by a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, TypeAlias

from autoexp_tui.cockpit.render import lists as view
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
    cut,
    fit,
    join,
    join_cells,
    outside,
    plain,
    shorten,
)
from autoexp_tui.cockpit.state.parameters import describe_job
from autoexp_tui.cockpit.state.reasons import (
    ALIKE,
    WAITING,
    CauseGroup,
    WaitGroup,
    describe_waits,
    find_common_reason,
    group_waits,
)
from autoexp_tui.cockpit.state.stages import FamilyView, StageView, build_families
from autoexp_tui.cockpit.widgets.pane import ListPane
from autoexp_tui.cockpit.widgets.why_pane import describe_stage, explain_row

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import CockpitContext
    from autoexp_tui.cockpit.keymap import Pane as PaneName
    from autoexp_tui.cockpit.render.why import WhyText
    from autoexp_tui.cockpit.state.session import JobView

Heading: TypeAlias = StageView | FamilyView | CauseGroup | WaitGroup


class Item(NamedTuple):
    """A line of a list; lines of one row share their key."""

    key: str
    heading: Heading
    draw: Callable[[int], Line]
    """The line, in so many cells."""
    job: JobView | None = None
    """The job of an open heading that it shows."""


class HeadingsPane(ListPane):
    """Headings; below those that are open, what belongs to them."""

    home: ClassVar[PaneName] = "jobs"
    """The pane to which the last level back leads."""
    items: Sequence[Item] = ()
    open: frozenset[str] = frozenset()
    """Keys of the headings that are open."""

    def list_items(self) -> Iterator[Item]:
        """The lines of the newest session."""
        raise NotImplementedError

    def list_jobs(self, key: str, heading: Heading) -> Iterator[Item]:
        """The jobs below a heading, if it is open."""
        for job in heading.jobs if key in self.open else ():
            yield Item(f"job:{job.name}", heading, partial(self.draw_job, job), job)

    def draw_job(self, job: JobView, cells: int) -> Line:
        raise NotImplementedError

    def renew(self) -> None:
        self.items = list(self.list_items())
        self.set_keys(one.key for one in self.items)

    def row(self, place: int, cells: int) -> Line:
        return self.items[place].draw(cells)

    def on_resize(self) -> None:
        self.renew()
        super().on_resize()

    def find_item(self) -> Item | None:
        return self.items[self.cursor] if self.items else None

    def find_job(self) -> JobView | None:
        item = self.find_item()
        return item.job if item is not None else None

    def find_jobs(self) -> tuple[JobView, ...]:
        item = self.find_item()
        if item is None:
            return ()
        return item.heading.jobs if item.job is None else (item.job,)

    def describe_row(self) -> str:
        item = self.find_item()
        match item.heading if item is not None and item.job is None else None:
            case StageView(name=name):
                return f"stage {name}"
            case FamilyView(label=label):
                return f"family {label}"
            case CauseGroup(title=title):
                return title
            case WaitGroup(jobs=jobs) if len(jobs) > 1:
                words = find_common_reason(jobs[:ALIKE], self.model.session)
                return f"{jobs[0].stage}: {words}"
        return ""

    def find_answer(self) -> WhyText:
        """What is told below about the row under the cursor."""
        return explain_row(self.context, self.find_job())

    def set_open(self, *, on: bool) -> bool:
        """Open, or close, the heading under the cursor; whether anything changed."""
        item = self.find_item()
        heading = item.heading if item is not None else None
        key = next((one.key for one in self.items if one.heading is heading), "")
        if not key or (key in self.open) == on:
            return False
        self.open ^= {key}
        HeadingsPane.renew(self)
        if not on:
            self.move_to_key(key)
        self.post_message(self.CursorMoved(self))
        return True

    def open_row(self) -> tuple[JobView, ...]:
        """Open a heading, or close it again; the job on which one stands."""
        if (job := self.find_job()) is not None:
            return (job,)
        self.set_open(on=self.key not in self.open)
        return ()

    def move(self, how: str) -> None:
        if how in ("left", "right"):
            self.set_open(on=how == "right")
        else:
            super().move(how)

    def copy_text(self) -> str:
        return plain(self.row(self.cursor, 200)).strip() if self.items else ""

    def go_back(self) -> bool:
        """From a job to its heading; False where there is nothing to go back from."""
        return self.find_job() is not None and self.set_open(on=False)

    def build_mark(self, key: str) -> str:
        """What says whether a heading is open."""
        return "▾" if key in self.open else "▹"


class StagesPane(HeadingsPane):
    """The stages with their counts; unfolded, their families."""

    name_in_table = "stages"
    number = "1"
    heading = "Stages"

    def list_items(self) -> Iterator[Item]:
        now, apart = self.model.session.now, self.skin.ascii
        for stage in self.model.stages:
            key = f"stage:{stage.name}"
            yield Item(key, stage, partial(self._draw_stage, stage))
            if self.bare:
                continue
            cells = self.cells - self.lead
            for note in view.list_stage_notes(stage, cells, now, apart=apart):
                yield Item(key, stage, partial(cut, note))
            if key in self.open:
                parameters = self.model.words.of_families
                for one in build_families(stage, self.model.session, parameters):
                    draw = partial(view.render_family, one)
                    yield Item(f"family:{one.name}", one, draw)

    def _draw_stage(self, stage: StageView, cells: int) -> Line:
        room = cells if self.bare else cells - 1
        name_cells = 14 if self.bare else 40 if self.cells > 60 else 9
        labels = view.measure_labels(self.model.stages, room, name_cells)
        if self.bare:
            return view.render_compact(stage, room, labels, apart=self.skin.ascii)
        mark = self.build_mark(f"stage:{stage.name}")
        return view.render_stage(stage, room, labels, mark)

    copy_text = ListPane.copy_text

    def set_open(self, *, on: bool) -> bool:
        stages = not self.bare and self.key.startswith("stage:")
        return stages and super().set_open(on=on)


class NeedsPane(HeadingsPane):
    """What needs a person, by cause."""

    name_in_table = "needs"
    number = "5"
    heading = "Needs you"

    def list_items(self) -> Iterator[Item]:
        for group in self.model.groups:
            yield Item(group.key, group, partial(self._draw_cause, group))
            for one in islice(view.render_evidence(group), 6 * (self.size.width > 50)):
                yield Item(group.key, group, partial(_draw_evidence, one))

    def _draw_cause(self, group: CauseGroup, cells: int) -> Line:
        return view.render_cause(group, cells - 1, apart=self.skin.ascii)

    def build_title(self) -> Line:
        return (Span("by cause", "muted"),)

    def describe_nothing(self) -> str:
        return f" {self.model.describe_opening() or 'nothing needs you'}"

    def find_group(self) -> CauseGroup | None:
        item = self.find_item()
        return item.heading if item and isinstance(item.heading, CauseGroup) else None


def _draw_evidence(words: Line, cells: int) -> Line:
    return cut((Span("     "), *words), cells - 1)


class WaitingPane(HeadingsPane):
    """Groups of jobs that wait alike."""

    name_in_table = "waiting"
    number = "w"
    heading = "Waiting"
    nothing = " Nothing waits."

    groups: tuple[WaitGroup, ...] = ()
    _waiting: Sequence[JobView] = ()

    def renew(self) -> None:
        waiting = [one for one in self.model.session.jobs if one.look in WAITING]
        if waiting != self._waiting:
            self._waiting, self.groups = waiting, group_waits(waiting)
            super().renew()
        else:
            self.update_lines()

    def list_items(self) -> Iterator[Item]:
        for group in self.groups:
            yield Item(group.key, group, partial(self._draw_group, group))
            yield from self.list_jobs(group.key, group)

    def _draw_group(self, group: WaitGroup, cells: int) -> Line:
        mark, apart = self.build_mark(group.key), self.skin.ascii
        return view.render_wait_group(
            group, self.model.session, cells, mark=mark, apart=apart
        )

    def draw_job(self, job: JobView, cells: int) -> Line:
        parameters = self.model.words.parameters
        return view.render_waiting_job(job, self.model.session, parameters, cells)

    def find_answer(self) -> WhyText:
        """Of a group about its oldest job, which stands for the others."""
        jobs = self.find_jobs()
        if len(jobs) < 2:
            return explain_row(self.context, next(iter(jobs), None))
        words = self.describe_row().removeprefix(f"{jobs[0].stage}: ")
        lead = f" of {len(jobs)} that wait alike ({words}), the oldest:"
        return explain_row(self.context, jobs[0], (Span(lead),))

    def build_title(self) -> Line:
        return (Span(describe_waits(self.groups), "muted"),)


MOVED_SHARE: Final = 0.125
"""Of the time-line's window: how far it is moved at a time."""
_LEGEND: tuple[tuple[str, str], ...] = (
    ("·", "waits"),
    ("░", "queued"),
    ("█", "ran"),
    ("▒", "lost"),
    ("✗", "failed"),
)
_LEGEND_CELLS: Final = 76
"""From here on the title has room for all of the legend."""


class TimelinePane(HeadingsPane):
    """Stages and jobs over time."""

    name_in_table = "timeline"
    number = "9"
    heading = "Time-line"
    nothing = " Nothing is planned yet."
    window: Window | None = None
    """What a person chose to see; None: everything."""

    def __init__(self, context: CockpitContext, **options: Any) -> None:
        super().__init__(context, **options)
        self._strips: dict[str, tuple[object, tuple[JobView, ...], list[Span]]] = {}

    def list_items(self) -> Iterator[Item]:
        for stage in self.model.stages:
            key = f"stage:{stage.name}"
            yield Item(key, stage, partial(self._draw_stage, stage))
            yield from self.list_jobs(key, stage)

    def find_answer(self) -> WhyText:
        """About the job, or the stage, under the cursor."""
        item = self.find_item()
        if item is None or item.job or not isinstance(item.heading, StageView):
            return super().find_answer()
        return describe_stage(item.heading, self.model.session.now)

    @property
    def label_width(self) -> int:
        """Cells left of the strips."""
        return 18 if self.cells < 100 else 32

    def find_window(self) -> Window:
        cells = max(1, self.cells - self.lead - self.label_width)
        if self.window is not None:
            return replace(self.window, cells=cells)
        playback = self.model.session.snapshot.playback
        last = self.model.ends.session
        ends = (last.at if last else 0.0, playback.end if playback else 0.0)
        end = max(self.model.session.now, *ends)
        return build_window(self._find_begin(), end, cells)

    def _find_begin(self) -> float:
        session = self.model.session
        return session.snapshot.started_at or session.now

    def action_zoom(self, how: str) -> None:
        """Show less, or more, around the present, or around the middle; or all."""
        shown, now = self.find_window(), self.model.session.now
        middle = shown.begin + shown.seconds / 2
        around = now if shown.begin <= now < shown.end else middle
        factor = 0.5 if how == "closer" else 2.0
        self.window = None if how == "whole" else shown.zoom(factor, around)
        self.update_lines()

    def move(self, how: str) -> None:
        step = {"right": MOVED_SHARE, "left": -MOVED_SHARE}.get(how, 0)
        if step:
            self.window = self.find_window().move(step)
            self.update_lines()
        else:
            super().move(how)

    def go_back(self) -> bool:
        if super().go_back():
            return True
        had, self.window = self.window is not None, None
        self.update_lines()
        return had

    def build_head(self, cells: int) -> Sequence[Line]:
        session, window = self.model.session, self.find_window()
        indent = self.lead + self.label_width
        return render_axis(window, session.now, session.snapshot.gaps, indent)

    def _draw_stage(self, stage: StageView, cells: int) -> Line:
        mark = self.build_mark(f"stage:{stage.name}")
        name = fit(f"{mark} {stage.name}", self.label_width - 6)
        label = Span(f"{name}{stage.total:>5} ", "strong")
        window, now = self.find_window(), self.model.session.now
        wish = (window, window.find_cell(now))
        drawn_for, jobs, strip = self._strips.get(stage.name, (None, (), []))
        if (drawn_for, jobs) != (wish, stage.jobs):
            strip = build_stage_strip(stage.jobs, self._find_begin(), now, window)
            self._strips[stage.name] = (wish, stage.jobs, strip)
        return (label, *join_cells(strip))

    def draw_job(self, job: JobView, cells: int) -> Line:
        words = describe_job(job.record.spec, self.model.words.parameters)
        name = shorten(words or outside(job.name), self.label_width - 5, middle=True)
        now, window = self.model.session.now, self.find_window()
        strip = build_job_strip(job.record, self._find_begin(), now, window)
        return (
            Span(f"  {job.look.glyph} ", job.look.role),
            Span(fit(name, self.label_width - 4)),
            *join_cells(strip),
        )

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
