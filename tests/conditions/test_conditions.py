"""What conditions say of given facts, and when that may change."""

from __future__ import annotations

import pytest

from autoexp_tui.conditions.kinds import (
    Approval,
    CommandPasses,
    Composite,
    Cooldown,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    MetricIs,
    Not,
    Op,
    TimeReached,
)
from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    evaluate,
    find_wake,
    needs,
)
from autoexp_tui.model.facts import (
    ApprovalFact,
    ApprovalKey,
    CommandKey,
    CommandResult,
    Fact,
    FactKey,
    FactValue,
    FileStat,
    FileText,
    FiredKey,
    GlobKey,
    JobKey,
    LogFound,
    LogKey,
    Matches,
    MetadataKey,
    MetricFact,
    MetricKey,
    StatKey,
    TextKey,
)
from autoexp_tui.model.specs import Scalar
from autoexp_tui.model.states import Cause, JobState, Result, Verdict
from tests.conditions.known import NOW, Known, failed_look, job, known, path_and_writer
from tests.model.builders import at

CTX = EvalContext(job="me", waiting_lived=NOW - 100, action="rule/0")
S = JobState


def says(
    spec: Condition,
    values: dict[FactKey, FactValue] | Known,
    now: float = NOW,
    ctx: EvalContext = CTX,
) -> tuple[Result, str]:
    verdict = judged(spec, values, now, ctx)
    return verdict.result, verdict.why.code


def judged(
    spec: Condition,
    values: dict[FactKey, FactValue] | Known,
    now: float = NOW,
    ctx: EvalContext = CTX,
) -> Verdict:
    facts = values if isinstance(values, Known) else known(values)
    return evaluate(spec, facts, at(now), ctx)


# ------------------------------------------------------------------------- files
FILE = FileExists(path="/o/done.txt", writer="w")


def test_a_file_that_is_there_passes() -> None:
    facts: dict[FactKey, FactValue] = {StatKey("/o/done.txt"): FileStat(True, 3)}
    assert says(FILE, facts) == (Result.PASS, "file_there")


def test_a_file_nobody_looked_for_is_waited_for() -> None:
    assert says(FILE, {}) == (Result.WAIT, "not_looked")


def test_a_failed_look_is_no_absence() -> None:
    verdict = judged(FILE, failed_look(StatKey("/o/done.txt")))
    assert (verdict.result, verdict.why.code) == (Result.WAIT, "look_failed")
    assert verdict.why.arg("error") == "Stale file handle"


def test_a_file_that_is_too_small_is_waited_for() -> None:
    spec = FileExists(path="/f", min_size=10)
    facts: dict[FactKey, FactValue] = {StatKey("/f"): FileStat(True, 9)}
    assert says(spec, facts) == (Result.WAIT, "file_small")


def test_any_large_enough_match_of_a_glob_passes() -> None:
    spec = FileExists(path="/o/*.pt", glob=True, min_size=10)
    facts: dict[FactKey, FactValue] = {GlobKey("/o/*.pt"): Matches(("/o/a.pt",), 10)}
    assert says(spec, facts) == (Result.PASS, "file_there")


def test_a_glob_without_matches_waits() -> None:
    spec = FileExists(path="/o/*.pt", glob=True)
    assert says(spec, {GlobKey("/o/*.pt"): Matches()}) == (Result.WAIT, "file_missing")


@pytest.mark.parametrize("state", sorted(S, key=str))
def test_a_file_is_doomed_only_when_its_writer_ended_for_good(state: JobState) -> None:
    ended = state in {S.COMPLETED, S.FAILED, S.CANCELLED, S.SKIPPED, S.LOST}
    facts = path_and_writer("/o/done.txt", job(state, ended_lived=NOW - 60))
    result, code = says(FILE, facts)
    assert result is (Result.FAIL if ended else Result.WAIT)
    assert (code == "doomed_file") == ended


