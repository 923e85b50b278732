"""What the research loop does, over the real engine: the disk, planning and the jobs
are scripted."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.events.session import CommandRefused
from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.commands import (
    AnswerAsk,
    Grow,
    Kill,
    Pause,
    Resume,
    StopEngine,
    Submit,
)
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.policy import find_end, has_work_left
from autoexp_tui.model.rules import Anomalies, Monitoring
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import ACTIVE, Cause, JobState
from autoexp_tui.model.wording import sentence
from autoexp_tui.research.commands import (
    AcknowledgeCondition,
    Consult,
    EndCall,
    EndResearch,
    MoveItem,
    PutItem,
    RemoveItem,
    TellAgent,
)
from autoexp_tui.research.events import (
    AnswerRead,
    DecisionApplied,
    ItemsEdited,
    KillTriggered,
    MilestoneCrossed,
    ResearchBegun,
    RunStarted,
)
from autoexp_tui.research.ports import CallResult, View
from autoexp_tui.research.state import Answer, Consultation, Item, Research, research_of
from autoexp_tui.storage.journal import encode_record
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.research.fake_laboratory import Answers, FakeLaboratory, answer, leave_list
from tests.support.fake_script import RunScript, Write

OPTIONS: dict[str, Any] = {
    "goal": "lower the loss",
    "agent": ["a"],
    "min_interval_seconds": 1.0,
    "heartbeat_seconds": 30.0,
}
KILLS_AT_ONCE = {"approve": {"kills": "auto"}}


def begin(
    laboratory: FakeLaboratory,
    scripts: Any = None,
    given: frozenset[str] = frozenset(),
    slots: int = 2,
    of: Plan | None = None,
    **options: Any,
) -> Bench:
    """`of`: the session's own plan."""
    base = of or replace(plan(), jobs=())
    made = replace(base, research={**OPTIONS, **options})
    return Bench(
        made,
        scripts,
        submit=False,
        first=(ResearchBegun(),),
        adapters={"research": laboratory},
        approve=given,
        slots=slots,
    )


def find(bench: Bench) -> Research:
    return research_of(bench.engine.state)


def answer_in_turn(*results: CallResult, then: CallResult | None = None) -> Answers:
    """The research agent's answers, one after the other; then it leaves the list."""
    left = [*results]

    def tell(one: Consultation, view: View) -> CallResult:
        return left.pop(0) if left else then or leave_list()

    return tell


def items(*names: str, **more: Any) -> list[Item]:
    return [Item(id=name, **more) for name in names]


def runs(seconds: float = 1.0, loss: float = 1.0, **more: Any) -> list[list[RunScript]]:
    line = f"step: 10 loss: {loss}\n".encode()
    writes = (Write(at=0.5 * seconds, data=line),)
    return [[RunScript(seconds=seconds, writes=writes, **more)]]


def list_kinds(research: Research) -> list[str]:
    """Why agents were called, in order."""
    known = research.consultations.values()
    return [trigger.kind for one in known for trigger in one.triggers]


def find_code(research: Research) -> str:
    return research.stopped.code if research.stopped else ""


def test_a_list_is_tried_to_its_end_and_the_best_is_known() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2", "r3"))))
    scripts = {f"r{at}_run": runs(3, loss=at / 2) for at in (1, 2, 3)}
    bench = begin(laboratory, scripts)
    bench.run(120)
    research = find(bench)
    assert not bench.world.faults, bench.world.faults
    assert [*research.runs] == ["r1", "r2", "r3"]
    answers = [one.answer for one in research.consultations.values() if one.answer]
    assert not any(item.jobs for one in answers for item in one.items or ())
    assert (research.best_run, research.best) == ("r1", 0.5)
    assert list_kinds(research)[:2] == ["list_depleted", "list_depleted"]
    assert {"run_finished", "heartbeat"} <= {*list_kinds(research)}
    assert find_code(research) == "nothing_left"
    assert not has_work_left(bench.engine.state)
    end = find_end(bench.engine.state.parts)
    assert end is not None
    assert end.code == 0
    assert laboratory.views[-1].research.stopped


def test_research_of_which_every_run_fails_ends_with_1_and_says_why() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2"))))
    bench = begin(laboratory, {f"{n}_run": runs(3, exit_code=1) for n in ("r1", "r2")})
    bench.until(lambda: bool(find(bench).stopped), 300.0)
    bench.run(20)
    end = find_end(bench.engine.state.parts)
    assert end is not None
    assert (end.code, "2 failed, the last one so: exit code" in end.reason) == (1, True)


def test_freed_slots_are_refilled_while_a_call_hangs() -> None:
    hang = [[RunScript(seconds=600.0)]]
    scripts: dict[str, Any] = {"c2_research": hang}
    names = [f"r{at}" for at in range(12)]
    scripts |= {f"{name}_run": runs(2) for name in names}
    bench = begin(FakeLaboratory(answer_in_turn(answer(*items(*names)))), scripts)
    bench.run(60)
    research = find(bench)
    assert bench.engine.state.jobs["c2_research"].state in ACTIVE
    assert len([one for one in research.runs.values() if one.ended]) == 12


