"""Events as entries: what each says, which are asked for, and those read so far."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.spans import (
    Line,
    Span,
    outside,
)
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.model.effect import Effect
from autoexp_tui.model.event import Headline
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.outputs import Checkpoint, SavedCheckpoint
from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import clock_time, sentence
from autoexp_tui.text.spelling import wall_time

if TYPE_CHECKING:
    from autoexp_tui.model.event import Event, Recorded
    from autoexp_tui.model.snapshot import Snapshot


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
        return self.submitted or find_jobs(self.event)


def is_weighty(entry: Entry) -> bool:
    """Whether a person asked for it, or is asked; or it was done, ended, warned of."""
    return bool(entry.record.command_id) or entry.event.matters


def mask_headline(event: Event, now: float) -> Headline:
    """An event on one line without secrets, not cleaned; any but `EffectOrdered`."""
    headline = event.headline(now)
    return headline._replace(about=mask_text(headline.about))


def _headline_of(entry: Entry, now: float) -> Headline:
    event = entry.event
    if isinstance(event, events.EffectOrdered):
        return Headline(_kind(event.effect), _sent(entry) or event.effect.describe())
    return mask_headline(event, now)


def _sent(entry: Entry) -> str:
    """The words that were sent for one task; empty for several, or none known."""
    event, settled = entry.event, entry.settled
    if not isinstance(event, events.EffectOrdered) or settled is None:
        return ""
    first = settled.detail.partition("\n")[0]
    alone = len(event.effect.job_names()) == 1
    return first if alone and first.startswith("$ ") else ""


def find_jobs(event: Event) -> Sequence[str]:
    """The jobs that an event names; none for the session's own."""
    if isinstance(event, events.EffectOrdered):
        return event.effect.job_names()
    one = getattr(event, "job", "")
    return (str(one),) if one else getattr(event, "jobs", ())


def _kind(effect: Effect) -> str:
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
        parts = mask_headline(event, now)
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


def format_entry(entry: Entry, now: float) -> str:
    """An entry as plain text, for the clipboard."""
    lines = ("".join(span.text for span in row) for row in _detail(entry, now))
    return "\n".join(lines)


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


def find_kinds(record: events.Recorded) -> frozenset[str]:
    """The kinds that an event is of; none for what only notes numbers."""
    event = record.event
    topic: str = event.topic
    if not topic:
        return frozenset()
    if isinstance(event, events.EffectOrdered):
        topic = event.effect.topic
    found = {topic}
    if record.command_id:
        found.add("person")
    if event.is_error():
        found.add("error")
    return frozenset(found)


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
        wanted = self.kinds | ({self.kind} if self.kind else frozenset())
        if wanted:
            own = find_kinds(entry.record) | _of_settlement(entry)
            if not all(one & own for one in (self.kinds, self._stepped()) if one):
                return False
        elif not self.everything and not self.job and not is_weighty(entry):
            return False
        return self._keeps_job(entry) and self._keeps_words(entry)

    def _stepped(self) -> frozenset[str]:
        return frozenset({self.kind}) if self.kind else frozenset()

    def _keeps_job(self, entry: Entry) -> bool:
        if not (self.job or self.jobs):
            return True
        names = entry.jobs
        if self.job and self.job not in names:
            return False
        return all(any(part in name for name in names) for part in self.jobs)

    def _keeps_words(self, entry: Entry) -> bool:
        if not self.words:
            return True
        told = format_entry(entry, entry.record.t).lower()
        return all(word in told for word in self.words)


def _of_settlement(entry: Entry) -> frozenset[str]:
    failed = entry.settled is not None and entry.settled.outcome != "ok"
    return frozenset({"error"}) if failed else frozenset()


_TERM: Final = re.compile(r"(job|kind):(\S+)")


def parse_filter(current: EventFilter, text: str) -> EventFilter:
    """`current` with what a person typed in place of what was typed before.

    Raises:
        NoSuchKind: it names a kind that there is not.
    """
    words: list[str] = []
    kinds: set[str] = set()
    jobs: list[str] = []
    for word in text.split():
        match = _TERM.fullmatch(word)
        if match is None:
            words.append(word.lower())
        elif match[1] == "job":
            jobs.append(match[2])
        else:
            kinds.update(_known(match[2].split(",")))
    return replace(
        current,
        text=text.strip(),
        words=tuple(words),
        kinds=frozenset(kinds),
        jobs=tuple(jobs),
    )


def _known(names: list[str]) -> list[str]:
    for name in names:
        if name not in KINDS:
            raise NoSuchKind(f"no kind {name!r}: {', '.join(KINDS)}")
    return names


MOST: Final = 20_000
"""Entries that are kept at a time."""


Tokens: TypeAlias = Mapping[str, tuple[str, ...]]
"""Submission token -> its jobs."""


_NO_TOKENS: Final[Tokens] = MappingProxyType({})


