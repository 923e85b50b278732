"""What can be said against a plan as a whole, before anything is submitted.

Looks at the plan alone, so that it holds for one read from a manifest too. What a
single value has wrong is found while the plan is built (see `build`). One walk over
jobs, and one over rules, finds what they say plainly and hardly mean. Directories are
compared by their names, links are not followed: the plan may be for another machine.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from typing import Final, NamedTuple

from autoexp_tui.actions.kinds import NewJob, Restart, RunAutoexp
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
from autoexp_tui.planning import estimate
from autoexp_tui.sweep.points import (
    MOST_OF_A_FILTER,
    NOT_OVERRIDES,
    STAGE,
    find_fault_of_name,
    format_in_name,
    plain_key,
    shorten_text,
)
from autoexp_tui.text.did_you_mean import did_you_mean
from autoexp_tui.text.spelling import join_some, plural

_NO_NAMES: Final = (NOT_OVERRIDES - {STAGE}) | {"project.name"}
"""Parameters that cannot stand in a name."""
_MOST_FILTERS: Final = 3
_MOST_IN_A_RING: Final = 12
_UNREAD: Final = re.compile(
    r"(?<![{$])\{(?:(?:(?:sibling|all)[.\[]|(?:base|parent|runtime)\.)[^{}]+"
    r"|output_dir|log_dir|log_path|log_path_current|script_path)\}"
)
_ESCAPED: Final = re.compile(
    r"(?:\$\{|\{\{)\s*(?:(?:sibling|base|parent|aux)\.|sibling\[)"
)
"""References as other programs write them."""
_OUTPUT: Final = "its output directory"
_NOT_THE_JOBS_FAULT: Final = frozenset({"timeout", "preempted", "node_fail"})
"""Ends after which starting a job again and again is usual."""


@dataclass(frozen=True, slots=True)
class ValidationResult:
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def validate_execution_plan(
    plan: Plan, *, known: Collection[str] = ()
) -> ValidationResult:
    """Everything that is wrong, or odd, about a plan.

    `known`: jobs of the session that it is to join, in their order, which conditions
    may name. They are looked up and not walked through, unless a name is not found.
    """
    lint = _PlanLint(plan, known)
    overlaps, nested = _find_overlaps(plan)
    errors = [
        *([] if plan.jobs or plan.tree or plan.research else [_explain_no_jobs(plan)]),
        *_check_names(plan.jobs),
        *overlaps,
        *_check_ring(plan),
        *lint.errors,
    ]
    warnings = [*nested, *lint.warnings, *estimate.check_bounds(plan)]
    return ValidationResult(fold_problems(errors), fold_problems(warnings))


def fold_problems(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems that several jobs share, told for the first and counted."""
    groups: dict[Problem, list[str]] = {}
    for problem in problems:
        groups.setdefault(replace(problem, job=""), []).append(problem.job)
    folded = []
    for problem, jobs in groups.items():
        first, *others = dict.fromkeys(jobs)
        if "" in jobs:  # the config has it without any job
            first = ""
        elif others:
            more = plural(len(others), "more job")
            message = f"{problem.message} (and for {more})"
            problem = replace(problem, message=message)
        folded.append(replace(problem, job=first))
    return tuple(folded)


def _explain_no_jobs(plan: Plan) -> Problem:
    hint = "look at the points with `autoexp-plan --points`, and for empty lists"
    if plan.holes:
        places = dict.fromkeys(
            f"`{shorten_text(one.filter, MOST_OF_A_FILTER)}` at {one.where}"
            for one in plan.holes
        )
        count = plural(len(plan.holes) + plan.holes_more, "combination")
        hint = f"{count} went by filters: {join_some(list(places), _MOST_FILTERS)}"
    return Problem("makes no job", where="sweep", hint=hint)


def _check_names(jobs: Sequence[JobSpec]) -> Iterator[Problem]:
    named: dict[str, list[JobSpec]] = {}
    for job in jobs:
        named.setdefault(job.name, []).append(job)
        if fault := find_fault_of_name(job.name):
            yield Problem(f"{job.name!r}: {fault}", "project.name", job.name)
    for name, shared in named.items():
        if len(shared) == 1:
            continue
        differing = [
            plain_key(key)
            for key in dict.fromkeys(chain.from_iterable(j.parameters for j in shared))
            if len({format_in_name(job.parameters.get(key)) for job in shared}) > 1
        ]
        hint = "they set the same values: take one out, or add ${index} to the name"
        if differing:
            choices = [f"${{{key}}}" for key in differing if key not in _NO_NAMES]
            hint = f"add what tells them apart: {', '.join(choices[:4]) or '${index}'}"
        message = f"{len(shared)} jobs have the name {name}"
        yield Problem(message, where="project.name", job=name, hint=hint)


