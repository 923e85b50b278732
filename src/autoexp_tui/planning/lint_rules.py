"""What a plan says plainly and hardly means, job by job and rule by rule.

Looks at the plan alone, so that it holds for one read from a manifest too. A check
yields what one job, or one rule, has wrong; `lint_plan` walks over all of them for
each check, so that findings of a kind stand together.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from autoexp_tui.actions.new_job import NewJob, RunAutoexp
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.kinds import (
    Approval,
    Composite,
    JobStateIs,
    LogPattern,
    MetadataIs,
    MetricIs,
    TimeReached,
    has_attempt_limit,
)
from autoexp_tui.model.condition import Condition, walk
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.masking import mask_words
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.text.did_you_mean import did_you_mean

_UNREAD: Final = re.compile(
    r"(?<![{$])\{(?:(?:(?:sibling|all)[.\[]|(?:base|parent|runtime)\.)[^{}]+"
    r"|output_dir|log_dir|log_path|log_path_current|script_path)\}"
)
_ESCAPED: Final = re.compile(
    r"(?:\$\{|\{\{)\s*((?:sibling|base|parent|aux)\.|sibling\[)"
)
_NOBODY_ASKED: Final = "nobody is asked here: an Approval is asked before a job starts"
_MEND_JOB_APPROVAL: Final = "put it among the start_conditions, or end jobs by hand (K)"
_MEND_ACTION_APPROVAL: Final = (
    "use Notify and answer with R; jobs of NewJob and RunAutoexp may have an Approval "
    "among their start_conditions"
)
_NOT_THE_JOBS_FAULT: Final = frozenset({"timeout", "preempted", "node_fail"})
"""Ends after which starting a job again and again is usual."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a plan, with its place in the config."""

    event: LogEvent | StateEvent
    where: str
    job: str
    """The job whose own rule it is; empty: the plan's."""


@dataclass(frozen=True)
class PlanContext:
    """What checks look up about the plan as a whole."""

    plan: Plan
    session_jobs: Mapping[str, None]
    """Jobs of the session that the plan is to join, in their order."""

    @cached_property
    def jobs(self) -> Mapping[str, JobSpec]:
        """The plan's jobs by name."""
        return {job.name: job for job in self.plan.jobs}

    @cached_property
    def names(self) -> Sequence[str]:
        """Every job that a condition may name."""
        return (*self.session_jobs, *self.jobs)

    @cached_property
    def rules(self) -> Sequence[Rule]:
        """The plan's rules, then those of jobs with their own."""
        sets = list_rule_sets(self.plan)
        return [rule for job, one in sets for rule in list_rules(one, job)]

    @cached_property
    def joining(self) -> Sequence[tuple[Rule, NewJob]]:
        """The jobs that rules may let join."""
        found = ((rule, one) for rule in self.rules for one in rule.event.actions)
        return [(rule, one) for rule, one in found if isinstance(one, NewJob)]

    @cached_property
    def later_names(self) -> Sequence[str]:
        """Every job that an action may name: of jobs that join, too."""
        return sorted({*self.names, *(new.name for _, new in self.joining)})


_JobCheck: TypeAlias = Callable[[JobSpec, PlanContext], Iterator[Problem]]
_RuleCheck: TypeAlias = Callable[[Rule, PlanContext], Iterator[Problem]]


def list_rule_sets(plan: Plan) -> Iterator[tuple[str, Monitoring]]:
    """The plan's rules, then those of jobs with their own: the job, and its rules."""
    yield "", plan.monitoring
    for job in plan.jobs:
        rules = plan.rules_of(job)
        if rules is not plan.monitoring:
            yield job.name, rules


def list_rules(rules: Monitoring, job: str) -> Iterator[Rule]:
    """Every rule of a set."""
    for at, log_event in enumerate(rules.log_events):
        yield Rule(log_event, f"monitoring.log_events.{at}", job)
    for at, state_event in enumerate(rules.state_events):
        yield Rule(state_event, f"monitoring.state_events.{at}", job)


