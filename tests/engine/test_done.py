"""What is done already is not run again, and what a job takes from others is put in
when it starts; what an earlier attempt left does not start a follower of one that
begins anew. Seen through whole sessions on fakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from autoexp_tui.conditions.kinds import (
    Approval,
    FileContent,
    FileExists,
    LogPattern,
    MetadataIs,
    MetricIs,
)
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.resubmission import done_before
from autoexp_tui.model.rules import Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import Cause
from tests.engine.bench import Bench
from tests.engine.parts import OK, again, done, finds, on_end, says, writes
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_world import Recompose

LINES = ("iteration 80 | loss: 2.5", "saved checkpoint 80")
SAVES = writes(says(1.0, *LINES), seconds=5.0)
SAVED = finds("saved", r"saved checkpoint (?P<n>\d+)", checkpoint_iteration="n")
RULES = Monitoring(log_events=(SAVED,))


def made(name: str, index: int = 0, *after: str, **fields: Any) -> JobSpec:
    waits = {"depends_on": after, "start_conditions": tuple(map(done, after))}
    return job(name, index, **{"fingerprint": f"f-{name}", **waits, **fields})


CHAIN = plan(made("a"), made("b", 1, "a"), made("c", 2, "b"), monitoring=RULES)
"""`c` after `b` after `a`, which says that it saved a checkpoint."""


def done_all(the_plan: Plan = CHAIN) -> dict[str, DoneWork]:
    """What a session left in output directories."""
    one = Bench(the_plan, {"a": [[SAVES]]})
    one.ends()
    one.run(2)
    return one.world.ready.done


def begun(one: Bench) -> list[tuple[str, int]]:
    return [each.task for each in one.executor.begun]


def test_a_completed_job_leaves_word_and_a_second_session_completes_in_one_commit() -> (
    None
):
    left = done_all()
    assert set(left) == {"a", "b", "c"}
    assert left["b"].upstream == {"a": left["a"].mark}
    assert left["a"].fingerprint == "f-a"
    assert left["a"].metadata == {"checkpoint_iteration": "80"}
    assert (left["a"].step, left["a"].values["loss"]) == (80, 2.5)
    report = done_before(CHAIN, left)
    one = Bench(CHAIN, done=list(report.done.values()), submit=False)
    one.run(5)
    assert set(one.states().values()) == {"PLANNED"}  # before somebody submits
    one.order(commands.Submit())
    one.step()
    assert set(one.states().values()) == {"COMPLETED"}
    assert (one.executor.copies, one.engine.state.pending) == ([], {})
    records = one.world.session.records
    ends = [n for n, r in enumerate(records) if isinstance(r.event, events.JobEnded)]
    assert len(ends) == 3
    assert all(records[n].more for n in range(ends[0], ends[-1]))
    why = one.why("b")
    assert (why.code, why.arg("session")) == ("done_before", "s")


@pytest.mark.parametrize("chosen", [(), ("c",)])
def test_a_dependant_runs_on_what_is_done_though_only_it_was_chosen(
    chosen: tuple[str, ...],
) -> None:
    left = [work for name, work in done_all().items() if name != "c"]
    one = Bench(CHAIN, done=left, submit=False)
    one.order(commands.Submit(jobs=chosen))
    one.reach(c="COMPLETED")
    assert begun(one) == [("c", 1)]


def test_what_a_done_job_logged_lets_others_start() -> None:
    known = {"key": "checkpoint_iteration", "op": ">=", "value": 80}
    waits = (
        MetadataIs(job="a", **known),  # type: ignore[arg-type]
        MetricIs(job="a", name="loss", op="<", value=3.0, after_step=10),
    )
    left = done_all(plan(made("a"), monitoring=RULES))
    b = made("b", 1, "a", start_conditions=waits)
    one = Bench(plan(made("a"), b, monitoring=RULES), done=[*left.values()])
    one.reach(b="COMPLETED")


def test_a_done_job_run_anew_forgets_its_former_life_and_what_builds_on_it_runs() -> (
    None
):
    one = Bench(CHAIN, {"a": [[OK]]}, done=[*done_all().values()])
    one.step()
    assert (one.job("a").done_before, bool(one.job("a").metadata)) == (True, True)
    noted = one.job("a").noted
    assert noted is not None
    assert noted.lows == noted.highs == {"loss": (2.5, 80)}
    one.resubmit("a", from_checkpoint=False)
    one.reach(a="RUNNING")
    assert (one.job("a").metadata, one.job("a").noted) == ({}, None)
    assert not one.job("a").done_before
    one.reach(c="COMPLETED")
    assert begun(one) == [("a", 1), ("b", 1), ("c", 1)]


def reading(*more: Any, path: str = "/ck/8") -> Bench:
    """`b` loads what `a` has told."""
    known = MetadataIs(job="a", key="ckpt", op="known")
    reads = {"runtime_overrides": ("load={runtime.a.ckpt}",), "depends_on": ("a",)}
    b = job("b", 1, start_conditions=(known, *more), **reads)
    tells = [[writes(says(2.0, f"saved {at}"), seconds=6.0)] for at in (path, "/ck/9")]
    rules = Monitoring(log_events=(finds("saved", r"saved (?P<path>.+)", ckpt="path"),))
    return Bench(plan(job("a"), b, monitoring=rules), {"a": tells})


def test_it_waits_for_the_value_and_runs_with_it() -> None:
    one = reading()
    one.until(lambda: bool(one.job("b").spec.runtime_sources))
    one.die(5.0)
    one.start()
    one.reach(b="COMPLETED")
    spec = one.job("b").spec
    assert (spec.overrides, spec.runtime_sources) == (("load=/ck/8",), (("a", 1),))
    assert begun(one) == [("a", 1), ("b", 1)]
    assert len(one.happened(events.JobReplanned)) == 1  # whatever engine goes on


def test_a_value_that_cannot_be_written_as_an_override_is_waited_over() -> None:
    one = reading(path="/x'${oc.env:HOME}")
    one.reach(a="COMPLETED")
    one.run(5.0)
    assert (one.state("b"), one.why("b").code) == ("WAITING", "value_refused")


def in_script(plan: Plan, _: str, overrides: Sequence[str]) -> JobSpec:
    script = ("bash", "-c", f"train {overrides[-1]}")
    return replace(plan.jobs[1], overrides=tuple(overrides), command=script)


def refuse(*_: object) -> JobSpec:
    raise UsageError("no such key")


@pytest.mark.parametrize(
    ("planned", "code"), [(in_script, "value_in_script"), (refuse, "does_not_compose")]
)
def test_a_value_that_would_be_a_script_or_does_not_compose_holds_the_job(
    planned: Any, code: str
) -> None:
    one = reading(path="/x;reboot")
    one.plan_by(SimpleNamespace(compose=planned))
    one.reach(b="HELD")
    assert begun(one) == [("a", 1)]
    assert one.codes(events.WarningRaised) == [code]


def test_a_person_is_asked_about_the_work_with_its_values() -> None:
    one = reading(Approval(prompt="go?"))
    one.until(lambda: one.job("b").ask is not None)
    assert one.job("b").spec.overrides == ("load=/ck/8",)


DONE_FILE = "/out/a/iter_8/done.txt"
FILE = FileExists(path=DONE_FILE, writer="a")
GATE = FileExists(path="/gate")
"""Keeps the follower back until the test opens it."""
RULE = finds("saved", r"saved checkpoint (?P<n>\d+)", checkpoint="n")
OTHER = {"overrides": ("lr=2e-4",)}
SILENT = writes(seconds=1000.0)
ENDS = writes(seconds=5.0)


def saves(at: float, seconds: float = 1000.0, **ends: Any) -> RunScript:
    """A run that writes the checkpoint, and tells so in its log."""
    told = says(at, "saved checkpoint 8", "iteration 8/9 | loss: 2.5")
    return writes(
        Write(at=at, data=b"x", path=DONE_FILE), told, seconds=seconds, **ends
    )


CRASH = saves(2, seconds=5, exit_code=1)


def two_jobs(*conditions: Condition, **rules: Any) -> Plan:
    return plan(
        job("a", fingerprint="f1", parameters={"lr": 1e-4}),
        job("b", 1, depends_on=("a",), start_conditions=(*conditions, GATE)),
        monitoring=Monitoring(log_events=(RULE,), doomed_grace_seconds=2, **rules),
    )


class Planner(Recompose):
    """Gives the job with another rate."""

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        values, planned = {"lr": 2e-4}, {"lr": 1e-4}
        one = replace(plan.jobs[0], parameters=values, planned=planned)
        return replace(one, fingerprint="f2")


def bench(*attempts: RunScript, on: Condition = FILE, **rules: Any) -> Bench:
    one = Bench(two_jobs(on, **rules), {"a": [[run] for run in attempts]})
    one.plan_by(Planner())
    return one


def kill(one: Bench) -> None:
    one.kill("a")
    one.reach(a="CANCELLED")


def killed(*attempts: RunScript, on: Condition = FILE) -> Bench:
    """The first attempt has saved, and a person ended it."""
    one = bench(saves(2), *attempts, on=on)
    one.until(lambda: one.files.read(DONE_FILE) is not None)
    one.run(3)
    kill(one)
    return one


def bring_back(one: Bench, **how: Any) -> Bench:
    """R, and nothing else holds the follower back."""
    one.resubmit("a", **how)
    one.files.append("/gate", b"x")
    return one


def second(one: Bench) -> Bench:
    """It was tried again by a rule; nothing else holds the follower back."""
    one.until(lambda: one.tries("a") == 2)
    one.files.append("/gate", b"x")
    return one


def check_waits(one: Bench) -> None:
    """The follower does not start before the second attempt has written."""
    one.until(lambda: one.tries("a") == 2)
    one.run(20)
    assert one.state("b") == "WAITING"
    one.reach(b="COMPLETED")


def test_the_file_of_the_killed_attempt_does_not_start_the_follower() -> None:
    one = bring_back(killed(saves(30)), **OTHER)
    one.until(lambda: one.tries("a") == 2)
    (aside,) = one.happened(events.FilesSetAside)  # before the attempt was sent
    (file,) = aside.files
    assert (aside.job, aside.attempt, file.attempt) == ("a", 2, 1)
    assert (file.file.path, file.values) == (DONE_FILE, "lr=1e-4")
    one.run(20)
    assert (one.state("b"), one.wait("b").why.code) == ("WAITING", "waits_for_new_file")
    one.reach(b="COMPLETED")


def test_a_writer_that_ended_without_it_leaves_a_question_that_a_person_answers() -> (
    None
):
    one = bring_back(killed(ENDS), **OTHER)
    one.reach(a="COMPLETED")
    one.run(30)
    assert one.state("b") == "WAITING"
    told = one.words(one.wait("b").why)
    assert f"{DONE_FILE} is of attempt 1, lr=1e-4; a completed" in told
    one.order(commands.Waive(job="b", condition=0, reason="good enough"))
    one.reach(b="COMPLETED")


@pytest.mark.parametrize(
    ("condition", "how"),
    [
        (FILE, {"use_files": True}),
        (replace(FILE, fresh=False), {}),
        (FileExists(path=DONE_FILE), {}),
    ],
)
def test_files_of_any_attempt_count_where_it_is_said_or_nobody_writes_them(
    condition: FileExists, how: dict[str, Any]
) -> None:
    one = bring_back(killed(SILENT, on=condition), **OTHER, **how)
    one.reach(b="COMPLETED")
    aside = [event.files for event in one.happened(events.FilesSetAside)]
    assert aside == ([] if how else [()])


@pytest.mark.parametrize(
    "condition",
    [
        FileExists(path="/out/a/iter_*/done.txt", glob=True, writer="a"),
        FileContent(path=DONE_FILE, pattern="x", writer="a"),
        MetadataIs(job="a", key="checkpoint", value="8"),
        MetricIs(job="a", name="loss", op="<", value=3.0),
        LogPattern(log_path="/logs/a/current.log", pattern="saved", writer="a"),
    ],
)
def test_globs_texts_logs_and_values_go_by_their_attempt_too(
    condition: Condition,
) -> None:
    check_waits(bring_back(killed(saves(30), on=condition), **OTHER))


def test_a_restart_or_a_requeue_from_behind_the_file_lets_it_count() -> None:
    """The next attempt, or run, never writes it again."""
    cut = saves(2, seconds=5, exit_code=None, signal=15, cause=Cause.TIMEOUT)
    one = second(bench(cut, SILENT, state_events=(on_end("timeout", again(3)),)))
    one.reach(b="COMPLETED")
    assert not one.happened(events.FilesSetAside)
    back = saves(2, seconds=5, ends="requeue")
    one = Bench(two_jobs(FILE), {"a": [[back, SILENT]]})
    one.until(lambda: len(one.happened(events.RunBegan)) == 2)
    one.files.append("/gate", b"x")
    one.reach(b="COMPLETED")


@pytest.mark.parametrize(
    "how", [{}, {"exclude_nodes": ("n1",), "time_limit_seconds": 60.0}]
)
def test_r_from_the_checkpoint_or_elsewhere_lets_it_count(how: dict[str, Any]) -> None:
    bring_back(killed(SILENT), **how).reach(b="COMPLETED")


def test_an_attempt_that_goes_on_with_the_other_values_keeps_what_was_set_aside() -> (
    None
):
    one = bring_back(killed(SILENT, ENDS), **OTHER)
    one.reach(a="RUNNING")
    kill(one)
    bring_back(one)
    one.reach(a="COMPLETED")
    one.run(10)
    assert one.wait("b").why.code == "file_of_earlier"


def test_a_look_for_an_attempt_that_never_came_sets_nothing_aside() -> None:
    """R with other values, killed in the line, then R as planned."""
    one = killed(SILENT)
    one.order(commands.Pause())
    one.resubmit("a", **OTHER)
    one.until(lambda: bool(one.happened(events.FilesSetAside)))
    kill(one)
    planner: Any = Planner()
    planner.compose = lambda plan, job, overrides: two_jobs().jobs[0]
    one.plan_by(planner)
    bring_back(one, overrides=("lr=1e-4",))
    one.order(commands.Resume())
    one.reach(b="COMPLETED")


def restarting(**fields: Any) -> tuple[StateEvent, ...]:
    return (on_end("crash", again(2, **OTHER, **fields)),)


def test_r_from_the_start_or_a_rule_s_overrides_begin_anew_unless_it_says_use() -> None:
    check_waits(bring_back(killed(saves(30)), from_checkpoint=False))
    check_waits(second(bench(CRASH, saves(30), state_events=restarting())))
    uses = bench(CRASH, SILENT, state_events=restarting(followers="use"))
    second(uses).reach(b="COMPLETED")


def found(*scripts: RunScript, **session: Any) -> Bench:
    """The file lies there before the session begins."""
    runs = {"a": [[script] for script in scripts]}
    one = Bench(two_jobs(FILE), runs, submit=False, **session)
    one.files.append(DONE_FILE, b"x")
    one.files.append("/gate", b"x")
    one.order(commands.Submit())
    return one


def test_what_lies_there_at_a_session_s_first_attempt_counts() -> None:
    found(SILENT).reach(b="COMPLETED")
    done = DoneWork(job="a", session="old", mark="old@1", fingerprint="f1", at=1.0)
    one = found(done=[done])
    one.reach(b="COMPLETED")
    assert not one.job("a").attempts


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_killed_at_any_step_the_follower_never_starts_on_the_old_file(cut: int) -> None:
    one = bring_back(killed(saves(40)), **OTHER)
    one.single_steps(cut)
    one.start()
    one.plan_by(Planner())
    one.reach(b="COMPLETED")
    assert one.files.read(DONE_FILE) == b"xx"
    assert len(one.happened(events.FilesSetAside)) == 1


class Broken:
    """A source of facts that cannot be asked."""

    def __init__(self, inner: Any) -> None:
        self.ask, self.works = inner.observe_all, False

    def observe_all(self, keys: Sequence[Any]) -> Any:
        for fact in self.ask(keys):
            yield fact if self.works else replace(fact, value=None, error="I/O error")


def test_files_that_cannot_be_looked_at_keep_the_writer_waiting() -> None:
    one = killed(saves(30))
    broken = Broken(one.engine._parts.facts)
    object.__setattr__(one.engine._parts, "facts", broken)
    bring_back(one, **OTHER)
    one.run(15)
    assert (one.state("a"), one.why("a").code) == ("WAITING", "files_unseen")
    broken.works = True
    one.reach(b="COMPLETED")
