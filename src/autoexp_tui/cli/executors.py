"""Which executor a plan's `slurm.client.class_name` names."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.engine.executor_port import Executor
from autoexp_tui.engine.ports import EvidenceSource
from autoexp_tui.executors.local.executor import (
    LocalExecutor,
    default_slots,
    local_settings,
    visible_gpus,
)
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.specs import Plan
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sharing import MODES

if TYPE_CHECKING:
    from autoexp_tui.executors.slurm.executor import SlurmSettings

LOCAL_NAMES = frozenset({"Local", "LocalCommand"})
SLURM_NAMES = frozenset({"Slurm"})
"""Accepted names, without the suffix `Client`."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What an executor has room for."""

    slots: int = 0
    """Tasks at a time; 0: no limit, or none known."""
    gpus: int | None = None
    """None: not known."""


def offer_of(plan: Plan) -> Offer:
    """What the plan's executor offers, as far as a quick look tells.

    Devices are counted by their names; no program is asked.
    """
    if plan.executor.class_name.removesuffix("Client") not in LOCAL_NAMES:
        return Offer(slots=plan.executor.max_parallel)
    limits = (plan.executor.max_parallel, _slots_of(plan) or default_slots())
    return Offer(min(limit for limit in limits if limit), len(visible_gpus()))


def _slots_of(plan: Plan) -> int:
    """The slots that the plan asks for; 0: as many as there are CPUs."""
    slots = plan.executor.settings.get("slots")
    return slots if isinstance(slots, int) else 0


def require_executor(plan: Plan) -> None:
    """Refuse a plan whose executor this version does not have.

    Raises:
        UsageError: says which there are.
    """
    if _name_of(plan) not in LOCAL_NAMES | SLURM_NAMES:
        raise UsageError(
            f"no executor {plan.executor.class_name!r} in this version",
            "slurm.client.class_name",
            "SlurmClient sends jobs to a cluster (slurm=generic); LocalClient runs "
            "them on this machine: slurm=local, or --local.",
        )


def is_for_slurm(plan: Plan) -> bool:
    """Whether the plan's jobs go to a cluster."""
    return _name_of(plan) in SLURM_NAMES


def _name_of(plan: Plan) -> str:
    return plan.executor.class_name.removesuffix("Client")


def make_executor(plan: Plan, session: SessionDir) -> Executor:
    """The executor that the plan asks for.

    Raises:
        UsageError: it names one that this version does not have, or its template is
            no use.
    """
    require_executor(plan)
    if is_for_slurm(plan):
        return _slurm(plan, session)
    return _local(plan, session)


def make_evidence(plan: Plan, session: SessionDir) -> EvidenceSource:
    """Who looks at runs of the plan that a rule ends.

    Raises:
        EnvironmentFailed: the disk refused the script for it.
    """
    from autoexp_tui.executors import diagnostics as evidence
    from autoexp_tui.executors.slurm.commands import ClusterCommands

    probe = evidence.install_probe(session.scripts)
    if not is_for_slurm(plan):
        return evidence.Evidence(evidence.LocalReach(probe), SystemClock())
    python = str(plan.executor.settings.get("python") or sys.executable)
    reach = evidence.SlurmReach(probe, python, ClusterCommands())
    return evidence.Evidence(reach, SystemClock())


def _local(plan: Plan, session: SessionDir) -> Executor:
    slots_dir = str(plan.executor.settings.get("slots_dir") or "")
    slots_dir = os.path.abspath(os.path.expanduser(slots_dir)) if slots_dir else ""
    settings = local_settings(
        _wrapper(session), slots=_slots_of(plan), slots_dir=slots_dir
    )
    grace = _number(plan, "grace_seconds", settings.grace_seconds)
    settings = replace(settings, grace_seconds=grace, modes=MODES[plan.share])
    return LocalExecutor(settings, SystemClock())


def _slurm(plan: Plan, session: SessionDir) -> Executor:
    from autoexp_tui.executors.slurm.commands import ClusterCommands, OwnThread
    from autoexp_tui.executors.slurm.executor import SlurmExecutor

    executor = SlurmExecutor(
        slurm_settings(plan, session), ClusterCommands(), SystemClock(), OwnThread()
    )
    executor.learn()
    return executor


def slurm_settings(plan: Plan, session: SessionDir) -> SlurmSettings:
    """How a session of `plan` uses its cluster.

    Raises:
        UsageError: the template cannot be read, or would start nothing.
    """
    from autoexp_tui.executors.slurm.executor import (
        LARGEST_ARRAY,
        LOST_SECONDS,
        SlurmSettings,
    )
    from autoexp_tui.executors.slurm.job_status_resolution import GRACE_SECONDS
    from autoexp_tui.executors.slurm.script import read_template
    from autoexp_tui.executors.slurm.submit import RECORD_PATIENCE, SubmitSettings
    from autoexp_tui.executors.slurm.watch import (
        FIRST_SECONDS,
        LATEST_SECONDS,
        Rhythm,
    )

    texts = {key: str(value) for key, value in plan.executor.settings.items()}
    read_template(texts.get("template_path", ""))
    first = _number(plan, "poll_seconds", FIRST_SECONDS)
    latest = _number(plan, "slowest_poll_seconds", LATEST_SECONDS)
    return SlurmSettings(
        submit=SubmitSettings(
            wrapper=_wrapper(session),
            python=texts.get("python", sys.executable),
            scripts=Path(texts.get("script_dir") or session.scripts).absolute(),
            array_logs=Path(texts.get("log_dir", "logs")).absolute() / ".arrays",
            template_path=texts.get("template_path", ""),
            launcher=launcher_words(
                texts.get("launcher_cmd", ""), texts.get("srun_opts", "")
            ),
            grace_seconds=_number(plan, "grace_seconds", 60.0),
            submit_seconds=_number(plan, "submit_seconds", 60.0),
            throttle=int(_number(plan, "array_throttle", 0)),
            modes=MODES[plan.share],
            record_patience_seconds=_number(
                plan, "record_patience_seconds", RECORD_PATIENCE
            ),
        ),
        ask_seconds=_number(plan, "ask_seconds", 30.0),
        settle_seconds=_number(plan, "settle_seconds", 60.0),
        array_size=int(_number(plan, "array_size", LARGEST_ARRAY)),
        patience_seconds=_number(plan, "patience_seconds", GRACE_SECONDS),
        lost_seconds=_number(plan, "lost_seconds", LOST_SECONDS),
        rhythm=Rhythm(first=first, latest=max(first, latest)),
    )


def launcher_words(launcher: str, srun_options: str) -> tuple[str, ...]:
    """What stands in front of a command: `srun` with its options, then the launcher.

    Options without a launcher mean srun; a launcher that is srun takes them itself.
    """
    from autoexp_tui.executors.slurm.srun_wrapper import is_srun

    words, options = shlex.split(launcher), shlex.split(srun_options)
    if words and is_srun(words[0]):
        return (words[0], *options, *words[1:])
    return (*(["srun", *options] if options else []), *words)


def _wrapper(session: SessionDir) -> Path:
    return session.scripts / "wrapper.py"


def _number(plan: Plan, key: str, default: float) -> float:
    value = plan.executor.settings.get(key)
    return float(value) if isinstance(value, int | float) else default
