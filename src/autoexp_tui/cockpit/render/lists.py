"""The lines of lists: stages, causes, what waits, sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from rich.cells import cell_len

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    fit_right,
    line,
    outside,
    render_bar,
    shorten,
    shorten_middle,
    spread,
    width,
)
from autoexp_tui.cockpit.state.causes import CauseGroup
from autoexp_tui.cockpit.state.parameters import (
    Parameter,
    describe_job,
)
from autoexp_tui.cockpit.state.reasons import (
    find_reason,
)
from autoexp_tui.cockpit.state.session import JobView, SessionView
from autoexp_tui.cockpit.state.stages import (
    _WAITING,
    FamilyView,
    StageView,
)
from autoexp_tui.cockpit.state.status import (
    FACES,
    glyph,
    tally,
)
from autoexp_tui.cockpit.state.waiting import WaitGroup, Waits, find_wait_begin
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import STATES, clock_time, duration, plural
from autoexp_tui.text.spelling import format_elapsed, format_estimate

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView


_ROOMY = 60
"""Cells beyond which there is room for words beside the lines."""


# -------------------------------------------------------------------------- lines
def render_stage(stage: StageView, cells: int, label_cells: int, mark: str) -> Line:
    """`├▾ stable    40 ████░░░`, in at most `cells`.

    `label_cells`: those of its lines and its name together.
    """
    drawn = find_rails(stage, cells)
    name = fit(stage.name, label_cells - len(drawn))
    head = f"{mark} {name} {stage.total:>4} "
    filled, empty = render_bar(stage.done, max(4, cells - len(drawn) - len(head) - 1))
    return cut(
        line(
            Span(drawn, "rule"),
            Span(head, "strong"),
            Span(filled, "bar"),
            Span(empty, "track"),
        ),
        cells,
    )


def find_rails(stage: StageView, cells: int) -> str:
    """What stands left of its first line, where there is room for it."""
    return stage.rails.first if fits_rails(stage, cells) else ""


def fits_rails(stage: StageView, cells: int) -> bool:
    """Whether its lines leave room for itself; else words say what it follows."""
    return max(len(stage.rails.first), len(stage.rails.below)) <= cells // 4


def render_below(stage: StageView, content: Line, cells: int) -> Line:
    """A further line of a stage, its lanes beside it."""
    drawn = stage.rails.below if fits_rails(stage, cells) else ""
    return cut(line(Span(drawn, "rule"), *content), cells)


def render_after(stage: StageView, cells: int) -> Line:
    """`after cooldown, average`."""
    text = f"  after {', '.join(stage.after)}"
    return (Span(shorten(text, max(1, cells)), "muted"),)


def has_after(stage: StageView, cells: int) -> bool:
    """Whether words say what it follows: of several, and where the lines do not."""
    return bool(stage.after) and (
        len(stage.after) > 1 or cells > _ROOMY or not fits_rails(stage, cells)
    )


def render_counts(
    stage: StageView, cells: int, now: float, *, apart: bool = False
) -> Line:
    """The tallies; at the right, where it fits beside them, when the stage ends."""
    tallies = _fitting(stage.tallies(apart=apart), cells)
    for ends in _ends(stage, now):
        if width(tallies) + len(ends) < cells:
            return spread(tallies, (Span(ends, "muted"),), cells)
    return cut(tallies, cells)


def _ends(stage: StageView, now: float) -> Iterator[str]:
    """When it should end, and shorter: `in ~21 h 43`, `+21h43`."""
    if stage.ends_at is not None:
        yield format_estimate(stage.ends_at, now)
        yield f"+{format_elapsed(stage.ends_at - now)}"


def _fitting(tallies: Sequence[Span], cells: int) -> Line:
    """The tallies, indented as far as they fit; the last ones need you, and stay."""
    found, shown = list(tallies), (Span("    "), *join_spans(tallies))
    if width(shown) > cells:
        shown = (Span("  "), *join_spans(found))
    while width(shown) > cells and len(found) > 1:
        del found[0]
        shown = (Span("  … ", "muted"), *join_spans(found))
    return shown


def render_waits(stage: StageView, cells: int) -> Line:
    """`waits: checkpoint at 80 %`, while some of its jobs do."""
    return (Span(shorten(f"  waits: {stage.waits}", cells), "muted"),)


def is_waiting(stage: StageView) -> bool:
    """Whether what the stage waits for is still of interest."""
    return bool(stage.waits) and any(look in stage.counts for look in _WAITING)


def render_compact(
    stage: StageView, cells: int, label_cells: int, *, apart: bool = False
) -> Line:
    """The stage in one line: its lines and name, total, bar, tallies."""
    drawn = find_rails(stage, cells)
    head = f"{fit(stage.name, label_cells - len(drawn))} {stage.total:>4} "
    tallies = tuple(join_spans(stage.tallies(apart=apart)))
    room = cells - len(drawn) - len(head) - width(tallies) - 1
    filled, empty = render_bar(stage.done, max(6, min(20, room)))
    parts = line(
        Span(drawn, "rule"),
        Span(head, "strong"),
        Span(filled, "bar"),
        Span(f"{empty} ", "track"),
        *tallies,
    )
    return cut(parts, cells)


def render_family(family: FamilyView, cells: int) -> Line:
    """A family: a glyph for each of its stages, and what tells it apart."""
    glyphs = tuple(glyph(job.look) for job in family.jobs)
    return cut(line(Span("      "), *glyphs, Span(f" {family.label}", "muted")), cells)


def join_spans(spans: Iterable[Span]) -> Iterable[Span]:
    """The spans, a blank between two."""
    for place, span in enumerate(spans):
        if place:
            yield Span(" ")
        yield span


def measure_labels(entries: Sequence[StageView], cells: int, most: int) -> int:
    """Cells for lines and name together: the same for all, so that bars stand in line.

    `cells`: of the list; `most`: of a name.
    """
    return max(
        (
            len(find_rails(stage, cells)) + min(cell_len(stage.name), most)
            for stage in entries
        ),
        default=4,
    )


def render_cause(group: CauseGroup, cells: int, *, apart: bool = False) -> Line:
    """`✗4 out of memory      bsz=1024` in exactly `cells`."""
    told = group.mark(apart=apart)
    mark = Span(fit(told.text, 5 if apart else 4), told.role)
    room = max(1, cells - len(mark.text))
    common = shorten(group.common, max(room // 4, room - cell_len(group.title) - 1))
    title_cells = room - len(common) - 1 if common else room
    title = Span(fit(group.title, title_cells), "text")
    tail = (Span(" "), Span(common, "muted")) if common else ()
    return (mark, title, *tail)


def render_evidence(group: CauseGroup) -> tuple[Line, ...]:
    """What was seen, each different last word once, and whose it is."""
    seen: dict[str, list[str]] = {}
    for job in group.jobs:
        words = group.seen.get(job.name, "")
        words = words or (job.attempt.evidence if job.attempt else "")
        words = words or next((entry.evidence for entry in job.warned), "")
        if words:
            seen.setdefault(outside(words), []).append(job.name)
    for entry in group.warnings:
        if entry.evidence and not group.jobs:
            seen.setdefault(outside(entry.evidence), []).append(entry.job)
    return tuple(_render_words(words, names) for words, names in seen.items())


def _render_words(words: str, names: Sequence[str]) -> Line:
    whose = outside(names[0]) if len(names) == 1 else f"{len(names)} of them"
    return (Span(words, "text"), Span(f"  {whose}" if names[0] else "", "muted"))


_ALIKE: Final = 20
"""Jobs of a group whose reasons are compared."""


# -------------------------------------------------------------------------- lines
def describe_waits(waits: Waits) -> str:
    """`697 jobs, 4 reasons, 26 can never start`."""
    if not waits.total:
        return "nothing waits"
    number = f"{plural(waits.total, 'job')}, {plural(len(waits.groups), 'reason')}"
    return f"{number}, {waits.doomed} can never start" if waits.doomed else number


def render_wait_group(
    group: WaitGroup, session: SessionView, cells: int, *, unfolded: bool, apart: bool
) -> Line:
    """`▹ ◌812  cooldown  waits for iter_48000/done.txt   03-07 08:41, 3 d 4 h`."""
    count = tally(group.look, len(group.jobs), apart=apart)
    since = _since(group.oldest, session.now, cells)
    head = line(
        Span("▾ " if unfolded else "▹ ", "muted"),
        Span(fit(count.text, 7), count.role),
        Span(fit(outside(group.jobs[0].stage) or "-", 10 if cells < 90 else 14)),
        Span(" "),
    )
    room = max(1, cells - width(head) - len(since) - 1)
    words = fit(describe_wait_group(group, session), room)
    return (*head, Span(words, FACES[group.look].role), Span(f" {since}", "muted"))


def describe_wait_group(group: WaitGroup, session: SessionView) -> str:
    """What the oldest waits for; with dots where the others' words differ."""
    first = find_reason(group.jobs[0], session)
    alike = all(find_reason(job, session) == first for job in group.jobs[1:_ALIKE])
    return first if alike else f"{first}, ..."