@pytest.mark.parametrize("others", [0, 40])
def test_an_agent_that_adds_nothing_is_called_once_for_each_new_fact(
    others: int,
) -> None:
    names = [f"r{at}" for at in range(others)]
    first = answer(*items(*names))
    laboratory = FakeLaboratory(
        answer_in_turn(first, then=None if others else answer())
    )
    bench = begin(laboratory, heartbeat_seconds=600.0, slots=1)
    bench.run(1800)
    research = find(bench)
    facts = 1 + len(research.runs)
    heartbeats = list_kinds(research).count("heartbeat")
    assert heartbeats <= 3
    assert research.total_calls <= facts + heartbeats


def test_a_storm_of_ends_during_a_call_leads_to_one_further_call() -> None:
    names = [f"r{at}" for at in range(100)]
    laboratory = FakeLaboratory(answer_in_turn(answer(*items(*names))))
    scripts: dict[str, Any] = {"c2_research": [[RunScript(seconds=200.0)]]}
    bench = begin(laboratory, scripts, slots=4, max_items=200)
    bench.run(190)
    research = find(bench)
    assert len(research.runs) == 100
    assert research.total_calls == 1
    bench.run(35)
    assert find(bench).total_calls == 3


def test_what_fails_mechanically_goes_to_the_fixer_and_is_tried_again_first() -> None:
    laboratory = FakeLaboratory()

    def tell(one: Consultation, view: View) -> CallResult:
        if one.role == "fixer":
            return laboratory.fix(view, one.run, "batch_size=8")
        return answer(*items("r1", "r2", "r3")) if one.id == "c1" else leave_list()

    laboratory.answers = tell
    log = (Write(at=0.5, data=b"torch.cuda.OutOfMemoryError: CUDA out of memory\n"),)
    scripts = {"r1_run": [[RunScript(exit_code=1, writes=log)]], "r2_run": runs(9)}
    fixer = {"agent": ["f"], "may_override": ["batch_size"]}
    bench = begin(laboratory, scripts, slots=1, fixer=fixer)
    bench.run(40)
    research = find(bench)
    assert [*research.runs] == ["r1", "r2", "r1_fix1", "r3"]
    assert not research.open_rounds
    failed = research.runs["r1"]
    assert (failed.fix_applied, failed.fix_relaunch) == ("less", "r1_fix1")
    known = research.consultations.values()
    told = [one.about for call in known for one in call.triggers]
    assert "r1" not in told
    assert "r1_fix1" in told


def test_what_the_fixer_may_not_change_waits_for_a_person_and_holds_up_nobody() -> None:
    laboratory = FakeLaboratory()

    def tell(one: Consultation, view: View) -> CallResult:
        if one.role == "fixer":
            return laboratory.fix(view, one.run, "model.width=8")
        return answer(*items("r1", "r2")) if one.id == "c1" else leave_list()

    laboratory.answers = tell
    log = (Write(at=0.5, data=b"torch.cuda.OutOfMemoryError: CUDA out of memory\n"),)
    scripts = {"r1_run": [[RunScript(exit_code=1, writes=log)]]}
    bench = begin(laboratory, scripts, slots=1, fixer={"agent": ["f"]})
    bench.run(40)
    assert [*find(bench).runs] == ["r1", "r2"]
    reply(bench, approved=True)
    bench.run(10)
    assert find(bench).runs["r1"].fix_relaunch == "r1_fix1"


def reply(bench: Bench, *, approved: bool, dropped: tuple[int, ...] = ()) -> None:
    """Answer what is asked first."""
    asks = bench.engine.state.asks
    name, ask = next((n, a) for n, a in asks.items() if a.approved is None)
    digest = digest_question(name, ask.prompt, ask.list_kept(dropped))
    bench.order(AnswerAsk(ask=name, digest=digest, approved=approved, dropped=dropped))


def test_what_is_planned_for_an_item_stands_in_the_journal_once() -> None:
    listed = answer(*items("r1", "r2", "r3", "r4"))
    laboratory = FakeLaboratory(answer_in_turn(listed, answer(*items("r2", "r4"))))
    bench = begin(laboratory, {"r1_run": runs(30)}, slots=1)
    bench.run(3)
    for order in (MoveItem(item="r3", place=0), PutItem(item=Item(id="r3", note="x"))):
        bench.order(order, by="kurt")
        bench.run(3)
    bench.order(RemoveItem(item="r3"), by="kurt")
    bench.run(120)
    assert [*find(bench).runs] == ["r1", "r2", "r4"]
    data = [
        encode_record(one)
        for one in bench.world.session.records
        if isinstance(
            one.event, AnswerRead | DecisionApplied | ItemsEdited | RunStarted
        )
    ]
    for name in ("r1", "r2", "r3", "r4"):
        spec = f'"command":["train","{name}"]'.encode()
        assert sum(line.count(spec) for line in data) == 1


