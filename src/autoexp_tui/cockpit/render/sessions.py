"""A session as a line of a list: how far it is, what of it needs a person, its best
result, its engine. What there is no room for goes: first words, then the bar, then what
needs nobody."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

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
from autoexp_tui.cockpit.state.session import (
    NEEDS,
    STATE_LOOKS,
    Look,
    render_tallies,
)
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import STATES
from autoexp_tui.text.spelling import duration, format_metric, plural

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import SessionBrief

_DIGITS = 5
"""Of a result."""


class _Widths(NamedTuple):
    """Cells of the columns; the result has the rest."""

    name: int
    bar: int
    looks: int
    engine: int


def _choose_widths(cells: int) -> _Widths:
    if cells < 110:
        return _Widths(name=15, bar=0, looks=10, engine=12)
    if cells < 160:
        return _Widths(name=22, bar=8, looks=14, engine=18)
    return _Widths(name=32, bar=16, looks=24, engine=24)


def render_session_titles(cells: int) -> Line:
    """Of the columns."""
    wide = _choose_widths(cells)
    done = 9 + wide.bar + (wide.bar > 0)
    looks = "REST" if wide.bar else "NEEDS YOU"
    heads = (
        *(("ID", 7), ("NAME", wide.name), ("DONE", done), (looks, wide.looks)),
        *(("ENGINE", wide.engine), ("AGO", 8), ("BEST RESULT", 0)),
    )
    titles = " ".join(fit(text, width or len(text)) for text, width in heads)
    return cut((Span(titles, "muted"),), cells)


def render_session(session: SessionBrief, now: float, cells: int) -> Line:
    """A session in at most `cells` cells; one that cannot be read says why."""
    wide = _choose_widths(cells)
    name = Span(f"{fit(outside(session.name) or '-', wide.name)} ")
    head = Span(f"{fit(outside(session.id), 7)} ", "strong")
    if session.problem:
        whose = f"{outside(session.user)}: " if session.user else ""
        problem = f"{whose}cannot be read: {outside(session.problem)}"
        return cut(line(head, name, Span(problem, "failed")), cells)
    engine, role = _describe_engine(session)
    engine = f"{outside(session.user)}: {engine}" if session.user else engine
    shown = (
        head,
        name,
        *_render_progress(session, wide.bar),
        *_render_looks(session, wide.looks, everything=wide.bar > 0),
        Span(f" {fit(engine, wide.engine)} ", role),
        Span(f"{fit(duration(now - session.last_event_at), 8)} ", "muted"),
    )
    room = cells - width(shown)
    best = _render_best(session)
    return (*shown, *cut(best if room > 20 else best[:1], room))


def _render_progress(session: SessionBrief, bar: int) -> Line:
    """`████░░ 61/120`."""
    total = sum(session.counts.values())
    done = session.counts.get(JobState.COMPLETED, 0)
    drawn = (*render_bar(done / max(1, total), bar), Span(" ")) if bar else ()
    return (*drawn, Span(f"{fit(f'{done}/{total}', 9)} "))


def _render_looks(session: SessionBrief, cells: int, *, everything: bool) -> Line:
    """`▸4 ✗9`: what needs a person comes last, and stays."""
    looks = _count_looks(session)
    kept = {one: looks[one] for one in looks if everything or one in NEEDS}
    found = render_tallies(kept)
    glyphs = {look.glyph for look in NEEDS}
    found.sort(key=lambda one: one.text[0] in glyphs)
    while width(join(found, " ")) > cells and len(found) > 1:
        del found[0]
    return pad(cut(join(found, " "), cells), cells)


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


def _render_best(session: SessionBrief) -> Line:
    """`2.6711 loss lr=1e-3`."""
    best = session.best
    if best is None:
        return (Span("-", "muted"),)
    value = f"{format_metric(best.value, _DIGITS)} {outside(best.measure)}"
    settings = f" {outside(best.settings)}" if best.settings else ""
    return line(Span(value), Span(settings, "muted"))


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
    if (best := session.best) is not None:
        value = f"{format_metric(best.value, _DIGITS)} {outside(best.measure)}"
        of = " ".join(filter(None, (outside(best.stage), outside(best.settings))))
        text += f"; best {value}{f' of {of}' if of else ''}"
    if session.user:
        text += f"; of {outside(session.user)}, opens read-only"
    return (Span(text, "muted"),)
