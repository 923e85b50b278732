"""Hands a submission to sbatch: what must lie on disk first, and what sbatch answers.

Every task has a task file, `<scripts>/<token>/<index>.json`; a script starts the
wrapper with it. All of that is written before sbatch is run, and is the same when the
submission is sent again: its claim then stops the second start.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Final

from autoexp_tui.engine import executor_port as port
from autoexp_tui.engine.ports import Clock
from autoexp_tui.engine.report_reducer import name_signal
from autoexp_tui.executors.local.start import build_task_fields
from autoexp_tui.executors.slurm.commands import Commands, Ran
from autoexp_tui.executors.slurm.refusals import (
    Refusal,
    detect_refusal,
    is_count_limit,
    parse_refusal,
)
from autoexp_tui.executors.slurm.script import (
    build_sbatch_arguments,
    build_values,
    format_launcher,
    read_template,
    render,
    with_grace,
)
from autoexp_tui.executors.slurm.text import (
    extract_complaint,
    format_queue_name,
    make_task_ids,
    parse_sbatch,
)
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.states import Cause
from autoexp_tui.storage.atomic import (
    PRIVATE,
    Modes,
    explaining,
    make_private,
    write_atomic,
)

RECORD_PATIENCE: Final = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitSettings:
    """How tasks are handed over."""

    wrapper: Path
    """On a file system that the compute nodes see."""
    python: str
    """The interpreter of the wrapper on compute nodes: 3.6 or newer."""
    scripts: Path
    """Holds a directory a submission, with its script and task files."""
    array_logs: Path
    """Where Slurm writes of arrays' tasks: `<log_dir>/.arrays`."""
    template_path: str = ""
    """Of a script of the user's own; empty: ours."""
    launcher: tuple[str, ...] = ()
    """Words in front of every command: `srun`, a container's exec."""
    grace_seconds: float = 60.0
    """Between asking a task to end and killing it."""
    gpu_seconds: float = 30.0
    record_patience_seconds: float = RECORD_PATIENCE
    """For which a job holds its node to write its exit record."""
    submit_seconds: float = 60.0
    """The time limit of an sbatch; one that ran longer is in doubt."""
    throttle: int = 0
    """Tasks of one array at a time; 0: no limit."""
    modes: Modes = PRIVATE
    """Of logs and their directories."""


def send(
    submission: port.Submission,
    settings: SubmitSettings,
    commands: Commands,
    clock: Clock,
) -> port.SubmitAnswer:
    """Write what is needed, and run sbatch once."""
    try:
        arguments = _prepare(submission, settings)
    except AutoexpError as error:
        return port.not_prepared(error)
    limit = settings.submit_seconds
    ran = commands.run(arguments, limit)
    if ran.missing:
        return port.Rejected(
            message=ran.missing, cause=Cause.SUBMIT_ERROR, sent=ran.sent
        )
    if ran.timed_out:
        return port.Uncertain(message=ran.explain(limit), sent=ran.sent)
    if not ran.ok:
        return _resolve_refusal(ran, submission)
    try:
        job_id = parse_sbatch(ran.stdout)
    except ValueError as error:
        return port.Uncertain(message=str(error), sent=ran.sent)
    return port.Accepted(
        executor_ids=make_task_ids(job_id, len(submission.tasks)),
        submitted_at=clock.utc(),
        sent=ran.sent,
        said=f"Submitted batch job {job_id}",
    )