def render_waiting_job(
    job: JobView, session: SessionView, parameters: Sequence[Parameter], cells: int
) -> Line:
    """A waiting job under its group: what tells it apart, reason, since when."""
    label = describe_job(job.record.spec, parameters) or outside(job.name)
    since = _since(find_wait_begin(job), session.now, cells)
    name_cells = max(12, min(44, cells * 2 // 5))
    room = max(1, cells - name_cells - len(since) - 9)
    face = FACES[job.look]
    return (
        Span(f"    {face.glyph} ", face.role),
        Span(fit(shorten_middle(label, name_cells), name_cells)),
        Span("  "),
        Span(fit(find_reason(job, session), room), "muted"),
        Span(f" {since}", "muted"),
    )


def _since(t: float, now: float, cells: int) -> str:
    """`03-07 08:41, 3 d 4 h`; on narrow screens the span alone."""
    if not t:
        return ""
    span = duration(now - t)
    if cells < 100:
        return span.rjust(8)
    told = clock_time(t, now)
    return f"{told[5:] if ' ' in told else told}, {span}".rjust(22)


class SessionLike(Protocol):
    """What a session says of itself before it is opened."""

    @property
    def id(self) -> str:
        """Its short id."""
        ...

    @property
    def name(self) -> str:
        """The plan's name."""
        ...

    @property
    def counts(self) -> Mapping[JobState, int]:
        """How many jobs are in which state."""
        ...

    @property
    def last_event_at(self) -> float:
        """UTC of its newest event."""
        ...

    @property
    def owner(self) -> str:
        """Whether an engine runs it: `yes`, `no`, `unknown`."""
        ...

    @property
    def host(self) -> str:
        """Where that engine runs, or ran."""
        ...

    @property
    def halted_pid(self) -> int:
        """That engine's process on this host while it is stopped; else 0."""
        ...

    @property
    def user(self) -> str:
        """The other user whose it is; empty: one's own."""
        ...

    @property
    def problem(self) -> str:
        """Why it cannot be read; usually empty."""
        ...

    @property
    def open(self) -> bool:
        """Whether work is left."""
        ...


_TOLD = (
    (JobState.COMPLETED, "✓", "done"),
    (JobState.RUNNING, "▸", "running"),
    (JobState.SUSPENDED, "□", "queued"),
    (JobState.QUEUED, "⧗", "queued"),
    (JobState.WAITING, "◌", "waiting"),
    (JobState.HELD, "‗", "skipped"),
    (JobState.FAILED, "✗", "failed"),
    (JobState.LOST, "∅", "failed"),
    (JobState.CANCELLED, "×", "skipped"),
    (JobState.SKIPPED, "–", "skipped"),
)


def render_session_titles() -> Line:
    """The line of column titles."""
    text = f"{'ID':<7} {'NAME':<22} {'ENGINE':<20} {'LAST EVENT':>12}  JOBS"
    return (Span(text, "muted"),)


def render_session(session: SessionLike, now: float) -> Line:
    """One session in a line."""
    name = Span(f"{fit(outside(session.name) or '-', 22)} ")
    head = Span(f"{fit(outside(session.id), 7)} ", "strong")
    if session.problem:
        problem = f"cannot be read: {outside(session.problem)}"
        return line(head, name, Span(problem, "failed"))
    engine, role = _engine(session)
    engine = f"{outside(session.user)}: {engine}" if session.user else engine
    ago = f"{duration(now - session.last_event_at)} ago"
    return line(
        head,
        name,
        Span(f"{fit(engine, 20)} ", role),
        Span(f"{fit_right(ago, 12)}  ", "muted"),
        *_counts(session),
    )


def _engine(session: SessionLike) -> tuple[str, Role]:
    where = f" on {outside(session.host)}" if session.host else ""
    if session.halted_pid:
        return f"stopped, pid {session.halted_pid}", "failed"
    match str(session.owner):
        case "yes":
            return f"runs{where}", "running"
        case "unknown":
            return f"may run{where}", "warning"
    return ("none", "warning") if session.open else ("all ended", "muted")


def _counts(session: SessionLike) -> Line:
    spans: list[Span] = []
    for state, mark, role in _TOLD:
        if session.counts.get(state):
            spans.append(Span(f"{mark}{session.counts[state]} ", role))  # type: ignore[arg-type]
    rest = sum(
        number
        for state, number in session.counts.items()
        if state not in {told for told, _, _ in _TOLD}
    )
    if rest:
        spans.append(Span(f"·{rest}", "waiting"))
    return tuple(spans)


def render_session_counts(session: SessionLike) -> Line:
    """All counts in words."""
    counts = (
        f"{number} {STATES[state]}"
        for state, number in session.counts.items()
        if number
    )
    total = plural(sum(session.counts.values()), "job")
    of = f"; of {outside(session.user)}, opens read-only" if session.user else ""
    return (Span(f" {total}: {', '.join(counts) or 'nothing yet'}{of}", "muted"),)
