"""What Slurm said before a run was seen to begin, or to end, says nothing of it."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.adapters.identity import Identity
from autoexp_tui.adapters.records import AttemptRecords, Run
from autoexp_tui.adapters.slurm_text import QueueRow, raw_state
from autoexp_tui.adapters.slurm_truth import Evidence, report
from autoexp_tui.core.states import Cause
from autoexp_tui.engine.ports import BeginRecord, ExitRecord, Task, TaskPhase

TASK = Task(
    job="a",
    attempt=1,
    command=("true",),
    output_dir="/o",
    log_dir="/l",
    attempt_dir="/a",
    token="t",
    executor_id="7",
)
ROW = QueueRow(
    id="7",
    raw_id="7",
    state=raw_state("PENDING"),
    reason="BeginTime",
    nodes="",
    partition="main",
    starts_at=None,
    submitted_at=1.0,
    name="a-t",
)
BEGUN = Run(
    began=BeginRecord(run=0, began_at=5.0, executor_id="7"),
    process=Identity.of_this_process(),
)
ENDED = replace(BEGUN, exited=ExitRecord(run=0, ended_at=9.0, exit_code=0))


def seen(run: Run, *, answered: bool, over_for: float = 0.0) -> Evidence:
    return Evidence(
        task=TASK,
        records=AttemptRecords(run=run),
        row=ROW,
        answered=answered,
        over_for=over_for,
    )


def test_a_begun_run_is_not_requeued_by_a_word_that_is_older_than_it() -> None:
    found = report(seen(BEGUN, answered=False))
    assert (found.phase, found.requeued) == (TaskPhase.RUNNING, False)


def test_a_begun_run_that_the_queue_has_back_is_requeued() -> None:
    found = report(seen(BEGUN, answered=True))
    assert (found.phase, found.requeued) == (TaskPhase.QUEUED, True)


def test_an_ended_run_that_the_queue_has_back_has_not_ended() -> None:
    found = report(seen(ENDED, answered=True))
    assert (found.phase, found.exited, found.requeued) == (TaskPhase.QUEUED, None, True)


def test_an_ended_run_is_judged_although_an_old_word_has_it_queued() -> None:
    found = report(seen(ENDED, answered=False, over_for=20.0))
    assert found.phase is TaskPhase.ENDED
    assert found.exited is not None


def test_a_job_that_was_cancelled_before_it_had_a_node_has_ended_at_once() -> None:
    gone = Evidence(
        task=TASK,
        records=AttemptRecords(),
        row=replace(ROW, state=raw_state("CANCELLED by 0")),
        gone_for=0.1,
    )
    found = report(gone)
    assert (found.phase, found.cause) == (TaskPhase.ENDED, Cause.USER)
    assert found.gone_for >= gone.lost_after
