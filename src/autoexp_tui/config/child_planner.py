"""The `engine.ports.Planner` that plans in a process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from autoexp_tui.config.planning import PlanningRequest, listed, plan_in_child
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.further import as_further
from autoexp_tui.storage.json_codec import encode_plan


class ChildPlanner:
    """`engine.ports.Planner`: composes one job again, in a planning process."""

    def __init__(self, limit_seconds: float = 120.0, state_dir: str = "") -> None:
        """`state_dir`: where what joins a session is kept; empty: as configs say."""
        self._limit_seconds = limit_seconds
        self._state_dir = state_dir

    def plan(self, asked: FurtherPlan) -> Plan:
        """The plan of another config, for the session that has `asked.known`.

        Raises:
            ValidationFailed: it has errors.
            UsageError: its config does not compose.
            EnvironmentFailed: planning took too long or was killed.
            AutoexpError: planning crashed.
        """
        base = asked.base
        ref, place, search = asked.config_ref, base.config_dir, base.search_dirs
        if asked.config_path:
            path = Path(asked.config_path).expanduser()
            ref, place = path.stem, str(path.parent)
            search = (*((base.config_dir,) if base.config_dir else ()), *search)
        request = PlanningRequest(
            config_ref=ref,
            config_dir=place,
            search_dirs=search,
            overrides=asked.overrides,
            cwd=_cwd_of(base),
            state_dir=self._state_dir,
            keep=True,
            known=asked.known,
            now=asked.now,
        )
        result = plan_in_child(request, self._limit_seconds)
        result.raise_errors()
        if result.plan is None:
            raise UsageError("planning gave no plan", hint="This is a bug.")
        return as_further(
            result.plan,
            family=asked.family,
            families=asked.families,
            stage=asked.stage if asked.config_path else "",
        )

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        """The job with further overrides; its name, directories and waits stay.

        Raises:
            UsageError: there is no such job, or an override does not compose.
            EnvironmentFailed: planning took too long or was killed.
            AutoexpError: planning crashed.
        """
        if not plan.config_ref:
            raise UsageError(
                "it has no config that overrides could change",
                where=job,
                hint="a rule made it of a command; R without overrides runs it again",
            )
        with tempfile.NamedTemporaryFile(prefix="plan-", suffix=".json") as held:
            held.write(encode_plan(plan))
            held.flush()
            request = PlanningRequest(
                want="job",
                cwd=_cwd_of(plan),
                now=plan.created_at,
                config_ref=plan.config_ref,
                config_dir=plan.config_dir,
                search_dirs=plan.search_dirs,
                overrides=plan.overrides,
                manifest=held.name,
                job=job,
                further=tuple(overrides),
                state_dir=self._state_dir,
                keep=True,
            )
            result = plan_in_child(request, self._limit_seconds)
        if result.job is None:
            raise UsageError(listed(f"{job} cannot be made anew", result.errors))
        return result.job


def _cwd_of(plan: Plan) -> str:
    """Where the plan was made; manifests of old do not say, but their jobs may.

    Raises:
        UsageError: the directory is gone.
    """
    if not plan.cwd:
        return next((job.cwd for job in plan.jobs if Path(job.cwd).is_dir()), "")
    if not Path(plan.cwd).is_dir():
        raise UsageError(
            "the directory in which the plan was made is not there",
            where=plan.cwd,
            hint="overrides compose from there: bring it back, or make a new plan",
        )
    return plan.cwd
