"""What a plan says plainly and hardly means: restarts without end, waits for oneself,
references unread.

Warnings only, for somebody may mean it after all. Looks at the plan alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from autoexp_tui.actions.kinds import Action, Restart, RunAutoexp
from autoexp_tui.conditions.kinds import (
    Composite,
    Condition,
    LogPattern,
    MetadataIs,
    MetricIs,
)
from autoexp_tui.conditions.limits import limits_attempts
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.masking import mask_words
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent
from autoexp_tui.model.specs import JobSpec, Plan

_GO_ON_ANYWAY: Final = frozenset({"timeout", "preempted", "node_fail"})
"""Ends that are not the job's own doing: starting it again and again is usual."""
_REFERENCE: Final = re.compile(
    r"(?<![{$])\{(?:(?:(?:sibling|all)[.\[]|(?:base|parent|runtime)\.)[^{}]+"
    r"|output_dir|log_dir|log_path|log_path_current|script_path)\}"
)
_ESCAPED: Final = re.compile(
    r"(?:\$\{|\{\{)\s*((?:sibling|base|parent|aux)\.|sibling\[)"
)


# -------------------------------------------------------------------- endless restarts
def endless_restarts(plan: Plan) -> Iterator[Problem]:
    """Rules that start a broken job again, however often it breaks."""
    for job, rules in all_rules(plan):
        yield from _endless(rules, job)


def _endless(rules: Monitoring, job: str) -> Iterator[Problem]:
    for place, event in events_of(rules):
        if any(_is_endless(action) for action in event.actions if _broke(event)):
            yield Problem(
                f"{event.name} restarts a job without a limit",
                where=place,
                job=job,
                hint="add the condition MaxAttemptsCondition: max_attempts: 3",
            )


# ------------------------------------------------------------------- scripts never run
def unused_scripts(plan: Plan) -> Iterator[Problem]:
    """Scripts that old configs name, and that nobody runs."""
    for job, rules in all_rules(plan):
        yield from _unused(rules, job)


def _unused(rules: Monitoring, job: str) -> Iterator[Problem]:
    for place, event in events_of(rules):
        for at, action in enumerate(event.actions):
            if isinstance(action, RunAutoexp) and action.script:
                yield Problem(
                    f"{action.script} is not run: the engine plans the config itself",
                    where=f"{place}.actions.{at}.script",
                    job=job,
                    hint="leave `script` out",
                )


def all_rules(plan: Plan) -> Iterator[tuple[str, Monitoring]]:
    """The plan's rules, then those of jobs with their own: the job, and its rules."""
    yield "", plan.monitoring
    for job in plan.jobs:
        rules = plan.rules_of(job)
        if rules is not plan.monitoring:
            yield job.name, rules


def events_of(rules: Monitoring) -> Iterator[tuple[str, LogEvent | StateEvent]]:
    """Every rule, with its place in the config."""
    for at, log_event in enumerate(rules.log_events):
        yield f"monitoring.log_events.{at}", log_event
    for at, state_event in enumerate(rules.state_events):
        yield f"monitoring.state_events.{at}", state_event


def _broke(event: LogEvent | StateEvent) -> bool:
    """Whether an event may be the job's own doing, and so come each time."""
    if isinstance(event, LogEvent):
        return True
    ends = (event.state, event.transition[1] if event.transition else "")
    return not any(str(end).lower() in _GO_ON_ANYWAY for end in ends)


def _is_endless(action: Action) -> bool:
    return isinstance(action, Restart) and not limits_attempts(action.conditions)


# ------------------------------------------------------------------ secrets in commands
def secrets_in_commands(plan: Plan) -> Iterator[Problem]:
    """Command lines are for all on a machine to read."""
    for job in plan.jobs:
        if mask_words(job.command, plan.mask) != job.command:
            yield Problem(
                "the command line holds what looks like a secret, and everybody on "
                "the machine can read it (ps)",
                where="backend",
                job=job.name,
                hint="hand it over in the environment: backend.env: "
                "{HF_TOKEN: ${oc.env:HF_TOKEN}}; or name what is none in "
                "project.mask.keep",
            )


# -------------------------------------------------------------------- waits for itself
def waits_for_itself(jobs: Iterable[JobSpec]) -> Iterator[Problem]:
    """Start conditions on what only the job's own run could say."""
    for job in jobs:
        for at, condition in enumerate(job.start_conditions):
            if _asks_itself(condition, job.name):
                yield Problem(
                    "waits for what its own run is to say, and so would never start",
                    where=f"start_conditions.{at}",
                    job=job.name,
                    hint='name the job that is meant: "{sibling.STAGE.name}"',
                )


def _asks_itself(condition: Condition, name: str) -> bool:
    if not condition.blocking:
        return False
    match condition:
        case MetadataIs() | MetricIs():
            return condition.job in ("", name)
        case LogPattern():
            return condition.writer == name
        case Composite(conditions=parts):
            asks = [_asks_itself(part, name) for part in parts]
            return any(asks) if condition.mode == "all" else bool(asks) and all(asks)
    return False


# ------------------------------------------------------------------- unread references
def unread_references(jobs: Iterable[JobSpec]) -> Iterator[Problem]:
    """References that reach the command as they are: nobody reads them there."""
    for job in jobs:
        for text in (*job.command, *job.env.values()):
            found = _REFERENCE.search(text)
            late = job.runtime_overrides and "{runtime." in text
            if found and not late and not _is_meant(found[0], job):
                yield Problem(
                    f"the command holds {found[0]} as it is written",
                    where="backend",
                    job=job.name,
                    hint="references are read in the sweep's points and in "
                    "project.name: set this key there",
                )
                break


def escaped_references(jobs: Iterable[JobSpec]) -> Iterator[Problem]:
    """References as other programs write them, which reach the command as text."""
    for job in jobs:
        for text in (*job.command, *job.env.values()):
            if found := _ESCAPED.search(text):
                yield Problem(
                    f"the command holds {found[0]}...}} as it is written",
                    where="backend",
                    job=job.name,
                    hint=f"set the key in the sweep's points: {{{found[1]}...}}",
                )
                break


def _is_meant(text: str, job: JobSpec) -> bool:
    """Whether a parameter says by doubled braces that the text is no reference."""
    return f"{{{text}}}" in repr(dict(job.parameters))