def format_ring(what: str, names: Sequence[str]) -> str:
    """`what: a -> b -> a`; of a long ring, both ends."""
    half = _MOST_IN_A_RING // 2
    more = [f"({len(names) - 2 * half:,} more)"]
    if len(names) > _MOST_IN_A_RING:
        names = [*names[:half], *more, *names[-half:]]
    return f"{what}: {' -> '.join([*names, names[0]])}"


def _check_ring(plan: Plan) -> Iterator[Problem]:
    names = {job.name for job in plan.jobs}
    waits = TopologicalSorter[str]()
    for edge in plan.edges:
        if edge.mode == "waits" and {edge.before, edge.after} <= names:
            waits.add(edge.after, edge.before)
    try:
        waits.prepare()
    except CycleError as error:
        first, *ring = reversed(error.args[1])
        message = format_ring("jobs wait for each other in a ring", [first, *ring[:-1]])
        hint = "one of these conditions has to go: nothing could ever start"
        yield Problem(message, where="start_conditions", job=first, hint=hint)


class _Place(NamedTuple):
    path: str
    """With a slash behind."""
    what: str
    key: str
    owner: str
    """A job, whose output it is or whose logs; empty: of all."""


def _find_overlaps(plan: Plan) -> tuple[list[Problem], list[Problem]]:
    """Errors: outputs that several jobs share, or that overlap logs (its own may),
    scripts or the state of sessions; warnings: outputs inside another job's."""
    scripts = plan.executor.settings.get("script_dir")
    if not scripts and plan.base_output_dir:
        scripts = posixpath.join(plan.base_output_dir, "scripts")
    sessions = (plan.state_dir, "the directory of sessions", "--state-dir", "")
    own = any(job.trial for job in plan.jobs)
    # A policy lets its jobs work in the directory of their session.
    rows = [
        *([] if own else [sessions]),
        (scripts, "the directory of scripts", "slurm.script_dir", ""),
    ]
    for job in plan.jobs:
        logs = f"the log directory of {job.name}"
        rows += [
            (job.output_dir, _OUTPUT, "project.name", job.name),
            (job.log_dir, logs, "slurm.log_dir", job.name),
        ]
    places = [_Place(f"{posixpath.normpath(str(p))}/", *more) for p, *more in rows if p]
    errors, warnings = list[Problem](), list[Problem]()
    above: list[_Place] = []
    for inner in sorted(places):
        while above and not inner.path.startswith(above[-1].path):
            above.pop()
        outer = above[-1] if above else inner
        above.append(inner)
        path, outputs = inner.path[:-1], (inner.what, outer.what).count(_OUTPUT)
        if outer.owner == inner.owner or not outputs:
            continue
        if outputs == 2 and inner.path == outer.path:
            message = f"writes into the same directory as {outer.owner}: {path}"
            errors.append(Problem(message, "project.name", inner.owner))
            continue
        if outputs == 2:
            message = f"its directory lies inside the one of {outer.owner}: {path}"
            hint = "a name with `/` is a directory for each part"
            warnings.append(Problem(message, "project.name", inner.owner, hint))
            continue
        output, other = (outer, inner) if outer.what == _OUTPUT else (inner, outer)
        verb = "is" if inner.path == outer.path else "overlaps"
        message = f"its output directory {verb} {other.what}: {path}"
        hint = f"choose another name, or another {other.key}"
        errors.append(Problem(message, "project.name", output.owner, hint))
    return errors, warnings


@dataclass(frozen=True, slots=True)
class Rule:
    event: LogEvent | StateEvent
    where: str
    job: str
    """The job whose own rule it is; empty: the plan's."""


def list_rule_sets(plan: Plan) -> Iterator[tuple[str, Monitoring]]:
    """The plan's rules, then those of jobs with their own: the job, and its rules."""
    yield "", plan.monitoring
    for job in plan.jobs:
        if job.own_rules or job.rules in plan.rule_sets:
            yield job.name, plan.rules_of(job)


class Lint:
    """Collects what is found about a plan."""

    def __init__(self, plan: Plan) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        self.plan = plan
        self.jobs = {job.name: job for job in plan.jobs}

    def refuse(self, message: str, where: str, job: str, hint: str) -> None:
        self.errors.append(Problem(message, where, job, hint))

    def warn(self, message: str, where: str, job: str, hint: str) -> None:
        self.warnings.append(Problem(message, where, job, hint))

    def list_rules(self) -> Iterator[Rule]:
        """All rules, those of jobs of their own too."""
        for job, rules in list_rule_sets(self.plan):
            for key in ("log_events", "state_events"):
                for at, event in enumerate(getattr(rules, key)):
                    yield Rule(event, f"monitoring.{key}.{at}", job)


