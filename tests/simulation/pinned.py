"""One small campaign, written out: its ends do not depend on when who looks.

Drawn plans change whenever the drawing does. Here every way to end is there once: a
family that goes well but for one crash, and one whose first job fails for good.
"""

from __future__ import annotations

from autoexp_tui.actions.notify import Notify
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import (
    Approval,
    Cooldown,
    FileExists,
    JobStateIs,
    MaxAttempts,
    MetadataIs,
)
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec, Plan
from tests.model.builders import job, plan
from tests.support.fake_script import RunScript, Write
from tests.support.sim_scripts import Scripts

DONE = "/out/{}/done.txt"

SAVED = LogEvent(
    name="saved",
    pattern=r"saved checkpoint (?P<n>\d+)",
    pattern_type="regex",
    extract_groups={"checkpoint": "n"},
)
FATAL = LogEvent(name="fatal", pattern="FATAL", actions=(Notify(message="{line}"),))
AGAIN = Restart(
    reason="crashed",
    conditions=(MaxAttempts(max_attempts=2), Cooldown(cooldown_seconds=5.0)),
)


def family(number: int) -> tuple[JobSpec, JobSpec, JobSpec]:
    """Train, cool down, evaluate: by a file and metadata, then by the state."""
    stable, cool, last = f"stable{number}", f"cool{number}", f"eval{number}"
    return (
        job(stable, 3 * number, stage="stable"),
        job(
            cool,
            3 * number + 1,
            stage="cool",
            depends_on=(stable,),
            start_conditions=(
                FileExists(path=DONE.format(stable), writer=stable),
                MetadataIs(key="checkpoint", job=stable, op=">=", value=80),
            ),
            cancel_conditions=(JobStateIs(jobs=(stable,), state="FAILED"),),
        ),
        job(
            last,
            3 * number + 2,
            stage="eval",
            depends_on=(cool,),
            start_conditions=(JobStateIs(jobs=(cool,), state="COMPLETED"),),
        ),
    )


def make_plan() -> Plan:
    """Two families, and a report on the first."""
    report = job(
        "report",
        6,
        stage="report",
        depends_on=("eval0",),
        start_conditions=(
            JobStateIs(jobs=("eval0",), state="COMPLETED"),
            Approval(prompt="go on?"),
        ),
    )
    rules = Monitoring(
        log_events=(SAVED, FATAL),
        state_events=(StateEvent(name="crash", state="crash", actions=(AGAIN,)),),
        doomed_grace_seconds=10.0,
    )
    return plan(*family(0), *family(1), report, monitoring=rules)


def make_scripts() -> Scripts:
    """The first family goes well, once put back into the queue; the second does not."""
    saves = (
        _says(4.0, "iteration 50/100 | lm loss: 2.5\nsaved checkpoint 50"),
        _says(8.0, "iteration 80/100 | lm loss: 2.2\nsaved checkpoint 80"),
        Write(at=8.0, data=b"done", path=DONE.format("stable0")),
    )
    well = RunScript(seconds=6.0)
    crash = RunScript(seconds=3.0, exit_code=1, writes=(_says(2.0, "FATAL it broke"),))
    return {
        "stable0": [[RunScript(seconds=10.0, writes=saves)]],
        "cool0": [[RunScript(seconds=4.0, ends="requeue"), well]],
        "eval0": [[crash], [RunScript(seconds=5.0, record_lag=3.0)]],
        "stable1": [[crash], [crash]],
        "cool1": [[well]],
        "eval1": [[well]],
        "report": [[well]],
    }


def _says(at: float, text: str) -> Write:
    return Write(at=at, data=f"{text}\n".encode())
