"""Lines of an answer against the list as it is now, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.outputs import NotedMetrics
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.state import JobRecord
from autoexp_tui.research.decision import Proposal, split_lines
from autoexp_tui.research.events import (
    AnswerRead,
    DecisionApplied,
    FixDecided,
    ItemsEdited,
)
from autoexp_tui.research.options import Approvals, ResearchOptions
from autoexp_tui.research.state import (
    Answer,
    CodeChange,
    Consultation,
    Decided,
    Hypothesis,
    Item,
    Line,
    Research,
    Run,
    RunEnd,
)
from tests.research.lists import Session

ENDED = RunEnd(outcome="completed", at=1.0)
CODE = CodeChange(
    commit="f", base="b", sha256="s", files=1, diffstat="a.py  +4 -1\n1 file  +4 -1"
)


NOW = 100.0
NO_JOBS: Mapping[str, JobRecord] = {}


def mine(name: str, **more: object) -> Item:
    """An item of an earlier answer."""
    return Item(**{"id": name, "consultation": "c1", **more})  # type: ignore[arg-type]


def persons(name: str, **more: object) -> Item:
    return Item(id=name, by="bob", **more)  # type: ignore[arg-type]


def new(name: str, **more: object) -> Item:
    return mine(name, consultation="c5", **more)


def run(name: str, **more: object) -> Run:
    return Run(id=name, item=mine(name), jobs=(name,), **more)  # type: ignore[arg-type]


def make_job(name: str, **more: object) -> JobRecord:
    spec = JobSpec(name=name, index=0, command=("x",), output_dir="o", log_dir="l")
    return JobRecord(spec=spec, **more)  # type: ignore[arg-type]


def make(
    now: Sequence[Item] = (),
    wanted: Sequence[Item] | None = None,
    *,
    runs: Sequence[Run] = (),
    listed: Sequence[str] | None = None,
    answer: Mapping[str, object] | None = None,
    **consultation: object,
) -> tuple[Research, Consultation]:
    """The list `now` and the answer c5, which was told of it."""
    research = Research(ResearchOptions())
    research.items = tuple(now)
    research.runs.update({one.id: one for one in runs})
    made = Answer(**(answer or {}))  # type: ignore[arg-type]
    if wanted is not None:
        known = [*now, *(one.item for one in runs)]
        stated = tuple(one for one in wanted if one not in known)
        made = replace(made, items=stated, order=tuple(one.id for one in wanted))
    one = Consultation(
        id="c5",
        listed=tuple(one.id for one in now) if listed is None else tuple(listed),
        answer=made,
        **consultation,  # type: ignore[arg-type]
    )
    research.consultations["c5"] = one
    return research, one


def list_texts(lines: Sequence[Line]) -> list[str]:
    return [f"{one.text} VOID: {one.void}" if one.void else one.text for one in lines]


def list_lines(
    research: Research,
    one: Consultation,
    jobs: Mapping[str, JobRecord] = NO_JOBS,
    over_budget: str = "",
) -> tuple[Line, ...]:
    return Proposal(research, one, jobs, NOW).list_lines(over_budget)


def recheck(
    research: Research, one: Consultation, lines: Sequence[Line]
) -> tuple[Line, ...]:
    return Proposal(research, one, NO_JOBS).recheck(lines)


def follow(research: Research, one: Consultation, lines: Sequence[Line]) -> Research:
    """The research once these lines are done, as far as they can be."""
    live = [line for line in recheck(research, one, lines) if not line.void]
    order, taken = Proposal(research, one, NO_JOBS).order_items(live)
    done = DecisionApplied(
        consultation=one.id,
        order=None if order is None else tuple(order),
        taken=tuple(taken),
        decided=Decided(),
    )
    made = research.fork()
    items = done.list_items(research)
    made.items = made.items if items is None else items
    return made


def apply(research: Research, one: Consultation, lines: Sequence[Line]) -> list[str]:
    return [item.id for item in follow(research, one, lines).items]


def test_lines_say_what_is_tried_and_what_goes() -> None:
    job = make_job("r8").spec
    wanted = [
        new(
            "r7",
            overrides=("++lr=0.003", "x=1"),
            gpus=1,
            hypothesis="h2",
            kill_criteria="loss > 4 after step 1000",
            expects="loss < 2",
            depends_on=("r3",),
            note="try",
        ),
        mine("r6"),
        mine("r2", note="other"),
        new("r8", jobs=(job,), code_ref="c5", baseline_run="r3", config_ref="big"),
    ]
    now = [mine("r2"), persons("r4"), mine("r5"), mine("r9"), mine("r6")]
    noted = NotedMetrics(attempt=1, step=1500, total=None, values={"loss": 2.3})
    research, one = make(
        now, wanted, runs=[run("r3")], answer={"kills": ("r3",)}, code=CODE
    )
    jobs = {"r3": make_job("r3", noted=noted, noted_at=NOW - 12)}
    lines = list_lines(research, one, jobs, "2 GPU hours too many")
    assert list_texts(lines) == [
        "r7  ++lr=0.003 x=1  1 GPU  tests h2  after r3  kill: loss > 4 after step 1000"
        "  expects loss < 2  try  before r6",
        "change r2  other",
        "r8  config big  to beat r3  code of c5",
        "drop r5, r9",
        "remove r4, which bob inserted",
        "order: r7, r6, r2, r8",
        "end r3: step 1500, loss 2.3, 12 s ago",
        "a.py +4 -1; 1 file +4 -1",
        "2 GPU hours too many",
    ]
    assert apply(research, one, lines) == ["r7", "r6", "r2", "r8"]


def test_what_is_there_already_needs_no_line() -> None:
    now = [mine("r2"), persons("r4"), mine("r5")]
    for wanted in (now, None):
        research, one = make(now, wanted)
        assert list_lines(research, one) == ()
    edited = persons("r2", consultation="c1", note="hers")
    research, one = make([edited], [mine("r2", note="its own")])
    assert list_lines(research, one) == ()
    research, one = make([], [mine("r3")], runs=[run("r3")], listed=["r3"])
    assert list_lines(research, one) == ()


VOID: Mapping[str, tuple[Any, Any, dict[str, Any]]] = {
    "another item got this name": ([persons("r7")], [new("r7")], {}),
    "a run got this name": ([], [new("r7", note="x")], {"runs": [run("r7")]}),
    "another job got the name j1": (
        [persons("r4", jobs=(make_job("j1").spec,))],
        [new("r7", jobs=(make_job("j1").spec,))],
        {"listed": []},
    ),
    "it depends on r2, which is gone": ([], [new("r7", depends_on=("r2",))], {}),
    "the call changed no code": ([], [new("r7", code_ref="c5")], {}),
    "the code of c3 is not approved": ([], [new("r7", code_ref="c3")], {}),
    "it has started meanwhile": (
        [],
        [mine("r3", note="x")],
        {"runs": [run("r3")], "listed": ["r3"]},
    ),
    "it was removed from the list": ([], [mine("r3", note="x")], {"listed": ["r3"]}),
    "it has ended: completed": (
        [],
        None,
        {"runs": [run("r3", ended=ENDED)], "answer": {"kills": ("r3",)}},
    ),
    "it has not started": ([mine("r3")], None, {"answer": {"kills": ("r3",)}}),
    "there is no such run": ([], None, {"answer": {"kills": ("r99",)}}),
    "r9 depends on it": (
        [persons("r4"), persons("r9", depends_on=("r4",))],
        [persons("r9", depends_on=("r4",))],
        {},
    ),
}


@pytest.mark.parametrize("reason", VOID)
def test_a_line_that_cannot_be_done_says_why_and_does_nothing(reason: str) -> None:
    now, wanted, more = VOID[reason]
    if "listed" not in more:
        more = {**more, "listed": [one.id for one in now if one.id != "r7"]}
    research, one = make(now, wanted, **more)
    (line,) = list_lines(research, one)
    assert reason in line.void
    assert follow(research, one, [line]).items == research.items
    everything = ResearchOptions(approve=Approvals(kills="auto", code="auto"))
    assert split_lines([line], everything, frozenset("*")) == ((), ())


def test_a_job_of_the_session_holds_its_name() -> None:
    research, one = make([], [new("r7", jobs=(make_job("j1").spec,))])
    (line,) = list_lines(research, one, {"j1": make_job("j1")})
    assert "another job got the name j1" in line.void


def test_of_two_lines_about_a_run_the_second_is_void() -> None:
    research, one = make(runs=[run("r3")], answer={"kills": ("r3", "r3")})
    lines = list_lines(research, one)
    assert [bool(line.void) for line in lines] == [False, True]


def test_what_changed_between_proposal_and_approval_makes_lines_void() -> None:
    """A run ends, a name is taken, items start and are edited: the rest is done."""
    now = [mine("r2"), mine("r3"), mine("r5"), persons("r4")]
    wanted = [new("r7"), new("r8"), mine("r2", note="x")]
    research, one = make(now, wanted, runs=[run("r1")], answer={"kills": ("r1",)})
    lines = list_lines(research, one)
    assert not any(line.void for line in lines)
    edited = mine("r2", by="ann")
    research.items = (edited, persons("r7"), mine("r5"), persons("r4", note="y"))
    research.runs.update({"r1": run("r1", ended=ENDED), "r3": run("r3")})
    after = recheck(research, one, lines)
    assert list_texts(after) == [
        "r7  before r2 VOID: another item got this name meanwhile",
        "r8  before r2",
        "change r2  x VOID: ann edited it meanwhile",
        "drop r5",
        "remove r4, which bob inserted",
        "end r1: no metric yet VOID: it has ended: completed",
    ]
    assert apply(research, one, lines) == ["r2", "r7", "r8"]


def test_items_that_the_agent_was_not_told_of_stay() -> None:
    fixed = mine("r1_f1", consultation="c4", fixes="r1")
    research, one = make([fixed, persons("r4")], [new("r7")], listed=[])
    lines = list_lines(research, one)
    assert list_texts(lines) == ["r7"]
    assert apply(research, one, lines) == ["r1_f1", "r4", "r7"]


def test_an_item_that_a_staying_one_needs_is_not_dropped() -> None:
    now = [mine("r2"), mine("r3", depends_on=("r2",)), mine("r5")]
    now.append(persons("r4", depends_on=("r3",)))
    research, one = make(now, [now[-1]])
    lines = list_lines(research, one)
    assert list_texts(lines) == ["drop r5"]
    assert apply(research, one, lines) == ["r2", "r3", "r4"]
    research, one = make(now, [new("r7", depends_on=("r5",))])
    assert "drop r5" not in list_texts(list_lines(research, one))


def test_an_item_that_a_new_one_needs_is_not_removed() -> None:
    research, one = make([persons("r4")], [new("r7", depends_on=("r4",))])
    lines = list_lines(research, one)
    assert [line.void for line in lines] == ["", "r7 depends on it"]
    assert apply(research, one, lines) == ["r4", "r7"]


def test_persons_items_keep_their_place_when_the_agents_move() -> None:
    now = [mine("a"), persons("p"), mine("b"), persons("q")]
    research, one = make(now, [new("n"), mine("b"), mine("a"), *now[1::2]])
    lines = list_lines(research, one)
    assert list_texts(lines) == ["n  before b", "order: n, b, a"]
    assert apply(research, one, lines) == ["n", "p", "b", "q", "a"]


def split(
    lines: Sequence[Line], *granted: str, **approve: str
) -> tuple[list[str], list[str]]:
    options = ResearchOptions(approve=Approvals(**approve))  # type: ignore[arg-type]
    done, asked = split_lines(lines, options, frozenset(granted))
    return [one.id for one in done], [one.id for one in asked]


def test_lines_are_applied_or_asked_by_their_kind() -> None:
    now, kills = [mine("r2"), persons("r4")], {"kills": ("r1",)}
    research, one = make(now, [new("r7")], runs=[run("r1")], answer=kills, code=CODE)
    lines = list_lines(research, one)
    assert split(lines) == (["r7", "r2"], ["r4", "r1", "c5"])
    assert split(lines, "kills") == (["r7", "r2", "r1"], ["r4", "c5"])
    assert split(lines, "*", experiments="ask")[1] == []
    assert split(lines, experiments="ask", kills="auto", code="auto") == (
        ["r1", "c5"],
        ["r7", "r2", "r4"],
    )


def test_a_line_waits_for_what_it_needs() -> None:
    """r7 runs the changed code, and r8 needs r7; over the budget all of them wait."""
    wanted = [new("r7", code_ref="c5"), new("r8", depends_on=("r7",)), new("r9")]
    research, one = make([], wanted, code=CODE)
    lines = list_lines(research, one)
    assert split(lines) == (["r9"], ["r7", "r8", "c5"])
    over = list_lines(research, one, {}, "too much")
    assert split(over, "code", budget="ask") == (["c5"], ["r7", "r8", "r9", "budget"])
    assert apply(research, one, [line for line in lines if line.op != "code"]) == ["r9"]
    assert apply(research, one, [line for line in over if line.op != "budget"]) == []
    research.code_approved = {"c5": "bob"}
    assert apply(research, one, lines) == ["r7", "r8", "r9"]


def test_what_the_answer_thinks_is_taken_over_once() -> None:
    stated = (
        Hypothesis(id="h1", description="new", status="confirmed"),
        Hypothesis(id="h2", status="rejected", evidence=("its words",)),
    )
    research, one = make(answer={"hypotheses": stated})
    known = Hypothesis(id="h1", runs=("r1",), consecutive_failures=3, evidence=("e",))
    research.hypotheses = {"h1": known, "h0": Hypothesis(id="h0")}
    made = Proposal(research, one, NO_JOBS).merge_hypotheses()
    assert made == (
        replace(known, description="new"),  # three failures: no word confirms it
        Hypothesis(id="h0"),
        Hypothesis(id="h2", status="rejected"),
    )
    research.hypotheses = {one.id: one for one in made}
    assert Proposal(research, one, NO_JOBS).merge_hypotheses() is None


def test_a_journal_in_which_each_event_has_the_whole_list_is_read() -> None:
    old, started = mine("r1", jobs=(make_job("r1").spec,)), mine("r3")
    session = Session(make([old, started])[0])
    other = new("r2", jobs=(make_job("r2").spec,))
    read = AnswerRead(
        consultation="c5", outcome=Outcome.OK, answer=Answer(items=(other, old))
    )
    session.happen(read)
    answer = session.research.consultations["c5"].answer
    assert answer
    assert (answer.order, answer.items) == (("r2", "r1"), (other,))
    decided = DecisionApplied(
        consultation="c5", items=(other, old), decided=Decided(applied=("r2",))
    )
    session.happen(decided)
    assert session.research.items == (other, old)
    session.happen(ItemsEdited(items=(old,), what="r2 removed"))
    assert [one.id for one in session.research.items] == ["r1"]
    again = FixDecided(run="r3", mechanical="oom", item=replace(other, id="r3_fix1"))
    session.research.runs["r3"] = run("r3")
    session.happen(again)
    assert [one.jobs for one in session.research.items] == [other.jobs, old.jobs]


NAMES = st.sampled_from("abcdefgh")


@st.composite
def decisions(draw: st.DrawFn) -> tuple[Research, Consultation]:
    """Any list and any answer; the agent was told of a part of the list."""

    def draw_items(names: Sequence[str], owner: str) -> list[Item]:
        deps = st.lists(NAMES, max_size=1).map(tuple)
        notes = st.sampled_from(["", "x"])
        return [mine(one, consultation=owner, note=draw(notes), depends_on=draw(deps))
                for one in names]  # fmt: skip

    now = draw_items(draw(st.lists(NAMES, unique=True, max_size=6)), "c1")
    by = draw(st.sets(NAMES))
    now = [replace(one, by="bob") if one.id in by else one for one in now]
    wanted = draw_items(draw(st.lists(NAMES, unique=True, max_size=6)), "c5")
    same = draw(st.sets(NAMES))
    known = {one.id: one for one in now if one.id in same}
    free = [one for one in "abcdefgh" if one not in {item.id for item in now}]
    started = [run(one) for one in free if draw(st.booleans())]
    return make(
        now,
        [known.get(one.id, one) for one in wanted],
        runs=started,
        listed=draw(st.lists(NAMES, unique=True)),
    )


@given(decisions(), st.data())
def test_only_what_lines_show_is_done_and_once(
    decision: tuple[Research, Consultation], data: st.DataObject
) -> None:
    research, one = decision
    shown = list_lines(research, one)
    lines = [line for line in shown if data.draw(st.booleans())]
    after = follow(research, one, lines)
    assert follow(after, one, lines).items == after.items

    live = [line for line in recheck(research, one, lines) if not line.void]
    named = {op: {name for line in live if line.op == op for name in line.id.split(",")}
             for op in ("add", "change", "drop", "remove", "order")}  # fmt: skip
    was = {item.id: item for item in research.items}
    now = {item.id: item for item in after.items}
    assert now.keys() - was.keys() == named["add"]
    assert was.keys() - now.keys() <= named["drop"] | named["remove"]
    changed = {name for name in was.keys() & now.keys() if was[name] != now[name]}
    assert changed == named["change"]
    assert one.answer
    wanted = {*(one.answer.order or ())}
    fixed = {
        item.id
        for item in research.items
        if item.is_persons or item.id not in wanted.intersection(one.listed)
    }
    order = list(now)
    if not named["order"]:
        kept = [name for name in was if name in now and name not in fixed]
        assert [name for name in order if name in kept] == kept
    for at, name in enumerate(was):
        if name in fixed & now.keys():
            place = order.index(name)  # another one where the list is too short
            assert place == at or (place < at and fixed.issuperset(order[place:]))
    needed = {name for item in after.items for name in item.depends_on}
    assert not needed & (was.keys() - now.keys())
