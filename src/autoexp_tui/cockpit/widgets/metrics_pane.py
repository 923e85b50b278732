"""Pane 4: curves of the marked runs, or of the one under the cursor, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from textual.message import Message

from autoexp_tui.cockpit.spans import Line, Span, outside
from autoexp_tui.cockpit.state.parameters import describe_job
from autoexp_tui.cockpit.widgets.pane import TextPane

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.cockpit.themes import Skin

MOST_CURVES = 26
"""As many as there are letters to name them by."""


class MetricsPane(TextPane):
    """Curves with a shared scale, linear or logarithmic."""

    name_in_table = "metrics"
    number = "4"
    heading = "Metrics"

    class CurvesWanted(Message):
        """Of these jobs, which have ended, no curve is at hand to be drawn."""

        def __init__(self, jobs: tuple[str, ...]) -> None:
            super().__init__()
            self.jobs = jobs

    def __init__(self, skin: Skin, model: SessionModel, **options: Any) -> None:
        super().__init__(skin, model, **options)
        self.logarithmic = False
        self.metric = ""
        self._names: tuple[str, ...] = ()
        self._without_curves: tuple[str, ...] = ()
        """Told last."""

    def show(self, names: Sequence[str]) -> None:
        """Draw these jobs' curves, of the first; marked jobs come before them."""
        self._names = tuple(names[:MOST_CURVES])
        self.renew()

    def find_jobs(self) -> tuple[JobView, ...]:
        """The jobs whose curves are drawn."""
        session = self.model.session
        marked = sorted(
            session.list_jobs(tuple(self.model.marks)), key=attrgetter("index")
        )
        return (tuple(marked) or session.list_jobs(self._names))[:MOST_CURVES]

    def list_metrics(self) -> tuple[str, ...]:
        """Every metric of these jobs, the loss first."""
        jobs = self.find_jobs()
        names = dict.fromkeys(
            name for job in jobs if job.live for name in job.live.curves
        )
        return tuple(sorted(names, key=lambda name: (name != self.model.session.loss,)))

    def find_metric(self) -> str:
        """The metric that is drawn."""
        names = self.list_metrics()
        if self.metric in names:
            return self.metric
        return names[0] if names else self.model.session.loss

    def move(self, how: str) -> None:
        names = self.list_metrics()
        if how not in ("left", "right") or not names:
            super().move(how)
            return
        place = names.index(self.find_metric()) + (1 if how == "right" else -1)
        self.metric = names[place % len(names)]
        self.renew()

    def build_lines(self, cells: int) -> Sequence[Line]:
        from autoexp_tui.cockpit.render.plot import Plotted, render_legend, render_plot

        jobs, parameters = self.find_jobs(), self.model.words.parameters
        without = tuple(
            job.name
            for job in jobs
            if job.record.ended and not (job.live and job.live.curves)
        )
        if without and without != self._without_curves:
            self.post_message(self.CurvesWanted(without))
        self._without_curves = without
        metric = self.find_metric()
        plotted = []
        for job in jobs:
            words = describe_job(job.record.spec, parameters)
            label = f"{outside(job.stage)} {words}".strip() or outside(job.name)
            curve = job.live.curves.get(metric) if job.live else None
            if curve is not None and curve.steps:
                plotted.append(Plotted(label, curve))
        room = self.size.height - 1
        below = min(len(plotted), max(1, room // 3))
        drawn = render_plot(plotted, cells, room - below, log=self.logarithmic)
        if not plotted:
            text = " No curve yet: mark runs in the table with space."
            return ((Span(text, "muted"),),)
        return (*drawn, *render_legend(plotted, cells))

    def build_title(self) -> Line:
        names, metric = self.list_metrics(), self.find_metric()
        place = f" {names.index(metric) + 1}/{len(names)} (h l)" if names else ""
        scale = ", log" if self.logarithmic else ""
        return (Span(outside(metric), "accent"), Span(f"{scale}{place}", "muted"))