@pytest.mark.parametrize("state", [S.PLANNED, S.HELD])
def test_a_wait_for_a_job_that_nobody_asked_to_run_says_so(state: JobState) -> None:
    held = (Result.WAIT, "upstream_held")
    writer = job(state)
    absent: dict[FactKey, FactValue] = {JobKey("w"): writer}
    assert says(FILE, path_and_writer("/o/done.txt", writer)) == held
    assert says(JobStateIs(jobs=("w",), state="COMPLETED"), absent) == held
    assert says(MetadataIs(key="k", job="w", value=1), absent) == held
    log = LogPattern(log_path="/l", pattern="x", writer="w")
    assert says(log, absent | {log.key: LogFound(files=1)}) == held
    metric = MetricIs(name="loss", job="w", value=1.0)
    assert says(metric, absent) == (Result.WAIT, "metric_held")
    assert says(Not(condition=metric), absent) == (Result.WAIT, "metric_held")


def test_a_file_may_still_appear_within_the_grace() -> None:
    facts = path_and_writer("/o/done.txt", job(S.FAILED, ended_lived=NOW - 59))
    assert says(FILE, facts) == (Result.WAIT, "file_missing")


def test_a_doomed_file_tells_how_its_writer_ended() -> None:
    writer = job(S.FAILED, Cause.OUT_OF_MEMORY, step=31200, ended_lived=NOW - 90)
    verdict = judged(FILE, path_and_writer("/o/done.txt", writer))
    assert dict(verdict.why.args) == {
        "path": "/o/done.txt",
        "writer": "w",
        "state": "FAILED",
        "cause": "out_of_memory",
        "step": 31200,
    }


def test_a_look_from_before_the_writers_end_dooms_nothing() -> None:
    writer = job(S.FAILED, ended_lived=NOW - 90)
    facts = known(path_and_writer("/o/done.txt", writer), at=NOW - 91)
    assert says(FILE, facts) == (Result.WAIT, "file_missing")


@pytest.mark.parametrize(
    ("began", "expected"),
    [
        (NOW - 31, (Result.WAIT, "file_missing")),  # a second before the grace was over
        (NOW - 30, (Result.FAIL, "doomed_file")),
    ],
)
def test_a_file_is_doomed_only_by_a_look_that_began_after_the_grace(
    began: float, expected: tuple[Result, str]
) -> None:
    writer = job(S.FAILED, ended_lived=NOW - 90)
    facts = known(path_and_writer("/o/done.txt", writer), at=began)
    assert says(FILE, facts) == expected


def test_a_doom_that_lacks_a_fresh_look_is_judged_again_soon() -> None:
    writer = job(S.FAILED, ended_lived=NOW - 90)
    facts = known(path_and_writer("/o/done.txt", writer), at=NOW - 31)
    assert find_wake(FILE, facts, at(NOW), CTX) == NOW + 5


def test_a_file_of_an_unknown_writer_is_not_doomed() -> None:
    facts: dict[FactKey, FactValue] = {StatKey("/o/done.txt"): FileStat(False)}
    assert says(FILE, facts) == (Result.WAIT, "file_missing")


def test_a_file_that_is_there_passes_though_its_writer_failed() -> None:
    facts = path_and_writer("/o/done.txt", job(S.FAILED, ended_lived=NOW - 90))
    facts[StatKey("/o/done.txt")] = FileStat(True)
    assert says(FILE, facts)[0] is Result.PASS


@pytest.mark.parametrize(
    ("mode", "pattern", "text", "expected"),
    [
        ("contains", "8000", "at 8000", (Result.PASS, "text_there")),
        ("contains", "8.00", "at 8000", (Result.WAIT, "text_missing")),
        ("regex", r"^\d+$", "a\n8000\n", (Result.PASS, "text_there")),
        ("regex", r"^\d+$", "a 8000", (Result.WAIT, "text_missing")),
        ("regex", "(", "(", (Result.WAIT, "bad_condition")),
        ("regex", "(?=a)b", "ab", (Result.WAIT, "bad_condition")),
        ("contains", "x", None, (Result.WAIT, "file_missing")),
    ],
)
def test_file_content_is_searched(
    mode: str, pattern: str, text: str | None, expected: tuple[Result, str]
) -> None:
    spec = FileContent(
        path="/f", pattern=pattern, mode="regex" if mode == "regex" else "contains"
    )
    key = TextKey("/f", pattern if mode == "regex" else "")
    holds = mode == "regex" and expected[0] is Result.PASS
    assert says(spec, {key: FileText(text, holds=holds)}) == expected


