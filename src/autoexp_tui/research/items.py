"""Which items of the list begin now. By rules alone: no model is asked, and what an
agent does meanwhile makes no difference.

The first item that fits begins, so that one that does not fit blocks nobody; when
`starve_after` others have overtaken it, it goes before all of them, and until it fits
nothing begins that takes what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from autoexp_tui.model.states import Why, why
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from autoexp_tui.research.state import Item, Research


@dataclass(frozen=True, slots=True)
class Room:
    """What is free, or all that there is."""

    slots: int | None
    """One for each job of an item; None: not counted."""
    gpus: int | None
    """None: not counted."""

    def has(self, item: Item) -> bool:
        """Whether an item fits."""
        return all(have >= needed for have, needed in self._list_counted(item))

    def has_both(self, item: Item, other: Item) -> bool:
        """Whether an item takes nothing that another lacks, or would lack then."""
        counted = zip(self._list_counted(item), self._list_counted(other), strict=True)
        return all(
            taken == 0 or have - taken >= needed
            for (have, taken), (_, needed) in counted
        )

    def take(self, item: Item) -> Room:
        """What is free when an item has begun."""
        slots = None if self.slots is None else self.slots - _count_slots(item)
        return Room(slots, None if self.gpus is None else self.gpus - item.wanted_gpus)

    def find_lack(self, item: Item) -> dict[str, str | int]:
        """What an item wants, and how much of it there is; empty: it fits."""
        if self.gpus is not None and item.wanted_gpus > self.gpus:
            return {"wanted": plural(item.wanted_gpus, "GPU"), "have": self.gpus}
        if self.slots is not None and _count_slots(item) > self.slots:
            return {"wanted": plural(_count_slots(item), "slot"), "have": self.slots}
        return {}

    @property
    def is_free(self) -> bool:
        """Whether there is some of all that is counted."""
        return self.slots != 0 and self.gpus != 0

    def _list_counted(self, item: Item) -> list[tuple[int, int]]:
        """Of each thing that is counted, how much there is and an item takes."""
        pairs = ((self.slots, _count_slots(item)), (self.gpus, item.wanted_gpus))
        return [(have, taken) for have, taken in pairs if have is not None]


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


def choose_items(research: Research, room: Room, capacity: Room) -> Chosen:
    """What begins in `room`, which is free, of `capacity`, which is all there is.

    *Stranded*: there is room, and none of it is kept, yet no item begins: some do not
    fit, or never can. *Deadlock*: nothing runs, and no item can ever begin. An item
    that waits for a run, or for a person's word on its code, is in neither.
    """
    over = research.stopped or research.budget_reached
    if over is not None:
        return Chosen(waits={one.id: over for one in research.items})
    able = _find_able(research, capacity)
    blocked = {
        one.id: reason
        for one in research.items
        if (reason := _explain_block(research, one, able, capacity)) is not None
    }
    ready = [one for one in research.items if one.id not in blocked]
    start, starved, room = _fill_room(research, ready, room)
    begun = {one.id for one in start}
    ready = [one for one in ready if one.id not in begun]
    lacking = {one.id: _explain_lack(one, room, starved) for one in ready}
    waits = blocked | lacking
    if start or not waits:
        return Chosen(start, waits)
    never = waits.keys() - able
    if not research.live and len(never) == len(waits):
        return Chosen(waits=waits, stuck=tuple(waits), stuck_kind="deadlock")
    stuck = tuple(name for name in waits if name in never or name in lacking)
    if stuck and room.is_free and starved is None:
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


def _count_slots(item: Item) -> int:
    return max(1, len(item.jobs))


def _find_able(research: Research, capacity: Room) -> set[str]:
    """Items that may begin some day without a change of the list."""
    able: set[str] = set()
    left = [
        one
        for one in research.items
        if capacity.has(one) and not _is_refused(research, one)
    ]
    while True:
        found = {
            one.id
            for one in left
            if all(name in research.runs or name in able for name in one.depends_on)
        }
        if not found:
            return able
        able |= found
        left = [one for one in left if one.id not in found]


def _is_refused(research: Research, item: Item) -> bool:
    """Whether nobody is asked any more about code that was never approved."""
    name = item.code_ref
    return bool(name) and name not in {*research.code_approved, *research.open}


def _explain_block(
    research: Research, item: Item, able: set[str], capacity: Room
) -> Why | None:
    """Why an item may not begin, whatever is free; None: it may."""
    if item.id not in able:
        return _explain_end(research, item, able, capacity)
    runs = research.runs
    waited = [
        name for name in item.depends_on if name not in runs or runs[name].ended is None
    ]
    if waited:
        more = {"more": len(waited) - 1} if waited[1:] else {}
        return why("job_waits", job=waited[0], **more)
    if item.code_ref and item.code_ref not in research.code_approved:
        return why("code_unapproved", consultation=item.code_ref)
    return None


def _explain_end(research: Research, item: Item, able: set[str], capacity: Room) -> Why:
    """Why an item can never begin."""
    after = {one.id: one.depends_on for one in research.items}
    waited = [name for name in item.depends_on if name not in research.runs]
    if lack := capacity.find_lack(item):
        return why("beyond_capacity", **lack)
    if unknown := [name for name in waited if name not in after]:
        return why("dependency_unknown", name=unknown[0])
    if ring := find_ring(item.id, after):
        return why("dependency_ring", path=" -> ".join((*ring, item.id)))
    if stuck := [name for name in waited if name not in able]:
        return why("dependency_stuck", name=stuck[0])
    return why("code_refused", consultation=item.code_ref)


def _fill_room(
    research: Research, ready: Sequence[Item], room: Room
) -> tuple[tuple[Item, ...], Item | None, Room]:
    """The items that begin, the one that room is kept for, and what is free then."""
    counts = dict(research.overtaken)
    start: list[Item] = []
    most = research.options.starve_after
    while True:
        starved = next((one for one in ready if counts.get(one.id, 0) >= most), None)
        place = _find_next(ready, room, starved)
        if place is None:
            return tuple(start), starved, room
        for one in ready[:place]:
            counts[one.id] = counts.get(one.id, 0) + 1
        start.append(ready[place])
        room = room.take(ready[place])
        ready = [*ready[:place], *ready[place + 1 :]]


def _find_next(ready: Sequence[Item], room: Room, starved: Item | None) -> int | None:
    """The place of the item that begins next; None: none does."""
    is_first = starved is not None and room.has(starved)
    for place, one in enumerate(ready):
        if is_first:
            fits = one is starved
        else:
            fits = room.has(one) and (starved is None or room.has_both(one, starved))
        if fits:
            return place
    return None


def _explain_lack(item: Item, room: Room, starved: Item | None) -> Why:
    if lack := room.find_lack(item):
        return why("no_room", **lack)
    assert starved is not None, "what fits begins but where room is kept"
    return why("room_kept", item=starved.id)