def test_a_loss_that_was_flat_is_told_though_one_look_shows_it_moving_again() -> None:
    flat = "".join(f"step: {at} loss: 2.0\n" for at in range(0, 100, 2))
    data = f"{flat}step: 100 loss: 1.0\n".encode()
    script = RunScript(seconds=50.0, writes=(Write(at=5.0, data=data),))
    watched = Monitoring(anomalies=Anomalies(flat_steps=50))
    bench = begin(
        FakeLaboratory(answer_in_turn(answer(*items("r1")))),
        {"r1_run": [[script]]},
        of=replace(plan(monitoring=watched), jobs=()),
    )
    bench.run(30)
    assert not bench.engine.state.warnings
    assert "plateau:r1" in find(bench).warnings


def test_an_agent_s_kill_ends_no_attempt_that_it_was_not_told_of() -> None:
    second = replace(answer(*items("r9"), kills=("r1",)), usage=Usage())
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2")), second))
    scripts: dict[str, Any] = {"r1_run": runs(90), "r2_run": runs(3)}
    scripts |= {"c2_research": runs(20)}
    bench = begin(laboratory, scripts, frozenset({"kills"}))
    bench.until(lambda: find(bench).find_call("research") is not None)
    bench.until(lambda: "c2" in find(bench).consultations)
    bench.order(Kill(jobs=("r1_run",)), by="kurt")
    bench.run(4)
    bench.resubmit("r1_run")
    bench.until(lambda: bool(find(bench).consultations["c2"].decided))
    (decided,) = find(bench).consultations["c2"].decided
    assert "it was started anew meanwhile" in "".join(decided.void)
    assert bench.engine.state.jobs["r1_run"].state in ACTIVE


def test_a_kill_waits_for_a_person_and_is_done_only_while_the_run_lives() -> None:
    first = answer(*items("r1", "r2", "r3"))
    second = answer(*items("r3"), kills=("r1", "r2"))
    laboratory = FakeLaboratory(answer_in_turn(first, second))
    scripts = {"r1_run": runs(30), "r2_run": runs(9), "r3_run": runs(60)}
    bench = begin(laboratory, scripts, refill_below=2)
    bench.run(6)
    asked = next(iter(bench.engine.state.asks.values()))
    assert len(asked.lines) == 2
    old = digest_question(
        next(iter(bench.engine.state.asks)), asked.prompt, asked.lines
    )
    bench.run(8)
    assert find(bench).runs["r2"].ended
    name, now = next(iter(bench.engine.state.asks.items()))
    assert "void" in now.lines[1]
    bench.order(AnswerAsk(ask=name, digest=old, approved=True))
    bench.run(2)
    assert not bench.engine.state.asks[name].approved
    reply(bench, approved=True)
    bench.run(5)
    ended = find(bench).runs["r1"].ended
    assert ended is not None
    assert ended.outcome == "killed"
    assert bench.engine.state.jobs["r1_run"].cause is Cause.KILL_CRITERION


def test_a_line_whose_need_a_person_dropped_is_told_as_void() -> None:
    listed = [*items("r1"), *items("r2", depends_on=("r1",)), *items("r3")]
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed)))
    bench = begin(laboratory, {}, approve={"experiments": "ask"})
    bench.run(6)
    reply(bench, approved=True, dropped=(0,))
    bench.run(2)
    decided = find(bench).consultations["c1"].decided[-1]
    assert [text.split()[0] for text in decided.applied] == ["r3"]
    assert [text.split()[0] for text in decided.refused] == ["r1"]
    assert "it needs the line" in "".join(decided.void)


def test_a_submission_that_begins_research_without_jobs_is_not_refused() -> None:
    bench = begin(FakeLaboratory())
    bench.order(Submit())
    assert not [*bench.happened(CommandRefused)]


def test_nothing_takes_the_place_of_jobs_that_are_stopped_with_their_session() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2", "r3"))))
    bench = begin(laboratory, {name: runs(50) for name in ("r1_run", "r2_run")})
    bench.run(5)
    calls = find(bench).total_calls
    bench.order(StopEngine(cancel_jobs=True), by="kurt")
    bench.run(20)
    assert find(bench).items
    assert not find(bench).live
    assert find(bench).total_calls == calls


def test_what_is_asked_already_is_not_asked_twice() -> None:
    again = CallResult(outcome=Outcome.OK, answer=Answer(kills=("r1",), items=()))
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2")), then=again))
    bench = begin(laboratory, {"r1_run": runs(50), "r2_run": runs(5)})
    bench.run(3)
    bench.order(PutItem(item=Item(id="mine", depends_on=("r1",)), place=0), by="kurt")
    bench.run(30)
    assert find(bench).total_calls > 2
    asked = [text for ask in bench.engine.state.asks.values() for text in ask.lines]
    assert [text.partition(":")[2] for text in asked] == [
        " end r1: no metric yet", " remove mine, which kurt inserted"
    ]  # fmt: skip