def test_content_that_its_ended_writer_left_out_is_doomed() -> None:
    spec = FileContent(path="/f", pattern="8000", writer="w")
    facts: dict[FactKey, FactValue] = {
        TextKey("/f"): FileText("7000"),
        JobKey("w"): job(S.COMPLETED, ended_lived=NOW - 61),
    }
    assert says(spec, facts) == (Result.FAIL, "doomed_file")


# ------------------------------------------------------------------------ values
@pytest.mark.parametrize(
    ("logged", "op", "wanted", "holds"),
    [
        ("8000", "==", 8000, True),
        ("8000", "==", 8e3, True),
        ("8e3", "==", "8000", True),
        ("9000", ">=", "8000", True),
        ("10000", ">", 9000, True),
        ("7999", ">=", 8000, False),
        ("abc", "==", "abc", True),
        ("abc", "!=", "abd", True),
        ("abc", "<", "abd", False),
        ("abc", "==", 0, False),
        ("True", "==", True, True),
        ("1", "==", True, False),
        ("nan", "==", "nan", False),
        ("nan", "!=", 1, True),
        ("1_000", "==", 1000, False),
        ("0x10", "==", 16, False),
        (" 5 ", "==", 5, True),
        ("", "==", None, True),
        ("9007199254740993", "==", 9007199254740992, False),
        ("9" * 400, ">", 1, True),
    ],
)
def test_metadata_compares_numbers_as_numbers(
    logged: str, op: Op, wanted: Scalar, holds: bool
) -> None:
    spec = MetadataIs(key="k", job="up", op=op, value=wanted)
    code = (Result.PASS, "metadata_ok") if holds else (Result.WAIT, "metadata_is_not")
    assert says(spec, {MetadataKey("up", "k"): logged}) == code


def test_metadata_that_no_log_has_shown_is_waited_for() -> None:
    spec = MetadataIs(key="k", job="up", value=1)
    assert says(spec, {MetadataKey("up", "k"): None}) == (Result.WAIT, "no_metadata")


def test_metadata_without_a_job_is_ones_own() -> None:
    assert says(MetadataIs(key="k", value=1), {MetadataKey("me", "k"): "1"}) == (
        Result.PASS,
        "metadata_ok",
    )


def test_metadata_of_a_job_that_ended_without_it_can_never_come() -> None:
    spec = MetadataIs(key="k", job="up", value=8000)
    facts: dict[FactKey, FactValue] = {
        MetadataKey("up", "k"): "7000",
        JobKey("up"): job(S.FAILED, ended_lived=NOW - 60),
    }
    assert says(spec, facts) == (Result.FAIL, "doomed_value")


def test_a_metric_compares() -> None:
    spec = MetricIs(name="loss", job="up", op="<", value=2.0)
    facts: dict[FactKey, FactValue] = {MetricKey("up", "loss"): MetricFact(1.9, 10)}
    assert says(spec, facts) == (Result.PASS, "metric_ok")


def test_a_metric_is_not_judged_before_its_step() -> None:
    spec = MetricIs(name="loss", job="up", op="<", value=2.0, after_step=11)
    facts: dict[FactKey, FactValue] = {MetricKey("up", "loss"): MetricFact(1.9, 10)}
    assert says(spec, facts) == (Result.WAIT, "metric_early")


def test_a_metric_nobody_has_seen_is_waited_for() -> None:
    assert says(MetricIs(name="loss", value=2.0), {}) == (Result.WAIT, "no_metric")


