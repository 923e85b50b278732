"""Which executor a plan's `slurm.client.class_name` names."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autoexp_tui.adapters.clock import SystemClock
from autoexp_tui.adapters.local import (
    LocalExecutor,
    default_slots,
    local_settings,
    visible_gpus,
)
from autoexp_tui.adapters.session_dir import SessionDir
from autoexp_tui.core.errors import UsageError
from autoexp_tui.core.specs import Plan
from autoexp_tui.engine.ports import Executor

LOCAL_NAMES = frozenset({"Local", "LocalCommand"})
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
    name = plan.executor.class_name.removesuffix("Client")
    if name not in LOCAL_NAMES:
        raise UsageError(
            f"no executor {plan.executor.class_name!r} in this version",
            "slurm.client.class_name",
            "LocalClient runs jobs on this machine: add slurm=local, or --local.",
        )


def make_executor(plan: Plan, session: SessionDir) -> Executor:
    """The executor that the plan asks for.

    Raises:
        UsageError: it names one that this version does not have.
    """
    require_executor(plan)
    grace = plan.executor.settings.get("grace_seconds")
    wrapper = session.scripts / "wrapper.py"
    settings = local_settings(wrapper, slots=_slots_of(plan))
    if isinstance(grace, int | float):
        settings = replace(settings, grace_seconds=float(grace))
    return LocalExecutor(settings, SystemClock())