def test_a_question_of_which_nothing_can_be_done_any_more_is_withdrawn() -> None:
    second = answer(*items("r3"), kills=("r1",))
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2")), second))
    scripts = {"r1_run": runs(9), "r2_run": runs(3), "r3_run": runs(3)}
    bench = begin(laboratory, scripts)
    bench.run(6)
    assert [one.approved for one in bench.engine.state.asks.values()] == [None]
    bench.run(80)
    (asked,) = bench.engine.state.asks.values()
    assert (asked.approved, asked.by) == (False, "")
    assert not has_work_left(bench.engine.state)


def test_a_call_whose_job_is_lost_is_read_as_it_is_and_what_led_to_it_leads_on() -> (
    None
):
    lost = CallResult(outcome=Outcome.AGENT_ERROR, problem="its job is gone")
    laboratory = FakeLaboratory(answer_in_turn(lost, answer(*items("r1"))))
    node = RunScript(cause=Cause.NODE_FAIL, exit_code=1)
    bench = begin(laboratory, {"c1_research": [[node]]})
    bench.run(20)
    assert [*find(bench).runs] == ["r1"]
    assert list_kinds(find(bench))[:2] == ["list_depleted", "list_depleted"]


def test_a_kill_criterion_ends_its_run_with_its_numbers() -> None:
    bad = items("r1", kill_criteria="loss > 4 after step 5")
    laboratory = FakeLaboratory(answer_in_turn(answer(*bad)))
    scripts = {"r1_run": runs(100, loss=9.0)}
    bench = begin(laboratory, scripts)
    bench.run(80)
    run = find(bench).runs["r1"]
    assert "loss > 4 after step 5" in run.kill_shown
    assert run.ended is not None
    assert run.ended.outcome == "killed"


def test_a_hypothesis_that_fails_three_times_is_a_warning_and_a_trigger() -> None:
    from autoexp_tui.research.state import Hypothesis

    wide = Hypothesis(id="h1", description="wider is better", expects="loss < 1")
    listed = items("r1", "r2", "r3", "r4", hypothesis="h1")
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed, hypotheses=(wide,))))
    scripts = {f"r{at}_run": runs(2, loss=3.0) for at in (1, 2, 3, 4)}
    bench = begin(laboratory, scripts, slots=1)
    bench.run(40)
    research = find(bench)
    known = research.hypotheses["h1"]
    assert (known.consecutive_failures, len(known.runs)) == (4, 4)
    assert [one.severity for one in research.warnings.values()].count("high") >= 1
    assert "warning_fired" in list_kinds(research)
    key = next(iter(research.warnings))
    bench.order(AcknowledgeCondition(key=key), by="kurt")
    bench.run(1)
    assert find(bench).warnings[key].acknowledged_by == "kurt"


@pytest.mark.parametrize(
    ("budgets", "code"),
    [
        ({"wall_seconds": 20.0}, "budget_reached"),
        ({"wall_seconds": 20.0, "on_reached": "kill"}, "budget_reached"),
        ({"calls": 1}, "calls_spent"),
        ({"tokens": 15}, "call_unaffordable"),
    ],
)
def test_a_budget_that_is_reached_ends_the_research_with_6(
    budgets: dict[str, Any], code: str
) -> None:
    listed = items("r1", "r2", "r3", "r4", "r5")
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed)))
    bench = begin(laboratory, {"r1_run": runs(60)}, budgets=budgets)
    bench.run(100)
    research = find(bench)
    assert find_code(research) == code
    end = find_end(bench.engine.state.parts)
    assert end is not None
    assert end.code == 6
    kills = budgets.get("on_reached") == "kill"
    ended = research.runs["r1"].ended
    assert ended is not None
    assert ended.outcome == ("killed" if kills else "completed")
    marks = [one.left_percent for one in research.milestones]
    assert len(marks) == len({*research.milestones})


def test_a_rate_limit_pauses_calls_until_it_ends_and_loses_no_trigger() -> None:
    limited = CallResult(
        outcome=Outcome.RATE_LIMIT, problem="429", resume_at=None, usage=Usage()
    )
    laboratory = FakeLaboratory(answer_in_turn(limited, answer(*items("r1"))))
    bench = begin(laboratory)
    bench.run(290)
    assert find(bench).total_calls == 1
    assert find(bench).agents_wait
    bench.run(60)
    assert "r1" in find(bench).runs


def test_calls_that_fail_in_a_row_open_the_breaker_and_one_call_closes_it() -> None:
    bad = CallResult(outcome=Outcome.BAD_OUTPUT, problem="no JSON")
    laboratory = FakeLaboratory(answer_in_turn(bad, bad, bad, answer(*items("r1"))))
    bench = begin(laboratory, breaker_seconds=100.0)
    bench.run(80)
    assert find(bench).total_calls == 3
    assert find(bench).agents_wait
    bench.run(60)
    assert "r1" in find(bench).runs
    assert find(bench).failures == 0


