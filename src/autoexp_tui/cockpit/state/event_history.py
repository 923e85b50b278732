"""Events as entries: what each says, which are asked for, and those read so far.

Every event is an entry; that of an effect carries what came of it. A history grows by
what is new at each snapshot. Older events come a page at a time, filtered before they
are kept, so that what is kept is bounded by what is shown. When the session turns out
to be another, or to stand earlier (a replay), it begins anew.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.model.event import Headline
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.outputs import Checkpoint, SavedCheckpoint
from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.spelling import clock_time, wall_time

if TYPE_CHECKING:
    from autoexp_tui.model.event import Event, Recorded
    from autoexp_tui.model.snapshot import Snapshot

MOST: Final = 20_000
"""Entries that are kept at a time."""
Tokens: TypeAlias = Mapping[str, tuple[str, ...]]
"""Submission token -> its jobs."""
_NO_TOKENS: Final[Tokens] = MappingProxyType({})
_OF_SUBMISSIONS: Final = (
    events.SubmissionAccepted,
    events.SubmissionUncertain,
    events.SubmissionAbsent,
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the history."""

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
        event = self.event
        if self.submitted:
            return self.submitted
        if isinstance(event, events.EffectOrdered):
            return event.effect.job_names()
        one = getattr(event, "job", "")
        return (str(one),) if one else getattr(event, "jobs", ())

    @property
    def order_id(self) -> str:
        """The effect that it orders; empty for another event."""
        event = self.event
        return event.effect_id if isinstance(event, events.EffectOrdered) else ""

    @property
    def settled_id(self) -> str:
        """The effect whose settlement stands by itself; empty for another event."""
        event = self.event
        return event.effect_id if isinstance(event, events.EffectSettled) else ""

    def is_weighty(self) -> bool:
        """Whether a person asked for it, or is asked; or it was done, ended, warned."""
        return bool(self.record.command_id) or self.event.matters


def build_entry(
    record: Recorded, settled: events.EffectSettled | None, tokens: Tokens = _NO_TOKENS
) -> Entry:
    """A record as an entry."""
    submitted = tokens.get(_find_token(record), ())
    return Entry(f"{record.epoch}-{record.seq}", record, settled, submitted)


def collect_tokens(snapshot: Snapshot) -> Tokens:
    """The jobs of every submission: what was ordered may lie far back."""
    found: dict[str, list[str]] = {}
    for job in snapshot.jobs:
        for attempt in job.attempts:
            found.setdefault(attempt.token, []).append(job.name)
    return {token: tuple(names) for token, names in found.items()}


def _find_token(record: Recorded) -> str:
    """The submission that an event names by its token alone; empty for others."""
    event = record.event
    return event.token if isinstance(event, _OF_SUBMISSIONS) else ""


# -------------------------------------------------------------------- what each says
def find_headline(entry: Entry, now: float) -> Headline:
    """An entry on one line without secrets, not cleaned."""
    event, settled = entry.event, entry.settled
    if not isinstance(event, events.EffectOrdered):
        return mask_headline(event, now)
    # Of one task the words that were sent; of several, or none known, the effect's.
    sent = settled.detail.partition("\n")[0] if settled is not None else ""
    alone = len(event.effect.job_names()) == 1 and sent.startswith("$ ")
    about = sent if alone else event.effect.describe()
    return Headline(event.effect.kind.replace("_", " "), about)


def mask_headline(event: Event, now: float) -> Headline:
    """An event on one line without secrets, not cleaned; any but `EffectOrdered`."""
    headline = event.format_headline(now)
    return headline._replace(about=mask_text(headline.about))


def describe_entry(entry: Entry, now: float) -> Iterator[tuple[str, str]]:
    """All of an entry, by labels: as it was ordered, why, its exact words; clean."""
    for label, text in _describe_record(entry, now):
        yield label, outside(mask_text(text), 4000)


def _describe_record(entry: Entry, now: float) -> Iterator[tuple[str, str]]:
    record, event = entry.record, entry.event
    yield "event", type(event).__name__
    when = f"{clock_time(record.t, now)}:{int(wall_time(record.t, now)) % 60:02}"
    yield "at", f"{when}   seq {record.seq}"
    if record.command_id:
        yield "command", record.command_id
    if record.cause_id:
        yield "because of", record.cause_id
    if entry.submitted:
        yield "job", ", ".join(entry.submitted)
    if isinstance(event, events.EffectOrdered):
        yield from _describe_order(event, now)
    else:
        yield "what", ": ".join(part for part in mask_headline(event, now) if part)
        for field in fields(event):
            value = getattr(event, field.name)
            if text := _format_field(value, now):
                yield field.name.replace("_", " "), text
            if isinstance(value, Why) and (sent := value.arg("sent")):
                yield "sent", f"$ {sent}"
    if entry.settled is not None:
        yield "came of it", entry.settled.outcome
        for row in entry.settled.detail.split("\n"):
            yield "", row


