"""Facts from outside for whoever waits for them: files by mount point, commands.

Looks go to pools and return as observations. What does not come back is reported as
unknown, with how long it has been silent, and the rest goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from autoexp_tui.engine import observations as seen
from autoexp_tui.engine.adaptive_poller import AdaptivePoller
from autoexp_tui.engine.mount_workers import SILENT_SECONDS, MountWorkers, Probe
from autoexp_tui.engine.observations import Observation
from autoexp_tui.engine.ports import FactSource, Pool
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

FileKey: TypeAlias = StatKey | GlobKey | TextKey | LogKey
FileFact: TypeAlias = tuple[FileKey, Fact]

COLD_SECONDS: Final = 15.0
"""Between two looks at a file that has not changed for long, where many are watched."""
FREE_LOOKS: Final = 20.0
"""Looks a second that cost nothing worth saving: so few files are all kept hot."""
COMMAND_SECONDS: Final = 5.0
"""Between two runs of a command, at least."""
MOST_COMMAND_SECONDS: Final = 300.0
_COMMAND_BACKOFF: Final = 2.0
_REST: Final = 4.0
"""A slow command rests for at least so many times what it took."""
MOST_COMMANDS: Final = 4
"""Commands that run at a time, those apart that are long overdue."""


class FactPoller:
    """Looks at what is due. Used by the engine's thread alone."""

    def __init__(
        self,
        source: FactSource,
        file_pool: Pool,
        command_pool: Pool,
        mount_of: Callable[[str], str],
        post: Callable[[Observation], None],
    ) -> None:
        self._files: AdaptivePoller[FileKey] = AdaptivePoller()
        self._workers = MountWorkers(
            "facts", file_pool, mount_of, FileProbe(source), post
        )
        self._commands = CommandPoller(source, command_pool, post)

    def restart(self) -> None:
        """Whoever waits asks anew."""
        self._files = AdaptivePoller()

    def want(self, keys: Iterable[OutsideKey], now: float, poll_seconds: float) -> None:
        """Somebody asks for these just now, or has reason to ask again."""
        for key in keys:
            if isinstance(key, CommandKey):
                self._commands.schedule.want([key], now, COMMAND_SECONDS)
            else:
                self._files.want([key], now, poll_seconds)

    def hurry(self, now: float) -> None:
        """Files may have changed: look at all of them."""
        self._files.hurry(now)

    def note(self, got: seen.FactsSeen, now: float, poll_seconds: float) -> None:
        """Learn from answers when to look again."""
        longest = min(COLD_SECONDS, len(self._files) / FREE_LOOKS)
        for key, fact in got.facts:
            if not isinstance(key, CommandKey) and fact.silence is None:
                changed = self._files.is_news(key, (fact.value, fact.error))
                self._files.settle(
                    key, now, changed=changed, shortest=poll_seconds, longest=longest
                )

    def look(
        self, now: float, t: float, is_wanted: Callable[[OutsideKey], bool]
    ) -> None:
        """Look at everything that is due; `now` is monotonic, `t` the same moment."""
        due = self._files.take_due(now, is_wanted)
        # Neighbours share their reading.
        self._workers.send(sorted(due, key=self._workers.probe.path))
        self._workers.tend(now, t)
        self._commands.look(now, t, is_wanted)

    def next_at(self) -> float | None:
        """When something is due, monotonic."""
        times = (self._files.next_at(), self._commands.next_at())
        return min((at for at in times if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class FileProbe(Probe[FileKey, FileFact]):
    """How facts of files are looked at."""

    source: FactSource

    def key(self, item: FileKey) -> Hashable:
        return item

    def path(self, item: FileKey) -> str:
        return item.pattern if isinstance(item, GlobKey) else item.path

    def read(self, items: Sequence[FileKey]) -> Iterator[FileFact]:
        return zip(items, self.source.observe_all(items), strict=True)

    def report(self, answers: Sequence[FileFact]) -> Observation:
        return seen.FactsSeen(facts=tuple(answers))

    def report_silence(
        self, items: Sequence[OutsideKey], silence: Silence, t: float
    ) -> Observation:
        return _report_unknown(items, silence, t)


def _report_unknown(
    keys: Sequence[OutsideKey], silence: Silence, t: float
) -> seen.FactsSeen:
    fact = Fact(None, t, f"no answer from {silence.place}", silence)
    return seen.FactsSeen(facts=tuple((key, fact) for key in keys))


# ----------------------------------------------------------------------- commands
@dataclass(slots=True, eq=False)
class CommandRun:
    """One run of a command."""

    key: CommandKey
    begun_at: float
    fact: Fact | None = None
    is_late: bool = False


class CommandPoller:
    """Which command is asked when: a few at a time, and seldom when it never passes."""

    def __init__(
        self, source: FactSource, pool: Pool, post: Callable[[Observation], None]
    ) -> None:
        self.schedule: AdaptivePoller[CommandKey] = AdaptivePoller()
        self._source = source
        self._pool = pool
        self._post = post
        self._running: list[CommandRun] = []
        self._ended: deque[CommandRun] = deque()

    def look(
        self, now: float, t: float, is_wanted: Callable[[OutsideKey], bool]
    ) -> None:
        """Take what ended, report what is late, begin what is due."""
        while self._ended:
            self._settle(self._ended.popleft(), now)
        for run in self._running:
            self._report_late(run, now, t)
        for key in self.schedule.take_due(now, is_wanted, most=self._count_free()):
            self._begin(CommandRun(key, now))

    def next_at(self) -> float | None:
        """When the next one is due; None: none is, until one ends."""
        return self.schedule.next_at() if self._count_free() > 0 else None

    def _count_free(self) -> int:
        return MOST_COMMANDS - sum(not run.is_late for run in self._running)

    def _begin(self, run: CommandRun) -> None:
        name = f"command {run.key}"

        def call() -> None:
            run.fact = self._source.observe(run.key)

        def done(_: object, problem: BaseException | None) -> None:
            self._ended.append(run)
            if problem is not None:
                self._post(seen.call_failed(name, problem))
            elif run.fact is not None:
                self._post(seen.FactsSeen(facts=((run.key, run.fact),)))

        self._running.append(run)
        if not self._pool.submit(name, call, done):
            self._ended.append(run)

    def _settle(self, run: CommandRun, now: float) -> None:
        """Only its exit code counts as a change, not what it printed."""
        self._running.remove(run)
        fact, took = run.fact, now - run.begun_at
        outcome = fact and (getattr(fact.value, "exit_code", None), bool(fact.error))
        self.schedule.settle(
            run.key,
            now,
            changed=self.schedule.is_news(run.key, outcome),
            shortest=min(max(COMMAND_SECONDS, took * _REST), MOST_COMMAND_SECONDS),
            longest=MOST_COMMAND_SECONDS,
            factor=_COMMAND_BACKOFF,
        )

    def _report_late(self, run: CommandRun, now: float, t: float) -> None:
        """A command that its own time limit does not end hangs in the kernel."""
        took = now - run.begun_at
        if not run.is_late and took > run.key.timeout + SILENT_SECONDS:
            run.is_late = True
            silence = Silence(" ".join(run.key.command), t - took)
            self._post(_report_unknown([run.key], silence, t))
