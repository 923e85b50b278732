"""Events mode: what was ordered, what was sent, what it said, newest last.

Every event is a line; an effect's line carries what came of it, and its exact words
stand below when the cursor is on it. Which entries there are is told by `annals`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    line,
    outside,
    shorten_middle,
    wrap,
)
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.events.base import Headline
from autoexp_tui.model.checkpoints import Checkpoint, SavedCheckpoint
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.moment import wall_time
from autoexp_tui.model.verdicts import Why
from autoexp_tui.model.wording import clock_time, plural, sentence

if TYPE_CHECKING:
    from autoexp_tui.events.events import Event, Recorded


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the chronicle."""

    key: str
    record: Recorded
    settled: events.EffectSettled | None = None
    submitted: tuple[str, ...] = ()
    """The jobs of the submission, where the event names it by its token alone."""

    @property
    def event(self) -> Event:
        """What happened."""
        return self.record.event

    @property
    def jobs(self) -> Sequence[str]:
        """The jobs that it is about; none for the session's own."""
        return self.submitted or jobs_of(self.event)


def is_weighty(entry: Entry) -> bool:
    """Whether a person asked for it, or is asked; or it was done, ended, warned of."""
    return bool(entry.record.command_id) or entry.event.matters


def entry_line(entry: Entry, now: float, cells: int) -> Line:
    """`04:12:04  a_job  job ended  out of memory`, at most `cells` wide."""
    mark, role = _outcome(entry)
    job_cells = max(12, min(36, cells // 3))
    job = shorten_middle(outside(_of_several(entry.jobs)) or "-", job_cells)
    what, about = _headline_of(entry, now)
    verb, about = fit(outside(what), 18), outside(about)
    content = line(
        Span(f"{mark} ", role),
        Span(f"{_when(entry.record.t, now)}  ", "muted"),
        Span(f"{fit(job, job_cells)}  ", "text"),
        Span(f"{verb} ", "text" if role == "muted" else role),
        Span(fit(about, max(1, cells - job_cells - 36)), "muted"),
    )
    return cut(content, cells)


def masked_headline(event: Event, now: float) -> Headline:
    """An event on one line without secrets, not cleaned; any but `EffectOrdered`."""
    headline = event.headline(now)
    return headline._replace(about=mask_text(headline.about))


def _headline_of(entry: Entry, now: float) -> Headline:
    event = entry.event
    if isinstance(event, events.EffectOrdered):
        return Headline(_kind(event.effect), _sent(entry) or event.effect.describe())
    return masked_headline(event, now)


def _sent(entry: Entry) -> str:
    """The words that were sent for one task; empty for several, or none known."""
    event, settled = entry.event, entry.settled
    if not isinstance(event, events.EffectOrdered) or settled is None:
        return ""
    first = settled.detail.partition("\n")[0]
    alone = len(event.effect.job_names()) == 1
    return first if alone and first.startswith("$ ") else ""


def jobs_of(event: Event) -> Sequence[str]:
    """The jobs that an event names; none for the session's own."""
    if isinstance(event, events.EffectOrdered):
        return event.effect.job_names()
    one = getattr(event, "job", "")
    return (str(one),) if one else getattr(event, "jobs", ())


def _of_several(names: Sequence[str]) -> str:
    """The name of the only one, or how many there are."""
    return names[0] if len(names) == 1 else plural(len(names), "job") if names else ""


def _when(t: float, now: float) -> str:
    """To the second today, with its date before: 11 cells."""
    told = clock_time(t, now)
    return told[5:] if " " in told else f"   {told}:{int(t) % 60:02}"


def _outcome(entry: Entry) -> tuple[str, Role]:
    match entry.event:
        case events.EffectOrdered():
            outcome = entry.settled.outcome if entry.settled else "pending"
            return _MARKS[outcome]
        case events.EffectSettled(outcome=outcome):
            return _MARKS[outcome]
        case events.EngineFaulted() | events.CommandRefused():
            return "✗", "failed"
        case events.WarningRaised():
            return "!", "warning"
    return " ", "muted"


_MARKS: Mapping[str, tuple[str, Role]] = {
    "ok": ("✓", "done"),
    "failed": ("✗", "failed"),
    "uncertain": ("≈", "asks"),
    "pending": ("⧗", "queued"),
}


def _kind(effect: effects.Effect) -> str:
    """Its kind in words."""
    return effect.kind.replace("_", " ")


def _spell(value: object, now: float) -> str:
    """A field of an event, whole."""
    match value:
        case Why():
            return sentence(value, now)
        case Checkpoint():
            return value.path
        case SavedCheckpoint():
            return value.checkpoint.path
        case tuple():
            return ", ".join(str(part) for part in value)
        case bool() | float():
            return ""
        case str() | int():
            return str(value)
    return ""


def detail(entry: Entry | None, now: float, cells: int) -> tuple[Line, ...]:
    """All of an entry: as it was ordered, why, and its exact words."""
    if entry is None:
        return ((Span(" Nothing has happened yet.", "muted"),),)
    found: list[Line] = []
    for content in _detail(entry, now):
        found += wrap(content, cells, "             ")
    return tuple(found)


def _detail(entry: Entry, now: float) -> Iterable[Line]:
    record = entry.record
    yield _fact("event", type(record.event).__name__)
    when = f"{clock_time(record.t, now)}:{int(wall_time(record.t, now)) % 60:02}"
    yield _fact("at", f"{when}   seq {record.seq}")
    if record.command_id:
        yield _fact("command", record.command_id)
    if record.cause_id:
        yield _fact("because of", record.cause_id)
    event = record.event
    if entry.submitted:
        yield _fact("job", ", ".join(entry.submitted))
    if isinstance(event, events.EffectOrdered):
        yield from _effect_detail(event, now)
    else:
        parts = masked_headline(event, now)
        yield _fact("what", ": ".join(part for part in parts if part))
        for field in fields(event):
            text = _spell(getattr(event, field.name), now)
            if text:
                yield _fact(field.name.replace("_", " "), text)
            yield from _words_sent(getattr(event, field.name))
    if entry.settled is not None:
        yield _fact("came of it", entry.settled.outcome)
        for row in entry.settled.detail.split("\n"):
            yield _fact("", row)


def _words_sent(value: object) -> Iterable[Line]:
    """The command that a reason tells of, as it was sent."""
    if isinstance(value, Why) and (sent := value.arg("sent")):
        yield _fact("sent", f"$ {sent}")


def _effect_detail(event: events.EffectOrdered, now: float) -> Iterable[Line]:
    yield _fact("effect", f"{_kind(event.effect)}   {event.effect_id}")
    if event.why is not None:
        yield _fact("why", sentence(event.why, now))
    match event.effect:
        case effects.SubmitTasks() | effects.CancelTasks():
            for job, attempt in event.effect.tasks:
                yield _fact("job", f"{job}   attempt {attempt}")
        case _:
            yield _fact("", event.effect.describe())


def _fact(label: str, text: str) -> Line:
    return (Span(f" {label:<11} ", "muted"), Span(outside(mask_text(text), 4000)))


def entry_text(entry: Entry, now: float) -> str:
    """An entry as plain text, for the clipboard."""
    lines = ("".join(span.text for span in row) for row in _detail(entry, now))
    return "\n".join(lines)
