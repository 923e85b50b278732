from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.states import why
from autoexp_tui.research.events import (
    AnswerRead,
    ConsultationOpened,
    DecisionApplied,
    FixDecided,
    RunJudged,
    RunStarted,
)
from autoexp_tui.research.items import Chosen
from autoexp_tui.research.state import (
    Consultation,
    Decided,
    Item,
    Line,
    Run,
    RunEnd,
    Trigger,
)
from autoexp_tui.research.triggers import find_call_time, find_wake, list_fired
from tests.research.lists import Session, item, research

NOTHING = Chosen()


class Consulted:
    """A session whose agent answers each call with an empty list after `seconds`."""

    def __init__(self, ends: Sequence[float], seconds: float = 30.0) -> None:
        self.session = Session(research(item("a"), item("b")))
        self.ends = sorted(ends)
        self.seconds = seconds
        self.calls: list[tuple[float, list[str]]] = []
        """When each began, and what led to it."""
        for number in range(len(ends)):
            one = Run(id=f"r{number}", item=Item(id=f"r{number}"), jobs=())
            self.session.happen(RunStarted(run=one))

    def run(self, *, every: float | None = None, until: float = 1800.0) -> None:
        """Look at each event and when it is time, or `every` so many seconds."""
        lived = 0.0
        while lived <= until:
            wake = self._look(lived)
            lived = lived + every if every else min((*wake, until + 1))

    def _look(self, lived: float) -> list[float]:
        """What happens now; when something is to happen next."""
        session = self.session
        while self.ends and self.ends[0] <= lived:
            self.ends.pop(0)
            end = RunEnd(outcome="completed", at=lived)
            session.happen(RunJudged(run=session.research.live[0], ended=end), t=lived)
        call = session.research.find_call("research")
        if call is not None and call.opened_lived + self.seconds <= lived:
            read = AnswerRead(consultation=call.id, outcome=Outcome.OK)
            empty = DecisionApplied(consultation=call.id, items=(), decided=Decided())
            session.happen(read, empty, t=lived)
        for fired in list_fired(session.research, NOTHING, lived):
            session.happen(fired, t=lived)
        if find_call_time(session.research, lived) == lived:
            self._call(lived)
        call = session.research.find_call("research")
        answered = None if call is None else call.opened_lived + self.seconds
        ends = [*self.ends[:1], answered, find_wake(session.research, lived)]
        return [at for at in ends if at is not None]

    def _call(self, lived: float) -> None:
        triggers = self.session.research.triggers
        self.calls.append((lived, [one.kind for one in triggers]))
        name = f"c{len(self.calls)}"
        self.session.happen(
            ConsultationOpened(consultation=name, role="research"), t=lived
        )


RUN, LOW, BEAT = "run_finished", "list_depleted", "heartbeat"


@pytest.mark.parametrize(("ends", "calls"), [
    # Two items are listed at first; the answers leave none.
    ([], [(900.0, [BEAT]), (1830.0, [BEAT])]),
    ([100.0], [(100.0, [RUN]), (1030.0, [BEAT])]),
    ([100.0, 110.0, 400.0],
     [(100.0, [RUN]), (160.0, [RUN]), (400.0, [RUN, LOW]), (1330.0, [BEAT])]),
    ([100.0, *[110.0] * 100],
     [(100.0, [RUN]), (160.0, [RUN] * 100), (1090.0, [BEAT])]),
])  # fmt: skip
def test_an_agent_that_adds_nothing_is_called_once_for_what_is_new(
    ends: list[float], calls: list[tuple[float, list[str]]]
) -> None:
    consulted = Consulted(ends)
    consulted.run(until=1830.0)
    assert consulted.calls == calls


@settings(max_examples=25)
@given(st.lists(st.integers(0, 1800), max_size=12), st.integers(1, 200))
def test_calls_are_few_apart_and_never_missed_by_who_looks_when_it_is_time(
    ends: list[int], seconds: int
) -> None:
    woken, looking = (Consulted([*map(float, ends)], float(seconds)) for _ in "ab")
    woken.run()
    looking.run(every=1.0)
    assert woken.calls == looking.calls
    times = [at for at, _ in woken.calls]
    pairs = pairwise(times)
    assert all(later - at >= max(60.0, seconds) for at, later in pairs)
    told = [kind for _, kinds in woken.calls for kind in kinds]
    assert told.count(RUN) <= len(ends)
    assert all(RUN in kinds or kinds == [BEAT] for _, kinds in woken.calls)