def _describe_order(
    event: events.EffectOrdered, now: float
) -> Iterator[tuple[str, str]]:
    effect = event.effect
    yield "effect", f"{effect.kind.replace('_', ' ')}   {event.effect_id}"
    if event.why is not None:
        yield "why", sentence(event.why, now)
    if isinstance(effect, effects.SubmitTasks | effects.CancelTasks):
        for job, attempt in effect.tasks:
            yield "job", f"{job}   attempt {attempt}"
    else:
        yield "", effect.describe()


def _format_field(value: object, now: float) -> str:
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
        case bool():
            return ""
        case str() | int():
            return str(value)
    return ""


def format_entry(entry: Entry, now: float) -> str:
    """An entry as plain text, for the clipboard."""
    facts = describe_entry(entry, now)
    return "\n".join(f" {label:<11} {text}" for label, text in facts)


# -------------------------------------------------------------------------- filters
KINDS: Final = (
    "submit",
    "cancel",
    "state",
    "condition",
    "reaction",
    "warning",
    "approval",
    "person",
    "engine",
    "error",
)
"""In the order in which `]` goes through them."""
_TERM: Final = re.compile(r"(job|kind):(\S+)")


def find_kinds(record: Recorded) -> frozenset[str]:
    """The kinds that an event is of; none for what only notes numbers."""
    event = record.event
    if not event.topic:
        return frozenset()
    topic: str = event.topic
    if isinstance(event, events.EffectOrdered):
        topic = event.effect.topic
    found = {topic, "person" if record.command_id else topic}
    return frozenset(found | {"error"} if event.is_error() else found)


class NoSuchKind(ValueError):
    """A filter names a kind that there is not; the message lists those there are."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are shown."""

    everything: bool = False
    """Whether bookkeeping is shown too, where no kind is asked for."""
    kind: str = ""
    job: str = ""
    """Exactly this job's events."""
    text: str = ""
    """What was typed."""
    words: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset()
    """Typed ones, any of them."""
    jobs: tuple[str, ...] = ()
    """Parts of jobs' names, typed."""

    @property
    def narrows(self) -> bool:
        """Whether it keeps less than usual."""
        return bool(self.kind or self.job or self.text)

    def next_kind(self, step: int) -> EventFilter:
        """The same for the next kind, or the one before; after the last, all."""
        ring = ("", *KINDS)
        return replace(self, kind=ring[(ring.index(self.kind) + step) % len(ring)])

    def keeps(self, entry: Entry) -> bool:
        """Whether an entry is shown."""
        if self.kinds or self.kind:
            own = find_kinds(entry.record)
            if entry.settled is not None and entry.settled.outcome != "ok":
                own |= {"error"}
            if (self.kinds and not self.kinds & own) or self.kind not in {"", *own}:
                return False
        elif not self.everything and not self.job and not entry.is_weighty():
            return False
        names = entry.jobs if self.job or self.jobs else ()
        if self.job and self.job not in names:
            return False
        if not all(any(part in name for name in names) for part in self.jobs):
            return False
        text = format_entry(entry, entry.record.t).lower() if self.words else ""
        return all(word in text for word in self.words)


def parse_filter(current: EventFilter, text: str) -> EventFilter:
    """`current` with what a person typed in place of what was typed before.

    It is typed as words: `job:NAME`, `kind:submit,error`; anything else is looked for
    in the line and in the words that were sent and answered.

    Raises:
        NoSuchKind: it names a kind that there is not.
    """
    words: list[str] = []
    kinds: list[str] = []
    jobs: list[str] = []
    for word in text.split():
        match = _TERM.fullmatch(word)
        if match is None:
            words.append(word.lower())
        elif match[1] == "job":
            jobs.append(match[2])
        else:
            kinds += match[2].split(",")
    if unknown := [name for name in kinds if name not in KINDS]:
        raise NoSuchKind(f"no kind {unknown[0]!r}: {', '.join(KINDS)}")
    return replace(
        current,
        text=text.strip(),
        words=tuple(words),
        kinds=frozenset(kinds),
        jobs=tuple(jobs),
    )


