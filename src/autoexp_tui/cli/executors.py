"""Which executor a plan's `slurm.client.class_name` names."""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.adapters.clock import SystemClock
from autoexp_tui.adapters.local import LocalExecutor, local_settings
from autoexp_tui.adapters.session_dir import SessionDir
from autoexp_tui.core.errors import UsageError
from autoexp_tui.core.specs import Plan
from autoexp_tui.engine.ports import Executor

LOCAL_NAMES = frozenset({"Local", "LocalCommand"})
"""Accepted names, without the suffix `Client`."""


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
    slots = plan.executor.settings.get("slots")
    grace = plan.executor.settings.get("grace_seconds")
    wrapper = session.scripts / "wrapper.py"
    settings = local_settings(wrapper, slots=slots if isinstance(slots, int) else 0)
    if isinstance(grace, int | float):
        settings = replace(settings, grace_seconds=float(grace))
    return LocalExecutor(settings, SystemClock())