def test_a_person_edits_the_list_tells_the_agent_and_ends_a_call() -> None:
    listed = items("r1", "r2", "r3")
    scripts: dict[str, Any] = {"c2_research": [[RunScript(seconds=300.0)]]}
    scripts |= {"r1_run": runs(50)}
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed)))
    bench = begin(laboratory, scripts, slots=1)
    bench.run(6)
    for order in (
        PutItem(item=Item(id="mine", overrides=("lr=1",)), place=0),
        MoveItem(item="r3", place=1),
        PutItem(item=Item(id="r2", note="mine too")),
        TellAgent(text="try more"),
        Consult(),
        PutItem(item=Item(id="r1"), place=0),
        PutItem(item=Item(id="none")),
        RemoveItem(item="none"),
    ):
        bench.order(order, by="kurt")
        bench.run(2)
    research = find(bench)
    assert [one.id for one in research.items] == ["mine", "r3", "r2"]
    assert research.items[2].note == "mine too"
    assert all(one.by == "kurt" and one.jobs for one in research.items)
    assert [note.text for note in research.notes] == ["try more"]
    call = research.find_call("research")
    assert call is not None
    bench.order(EndCall(consultation=call.id), by="kurt")
    bench.run(20)
    assert find(bench).consultations[call.id].outcome is Outcome.CANCELLED
    bench.order(EndResearch(reason="enough"), by="kurt")
    bench.run(60)
    assert find_code(find(bench)) == "research_ended"
    assert [*find(bench).runs] == ["r1"]


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (Item(id="new", kill_criteria="loss goes up"), "kill_criteria"),
        (Item(id="new", expects="loss < 1 or time > 1 h"), "expects"),
        (Item(id="c7"), "those of calls"),
        (Item(id="../x"), "no name"),
        (Item(id="new", depends_on=("gone",)), "depends on gone"),
        (Item(id="new", depends_on=("new",)), "new -> new"),
        (Item(id="new", baseline_run="gone"), "to beat, gone, is no other run"),
        (Item(id="new", baseline_run="new"), "to beat, new, is no other run"),
    ],
)
def test_what_a_person_inserts_and_cannot_run_is_refused_at_once(
    item: Item, told: str
) -> None:
    bench = begin(FakeLaboratory())
    bench.run(1)
    bench.order(PutItem(item=item, place=0), by="kurt")
    bench.run(5)
    reasons = [sentence(one.why, 0.0) for one in bench.happened(CommandRefused)]
    assert told in "".join(reasons)
    assert not find(bench).items
    assert not bench.engine.state.warnings


def test_of_two_items_of_one_name_that_are_planned_at_once_one_is_taken() -> None:
    bench = begin(FakeLaboratory(), slots=1)
    bench.run(1)
    first = Item(id="a", config_ref="big", baseline_run="", note="first")
    for item in (first, Item(id="a", note="second")):
        bench.order(PutItem(item=item, place=0), by="kurt")
    bench.run(2)
    (refused,) = bench.happened(CommandRefused)
    assert sentence(refused.why, 0.0) == "a is being planned already"
    put = find(bench).runs["a"].item
    assert (put.note, put.config_ref) == ("first", "big")
    assert not bench.engine.state.warnings


def test_criteria_of_a_person_are_kept_as_they_are_written_back() -> None:
    bench = begin(FakeLaboratory(), slots=1)
    bench.order(PutItem(item=Item(id="a", kill_criteria="LOSS>4"), place=0))
    bench.run(2)
    assert find(bench).runs["a"].item.kill_criteria == "loss > 4"


def test_what_needs_more_gpus_than_there_are_is_stranded_and_told() -> None:
    listed = [Item(id="big", gpus=9), Item(id="small", gpus=2)]
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed)), gpus=8)
    bench = begin(laboratory, slots=0, refill_below=0)
    bench.run(100)
    research = find(bench)
    assert [*research.runs] == ["small"]
    assert {"stranded", "deadlock"} & {*list_kinds(research)}
    assert find_code(research) == "research_stuck"
    end = find_end(bench.engine.state.parts)
    assert end is not None
    assert end.code == 1


@pytest.mark.parametrize("seed", range(12))
def test_an_engine_that_dies_at_any_step_loses_nothing_and_does_nothing_twice(
    seed: int,
) -> None:
    draw = random.Random(seed)
    calls: list[str] = []

    def tell(one: Consultation, view: View) -> CallResult:
        number = len(view.research.runs)
        calls.append(one.id)
        return (
            answer(*items(*(f"r{number + at}" for at in range(3))))
            if number < 9
            else answer()
        )

    laboratory = FakeLaboratory(tell)
    scripts = {f"r{at}_run": runs(draw.uniform(0.5, 9)) for at in range(12)}
    bench = begin(laboratory, scripts)
    for _ in range(12):
        bench.single_steps(draw.randrange(1, 40))
        bench.die(draw.uniform(0.1, 20))
    bench.run(400)
    research, state = find(bench), bench.engine.state
    assert not bench.world.faults, bench.world.faults
    assert find_code(research) == "nothing_left"
    assert all(one.ended for one in research.runs.values())
    assert all(len(job.attempts) == 1 for job in state.jobs.values())
    known = [one for one in research.consultations.values() if one.outcome]
    assert research.total_calls == len(known)


