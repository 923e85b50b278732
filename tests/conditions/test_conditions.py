"""What conditions say of given facts, and when that may change."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import pytest

from autoexp_tui.conditions import kinds as k
from autoexp_tui.conditions.kinds import Composite, FileExists, Not, TimeReached
from autoexp_tui.model import facts as f
from autoexp_tui.model.condition import Condition, EvalContext, evaluate
from autoexp_tui.model.specs import Scalar
from autoexp_tui.model.states import Cause, JobState, Verdict
from tests.conditions.known import NOW, Known, failed_look, job, known, path_and_writer
from tests.model.builders import at

CTX: Final = EvalContext(job="me", waiting_lived=NOW - 100, action="rule/0")
S = JobState
Values: TypeAlias = dict[Any, Any] | Known
Case: TypeAlias = (
    tuple[Condition, Values, str] | tuple[Condition, Values, str, EvalContext]
)
Mode: TypeAlias = Literal["any", "all"]


def judged(spec: Condition, values: Values, ctx: EvalContext = CTX) -> Verdict:
    facts = values if isinstance(values, Known) else known(values)
    return evaluate(spec, facts, at(NOW), ctx)


def says(spec: Condition, values: Values, ctx: EvalContext = CTX) -> str:
    """`pass file_there`."""
    verdict = judged(spec, values, ctx)
    return f"{verdict.result.value} {verdict.why.code}"


def ended(ago: float, state: JobState = S.FAILED, **more: Any) -> f.JobFact:
    return job(state, ended_lived=NOW - ago, **more)


DONE: Final = "/o/done.txt"
FILE: Final = FileExists(path=DONE, writer="w")
GLOB: Final = FileExists(path="/o/*.pt", glob=True, min_size=10)
F: Final = f.StatKey("/f")
SIZED: Final = FileExists(path="/f", min_size=10)
MATCHES: Final = f.GlobKey(GLOB.path)
LATE: Final = path_and_writer(DONE, ended(90))
GONE: Final[Values] = {F: f.FileStat(False)}
THERE: Final[Values] = {F: f.FileStat(True)}
AT_DONE: Final = f.StatKey(DONE)
META: Final = f.MetadataKey("up", "k")
ME, UP, A, B = (f.JobKey(name) for name in ("me", "up", "a", "b"))
ASK: Final = f.ApprovalKey("me")
ASKED: Final[Values] = {ASK: f.ApprovalFact(None)}
METADATA: Final = k.MetadataIs(key="k", job="up", value=8000)
LOSS: Final = k.MetricIs(name="loss", job="up", op="<", value=2.0)
EARLY: Final = k.MetricIs(name="loss", job="up", op="<", value=2.0, after_step=11)
SEEN: Final[Values] = {f.MetricKey("up", "loss"): f.MetricFact(1.9, 10)}
RATE: Final = k.MetricIs(name="lr", op=">", value=0)
RATE_SEEN: Final[Values] = {f.MetricKey("me", "learning_rate"): f.MetricFact(1e-4, 1)}
LOG: Final = k.LogPattern(log_path="/l/up/current.log", pattern="done", writer="up")
MATCHED: Final = f.LogFound(1, 1, "done", LOG.log_path)
UP_DONE: Final = k.JobStateIs(jobs=("up",), state="COMPLETED")
BOTH: Final = k.JobStateIs(jobs=("a", "b"), state="COMPLETED")
CHECK: Final = k.CommandPasses(command=("check",))
CHECKED: Final = f.CommandKey(("check",), 30.0)
FIRED: Final = f.FiredKey("me", "rule/0")
COOL: Final = k.Cooldown(cooldown_seconds=60)
TWICE: Final = k.MaxAttempts(max_attempts=2)
YES: Final = TimeReached(at=0.0)
NOT_YET: Final = TimeReached(at=NOW + 10)
NEVER: Final = k.MaxAttempts(max_attempts=0)
PASSING: Final = k.MaxAttempts(max_attempts=1000)
"""Holds now, and may cease to."""
UNSEEN: Final = FileExists(path="/unseen")
OWN: Final[Values] = {ME: job(S.WAITING)}
SHOWN: Final = TimeReached(at=0.0, blocking=False)
LATER_SHOWN: Final = TimeReached(at=NOW + 10, blocking=False)
IDLE: Final = EvalContext(job="me")
"""Of a job that does not wait."""


def timed(seconds: float) -> FileExists:
    return FileExists(path="/f", timeout_seconds=seconds)


def not_there(seconds: float) -> Not:
    return Not(condition=FileExists(path="/f"), timeout_seconds=seconds)


def content(
    pattern: str, mode: Literal["contains", "regex"] = "contains", writer: str = ""
) -> k.FileContent:
    return k.FileContent(path="/f", pattern=pattern, mode=mode, writer=writer)


def text(text: str | None, pattern: str = "", *, holds: bool = False) -> dict[Any, Any]:
    return {f.TextKey("/f", pattern): f.FileText(text, holds=holds)}


def of_writer(ago: float, seen: float) -> Known:
    """A log that was looked at without a match, its writer ended."""
    found = f.Fact(f.LogFound(1, 0), NOW - seen)
    return Known({LOG.key: found, UP: f.Fact(ended(ago), NOW)})


def logs(mode: Mode, files: int, matched: int) -> tuple[k.LogPattern, Values]:
    spec = k.LogPattern(log_path="/l/*.log", pattern="d", glob=True, check_mode=mode)
    return spec, {spec.key: f.LogFound(files, matched, "done", "/l/a.log")}


def asked(ago: float) -> EvalContext:
    return EvalContext(job="me", waiting_lived=0.0, asked_lived=NOW - ago)


DIGITS: Final = r"^\d+$"
ALL_DIGITS: Final = content(DIGITS, "regex")
OLD: Final = "(?=a)b"
REJECTS: Final = k.Approval(timeout_seconds=50, on_timeout="reject")
CASES: Final[dict[str, Case]] = {
    "file there": (FILE, {AT_DONE: f.FileStat(True, 3)}, "pass file_there"),
    "file nobody looked for": (FILE, {}, "wait not_looked"),
    "a failed look": (FILE, failed_look(AT_DONE), "wait look_failed"),
    "file too small": (SIZED, {F: f.FileStat(True, 9)}, "wait file_small"),
    "glob": (GLOB, {MATCHES: f.Matches(("/o/a.pt",), 10)}, "pass file_there"),
    "no match": (GLOB, {MATCHES: f.Matches()}, "wait file_missing"),
    "within the grace": (FILE, path_and_writer(DONE, ended(59)), "wait file_missing"),
    "looked a second early": (FILE, known(LATE, at=NOW - 31), "wait file_missing"),
    "looked after the grace": (FILE, known(LATE, at=NOW - 30), "fail doomed_file"),
    "unknown writer": (FILE, {AT_DONE: f.FileStat(False)}, "wait file_missing"),
    "of a failed job": (FILE, {**LATE, AT_DONE: f.FileStat(True)}, "pass file_there"),
    "text": (content("8000"), text("at 8000"), "pass text_there"),
    "no regex": (content("8.00"), text("at 8000"), "wait text_missing"),
    "regex": (ALL_DIGITS, text("8000", DIGITS, holds=True), "pass text_there"),
    "no such line": (ALL_DIGITS, text("a 8000", DIGITS), "wait text_missing"),
    "broken regex": (content("(", "regex"), text("(", "("), "wait bad_condition"),
    "an old regex": (content(OLD, "regex"), text("ab", OLD), "wait bad_condition"),
    "text of no file": (content("x"), text(None), "wait file_missing"),
    "text that its writer left out": (
        content("8000", writer="w"),
        {**text("7000"), f.JobKey("w"): ended(61, S.COMPLETED)}, "fail doomed_file"),
    "metadata no log has shown": (METADATA, {META: None}, "wait no_metadata"),
    "own metadata": (k.MetadataIs(key="k", value=1), {f.MetadataKey("me", "k"): "1"},
                     "pass metadata_ok"),
    "none to come": (METADATA, {META: "7000", UP: ended(60)}, "fail doomed_value"),
    "metric": (LOSS, SEEN, "pass metric_ok"),
    "metric before its step": (EARLY, SEEN, "wait metric_early"),
    "metric nobody has seen": (LOSS, {}, "wait no_metric"),
    "metric to come no more": (LOSS, {UP: ended(60, S.COMPLETED)}, "fail doomed_value"),
    "metric that may come": (LOSS, {UP: ended(59, S.COMPLETED)}, "wait no_metric"),
    "metric by another name": (RATE, RATE_SEEN, "pass metric_ok"),
    "one of two": (BOTH, {A: job(S.COMPLETED), B: job(S.RUNNING)}, "wait job_waits"),
    "one that ended otherwise": (
        BOTH, {A: job(S.RUNNING), B: job(S.CANCELLED)}, "fail upstream"),
    "unknown job": (UP_DONE, {}, "wait not_looked"),
    "exit 0": (CHECK, {CHECKED: f.CommandResult(0)}, "pass command_ok"),
    "exit 3": (CHECK, {CHECKED: f.CommandResult(3)}, "wait command_failed"),
    "no start": (CHECK, {CHECKED: f.CommandResult(None)}, "wait command_error"),
    "any log": (*logs("any", 2, 1), "pass log_matched"),
    "no log": (*logs("any", 2, 0), "wait log_no_match"),
    "not all logs": (*logs("all", 2, 1), "wait log_no_match"),
    "all logs": (*logs("all", 2, 2), "pass log_matched"),
    "all of none": (*logs("all", 0, 0), "wait log_no_files"),
    "read after the grace": (LOG, of_writer(60, 0), "fail doomed_log"),
    "read within it": (LOG, of_writer(59, 0), "wait log_no_match"),
    "read before the end": (LOG, of_writer(60, 61), "wait log_no_match"),
    "read a second early": (LOG, of_writer(90, 31), "wait log_no_match"),
    "read in time": (LOG, of_writer(90, 30), "fail doomed_log"),
    "log of a failed job": (LOG, {LOG.key: MATCHED, UP: ended(60)}, "pass log_matched"),
    "now": (TimeReached(at=NOW), {}, "pass time_reached"),
    "soon": (TimeReached(at=NOW + 1), {}, "wait time_until"),
    "waited long": (TimeReached(after_seconds=100), {}, "pass time_reached"),
    "waited": (TimeReached(after_seconds=101), {}, "wait time_until"),
    "both times": (TimeReached(after_seconds=1, at=NOW + 1), {}, "wait time_until"),
    "no time": (TimeReached(), {}, "pass time_reached"),
    "nothing waits": (TimeReached(after_seconds=0), {}, "wait time_unset", IDLE),
    "not asked yet": (k.Approval(), {}, "wait asks_later"),
    "an unread answer": (k.Approval(), failed_look(ASK), "wait look_failed"),
    "asked": (k.Approval(), ASKED, "wait asks_you"),
    "approved": (k.Approval(), {ASK: f.ApprovalFact(True, "ann")}, "pass approved"),
    "refused": (k.Approval(), {ASK: f.ApprovalFact(False, "ann")}, "fail refused"),
    "no answer": (k.Approval(timeout_seconds=50), ASKED, "wait asks_you", asked(50)),
    "no answer rejects": (REJECTS, ASKED, "fail approval_timeout", asked(50)),
    "counted from the question": (REJECTS, ASKED, "wait asks_you", asked(49)),
    "an attempt left": (TWICE, {ME: job(S.FAILED, attempts=1)}, "pass attempts_left"),
    "none left": (TWICE, {ME: job(S.FAILED, attempts=2)}, "fail attempts_spent"),
    "of an unknown job": (TWICE, {}, "wait not_looked"),
    "never fired": (COOL, {FIRED: None}, "pass cooled_down"),
    "firing nobody looked for": (COOL, {}, "wait not_looked"),
    "cool": (COOL, {FIRED: NOW - 60}, "pass cooled_down"),
    "hot": (COOL, {FIRED: NOW - 59}, "wait cooling_down"),
    "time-out": (timed(100), GONE, "fail start_timeout"),
    "just before it": (timed(100.5), GONE, "wait file_missing"),
    "no time-out while nothing waits": (timed(0), GONE, "wait file_missing", IDLE),
    "no time-out of the unknown": (timed(1), {}, "wait not_looked"),
    "what came at last": (timed(1), THERE, "pass file_there"),
    "a part that does not block does not count": (
        Composite(conditions=(YES, LATER_SHOWN)), OWN, "pass all_hold"),
    "nor does it make an alternative true": (
        Composite(mode="any", conditions=(NOT_YET, SHOWN)), OWN, "wait time_until"),
    "itself": (TimeReached(at=NOW + 1, blocking=False), {}, "wait time_until"),
    "a job's end stays": (Not(condition=UP_DONE), {UP: job(S.COMPLETED)}, "fail is_so"),
    "what may cease is waited for": (not_there(1000), THERE, "wait is_so"),
    "until its time is over": (not_there(1), THERE, "fail start_timeout"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_condition_says_what_is_so(case: str) -> None:
    spec, values, expected, *ctx = CASES[case]
    assert says(spec, values, *ctx) == expected


@pytest.mark.parametrize("state", [S.PLANNED, S.HELD])
def test_a_wait_for_a_job_that_nobody_asked_to_run_says_so(state: JobState) -> None:
    log = k.LogPattern(log_path="/l", pattern="x", writer="w")
    facts = {**path_and_writer(DONE, job(state)), log.key: f.LogFound(files=1)}
    waits = k.JobStateIs(jobs=("w",), state="COMPLETED")
    for spec in (FILE, waits, k.MetadataIs(key="k", job="w", value=1), log):
        assert says(spec, facts) == "wait upstream_held"
    loss = k.MetricIs(name="loss", job="w", value=1.0)
    for one in (loss, Not(condition=loss)):
        assert says(one, facts) == "wait metric_held"


NIGHTS: Final = tuple(TimeReached(at=0.0, description=f"night {n}") for n in range(6))


@pytest.mark.parametrize(("spec", "values", "args"), [
    (FILE, path_and_writer(DONE, ended(90, cause=Cause.OUT_OF_MEMORY, step=31200)),
     {"path": DONE, "writer": "w", "state": "FAILED", "cause": "out_of_memory",
      "step": 31200}),
    (LOSS, {f.MetricKey("up", "loss"): f.MetricFact(float("nan"), 10)},
     {"value": "nan"}),  # JSON has no such number
    (k.CommandPasses(command=("check",), timeout_seconds=100),
     {CHECKED: f.CommandResult(None, "cannot start: no x")},
     {"seen": "command did not run: cannot start: no x"}),
    (TimeReached(at=NOW + 9, timeout_seconds=1, description="the night"), {},
     {"what": "the night"}),
    (Composite(conditions=NIGHTS), OWN,
     {"what": "night 0, night 1, night 2, night 3, 2 more"}),
])  # fmt: skip
def test_a_reason_tells_what_a_person_needs(
    spec: Condition, values: Values, args: dict[str, object]
) -> None:
    assert args.items() <= dict(judged(spec, values).why.args).items()
    waits = judged(UP_DONE, {UP: job(S.RUNNING)})  # and no state that goes stale
    assert dict(waits.why.args) == {"job": "up", "wanted": "COMPLETED"}


@pytest.mark.parametrize(("logged", "op", "wanted", "holds"), [
    ("8000", "==", 8000, True), ("8000", "==", 8e3, True), ("8e3", "==", "8000", True),
    ("9000", ">=", "8000", True), ("10000", ">", 9000, True),
    ("7999", ">=", 8000, False), ("abc", "==", "abc", True), ("abc", "!=", "abd", True),
    ("abc", "<", "abd", False), ("abc", "==", 0, False), ("True", "==", True, True),
    ("1", "==", True, False), ("nan", "==", "nan", False), ("nan", "!=", 1, True),
    ("1_000", "==", 1000, False), ("0x10", "==", 16, False), (" 5 ", "==", 5, True),
    ("", "==", None, True), ("9007199254740993", "==", 9007199254740992, False),
    ("9" * 400, ">", 1, True),
])  # fmt: skip
def test_metadata_compares_numbers_as_numbers(
    logged: str, op: k.Op, wanted: Scalar, holds: bool
) -> None:
    spec = k.MetadataIs(key="k", job="up", op=op, value=wanted)
    told = "pass metadata_ok" if holds else "wait metadata_is_not"
    assert says(spec, {META: logged}) == told


@pytest.mark.parametrize(("expected", "pairs"), [
    ("pass job_ok",
     "COMPLETED=COMPLETED completed=COMPLETED FAILED=FAILED/EXIT_CODE FAILED=LOST/LOST "
     "TIMEOUT=FAILED/TIMEOUT OUT_OF_MEMORY=FAILED/OUT_OF_MEMORY RUNNING=RUNNING "
     "NODE_FAIL=FAILED/NODE_FAIL PREEMPTED=FAILED/PREEMPTED"),
    ("wait job_waits",
     "COMPLETED=RUNNING COMPLETED=RETRYING FAILED=RUNNING PREEMPTED=RUNNING"),
    ("fail upstream",
     "COMPLETED=FAILED/TIMEOUT COMPLETED=LOST/LOST FAILED=COMPLETED RUNNING=COMPLETED "
     "timeout=FAILED/EXIT_CODE"), ("wait bad_condition", "DONE=COMPLETED"),
])  # fmt: skip
def test_a_jobs_state_is_judged(expected: str, pairs: str) -> None:
    for pair in pairs.split():
        asked, _, is_so = pair.partition("=")
        state, _, cause = is_so.partition("/")
        fact = job(JobState[state], cause=Cause[cause] if cause else None)
        assert says(k.JobStateIs(jobs=("up",), state=asked), {UP: fact}) == expected


@pytest.mark.parametrize(("mode", "parts", "expected"), [
    ("all", (YES, YES), "pass all_hold"), ("all", (), "pass all_hold"),
    ("all", (YES, NOT_YET), "wait time_until"),
    ("all", (UNSEEN, NOT_YET), "wait time_until"),
    ("all", (NOT_YET, NEVER), "fail attempts_spent"),
    ("all", (UNSEEN, NEVER), "fail attempts_spent"),
    ("any", (NOT_YET, YES), "pass time_reached"),
    ("any", (NEVER, YES), "pass time_reached"),
    ("any", (NOT_YET, UNSEEN), "wait not_looked"),
    ("any", (NEVER, NOT_YET), "wait time_until"),
    ("any", (NEVER, NEVER), "fail attempts_spent"), ("any", (), "fail none_holds"),
])  # fmt: skip
def test_conditions_compose(
    mode: Mode, parts: tuple[Condition, ...], expected: str
) -> None:
    assert says(Composite(mode=mode, conditions=parts), OWN) == expected


@pytest.mark.parametrize(("inner", "expected"), [
    (YES, "fail is_so"), (PASSING, "wait is_so"), (NEVER, "pass not_so"),
    (Not(condition=PASSING), "pass not_so"), (Not(condition=NOT_YET), "wait is_so"),
    (Not(condition=NEVER), "fail is_so"), (UNSEEN, "wait not_looked"),
    (Composite(conditions=(YES, PASSING)), "wait is_so"), (NOT_YET, "pass not_so"),
    (Composite(conditions=(YES, YES)), "fail is_so"), (LOSS, "wait no_metric"),
    (Composite(mode="any", conditions=(NOT_YET, YES, PASSING)), "fail is_so"),
    (Composite(mode="any", conditions=(PASSING,)), "wait is_so"),
    (k.JobStateIs(jobs=("me",), state="waiting"), "wait is_so"),
    (Composite(conditions=(UNSEEN, NOT_YET)), "pass not_so"),
])  # fmt: skip
def test_not_turns_answers_around_and_leaves_the_unknown(
    inner: Condition, expected: str
) -> None:
    assert says(Not(condition=inner), OWN) == expected
