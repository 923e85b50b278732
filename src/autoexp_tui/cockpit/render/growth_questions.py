"""What ctrl+r asks over a running session: what becomes of jobs that differ, or are no
longer planned, and then whether the rest may join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from autoexp_tui.cockpit.render.plan_findings import MARK_ROLES
from autoexp_tui.cockpit.render.questions import Choice, Question
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.planning.estimate import estimate, format_gpu_hours
from autoexp_tui.planning.growth import (
    Choices,
    Growth,
    build_joining_plan,
    choose_running,
    list_lines,
)
from autoexp_tui.text.spelling import plural

_GROUPS: Final[Mapping[str, tuple[str, str, Mapping[str, str]]]] = {
    "different": (
        "differs from the plan",
        "differ from the plan",
        {"keep": "keep running as they are", "rename": "come again under new names"},
    ),
    "waiting": (
        "is no longer planned, and waits",
        "are no longer planned, and wait",
        {
            "stay": "stay: they run when their turn comes",
            "hold": "are held",
            "end": "are ended, without a run",
        },
    ),
    "running": (
        "is no longer planned, and runs",
        "are no longer planned, and run",
        {"stay": "stay", "end": "are ended: K would lose as much"},
    ),
}
"""By the field of `Choices`: what is said of one job, of several, and the ways."""


def ask_ways(growth: Growth) -> Iterator[tuple[str, Question]]:
    """A question for each group of jobs of which a person has to say what becomes of
    it, with the field of `Choices` that its answer is for."""
    for group, (one, more, ways) in _GROUPS.items():
        names: Sequence[str] = getattr(growth, group)
        lines = [_render_name(name, growth.new_names) for name in names]
        if group == "different":
            readers = [name for name in growth.new_names if name not in names]
            lines += [
                _render_name(one, growth.new_names, "reads them") for one in readers
            ]
            lines += [
                _render_told(*told) for told in list_lines(growth) if told[0] == "!"
            ]
        if names:
            title = f"{plural(len(names), 'job')} {one if len(names) == 1 else more}"
            yield (
                group,
                Question(
                    title=title,
                    lines=tuple(lines),
                    stay="Leave all as it is",
                    confirm="go on",
                    choices=tuple(Choice(way, text) for way, text in ways.items()),
                ),
            )


def _render_name(name: str, new_names: Mapping[str, str], does: str = "") -> Line:
    new = f"  or {outside(new_names[name])}" if name in new_names else ""
    return line(Span(f"  {outside(name)} {does}"), Span(new, "muted"))


def _render_told(mark: str, text: str) -> Line:
    role = MARK_ROLES.get(mark, "muted")
    return line(Span(f"  {mark} ", role), Span(outside(text, 2000)))


def ask_growth(growth: Growth, choices: Choices) -> Question:
    """The last question: all that would be done, and how much of it runs at once."""
    plan = build_joining_plan(growth, choices)
    number = plural(len(plan.jobs), "job")
    cost = format_gpu_hours(estimate(plan.jobs)) if plan.jobs else "nothing to run"
    first = choose_running(plan, Choices(run="family"))
    ways = [Choice("all", f"all {number}: {cost}")]
    if 0 < len(first) < len(plan.jobs):
        ways.append(Choice("family", f"one family first ({len(first)}), hold the rest"))
    ways.append(Choice("none", "hold them all: S lets them run"))
    lines: list[Line] = [(Span(f"It {outside(growth.describe())}."),), ()]
    lines += [_render_told(*one) for one in list_lines(growth, choices)]
    return Question(
        title=f"Let {number} join?" if plan.jobs else "Change the session?",
        lines=tuple(lines),
        stay="Leave all as it is",
        confirm="let them join" if plan.jobs else "do it",
        choices=tuple(ways) if plan.jobs else (),
    )