def test_a_target_that_is_reached_ends_the_research() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2", "r3"))))
    scripts = {"r1_run": runs(2, loss=0.1)}
    bench = begin(laboratory, scripts, slots=1, objective={"target": 0.2})
    bench.run(30)
    assert find_code(find(bench)) == "target_reached"
    assert [*find(bench).runs] == ["r1"] or len(find(bench).runs) == 2


def test_a_run_that_cannot_join_is_a_failure_of_its_own() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2"))))
    plan_one = laboratory._plan
    laboratory._plan = lambda item: replace(  # type: ignore[method-assign]
        plan_one(item), jobs=(replace(plan_one(item).jobs[0], name="same"),)
    )
    bench = begin(laboratory)
    bench.run(40)
    ended = [one.ended for one in find(bench).runs.values() if one.ended]
    assert sorted(one.outcome for one in ended) == ["completed", "failed"]
    assert bench.engine.state.jobs["same"].state is JobState.COMPLETED


def test_jobs_of_a_persons_plans_are_runs_whenever_they_join() -> None:
    own = plan(job("own"), job("brief", 1))
    brief = [[RunScript(seconds=0.0)]]
    scripts: dict[str, Any] = {"own": runs(3, loss=0.5), "late": runs(3, loss=0.25)}
    scripts |= {"brief": brief, "short": brief}
    bench = begin(FakeLaboratory(), scripts, of=own)
    bench.order(Submit())
    bench.run(6)
    further = plan(job("late"), job("short", 1), plan_id="p2")
    sha = bench.engine._parts.store_plan(further)
    bench.order(Grow(sha=sha, run=("late", "short")), by="kurt")
    bench.run(20)
    ended = {one.id: one.ended for one in find(bench).runs.values()}
    assert set(ended) == {"own", "brief", "late", "short"}
    assert all(ended.values())
    assert find(bench).best_run == "late"


def test_a_run_that_a_person_has_run_again_is_live_and_is_judged_anew() -> None:
    log = (Write(at=0.5, data=b"step: 1 loss: 9\n"),)
    first = [RunScript(seconds=3.0, exit_code=1, writes=log)]
    scripts = {"r1_run": [*map(list, [first]), *runs(4, loss=0.5)]}
    listed = [Item(id="r1", gpus=1), Item(id="r2", gpus=1)]
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed)), gpus=1)
    bench = begin(laboratory, scripts, slots=0)
    bench.run(20)
    failed = find(bench).runs["r1"].ended
    assert failed is not None
    assert failed.outcome == "failed"
    before = find(bench).gpu_seconds
    bench.resubmit("r1_run")
    bench.run(3)
    assert find(bench).live == ("r1",)
    bench.run(10)
    research = find(bench)
    ended = research.runs["r1"].ended
    assert ended is not None
    assert (ended.outcome, ended.result, research.best_run) == ("completed", 0.5, "r1")
    assert research.gpu_seconds == pytest.approx(before + 4, abs=1.5)
    assert list_kinds(research).count("run_finished") >= 3


def test_a_round_whose_last_item_is_dropped_counts_and_the_best_is_the_best() -> None:
    """A gain below `min_delta` is none, and yet the best result there is."""
    laboratory = FakeLaboratory(
        answer_in_turn(
            answer(*items("r1", "x1")),
            answer(*items("r2", "x2")),
            answer(*items("r3", "x3")),
        )
    )
    scripts = {f"r{at}_run": runs(9, loss=1 - at / 100) for at in (1, 2, 3)}
    scripts |= {f"x{at}_run": runs(90) for at in (1, 2, 3)}
    objective = {"min_delta": 0.5, "target": 0.975}
    bench = begin(laboratory, scripts, slots=1, objective=objective)
    bench.until(lambda: bool(find(bench).stopped), 300.0)
    research = find(bench)
    assert find_code(research) == "target_reached"
    assert (research.best_run, research.best) == ("r3", 0.97)
    assert research.judged_rounds[:2] == ("c1", "c2")
    assert research.rounds_since_improvement >= 1


OOM = (Write(at=0.5, data=b"torch.cuda.OutOfMemoryError: CUDA out of memory\n"),)
FIXER = {"agent": ["f"], "may_override": ["batch_size"]}


def fix_in(
    laboratory: FakeLaboratory, *listed: Item, outcome: Outcome = Outcome.OK
) -> Answers:
    """The fixer's fixes, or calls of his that fail; the first answer is this list."""

    def tell(one: Consultation, view: View) -> CallResult:
        if one.role == "fixer" and outcome is not Outcome.OK:
            return CallResult(outcome=outcome, problem="no")
        if one.role == "fixer":
            return laboratory.fix(view, one.run, "batch_size=8")
        return answer(*listed) if one.id == "c1" else leave_list()

    return tell


