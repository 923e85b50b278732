"""Facts from outside for whoever waits for them: files and logs by place, commands.

Looks go to pools and return as observations. What does not come back is told as
unknown, with how long it has been silent, and the rest goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from autoexp_tui.engine.adaptive_poller import Rhythm
from autoexp_tui.engine.mount_status import PlaceNews
from autoexp_tui.engine.mount_workers import SILENT_SECONDS, Lanes
from autoexp_tui.engine.ports import Pool
from autoexp_tui.engine.reading_ports import FactSource
from autoexp_tui.model import observations as seen
from autoexp_tui.model.facts import (
    CommandKey,
    Fact,
    GlobKey,
    LogKey,
    OutsideKey,
    Silence,
    StatKey,
    TextKey,
)
from autoexp_tui.model.observations import Observation

FileKey: TypeAlias = StatKey | GlobKey | TextKey | LogKey

COLD_SECONDS: Final = 15.0
"""Between two looks at a file that has not changed for long, where many are watched."""
FREE_LOOKS: Final = 20.0
"""Looks a second that cost nothing worth saving: so few files are all kept hot."""
_COOLING: Final = 1.5
COMMAND_SECONDS: Final = 5.0
"""Between two runs of a command, at least."""
MOST_COMMAND_SECONDS: Final = 300.0
_SLOWER: Final = 2.0
_REST: Final = 4.0
"""A slow command rests for at least so many times what it took."""
MOST_COMMANDS: Final = 4
"""Commands that run at a time, those apart that are long overdue."""


class FactRounds:
    """Looks at what is due. Used by the engine's thread alone."""

    def __init__(
        self,
        source: FactSource,
        file_pool: Pool,
        command_pool: Pool,
        place_of: Callable[[str], str],
        post: Callable[[Observation], None],
    ) -> None:
        self._post = post
        self._files: Rhythm[FileKey] = Rhythm()
        self._lanes = Lanes("facts", file_pool, place_of, _FileWays(source, post))
        self._commands = CommandTurns(source, command_pool, post)
        self._places = PlaceNews(post)

    def want(self, keys: Iterable[OutsideKey], now: float, poll_seconds: float) -> None:
        """Somebody asks for these just now, or has reason to ask again."""
        keys = list(keys)
        commands = [key for key in keys if isinstance(key, CommandKey)]
        files = [key for key in keys if not isinstance(key, CommandKey)]
        self._commands.want(commands, now)
        self._files.want(files, now, poll_seconds)

    def hurry(self, now: float) -> None:
        """Files may have changed: look at all of them."""
        self._files.hurry(now)

    def look(
        self,
        now: float,
        t: float,
        poll_seconds: float,
        is_wanted: Callable[[OutsideKey], bool],
    ) -> None:
        """Everything that is due; `now` is monotonic."""
        self._lanes.send(self._files.take_due(now, is_wanted))
        tended = self._lanes.tend(now, t)
        slower = self._slower(poll_seconds)
        for key, fact in tended.answered:
            self._files.rest(key, (fact.value, fact.error), now, slower)
        self._files.again(tended.again, now)
        for silence, keys in tended.silent.values():
            self._post(_silent(keys, silence, t))
        self._places.tell(tended)
        self._commands.look(now, t, is_wanted)

    def next_at(self) -> float | None:
        """When something is due, monotonic."""
        times = (self._files.next_at(), self._commands.next_at())
        return min((at for at in times if at is not None), default=None)

    def _slower(self, shortest: float) -> Callable[[float, bool], float]:
        coldest = min(COLD_SECONDS, max(shortest, len(self._files) / FREE_LOOKS))
        longest = max(shortest, coldest)

        def slower(seconds: float, changed: bool) -> float:  # noqa: FBT001
            return shortest if changed else min(seconds * _COOLING, longest)

        return slower


