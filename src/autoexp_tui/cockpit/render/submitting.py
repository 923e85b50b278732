"""What S asks: which jobs, how many at a time, at what cost, which cannot run here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.first_run import warning_words
from autoexp_tui.cockpit.render.questions import Choice, Question
from autoexp_tui.cockpit.render.spans import Line, Span, outside
from autoexp_tui.cockpit.state.kill_cost import needed_upstream
from autoexp_tui.cockpit.state.parameters import described, varying
from autoexp_tui.cockpit.state.time_limit_forecast import NO_RATES, Rates, cuts_told
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import duration, plural
from autoexp_tui.planning.estimate import estimate, gpu_words

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.parameters import Parameter
    from autoexp_tui.cockpit.state.scope import Scope
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.specs import Plan

_LOCAL = frozenset({"local", "Local", "LocalCommand"})
_OTHER_PLAN = (
    "! The config is being planned again. y submits the plan shown here; what is being "
    "planned is then not opened."
)
_NAMED = 3
"""Jobs that are too large, by name, before the rest is counted."""


def submit_question(
    scope: Scope,
    session: SessionView,
    usual: Rates = NO_RATES,
    telling: Sequence[Parameter] | None = None,
) -> Question | None:
    """What S asks; None when every job was asked to run already.

    Args:
        scope: what is marked, else under the cursor.
        session: as shown.
        usual: what is known of how fast stages go.
        telling: the parameters that tell families apart, where they are at hand.
    """
    waiting = [job for job in session.jobs if _submittable(job)]
    plan = session.snapshot.plan
    if not waiting or plan is None:
        return None
    where = f"{_where(session)}{_partitions(waiting, session)}"
    limits = _limits(waiting, session)
    lines: list[Line] = [(Span(f"{where}{_room(plan, session)}{limits}."),)]
    if session.snapshot.engine.doing:
        lines.append((Span(_OTHER_PLAN, "warning"),))
    lines += _done_words(waiting)
    lines += _too_large_words(waiting, session)
    lines += cuts_told(waiting, session, usual)
    lines += [
        (Span(f"! {warning_words(finding)}", "warning"),) for finding in plan.warnings
    ]
    return Question(
        title=f"Submit {outside(plan.name)}?",
        lines=tuple(lines),
        stay="Not now",
        confirm="submit",
        choices=tuple(_choices(scope, session, waiting, telling)),
    )


# ------------------------------------------------------------------------ where
def _where(session: SessionView) -> str:
    """`On this machine`, or the executor by its name."""
    name = outside(session.snapshot.engine.executor).removesuffix("Client")
    if name in _LOCAL:
        return "On this machine"
    return f"On {name.lower() or 'the executor'}"


def _is_cluster(session: SessionView) -> bool:
    name = outside(session.snapshot.engine.executor).removesuffix("Client")
    return name.lower() == "slurm"


def _partitions(jobs: Sequence[JobView], session: SessionView) -> str:
    """`, partition gpu`, of a cluster."""
    if not _is_cluster(session):
        return ""
    asked = {
        outside(str(job.record.spec.resources.options.get("partition") or ""))
        for job in jobs
    }
    names = [name or "the default one" for name in sorted(asked)]
    if len(names) == 1:
        return f", partition {names[0]}" if "" not in asked else ", default partition"
    return f", partitions {', '.join(names[:-1])} and {names[-1]}"


def _limits(jobs: Sequence[JobView], session: SessionView) -> str:
    """`, time limit 1 h`: what a cluster will hold the jobs to."""
    if not _is_cluster(session):
        return ""
    asked = {job.record.spec.resources.time_limit_seconds for job in jobs}
    known = sorted(limit for limit in asked if limit)
    if not known:
        return ", no time limit of their own"
    if len(asked) == 1:
        return f", time limit {duration(known[0])}"
    upper = duration(known[-1]) if len(known) == len(asked) else "none"
    return f", time limits {duration(known[0])} to {upper}"


def _room(plan: Plan, session: SessionView) -> str:
    """`, 4 at a time, 2 GPUs`, as far as it is known."""
    engine = session.snapshot.engine
    limits = [limit for limit in (plan.executor.max_parallel, engine.slots) if limit]
    at_once = f", {min(limits)} at a time" if limits else ""
    asked = any(job.record.spec.resources.gpus for job in session.jobs)
    if engine.gpus is None or not asked:
        return at_once
    return f"{at_once}, {plural(engine.gpus, 'GPU') if engine.gpus else 'no GPU'}"


# ------------------------------------------------------------------- done already
def _done_words(jobs: Sequence[JobView]) -> Iterable[Line]:
    """How many need not run, since an earlier session has done their work."""
    done = sum(1 for job in jobs if job.record.done)
    if done:
        text = f"{done} of {plural(len(jobs), 'job')} {_is(done)} done already"
        more = " and not run again; --force runs all, R one of them anew."
        yield (Span(text, "done"), Span(more))


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


# -------------------------------------------------------------------- too large
def _too_large(jobs: Sequence[JobView], session: SessionView) -> Sequence[JobView]:
    """Those that the machine has too few GPUs for, where it is known how many."""
    gpus = session.snapshot.engine.gpus
    if gpus is None:
        return ()
    wanting = [job for job in jobs if job.record.spec.resources.gpus > gpus]
    return [job for job in wanting if not job.record.done]


def _too_large_words(jobs: Sequence[JobView], session: SessionView) -> Iterable[Line]:
    """Which jobs the machine has too few GPUs for, and what to do about it."""
    large = _too_large(jobs, session)
    if not large:
        return
    most = max(job.record.spec.resources.gpus for job in large)
    want = "wants" if len(large) == 1 else "want"
    up_to = "" if len(large) == 1 else "up to "
    text = f"! {plural(len(large), 'job')} {want} {up_to}{plural(most, 'GPU')}: "
    names = ", ".join(outside(job.name) for job in large[:_NAMED])
    more = f" and {len(large) - _NAMED} more" if len(large) > _NAMED else ""
    yield (Span(text, "failed"), Span(f"{names}{more}."))
    has = session.snapshot.engine.gpus or "none"
    yield (
        Span(f"  This machine has {has}, and refuses them. Lower slurm.sbatch.gpus, "),
        Span("or open the plan where there are more."),
    )


def _fitting(jobs: Sequence[JobView], session: SessionView) -> tuple[JobView, ...]:
    """Jobs that this machine can run, all that they wait for among them."""
    missing = {job.name for job in _too_large(jobs, session)}
    if not missing:
        return tuple(jobs)
    asked = {job.name for job in jobs}
    for job in jobs:  # in plan order: what is waited for comes first
        waits_for = asked.intersection(session.upstream.get(job.name, ()))
        if missing & waits_for:
            missing.add(job.name)
    return tuple(job for job in jobs if job.name not in missing)


# ---------------------------------------------------------------------- choices
def _submittable(job: JobView) -> bool:
    return job.record.state in (JobState.PLANNED, JobState.HELD)


def _choices(
    scope: Scope,
    session: SessionView,
    waiting: Sequence[JobView],
    telling: Sequence[Parameter] | None,
) -> Iterable[Choice]:
    fitting = _fitting(waiting, session)
    if 0 < len(fitting) < len(waiting):
        label = f"the {plural(len(fitting), 'job')} that can run here, hold the rest"
        yield _choice("fitting", label, fitting, session)
    number = plural(len(waiting), "job")
    left = len(waiting) < len(session.jobs)
    label = f"the {number} that {_is(len(waiting))} left" if left else f"all {number}"
    yield _choice("all", label, waiting, session)
    marked = [job for job in scope.jobs if _submittable(job)]
    if scope.by_marks and marked:
        jobs = _with_upstream(marked, session)
        extra = len(jobs) - len(marked)
        words = f"the {plural(len(marked), 'marked job')}"
        needs = f" and {extra} needed upstream" if extra else ""
        yield _choice("marked", words + needs, jobs, session)
    yield from _family(scope, session, waiting, telling)


def _family(
    scope: Scope,
    session: SessionView,
    waiting: Sequence[JobView],
    telling: Sequence[Parameter] | None,
) -> Iterable[Choice]:
    """The family under the cursor first, where there are others."""
    first = scope.jobs[0] if scope.jobs else waiting[0]
    family = first.record.spec.family or waiting[0].record.spec.family
    members = [job for job in waiting if job.record.spec.family == family]
    if family and 0 < len(members) < len(waiting):
        jobs = _with_upstream(members, session)
        known = varying(session.snapshot.plan) if telling is None else telling
        name = described(members[0].record.spec, known)
        which = name or outside(family)
        label = f"one family first ({which}, {plural(len(jobs), 'job')}), hold the rest"
        yield _choice("family", label, jobs, session)


def _with_upstream(
    jobs: Sequence[JobView], session: SessionView
) -> tuple[JobView, ...]:
    needed = [job for job in needed_upstream(jobs, session) if _submittable(job)]
    return tuple(sorted((*jobs, *needed), key=lambda job: job.index))


def _choice(
    name: str, label: str, jobs: Sequence[JobView], session: SessionView
) -> Choice:
    large = len(_too_large(jobs, session))
    refused = f", {large} of them refused here" if large else ""
    left = [job for job in jobs if not job.record.done]
    return Choice(
        name, f"{label}{refused}: {_cost(left)}", tuple(job.name for job in jobs)
    )


def _cost(jobs: Sequence[JobView]) -> str:
    """`at most 12 GPU h an attempt`; of those that are left to run."""
    if not jobs:
        return "nothing is left to run"
    words = gpu_words(estimate(job.record.spec for job in jobs))
    return f"{words} an attempt" if words.endswith(" h") else words