def _prepare(submission: port.Submission, settings: SubmitSettings) -> tuple[str, ...]:
    """All on disk that a submission needs; sbatch's words; raises AutoexpError."""
    tasks, place = submission.tasks, settings.scripts / submission.token
    # Slurm writes beside the job's other logs, or for an array apart.
    log_dirs = Path(tasks[0].log_dir), settings.array_logs / submission.token
    home = log_dirs[len(tasks) > 1].absolute()
    with explaining(place, "make the directory of scripts", "state"):
        make_private(place)
    with explaining(home, "make the directory of logs", "logs"):
        make_private(home, settings.modes.directory)
    for index, task in enumerate(tasks):
        with explaining(task.attempt_dir, "make the attempt's directory", "state"):
            make_private(Path(task.attempt_dir))
        with explaining(task.log_dir, "make the directory of logs", "logs"):
            make_private(Path(task.log_dir), settings.modes.directory)
        fields = json.dumps(_build_task(submission, settings, index, home))
        write_atomic(place / f"{index}.json", fields.encode())
    name = _format_name(submission)
    launcher = format_launcher(
        settings.python, str(settings.wrapper.absolute()), str(place.absolute())
    )
    values = build_values(tasks[0], launcher, name=name, session=submission.session)
    text = render(read_template(settings.template_path), values)
    write_atomic(place / "job.sh", text.encode(), mode=0o700)
    # The log as the wrapper names it, in a path where Slurm replaces nothing else.
    log = "slurm-%j.out" if len(tasks) == 1 else "slurm-%A_%a.out"
    return build_sbatch_arguments(
        name=format_queue_name(name, submission.token),
        output=f"{str(home).replace('%', '%%')}/{log}",
        script=str(place / "job.sh"),
        options=tasks[0].resources.options,
        count=len(tasks),
        throttle=settings.throttle,
    )


def _build_task(
    submission: port.Submission, settings: SubmitSettings, index: int, home: Path
) -> Mapping[str, object]:
    task = submission.tasks[index]
    return {
        **build_task_fields(task),
        "v": 1,
        "command": [*with_grace((*settings.launcher, *task.command))],
        "token": submission.token,
        "nonce": submission.token,
        "index": index,
        "session": submission.session,
        "submitter": os.uname().nodename,
        "grace_seconds": settings.grace_seconds,
        "gpu_seconds": settings.gpu_seconds,
        "log_mode": settings.modes.file,
        "record_patience": settings.record_patience_seconds,
        "log_home": str(home) if len(submission.tasks) > 1 else "",
    }


def _format_name(submission: port.Submission) -> str:
    """The job's name; of an array, what the end of its tasks' names has in common."""
    names = [task.job for task in submission.tasks]
    if len(names) == 1:
        return names[0]
    columns = zip(*(reversed(name) for name in names), strict=False)
    shared = takewhile(lambda letters: len(set(letters)) == 1, columns)
    common = "".join(letters[0] for letters in shared)[::-1]
    whole = common if common in names else common.partition("_")[2]
    return whole.strip("_-.") or "array"


_SHELL_ADDS: Final = 128
"""What a shell around sbatch adds to the number of the signal that killed it."""


def _resolve_refusal(ran: Ran, submission: port.Submission) -> port.SubmitAnswer:
    """What a failed sbatch means; one that may have got through first is in doubt."""
    message = extract_complaint(ran.stderr or ran.stdout)
    status = ran.status or 0
    killed_by = -status if status < 0 else status - _SHELL_ADDS
    if 0 < killed_by <= signal.SIGRTMAX:
        problem = f"sbatch was killed by {name_signal(killed_by)}"
        return port.Uncertain(message=problem, sent=ran.sent)
    with suppress(ValueError):
        parse_sbatch(ran.stdout)
        problem = f"sbatch named a job, yet failed: {message}"
        return port.Uncertain(message=problem, sent=ran.sent)
    match detect_refusal(ran.stderr):
        case Refusal.PASSING:
            fewer = is_count_limit(ran.stderr)
            return port.Busy(message=message, sent=ran.sent, fewer=fewer)
        case Refusal.UNREACHABLE:
            return port.Busy(message=message, sent=ran.sent, unreachable=True)
        case Refusal.UNKNOWN:
            return port.Unexplained(message=message, sent=ran.sent)
        case Refusal.DOUBT:
            return port.Uncertain(message=message, sent=ran.sent)
        case Refusal.LASTING:
            asked = submission.tasks[0].resources.options
            return port.Rejected(
                message=parse_refusal(message, asked).line, sent=ran.sent
            )