RUN_END = (Trigger("run_finished", "r1"),)
ANSWERED: dict[str, Any] = {"ended_lived": 5.0, "outcome": Outcome.OK}
FAILED = Consultation(id="c1", ended_lived=5.0, outcome=Outcome.TIMEOUT)
ASKED = Consultation(id="c1", asked=(Line("kills", "r1", "end r1"),), **ANSWERED)
STUCK = Chosen(stuck=("a", "b"), stuck_kind="stranded")


@pytest.mark.parametrize(("fields", "called"), [
    ({}, None),
    ({"triggers": RUN_END}, 100.0),
    ({"triggers": RUN_END, "last_opened_lived": 70.0}, 130.0),
    ({"triggers": RUN_END, "last_opened_lived": 7.0}, 100.0),
    ({"triggers": RUN_END, "open_calls": (Consultation(id="c1"),)}, None),
    ({"triggers": RUN_END, "open_calls": (Consultation(id="c1", **ANSWERED),)}, None),
    ({"triggers": RUN_END, "open_calls": (ASKED,)}, 100.0),
    ({"triggers": RUN_END, "open_calls": (FAILED,)}, 100.0),
    ({"triggers": RUN_END, "open_calls": (Consultation(id="c1", role="fixer"),)},
     100.0),
    ({"triggers": RUN_END, "stopped": why("research_stuck")}, None),
])  # fmt: skip
def test_a_call_is_made_when_its_time_has_come(
    fields: dict[str, Any], called: float | None
) -> None:
    assert find_call_time(research(**fields), 100.0) == called


@pytest.mark.parametrize(("fields", "wake"), [
    ({"last_call_lived": 40.0}, 940.0),
    ({"last_call_lived": -900.0}, 100.0),
    ({"triggers": RUN_END, "last_opened_lived": 70.0}, 130.0),
    # Who looks at it now may have to wait for another reason: it is no time to look.
    ({"triggers": RUN_END}, None),
    ({"open_calls": (Consultation(id="c1"),)}, None),
    ({"stopped": why("research_stuck")}, None),
])  # fmt: skip
def test_the_next_look_is_for_a_call_or_the_heartbeat(
    fields: dict[str, Any], wake: float | None
) -> None:
    assert find_wake(research(**fields), 100.0) == wake


@pytest.mark.parametrize(("fields", "chosen", "fired"), [
    ({}, NOTHING, ["list_depleted"]),
    ({"items": 1}, NOTHING, ["list_depleted"]),
    ({"items": 2}, NOTHING, []),
    ({"was_low": True}, NOTHING, []),
    ({"open_calls": (Consultation(id="c1"),)}, STUCK, []),
    ({"open_calls": (ASKED,)}, NOTHING, ["list_depleted"]),
    ({"items": 2}, STUCK, ["stranded"]),
    ({"items": 2, "told_stuck": ("a",)}, STUCK, ["stranded"]),
    ({"items": 2, "told_stuck": ("a", "b", "c")}, STUCK, []),
    ({"items": 2, "last_call_lived": -800.0}, NOTHING, ["heartbeat"]),
    ({"items": 2, "last_call_lived": -800.0}, STUCK, ["stranded"]),
    ({"items": 2, "last_call_lived": -800.0, "triggers": RUN_END}, NOTHING, []),
    ({"budget_reached": why("research_stuck")}, STUCK, []),
])  # fmt: skip
def test_what_leads_to_a_call_fires_when_it_comes_true(
    fields: dict[str, Any], chosen: Chosen, fired: list[str]
) -> None:
    names = ["a", "b"][: fields.pop("items", 0)]
    listed = list_fired(research(*map(item, names), **fields), chosen, 100.0)
    assert [one.kind for one in listed] == fired


def test_a_failure_that_the_fixer_has_is_nothing_new_until_it_gives_up() -> None:
    session = Session(research(was_low=True))
    session.happen(RunStarted(run=Run(id="r1", item=item("r1"), jobs=())))
    failed = RunEnd(outcome="failed", at=1.0, mechanical="oom")
    session.happen(RunJudged(run="r1", ended=failed, to_fixer=True))
    assert not [*list_fired(session.research, NOTHING, 10.0)]
    session.happen(FixDecided(run="r1", mechanical="oom", problem="no idea"))
    (fired,) = list_fired(session.research, NOTHING, 10.0)
    assert fired.kind == "list_depleted"
