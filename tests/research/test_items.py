from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.states import why
from autoexp_tui.model.wording import sentence
from autoexp_tui.research.events import RunJudged, RunStarted
from autoexp_tui.research.items import Chosen, Room, choose_items, find_ring
from autoexp_tui.research.options import ResearchOptions
from autoexp_tui.research.state import Consultation, Item, Research, Run, RunEnd
from tests.research.lists import Session, item, research, run

ALL = Room(slots=4, gpus=8)
LIVE = run("live", ended=False)


def choose(
    *items: Item, room: Room = ALL, capacity: Room = ALL, **fields: Any
) -> Chosen:
    return choose_items(research(*items, **fields), room, capacity)


def list_names(chosen: Chosen) -> str:
    return " ".join(one.id for one in chosen.start)


@pytest.mark.parametrize(("items", "room", "started"), [
    ([item("a", 8), item("b", 2), item("c", 2)], Room(4, 3), "b"),
    ([item("a", 1), item("b", 1)], Room(1, 8), "a"),
    ([item("a", 1, jobs=3), item("b", 1, jobs=2)], Room(2, 8), "b"),
    ([item("a", jobs=5)], Room(3, 8), ""),
    ([item("a", jobs=5)], ALL, "a"),  # its jobs take turns
    ([item("a", 5), item("b", 0)], Room(), "a b"),
    ([item("a", None, jobs=0)], Room(1, 0), "a"),
    ([item("a", None, jobs=0)], Room(0, 8), ""),
    ([item("a", depends_on=("r",)), item("b", depends_on=("a",))], ALL, "a"),
    ([item("a", depends_on=("live",)), item("b", code_ref="c1")], ALL, "b"),
    ([item("a"), item("b")], Room(0, 8), ""),
])  # fmt: skip
def test_the_first_that_fit_and_may_begin_begin(
    items: list[Item], room: Room, started: str
) -> None:
    known: dict[str, Any] = {"runs": (run("r"), LIVE), "code_approved": {"c1": ""}}
    chosen = choose(*items, room=room, **known)
    assert list_names(chosen) == started
    assert {one.id for one in items} == {*started.split(), *chosen.waits}


ASKED = Consultation(id="c1")


@pytest.mark.parametrize(("items", "fields", "told"), [
    ([item("a", 6), item("b", 4)], {}, "ready; waits for 4 GPUs (free: 2)"),
    ([item("a", jobs=3), item("b", jobs=2)], {}, "ready; waits for 2 slots (free: 1)"),
    ([item("a", 8), item("b", 4)], {"room": Room(4, 6), "overtaken": {"a": 3}},
     "ready; room is kept for a, which others have overtaken often enough"),
    ([item("b", depends_on=("live", "r"))], {}, "waits for live"),
    ([item("c", depends_on=("live",)), item("b", depends_on=("live", "c"))], {},
     "waits for live; and for 1 more"),
    ([item("b", code_ref="c1")], {"open_calls": (ASKED,)},
     "waits until the change of code of c1 is approved. A shows it."),
    ([item("b", code_ref="c1")], {},
     "can never start: the change of code of c1 was not approved"),
    ([item("b", 9)], {}, "can never start: it wants 9 GPUs (in all: 8)"),
    ([item("b", depends_on=("x",))], {},
     "can never start: it waits for x, and neither an item nor a run has this name"),
    ([item("b", depends_on=("c",)), item("c", depends_on=("r", "b"))], {},
     "can never start: it waits for itself (b -> c -> b)"),
    ([item("b", depends_on=("c",)), item("c", 9)], {},
     "can never start: it waits for c, which cannot either"),
    ([item("b")], {"budget_reached": why("research_stuck")},
     "no item of the list can begin, and the agent adds nothing"),
])  # fmt: skip
def test_an_item_that_waits_says_why(
    items: list[Item], fields: dict[str, Any], told: str
) -> None:
    chosen = choose(*items, runs=(run("r"), LIVE), **fields)
    assert sentence(chosen.waits["b"], 0.0) == told


NEVER = item("n", 9)


