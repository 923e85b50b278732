"""More of a campaign that runs: how a plan that was made anew compares with the jobs of
a session, and the plan that joins it.

The same job has the same name and fingerprint: neither index nor family nor places
count. A job that differs keeps running as it is, or comes a second time as `NAME_v2`,
with all that reads it. A version that is there already is the job itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import NOT_STARTED
from autoexp_tui.planning.overrides import format_override
from autoexp_tui.sweep.points import NOTES, format_in_name, plain_key
from autoexp_tui.text.spelling import join_some, plural

if TYPE_CHECKING:  # the planning process needs no state
    from autoexp_tui.model.state import JobRecord

_VERSION: Final = re.compile(r"(?P<name>.+)_v(?P<number>[1-9]\d*)", re.DOTALL)
_MOST_NAMES: Final = 6
LEFT_OUT: Final = "no_longer_planned"
"""Why jobs were held or ended that a newer plan has not."""
_NOT_SWEPT: Final = frozenset({"stage", "_stage", "project.name", NOTES})

Build: TypeAlias = Callable[[Mapping[str, str]], Plan]
"""Makes the plan with other names: as the config gives it -> as the job is called."""


def settle_names(fingerprints: Mapping[str, str], build: Build) -> tuple[Plan, Plan]:
    """The plan with the names that its jobs have in the session, and the same with new
    names for those that differ; the two are one where none does. `fingerprints`: of the
    session's jobs."""
    first = build({})
    versions = _find_versions([job.name for job in first.jobs], fingerprints)
    plan = build(versions) if versions else first
    as_given = {job.index: job for job in first.jobs}
    back = {
        given.name
        for job in plan.jobs
        if (given := as_given.get(job.index, job)).name in versions
        and fingerprints[job.name] != job.fingerprint
        and fingerprints.get(given.name) == given.fingerprint
    }
    if back:  # the config is again what it was before that version
        versions = {name: one for name, one in versions.items() if name not in back}
        plan = build(versions)
    names, renamed = dict(versions), plan
    taken = {*fingerprints, *(job.name for job in first.jobs)}
    while different := [
        job
        for job in renamed.jobs
        if fingerprints.get(job.name, job.fingerprint) != job.fingerprint
    ]:
        for job in different:
            written = as_given.get(job.index, job).name
            names[written] = find_free_name(written, taken)
            taken.add(names[written])
        renamed = build(names)
    return plan, renamed


def _find_versions(names: Collection[str], there: Iterable[str]) -> dict[str, str]:
    """The newest version that a session has of each of these names, where it has one;
    a name that the config itself gives is no version."""
    found: dict[str, tuple[int, str]] = {}
    own = set(names)
    for name in there:
        match = _VERSION.fullmatch(name)
        if match and name not in own and match["name"] in own:
            one = (int(match["number"]), name)
            found[match["name"]] = max(one, found.get(match["name"], one))
    return {name: version for name, (_, version) in found.items()}


def find_free_name(name: str, taken: Collection[str]) -> str:
    """`name_v2`, or the next number that is free."""
    number = 2
    while f"{name}_v{number}" in taken:
        number += 1
    return f"{name}_v{number}"