class _PlanLint(Lint):
    """What a plan says plainly and hardly means, job by job and rule by rule."""

    def __init__(self, plan: Plan, session_jobs: Collection[str]) -> None:
        """`session_jobs`: of the session that the plan is to join, in their order."""
        super().__init__(plan)
        self._session_jobs = session_jobs
        rules = [*self.list_rules()]
        actions = [(rule, one) for rule in rules for one in rule.event.actions]
        joining = [(rule, one) for rule, one in actions if isinstance(one, NewJob)]
        self._later_jobs = {new.name for _, new in joining}
        self._stages = {job.stage for job in plan.jobs}
        self._stages |= {new.stage or rule.event.name for rule, new in joining}
        self._has_any_stage = any(isinstance(one, RunAutoexp) for _, one in actions)
        self._check_reads()
        for job in plan.jobs:
            self._check_job(job)
        for rule in rules:
            self._check_rule(rule)

    def _is_known(self, name: str) -> bool:
        return name in self.jobs or name in self._session_jobs

    @property
    def _names(self) -> Sequence[str]:
        return (*self._session_jobs, *self.jobs)

    def _check_job(self, job: JobSpec) -> None:
        for where in ("start_conditions", "cancel_conditions"):
            for name in _list_job_names(getattr(job, where)):
                if not self._is_known(name):
                    hint = did_you_mean(name, self._names, "jobs")
                    message = f"names the job {name}, which is not in the plan"
                    self.refuse(message, where, job.name, hint)
        if ends := job.cancel_conditions:
            self._check_approval(ends, "cancel_conditions", job.name)
        self._check_command(job)

        def is_own(condition: Condition) -> bool:
            match condition:
                case MetadataIs() | MetricIs():
                    return condition.job in ("", job.name)
                case LogPattern():
                    return condition.writer == job.name
            return isinstance(condition, Composite)

        for at, condition in enumerate(job.start_conditions):
            where = f"start_conditions.{at}"
            if _holds_up(condition, _is_endless):
                hint = "timeout_seconds: 86400"
                self.warn("waits without a time-out", where, job.name, hint)
            if _holds_up(condition, is_own):
                message = "waits for what its own run is to say, so it would not start"
                hint = 'name the job that is meant: "{sibling.STAGE.name}"'
                self.warn(message, where, job.name, hint)
            for needed in _list_needed([condition]):
                if isinstance(needed, MetadataIs) and "{" not in needed.key:
                    self._check_metadata(job, needed, where)

    def _check_metadata(self, job: JobSpec, needed: MetadataIs, where: str) -> None:
        asked = self.jobs.get(needed.job)
        if asked is None or asked is job or asked.name in self._session_jobs:
            return
        keys = {
            key
            for event in self.plan.rules_of(asked).log_events
            if not event.stages or asked.stage in event.stages
            for key in event.extract_groups
        }
        if needed.key not in keys:
            message = f"waits for `{needed.key}` of {asked.name}, which no log event "
            hint = did_you_mean(needed.key, sorted(keys), "extracted keys")
            self.warn(f"{message}extracts there", where, job.name, hint)

    def _check_command(self, job: JobSpec) -> None:
        """References that reach the command as they are; secrets for all to read."""
        hint = "references are read in the sweep's points and in project.name: set this"
        for text in (*job.command, *job.env.values()):
            if foreign := _ESCAPED.search(text):
                message = f"the command holds {foreign[0]}...}} as it is written"
                self.refuse(message, "backend", job.name, f"{hint} key there")
                break
            found = _UNREAD.search(text)
            late = job.runtime_overrides and "{runtime." in text
            # By doubled braces a parameter says that the text is no reference.
            written = repr(dict(job.parameters)) if found and not late else ""
            if found and not late and f"{{{found[0]}}}" not in written:
                message = f"the command holds {found[0]} as it is written"
                self.warn(message, "backend", job.name, f"{hint} key there")
                break
        if mask_words(job.command, self.plan.mask) != job.command:
            self.warn(
                "the command line holds what looks like a secret, and everybody on "
                "the machine can read it (ps)",
                "backend",
                job.name,
                "hand it over in the environment: backend.env: "
                "{HF_TOKEN: ${oc.env:HF_TOKEN}}; or name what is none in "
                "project.mask.keep",
            )

    def _check_approval(
        self, conditions: Iterable[Condition], where: str, job: str
    ) -> None:
        """Approvals where no question is ever put: they would wait without a word."""
        parts = (part for one in conditions for part in walk(one))
        if any(isinstance(part, Approval) for part in parts):
            message = "nobody is asked here: an Approval is asked before a job starts"
            hint = "put it among start_conditions; end jobs by hand (K), or use Notify"
            self.refuse(message, where, job, hint)

    def _check_rule(self, rule: Rule) -> None:
        stages = rule.event.stages
        if stages and not self._has_any_stage and self._stages.isdisjoint(stages):
            wanted = ", ".join(stages)
            hint = did_you_mean(stages[0], sorted(self._stages - {""}), "stages")
            message = f"{rule.event.name} applies to no job: no stage is called"
            where = f"{rule.where}.stages"
            self.warn(f"{message} {wanted}", where, rule.job, hint)
        self._check_restarts(rule)
        for at, action in enumerate(rule.event.actions):
            where = f"{rule.where}.actions.{at}"
            self._check_approval(action.conditions, f"{where}.conditions", rule.job)
            if isinstance(action, NewJob):
                ends, key = action.cancel_conditions, f"{where}.cancel_conditions"
                self._check_approval(ends, key, rule.job)
            for name in _list_job_names(action.conditions):
                is_known = self._is_known(name) or name in self._later_jobs
                if "{" not in name and not is_known:
                    later = sorted({*self._names, *self._later_jobs})
                    hint = did_you_mean(name, later, "jobs")
                    message = f"waits for the job {name}, which is not in the plan"
                    self.warn(message, f"{where}.conditions", rule.job, hint)

    def _check_restarts(self, rule: Rule) -> None:
        """Rules that start a broken job again, however often it breaks."""
        event = rule.event
        ends = (
            getattr(event, "state", ""),
            *(getattr(event, "transition", None) or ()),
        )
        if any(str(end).lower() in _NOT_THE_JOBS_FAULT for end in ends):
            return
        restarts = (one for one in event.actions if isinstance(one, Restart))
        if any(not has_attempt_limit(one.conditions) for one in restarts):
            message = f"{event.name} restarts a job without a limit"
            hint = "add the condition MaxAttemptsCondition: max_attempts: 3"
            self.warn(message, rule.where, rule.job, hint)

    def _check_reads(self) -> None:
        """Jobs that use what another writes and wait for nothing, once for a stage."""
        waiting = {edge.after for edge in self.plan.edges if edge.mode == "waits"}
        read: dict[tuple[str, str], list[str]] = {}
        for edge in self.plan.edges:
            before = self.jobs.get(edge.before)
            if edge.mode == "reads" and before and edge.after in self.jobs:
                key = (edge.after, before.stage or before.name)
                if edge.after not in waiting:
                    read.setdefault(key, []).append(before.output_dir)
        for (name, stage), directories in read.items():
            job = self.jobs[name]
            # What all directories begin with, is looked for first: the texts may hold
            # a thousand of them, or nothing of the kind.
            common = posixpath.commonprefix(directories)
            if any(
                common in text and any(directory in text for directory in directories)
                for text in (*job.command, *job.env.values(), *job.overrides)
            ):
                hint = "add a start condition, such as SlurmStateCondition: COMPLETED"
                message = f"reads what {stage} writes, and does not wait for it"
                self.warn(message, "start_conditions", name, hint)


def _list_needed(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """Conditions that all have to pass, those of `all` taken apart."""
    for condition in conditions:
        if not condition.blocking:
            continue
        if isinstance(condition, Composite) and condition.mode == "all":
            yield from _list_needed(condition.conditions)
        else:
            yield condition


def _list_job_names(conditions: Iterable[Condition]) -> Iterator[str]:
    for condition in (part for one in conditions for part in walk(one)):
        match condition:
            case JobStateIs():
                yield from condition.jobs
            case MetadataIs(job=name) | MetricIs(job=name) if name:
                yield name


def _is_endless(condition: Condition) -> bool:
    match condition:
        case Approval() | TimeReached() | MetadataIs(op="known"):
            return False
    return condition.timeout_seconds is None


def _holds_up(condition: Condition, is_so: Callable[[Condition], bool]) -> bool:
    """Whether it is so of a condition, and of a part of `all`, or each of `any`."""
    if not condition.blocking or not is_so(condition):
        return False
    if not isinstance(condition, Composite):
        return True
    found = [_holds_up(part, is_so) for part in condition.conditions]
    return any(found) if condition.mode == "all" else bool(found) and all(found)
