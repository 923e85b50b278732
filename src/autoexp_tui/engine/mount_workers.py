"""Looks at files, apart for each file system: one that hangs holds up nobody else.

Each place (a mount point) has a lane of its own. A look that makes no progress for a
while is *stuck*: what it has found is told, what it has not is *silent*, and whatever
lies elsewhere on the place goes on in a spare lane, for the hang may be another file
system's behind a symbolic link. Lanes are bounded, so a place that is gone for good
costs a few threads and no more. Nothing is ever waited for or joined.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from autoexp_tui.engine.ports import Pool
from autoexp_tui.model.facts import Silence

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
A = TypeVar("A")

SILENT_SECONDS: Final = 10.0
"""Without any progress, after which a look is stuck."""
MOST_LOOKS: Final = 4
"""Looks at one place at a time, stuck ones included."""
LOOK_ITEMS: Final = 1000
"""Of one look; more follow in the next, so that one answer stays small."""
_STEP_SECONDS: Final = 6.0
"""At most so much silence counts between two commits: the engine itself may have
been asleep."""
_GROUP_DEPTH: Final = 3
"""Directories that paths share to be taken for neighbours behind one link."""


class Ways(Protocol[T_contra, A]):
    """What lanes are told of the things that they look at."""

    def key(self, item: T_contra) -> Hashable:
        """What is never looked at twice at a time."""
        ...

    def path(self, item: T_contra) -> str:
        """Where it lies."""
        ...

    def look(self, items: Sequence[T_contra]) -> Iterator[A]:
        """One answer an item, in order, or fewer; blocks, on a pool's thread."""
        ...

    def tell(self, answers: Sequence[tuple[T_contra, A]]) -> None:
        """Answers came; called from any thread."""
        ...

    def fault(self, name: str, problem: BaseException) -> None:
        """A look raised what it should not; called from any thread."""
        ...


