"""Events as entries: what each says, which are asked for, and those read so far.

Every event is an entry; that of an effect carries what came of it. Older events come a
page at a time, filtered before they are kept, so that what is kept is bounded by what
is shown.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.event import Event, Headline, Recorded
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.outputs import Checkpoint, SavedCheckpoint
from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.spelling import clock_time, wall_time

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import Snapshot

MOST: Final = 20_000
"""Entries that are kept at a time."""
Tokens: TypeAlias = Mapping[str, tuple[str, ...]]
"""Submission token -> its jobs."""
_NO_TOKENS: Final[Tokens] = {}
_OF_SUBMISSIONS: Final = (
    events.SubmissionAccepted,
    events.SubmissionUncertain,
    events.SubmissionAbsent,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history."""

    record: Recorded
    settled: events.EffectSettled | None = None
    submitted: tuple[str, ...] = ()
    """The jobs of the submission, where the event names it by its token alone."""

    @property
    def key(self) -> str:
        """Stable over snapshots and pages."""
        return f"{self.record.epoch}-{self.record.seq}"

    @property
    def event(self) -> Event:
        return self.record.event

    @property
    def jobs(self) -> Sequence[str]:
        """The jobs that it is about; none for the session's own."""
        event = self.event
        if isinstance(event, events.EffectOrdered):
            return event.effect.job_names()
        return self.submitted or event.list_jobs()


def collect_tokens(snapshot: Snapshot) -> Tokens:
    """The jobs of every submission: what was ordered may lie far back."""
    found: dict[str, list[str]] = {}
    for job in snapshot.jobs:
        for attempt in job.attempts:
            found.setdefault(attempt.token, []).append(job.name)
    return {token: tuple(names) for token, names in found.items()}


def find_headline(entry: Entry, now: float) -> Headline:
    """An entry on one line without secrets, not cleaned."""
    event, settled = entry.event, entry.settled
    if not isinstance(event, events.EffectOrdered):
        headline = event.format_headline(now)
        return headline._replace(about=mask_text(headline.about))
    # Of one task the words that were sent; of several, or none known, the effect's.
    sent = settled.detail.partition("\n")[0] if settled is not None else ""
    alone = len(event.effect.job_names()) == 1 and sent.startswith("$ ")
    about = sent if alone else event.effect.describe()
    return Headline(event.effect.kind.replace("_", " "), about)


def describe_entry(entry: Entry, now: float) -> Iterator[tuple[str, str]]:
    """All of an entry, by labels: as it was ordered, why, its exact words; clean."""
    for label, text in _describe_record(entry, now):
        if text or not label:
            yield label, outside(mask_text(text), 4000)


def _describe_record(entry: Entry, now: float) -> Iterator[tuple[str, str]]:
    record, event = entry.record, entry.event
    yield "event", type(event).__name__
    when = f"{clock_time(record.t, now)}:{int(wall_time(record.t, now)) % 60:02}"
    yield "at", f"{when}   seq {record.seq}"
    yield "command", record.command_id
    yield "because of", record.cause_id
    yield "job", ", ".join(entry.submitted)
    if not isinstance(event, events.EffectOrdered):
        yield "what", ": ".join(filter(None, find_headline(entry, now)))
    for one in fields(event):
        value = getattr(event, one.name)
        text = _format_field(value, now)
        if isinstance(event, events.EffectOrdered):
            # One line for an order: what was sent must fit below it on small screens.
            if one.name == "effect_id":
                continue
            if isinstance(value, effects.SubmitTasks | effects.CancelTasks):
                text = f"{value.kind.replace('_', ' ')}   {event.effect_id}"
            elif isinstance(value, Effect):
                text = f"{text}   {event.effect_id}"
        yield one.name.replace("_", " "), text
        if isinstance(value, Why) and (sent := value.arg("sent")):
            yield "sent", f"$ {sent}"
        if isinstance(value, effects.SubmitTasks | effects.CancelTasks):
            for job, attempt in value.tasks:
                yield "job", f"{job}   attempt {attempt}"
    if entry.settled is not None:
        yield "result", entry.settled.outcome
        for row in entry.settled.detail.split("\n"):
            yield "", row


def _format_field(value: object, now: float) -> str:
    match value:
        case Why():
            return sentence(value, now)
        case Effect():
            return f"{value.kind.replace('_', ' ')}   {value.describe()}"
        case Checkpoint(path=path) | SavedCheckpoint(checkpoint=Checkpoint(path=path)):
            return path
        case tuple():
            return ", ".join(str(part) for part in value)
        case str() | int() if not isinstance(value, bool):
            return str(value)
    return ""


def format_entry(entry: Entry, now: float) -> str:
    """An entry as plain text, for the clipboard."""
    facts = describe_entry(entry, now)
    return "\n".join(f" {label:<11} {text}" for label, text in facts)


KINDS: Final = (
    *("submit", "cancel", "state", "condition", "reaction"),
    *("warning", "approval", "person", "engine", "error"),
)
"""In the order in which `]` goes through them."""


