"""Of which kinds an event is, and which events a person asked for.

A filter is typed as words: `job:NAME`, `kind:submit,error`, anything else is looked
for in the line and in the words that were sent and answered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from autoexp_tui.cockpit.render.event_log import Entry, entry_text, is_weighty
from autoexp_tui.events import events

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


def kinds_of(record: events.Recorded) -> frozenset[str]:
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
            own = kinds_of(entry.record) | _of_settlement(entry)
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
        told = entry_text(entry, entry.record.t).lower()
        return all(word in told for word in self.words)


def _of_settlement(entry: Entry) -> frozenset[str]:
    failed = entry.settled is not None and entry.settled.outcome != "ok"
    return frozenset({"error"}) if failed else frozenset()


_TERM: Final = re.compile(r"(job|kind):(\S+)")


def with_text(current: EventFilter, text: str) -> EventFilter:
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