@pytest.mark.parametrize(
    ("ago", "expected"),
    [(60, (Result.FAIL, "doomed_value")), (59, (Result.WAIT, "no_metric"))],
)
def test_a_metric_that_an_ended_job_never_showed_can_never_come(
    ago: float, expected: tuple[Result, str]
) -> None:
    spec = MetricIs(name="loss", job="up", value=2.0)
    up = job(S.COMPLETED, ended_lived=NOW - ago)
    assert says(spec, {JobKey("up"): up}) == expected


def test_a_metric_goes_by_any_of_its_names() -> None:
    spec = MetricIs(name="lr", op=">", value=0)
    key = MetricKey("me", "learning_rate")
    assert says(spec, {key: MetricFact(1e-4, 1)})[0] is Result.PASS


def test_a_reason_holds_no_number_that_json_lacks() -> None:
    spec = MetricIs(name="loss", op="<", value=2.0)
    facts: dict[FactKey, FactValue] = {
        MetricKey("me", "loss"): MetricFact(float("nan"), 10)
    }
    assert judged(spec, facts).why.arg("value") == "nan"


# -------------------------------------------------------------------------- jobs
@pytest.mark.parametrize(
    ("asked", "state", "cause", "expected"),
    [
        ("COMPLETED", S.COMPLETED, None, (Result.PASS, "job_ok")),
        ("completed", S.COMPLETED, None, (Result.PASS, "job_ok")),
        ("COMPLETED", S.RUNNING, None, (Result.WAIT, "job_waits")),
        ("COMPLETED", S.RETRYING, None, (Result.WAIT, "job_waits")),
        ("COMPLETED", S.FAILED, Cause.TIMEOUT, (Result.FAIL, "upstream")),
        ("COMPLETED", S.LOST, Cause.LOST, (Result.FAIL, "upstream")),
        ("FAILED", S.FAILED, Cause.EXIT_CODE, (Result.PASS, "job_ok")),
        ("FAILED", S.LOST, Cause.LOST, (Result.PASS, "job_ok")),
        ("FAILED", S.COMPLETED, None, (Result.FAIL, "upstream")),
        ("FAILED", S.RUNNING, None, (Result.WAIT, "job_waits")),
        ("TIMEOUT", S.FAILED, Cause.TIMEOUT, (Result.PASS, "job_ok")),
        ("timeout", S.FAILED, Cause.EXIT_CODE, (Result.FAIL, "upstream")),
        ("OUT_OF_MEMORY", S.FAILED, Cause.OUT_OF_MEMORY, (Result.PASS, "job_ok")),
        ("NODE_FAIL", S.FAILED, Cause.NODE_FAIL, (Result.PASS, "job_ok")),
        ("PREEMPTED", S.FAILED, Cause.PREEMPTED, (Result.PASS, "job_ok")),
        ("PREEMPTED", S.RUNNING, None, (Result.WAIT, "job_waits")),
        ("RUNNING", S.RUNNING, None, (Result.PASS, "job_ok")),
        ("RUNNING", S.COMPLETED, None, (Result.FAIL, "upstream")),
        ("DONE", S.COMPLETED, None, (Result.WAIT, "bad_condition")),
    ],
)
def test_a_jobs_state_is_judged(
    asked: str, state: JobState, cause: Cause | None, expected: tuple[Result, str]
) -> None:
    spec = JobStateIs(jobs=("up",), state=asked)
    assert says(spec, {JobKey("up"): job(state, cause)}) == expected


def test_all_named_jobs_must_be_in_the_state() -> None:
    spec = JobStateIs(jobs=("a", "b"), state="COMPLETED")
    facts: dict[FactKey, FactValue] = {
        JobKey("a"): job(S.COMPLETED),
        JobKey("b"): job(S.RUNNING),
    }
    assert says(spec, facts) == (Result.WAIT, "job_waits")


def test_one_job_that_ended_otherwise_decides_for_all() -> None:
    spec = JobStateIs(jobs=("a", "b", "c"), state="COMPLETED")
    facts: dict[FactKey, FactValue] = {
        JobKey("a"): job(S.RUNNING),
        JobKey("c"): job(S.CANCELLED, Cause.USER),
    }
    verdict = judged(spec, facts)
    assert (verdict.result, verdict.why.code) == (Result.FAIL, "upstream")
    assert verdict.why.arg("job") == "c"


