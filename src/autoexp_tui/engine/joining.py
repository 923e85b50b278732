"""Plans that join a session: what is checked before they may, at the cost of what
joins. Names and directories of the jobs that are there are kept as those come."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from autoexp_tui.conditions.bindings import find_unsafe
from autoexp_tui.conditions.files import Places
from autoexp_tui.effects import effects
from autoexp_tui.model.decision_context import rules_of
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.ids import digest
from autoexp_tui.model.specs import Edge, Plan
from autoexp_tui.model.state import PendingEffect, SessionState
from autoexp_tui.planning.validate import validate_execution_plan

NOT_IN_SCRIPTS = "a value from a log may not come into a script"
MOST_TOLD = 3
"""Problems of a plan that are told where it is refused."""


class StoredPlan(NamedTuple):
    """A plan that is to join, beside the journal."""

    plan: Plan
    sha: str


@dataclass(slots=True)
class JoinChecks:
    """What of a session's jobs those that join are held against. Jobs never leave a
    session, so that it grows with the session's order."""

    known: list[tuple[str, str, str]] = field(default_factory=list)
    """Name, output and log directory of each job."""
    families: set[str] = field(default_factory=set)
    _places: Places = field(default_factory=Places)
    _outputs: dict[str, str] = field(default_factory=dict)
    """Output directory -> the job that writes it."""

    def restart(self) -> None:
        """What was followed may not have come to be."""
        self.known, self.families = [], set()
        self._places, self._outputs = Places(), {}

    def follow(self, state: SessionState) -> JoinChecks:
        """Itself, with the jobs that have joined meanwhile."""
        for name in state.order[len(self.known) :]:
            spec = state.jobs[name].spec
            self.known.append((name, spec.output_dir, spec.log_dir))
            self.families.add(spec.family)
            self._places.add(*self.known[-1])
            self._outputs.setdefault(posixpath.normpath(spec.output_dir), name)
        return self

    def build_job_plan(
        self, state: SessionState, pending: PendingEffect, effect: effects.AddJob
    ) -> Plan:
        """The plan of one job that a rule makes."""
        self.follow(state)
        base = state.plan_of(effect.job)
        assert base is not None, "a session without a plan has no jobs"
        spec = effect.spec
        own = (spec.name, spec.output_dir, spec.log_dir)
        whose = Places([own], beside=self._places)
        start = tuple(map(whose.with_writers, spec.start_conditions))
        cancel = tuple(map(whose.with_writers, spec.cancel_conditions))
        waits = {name for condition in start for name in whose.list_awaited(condition)}
        before = sorted(
            (name for name in waits if name in state.jobs),
            key=lambda name: state.jobs[name].spec.index,
        )
        made = replace(
            spec,
            start_conditions=start,
            cancel_conditions=cancel,
            depends_on=tuple(before),
        )
        return replace(
            base,
            plan_id=digest(pending.effect_id, spec.name),
            config_ref="",
            overrides=(),
            created_at=pending.ordered_utc,
            jobs=(made,),
            edges=tuple(Edge(before=b, after=spec.name, mode="waits") for b in before),
            monitoring=rules_of(state, state.jobs[effect.job].spec),
            rule_sets={},
            warnings=(),
            holes=(),
            holes_more=0,
            environment={},
        )

    def find_hindrance(
        self, state: SessionState, plan: Plan, log_values: tuple[str, ...] = ()
    ) -> str:
        """Why a plan cannot join; empty when it can. `log_values`: what logs have told,
        which must not come into its commands."""
        for job in plan.jobs:
            if value := find_unsafe(job.command, log_values):
                return f"{job.name}: {NOT_IN_SCRIPTS}: {value!r}"
        found = [
            *(
                Problem(
                    "the session has a job of this name",
                    where="project.name",
                    job=job.name,
                    hint="put what differs into it: {checkpoint_iteration}, {attempt}",
                )
                for job in plan.jobs
                if job.name in state.jobs
            ),
            *self._find_shared(state, plan),
            *validate_execution_plan(plan, known=state.jobs).errors,
        ]
        more = f" (and {len(found) - MOST_TOLD} more)" if len(found) > MOST_TOLD else ""
        return "; ".join(str(problem) for problem in found[:MOST_TOLD]) + more

    def _find_shared(self, state: SessionState, plan: Plan) -> Iterator[Problem]:
        """Directories that a new job and one of the session would both write into."""
        self.follow(state)
        for job in plan.jobs:
            path = posixpath.normpath(job.output_dir)
            other = self._outputs.get(path, job.name)
            if other != job.name and job.name not in state.jobs:
                message = f"writes into the same directory as {other}: {path}"
                yield Problem(message, where="project.name", job=job.name)
