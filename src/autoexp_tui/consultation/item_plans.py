"""How items become jobs: all of a request in one planning process.

They are planned in the user's own checkout: planning imports classes that a config
names, and rules of a config are carried out by the engine. A change of code has its
effect on what the jobs run: paths into the repository are moved into its worktree.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.model.errors import AutoexpError, Problem, UsageError
from autoexp_tui.model.specs import count_gpus
from autoexp_tui.planning.overrides import (
    escape_dollars,
    format_override,
    read_override_key,
)
from autoexp_tui.research.options import watch_for_research
from autoexp_tui.research.overrides import CLOSED, find_overrides_problem
from autoexp_tui.research.ports import PlannedItems
from autoexp_tui.storage.provenance import record_path
from autoexp_tui.text.sanitize import clean_line

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import Planner
    from autoexp_tui.model.specs import JobSpec, Plan
    from autoexp_tui.research.ports import PlanRequest
    from autoexp_tui.research.state import Item

FindWorktree = Callable[[str], Path | None]
"""Consultation -> where its change of code is checked out; None: it made none."""
_NO_RESEARCH: Final = "++research=null"
"""Else a config of research makes no jobs."""
_MOST: Final = 300


def plan_items(
    planner: Planner,
    plan: Plan,
    request: PlanRequest,
    directory: Path,
    now: float,
    *,
    top: Path | None = None,
    find_worktree: FindWorktree = lambda _: None,
) -> PlannedItems:
    """Items with their jobs, and why others have none. `plan`: the session's;
    `directory`: the research's; `now`: UTC at which it was ordered; `top`: the
    repository that changes of code are made of. Raises AutoexpError: nothing can be
    planned."""
    problems, asked = dict[str, str](), list[FurtherPlan]()
    items: list[Item] = []
    for item in request.items:
        if problem := _find_problem(item, request.taken):
            problems[item.id] = problem
            continue
        asked.append(_ask(plan, item, request.taken, directory, now))
        items.append(item)
    taken = set(request.taken)
    planned: list[Item] = []
    made = planner.plan_all(asked) if asked else ()
    for item, found in zip(items, made, strict=True):
        try:
            if isinstance(found, AutoexpError):
                raise found
            move = partial(_move_job, top, find_worktree, item.code_ref)
            jobs = _build_jobs(item, found, move)
            if request.has_gpus and item.gpus is not None and len(jobs) == 1:
                jobs = (_give_gpus(jobs[0], item.gpus),)
            if shared := taken.intersection(job.name for job in jobs):
                raise UsageError(f"a job is called {min(shared)} already", "id")
        except AutoexpError as error:
            problems[item.id] = format_problem(error)
        else:
            taken.update(job.name for job in jobs)
            planned.append(replace(item, jobs=jobs))
    return PlannedItems(tuple(planned), problems)


def format_problem(error: AutoexpError) -> str:
    """The first thing that is wrong, on one short line that begins with its key."""
    found: Sequence[Problem] = getattr(error, "problems", ())
    first = found[0] if found else Problem(error.problem, error.where, hint=error.hint)
    # Of a config that is not there the directory is told where it should be.
    where = "config_ref" if posixpath.isabs(first.where) else first.where
    text = f"{where}: {first.message}" if where else first.message
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    hint = f"; {first.hint}" if first.hint else ""
    return clean_line(f"{text}{more}{hint}", _MOST)


def _find_problem(item: Item, taken: Collection[str]) -> str:
    """Why an item is not even planned: its name is a job's, or an answer asks for what
    only a person may: other programs, or other actions of the engine."""
    if item.id in taken:
        return f"id: a job is called {item.id} already"
    is_agents = item.consultation and not (item.by or item.fixes)
    problem = find_overrides_problem(item.overrides) if is_agents else ""
    return problem and f"overrides: {problem}; a person may insert such an item"


def _ask(
    plan: Plan, item: Item, taken: frozenset[str], directory: Path, now: float
) -> FurtherPlan:
    """Its directories are below the session's name: those of other sessions stay."""
    known = {job.name: (job.name, job.output_dir, job.log_dir) for job in plan.jobs}
    known |= {name: (name, "", "") for name in sorted(taken - known.keys())}
    logs = escape_dollars(str(directory / "logs"))
    places = (plan.cwd, plan.base_output_dir or "outputs", directory.parent.name)
    return FurtherPlan(
        base=plan,
        config_ref=item.config_ref or plan.config_ref,
        overrides=(
            *(() if item.config_ref else plan.overrides),
            _NO_RESEARCH,
            format_override("++slurm.log_dir", logs),
        ),
        further=item.overrides,
        prefix=f"{item.id}_",
        output_dir=posixpath.join(*places, item.id),
        known=tuple(known.values()),
        now=now,
    )