def test_an_unknown_job_is_waited_for() -> None:
    spec = JobStateIs(jobs=("a",), state="COMPLETED")
    assert says(spec, {}) == (Result.WAIT, "not_looked")


# ------------------------------------------------------------ commands, logs, time
@pytest.mark.parametrize(
    ("exit_code", "expected"),
    [
        (0, (Result.PASS, "command_ok")),
        (3, (Result.WAIT, "command_failed")),
        (None, (Result.WAIT, "command_error")),
    ],
)
def test_a_command_passes_with_exit_0(
    exit_code: int | None, expected: tuple[Result, str]
) -> None:
    key = CommandKey(("check",), 30.0)
    spec = CommandPasses(command=("check",))
    assert says(spec, {key: CommandResult(exit_code)}) == expected


@pytest.mark.parametrize(
    ("mode", "files", "matched", "expected"),
    [
        ("any", 2, 1, (Result.PASS, "log_matched")),
        ("any", 2, 0, (Result.WAIT, "log_no_match")),
        ("all", 2, 1, (Result.WAIT, "log_no_match")),
        ("all", 2, 2, (Result.PASS, "log_matched")),
        ("all", 0, 0, (Result.WAIT, "log_no_files")),
    ],
)
def test_logs_have_the_pattern(
    mode: str, files: int, matched: int, expected: tuple[Result, str]
) -> None:
    spec = LogPattern(
        log_path="/l/*.log",
        pattern="done",
        glob=True,
        check_mode="all" if mode == "all" else "any",
    )
    key = LogKey("/l/*.log", "done", True, spec.check_mode, spec.tail_bytes)
    assert says(spec, {key: LogFound(files, matched, "done", "/l/a.log")}) == expected


LOG = LogPattern(log_path="/l/up/current.log", pattern="done", writer="up")


@pytest.mark.parametrize(
    ("ended_ago", "seen_at", "expected"),
    [
        (60, NOW, (Result.FAIL, "doomed_log")),
        (59, NOW, (Result.WAIT, "log_no_match")),
        (60, NOW - 61, (Result.WAIT, "log_no_match")),
        (90, NOW - 31, (Result.WAIT, "log_no_match")),
        (90, NOW - 30, (Result.FAIL, "doomed_log")),
    ],
)
def test_a_log_is_not_waited_for_when_its_writer_has_ended_and_it_was_read_since(
    ended_ago: float, seen_at: float, expected: tuple[Result, str]
) -> None:
    key = LogKey(LOG.log_path, "done", False, "any", LOG.tail_bytes)
    up = job(S.FAILED, ended_lived=NOW - ended_ago)
    facts = Known({key: Fact(LogFound(1, 0), seen_at), JobKey("up"): Fact(up, NOW)})
    verdict = evaluate(LOG, facts, at(NOW), CTX)
    assert (verdict.result, verdict.why.code) == expected


def test_a_log_that_has_the_pattern_passes_whatever_became_of_its_writer() -> None:
    key = LogKey(LOG.log_path, "done", False, "any", LOG.tail_bytes)
    facts: dict[FactKey, FactValue] = {
        key: LogFound(1, 1, "done", LOG.log_path),
        JobKey("up"): job(S.FAILED, ended_lived=NOW - 60),
    }
    assert says(LOG, facts) == (Result.PASS, "log_matched")


def test_a_wait_for_a_job_tells_no_state_that_goes_stale() -> None:
    told = judged(
        JobStateIs(jobs=("up",), state="COMPLETED"), {JobKey("up"): job(S.RUNNING)}
    )
    assert dict(told.why.args) == {"job": "up", "wanted": "COMPLETED"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (TimeReached(at=NOW), (Result.PASS, "time_reached")),
        (TimeReached(at=NOW + 1), (Result.WAIT, "time_until")),
        (TimeReached(after_seconds=100), (Result.PASS, "time_reached")),
        (TimeReached(after_seconds=101), (Result.WAIT, "time_until")),
        (TimeReached(after_seconds=1, at=NOW + 1), (Result.WAIT, "time_until")),
        (TimeReached(), (Result.PASS, "time_reached")),
    ],
)
def test_a_time_is_reached(spec: TimeReached, expected: tuple[Result, str]) -> None:
    assert says(spec, {}) == expected


