"""Pane 4: curves of the marked runs, of those that `c` chose, or of the one under the
cursor; below them a legend, the best first.

What a person set (metric, steps, smoothing, ...) stays while the pane is away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from autoexp_tui.cockpit.render.plot import (
    LEAST_ROWS,
    MARGIN,
    format_step,
    render_legend,
    render_plot,
)
from autoexp_tui.cockpit.spans import Line, Span, cut, join, outside, pad
from autoexp_tui.cockpit.state.curves import (
    BAND_KINDS,
    BY_SESSION,
    MOST_CURVES,
    BandKind,
    Frame,
    Series,
    build_series,
    count_hidden,
    find_places,
    is_over_seeds,
    is_rising,
    measure_steps,
)
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import JobView, sort_jobs
from autoexp_tui.cockpit.widgets.pane import TextPane
from autoexp_tui.text.spelling import count, join_some, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import JobKey

MOST_RUNS: Final = 8 * MOST_CURVES
"""Whose curves are read, to be joined over seeds or to find the best."""
_SMOOTHING: Final = (0.0, 0.6, 0.9, 0.97, 0.99)
_MOST_FAINT: Final = 3
"""Smoothed curves up to which the raw ones are drawn as well."""
_MOST_PLOTS: Final = 4
_PLOT_CELLS: Final = 40
_Shown: TypeAlias = Sequence[tuple[str, Sequence[Series]]]
"""Metrics with their curves; the best of the first come first."""
_T = TypeVar("_T")


class MetricsPane(TextPane):
    """Curves with shared scales, and their legend."""

    name_in_table = "metrics"
    number = "4"
    heading = "Metrics"

    metric = ""
    frame = Frame()
    smoothing = 0.0
    band: BandKind = ""
    colour = ""
    """The parameter that letters and colours stand for; empty: each run has its own."""
    plots = 1
    chosen: tuple[JobKey, ...] = ()
    """The runs that `c` chose, until the table's cursor moves."""
    joins: bool = False
    """Whether these are drawn over seeds where no band was set."""
    _range_from: float | None = None
    _names: tuple[str, ...] = ()
    _above: Sequence[Line] = ()
    """The plots, and the head of the legend."""
    _notes: Sequence[str] = ()
    """What the title says of how the curves are drawn."""

    def show(self, names: Sequence[str]) -> None:
        """Draw these jobs' curves; marked jobs, and chosen ones, come before them."""
        self._names = tuple(names)
        self.renew()

    def find_jobs(self) -> tuple[JobView, ...]:
        own = [("", name) for name in self._names]
        if any(session for session, _ in self.chosen):  # marks are of one's own alone
            return self.model.list_runs(self.chosen)
        marks = [("", name) for name in self.model.marks]
        marked = sort_jobs(self.model.list_runs(marks))
        return marked or self.model.list_runs(self.chosen or own)

    @property
    def words(self) -> PlanWords:
        """What tells these jobs apart."""
        jobs = self.find_jobs()[:MOST_RUNS]
        if not any(job.session for job in jobs):
            return self.model.words
        specs = [job.record.spec for job in jobs]
        plan = self.model.find_session(jobs[0]).snapshot.plan
        changed = [one for one in specs if one.planned is not None]
        return PlanWords(plan, changed, specs)

    def _list_colours(self) -> dict[str, str]:
        """What letters and colours may stand for but each run, and its name."""
        is_compared = any(job.session for job in self.find_jobs())
        found = {BY_SESSION: "session"} if is_compared else {}
        return found | {one.key: one.label for one in self.words.parameters}

    def find_band(self) -> BandKind:
        """How curves are joined over seeds: as was set, or as their choice asks for."""
        joins = self.joins and self.chosen and not self.model.marks
        return self.band or (BAND_KINDS[-1] if joins else "")

    def list_metrics(self) -> tuple[str, ...]:
        """Every metric of these jobs, the loss first."""
        jobs = self.find_jobs()[:MOST_RUNS]
        names = dict.fromkeys(name for job in jobs for name in job.live.curves)
        return tuple(sorted(names, key=lambda name: (name != self.model.session.loss,)))

    def find_metric(self) -> str:
        names = self.list_metrics()
        if self.metric in names:
            return self.metric
        return names[0] if names else self.model.session.loss

    def go_back(self) -> bool:
        """Take back a range that was begun, the readout, or the steps; whether any."""
        before, began = self.frame, self._range_from
        self._range_from = None
        if began is None and before.cursor is not None:
            self.frame = before._replace(cursor=None)
        elif began is None:
            self.frame = before._replace(window=None)
        self.renew()
        return began is not None or self.frame != before

    def action_metrics(self, how: str) -> None:
        """Show the curves otherwise; see the key table."""
        frame, names = self.frame, self.list_metrics() or ("",)
        match how:
            case "before" | "after":
                by = 1 if how == "after" else -1
                self.metric = _turn(names, self.find_metric(), by)
            case "scale":
                self.frame = frame._replace(log_y=not frame.log_y)
            case "steps":
                self.frame = frame._replace(log_x=not frame.log_x)
            case "whole":
                self.frame = frame._replace(window=None)
            case "smooth":
                self.smoothing = _turn(_SMOOTHING, self.smoothing)
            case "band":
                self.band = _turn(BAND_KINDS, self.find_band())
                self.joins = False
            case "colour":
                self.colour = _turn(["", *self._list_colours()], self.colour)
            case "several":
                self.plots = self.plots % min(_MOST_PLOTS, len(names)) + 1
            case _:
                self._look(how)
        self.renew()

    def _look(self, how: str) -> None:
        """Change which steps are seen, or where the readout is."""
        frame, (series, _) = self.frame, self._build_series(self.find_metric())
        whole = measure_steps((one.curve for one in series), log=frame.log_x)
        if whole is None:
            return
        cell = 1 / max(1, self.cells // self._arrange(self.size.height)[0] - MARGIN - 1)
        match how:
            case "closer" | "wider":
                self.frame = frame.zoom(0.5 if how == "closer" else 2.0, whole)
            case "back" | "on":
                self.frame = frame.move(0.5 if how == "on" else -0.5, whole)
            case "left" | "right":
                self.frame = frame.move_cursor(cell if how == "right" else -cell, whole)
            case _ if frame.cursor is None:
                self.notify("left and right go to where the range begins, then v")
            case _ if self._range_from is None:
                self._range_from = frame.cursor
            case _:
                first, last = sorted((self._range_from, frame.cursor))
                self._range_from = None
                self.frame = frame.see_steps(first, last, whole)

    def _build_series(self, metric: str) -> tuple[list[Series], list[str]]:
        """What has a metric, the best first, and what lacks it."""
        jobs = self.find_jobs()[:MOST_RUNS]
        words, own = self.words, self.model.session.id
        rising, band = is_rising(metric, jobs, words.plan), self.find_band()
        return build_series(jobs, metric, words, band, rising=rising, own=own)

    def _arrange(self, rows: int) -> tuple[int, int]:
        """How many plots stand beside and below each other, as there is room."""
        columns = min(self.plots, max(1, self.cells // _PLOT_CELLS))
        columns = 2 if (self.plots, columns) == (4, 3) else columns
        most = max(1, rows // (LEAST_ROWS + 1))
        return columns, min(-(-self.plots // columns), most)

    def build_head(self, cells: int) -> Sequence[Line]:
        self.find_lines()
        return self._above

    def build_lines(self, cells: int) -> Sequence[Line]:
        """The legend; what stands above it is drawn with it."""
        self._above, self._notes = (), ()
        names, metric = self.list_metrics(), self.find_metric()
        every, lacking = self._build_series(metric)
        if not every:
            text = " No curve yet: mark runs in the table with space."
            return ((Span(text, "muted"),),)
        at, kept = names.index(metric), every[:MOST_CURVES]
        words = self.words
        places = find_places(kept, words, self.colour)
        shown: list[tuple[str, list[Series]]] = []
        for name in (*names[at:], *names[:at])[: self.plots]:
            series = self._build_series(name)[0] if shown else kept
            known = [one for one in series if one.key in places]
            shown.append((name, [one._replace(place=places[one.key]) for one in known]))
        jobs = self.find_jobs()
        rising = [is_rising(name, jobs, words.plan) for name, _ in shown]
        legend = list(render_legend(shown, rising, self.frame, cells))
        if lacking:
            text = f" no {outside(metric)}: {join_some(lacking, 3)}"
            legend.append(cut((Span(text, "warning"),), cells))
        room = self.size.height - 1
        rows = room - min(len(legend), max(2, room // 3))
        drawn = self._arrange(rows)
        self._above = (*self._draw_plots(shown, cells, rows, *drawn), legend[0])
        self._notes = list(self._describe(shown, len(every), len(lacking)))
        if (fitting := drawn[0] * drawn[1]) < self.plots:
            self._notes.insert(0, f"{fitting} of {self.plots} plots fit")
        return legend[1:]

    def _draw_plots(
        self, shown: _Shown, cells: int, rows: int, columns: int, below: int
    ) -> Iterator[Line]:
        """The plots of the first metrics, beside and below each other."""
        frame = self.frame._replace(ascii=self.skin.ascii)
        width, height = cells // columns, rows // below - (self.plots > 1)
        blocks = []
        for name, series in shown[: columns * below]:
            faint = len(series) <= _MOST_FAINT
            drawn = [one.draw(self.smoothing, faint=faint) for one in reversed(series)]
            lines = list(render_plot(drawn, width, height, frame))
            if self.plots > 1:
                lines.insert(0, pad((Span(f" {outside(name)}", "accent"),), width))
            blocks.append(lines)
        for first in range(0, len(blocks), columns):
            for parts in zip(*blocks[first : first + columns], strict=True):
                yield join(parts, "")

    def _describe(self, shown: _Shown, every: int, lacking: int) -> Iterator[str]:
        """What the title says of how the curves are drawn."""
        frame, first = self.frame, shown[0][1]
        curves = [one.curve for one in first]
        whole = measure_steps(curves, log=frame.log_x) or (0, 0)
        start, end = frame.find_window(whole)
        if self._range_from is not None:
            yield f"range from {format_step(self._range_from, end - start)}, v ends it"
        if frame.cursor is not None and self.plots > 1:
            yield f"at {count(frame.cursor)}"
        if frame.window is not None:
            ends = [format_step(edge, end - start) for edge in (start, end)]
            yield f"steps {ends[0]} to {ends[1]} of {count(whole[1])}"
        if every > len(first):
            yield f"the {len(first)} best of {every}"
        if (runs := len(self.find_jobs())) > MOST_RUNS:
            yield f"the first {MOST_RUNS} of {runs} runs"
        if lacking:
            yield f"{lacking} without it"
        if self.smoothing:
            raw = "" if len(first) <= _MOST_FAINT else ", raw not drawn"
            yield f"smoothed {self.smoothing:g}{raw}"
        words = self.words
        if band := self.find_band():
            jobs = self.find_jobs()
            seeds = any(is_over_seeds(one, words, jobs) for one in words.parameters)
            yield f"over seeds: {band}" if seeds else "no seed varies"
        if (named := self._list_colours().get(self.colour)) is not None:
            yield f"by {named}"
        if hidden := count_hidden(curves, frame):
            yield f"{plural(hidden, 'point')} <= 0 not shown"

    def build_title(self) -> Line:
        self.find_lines()
        names, frame = self.list_metrics(), self.frame
        metric = self.find_metric()
        place = f" {names.index(metric) + 1}/{len(names)} (h l)" if names else ""
        scales = ", log" * frame.log_y + ", log steps" * frame.log_x
        words = "".join(f"  {note}" for note in self._notes)
        told = Span(f"{scales}{place}{words}", "muted")
        return (Span(outside(metric), "accent"), told)


def _turn(values: Sequence[_T], value: _T, by: int = 1) -> _T:
    """The next of some values; the first where it is none of them."""
    at = values.index(value) + by if value in values else 0
    return values[at % len(values)]