def test_what_depends_on_a_run_that_is_being_fixed_waits_for_its_repetition() -> None:
    laboratory = FakeLaboratory()
    after = Item(id="r2", depends_on=("r1",), baseline_run="r1")
    laboratory.answers = fix_in(laboratory, Item(id="r1", hypothesis="h"), after)
    failing = [[RunScript(exit_code=1, writes=OOM)]]
    scripts: dict[str, Any] = {"r1_run": failing}
    scripts |= {f"c{at}_fixer": runs(20) for at in range(9)}
    scripts |= {"r1_fix1_run": runs(9, loss=2.0), "r2_run": runs(2, loss=1.0)}
    bench = begin(laboratory, scripts, fixer=FIXER)
    bench.run(15)
    assert [*find(bench).runs] == ["r1"]
    assert not find(bench).judged_rounds
    assert not find(bench).stopped
    bench.run(40)
    research = find(bench)
    assert [*research.runs] == ["r1", "r1_fix1", "r2"]
    first, last = research.runs["r1_fix1"].ended, research.runs["r2"]
    assert first is not None
    assert last.began_at >= first.at
    assert last.ended is not None
    assert last.ended.met


@pytest.mark.parametrize(
    "outcome", [Outcome.RATE_LIMIT, Outcome.NOT_FOUND, Outcome.AUTH_ERROR]
)
def test_a_fixer_that_cannot_be_called_stops_no_research_and_is_no_try_of_a_fix(
    outcome: Outcome,
) -> None:
    laboratory = FakeLaboratory()
    laboratory.answers = fix_in(laboratory, *items("r1", "r2"), outcome=outcome)
    scripts = {"r1_run": [[RunScript(exit_code=1, writes=OOM)]]}
    bench = begin(laboratory, scripts, fixer=FIXER)
    bench.run(15)
    research = find(bench)
    assert research.agents_wait is None
    assert not research.fix_streaks
    assert "run_finished" in list_kinds(research)


def test_a_run_that_is_run_again_while_the_fixer_thinks_is_not_fixed() -> None:
    laboratory = FakeLaboratory()
    laboratory.answers = fix_in(laboratory, *items("r1"))
    first = [RunScript(exit_code=1, writes=OOM)]
    scripts: dict[str, Any] = {"r1_run": [first, *runs(60)]}
    scripts |= {f"c{at}_fixer": runs(9) for at in range(9)}
    bench = begin(laboratory, scripts, fixer=FIXER)
    bench.until(lambda: bool(find(bench).list_fixing()))
    bench.resubmit("r1_run")
    bench.run(20)
    research = find(bench)
    assert (research.live, research.items) == (("r1",), ())
    assert research.list_fixing() == ()
    assert not bench.engine.state.warnings


@pytest.mark.parametrize(
    ("outcome", "calls"), [(Outcome.NOT_FOUND, 1), (Outcome.BAD_OUTPUT, 6)]
)
def test_without_agents_a_run_without_a_screen_ends_with_1_and_a_person_may_go_on(
    outcome: Outcome, calls: int
) -> None:
    bad = CallResult(outcome=outcome, problem="no program")
    laboratory = FakeLaboratory(
        answer_in_turn(*[bad] * calls, answer(*items("r1"))), gpus=0
    )
    bench = begin(laboratory, breaker_seconds=100.0)
    bench.until(lambda: find_end(bench.engine.state.parts) is not None, 600.0)
    end = find_end(bench.engine.state.parts)
    assert end is not None
    assert (end.code, "no program" in end.reason) == (1, True)
    assert has_work_left(bench.engine.state)
    bench.run(300)  # as where a screen keeps the session
    if outcome is Outcome.NOT_FOUND:
        assert find(bench).total_calls == calls
        bench.order(Consult(), by="kurt")
        bench.run(10)
    assert "r1" in find(bench).runs  # of the rest nobody need know that it is over


def test_a_paused_session_ends_no_research_and_a_spent_budget_ends_a_stuck_one() -> (
    None
):
    listed = [Item(id="big", gpus=9)]
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed)), gpus=8)
    bench = begin(laboratory, budgets={"calls": 1}, refill_below=0)
    bench.order(Pause())
    bench.run(60)
    assert not find(bench).stopped
    bench.order(Resume())
    bench.run(60)
    assert find_code(find(bench)) == "calls_spent"


def test_the_end_is_asked_about_again_only_after_a_refusal() -> None:
    bench = begin(FakeLaboratory(), approve={"end": "ask"}, heartbeat_seconds=10.0)
    bench.until(lambda: "end" in bench.engine.state.asks)
    first = bench.engine.state.asks["end"]
    bench.run(30)
    assert bench.engine.state.asks["end"] == first
    reply(bench, approved=False)
    bench.run(30)
    assert bench.engine.state.asks["end"].digest != first.digest
    reply(bench, approved=True)
    bench.run(9)
    assert find_code(find(bench)) == "nothing_left"