def test_a_span_of_waiting_does_not_pass_while_nothing_waits() -> None:
    spec = TimeReached(after_seconds=0)
    expected = (Result.WAIT, "time_unset")
    assert says(spec, {}, ctx=EvalContext(job="me")) == expected


# -------------------------------------------------------------- people and counts
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ApprovalFact(None), (Result.WAIT, "asks_you")),
        (ApprovalFact(True, "ann"), (Result.PASS, "approved")),
        (ApprovalFact(False, "ann", "no"), (Result.FAIL, "refused")),
    ],
)
def test_an_approval_is_the_persons_word(
    answer: ApprovalFact, expected: tuple[Result, str]
) -> None:
    assert says(Approval(), {ApprovalKey("me"): answer}) == expected


def test_an_approval_that_was_not_asked_yet_waits() -> None:
    assert says(Approval(), {}) == (Result.WAIT, "asks_later")


@pytest.mark.parametrize(
    ("on_timeout", "asked_at", "expected"),
    [
        ("hold", NOW - 50, (Result.WAIT, "asks_you")),
        ("reject", NOW - 50, (Result.FAIL, "approval_timeout")),
        ("reject", NOW - 49, (Result.WAIT, "asks_you")),
    ],
)
def test_an_approvals_timeout_counts_from_when_it_was_asked(
    on_timeout: str, asked_at: float, expected: tuple[Result, str]
) -> None:
    spec = Approval(
        timeout_seconds=50, on_timeout="reject" if on_timeout == "reject" else "hold"
    )
    ctx = EvalContext(job="me", waiting_lived=0.0, asked_lived=asked_at)
    assert says(spec, {ApprovalKey("me"): ApprovalFact(None)}, ctx=ctx) == expected


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [(1, (Result.PASS, "attempts_left")), (2, (Result.FAIL, "attempts_spent"))],
)
def test_attempts_are_counted(attempts: int, expected: tuple[Result, str]) -> None:
    facts: dict[FactKey, FactValue] = {JobKey("me"): job(S.FAILED, attempts=attempts)}
    assert says(MaxAttempts(max_attempts=2), facts) == expected


@pytest.mark.parametrize(
    ("fired", "expected"),
    [
        (None, (Result.PASS, "cooled_down")),
        (NOW - 60, (Result.PASS, "cooled_down")),
        (NOW - 59, (Result.WAIT, "cooling_down")),
    ],
)
def test_a_cooldown_counts_from_when_the_action_fired(
    fired: float | None, expected: tuple[Result, str]
) -> None:
    spec = Cooldown(cooldown_seconds=60)
    assert says(spec, {FiredKey("me", "rule/0"): fired}) == expected


def test_a_cooldown_says_until_when_it_waits() -> None:
    facts: dict[FactKey, FactValue] = {FiredKey("me", "rule/0"): NOW - 1}
    assert judged(Cooldown(cooldown_seconds=60), facts).why.arg("until") == NOW + 59


# ----------------------------------------------------------------------- timeouts
def test_waiting_too_long_fails() -> None:
    spec = FileExists(path="/f", timeout_seconds=100)
    verdict = judged(spec, {StatKey("/f"): FileStat(False)})
    assert (verdict.result, verdict.why.code) == (Result.FAIL, "start_timeout")
    assert dict(verdict.why.args) == {"seconds": 100, "what": "/f"}


def test_waiting_too_long_keeps_what_was_seen_last() -> None:
    spec = CommandPasses(command=("x",), timeout_seconds=100)
    seen = CommandResult(None, "cannot start: no such file")
    verdict = judged(spec, {CommandKey(("x",), 30.0): seen})
    assert verdict.why.arg("seen") == (
        "command did not run: cannot start: no such file"
    )


