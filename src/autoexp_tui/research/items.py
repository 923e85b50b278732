"""Which items of the list begin now. By rules alone: no model is asked, and what an
agent does meanwhile makes no difference.

The first item that fits begins, so that one that does not fit blocks nobody; when
`starve_after` others have overtaken it, it goes before all of them, and until it fits
nothing begins that takes what it needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from autoexp_tui.model.states import Why, why
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.research.state import Item, Research


class Room(NamedTuple):
    """What is free, all that there is, or what an item takes while it runs; infinite:
    that is not counted."""

    slots: float = math.inf
    gpus: float = math.inf

    def find_lack(self, wanted: Room) -> dict[str, str | float]:
        """What is wanted, and how much of it there is; empty: it fits."""
        if wanted.gpus > self.gpus:
            return {"wanted": plural(int(wanted.gpus), "GPU"), "have": self.gpus}
        if wanted.slots > self.slots:
            return {"wanted": plural(int(wanted.slots), "slot"), "have": self.slots}
        return {}

    def has_both(self, wanted: Room, other: Room) -> bool:
        """Whether an item fits, and takes nothing that another lacks or would lack."""
        kept = Room(other.slots, other.gpus if wanted.gpus else 0)
        return not (self.take(wanted).find_lack(kept) or self.find_lack(wanted))

    def take(self, wanted: Room) -> Room:
        """What is free when an item has begun."""
        return Room(self.slots - wanted.slots, self.gpus - wanted.gpus)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What becomes of the list now."""

    start: tuple[Item, ...] = ()
    """Those that begin, in this order."""
    waits: Mapping[str, Why] = field(default_factory=dict)
    """Each other item -> why it does not."""
    stuck: tuple[str, ...] = ()
    """Items that somebody has to do something about, for the list does not move."""
    stuck_kind: Literal["", "stranded", "deadlock"] = ""


def choose_now(
    research: Research, slots: int | None = None, busy: int = 0, others: int = 0
) -> Chosen:
    """What begins now, where `busy` of `slots` are taken (0 or None: none are counted),
    and `others` GPUs by what is no run."""
    total = Room(slots or math.inf, research.gpus if research.has_gpus else math.inf)
    held = others + sum(run.gpus for run in research.list_live())
    free = Room(max(0, total.slots - busy), max(0, total.gpus - held))
    return choose_items(research, free, total)


def choose_items(research: Research, room: Room, capacity: Room) -> Chosen:
    """What begins in `room`, which is free, of `capacity`, which is all there is.

    *Stranded*: there is room, and none of it is kept, yet no item begins: some do not
    fit, or never can. *Deadlock*: nothing runs, and no item can ever begin. An item
    that waits for a run, or for a person's word on its code, is in neither.
    """
    over = research.stopped or research.budget_reached
    if over is not None:
        return Chosen(waits={one.id: over for one in research.items})
    queue = _Queue(research, capacity)
    reasons = {name: queue.explain_block(one) for name, one in queue.items.items()}
    waits = {name: reason for name, reason in reasons.items() if reason is not None}
    ready = [name for name in queue.items if name not in waits]
    start, starved, room = queue.fill_room(ready, room)
    lacking = [name for name in ready if name not in start]
    waits |= {name: queue.explain_lack(name, room, starved) for name in lacking}
    if start or not waits:
        return Chosen(tuple(queue.items[name] for name in start), waits)
    never = waits.keys() - queue.able
    if not research.live and len(never) == len(waits):
        return Chosen(waits=waits, stuck=tuple(waits), stuck_kind="deadlock")
    stuck = tuple(name for name in waits if name in {*never, *lacking})
    if stuck and min(room) > 0 and not starved:
        return Chosen(waits=waits, stuck=stuck, stuck_kind="stranded")
    return Chosen(waits=waits)


