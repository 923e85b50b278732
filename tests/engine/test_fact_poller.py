"""What is looked at outside, how often, and what is said of what does not answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from autoexp_tui.engine.observations import FactsSeen, Observation
from autoexp_tui.engine.poller import (
    COLD_SECONDS,
    COMMAND_SECONDS,
    MOST_COMMAND_SECONDS,
    MOST_COMMANDS,
    FactPoller,
)
from autoexp_tui.model.facts import (
    CommandKey,
    CommandResult,
    Fact,
    FileStat,
    OutsideKey,
    StatKey,
)
from tests.support.inline_pool import InlinePool


@dataclass
class World:
    """A source that counts, and a poller over it on a clock of our own."""

    keys: list[OutsideKey]
    seconds: float = 0.0
    """What a command takes."""
    now: float = 0.0
    sizes: dict[str, int] = field(default_factory=dict)
    exit_code: int = 1
    asked: Counter[OutsideKey] = field(default_factory=Counter)
    seen: list[Observation] = field(default_factory=list)
    wanted: set[OutsideKey] = field(default_factory=set)
    pool: InlinePool = field(default_factory=InlinePool)
    noted: int = 0

    def __post_init__(self) -> None:
        self.wanted = set(self.keys)
        self.poller = FactPoller(
            self, self.pool, self.pool, lambda path: path[:2], self.seen.append
        )
        self.poller.want(self.keys, self.now, 1.0)

    def observe(self, key: OutsideKey) -> Fact:
        self.asked[key] += 1
        if isinstance(key, CommandKey):
            self.now += self.seconds
            return Fact(CommandResult(self.exit_code), self.now)
        path = key.path if isinstance(key, StatKey) else ""
        return Fact(FileStat(True, self.sizes.get(path, 0)), self.now)

    def observe_all(self, keys: Sequence[OutsideKey]) -> Iterator[Fact]:
        return map(self.observe, keys)

    def pass_(self, seconds: float = 0.0, step: float = 0.5) -> None:
        """Let time pass as an engine does that commits each half second."""
        end = self.now + seconds
        self.look()
        while self.now < end:
            self.now += step
            self.look()

    def look(self) -> None:
        utc = 1_000.0 + self.now
        self.poller.look(self.now, utc, self.wanted.__contains__)
        while self.pool.step():
            pass
        self.note()
        self.poller.look(self.now, utc, self.wanted.__contains__)

    def note(self) -> None:
        """Let the poller learn from what is new."""
        for one in self.seen[self.noted :]:
            if isinstance(one, FactsSeen):
                self.poller.note(one, self.now, 1.0)
        self.noted = len(self.seen)

    def looks_in(self, seconds: float) -> int:
        self.asked.clear()
        self.pass_(seconds)
        return sum(self.asked.values())

    def facts(self, key: OutsideKey) -> list[Fact]:
        pairs = (one.facts for one in self.seen if isinstance(one, FactsSeen))
        return [fact for facts in pairs for seen, fact in facts if seen == key]


def files(number: int) -> list[OutsideKey]:
    return [StatKey(f"/a/{n}") for n in range(number)]


# -------------------------------------------------------------------------- files
def test_a_few_files_are_looked_at_each_second() -> None:
    world = World(files(5))
    world.pass_(60)
    assert 4 * 5 * 0.9 <= world.looks_in(4) / 1 <= 5 * 5


def test_many_files_that_rest_are_looked_at_seldom() -> None:
    world = World(files(10_000))
    world.pass_(120)
    looks = world.looks_in(30)
    assert 10_000 * 30 / COLD_SECONDS <= looks <= 10_000 * 30 / (COLD_SECONDS * 0.7)


def test_among_many_a_file_that_changes_is_looked_at_often() -> None:
    world = World(files(1_000))
    world.pass_(60)
    hot = StatKey("/a/7")
    for n in range(20):
        world.sizes["/a/7"] = n
        world.pass_(1)
    world.asked.clear()
    for n in range(10):
        world.sizes["/a/7"] = 100 + n
        world.pass_(1)
    assert world.asked[hot] >= 9
    assert world.asked[StatKey("/a/8")] <= 1


def test_who_waits_anew_gets_a_fresh_look() -> None:
    world = World(files(1_000))
    world.pass_(60)
    world.asked.clear()
    world.poller.want([StatKey("/a/7")], world.now, 1.0)
    world.pass_(1.0)
    assert world.asked[StatKey("/a/7")] == 1


def test_what_nobody_waits_for_is_not_looked_at_any_more() -> None:
    world = World(files(10))
    world.pass_(5)
    world.wanted.clear()
    world.pass_(2)
    assert world.looks_in(60) == 0


def test_an_answer_comes_in_small_parts() -> None:
    world = World(files(3_500))
    world.look()
    for _ in range(4):
        world.look()
    parts = [len(one.facts) for one in world.seen if isinstance(one, FactsSeen)]
    assert parts[:4] == [1_000, 1_000, 1_000, 500]


# ----------------------------------------------------------------------- commands
def command(name: str = "c", timeout: float = 30.0) -> CommandKey:
    return CommandKey((name,), timeout)


def gaps(world: World, seconds: float) -> list[float]:
    """How long the command rested between its runs."""
    times: list[float] = []
    end = world.now + seconds
    while world.now < end:
        before = sum(world.asked.values())
        world.pass_(0.5)
        times += [world.now] * (sum(world.asked.values()) - before)
    return [b - a for a, b in pairwise(times)]


def test_a_command_that_keeps_failing_is_asked_ever_more_seldom() -> None:
    rests = gaps(World([command()]), 3_000)
    assert rests[0] <= 2 * COMMAND_SECONDS + 1
    assert rests == sorted(rests) or rests[-1] >= MOST_COMMAND_SECONDS * 0.7
    assert MOST_COMMAND_SECONDS * 0.7 <= max(rests) <= MOST_COMMAND_SECONDS + 1


def test_a_change_elsewhere_makes_a_command_be_asked_soon_again() -> None:
    world = World([command()])
    world.pass_(2_000)
    world.asked.clear()
    world.poller.want([command()], world.now, 1.0)
    world.pass_(COMMAND_SECONDS + 1)
    assert world.asked[command()] == 1


def test_a_slow_command_rests_longer_than_it_takes() -> None:
    world = World([command()], seconds=20.0)
    assert min(gaps(world, 600)) >= 60.0


def test_only_a_few_commands_run_at_a_time() -> None:
    world = World([command(f"c{n}") for n in range(20)])
    world.poller.look(0.0, 0.0, world.wanted.__contains__)
    assert len(world.pool.pending) == MOST_COMMANDS


def held(world: World) -> Iterable[str]:
    return [key for key in world.pool.pending if key.startswith("command")]


def test_commands_that_hang_for_good_do_not_take_the_turns_of_others() -> None:
    hanging = [command(f"h{n}", timeout=5.0) for n in range(MOST_COMMANDS)]
    world = World([*hanging, command("fine")])
    world.pool.held = {f"command {key}" for key in hanging}
    world.pass_(10)
    assert world.asked[command("fine")] == 0
    world.pass_(10)
    assert world.asked[command("fine")] >= 1
    last = world.facts(hanging[0])[-1]
    assert last.error == "no answer from h0"