def test_an_attempt_after_one_that_a_criterion_ended_is_judged_too() -> None:
    bad = items("r1", kill_criteria="loss > 4 after step 5")
    scripts = {"r1_run": runs(100, loss=9.0)}
    bench = begin(FakeLaboratory(answer_in_turn(answer(*bad))), scripts)
    bench.run(8)
    known = find(bench).runs
    known["r1"] = replace(known["r1"], kill_shown="of an earlier attempt")
    bench.until(lambda: find(bench).runs["r1"].ended is not None)
    assert "loss > 4" in find(bench).runs["r1"].kill_shown
    assert len(bench.happened(KillTriggered)) == 1


@pytest.mark.parametrize(
    ("budgets", "seconds"),
    [({"wall_seconds": 200.0}, 50.0), ({"gpu_hours": 400 / 3600}, 50.0)],
)
def test_milestones_of_time_are_told_as_they_are_crossed_once_each(
    budgets: dict[str, Any], seconds: float
) -> None:
    listed = [Item(id="r1", gpus=2)]
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed)), gpus=2)
    scripts = {"r1_run": [[RunScript(seconds=1000.0)]]}
    bench = begin(laboratory, scripts, slots=0, budgets=budgets, heartbeat_seconds=1e4)
    bench.run(180)
    bench.die(1000.0)
    bench.run(40)
    crossed = [one.t for one in bench.world.session.records
               if isinstance(one.event, MilestoneCrossed)]  # fmt: skip
    told = [one.milestone.left_percent for one in bench.happened(MilestoneCrossed)]
    assert told == [75, 50, 25, 10]
    assert crossed[1] - crossed[0] == pytest.approx(seconds, abs=2.0)
    assert find(bench).budget_reached


def test_what_a_person_changes_is_soon_in_the_state_file_though_nothing_runs() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2"))))
    bench = begin(laboratory, heartbeat_seconds=1e4, refill_below=0)
    bench.order(Pause())
    bench.order(PutItem(item=Item(id="a"), place=0), by="kurt")
    bench.order(PutItem(item=Item(id="b"), place=0), by="kurt")
    bench.run(20)
    written = len(laboratory.views)
    bench.run(20)
    assert len(laboratory.views) == written
    bench.order(MoveItem(item="a", place=0), by="kurt")
    bench.run(8)
    assert [one.id for one in laboratory.views[-1].research.items] == ["a", "b"]


def test_a_rate_limit_is_over_by_the_clock_of_who_told_it() -> None:
    def limit(one: Consultation, view: View) -> CallResult:
        if one.id != "c1":
            return leave_list()
        at = bench.clock.utc() + 100
        return CallResult(outcome=Outcome.RATE_LIMIT, problem="429", resume_at=at)

    laboratory = FakeLaboratory()
    bench = begin(laboratory)
    bench.clock.set_utc(bench.clock.utc() - 7200)
    laboratory.answers = limit
    bench.run(90)
    assert [*find(bench).consultations] == ["c1"]
    bench.run(30)
    assert "c2" in find(bench).consultations


def test_a_budget_that_ends_what_runs_ends_calls_too_and_none_can_be_had() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2"))))
    scripts: dict[str, Any] = {"c2_research": [[RunScript(seconds=900.0)]]}
    budgets = {"wall_seconds": 30.0, "on_reached": "kill"}
    bench = begin(laboratory, scripts, budgets=budgets)
    bench.run(45)
    research = find(bench)
    assert find_code(research) == "budget_reached"
    assert research.consultations["c2"].outcome is Outcome.CANCELLED


def test_a_person_is_told_why_no_call_can_be_had() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2"))))
    scripts = {"r1_run": runs(60), "r2_run": runs(60)}
    bench = begin(laboratory, scripts, budgets={"calls": 1})
    bench.run(10)
    bench.order(Consult(), by="kurt")
    bench.run(1)
    (refused,) = bench.happened(CommandRefused)
    assert refused.why.code == "notice"
    assert "calls" in sentence(refused.why, 0.0)


def test_the_end_by_a_person_ends_a_call_and_nothing_of_answers_is_done() -> None:
    hang: dict[str, Any] = {"c1_research": [[RunScript(seconds=9999.0)]]}
    bench = begin(FakeLaboratory(answer_in_turn(answer(*items("r1")))), hang)
    bench.run(6)
    bench.order(EndResearch(reason="enough"), by="kurt")
    bench.run(30)
    research = find(bench)
    assert research.consultations["c1"].outcome is not None
    assert (research.items, {**research.runs}) == ((), {})
    assert not has_work_left(bench.engine.state)


def test_nobody_is_called_and_nothing_ends_while_a_person_has_paused_all() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1"))))
    bench = begin(laboratory, heartbeat_seconds=5.0)
    bench.order(Pause(), by="kurt")
    bench.run(60)
    assert not find(bench).consultations
    bench.order(Resume(), by="kurt")
    bench.run(90)
    assert "r1" in find(bench).runs
    assert find_code(find(bench)) == "nothing_left"