@dataclass(slots=True, eq=False)
class _Look(Generic[T, A]):
    """One look under way. `answers` grows on the pool's thread."""

    name: str
    items: Sequence[T]
    answers: list[A] = field(default_factory=list)
    told: int = 0
    """Answers that were told before its end."""
    seen: int = 0
    quiet: float = 0.0
    """Seconds without progress."""
    group: str = ""
    """Not empty: it is stuck, on something in this directory."""
    behind: list[T] = field(default_factory=list)
    """Neighbours of what it hangs on: they wait for its return."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def goes_on(self, answer: A) -> bool:
        """Note an answer; False when others have taken over the rest."""
        with self._lock:
            self.answers.append(answer)
            return not self.group

    def give_up(self, group: Callable[[T], str]) -> int | None:
        """Call it stuck on what it has in hand: which one; None when it is through."""
        with self._lock:
            done = len(self.answers)
            if done == len(self.items):
                return None
            self.group = group(self.items[done])
            return done


@dataclass(slots=True)
class _Place(Generic[T, A]):
    """One file system."""

    name: str
    waiting: dict[Hashable, T] = field(default_factory=dict)
    looks: list[_Look[T, A]] = field(default_factory=list)

    def stuck(self) -> Iterator[_Look[T, A]]:
        return (look for look in self.looks if look.group)

    def has_free_lane(self) -> bool:
        """One look at a time, unless all that are under way are stuck."""
        return len(self.looks) < MOST_LOOKS and all(look.group for look in self.looks)

    def name_of_next(self) -> str:
        taken = {look.name for look in self.looks}
        names = (f"{self.name} #{n}" for n in range(1, MOST_LOOKS + 1))
        return next(name for name in names if name not in taken)


@dataclass(slots=True)
class Tended(Generic[T, A]):
    """What became of the lanes since the last time."""

    answered: list[tuple[T, A]] = field(default_factory=list)
    again: list[T] = field(default_factory=list)
    """Nobody got to them: they may be sent again."""
    silent: dict[str, tuple[Silence, list[T]]] = field(default_factory=dict)
    """Place -> since when, and what is not known because of it, told once each."""
    heard: list[str] = field(default_factory=list)
    """Places of which a look has ended, and none is stuck."""


class Lanes(Generic[T, A]):
    """All lanes of one kind of look. Used by the engine's thread alone."""

    def __init__(
        self, kind: str, pool: Pool, place_of: Callable[[str], str], ways: Ways[T, A]
    ) -> None:
        self._kind = kind
        self._pool = pool
        self._place_of = place_of
        self._ways = ways
        self._places: dict[str, _Place[T, A]] = {}
        self._held: dict[Hashable, None] = {}
        """Everything that waits or is looked at."""
        self._over: deque[tuple[_Place[T, A], _Look[T, A]]] = deque()
        self._silent: dict[Hashable, None] = {}
        self._tended_at: float | None = None

    def holds(self, item: T) -> bool:
        """Whether it waits for a look, or is being looked at."""
        return self.holds_key(self._ways.key(item))

    def holds_key(self, key: Hashable) -> bool:
        """The same, by its key."""
        return key in self._held

    def send(self, items: Iterable[T]) -> None:
        """Look at these as soon as their place can; those under way are left out."""
        for item in items:
            key = self._ways.key(item)
            if key not in self._held:
                self._held[key] = None
                self._place(item).waiting[key] = item

    def tend(self, now: float, t: float) -> Tended[T, A]:
        """Take what ended, notice what is stuck, begin what can begin."""
        tended: Tended[T, A] = Tended()
        self._take_over(tended)
        passed = 0.0 if self._tended_at is None else now - self._tended_at
        self._tended_at = now
        for place in self._places.values():
            self._notice(place, min(max(passed, 0.0), _STEP_SECONDS), t, tended)
            self._begin(place, t, tended)
        return tended

    def _place(self, item: T) -> _Place[T, A]:
        name = self._place_of(self._ways.path(item))
        if name not in self._places:
            self._places[name] = _Place(name)
        return self._places[name]

    # -------------------------------------------------------------------------- ends
    def _take_over(self, tended: Tended[T, A]) -> None:
        while self._over:
            place, look = self._over.popleft()
            place.looks.remove(look)
            self._release(tended, look, look.told, len(look.answers))
            left = list(look.items[len(look.answers) :])
            if look.group:  # what it did not get to has gone on elsewhere
                left = [*left[: look.told + 1 - len(look.answers)], *look.behind]
            self._let_go(left)
            tended.again += left
            if not any(place.stuck()):
                tended.heard.append(place.name)

    def _release(
        self, tended: Tended[T, A], look: _Look[T, A], first: int, last: int
    ) -> None:
        done = list(zip(look.items[first:last], look.answers[first:last], strict=True))
        self._let_go(item for item, _ in done)
        tended.answered += done

    def _let_go(self, items: Iterable[T]) -> None:
        for item in items:
            key = self._ways.key(item)
            self._held.pop(key, None)
            self._silent.pop(key, None)

    # ------------------------------------------------------------------------ silence
    def _notice(
        self, place: _Place[T, A], passed: float, t: float, tended: Tended[T, A]
    ) -> None:
        for look in place.looks:
            done = len(look.answers)
            moved = done > look.seen
            look.seen = done
            look.quiet = 0.0 if moved else look.quiet + passed
            if not look.group and look.quiet >= SILENT_SECONDS:
                self._give_up(place, look, t, tended)

    def _give_up(
        self, place: _Place[T, A], look: _Look[T, A], t: float, tended: Tended[T, A]
    ) -> None:
        done = look.give_up(lambda item: self._group(place, item))
        if done is None:
            return  # it is only the end of it that is on its way
        in_hand, *rest = look.items[done:]
        self._ways.tell(list(zip(look.items[:done], look.answers[:done], strict=True)))
        self._release(tended, look, 0, done)
        look.told = done
        place.waiting.update((self._ways.key(item), item) for item in rest)
        self._mute(place, [in_hand, *rest], t, tended)

    def _mute(
        self,
        place: _Place[T, A],
        items: Iterable[T],
        t: float,
        tended: Tended[T, A],
    ) -> None:
        new = [item for item in items if self._ways.key(item) not in self._silent]
        if not new:
            return
        self._silent.update(dict.fromkeys(map(self._ways.key, new)))
        quiet = max(look.quiet for look in place.stuck())
        since = Silence(place.name, t - quiet)
        tended.silent.setdefault(place.name, (since, []))[1].extend(new)

    def _group(self, place: _Place[T, A], item: T) -> str:
        parts = self._ways.path(item).split("/")[:-1]
        depth = max(len(place.name.rstrip("/").split("/")), _GROUP_DEPTH)
        return "/".join(parts[: depth + 1]) or "/"

    # ------------------------------------------------------------------------- begins
    def _begin(self, place: _Place[T, A], t: float, tended: Tended[T, A]) -> None:
        if not place.waiting:
            return
        stuck = {look.group: look for look in place.stuck()}
        if stuck:
            self._set_behind(place, stuck, t, tended)
        if place.waiting and place.has_free_lane():
            self._start(place)
        elif all(look.group for look in place.looks):
            self._mute(place, list(place.waiting.values()), t, tended)

    def _set_behind(
        self,
        place: _Place[T, A],
        stuck: dict[str, _Look[T, A]],
        t: float,
        tended: Tended[T, A],
    ) -> None:
        for key, item in list(place.waiting.items()):
            look = stuck.get(self._group(place, item))
            if look is not None:
                del place.waiting[key]
                look.behind.append(item)
                self._mute(place, [item], t, tended)

    def _start(self, place: _Place[T, A]) -> None:
        chosen = sorted(place.waiting.values(), key=self._ways.path)[:LOOK_ITEMS]
        look: _Look[T, A] = _Look(place.name_of_next(), chosen)
        place.looks.append(look)
        for item in chosen:
            del place.waiting[self._ways.key(item)]
        name = f"{self._kind} {look.name}"
        if not self._pool.submit(name, *self._call(place, look, name)):
            place.looks.remove(look)
            place.waiting.update((self._ways.key(item), item) for item in chosen)

    def _call(
        self, place: _Place[T, A], look: _Look[T, A], name: str
    ) -> tuple[Callable[[], object], Callable[[object, BaseException | None], None]]:
        def call() -> None:
            for answer in self._ways.look(look.items):
                if not look.goes_on(answer):
                    return

        def done(_: object, problem: BaseException | None) -> None:
            news = look.answers[look.told :]
            self._over.append((place, look))
            if problem is not None:
                self._ways.fault(name, problem)
            items = look.items[look.told : look.told + len(news)]
            self._ways.tell(list(zip(items, news, strict=True)))

        return call, done