# -------------------------------------------------------------------------- history
@dataclass(frozen=True, slots=True)
class Page:
    """Older records, filtered."""

    first: int
    """Seq of its oldest record."""
    entries: Sequence[Entry]
    ordered: frozenset[str]
    """The effects that were ordered in it."""
    settled: Mapping[str, events.EffectSettled]
    """What came of orders, as far as it was told in it."""


def build_page(
    records: Sequence[Recorded],
    wanted: EventFilter,
    known: Mapping[str, events.EffectSettled],
    tokens: Tokens = _NO_TOKENS,
) -> Page:
    """Of records that come before all others, what a filter keeps.

    `known` are settlements that came after them; `tokens` those of the session's
    submissions. Without records: the beginning.
    """
    found = [one.event for one in records]
    settled = {e.effect_id: e for e in found if isinstance(e, events.EffectSettled)}
    ordered = {e.effect_id for e in found if isinstance(e, events.EffectOrdered)}
    after = {**known, **settled}
    entries = []
    for record in records:
        entry = build_entry(record, None, tokens)
        if entry.order_id:
            entry = replace(entry, settled=after.get(entry.order_id))
        if entry.settled_id not in ordered and wanted.keeps(entry):
            entries.append(entry)
    first = records[0].seq if records else 1
    return Page(first, entries, frozenset(ordered), settled)


class EventHistory:
    """Entries that a filter keeps, oldest first; what came of an order with it."""

    def __init__(self) -> None:
        self.wanted = EventFilter()
        self.entries: list[Entry] = []
        """What is shown."""
        self.first = 0
        """Seq of the oldest record that was looked at; 0 before any."""
        self._orders: dict[str, Recorded] = {}
        """By effect: the newer orders, and those of pages that are shown."""
        self.settled: dict[str, events.EffectSettled] = {}
        """What came of orders, as far as it was read."""
        self._tokens: Tokens = {}
        """Of submissions, as far as anybody asked."""
        self._fresh = 0
        """Entries that did not come with pages."""
        self._last = 0
        self._session = ""

    @property
    def complete(self) -> bool:
        """Whether nothing older can be read, or kept."""
        return self.first <= 1 or len(self.entries) >= MOST

    def filter_by(self, wanted: EventFilter, snapshot: Snapshot) -> None:
        """Filter anew, from the snapshot on."""
        self.wanted = wanted
        self._begin(snapshot)

    def take(self, snapshot: Snapshot) -> bool:
        """Take what is new; whether anything was."""
        records, place = snapshot.events, len(snapshot.events)
        if not records:
            return False
        while place and records[place - 1].seq > self._last:
            place -= 1  # from the end, where the news are
        fresh = records[place:]
        other = snapshot.session != self._session or snapshot.seq < self._last
        missed = bool(fresh) and fresh[0].seq > self._last + 1
        if other or missed or self._fresh >= MOST:
            self._begin(snapshot)
            return True
        self._add(fresh, snapshot)
        return bool(fresh)

    def prepend(self, page: Page) -> None:
        """Put a filtered page before the rest.

        A settlement whose order comes with the page is told with the order alone.
        """
        self.first = page.first
        self.settled = {**page.settled, **self.settled}
        orders = {one.order_id: one.record for one in page.entries if one.order_id}
        self._orders = {**orders, **self._orders}
        rest = [one for one in self.entries if one.settled_id not in page.ordered]
        self.entries = [*page.entries, *rest]

    def _begin(self, snapshot: Snapshot) -> None:
        self.entries, self._orders, self.settled, self._fresh = [], {}, {}, 0
        self._session = snapshot.session
        self.first = snapshot.events[0].seq if snapshot.events else 0
        self._add(snapshot.events, snapshot)

    def _add(self, records: Sequence[Recorded], snapshot: Snapshot) -> None:
        tokens = {_find_token(one) for one in records} - {""}
        if not tokens <= self._tokens.keys():
            self._tokens = collect_tokens(snapshot)
        for record in records:
            self._last, event = record.seq, record.event
            told = record
            if isinstance(event, events.EffectOrdered):
                self._orders[event.effect_id] = record
            elif isinstance(event, events.EffectSettled):
                self.settled[event.effect_id] = event
                told = self._orders.get(event.effect_id, record)
            self._show(told)

    def _show(self, record: Recorded) -> None:
        """Put an entry where it belongs, or anew where it stands."""
        entry = build_entry(record, None, self._tokens)
        entry = replace(entry, settled=self.settled.get(entry.order_id))
        place = bisect_left(self.entries, record.seq, key=lambda one: one.record.seq)
        there = [one.key for one in self.entries[place : place + 1]]
        known = there == [entry.key]
        if self.wanted.keeps(entry):
            self.entries[place : place + known] = [entry]
            self._fresh += not known
