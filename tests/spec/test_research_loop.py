"""The research loop as it is asked for, over the real engine: what leads to a call and
what does not, what is warned of, and what a call without a good answer changes."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.commands import Kill, Pause, Resume
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.research.commands import Consult
from autoexp_tui.research.options import watch_for_research
from autoexp_tui.research.ports import CallResult, View
from autoexp_tui.research.state import (
    HOPELESS,
    CodeChange,
    Consultation,
    Hypothesis,
    Item,
    Research,
)
from tests.model.builders import plan
from tests.research.fake_laboratory import FakeLaboratory, answer, leave_list
from tests.research.test_decide import (
    answer_in_turn,
    begin,
    find,
    items,
    list_kinds,
    reply,
    runs,
)
from tests.support.fake_script import RunScript, Write

OOM = (Write(at=0.5, data=b"torch.cuda.OutOfMemoryError: CUDA out of memory\n"),)
LONG = {"r1_run": runs(300)}


def find_triggers(research: Research) -> list[tuple[str, str]]:
    """What led to calls, in order: kinds, and what they were about."""
    known = research.consultations.values()
    return [(trigger.kind, trigger.about) for one in known for trigger in one.triggers]


SILENT = {"r1_run": [[RunScript(seconds=300.0)]]}
TRIGGERS: dict[str, tuple[list[Item], Any, dict[str, Any], str]] = {
    "run_finished": (items("r1", "r2", "r3", "r4"), {}, {}, "r1"),
    "list_depleted": (items("r1"), LONG, {}, "0 items left"),
    "warning_fired": (
        items("r1", "r2", "r3"),
        SILENT,
        {"no_metric_seconds": 5.0},
        "no_metric:r1",
    ),
    "budget_milestone": (
        items("r1", "r2", "r3"),
        LONG,
        {"budgets": {"tokens": 40}},
        "tokens: 75 % left",
    ),
    "heartbeat": (items("r1", "r2", "r3"), LONG, {}, "30 s without a call"),
    "stranded": (
        [Item(id="r1", gpus=2), *items("big", "more", gpus=9)],
        LONG,
        {"gpus": 8, "slots": 0},
        "big, more",
    ),
    "deadlock": (items("big", "more", gpus=9), {}, {"gpus": 8}, "big, more"),
    "person": (items("r1", "r2", "r3"), LONG, {}, "kurt"),
}
"""By its kind: the list, how its runs go, options, and what it is about."""


@pytest.mark.parametrize("kind", TRIGGERS)
def test_each_trigger_has_its_own_cause(kind: str) -> None:
    listed, scripts, options, about = TRIGGERS[kind]
    laboratory = FakeLaboratory(answer_in_turn(answer(*listed)))
    bench = begin(laboratory, scripts, **{"slots": 1, **options})
    bench.run(4)
    if kind == "person":
        bench.order(Consult(), by="kurt")
    bench.run(40)
    assert (kind, about) in find_triggers(find(bench))
    kinds = {*list_kinds(find(bench))}
    others = {"run_finished", "heartbeat", "list_depleted", "warning_fired"}
    assert kinds <= {kind, *others}


def test_nobody_is_called_while_gpus_are_busy_and_the_list_is_full() -> None:
    """Neither by a mechanical failure, nor by the slot that it freed, nor by what is
    measured meanwhile."""
    laboratory = FakeLaboratory()

    def tell(one: Consultation, view: View) -> CallResult:
        if one.role == "fixer":
            return laboratory.fix(view, one.run, "batch_size=8")
        return answer(*items(*(f"r{at}" for at in range(1, 9))))

    laboratory.answers = tell
    path = "/attempts/r2_run/1/gpu.jsonl"
    use = [{"util_percent": 90.0, "used_mib": 1.0, "total_mib": 2.0, "watts": 9.0}]
    told = [
        Write(at=at, data=f"step: {at} loss: {9 - at / 90}\n".encode())
        for at in range(1, 400, 5)
    ]
    told += [
        Write(
            at=at, data=json.dumps({"t": at, "gpus": use}).encode() + b"\n", path=path
        )
        for at in range(1, 400, 30)
    ]
    busy = [[RunScript(seconds=900.0, writes=tuple(told))]]
    names = [f"r{at}_run" for at in range(2, 9)]
    scripts: dict[str, Any] = {**dict.fromkeys(names, busy), "r1_fix1_run": busy}
    scripts["r1_run"] = [[RunScript(exit_code=1, writes=OOM)]]
    fixer = {"agent": ["f"], "may_override": ["batch_size"]}
    bench = begin(laboratory, scripts, heartbeat_seconds=800.0, fixer=fixer)
    bench.run(400)
    research = find(bench)
    assert [*research.runs] == ["r1", "r2", "r3"]
    assert research.runs["r1"].fix_relaunch == "r1_fix1"
    assert (research.calls["research"], research.calls["fixer"]) == (1, 1)


@pytest.mark.parametrize("budgets", [{"wall_seconds": 1e3}, {"gpu_hours": 1e3 / 3600}])
def test_a_jump_over_three_milestones_tells_each_once_and_leads_to_one_call(
    budgets: dict[str, float],
) -> None:
    listed = answer(*items("r1", "r2", "r3", gpus=1))
    bench = begin(
        FakeLaboratory(answer_in_turn(listed)),
        {"r1_run": runs(5000)},
        slots=1,
        heartbeat_seconds=800.0,
        budgets=budgets,
        gpus=1,
    )
    bench.run(6)
    assert find(bench).total_calls == 1
    if "wall_seconds" in budgets:
        bench.clock.advance(760.0)
    else:
        bench.die(760.0)  # the run goes on while no engine lives
    bench.run(6)
    told = [
        about[-9:] for kind, about in find_triggers(find(bench)) if "budget" in kind
    ]
    assert told == [f"{percent} % left" for percent in (75, 50, 25)]
    bench.run(20)
    assert find(bench).total_calls == 2
    assert len(find(bench).milestones) == 3


FAILED = {
    Outcome.NO_OUTPUT: "it ended well, and wrote no file",
    Outcome.BAD_OUTPUT: "it is no JSON",
    Outcome.AGENT_ERROR: "it ended with 3",
    Outcome.AUTH_ERROR: "401",
    Outcome.RATE_LIMIT: "429",
    Outcome.UNAVAILABLE: "500",
    Outcome.NOT_FOUND: "there is no such program",
    Outcome.TIMEOUT: "it took too long",
    Outcome.IDLE_TIMEOUT: "it printed nothing",
    Outcome.MAX_STEPS: "it used tools too often",
    Outcome.MAX_DISK: "it wrote too much",
}


def test_each_bad_outcome_is_among_those_that_change_nothing() -> None:
    assert {*Outcome} == {*FAILED, Outcome.OK, Outcome.CANCELLED}


@pytest.mark.parametrize("outcome", FAILED)
def test_a_call_without_an_answer_changes_nothing_and_holds_up_nobody(
    outcome: Outcome,
) -> None:
    stated = Hypothesis(id="h1", description="wider is better")
    names = [f"r{at}" for at in range(1, 9)]
    first = answer(*items(*names), hypotheses=(stated,), reflection="wider")
    failed = CallResult(outcome=outcome, problem=FAILED[outcome])
    bench = begin(FakeLaboratory(answer_in_turn(first, failed)), slots=1)
    bench.until(lambda: len(find(bench).runs) == 2, 60)
    bench.until(lambda: find(bench).consultations["c2"].outcome is not None, 60)
    research = find(bench)
    assert [*research.runs, *(one.id for one in research.items)] == names
    assert (research.reflection, [*research.hypotheses]) == ("wider", ["h1"])
    one = research.consultations["c2"]
    assert (one.outcome, one.problem, one.decided) == (outcome, failed.problem, ())
    led = one.triggers
    bench.until(lambda: len(find(bench).runs) == 8, 60)
    assert not bench.engine.state.asks
    if outcome in HOPELESS:  # nobody is called before a person has mended that
        bench.order(Consult())
    bench.until(lambda: "c3" in find(bench).consultations, 700)
    assert find(bench).consultations["c3"].triggers[: len(led)] == led


@pytest.mark.parametrize("told", ["loss: nan", "loss: inf", "{'loss': nan}"])
def test_a_loss_that_is_no_number_ends_the_run_and_the_agent_is_told(told: str) -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2", "r3", "r4"))))
    writes = (Write(at=2.0, data=f"step: 1 loss: 2\n{told}\n".encode()),)
    scripts = {"r1_run": [[RunScript(seconds=300.0, writes=writes)]]}
    fixer = {"agent": ["f"]}
    bench = begin(laboratory, scripts, slots=1, fixer=fixer)
    bench.run(40)
    ended = find(bench).runs["r1"].ended
    assert ended is not None
    assert (ended.outcome, ended.cause) == ("killed", Cause.NAN)
    assert find(bench).best_run != "r1"
    assert ("run_finished", "r1") in find_triggers(find(bench))
    assert "fixer" not in find(bench).calls


def make_log(losses: Sequence[float], at: float = 1.0, first: int = 0) -> tuple[Write]:
    """A loss each 20 steps."""
    numbered = enumerate(losses, first)
    lines = (f"step: {20 * number} loss: {loss}\n" for number, loss in numbered)
    return (Write(at=at, data="".join(lines).encode()),)


def sample(at: float, busy: float) -> Write:
    gpus = [{"util_percent": busy, "used_mib": 1.0, "total_mib": 2.0, "watts": 9.0}]
    data = json.dumps({"t": 1000.0 + at, "gpus": gpus}).encode() + b"\n"
    return Write(at=at, data=data, path="/attempts/r1_run/1/gpu.jsonl")


def use_gpus(busy: float) -> tuple[Write, ...]:
    return (*make_log([2.0]), *(sample(30.0 * at, busy) for at in range(1, 7)))


FALLING = [4.0 - at / 20 for at in range(30)]


@pytest.mark.parametrize(("writes", "keys"), [
    (make_log([4.0, *[2.0] * 24]), []),  # for 480 steps
    (make_log([4.0, *[2.0] * 30]), ["plateau:r1"]),
    ((*make_log([4.0, *[2.0] * 30]), *make_log([1.0] * 40, 90.0, 31)), ["plateau:r1"]),
    (make_log([*FALLING, FALLING[-1] * 1.49]), []),
    (make_log([*FALLING, *[FALLING[-1] * 1.51] * 2]), ["divergence:r1"]),
    (use_gpus(20.0), []),
    (use_gpus(19.0), ["gpu:r1"]),
    ((), ["no_metric:r1"]),
])  # fmt: skip
def test_what_live_runs_show_is_found_by_the_monitor_and_told_once(
    writes: tuple[Write, ...], keys: list[str]
) -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2", "r3"))))
    scripts = {"r1_run": [[RunScript(seconds=900.0, writes=writes)]]}
    bench = begin(
        laboratory,
        scripts,
        slots=1,
        of=plan(monitoring=watch_for_research(Monitoring())),
        heartbeat_seconds=900.0,
        no_metric_seconds=200.0,
    )
    bench.run(220)
    warnings = find(bench).warnings
    assert [*warnings] == keys
    assert {one.severity for one in warnings.values()} <= {"low"}
    told = [about for kind, about in find_triggers(find(bench)) if kind[0] == "w"]
    assert told == keys


def test_a_failure_that_three_fixes_did_not_mend_goes_to_the_research_agent() -> None:
    laboratory = FakeLaboratory()

    def tell(one: Consultation, view: View) -> CallResult:
        if one.role == "fixer":
            return laboratory.fix(view, one.run, "batch_size=8")
        return answer(*items("r1", "r2")) if one.id == "c1" else leave_list()

    laboratory.answers = tell
    crash = [[RunScript(exit_code=1, writes=OOM)]]
    repeats = ["r1", "r1_fix1", "r1_fix1_fix1", "r1_fix1_fix1_fix1"]
    scripts: dict[str, Any] = {f"{name}_run": crash for name in repeats}
    scripts["r2_run"] = runs(500)
    fixer = {"agent": ["f"], "may_override": ["batch_size"]}
    bench = begin(laboratory, scripts, fixer=fixer)
    bench.run(60)
    research = find(bench)
    assert [name for name in research.runs if name != "r2"] == repeats
    assert research.calls["fixer"] == 3
    told = [about for kind, about in find_triggers(research) if kind == "run_finished"]
    assert told == repeats[-1:]


def test_a_fix_that_helped_ends_the_row_of_those_that_did_not() -> None:
    laboratory = FakeLaboratory()

    def tell(one: Consultation, view: View) -> CallResult:
        if one.role == "fixer":
            return laboratory.fix(view, one.run, "batch_size=8")
        return answer(*items("r1", "r2")) if one.id == "c1" else leave_list()

    laboratory.answers = tell
    crash = [[RunScript(exit_code=1, writes=OOM)]]
    fixer = {"agent": ["f"], "may_override": ["batch_size"], "attempts": 1}
    scripts = {"r1_run": crash, "r2_run": crash, "r1_fix1_run": runs(2)}
    scripts["r2_run"] = [[RunScript(seconds=20.0, exit_code=1, writes=OOM)]]
    bench = begin(laboratory, scripts, fixer=fixer)
    bench.run(40)
    assert {"r1_fix1", "r2_fix1"} <= find(bench).runs.keys()


def test_a_fix_that_is_approved_beforehand_asks_nobody() -> None:
    laboratory = FakeLaboratory()

    def tell(one: Consultation, view: View) -> CallResult:
        if one.role == "fixer":
            return laboratory.fix(view, one.run, "model.width=8")
        return answer(*items("r1")) if one.id == "c1" else leave_list()

    laboratory.answers = tell
    scripts = {"r1_run": [[RunScript(exit_code=1, writes=OOM)]]}
    bench = begin(laboratory, scripts, frozenset({"code"}), fixer={"agent": ["f"]})
    bench.run(20)
    assert find(bench).runs["r1"].fix_relaunch == "r1_fix1"


def test_a_paused_session_begins_nothing_of_the_list_and_tells_nobody_of_it() -> None:
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1", "r2", "r3"))))
    scripts: dict[str, Any] = {**LONG, "c1_research": [[RunScript(seconds=5.0)]]}
    bench = begin(laboratory, scripts, slots=2, heartbeat_seconds=900.0)
    bench.run(3)
    bench.order(Pause())
    bench.until(lambda: len(find(bench).items) == 3, 60)
    bench.run(60)
    assert not find(bench).runs
    assert list_kinds(find(bench)) == ["list_depleted"]
    bench.order(Resume())
    bench.run(5)
    assert len(find(bench).runs) >= 2


@pytest.mark.parametrize("approved", [True, False])
def test_a_change_of_code_waits_for_a_person_and_so_does_what_runs_it(
    approved: bool,
) -> None:
    change = CodeChange(commit="f", base="b", sha256="s", files=1, diffstat="a.py")
    given = replace(answer(Item(id="r1", code_ref="c1"), *items("r2")), code=change)
    laboratory = FakeLaboratory(answer_in_turn(given))
    bench = begin(laboratory, {})
    bench.run(6)
    assert [*find(bench).runs] == ["r2"]
    (ask,) = bench.engine.state.asks.values()
    assert [line.partition(":")[0] for line in ask.lines] == ["experiments", "code"]
    assert "keep c1" not in laboratory.calls
    reply(bench, approved=approved)
    bench.run(6)
    assert ("keep c1" in laboratory.calls) == approved
    assert ("r1" in find(bench).runs) == approved


def test_what_is_approved_beforehand_asks_nobody() -> None:
    first, second = (
        answer(*items("r1", "r2", "r3")),
        answer(*items("r3"), kills=("r1",)),
    )
    laboratory = FakeLaboratory(answer_in_turn(first, second))
    scripts = {"r1_run": runs(300), "r2_run": runs(2), "r3_run": runs(300)}
    bench = begin(laboratory, scripts, frozenset({"kills"}))
    bench.run(15)
    ended = find(bench).runs["r1"].ended
    assert ended is not None
    assert (ended.outcome, bench.engine.state.asks) == ("killed", {})


STATED = Hypothesis(id="h1", description="wider is better")


@pytest.mark.parametrize(("loss", "script", "met", "failures"), [
    (1.5, {}, True, 0),
    (2.5, {}, False, 1),
    (1.5, {"exit_code": 1}, False, 1),
    (1.5, {"writes": (*make_log([1.5, math.nan]),)}, False, 1),
    (1.5, {"exit_code": 1, "cause": Cause.OUT_OF_MEMORY}, None, 0),
    (1.5, {"seconds": 300.0}, None, 0),  # a person ends it
])  # fmt: skip
def test_without_an_expectation_a_run_must_beat_its_baseline(
    loss: float, script: dict[str, Any], met: bool | None, failures: int
) -> None:
    second = Item(id="r2", hypothesis="h1", baseline_run="r1", depends_on=("r1",))
    listed = [*items("r1"), second, *items("r3", "r4")]
    first = answer(*listed, hypotheses=(STATED,))
    one = RunScript(**{"seconds": 4.0, "writes": make_log([loss]), **script})
    scripts = {"r1_run": runs(2, loss=2.0), "r2_run": [[one]]}
    bench = begin(FakeLaboratory(answer_in_turn(first)), scripts, slots=1)
    bench.run(12)
    if one.seconds > 100:
        bench.order(Kill(jobs=("r2_run",)))
        bench.run(10)
    research = find(bench)
    ended = research.runs["r2"].ended
    assert ended is not None
    assert ended.met is met
    assert research.hypotheses["h1"].consecutive_failures == failures


def test_what_ends_with_a_budget_says_nothing_of_its_hypothesis() -> None:
    tested = Item(id="r1", hypothesis="h1", expects="loss < 1")
    first = answer(tested, *items("r2", "r3"), hypotheses=(STATED,))
    budgets = {"wall_seconds": 10.0, "on_reached": "kill"}
    laboratory = FakeLaboratory(answer_in_turn(first))
    bench = begin(laboratory, {"r1_run": runs(60, loss=2.0)}, slots=1, budgets=budgets)
    bench.run(40)
    known = find(bench).runs["r1"].ended, find(bench).hypotheses["h1"]
    assert known[0] is not None
    assert (known[0].outcome, known[0].met) == ("killed", None)
    assert known[1].consecutive_failures == 0


def test_rounds_without_improvement_are_counted_and_warned_of() -> None:
    losses = [2.0, 2.5, 2.0, 1.995, 1.989]  # small gains add up
    results = [answer(*items(f"r{at}")) for at in range(5)]
    scripts = {f"r{at}_run": runs(2, loss=loss) for at, loss in enumerate(losses)}
    bench = begin(
        FakeLaboratory(answer_in_turn(*results)), scripts, objective={"min_delta": 0.01}
    )
    told = []
    for at in range(5):
        bench.until(lambda at=at: len(find(bench).judged_rounds) > at, 60)  # type: ignore[misc]
        told.append(find(bench).rounds_since_improvement)
    assert told == [0, 1, 2, 3, 0]
    bench.run(2)
    (warned,) = find(bench).warnings.values()
    assert (warned.severity, warned.why.code) == ("high", "no_gain")
    assert (warned.why.arg("value"), warned.why.arg("run")) == (1.995, "r3")
    assert len(warned.evidence) == 3


def test_an_empty_answer_waits_for_what_runs_and_the_agent_is_called_at_its_end() -> (
    None
):
    laboratory = FakeLaboratory(answer_in_turn(answer(*items("r1")), then=answer()))
    bench = begin(laboratory, {"r1_run": runs(200)}, heartbeat_seconds=900.0)
    bench.run(190)
    assert find(bench).total_calls == 1
    bench.run(30)
    assert find_triggers(find(bench))[1] == ("run_finished", "r1")
    assert bench.engine.state.jobs["r1_run"].state is JobState.COMPLETED


@pytest.mark.parametrize("seconds", [40.0, 100.0])
def test_a_rate_limit_that_says_when_it_ends_is_waited_out(seconds: float) -> None:
    laboratory = FakeLaboratory()
    bench = begin(laboratory)
    until = bench.clock.utc() + seconds
    limited = CallResult(outcome=Outcome.RATE_LIMIT, problem="429", resume_at=until)
    laboratory.answers = answer_in_turn(limited, answer(*items("r1")))
    bench.until(lambda: find(bench).resume_at == until, 20)
    bench.until(lambda: find(bench).total_calls == 2, seconds + 10)
    assert bench.clock.utc() >= until


def test_a_call_costs_what_it_told() -> None:
    paid = replace(leave_list(), cost=0.25, usage=Usage(output_tokens=7))
    bench = begin(FakeLaboratory(answer_in_turn(answer(), paid)), heartbeat_seconds=5.0)
    bench.run(20)
    research = find(bench)
    assert research.costs["research"] == 0.25
    assert research.usage["research"].output_tokens >= 7


def test_items_beyond_what_is_left_of_the_gpu_hours_wait_for_a_person() -> None:
    laboratory = FakeLaboratory(
        answer_in_turn(
            answer(Item(id="r1", gpus=1)), answer(Item(id="r2", gpus=8)), then=answer()
        )
    )
    bench = begin(
        laboratory,
        {"r1_run": runs(100), "r2_run": runs(100)},
        gpus=8,
        budgets={"gpu_hours": 500 / 3600},
        approve={"budget": "ask"},
        heartbeat_seconds=900.0,
    )
    bench.run(120)
    (ask,) = bench.engine.state.asks.values()
    assert ask.lines[-1] == "budget: 0.22 GPU hours are wanted, 0.11 are left"
    assert "r2" not in find(bench).runs
    reply(bench, approved=True)
    bench.run(4)
    assert "r2" in find(bench).runs