@pytest.mark.parametrize(("items", "fields", "stuck"), [
    ([], {}, ("", "")),
    ([NEVER, item("a")], {}, ("", "")),  # something begins
    ([NEVER, item("a", depends_on=("n",))], {}, ("deadlock", "n a")),
    ([NEVER], {"room": Room(0, 0)}, ("deadlock", "n")),
    ([NEVER], {"runs": (LIVE,)}, ("stranded", "n")),
    ([NEVER], {"runs": (LIVE,), "room": Room(4, 0)}, ("", "")),
    ([NEVER], {"runs": (LIVE,), "room": Room(0, 4)}, ("", "")),
    ([item("a", 8)], {"runs": (LIVE,), "room": Room(3, 7)}, ("stranded", "a")),
    ([item("a", 8), item("b", depends_on=("live",))],
     {"runs": (LIVE,), "room": Room(3, 7)}, ("stranded", "a")),
    # Room is kept; a run or a person is waited for; other jobs hold the rest.
    ([item("a", 8)], {"room": Room(3, 7), "overtaken": {"a": 3}}, ("", "")),
    ([item("a", depends_on=("live",))], {"runs": (LIVE,)}, ("", "")),
    ([item("a", code_ref="c1")], {"open_calls": (ASKED,)}, ("", "")),
    ([item("a", 8)], {"room": Room(4, 0)}, ("", "")),
])  # fmt: skip
def test_a_list_that_does_not_move_is_stranded_or_in_a_deadlock(
    items: list[Item], fields: dict[str, Any], stuck: tuple[str, str]
) -> None:
    chosen = choose(*items, **fields)
    assert (chosen.stuck_kind, " ".join(chosen.stuck)) == stuck


def test_a_starved_item_goes_first_and_those_that_take_nothing_of_it_go_on() -> None:
    list_of = [item("front", 1), item("a", 8), item("none", 0), item("b", 1)]
    starved = {"a": 3}
    assert list_names(choose(*list_of, overtaken=starved)) == "a none"
    busy = choose(*list_of, room=Room(4, 7), overtaken=starved)
    assert list_names(busy) == "none"
    # With one slot it would take the one that the starved item needs.
    assert list_names(choose(*list_of, room=Room(1, 7), overtaken=starved)) == ""
    assert list_names(choose(NEVER, item("b", 1), overtaken={"n": 9})) == "b"


@given(st.lists(st.sampled_from([1, 2, 8]), max_size=14), st.integers(1, 4), st.data())
def test_no_gpu_is_free_while_an_item_fits_but_where_room_is_kept(
    sizes: list[int], starve_after: int, data: st.DataObject
) -> None:
    names = [f"r{number}" for number in range(len(sizes))]
    items = [item(name, size) for name, size in zip(names, sizes, strict=True)]
    options = ResearchOptions(starve_after=starve_after)
    session = Session(research(*items, options=options))
    capacity, started = Room(math.inf, 8), list[str]()
    rng = random.Random(data.draw(st.integers(0, 10**6)))
    while session.research.items:
        now = session.research
        free = Room(math.inf, 8 - sum(one.gpus for one in now.list_live()))
        chosen = choose_items(now, free, capacity)
        for one in chosen.start:
            free = free.take(Room(1, one.wanted_gpus))
            started.append(one.id)
            session.happen(
                RunStarted(run=Run(id=one.id, item=one, jobs=(), gpus=one.wanted_gpus))
            )
        assert free.gpus >= 0
        _check_waits(session.research, chosen, free.gpus)
        for name in rng.sample(now.live, min(len(now.live), rng.randint(1, 3))):
            end = RunEnd(outcome="completed", at=0.0)
            session.happen(RunJudged(run=name, ended=end))
    places = {name: place for place, name in enumerate(started)}
    for name in names:
        later = names[names.index(name) + 1 :]
        overtook = sum(places[other] < places[name] for other in later)
        assert overtook <= starve_after


def _check_waits(now: Research, chosen: Chosen, free: float) -> None:
    """Nothing that fits waits, but where room is kept; that is for a starved one."""
    codes = {name: reason.code for name, reason in chosen.waits.items()}
    for one in now.items:
        assert codes[one.id] == ("room_kept" if free >= one.wanted_gpus else "no_room")
    for reason in chosen.waits.values():
        if reason.code == "room_kept":
            assert now.overtaken[str(reason.arg("item"))] >= now.options.starve_after


def test_a_ring_is_found_by_its_shortest_way() -> None:
    after = {"a": ["x", "b", "c"], "b": ["c"], "c": ["a"], "d": ["a"], "e": ["e"]}
    rings = {name: find_ring(name, after) for name in after}
    assert rings == {
        "a": ("a", "c"),
        "b": ("b", "c", "a"),
        "c": ("c", "a"),
        "d": (),
        "e": ("e",),
    }