def lint_plan(
    plan: Plan, session_jobs: Iterable[str] = ()
) -> tuple[Sequence[Problem], Sequence[Problem]]:
    """Errors and warnings; `session_jobs`: of the session that the plan is to join."""
    context = PlanContext(plan, dict.fromkeys(session_jobs))

    def check_jobs(*checks: _JobCheck) -> Sequence[Problem]:
        return [p for check in checks for job in plan.jobs for p in check(job, context)]

    def check_rules(*checks: _RuleCheck) -> Sequence[Problem]:
        rules = context.rules
        return [p for check in checks for rule in rules for p in check(rule, context)]

    itself = check_jobs(_check_waits_for_itself)
    errors = [
        *check_jobs(_check_job_names, _check_approvals),
        *check_rules(_check_action_approvals),
        *check_jobs(_check_escaped_references),
    ]
    warnings = [
        *_find_reads_without_waits(context),
        *check_jobs(_check_endless_waits),
        *check_rules(_check_endless_restarts),
        *itself,
        *check_jobs(_check_unknown_metadata),
        *_find_unreachable_stages(plan, {one.job for one in itself}),
        *check_jobs(_check_unread_references, _check_secrets),
        *check_rules(_check_stages, _check_jobs_of_actions),
    ]
    return errors, warnings