def _strip_version(name: str) -> str:
    match = _VERSION.fullmatch(name)
    return match["name"] if match else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a plan that was made anew compares with a session's jobs."""

    plan: Plan
    renamed: Plan
    """The same where jobs that differ, and what reads them, have new names."""
    added: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    """They do other work by the plan; those of `moved` among them."""
    moved: tuple[str, ...] = ()
    """Their name holds the index, and means another point by the plan."""
    new_names: Mapping[str, str] = field(default_factory=dict)
    """Of those that differ, and of what reads them: the name -> the new one."""
    waiting: tuple[str, ...] = ()
    """No longer planned, and not begun."""
    running: tuple[str, ...] = ()
    """No longer planned; sent to the executor, or between two attempts."""
    ended: tuple[str, ...] = ()
    refusals: tuple[Problem, ...] = ()
    """Why nothing of it can join."""
    notes: tuple[str, ...] = ()
    """What it says that the session does not take."""
    sessions_jobs: tuple[JobSpec, ...] = ()
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Of jobs that are no longer planned: as many as they have had."""

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing that the session has not."""
        return not (self.added or self.different or self.waiting or self.running)

    def describe(self) -> str:
        """`adds 2 jobs, 4 stay the same, 1 differs, 3 are no longer planned`."""
        gone = len(self.waiting) + len(self.running) + len(self.ended)
        counts = (
            (len(self.different), "differs", "differ"),
            (gone, "is no longer planned", "are no longer planned"),
        )
        return ", ".join(
            [
                f"adds {plural(len(self.added), 'job')}",
                f"{len(self.same)} stay{'s' * (len(self.same) == 1)} the same",
                *(f"{n} {one if n == 1 else more}" for n, one, more in counts if n),
            ]
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a person wants of a growth."""

    different: Literal["", "keep", "rename"] = ""
    """Empty: they keep running as they are, unless one has moved: then it is asked."""
    waiting: Literal["stay", "hold", "end"] = "stay"
    running: Literal["stay", "end"] = "stay"
    run: Literal["all", "family", "none"] = "all"
    """Which of the added run; the others are held."""


def compare_plans(
    plan: Plan, renamed: Plan, session: Plan, jobs: Sequence[JobRecord]
) -> Growth:
    """How a plan compares with a session's, as `settle_names` made it; `session`: with
    the jobs of all that joined, as planned; `jobs`: as they are now."""
    there = {job.name: job for job in session.jobs}
    records = {record.name: record for record in jobs}
    new_names = {job.index: job.name for job in renamed.jobs}
    added, same, different = list[str](), list[str](), list[str]()
    for job in plan.jobs:
        prints = {there[job.name].fingerprint} if job.name in there else set()
        if job.name in records:  # with other overrides it may be what is planned now
            prints.add(records[job.name].spec.fingerprint)
        kind = same if job.fingerprint in prints else different if prints else added
        kind.append(job.name)
    gone = _list_gone(plan, jobs)
    begun = [one for one in gone if not one.ended and one.state not in NOT_STARTED]
    planned = {job.name: job for job in plan.jobs}
    new, old = plan.executor.max_parallel, session.executor.max_parallel
    note = f"slurm.max_parallel is {new} now; the session keeps {old}"
    return Growth(
        plan=plan,
        renamed=renamed,
        added=tuple(added),
        same=tuple(same),
        different=tuple(different),
        moved=tuple(
            name
            for name in different
            if name in there and _is_moved(there[name], planned[name])
        ),
        new_names={
            job.name: new_names[job.index]
            for job in plan.jobs
            if new_names.get(job.index, job.name) != job.name
        },
        waiting=tuple(one.name for one in gone if one.state in NOT_STARTED),
        running=tuple(one.name for one in begun),
        ended=tuple(one.name for one in gone if one.ended),
        refusals=tuple(find_refusals(plan, session)),
        notes=(note,) if new != old else (),
        sessions_jobs=tuple(record.spec for record in jobs),
        attempts={one.name: len(one.attempts) for one in gone},
    )


def _list_gone(plan: Plan, jobs: Sequence[JobRecord]) -> list[JobRecord]:
    """Jobs of people that no plan has any more. What others made stays, and a job that
    has a newer version."""
    names = {job.name for job in plan.jobs}
    given = names | {_strip_version(name) for name in names}
    return [
        one
        for one in jobs
        if one.is_planned
        and one.name not in given
        and _strip_version(one.name) not in given
    ]


def _is_moved(old: JobSpec, new: JobSpec) -> bool:
    """Whether a name that holds the index means another point than it did."""
    holds = re.search(
        rf"(?<!\d)0*{old.index}(?!\d)|(?<!\d)0*{new.index}(?!\d)", new.name
    )
    return holds is not None and _list_values(old) != _list_values(new)


def _list_values(job: JobSpec) -> dict[str, str]:
    values = job.parameters if job.planned is None else job.planned
    return {plain_key(key): format_in_name(value) for key, value in values.items()}


def find_refusals(plan: Plan, session: Plan) -> Iterable[Problem]:
    """What a session cannot take from a plan: it has one executor and one place."""
    fixed = (
        (
            "slurm.client.class_name",
            plan.executor.class_name,
            session.executor.class_name,
        ),
        ("project.base_output_dir", plan.base_output_dir, session.base_output_dir),
        (
            "monitoring.state_dir",
            plan.own_state_dir,
            session.own_state_dir or plan.own_state_dir,
        ),
        ("project.share", plan.share, session.share),
    )
    for key, new, old in fixed:
        if new != old:
            message = (
                f"is {new or 'nothing'} now, and {old or 'nothing'} in the session"
            )
            hint = "begin another session for it, or set it back"
            yield Problem(message, where=key, hint=hint)


def build_joining_plan(growth: Growth, choices: Choices, record: str = "") -> Plan:
    """The plan that joins: only what the session has not; `record`: the file with what
    its configs were. Jobs of a family that is there join it."""
    source = growth.renamed if choices.different == "rename" else growth.plan
    known = {job.name: job for job in growth.sessions_jobs}
    families: dict[tuple[str, bool], str] = {
        (job.family, False): known[job.name].family
        for job in source.jobs
        if job.name in known
    }
    numbers = iter(range(len({job.family for job in known.values()}), 1 << 30))
    renamed = {*growth.new_names.values()} if source is growth.renamed else set()
    jobs = []
    for job in source.jobs:
        if job.name not in known:
            key = (job.family, job.name in renamed)
            if key not in families:
                families[key] = f"f{next(numbers)}"
            jobs.append(replace(job, family=families[key], config_record=record))
    names = {job.name for job in jobs}
    return replace(
        source,
        jobs=tuple(jobs),
        edges=tuple(edge for edge in source.edges if edge.after in names),
        holes=(),
        holes_more=0,
    )


def choose_running(plan: Plan, choices: Choices) -> tuple[str, ...]:
    """Which jobs of a joining plan are let run."""
    if choices.run == "none" or not plan.jobs:
        return ()
    if choices.run == "family":
        from autoexp_tui.planning.dag import find_first_family

        return tuple(find_first_family(plan, frozenset()))
    return tuple(job.name for job in plan.jobs)


def list_swept(jobs: Iterable[JobRecord]) -> list[str]:
    """The overrides that give a sweep the values that it has, one for each parameter
    that tells jobs of a stage apart, in the order in which they are swept."""
    found: dict[str, dict[str, object]] = {}
    stages: dict[tuple[str, str], set[str]] = {}
    for record in jobs:
        job, reason = record.spec, record.why
        if not record.is_planned or (reason and reason.code == LEFT_OUT):
            continue
        for key, value in job.parameters.items():
            if key.startswith("~") or plain_key(key) in _NOT_SWEPT:
                continue
            is_plain = isinstance(value, bool | int | float | str)
            text = format_in_name(value)
            is_written = is_plain and not {"{", "$"} & {*text}
            values = found.setdefault(plain_key(key), {})
            values[text] = value if is_written else None
            stages.setdefault((plain_key(key), job.stage), set()).add(text)
    apart = {key for (key, _), texts in stages.items() if len(texts) > 1}
    return [
        format_override(key, list(values.values()))
        for key, values in found.items()
        if key in apart and None not in values.values()
    ]


def list_lines(growth: Growth, choices: Choices | None = None) -> list[tuple[str, str]]:
    """Mark and sentence of all that is to be known of a growth, names included, and of
    what becomes of its jobs where that is chosen."""
    differing, waiting, running = "", "waiting", "running"
    if choices:
        new = join_some([*growth.new_names.values()], _MOST_NAMES)
        renames = choices.different == "rename"
        differing = f" (new names: {new})" if renames else " (keeps running as it is)"
        waiting, running = (
            f"{waiting}: {choices.waiting}",
            f"{running}: {choices.running}",
        )
    gone, more_gone = "is no longer planned", "are no longer planned"
    # As they are, those read what is there.
    readers = [name for name in growth.new_names if name not in growth.different]
    told = (
        ("+", growth.added, "joins", "join", ""),
        ("=", growth.same, "stays the same", "stay the same", ""),
        ("~", growth.different, "differs", "differ", differing),
        ("~", readers, "reads", "read", " those (with new names: they too, anew)"),
        ("-", growth.waiting, gone, more_gone, f" ({waiting})"),
        ("-", growth.running, gone, more_gone, f" ({running})"),
        ("-", growth.ended, gone, more_gone, " (ended)"),
    )
    return [
        *(
            (
                mark,
                f"{plural(len(names), 'job')} {one if len(names) == 1 else more}{how}: "
                f"{join_some(list(names), _MOST_NAMES)}",
            )
            for mark, names, one, more, how in told
            if names
        ),
        *(("!", text) for text in (*_list_moves(growth), *growth.notes)),
    ]


def _list_moves(growth: Growth) -> Iterable[str]:
    """What names that hold the index meant, and mean now."""
    was = {job.name: _list_values(job) for job in growth.sessions_jobs}
    now = {job.name: _list_values(job) for job in growth.plan.jobs}
    for name in growth.moved[:_MOST_NAMES]:
        keys = [key for key, value in now[name].items() if value != was[name].get(key)]
        points = (
            ", ".join(f"{key}={values[name].get(key, '-')}" for key in keys)
            for values in (was, now)
        )
        yield f"{name} was {' and is now '.join(points)}"
