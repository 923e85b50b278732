"""Which executor a plan's `slurm.client.class_name` names, and with what settings."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoexp_tui.engine.executor_port import Executor
from autoexp_tui.engine.ports import EvidenceSource, TerminationContext
from autoexp_tui.executors.local.executor import (
    FOREIGN_LOST_SECONDS,
    LocalExecutor,
    build_local_settings,
    count_cpus,
    list_gpus,
)
from autoexp_tui.executors.local.start import LocalSettings
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.specs import Plan
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.probes.pools import ThreadPool
from autoexp_tui.storage.atomic import MODES
from autoexp_tui.storage.session_dir import SessionDir

if TYPE_CHECKING:
    from autoexp_tui.executors.slurm.executor import SlurmSettings

_LOCAL = frozenset({"LocalClient", "LocalCommandClient", "Local", "LocalCommand"})
_SLURM = frozenset({"SlurmClient", "Slurm"})


def find_offer(plan: Plan) -> tuple[int, int | None]:
    """How many tasks at a time the plan's executor has room for, 0 where that is not
    known, and GPUs; None: not known. No program is asked."""
    limit = plan.executor.max_parallel
    if plan.executor.class_name not in _LOCAL:
        return limit, None
    slots = _read_slots(plan) or count_cpus()
    return min(limit or slots, slots), len(list_gpus())


def _read_slots(plan: Plan) -> int:
    """The slots that the plan asks for; 0: as many as there are CPUs."""
    slots = plan.executor.settings.get("slots")
    return slots if isinstance(slots, int) else 0


def require_executor(plan: Plan) -> None:
    """Refuse a plan whose executor this version does not have; raises UsageError."""
    if plan.executor.class_name not in _LOCAL | _SLURM:
        raise UsageError(
            f"no executor {plan.executor.class_name!r} in this version",
            "slurm.client.class_name",
            "SlurmClient sends jobs to a cluster (slurm=generic); LocalClient runs "
            "them on this machine: slurm=local, or --local.",
        )


def is_for_slurm(plan: Plan) -> bool:
    """Whether the plan's jobs go to a cluster."""
    return plan.executor.class_name in _SLURM


def make_executor(plan: Plan, session: SessionDir) -> Executor:
    """The executor that the plan asks for; raises UsageError."""
    require_executor(plan)
    clock = SystemClock()
    if not is_for_slurm(plan):
        slots_dir = str(plan.executor.settings.get("slots_dir") or "")
        if slots_dir:
            slots_dir = os.path.abspath(os.path.expanduser(slots_dir))
        wrapper, slots = session.scripts / "wrapper.py", _read_slots(plan)
        local = build_local_settings(wrapper, slots=slots, slots_dir=slots_dir)
        numbers = read_numbers(plan, "grace_seconds")
        return LocalExecutor(replace(local, modes=MODES[plan.share], **numbers), clock)
    from autoexp_tui.executors.slurm.commands import ClusterCommands
    from autoexp_tui.executors.slurm.executor import SlurmExecutor

    settings = slurm_settings(plan, session)
    questions = ThreadPool("slurm", 1)
    executor = SlurmExecutor(settings, ClusterCommands(), clock, questions)
    executor.learn()
    return executor


def make_beside(plan: Plan, session: SessionDir) -> LocalExecutor:
    """Who runs what the plan's policies put beside: on this host, without a slot."""
    settings = LocalSettings(
        wrapper=session.scripts / "wrapper.py",
        python=sys.executable,
        foreign_lost_seconds=FOREIGN_LOST_SECONDS,
        modes=MODES[plan.share],
        **read_numbers(plan, "grace_seconds"),
    )
    return LocalExecutor(settings, SystemClock())


def find_beside_parallel(plan: Plan) -> int:
    """How many jobs run beside at a time: what the plan says, else one a CPU."""
    return int(
        read_numbers(plan, "beside_parallel").get("beside_parallel") or count_cpus()
    )


def make_evidence(plan: Plan, session: SessionDir) -> EvidenceSource:
    """Who looks at runs of the plan that a rule ends; raises EnvironmentFailed."""
    from autoexp_tui.executors import diagnostics
    from autoexp_tui.executors.slurm.commands import ClusterCommands

    probe = diagnostics.install_probe(session.scripts)
    look_here = partial(diagnostics.look_here, probe)
    if not is_for_slurm(plan):
        return diagnostics.Evidence(look_here)
    python = str(plan.executor.settings.get("python") or sys.executable)
    look_there = partial(diagnostics.look_by_srun, probe, python, ClusterCommands())

    def look(termination: TerminationContext, seconds: float) -> str:
        is_here = termination.task.place == "beside"
        return (look_here if is_here else look_there)(termination, seconds)

    return diagnostics.Evidence(look)


def slurm_settings(plan: Plan, session: SessionDir) -> SlurmSettings:
    """How a session of `plan` uses its cluster; what it does not set has its default;
    raises UsageError where the template cannot be read, or would start nothing."""
    from autoexp_tui.executors.slurm.executor import LARGEST_ARRAY, SlurmSettings
    from autoexp_tui.executors.slurm.script import read_template
    from autoexp_tui.executors.slurm.submit import SubmitSettings
    from autoexp_tui.executors.slurm.watch import Rhythm

    settings = plan.executor.settings
    texts = {key: str(value) for key, value in settings.items()}
    template = texts.get("template_path", "")
    read_template(template)
    submit = SubmitSettings(
        wrapper=session.scripts / "wrapper.py",
        python=texts.get("python", sys.executable),
        scripts=Path(texts.get("script_dir") or session.scripts).absolute(),
        array_logs=Path(texts.get("log_dir", "logs")).absolute() / ".arrays",
        template_path=template,
        launcher=find_launcher(plan),
        modes=MODES[plan.share],
        throttle=int(read_numbers(plan, "array_throttle").get("array_throttle", 0)),
        **read_numbers(
            plan, "grace_seconds", "submit_seconds", "record_patience_seconds"
        ),
    )
    polls = read_numbers(plan, "poll_seconds", "slowest_poll_seconds")
    first = polls.get("poll_seconds", Rhythm().first)
    latest = max(first, polls.get("slowest_poll_seconds", Rhythm().latest))
    asks = ("ask_seconds", "settle_seconds", "patience_seconds", "lost_seconds")
    return SlurmSettings(
        submit=submit,
        rhythm=Rhythm(first=first, latest=latest),
        array_size=int(texts.get("array_size", LARGEST_ARRAY)),
        **read_numbers(plan, *asks),
    )


def find_launcher(plan: Plan) -> tuple[str, ...]:
    """What stands in front of a command: `srun` with its options, then the launcher.

    Options without a launcher mean srun; a launcher that is srun takes them itself.
    """
    from autoexp_tui.executors.slurm.script import is_srun

    settings = plan.executor.settings
    words = shlex.split(str(settings.get("launcher_cmd") or ""))
    options = shlex.split(str(settings.get("srun_opts") or ""))
    if words and is_srun(words[0]):
        return (words[0], *options, *words[1:])
    return (*(["srun", *options] if options else []), *words)


def read_numbers(plan: Plan, *keys: str) -> dict[str, Any]:
    """Those of the executor's settings that the plan sets to a number."""
    values = {key: plan.executor.settings.get(key) for key in keys}
    return {k: float(v) for k, v in values.items() if isinstance(v, int | float)}