class EventHistory:
    """Entries that a filter keeps, oldest first."""

    def __init__(self) -> None:
        self.wanted = EventFilter()
        self.first = 0
        """Seq of the oldest record that was looked at; 0 before any."""
        self._pages: list[Entry] = []
        self._tail: list[Entry] = []
        self._orders: dict[str, tuple[int | None, Recorded]] = {}
        """Effect -> place in the tail, None where it is not shown; and its order."""
        self._settled: dict[str, events.EffectSettled] = {}
        self._tokens: Tokens = {}
        """Of submissions, as far as anybody asked."""
        self._last = 0
        self._session = ""

    @property
    def entries(self) -> Sequence[Entry]:
        """What is shown, oldest first."""
        return [*self._pages, *self._tail] if self._pages else self._tail

    def __len__(self) -> int:
        return len(self._pages) + len(self._tail)

    @property
    def complete(self) -> bool:
        """Whether nothing older can be read, or kept."""
        return self.first <= 1 or len(self) >= MOST

    def want(self, wanted: EventFilter, snapshot: Snapshot) -> None:
        """Filter anew, from the snapshot on."""
        self.wanted = wanted
        self._begin(snapshot)

    def take(self, snapshot: Snapshot) -> bool:
        """Take what is new; whether anything was."""
        if not snapshot.events:
            return False
        fresh = _newer(snapshot.events, self._last)
        other = snapshot.session != self._session or snapshot.seq < self._last
        missed = bool(fresh) and fresh[0].seq > self._last + 1
        if other or missed or len(self._tail) >= MOST:
            self._begin(snapshot)
            return True
        self._add(fresh, snapshot)
        return bool(fresh)

    def _begin(self, snapshot: Snapshot) -> None:
        self._pages, self._tail, self._orders, self._settled = [], [], {}, {}
        self._session = snapshot.session
        self.first = snapshot.events[0].seq if snapshot.events else 0
        self._add(snapshot.events, snapshot)

    def _add(self, records: Sequence[Recorded], snapshot: Snapshot) -> None:
        if any(_token(one) not in self._tokens for one in records if _token(one)):
            self._tokens = collect_tokens(snapshot)
        for record in records:
            self._last = record.seq
            event = record.event
            if isinstance(event, events.EffectSettled):
                self._settle(record, event)
            elif isinstance(event, events.EffectOrdered):
                place = self._show(build_entry(record, None))
                self._orders[event.effect_id] = (place, record)
            else:
                self._show(build_entry(record, None, self._tokens))

    def _show(self, entry: Entry) -> int | None:
        """Where the entry stands now; None when the filter does not keep it."""
        if not self.wanted.keeps(entry):
            return None
        self._tail.append(entry)
        return len(self._tail) - 1

    def _settle(self, record: Recorded, event: events.EffectSettled) -> None:
        self._settled[event.effect_id] = event
        if event.effect_id not in self._orders:
            self._settle_older(record, event)
            return
        place, order = self._orders[event.effect_id]
        if place is None:
            place = self._show(build_entry(order, event))
        else:
            self._tail[place] = build_entry(order, event)
        self._orders[event.effect_id] = (place, order)

    def _settle_older(self, record: Recorded, event: events.EffectSettled) -> None:
        """Of an order that a page brought, or that nobody has read."""
        for place, entry in enumerate(self._pages):
            if find_order(entry) == event.effect_id:
                self._pages[place] = replace(entry, settled=event)
                return
        self._show(build_entry(record, None))

    # ----------------------------------------------------------------- older pages
    @property
    def settled(self) -> Mapping[str, events.EffectSettled]:
        """What came of orders, as far as it was read: a copy."""
        return dict(self._settled)

    def prepend(self, page: Page) -> None:
        """Put a filtered page before the rest.

        A settlement whose order comes with the page is told with the order alone.
        """
        self.first = page.first
        self._settled = {**page.settled, **self._settled}
        older = [one for one in self._pages if find_settled(one) not in page.ordered]
        self._pages = [*page.entries, *older]
        rest = [one for one in self._tail if find_settled(one) not in page.ordered]
        if len(rest) < len(self._tail):
            self._tail = rest
            self._orders.update(
                (name, (place, entry.record))
                for place, entry in enumerate(rest)
                if (name := find_order(entry))
            )


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
    told = [one.event for one in records]
    settled = {e.effect_id: e for e in told if isinstance(e, events.EffectSettled)}
    ordered = {e.effect_id for e in told if isinstance(e, events.EffectOrdered)}
    found = []
    for record in records:
        event, came = record.event, None
        if isinstance(event, events.EffectSettled) and event.effect_id in ordered:
            continue
        if isinstance(event, events.EffectOrdered):
            came = settled.get(event.effect_id, known.get(event.effect_id))
        entry = build_entry(record, came, tokens)
        if wanted.keeps(entry):
            found.append(entry)
    first = records[0].seq if records else 1
    return Page(first, found, frozenset(ordered), settled)


def build_entry(
    record: Recorded,
    settled: events.EffectSettled | None,
    tokens: Tokens = _NO_TOKENS,
) -> Entry:
    """A record as a line of the chronicle."""
    submitted = tokens.get(_token(record), ())
    return Entry(f"{record.epoch}-{record.seq}", record, settled, submitted)


def collect_tokens(snapshot: Snapshot) -> Tokens:
    """The jobs of every submission: what was ordered may lie far back."""
    found: dict[str, list[str]] = {}
    for job in snapshot.jobs:
        for attempt in job.attempts:
            found.setdefault(attempt.token, []).append(job.name)
    return {token: tuple(names) for token, names in found.items()}


def _token(record: Recorded) -> str:
    """The submission that an event names by its token alone; empty for others."""
    event = record.event
    return event.token if isinstance(event, _OF_SUBMISSIONS) else ""


_OF_SUBMISSIONS: Final = (
    events.SubmissionAccepted,
    events.SubmissionUncertain,
    events.SubmissionAbsent,
)


def find_order(entry: Entry) -> str:
    """The effect that an entry orders; empty for another event."""
    event = entry.event
    return event.effect_id if isinstance(event, events.EffectOrdered) else ""


def find_settled(entry: Entry) -> str:
    """The effect whose settlement stands by itself; empty for another event."""
    event = entry.event
    return event.effect_id if isinstance(event, events.EffectSettled) else ""


def _newer(records: Sequence[Recorded], seq: int) -> Sequence[Recorded]:
    """Those after `seq`: counted from the end, where the news are."""
    place = len(records)
    while place and records[place - 1].seq > seq:
        place -= 1
    return records[place:]