def find_kinds(entry: Entry) -> frozenset[str]:
    """The kinds that an entry is of; none for what only notes numbers."""
    event, settled = entry.event, entry.settled
    topic: str = event.topic
    if isinstance(event, events.EffectOrdered):
        topic = event.effect.topic
    failed = event.is_error() or (settled is not None and settled.outcome != "ok")
    person = "person" if entry.record.command_id else topic
    found = {topic, person, "error" if failed else topic}
    return frozenset(found if topic else ())


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are shown."""

    everything: bool = False
    """Whether bookkeeping is shown too, where no kind is asked for."""
    kind: str = ""
    job: str = ""
    """Exactly this job's events."""
    text: str = ""
    """Words that were typed; an entry has all of them."""

    @property
    def narrows(self) -> bool:
        """Whether it keeps less than usual."""
        return bool(self.kind or self.job or self.text)

    def find_next_kind(self, step: int) -> str:
        """The next kind, or the one before; after the last, all."""
        ring = ("", *KINDS)
        return ring[(ring.index(self.kind) + step) % len(ring)]

    def keeps(self, entry: Entry) -> bool:
        asked = bool(entry.record.command_id)  # by a person
        if self.kind and self.kind not in find_kinds(entry):
            return False
        if self.job and self.job not in entry.jobs:
            return False
        everything = self.everything or self.kind or self.job
        if not (everything or asked or entry.event.matters):
            return False
        words = self.text.lower().split()
        text = format_entry(entry, entry.record.t).lower() if words else ""
        return all(word in text for word in words)


@dataclass(frozen=True, slots=True)
class Page:
    """Records that follow on each other, filtered."""

    first: int
    """Seq of its oldest record; 0: there is none, 1: nor anything before it."""
    entries: Sequence[Entry] = ()
    ordered: Mapping[str, Recorded] = field(default_factory=dict)
    """Effect -> its order."""
    settled: Mapping[str, events.EffectSettled] = field(default_factory=dict)
    """Effect -> what came of it."""

    def add(self, newer: Page, wanted: EventFilter) -> Page:
        """This page and the one behind it; what came of an order is told with it, so
        that it may be asked for only now."""
        entries = list(self.entries)
        for effect_id, settled in newer.settled.items():
            order = self.ordered.get(effect_id)
            if order is not None and wanted.keeps(entry := Entry(order, settled)):
                place = bisect_left(entries, order.seq, key=lambda one: one.record.seq)
                there = [one.key for one in entries[place : place + 1]]
                entries[place : place + (there == [entry.key])] = [entry]
        entries += [
            one
            for one in newer.entries
            if not isinstance(one.event, events.EffectSettled)
            or one.event.effect_id not in self.ordered
        ]
        orders = {**self.ordered, **newer.ordered}
        results = {**self.settled, **newer.settled}
        complete = orders.keys() & results.keys()  # of these nothing more is to come
        return Page(
            self.first,
            entries,
            {key: order for key, order in orders.items() if key not in complete},
            {key: one for key, one in results.items() if key not in complete},
        )


def build_page(
    records: Sequence[Recorded], wanted: EventFilter, tokens: Tokens = _NO_TOKENS
) -> Page:
    """What a filter keeps of records; without any: the beginning of the journal."""
    settled: dict[str, events.EffectSettled] = {}
    ordered: dict[str, Recorded] = {}
    for record in records:
        if isinstance(record.event, events.EffectSettled):
            settled[record.event.effect_id] = record.event
        elif isinstance(record.event, events.EffectOrdered):
            ordered[record.event.effect_id] = record
    entries = []
    for record in records:
        event, entry = record.event, Entry(record)
        if isinstance(event, events.EffectSettled) and event.effect_id in ordered:
            continue
        if isinstance(event, events.EffectOrdered):
            entry = Entry(record, settled.get(event.effect_id))
        elif isinstance(event, _OF_SUBMISSIONS):
            entry = Entry(record, submitted=tokens.get(event.token, ()))
        entries += [entry] if wanted.keeps(entry) else []
    return Page(records[0].seq if records else 1, entries, ordered, settled)


class EventHistory:
    """Entries that a filter keeps, oldest first; what came of an order with it."""

    def __init__(self) -> None:
        self.wanted = EventFilter()
        self.page = Page(0)
        """What was looked at: the newest records, and older ones as they were read."""
        self._fresh = 0
        """Entries that did not come with older pages."""
        self._last = 0
        self._session = ""

    @property
    def complete(self) -> bool:
        """Whether nothing older can be read, or kept."""
        return self.page.first <= 1 or len(self.page.entries) >= MOST

    def filter_by(self, wanted: EventFilter, snapshot: Snapshot) -> None:
        """Filter anew, from the snapshot on."""
        self.wanted, self._fresh, self._session = wanted, 0, snapshot.session
        self.page = Page(snapshot.events[0].seq if snapshot.events else 0)
        self._append(snapshot.events, snapshot)

    def take(self, snapshot: Snapshot) -> bool:
        """Take what is new; whether anything was. Another session, one that stands
        earlier (a replay), and one of which records were missed begin anew."""
        records = snapshot.events
        place = bisect_right(records, self._last, key=lambda one: one.seq)
        fresh = records[place:]
        other = snapshot.session != self._session or snapshot.seq < self._last
        missed = bool(fresh) and fresh[0].seq > self._last + 1
        if records and (other or missed or self._fresh >= MOST):
            self.filter_by(self.wanted, snapshot)
            return True
        if fresh:
            self._append(fresh, snapshot)
        return bool(fresh)

    def prepend(self, page: Page) -> None:
        self.page = page.add(self.page, self.wanted)

    def _append(self, records: Sequence[Recorded], snapshot: Snapshot) -> None:
        submitted = any(isinstance(one.event, _OF_SUBMISSIONS) for one in records)
        tokens = collect_tokens(snapshot) if submitted else _NO_TOKENS
        before = len(self.page.entries)
        self.page = self.page.add(build_page(records, self.wanted, tokens), self.wanted)
        self._fresh += len(self.page.entries) - before
        self._last = records[-1].seq if records else self._last