def _list_needed(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Conditions that all have to pass, those of `all` taken apart."""
    for condition in conditions:
        if not condition.blocking:
            continue
        if isinstance(condition, Composite) and condition.mode == "all":
            yield from _list_needed(condition.conditions)
        else:
            yield condition


def _check_job_names(job: JobSpec, context: PlanContext) -> Iterator[Problem]:
    for where in ("start_conditions", "cancel_conditions"):
        for name in _list_job_names(getattr(job, where)):
            if name not in context.jobs and name not in context.session_jobs:
                hint = did_you_mean(name, context.names, "jobs")
                message = f"names the job {name}, which is not in the plan"
                yield Problem(message, where, job.name, hint)


def _check_jobs_of_actions(rule: Rule, context: PlanContext) -> Iterator[Problem]:
    for at, action in enumerate(rule.event.actions):
        for name in _list_job_names(action.conditions):
            if "{" not in name and name not in context.later_names:
                hint = did_you_mean(name, context.later_names, "jobs")
                message = f"waits for the job {name}, which is not in the plan"
                where = f"{rule.where}.actions.{at}.conditions"
                yield Problem(message, where, rule.job, hint)


def _list_job_names(conditions: Iterable[Condition]) -> Iterator[str]:
    for condition in (part for one in conditions for part in walk(one)):
        match condition:
            case JobStateIs():
                yield from condition.jobs
            case MetadataIs(job=name) | MetricIs(job=name) if name:
                yield name


def _check_stages(rule: Rule, context: PlanContext) -> Iterator[Problem]:
    """Rules for stages of which the plan has none, and none can join it."""
    stages = rule.event.stages
    if not stages or any(
        isinstance(action, RunAutoexp)
        for one in context.rules
        for action in one.event.actions
    ):
        return
    known = {job.stage for job in context.plan.jobs}
    known |= {new.stage or one.event.name for one, new in context.joining}
    if known.isdisjoint(stages):
        wanted = ", ".join(stages)
        hint = did_you_mean(stages[0], sorted(known - {""}), "stages")
        message = f"{rule.event.name} applies to no job: no stage is called {wanted}"
        yield Problem(message, f"{rule.where}.stages", rule.job, hint)


def _check_approvals(job: JobSpec, _: PlanContext) -> Iterator[Problem]:
    """Approvals where no question is ever put: they would wait without a word."""
    if _has_approval(job.cancel_conditions):
        where, hint = "cancel_conditions", _MEND_JOB_APPROVAL
        yield Problem(_NOBODY_ASKED, where, job.name, hint)


def _check_action_approvals(rule: Rule, _: PlanContext) -> Iterator[Problem]:
    for at, action in enumerate(rule.event.actions):
        asked = {"conditions": _MEND_ACTION_APPROVAL}
        if isinstance(action, NewJob):
            asked["cancel_conditions"] = _MEND_JOB_APPROVAL
        for field, hint in asked.items():
            if _has_approval(getattr(action, field)):
                where = f"{rule.where}.actions.{at}.{field}"
                yield Problem(_NOBODY_ASKED, where, rule.job, hint)


def _has_approval(conditions: Iterable[Condition]) -> bool:
    return any(isinstance(part, Approval) for one in conditions for part in walk(one))


def _check_waits_for_itself(job: JobSpec, _: PlanContext) -> Iterator[Problem]:
    """Start conditions on what only the job's own run could say."""

    def is_own(condition: Condition) -> bool:
        match condition:
            case MetadataIs() | MetricIs():
                return condition.job in ("", job.name)
            case LogPattern():
                return condition.writer == job.name
        return isinstance(condition, Composite)

    for at, condition in enumerate(job.start_conditions):
        if _holds_up(condition, is_own):
            yield Problem(
                "waits for what its own run is to say, and so would never start",
                where=f"start_conditions.{at}",
                job=job.name,
                hint='name the job that is meant: "{sibling.STAGE.name}"',
            )


def _check_endless_waits(job: JobSpec, _: PlanContext) -> Iterator[Problem]:
    def is_endless(condition: Condition) -> bool:
        match condition:
            case Approval() | TimeReached() | MetadataIs(op="known"):
                return False
        return condition.timeout_seconds is None

    for at, condition in enumerate(job.start_conditions):
        if _holds_up(condition, is_endless):
            where, hint = f"start_conditions.{at}", "timeout_seconds: 86400"
            yield Problem("waits without a time-out", where, job.name, hint)


def _holds_up(condition: Condition, is_so: Callable[[Condition], bool]) -> bool:
    """Whether it is so of a condition, and of a part of `all`, or each of `any`."""
    if not condition.blocking or not is_so(condition):
        return False
    if not isinstance(condition, Composite):
        return True
    found = [_holds_up(part, is_so) for part in condition.conditions]
    return any(found) if condition.mode == "all" else bool(found) and all(found)


def _check_unknown_metadata(job: JobSpec, context: PlanContext) -> Iterator[Problem]:
    for at, condition in enumerate(_list_needed(job.start_conditions)):
        if not isinstance(condition, MetadataIs) or "{" in condition.key:
            continue
        asked = context.jobs.get(condition.job)
        if asked is None or asked is job or asked.name in context.session_jobs:
            continue  # waits for itself, which has its own check; or of a session
        keys = {
            key
            for event in context.plan.rules_of(asked).log_events
            if not event.stages or asked.stage in event.stages
            for key in event.extract_groups
        }
        if condition.key not in keys:
            yield Problem(
                f"waits for `{condition.key}` of {asked.name}, which no log event "
                "extracts there",
                where=f"start_conditions.{at}",
                job=job.name,
                hint=did_you_mean(condition.key, sorted(keys), "extracted keys"),
            )


def _find_unreachable_stages(plan: Plan, stuck: set[str]) -> Iterator[Problem]:
    """Stages of which every job waits, over others or not, for one that is `stuck`."""
    if not stuck:
        return
    waiting: dict[str, list[str]] = {}
    for job in plan.jobs:
        for condition in _list_needed(job.start_conditions):
            if isinstance(condition, JobStateIs):
                for name in condition.jobs:
                    waiting.setdefault(name, []).append(job.name)
    behind: dict[str, str] = {}
    left = [(job.name, job.name) for job in plan.jobs if job.name in stuck]
    for name, cause in left:  # grows while it is walked
        for follower in waiting.get(name, ()):
            if follower not in behind and follower not in stuck:
                behind[follower] = cause
                left.append((follower, cause))
    stages: dict[str, list[str]] = {}
    for job in plan.jobs:
        stages.setdefault(job.stage, []).append(job.name)
    for stage, jobs in stages.items():
        if all(job in behind for job in jobs):
            name = f"the stage {stage}" if stage else "it"
            never = f"it waits for {behind[jobs[0]]}, which never starts"
            message = f"{name} is never reached: {never}"
            yield Problem(message, where="start_conditions", job=jobs[0])


def _check_endless_restarts(rule: Rule, _: PlanContext) -> Iterator[Problem]:
    """Rules that start a broken job again, however often it breaks."""
    event = rule.event
    if isinstance(event, StateEvent):
        ends = (event.state, event.transition[1] if event.transition else "")
        if any(str(end).lower() in _NOT_THE_JOBS_FAULT for end in ends):
            return
    if any(
        isinstance(one, Restart) and not has_attempt_limit(one.conditions)
        for one in event.actions
    ):
        message = f"{event.name} restarts a job without a limit"
        hint = "add the condition MaxAttemptsCondition: max_attempts: 3"
        yield Problem(message, rule.where, rule.job, hint)


def _check_secrets(job: JobSpec, context: PlanContext) -> Iterator[Problem]:
    """Command lines are for all on a machine to read."""
    if mask_words(job.command, context.plan.mask) != job.command:
        yield Problem(
            "the command line holds what looks like a secret, and everybody on "
            "the machine can read it (ps)",
            where="backend",
            job=job.name,
            hint="hand it over in the environment: backend.env: "
            "{HF_TOKEN: ${oc.env:HF_TOKEN}}; or name what is none in "
            "project.mask.keep",
        )


def _check_unread_references(job: JobSpec, _: PlanContext) -> Iterator[Problem]:
    """References that reach the command as they are: nobody reads them there."""
    for text in (*job.command, *job.env.values()):
        found = _UNREAD.search(text)
        late = job.runtime_overrides and "{runtime." in text
        # By doubled braces a parameter says that the text is no reference.
        if found and not late and f"{{{found[0]}}}" not in repr(dict(job.parameters)):
            message = f"the command holds {found[0]} as it is written"
            hint = (
                "references are read in the sweep's points and in project.name: "
                "set this key there"
            )
            yield Problem(message, "backend", job.name, hint)
            return


def _check_escaped_references(job: JobSpec, _: PlanContext) -> Iterator[Problem]:
    """References as other programs write them, which reach the command as text."""
    texts = (*job.command, *job.env.values())
    if found := next(filter(None, map(_ESCAPED.search, texts)), None):
        message = f"the command holds {found[0]}...}} as it is written"
        hint = f"set the key in the sweep's points: {{{found[1]}...}}"
        yield Problem(message, "backend", job.name, hint)


def _find_reads_without_waits(context: PlanContext) -> Iterator[Problem]:
    """Jobs that use what another writes and wait for nothing, once for each stage."""
    jobs = context.jobs
    waiting = {edge.after for edge in context.plan.edges if edge.mode == "waits"}
    read: dict[tuple[str, str], list[str]] = {}
    for edge in context.plan.edges:
        if edge.mode == "reads" and edge.after not in waiting:
            before = jobs.get(edge.before)
            if before and edge.after in jobs:
                key = (edge.after, before.stage or before.name)
                read.setdefault(key, []).append(before.output_dir)
    for (name, stage), directories in read.items():
        job = jobs[name]
        # What all directories begin with, is looked for first: the texts may hold a
        # thousand of them, or nothing of the kind.
        common = posixpath.commonprefix(directories)
        if any(
            common in text and any(directory in text for directory in directories)
            for text in (*job.command, *job.env.values(), *job.overrides)
        ):
            hint = "add a start condition, such as SlurmStateCondition: COMPLETED"
            message = f"reads what {stage} writes, and does not wait for it"
            yield Problem(message, "start_conditions", name, hint)
