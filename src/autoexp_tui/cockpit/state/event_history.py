"""The chronicle as far as it was read: a snapshot's newest events, and older pages.

Grows by what is new at each snapshot. Older events come a page at a time, filtered
before they are kept, so that what is kept is bounded by what is shown. When the session
turns out to be another, or to stand earlier (a replay), it begins anew. What came of an
order is told with the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.render.event_log import Entry
from autoexp_tui.cockpit.state.event_kinds import EventFilter
from autoexp_tui.events import events

if TYPE_CHECKING:
    from autoexp_tui.events.events import Recorded
    from autoexp_tui.model.snapshot import Snapshot

MOST: Final = 20_000
"""Entries that are kept at a time."""
Tokens: TypeAlias = Mapping[str, tuple[str, ...]]
"""Submission token -> its jobs."""
_NO_TOKENS: Final[Tokens] = MappingProxyType({})


class Annals:
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
            self._tokens = tokens_of(snapshot)
        for record in records:
            self._last = record.seq
            event = record.event
            if isinstance(event, events.EffectSettled):
                self._settle(record, event)
            elif isinstance(event, events.EffectOrdered):
                place = self._show(entry_of(record, None))
                self._orders[event.effect_id] = (place, record)
            else:
                self._show(entry_of(record, None, self._tokens))

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
            place = self._show(entry_of(order, event))
        else:
            self._tail[place] = entry_of(order, event)
        self._orders[event.effect_id] = (place, order)

    def _settle_older(self, record: Recorded, event: events.EffectSettled) -> None:
        """Of an order that a page brought, or that nobody has read."""
        for place, entry in enumerate(self._pages):
            if order_id(entry) == event.effect_id:
                self._pages[place] = replace(entry, settled=event)
                return
        self._show(entry_of(record, None))

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
        older = [one for one in self._pages if settled_id(one) not in page.ordered]
        self._pages = [*page.entries, *older]
        rest = [one for one in self._tail if settled_id(one) not in page.ordered]
        if len(rest) < len(self._tail):
            self._tail = rest
            self._orders.update(
                (name, (place, entry.record))
                for place, entry in enumerate(rest)
                if (name := order_id(entry))
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


def page_of(
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
        entry = entry_of(record, came, tokens)
        if wanted.keeps(entry):
            found.append(entry)
    first = records[0].seq if records else 1
    return Page(first, found, frozenset(ordered), settled)


def entry_of(
    record: Recorded,
    settled: events.EffectSettled | None,
    tokens: Tokens = _NO_TOKENS,
) -> Entry:
    """A record as a line of the chronicle."""
    submitted = tokens.get(_token(record), ())
    return Entry(f"{record.epoch}-{record.seq}", record, settled, submitted)


def tokens_of(snapshot: Snapshot) -> Tokens:
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


def order_id(entry: Entry) -> str:
    """The effect that an entry orders; empty for another event."""
    event = entry.event
    return event.effect_id if isinstance(event, events.EffectOrdered) else ""


def settled_id(entry: Entry) -> str:
    """The effect whose settlement stands by itself; empty for another event."""
    event = entry.event
    return event.effect_id if isinstance(event, events.EffectSettled) else ""


def _newer(records: Sequence[Recorded], seq: int) -> Sequence[Recorded]:
    """Those after `seq`: counted from the end, where the news are."""
    place = len(records)
    while place and records[place - 1].seq > seq:
        place -= 1
    return records[place:]
