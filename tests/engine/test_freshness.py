"""What an earlier attempt left does not start a follower of one that begins anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import (
    FileContent,
    FileExists,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    MetricIs,
)
from autoexp_tui.events import events
from autoexp_tui.model import commands
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import sentence
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write

CKPT = "/out/a/iter_8/done.txt"
SAVED = b"saved checkpoint 8\niteration 8/9 | loss: 2.5\n"
FILE = FileExists(path=CKPT, writer="a")
GATE = FileExists(path="/gate")
"""Keeps the follower back until the test opens it."""
RULE = LogEvent(
    name="saved",
    pattern=r"saved checkpoint (?P<n>\d+)",
    pattern_type="regex",
    extract_groups={"checkpoint": "n"},
)


def saves(at: float, seconds: float = 1000.0, **ends: Any) -> RunScript:
    """A run that writes the checkpoint, and tells so in its log."""
    writes = (Write(at=at, data=b"x", path=CKPT), Write(at=at, data=SAVED))
    return RunScript(seconds=seconds, writes=writes, **ends)


def silent(seconds: float = 1000.0, **ends: Any) -> RunScript:
    return RunScript(seconds=seconds, **ends)


def two_jobs(*conditions: Condition, **rules: Any) -> Plan:
    return plan(
        job("a", fingerprint="f1", parameters={"lr": 1e-4}),
        job("b", 1, depends_on=("a",), start_conditions=(*conditions, GATE)),
        monitoring=Monitoring(log_events=(RULE,), doomed_grace_seconds=2, **rules),
    )


class Planner:
    """Gives the job with another rate."""

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        spec = plan.jobs[0]
        values = {"lr": 2e-4}
        planned = {"lr": 1e-4}
        return replace(spec, fingerprint="f2", parameters=values, planned=planned)


def bench(
    *attempts: RunScript, conditions: Sequence[Condition] = (FILE,), **rules: Any
) -> Bench:
    one = Bench(two_jobs(*conditions, **rules), {"a": [[run] for run in attempts]})
    object.__setattr__(one.engine._parts, "planner", Planner())
    return one


def killed(one: Bench) -> Bench:
    """The first attempt has saved, and a person ended it."""
    one.until(lambda: one.files.read(CKPT) is not None)
    one.run(3)
    one.order(commands.Kill(jobs=("a",)))
    one.until(one.is_("a", JobState.CANCELLED))
    return one


def again(one: Bench, **how: Any) -> None:
    """R, and nothing else holds the follower back."""
    one.order(commands.Resubmit(jobs=("a",), **how))
    one.files.append("/gate", b"x")


def why_b_waits(one: Bench) -> str:
    status = one.wait("b")
    return status.why.code


# ------------------------------------------------------------ R with other values
def test_the_file_of_the_killed_attempt_does_not_start_the_follower() -> None:
    one = killed(bench(saves(2), saves(30)))
    again(one, overrides=("lr=2e-4",))
    one.until(lambda: len(one.job("a").attempts) == 2)
    one.run(20)
    assert one.job("b").state is JobState.WAITING
    assert why_b_waits(one) == "waits_for_new_file"


def test_what_lies_there_is_in_the_journal_before_the_attempt_is_sent() -> None:
    one = killed(bench(saves(2), saves(30)))
    again(one, overrides=("lr=2e-4",))
    one.until(lambda: len(one.job("a").attempts) == 2)
    (aside,) = one.happened(events.FilesSetAside)
    assert (aside.job, aside.attempt) == ("a", 2)
    (file,) = aside.files
    assert (file.file.path, file.attempt, file.values) == (CKPT, 1, "lr=1e-4")


def test_a_writer_that_ended_without_it_leaves_a_question() -> None:
    one = killed(bench(saves(2), silent(5)))
    again(one, overrides=("lr=2e-4",))
    one.until(one.is_("a", JobState.COMPLETED))
    one.run(30)
    b = one.job("b")
    assert b.state is JobState.WAITING
    assert b.start[0] is not None
    told = sentence(b.start[0].why, one.clock.utc())
    assert f"{CKPT} is of attempt 1, lr=1e-4; a completed" in told


def test_a_person_s_word_lets_it_start_with_the_earlier_file() -> None:
    one = killed(bench(saves(2), silent(5)))
    again(one, overrides=("lr=2e-4",))
    one.until(one.is_("a", JobState.COMPLETED))
    one.run(10)
    one.order(commands.Waive(job="b", condition=0, reason="good enough"))
    one.until(one.is_("b", JobState.COMPLETED))


def test_followers_use_what_is_there_where_a_person_says_so() -> None:
    one = killed(bench(saves(2), silent()))
    again(one, overrides=("lr=2e-4",), use_files=True)
    one.until(one.is_("b", JobState.COMPLETED))
    assert not one.happened(events.FilesSetAside)


@pytest.mark.parametrize(
    "any_file", [replace(FILE, fresh=False), FileExists(path=CKPT)]
)
def test_files_of_any_attempt_count_where_it_is_said_or_nobody_writes_them(
    any_file: FileExists,
) -> None:
    one = killed(bench(saves(2), silent(), conditions=(any_file,)))
    again(one, overrides=("lr=2e-4",))
    one.until(one.is_("b", JobState.COMPLETED))


@pytest.mark.parametrize(
    "condition",
    [
        FileExists(path="/out/a/iter_*/done.txt", glob=True, writer="a"),
        FileContent(path=CKPT, pattern="x", writer="a"),
        MetadataIs(job="a", key="checkpoint", value="8"),
        MetricIs(job="a", name="loss", op="<", value=3.0),
        LogPattern(log_path="/logs/a/current.log", pattern="saved", writer="a"),
    ],
)
def test_globs_texts_logs_and_values_go_by_their_attempt_too(
    condition: Condition,
) -> None:
    one = killed(bench(saves(2), saves(30), conditions=(condition,)))
    again(one, overrides=("lr=2e-4",))
    one.until(lambda: len(one.job("a").attempts) == 2)
    one.run(20)
    assert one.job("b").state is JobState.WAITING
    one.until(one.is_("b", JobState.COMPLETED))


def test_a_log_that_both_attempts_append_to_counts_from_where_the_first_ended() -> None:
    log = "/out/a/train.log"
    spec = LogPattern(log_path=log, pattern="ready", writer="a")
    first = RunScript(seconds=1000, writes=(Write(at=1, data=b"ready\n", path=log),))
    late = (
        Write(at=5, data=b"begins\n", path=log),
        Write(at=30, data=b"ready\n", path=log),
    )
    one = bench(first, RunScript(seconds=1000, writes=late), conditions=(spec,))
    one.run(4)
    one.order(commands.Kill(jobs=("a",)))
    one.until(one.is_("a", JobState.CANCELLED))
    again(one, overrides=("lr=2e-4",))
    one.until(lambda: len(one.job("a").attempts) == 2)
    one.run(20)
    assert one.job("b").state is JobState.WAITING
    one.until(one.is_("b", JobState.COMPLETED))


# ------------------------------------------------------------ attempts that continue
def test_a_restart_from_behind_the_file_lets_it_count() -> None:
    """TIMEOUT, Restart, resume: the next attempt never writes it again."""
    restart = Restart(conditions=(MaxAttempts(max_attempts=3),))
    rule = StateEvent(name="again", state="timeout", actions=(restart,))
    cut = saves(2, seconds=5, exit_code=None, signal=15, cause=Cause.TIMEOUT)
    one = bench(cut, silent(), state_events=(rule,))
    one.until(lambda: len(one.job("a").attempts) == 2)
    one.files.append("/gate", b"x")
    one.until(one.is_("b", JobState.COMPLETED))
    assert not one.happened(events.FilesSetAside)


def test_a_run_that_the_cluster_puts_back_lets_it_count() -> None:
    back = saves(2, seconds=5, ends="requeue")
    one = Bench(two_jobs(FILE), {"a": [[back, silent()]]})
    one.until(lambda: len(one.happened(events.RunBegan)) == 2)
    one.files.append("/gate", b"x")
    one.until(one.is_("b", JobState.COMPLETED))


@pytest.mark.parametrize(
    "how", [{}, {"exclude_nodes": ("n1",), "time_limit_seconds": 60.0}]
)
def test_r_from_the_checkpoint_or_elsewhere_lets_it_count(how: dict[str, Any]) -> None:
    one = killed(bench(saves(2), silent()))
    again(one, **how)
    one.until(one.is_("b", JobState.COMPLETED))


def test_r_from_the_beginning_begins_anew() -> None:
    one = killed(bench(saves(2), saves(30)))
    again(one, from_checkpoint=False)
    one.until(lambda: len(one.job("a").attempts) == 2)
    one.run(20)
    assert one.job("b").state is JobState.WAITING
    one.until(one.is_("b", JobState.COMPLETED))


def test_an_attempt_that_goes_on_with_the_other_values_keeps_what_was_set_aside() -> (
    None
):
    one = killed(bench(saves(2), silent(), silent(5)))
    again(one, overrides=("lr=2e-4",))
    one.until(lambda: one.job("a").state is JobState.RUNNING)
    one.order(commands.Kill(jobs=("a",)))
    one.until(one.is_("a", JobState.CANCELLED))
    again(one)
    one.until(one.is_("a", JobState.COMPLETED))
    one.run(10)
    assert why_b_waits(one) == "file_of_earlier"


def test_a_look_for_an_attempt_that_never_came_sets_nothing_aside() -> None:
    """R with other values, killed in the line, then R as planned."""
    one = killed(bench(saves(2), silent()))
    one.order(commands.Pause())
    one.order(commands.Resubmit(jobs=("a",), overrides=("lr=2e-4",)))
    one.until(lambda: bool(one.happened(events.FilesSetAside)))
    one.order(commands.Kill(jobs=("a",)))
    one.until(one.is_("a", JobState.CANCELLED))
    as_planned = two_jobs().jobs[0]
    planner: Any = Planner()
    planner.compose = lambda plan, job, overrides: as_planned
    object.__setattr__(one.engine._parts, "planner", planner)
    again(one, overrides=("lr=1e-4",))
    one.order(commands.Resume())
    one.until(one.is_("b", JobState.COMPLETED))


# ------------------------------------------------------------------ rules' overrides
def _restarting(**fields: Any) -> Sequence[StateEvent]:
    restart = Restart(
        overrides=("lr=2e-4",), conditions=(MaxAttempts(max_attempts=2),), **fields
    )
    return (StateEvent(name="again", state="crash", actions=(restart,)),)


def test_a_rule_s_overrides_begin_anew() -> None:
    crash = saves(2, seconds=5, exit_code=1)
    one = bench(crash, saves(30), state_events=_restarting())
    one.until(lambda: len(one.job("a").attempts) == 2)
    one.files.append("/gate", b"x")
    one.run(20)
    assert one.job("b").state is JobState.WAITING
    one.until(one.is_("b", JobState.COMPLETED))


def test_a_rule_may_let_followers_use_what_is_there() -> None:
    crash = saves(2, seconds=5, exit_code=1)
    one = bench(crash, silent(), state_events=_restarting(followers="use"))
    one.until(lambda: len(one.job("a").attempts) == 2)
    one.files.append("/gate", b"x")
    one.until(one.is_("b", JobState.COMPLETED))


# ------------------------------------------------------------------- earlier sessions
def test_what_lies_there_at_a_session_s_first_attempt_counts() -> None:
    one = bench(silent())
    one.files.append(CKPT, b"x")
    one.files.append("/gate", b"x")
    one.until(one.is_("b", JobState.COMPLETED))


def test_files_of_a_job_that_is_done_already_count() -> None:
    done = DoneWork(job="a", session="old", mark="old@1", fingerprint="f1", at=1.0)
    one = Bench(two_jobs(FILE), submit=False, done=[done])
    one.files.append(CKPT, b"x")
    one.files.append("/gate", b"x")
    one.order(commands.Submit())
    one.until(one.is_("b", JobState.COMPLETED))
    assert not one.job("a").attempts


def test_what_other_work_left_there_does_not_count() -> None:
    one = Bench(two_jobs(FILE), {"a": [[saves(30)]]}, submit=False, foreign=("a",))
    one.files.append(CKPT, b"x")
    one.files.append("/gate", b"x")
    one.order(commands.Submit())
    one.run(20)
    assert one.job("a").state is JobState.RUNNING
    assert one.job("b").state is JobState.WAITING
    one.until(one.is_("b", JobState.COMPLETED))


def test_what_other_work_left_there_is_called_an_earlier_session_s() -> None:
    one = Bench(two_jobs(FILE), {"a": [[silent(5)]]}, submit=False, foreign=("a",))
    one.files.append(CKPT, b"x")
    one.order(commands.Submit())
    one.until(one.is_("a", JobState.COMPLETED))
    one.run(10)
    status = one.wait("b")
    assert "is of an earlier session" in sentence(status.why, one.clock.utc())


# ----------------------------------------------------------- engines come and go
@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_killed_at_any_step_the_follower_never_starts_on_the_old_file(cut: int) -> None:
    one = killed(bench(saves(2), saves(40)))
    again(one, overrides=("lr=2e-4",))
    one.single_steps(cut)
    one.start()
    object.__setattr__(one.engine._parts, "planner", Planner())
    one.until(one.is_("b", JobState.COMPLETED))
    assert one.files.read(CKPT) == b"xx"
    assert len(one.happened(events.FilesSetAside)) == 1


def test_files_that_cannot_be_looked_at_keep_the_writer_waiting() -> None:
    one = killed(bench(saves(2), saves(30)))
    broken = _Broken(one.engine._parts.facts)
    object.__setattr__(one.engine._parts, "facts", broken)
    again(one, overrides=("lr=2e-4",))
    one.run(15)
    a = one.job("a")
    assert a.state is JobState.WAITING
    assert a.why is not None
    assert a.why.code == "files_unseen"
    broken.works = True
    one.until(one.is_("b", JobState.COMPLETED))


class _Broken:
    """A source of facts that cannot be asked."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.works = inner, False

    def observe_all(self, keys: Sequence[Any]) -> Any:
        for fact in self.inner.observe_all(keys):
            yield fact if self.works else replace(fact, value=None, error="I/O error")

    def observe(self, key: Any) -> Any:
        return self.inner.observe(key)