def find_ring(name: str, after: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """The shortest way from an item over what it waits for back to itself, without its
    second mention; empty: there is none. `after`: item -> what it waits for."""
    ways: list[tuple[str, ...]] = [(name,)]
    reached = {name}
    for way in ways:
        for other in after.get(way[-1], ()):
            if other == name:
                return way
            if other not in reached:
                reached.add(other)
                ways.append((*way, other))
    return ()


def find_reachable(needs: Mapping[str, Iterable[str]], done: Iterable[str]) -> set[str]:
    """Of names that need others, those that can be had one after the other, where some
    are done."""
    had = {*done}
    while found := {n for n in needs if n not in had and had.issuperset(needs[n])}:
        had |= found
    return had & needs.keys()


class _Queue:
    """The list, with what each item takes and whether it may begin some day."""

    def __init__(self, research: Research, capacity: Room) -> None:
        self.research, self.capacity = research, capacity
        self.items = {one.id: one for one in research.items}
        # Of more jobs than there are slots they take turns.
        self.wanted = {
            name: Room(max(1, min(len(one.jobs), capacity.slots)), one.wanted_gpus)
            for name, one in self.items.items()
        }
        self.able = self._find_able()

    def explain_block(self, item: Item) -> Why | None:
        """Why an item may not begin, whatever is free; None: it may."""
        if item.id not in self.able:
            return self._explain_end(item)
        settled = self.research.is_settled
        waited = [name for name in item.depends_on if not settled(name)]
        if waited:
            more = {"more": len(waited) - 1} if waited[1:] else {}
            return why("job_waits", job=waited[0], **more)
        if item.code_ref and item.code_ref not in self.research.code_approved:
            return why("code_unapproved", consultation=item.code_ref)
        return None

    def fill_room(self, ready: list[str], room: Room) -> tuple[list[str], str, Room]:
        """The items that begin; the one that room is kept for, or none; what is free
        then."""
        counts, start = dict(self.research.overtaken), list[str]()
        most = self.research.options.starve_after
        while True:
            late = (name for name in ready if counts.get(name, 0) >= most)
            starved = next(late, "")
            name = self._find_next(ready, room, starved)
            if not name:
                return start, starved, room
            place = ready.index(name)
            for one in ready[:place]:
                counts[one] = counts.get(one, 0) + 1
            start.append(name)
            room = room.take(self.wanted[name])
            ready = [*ready[:place], *ready[place + 1 :]]

    def explain_lack(self, name: str, room: Room, starved: str) -> Why:
        """Why an item does not begin that may."""
        lack = room.find_lack(self.wanted[name])
        return why("no_room", **lack) if lack else why("room_kept", item=starved)

    def _find_next(self, ready: list[str], room: Room, starved: str) -> str:
        """The item that begins next; empty: none does."""
        kept = self.wanted.get(starved, Room(0, 0))
        if starved and not room.find_lack(kept):
            return starved
        fitting = (one for one in ready if room.has_both(self.wanted[one], kept))
        return next(fitting, "")

    def _find_able(self) -> set[str]:
        """Items that may begin some day without a change of the list."""
        needs = {
            name: one.depends_on
            for name, one in self.items.items()
            if not (self._is_refused(one) or self.capacity.find_lack(self.wanted[name]))
        }
        return find_reachable(needs, self.research.runs)

    def _is_refused(self, item: Item) -> bool:
        """Whether nobody is asked any more about code that was never approved."""
        known = (*self.research.code_approved, *self.research.open)
        return bool(item.code_ref) and item.code_ref not in known

    def _explain_end(self, item: Item) -> Why:
        """Why an item can never begin."""
        if lack := self.capacity.find_lack(self.wanted[item.id]):
            return why("beyond_capacity", **lack)
        for name in item.depends_on:
            if name not in self.research.runs and name not in self.items:
                return why("dependency_unknown", name=name)
        after = {name: one.depends_on for name, one in self.items.items()}
        if ring := find_ring(item.id, after):
            return why("dependency_ring", path=" -> ".join((*ring, item.id)))
        for name in item.depends_on:
            if name not in self.research.runs and name not in self.able:
                return why("dependency_stuck", name=name)
        return why("code_refused", consultation=item.code_ref)