@dataclass(frozen=True, slots=True)
class _FileWays:
    """How lanes look at facts."""

    source: FactSource
    post: Callable[[Observation], None]

    def key(self, item: FileKey) -> Hashable:
        """Facts are their own keys."""
        return item

    def path(self, item: FileKey) -> str:
        """The path, or the pattern."""
        return item.pattern if isinstance(item, GlobKey) else item.path

    def look(self, items: Sequence[FileKey]) -> Iterator[Fact]:
        """One by one."""
        return self.source.observe_all(items)

    def tell(self, answers: Sequence[tuple[FileKey, Fact]]) -> None:
        """As an observation."""
        if answers:
            self.post(seen.FactsSeen(facts=tuple(answers)))

    def fault(self, name: str, problem: BaseException) -> None:
        """As an observation."""
        self.post(seen.call_failed(name, problem))


def _silent(keys: Iterable[OutsideKey], silence: Silence, t: float) -> seen.FactsSeen:
    fact = Fact(None, t, f"no answer from {silence.place}", silence)
    return seen.FactsSeen(facts=tuple((key, fact) for key in keys))


# ----------------------------------------------------------------------- commands
@dataclass(slots=True, eq=False)
class _Turn:
    """One run of a command."""

    key: CommandKey
    begun: float
    fact: Fact | None = None
    late: bool = False

    @property
    def name(self) -> str:
        return f"command {self.key}"


@dataclass(slots=True)
class CommandTurns:
    """Which command is asked when: a few at a time, and seldom when it never passes."""

    source: FactSource
    pool: Pool
    post: Callable[[Observation], None]
    _rhythm: Rhythm[CommandKey] = field(default_factory=Rhythm)
    _due: dict[CommandKey, None] = field(default_factory=dict)
    _running: list[_Turn] = field(default_factory=list)
    _over: deque[_Turn] = field(default_factory=deque)

    def want(self, keys: Iterable[CommandKey], now: float) -> None:
        """Ask these soon, and often again: something changed for who waits for them."""
        self._rhythm.want(keys, now, COMMAND_SECONDS)

    def look(
        self, now: float, t: float, is_wanted: Callable[[OutsideKey], bool]
    ) -> None:
        """Take what ended, say what is late, begin what is due."""
        while self._over:
            self._end(self._over.popleft(), now)
        for turn in self._running:
            self._notice(turn, now, t)
        self._due.update(dict.fromkeys(self._rhythm.take_due(now, is_wanted)))
        while self._due and sum(not t.late for t in self._running) < MOST_COMMANDS:
            key = next(iter(self._due))
            del self._due[key]
            self._begin(_Turn(key, now))

    def next_at(self) -> float | None:
        """When the next one is due."""
        return self._rhythm.next_at()

    def _begin(self, turn: _Turn) -> None:
        def call() -> Observation:
            turn.fact = self.source.observe(turn.key)
            return seen.FactsSeen(facts=((turn.key, turn.fact),))

        def done(answer: object, problem: BaseException | None) -> None:
            self._over.append(turn)
            if problem is not None:
                self.post(seen.call_failed(turn.name, problem))
            else:
                self.post(answer)  # type: ignore[arg-type]

        self._running.append(turn)
        if not self.pool.submit(turn.name, call, done):
            self._running.remove(turn)
            self._rhythm.again([turn.key], turn.begun + COMMAND_SECONDS)

    def _end(self, turn: _Turn, now: float) -> None:
        self._running.remove(turn)
        took = now - turn.begun

        def slower(seconds: float, changed: bool) -> float:  # noqa: FBT001
            longer = COMMAND_SECONDS if changed else seconds * _SLOWER
            return min(max(longer, took * _REST), MOST_COMMAND_SECONDS)

        self._rhythm.rest(turn.key, _outcome(turn.fact), now, slower)

    def _notice(self, turn: _Turn, now: float, t: float) -> None:
        """A command that its own time limit does not end hangs in the kernel."""
        took = now - turn.begun
        if not turn.late and took > turn.key.timeout + SILENT_SECONDS:
            turn.late = True
            silence = Silence(" ".join(turn.key.command), t - took)
            self.post(_silent([turn.key], silence, t))


def _outcome(fact: Fact | None) -> object:
    """What of a run counts as a change: not what it printed."""
    if fact is None:
        return None
    return getattr(fact.value, "exit_code", None), bool(fact.error)
