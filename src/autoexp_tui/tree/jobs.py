"""The jobs of a search: a call for ideas, an idea's implementation, its sweep. Where
each step reads and writes follows from the ids alone."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from autoexp_tui.conditions.jobs import JobStateIs
from autoexp_tui.model.specs import JobSpec, Resources
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.model.wording import format_cause_of_end
from autoexp_tui.tree.state import tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from autoexp_tui.model.facts import Moment
    from autoexp_tui.model.state import JobRecord, SessionState
    from autoexp_tui.tree.state import Evaluation, Node, Tree

PROGRAMS: Final = "autoexp_tui.evaluation"
"""The package of what the steps run."""
IMPLEMENT: Final = "implement"
SWEEP: Final = "sweep"
PREPARE: Final = "prepare"
"""Before the jobs of `evaluate.config_ref`, which take the place of the sweep."""
IDEAS: Final = "ideas"
INFRASTRUCTURE: Final = frozenset(
    {Cause.NODE_FAIL, Cause.PREEMPTED, Cause.LOST, Cause.SUBMIT_ERROR}
)
"""Ends that say nothing of the candidate."""


def find_evaluation_dir(directory: str, evaluation: str) -> str:
    return posixpath.join(directory, "eval", evaluation)


def find_ideas_dir(directory: str, node: str) -> str:
    return posixpath.join(directory, "node_ideas", node)


def find_candidate_dir(root: str, evaluation: str) -> str:
    """Below the root of worktrees; the candidate's number names it."""
    return posixpath.join(root, "cand", evaluation[1:])


def find_node_dir(root: str, node: str) -> str:
    return posixpath.join(root, "wt", node[1:])


def list_job_names(tree: Tree, evaluation: Evaluation) -> Iterator[str]:
    """Of an evaluation, in the order in which they begin."""
    if evaluation.idea is not None:
        yield evaluation.name_job(IMPLEMENT)
    yield evaluation.name_job(PREPARE if tree.sweep else SWEEP)
    for name in tree.sweep:
        yield name_measuring_job(evaluation, name)


def name_measuring_job(evaluation: Evaluation, name: str) -> str:
    """What a job of `evaluate.config_ref` is called in an evaluation."""
    return f"{evaluation.id}{evaluation.suffix}_{name}"


def build_evaluation_jobs(
    state: SessionState, evaluation: Evaluation, measuring: Sequence[JobSpec] = ()
) -> tuple[JobSpec, ...]:
    """The implementation, and the sweep that follows on it; of the root's measurement
    the sweep alone. `measuring`: what runs in place of the sweep."""
    sweep = _build_step(state, evaluation, PREPARE if measuring else SWEEP)
    if evaluation.idea is None:
        return sweep, *measuring
    implement = _build_step(state, evaluation, IMPLEMENT)
    before = JobStateIs(jobs=(implement.name,), state=JobState.COMPLETED)
    waits = replace(sweep, start_conditions=(before,), depends_on=(implement.name,))
    return implement, waits, *measuring


def _build_step(state: SessionState, evaluation: Evaluation, step: str) -> JobSpec:
    """A step of an evaluation; sweeps run where the session's jobs do."""
    place = find_evaluation_dir(tree_of(state).directory, evaluation.id)
    output, name = _OUTPUTS[step] + evaluation.suffix, evaluation.name_job(step)
    return _build_job(state, name, step, place, output, evaluation.id)


def build_idea_job(state: SessionState, node: Node) -> JobSpec:
    """The call that proposes ideas for a node."""
    place = posixpath.join(tree_of(state).directory, "calls", node.ideas_job)
    return _build_job(state, node.ideas_job, IDEAS, place, "output", node.id)


_OUTPUTS: Final = {IMPLEMENT: "experiment", SWEEP: "output", PREPARE: "prepare"}


def _build_job(
    state: SessionState, name: str, step: str, place: str, output: str, family: str
) -> JobSpec:
    """`place`: where its request lies and, below it, what it writes."""
    tree = tree_of(state)
    request = posixpath.join(place, f"{step}.json")
    limit = tree.options.eval_timeout_seconds or None
    return JobSpec(
        name=name,
        index=0,  # the next free one, when it joins
        stage=step,
        family=family,
        command=(tree.python, "-m", f"{PROGRAMS}.{step}", request),
        cwd=tree.directory,
        output_dir=posixpath.join(place, output),
        log_dir=posixpath.join(tree.directory, "logs", name),
        resources=Resources(time_limit_seconds=limit),
        place="main" if step == SWEEP else "beside",
        trial=True,
    )


def measure_runs(jobs: Sequence[JobRecord], now: Moment) -> float:
    """Seconds for which any attempt of the jobs has run by now, but for those that
    ended by what is not their own. Of one that runs the session's own time counts:
    clocks of hosts differ, and are set."""
    spans = [
        (one.began_at, one.ended_at)
        for job in jobs
        for one in job.attempts
        if one.began_at and one.ended_at and one.cause not in INFRASTRUCTURE
    ]
    running = (job for job in jobs if job.state is JobState.RUNNING)
    spans += [(now.t - now.lived + job.since_lived, now.t) for job in running]
    used, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        used += max(0.0, end - max(begin, until))
        until = max(until, end)
    return used


def describe_end(job: JobRecord) -> str:
    if job.cause is None:
        return str(job.state.value).lower()
    return format_cause_of_end(job.cause, job.state)
