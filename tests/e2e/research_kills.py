"""autoexp-research killed by SIGKILL at random moments, over and over, while a person
answers, edits the list and leaves notes; and engines that are killed while an agent is
called.

    python -m tests.e2e.research_kills --kills 50
    python -m tests.e2e.research_kills --call 60
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from autoexp_tui.events.asks import AskAnswered
from autoexp_tui.events.events import CommandRefused
from autoexp_tui.model.commands import AnswerAsk, Command
from autoexp_tui.model.event import apply
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.resubmission import list_open_asks
from autoexp_tui.model.state import Ask, SessionState
from autoexp_tui.research import events
from autoexp_tui.research.commands import (
    Consult,
    MoveItem,
    PutItem,
    RemoveItem,
    TellAgent,
)
from autoexp_tui.research.effects import make_view
from autoexp_tui.research.state import Item, Research, find_research, research_of
from autoexp_tui.research.state_file import build_state
from autoexp_tui.storage.journal import StoredPlans
from autoexp_tui.storage.json_codec import encode
from tests.e2e.campaign import LIMIT_SECONDS, run_command, wait_until
from tests.e2e.research_place import FINISH, Place

ONCE = {
    "ConsultationOpened": "consultation",
    "AnswerRead": "consultation",
    "RunStarted": "run.id",
    "RunJudged": "run",
    "FixDecided": "run",
    "NoteAdded": "text",
}
"""Events that come once for what they name."""


@dataclass
class Person:
    """Who answers what is asked, edits the list and leaves notes."""

    place: Place
    rng: random.Random
    sent: dict[str, Command] = field(default_factory=dict)
    """Orders by their id."""
    told: list[str] = field(default_factory=list)
    """Notes, and digests of questions, that a command said it has left or answered."""

    def order(self, command: Command) -> None:
        self.sent[self.place.order(command)] = command

    def act(self) -> None:
        """Do something, whether an engine lives or not."""
        state = self.place.load()
        if (research := find_research(state)) is None or research.stopped:
            return
        self.answer(state, is_eager=self.rng.random() < 0.8)
        number = len(self.sent) + len(self.told)
        doings = (
            lambda: self.order(TellAgent(text=f"note {number}")),
            lambda: self.call(f"note {number}", "note", f"note {number}"),
            lambda: self.insert(research, f"p{number}"),
            lambda: self.edit(research),
            lambda: self.order(Consult()),
        )
        self.rng.choice(doings)()

    def answer(self, state: SessionState, *, is_eager: bool) -> None:
        for name, ask in list_open_asks(state.asks).items() if is_eager else ():
            lines = range(len(ask.lines))
            dropped = tuple(at for at in lines if self.rng.random() < 0.1)
            if not dropped and self.rng.random() < 0.3:
                self.call(ask.digest, "approve", name)
                continue
            is_refused = self.rng.random() < 0.1 or len(dropped) == len(ask.lines)
            self.reply(
                name, ask, () if is_refused else dropped, approved=not is_refused
            )

    def reply(
        self, name: str, ask: Ask, dropped: tuple[int, ...] = (), *, approved: bool
    ) -> None:
        digest = digest_question(name, ask.prompt, ask.list_kept(dropped))
        self.order(
            AnswerAsk(ask=name, digest=digest, approved=approved, dropped=dropped)
        )

    def call(self, what: str, verb: str, *words: str) -> None:
        """By the command; where no engine lives it is one for a moment."""
        session = self.place.session.path.name
        done = run_command(self.place.top, "sessions", verb, session, *words)
        self.told += [what] * (done.returncode == 0)

    def insert(self, research: Research, name: str) -> None:
        wait = tuple(one.id for one in research.items[:1] if self.rng.random() < 0.5)
        item = Item(id=name, overrides=("lr=2",), depends_on=wait)
        self.order(PutItem(item=item, place=self.rng.randint(0, 3)))

    def edit(self, research: Research) -> None:
        if not research.items:
            return
        one = self.rng.choice(research.items)
        changed = replace(one, jobs=(), overrides=(*one.overrides, "seconds=2"))
        edits = (PutItem(item=changed), MoveItem(item=one.id, place=0))
        self.order(self.rng.choice((*edits, RemoveItem(item=one.id))))


@dataclass
class Story:
    """What the journal tells, record by record."""

    events: dict[str, Counter[str]] = field(default_factory=dict)
    commands: dict[str, list[object]] = field(default_factory=dict)
    """Order -> events that it led to."""
    lost: list[str] = field(default_factory=list)
    """Items that left the list and nobody says why."""
    state: SessionState = field(default_factory=SessionState)

    def read(self, place: Place) -> Story:
        self.state = SessionState(plans=StoredPlans(place.session))
        before: Sequence[Item] = ()
        for record in place.read_records():
            apply(self.state, record)
            event: Any = record.event
            kind = type(event).__name__
            if kind in ONCE:
                named = event
                for part in ONCE[kind].split("."):
                    named = getattr(named, part)
                self.events.setdefault(kind, Counter())[named] += 1
            if record.command_id:
                self.commands.setdefault(record.command_id, []).append(event)
            if (research := find_research(self.state)) is not None:
                gone = {one.id for one in before} - {one.id for one in research.items}
                self.lost += gone - {*_list_excused(event)}
                before = research.items
        return self


def _list_excused(event: Any) -> Iterator[str]:
    """Items that an event may take out of the list."""
    match event:
        case events.RunStarted():
            yield event.run.id
        case events.ItemsEdited():
            yield from event.what.split(" removed")[:1]
        case events.DecisionApplied():
            for text in event.decided.applied:
                verb, _, names = text.partition(" ")
                if verb in ("drop", "remove"):
                    yield from names.replace(",", " ").split()


def list_problems(place: Place, person: Person) -> Iterator[str]:
    """What is not as it should be of a research that has ended."""
    story = Story().read(place)
    research = research_of(story.state)
    for kind, counts in story.events.items():
        yield from (f"{kind} {of}: {n} times" for of, n in counts.items() if n != 1)
    yield from (f"item {name} was lost" for name in story.lost)
    yield from (f"{one.id} never began" for one in research.items)
    yield from (f"{name} never ended" for name in research.live)
    yield from (f"{name} was never decided" for name in research.open)
    if research.stopped is None or research.stopped.code != "nothing_left":
        yield f"it stopped by {research.stopped}"
    yield from _check_decisions(research)
    yield from _check_orders(story, person, research)
    yield from _check_payments(place, research)
    yield from _check_starts(place, story.state)
    yield from _check_file(place, story.state)


def _check_decisions(research: Research) -> Iterator[str]:
    for one in research.consultations.values():
        texts = Counter(text for each in one.decided for text in each.applied)
        yield from (f"{one.id}: {text}: {n}x" for text, n in texts.items() if n > 1)
        items = one.answer.order or () if one.answer and one.fix is None else ()
        told = [
            text
            for each in one.decided
            for text in (*each.applied, *each.refused, *each.void)
        ]
        for name in items:
            is_told = any(name in text for text in told)
            if not (is_told or name in one.listed or research.is_known(name)):
                yield f"{one.id}: item {name} of the answer was lost"


def _check_orders(story: Story, person: Person, research: Research) -> Iterator[str]:
    """Each was carried out, or refused with a reason."""
    if waiting := [*person.place.session.inbox.glob("*.json")]:
        yield f"{len(waiting)} orders wait"
    notes = [one.text for one in research.notes]
    answered = {
        one.digest
        for found in story.commands.values()
        for one in found
        if isinstance(one, AskAnswered)
    }
    known = {*notes, *answered}
    yield from (f"{text} was lost" for text in person.told if text not in known)
    for name, command in person.sent.items():
        found = story.commands.get(name, [])
        if any(isinstance(one, CommandRefused) for one in found):
            continue
        if not found:
            yield f"{command} was lost"
        elif isinstance(command, TellAgent) and notes.count(command.text) != 1:
            yield f"{command.text}: {notes.count(command.text)} times"
        elif isinstance(command, AnswerAsk):
            given = [one for one in found if isinstance(one, AskAnswered)]
            if len(given) != 1:
                yield f"the answer to {command.ask} was taken {len(given)} times"


def _check_payments(place: Place, research: Research) -> Iterator[str]:
    called = place.read_calls()
    known = research.consultations.values()
    wanted = Counter(f"{one.role} {one.number}" for one in known)
    if called != wanted or sum(called.values()) != research.total_calls:
        yield f"called {called}, consulted {wanted}, counted {research.calls}"
    tokens = sum(one.input_tokens for one in research.usage.values())
    if tokens != 10 * sum(called.values()):
        yield f"{tokens} tokens were counted of {called.total()} calls"
    yield from (f"{one.id}: {one.outcome}" for one in known if one.outcome != "ok")


def _check_starts(place: Place, state: SessionState) -> Iterator[str]:
    begun = place.read_runs()
    yield from (f"{name} began {n} times" for name, n in begun.items() if n > 1)
    yield from (
        f"{name}: {len(job.attempts)} attempts"
        for name, job in state.jobs.items()
        if len(job.attempts) > 1
    )
    runs = research_of(state).runs.values()
    joined = [job for run in runs for job in run.jobs]
    yield from (f"{name}: in two runs" for name, n in Counter(joined).items() if n > 1)
    yield from (f"{name} never joined" for name in joined if name not in state.jobs)
    records = len([*place.session.path.glob("attempts/*/*/begin.*.json")])
    attempts = sum(len(job.attempts) for job in state.jobs.values())
    if records > attempts or [*place.session.path.glob("attempts/*/*/duplicate*")]:
        yield f"{records} begin records of {attempts} attempts"


def _check_file(place: Place, state: SessionState) -> Iterator[str]:
    shown, wanted = (
        place.state_file,
        json.loads(encode(build_state(make_view(state), {}))),
    )
    for one in (shown, wanted):
        del one["as_of"]
        for run in one["runs"]:  # curves are no journal's
            del run["live_metrics"], run["metrics_history"]
    yield from (
        f"the state file's {key} is another: {shown[key]} != {wanted.get(key)}"[:500]
        for key in shown
        if shown[key] != wanted.get(key)
    )


def kill_through(place: Place, person: Person, kills: int, longest: float = 6.0) -> int:
    """Let engines die at random moments, some as they start, then let the research go
    on to its end; how many died."""
    died, rng = 0, person.rng
    for _ in range(kills):
        before, run = place.count_engines(), place.start()
        starts = rng.random() < 0.3
        while run.poll() is None and not (
            place.is_begun and (starts or place.count_engines() > before)
        ):
            time.sleep(0.05)
        assert run.poll() is None, place.read_errors()
        deadline = time.monotonic() + rng.uniform(0.0, longest)
        if rng.random() < 0.5:
            person.act()
        time.sleep(max(0.0, deadline - time.monotonic()))
        run.kill()
        died += run.wait() == -signal.SIGKILL
        if rng.random() < 0.5:
            person.act()
    person.order(TellAgent(text=FINISH))
    finish(place, person)
    return died


def finish(place: Place, person: Person | None = None) -> None:
    """To its end; `person` answers all that is asked meanwhile."""
    run, deadline = place.start(), time.monotonic() + LIMIT_SECONDS
    while run.poll() is None and time.monotonic() < deadline:
        time.sleep(0.5)
        if person is not None:
            person.answer(place.load(), is_eager=True)
    run.kill()
    assert run.wait() in (0, -signal.SIGKILL), place.read_errors()


def call_through(place: Place, seconds: float, kills: int = 3) -> Counter[str]:
    """Kill engines while an agent is called, for so long; the calls that were made."""
    place.words = (*place.words, f"++agents.a.env.SECONDS='{seconds}'")
    place.make()
    run = place.start()
    wait_until(lambda: place.is_begun and place.read_calls(), "the call", 200)
    for _ in range(kills):
        run.kill()
        run.wait()
        run = place.start()
        time.sleep(min(2.0, seconds / kills))
    wait_until(partial(_is_answered, place), "the answer", seconds + 100)
    run.kill()
    run.wait()
    return place.read_calls()


def _is_answered(place: Place) -> bool:
    return place.find().consultations["c1"].outcome == "ok"


def main() -> int:
    parser = argparse.ArgumentParser(prog="research_kills", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--kills", type=int, default=0, help="of engines, in all")
    parser.add_argument("--call", type=float, default=0.0, help="seconds of a call")
    parser.add_argument("--isolation", default="prefer", help="of the agents")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    words, problems = (f"agents.isolation={args.isolation}",), list[str]()
    with tempfile.TemporaryDirectory() as name:
        if args.call:
            calls = call_through(Place(Path(name, "call"), words), args.call)
            times = calls["research 1"]
            print(f"a call of {args.call:.0f} s was made {times} times", flush=True)
            problems += [f"calls: {calls}"] * (times != 1)
        if args.kills:
            place = Place(Path(name, "kills"), words)
            place.make()
            person = Person(place, random.Random(args.seed))
            died = kill_through(place, person, args.kills)
            problems += list_problems(place, person)
            print(tell(place, person, died), flush=True)
    print("problems:" + ("\n  ".join(["", *problems]) or " none"))
    return int(bool(problems))


def tell(place: Place, person: Person, died: int) -> str:
    research = place.find()
    decided = [two for one in research.consultations.values() for two in one.decided]
    counts = {
        "kills": died,
        "runs": len(research.runs),
        "calls": research.total_calls,
        "lines applied": sum(len(one.applied) for one in decided),
        "by a person": sum(len(one.applied) for one in decided if one.by),
        "refused": sum(len(one.refused) for one in decided),
        "void": sum(len(one.void) for one in decided),
        "fixes": sum(bool(one.fix_relaunch) for one in research.runs.values()),
        "notes": len(research.notes),
        "orders": len(person.sent) + len(person.told),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