def _build_jobs(
    item: Item, planned: Plan, move: Callable[[JobSpec], JobSpec]
) -> tuple[JobSpec, ...]:
    """Raises UsageError where the item cannot run them."""
    if not planned.jobs:
        where = f"config_ref: {planned.config_ref}"
        raise UsageError("it makes no jobs", where, "name a config that has some")
    for job in planned.jobs:
        if job.runtime_overrides:
            text = job.runtime_overrides[0]
            message = "reads values of running jobs ({runtime...}), which no item can"
            raise UsageError(message, f"overrides: {text}", "give it a value")
    record = str(record_path(Path(planned.state_dir), planned.plan_id))
    is_one = len({job.family for job in planned.jobs}) == 1
    values = dict(_list_values(item))
    return tuple(
        replace(
            move(job),
            index=0,
            family=item.id if is_one else f"{item.id}_{job.family}",
            parameters={**job.parameters, **values},
            rules="",
            own_rules=watch_for_research(planned.rules_of(job)),
            config_record=record,
            place="main",
            trial=True,
        )
        for job in planned.jobs
    )


def _list_values(item: Item) -> Iterator[tuple[str, str]]:
    """What the item sets of a person's own keys, and of what a program is given: tables
    of jobs and of results tell runs apart by it."""
    for text in item.overrides:
        key, value = read_override_key(text), text.partition("=")[2].strip("'\"")
        is_own = key.partition(".")[0] not in CLOSED
        if value and (is_own or key.startswith("backend.")):
            yield key, value


def _give_gpus(job: JobSpec, gpus: int) -> JobSpec:
    """The job with so many GPUs, in place of those that its config asks for."""
    asked = job.resources.options.items()
    others = {key: one for key, one in asked if not count_gpus({key: one})}
    options = others | ({"gpus": gpus} if gpus else {})
    resources = replace(job.resources, gpus=gpus, options=options)
    return job if job.resources.gpus == gpus else replace(job, resources=resources)


def _move_job(
    top: Path | None, find_worktree: FindWorktree, code: str, job: JobSpec
) -> JobSpec:
    """The job with the code of a change: what it names below `top` is meant in the
    worktree, where that has it; results and data stay. Raises UsageError."""
    if not code:
        return job
    worktree = find_worktree(code)
    if worktree is None or top is None:
        raise UsageError(f"{code} has made no change of code", "code_ref")
    move = partial(_move_paths, top, worktree)
    moved = replace(
        job,
        cwd=move(job.cwd),
        command=tuple(map(move, job.command)),
        env={name: move(text) for name, text in job.env.items()},
    )
    if moved == job:
        message = f"would change nothing: {job.name} runs nothing of {top}"
        raise UsageError(message, "code_ref")
    return moved


def _move_paths(top: Path, worktree: Path, text: str) -> str:
    def move(found: re.Match[str]) -> str:
        below = found[1].lstrip("/")
        return str(worktree / below) if (worktree / below).exists() else found[0]

    return re.sub(rf"{re.escape(str(top))}((?:/[^\s'\",:;=]*)?)(?![\w.-])", move, text)
