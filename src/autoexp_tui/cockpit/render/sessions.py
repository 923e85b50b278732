"""A session as a line of a list: how far it is, what of it needs a person, its best
result, its engine. What there is no room for goes: first words, then the bar, then what
needs nobody."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    join,
    line,
    outside,
    pad,
    render_bar,
    width,
)
from autoexp_tui.cockpit.state.session import NEEDS, STATE_LOOKS, Look, render_tallies
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import STATES
from autoexp_tui.text.spelling import duration, format_metric, plural

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import SessionBrief

_DIGITS = 5
"""Of a result."""


def _choose_widths(cells: int) -> tuple[int, int, int, int]:
    """Of name, bar, looks and engine; the result has the rest."""
    if cells < 107:  # 110 columns
        return 11, 0, 9, 16
    return (22, 8, 14, 18) if cells < 160 else (32, 16, 24, 24)


def render_session_titles(cells: int) -> Line:
    """Of the columns."""
    name, bar, looks, engine = _choose_widths(cells)
    done, rest = 9 + bar + (bar > 0), "REST" if bar else "NEEDS YOU"
    heads = {"ID": 7, "NAME": name, "DONE": done, rest: looks, "ENGINE": engine}
    titles = [fit(text, room) for text, room in {**heads, "AGO": 8}.items()]
    return cut((Span(" ".join((*titles, "BEST RESULT")), "muted"),), cells)


def render_session(session: SessionBrief, now: float, cells: int) -> Line:
    """A session in at most `cells` cells; one that cannot be read says why."""
    name, bar, looks, room = _choose_widths(cells)
    head = line(
        Span(f"{fit(outside(session.id), 7)} ", "strong"),
        f"{fit(outside(session.name) or '-', name)} ",
    )
    whose = f"{outside(session.user)}: " if session.user else ""
    if session.problem:
        problem = f"{whose}cannot be read: {outside(session.problem)}"
        return cut((*head, Span(problem, "failed")), cells)
    engine, role = _describe_engine(session)
    total = sum(session.counts.values())
    done = session.counts.get(JobState.COMPLETED, 0)
    shown = line(
        *head,
        *(render_bar(done / max(1, total), bar) if bar else ()),
        f"{' ' * (bar > 0)}{fit(f'{done}/{total}', 9)} ",
        *_render_looks(session, looks, everything=bar > 0),
        Span(f" {fit(f'{whose}{engine}', room)} ", role),
        Span(f"{fit(duration(now - session.last_event_at), 8)} ", "muted"),
    )
    left = cells - width(shown)
    value, settings = _describe_best(session)
    of = Span(f" {settings}" if settings and left > 20 else "", "muted")
    return (*shown, *cut(line(value or Span("-", "muted"), of), left))


def _describe_best(session: SessionBrief) -> tuple[str, str]:
    """`2.6711 loss`, and what gave it; empty where nothing is known."""
    if (best := session.best) is None:
        return "", ""
    value = f"{format_metric(best.value, _DIGITS)} {outside(best.measure)}"
    return value, outside(best.settings)


def _render_looks(session: SessionBrief, cells: int, *, everything: bool) -> Line:
    """`▸4 ✗9`: what needs a person comes last, and stays."""
    looks = _count_looks(session)
    needs = Counter({one: looks[one] for one in NEEDS if one in looks})
    calm = render_tallies(looks - needs) if everything else []
    found = [*calm, *render_tallies(needs)]
    while width(join(found, " ")) > cells and len(found) > 1:
        del found[0]
    return pad(join(found, " "), cells)


def _count_looks(session: SessionBrief) -> Counter[Look]:
    """How the jobs look that are not done; a stalled one runs, others wait."""
    counts: Counter[Look] = Counter()
    for state, number in session.counts.items():
        counts[STATE_LOOKS[state]] += number
    for look in NEEDS:
        if look not in (Look.FAILED, Look.LOST) and (n := session.needs.get(look, 0)):
            counts[look] += n
            counts[Look.RUNNING if look is Look.STALLED else Look.WAITING] -= n
    del counts[Look.DONE]
    return +counts


def _describe_engine(session: SessionBrief) -> tuple[str, Role]:
    where = f" on {outside(session.host)}" if session.host else ""
    if session.halted_pid:
        return f"stopped, pid {session.halted_pid}", "failed"
    match str(session.owner):
        case "yes":
            return f"runs{where}", "running"
        case "unknown":
            return f"may run{where}", "warning"
    return ("none", "warning") if session.open else ("all ended", "muted")


def render_session_counts(session: SessionBrief) -> Line:
    """All about a session in words."""
    pairs = session.counts.items()
    parts = [f"{number} {STATES[state]}" for state, number in pairs if number]
    others = (look for look in session.needs if look != Look.FAILED)
    parts += [f"{session.needs[look]} {outside(look)}" for look in others]
    total = plural(sum(session.counts.values()), "job")
    text = f" {total}: {', '.join(parts) or 'nothing yet'}"
    value, settings = _describe_best(session)
    if session.best is not None:
        of = f"{outside(session.best.stage)} {settings}".strip()
        text += f"; best {value}{f' of {of}' if of else ''}"
    if session.user:
        text += f"; of {outside(session.user)}, opens read-only"
    return (Span(text, "muted"),)
