"""What a person reads before anything was submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.spans import Line, Span, line, outside
from autoexp_tui.cockpit.render.status_style import Look
from autoexp_tui.cockpit.render.why import WhyText
from autoexp_tui.model.wording import plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import SessionView
    from autoexp_tui.model.specs import PlanFinding


def why_plan(session: SessionView, come_back: str) -> WhyText:
    """The first-run sentence: nothing was submitted yet."""
    plan = session.snapshot.plan
    told = plan.ui.get("first_run") if plan else None
    number = len(session.jobs)
    many = len(session.links.stages)
    about = (
        f"This plan has {plural(number, 'job')} in {plural(many, 'stage')}."
        if not isinstance(told, str) or not told.strip()
        else outside(told)
    )
    lines: list[Line] = [
        line(
            Span(" Nothing is running. "),
            Span(f"{about} "),
            Span("S", "key"),
            Span(" starts it, "),
            Span("?", "key"),
            Span(" lists the keys, "),
            Span("q", "key"),
            Span(" leaves."),
        )
    ]
    if come_back:
        lines.append((Span(f" {come_back}", "muted"),))
    lines += [
        (Span(f" ! {warning_words(finding)}", "warning"),)
        for finding in (plan.warnings if plan else ())
    ]
    return WhyText("nothing submitted yet", tuple(lines))


def warning_words(finding: PlanFinding) -> str:
    """What planning warns of, after the job and key that it is about."""
    about = " ".join(part for part in (finding.job, finding.where) if part)
    return outside(f"{about}: {finding.message}" if about else finding.message)


def nothing_started(session: SessionView) -> bool:
    """Whether every job is still as it was planned."""
    return session.count(Look.PLANNED) == len(session.jobs)