def test_a_timeout_tells_what_was_waited_for_in_the_users_words() -> None:
    spec = TimeReached(at=NOW + 9, timeout_seconds=1, description="the night")
    assert judged(spec, {}).why.arg("what") == "the night"


def test_waiting_ends_not_before_its_time() -> None:
    spec = FileExists(path="/f", timeout_seconds=100.5)
    assert says(spec, {StatKey("/f"): FileStat(False)})[0] is Result.WAIT


def test_no_timeout_runs_while_nothing_waits() -> None:
    spec = FileExists(path="/f", timeout_seconds=0)
    facts: dict[FactKey, FactValue] = {StatKey("/f"): FileStat(False)}
    assert says(spec, facts, ctx=EvalContext(job="me"))[0] is Result.WAIT


def test_what_nobody_looked_at_does_not_time_out() -> None:
    spec = FileExists(path="/f", timeout_seconds=1)
    assert says(spec, {}) == (Result.WAIT, "not_looked")


def test_what_came_at_last_passes_after_its_time() -> None:
    spec = FileExists(path="/f", timeout_seconds=1)
    assert says(spec, {StatKey("/f"): FileStat(True)})[0] is Result.PASS


# -------------------------------------------------------------------- composition
YES = TimeReached(at=0.0)
NOT_YET = TimeReached(at=NOW + 10)
NEVER = MaxAttempts(max_attempts=0)
PASSING = MaxAttempts(max_attempts=1000)
"""Holds now, and may cease to."""
UNSEEN = FileExists(path="/unseen")
OWN: dict[FactKey, FactValue] = {JobKey("me"): job(S.WAITING)}


@pytest.mark.parametrize(
    ("mode", "parts", "expected"),
    [
        ("all", (YES, YES), (Result.PASS, "all_hold")),
        ("all", (), (Result.PASS, "all_hold")),
        ("all", (YES, NOT_YET), (Result.WAIT, "time_until")),
        ("all", (UNSEEN, NOT_YET), (Result.WAIT, "time_until")),
        ("all", (NOT_YET, NEVER), (Result.FAIL, "attempts_spent")),
        ("all", (UNSEEN, NEVER), (Result.FAIL, "attempts_spent")),
        ("any", (NOT_YET, YES), (Result.PASS, "time_reached")),
        ("any", (NEVER, YES), (Result.PASS, "time_reached")),
        ("any", (NOT_YET, UNSEEN), (Result.WAIT, "not_looked")),
        ("any", (NEVER, NOT_YET), (Result.WAIT, "time_until")),
        ("any", (NEVER, NEVER), (Result.FAIL, "attempts_spent")),
        ("any", (), (Result.FAIL, "none_holds")),
    ],
)
def test_conditions_compose(
    mode: str, parts: tuple[Condition, ...], expected: tuple[Result, str]
) -> None:
    spec = Composite(mode="any" if mode == "any" else "all", conditions=parts)
    assert says(spec, OWN) == expected


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (YES, (Result.FAIL, "is_so")),
        (PASSING, (Result.WAIT, "is_so")),
        (Not(condition=PASSING), (Result.PASS, "not_so")),
        (Not(condition=NOT_YET), (Result.WAIT, "is_so")),
        (Not(condition=NEVER), (Result.FAIL, "is_so")),
        (Composite(conditions=(YES, PASSING)), (Result.WAIT, "is_so")),
        (Composite(conditions=(YES, YES)), (Result.FAIL, "is_so")),
        (
            Composite(mode="any", conditions=(NOT_YET, YES, PASSING)),
            (Result.FAIL, "is_so"),
        ),
        (Composite(mode="any", conditions=(PASSING,)), (Result.WAIT, "is_so")),
        (JobStateIs(jobs=("me",), state="waiting"), (Result.WAIT, "is_so")),
        (NEVER, (Result.PASS, "not_so")),
        (NOT_YET, (Result.PASS, "not_so")),
        (UNSEEN, (Result.WAIT, "not_looked")),
        (MetricIs(name="loss", value=1.0), (Result.WAIT, "no_metric")),
        (Composite(conditions=(UNSEEN, NOT_YET)), (Result.PASS, "not_so")),
    ],
)
def test_not_turns_answers_around_and_leaves_the_unknown(
    inner: Condition, expected: tuple[Result, str]
) -> None:
    assert says(Not(condition=inner), OWN) == expected


def test_a_job_s_end_stays_and_so_does_what_was_logged() -> None:
    facts: dict[FactKey, FactValue] = {JobKey("up"): job(S.COMPLETED)}
    ended = Not(condition=JobStateIs(jobs=("up",), state="COMPLETED"))
    assert says(ended, facts) == (Result.FAIL, "is_so")


def test_what_may_cease_is_waited_for_until_its_time_is_over() -> None:
    facts: dict[FactKey, FactValue] = {StatKey("/f"): FileStat(True)}
    patient = Not(condition=FileExists(path="/f"), timeout_seconds=1000)
    assert says(patient, facts) == (Result.WAIT, "is_so")
    hasty = Not(condition=FileExists(path="/f"), timeout_seconds=1)
    assert says(hasty, facts) == (Result.FAIL, "start_timeout")


def test_conditions_that_hold_together_are_named() -> None:
    parts = tuple(TimeReached(at=0.0, description=f"night {n}") for n in range(6))
    assert judged(Composite(conditions=parts), OWN).why.arg("what") == (
        "night 0, night 1, night 2, night 3, 2 more"
    )


def test_a_part_that_does_not_block_does_not_count() -> None:
    shown = TimeReached(at=NOW + 10, blocking=False)
    assert says(Composite(conditions=(YES, shown)), OWN)[0] is Result.PASS


def test_a_part_that_does_not_block_makes_no_alternative_true() -> None:
    shown = TimeReached(at=0.0, blocking=False)
    spec = Composite(mode="any", conditions=(NOT_YET, shown))
    assert says(spec, OWN)[0] is Result.WAIT


def test_a_condition_that_does_not_block_still_says_what_is_so() -> None:
    assert says(TimeReached(at=NOW + 1, blocking=False), {})[0] is Result.WAIT


# ----------------------------------------------------------------- needs, wake_at
def test_a_condition_needs_its_file_and_its_writer() -> None:
    assert needs(FILE, "me") == {StatKey("/o/done.txt"), JobKey("w")}


def test_needs_go_through_composition() -> None:
    spec = Composite(conditions=(UNSEEN, Not(condition=MaxAttempts(max_attempts=1))))
    assert needs(spec, "me") == {StatKey("/unseen"), JobKey("me")}


@pytest.mark.parametrize(
    ("spec", "facts", "expected"),
    [
        (YES, {}, None),
        (NOT_YET, {}, NOW + 10),
        (TimeReached(after_seconds=150), {}, NOW + 50),
        (FileExists(path="/f", timeout_seconds=130), {}, NOW + 30),
        (FileExists(path="/f", timeout_seconds=100), {}, None),
        (Cooldown(cooldown_seconds=60), {FiredKey("me", "rule/0"): NOW}, NOW + 60),
        (
            FILE,
            path_and_writer("/o/done.txt", job(S.FAILED, ended_lived=NOW - 10)),
            NOW + 50,
        ),
        (Composite(conditions=(NOT_YET, TimeReached(at=NOW + 5))), {}, NOW + 5),
        (Not(condition=NOT_YET), {}, NOW + 10),
        (Approval(timeout_seconds=130), {}, None),
        (Approval(timeout_seconds=130, on_timeout="reject"), {}, NOW + 30),
    ],
)
def test_the_next_moment_of_change_is_known(
    spec: Condition, facts: dict[FactKey, FactValue], expected: float | None
) -> None:
    assert find_wake(spec, known(facts), at(NOW), CTX) == expected
