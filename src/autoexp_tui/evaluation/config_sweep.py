"""A plan of ours as the measurement of candidates (`evaluate.config_ref`).

It is made once, from the root commit: a candidate's change of the config has no effect.
For each evaluation its jobs are given names and places of their own; they run isolated,
in the candidate's worktree. Their run groups are the rows of the CSV.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.conditions.jobs import JobStateIs
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.model.errors import AutoexpError, UsageError, ValidationFailed
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.states import JobState
from autoexp_tui.model.wording import STATES, format_cause_of_end
from autoexp_tui.storage.atomic import explaining, write_atomic
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.telemetry.results import (
    Groups,
    Measure,
    Source,
    compute_cell,
    group_runs,
    read_value,
)
from autoexp_tui.text.log_lines import find_canonical_name
from autoexp_tui.tree.jobs import PREPARE, PROGRAMS, name_measuring_job
from autoexp_tui.tree.results_csv import ID_COLUMN, OK, STATUS_COLUMN
from autoexp_tui.worktrees.tree_repository import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from autoexp_tui.engine.ports import Planner
    from autoexp_tui.evaluation.requests import Request
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.tree.options import Measurement, TreeOptions
    from autoexp_tui.tree.state import Evaluation

PLAN: Final = "sweep_plan.json"
_PREFIX: Final = "EVALUATION__"
_OUTPUT: Final = "/EVALUATION__OUTPUT"
"""What stands in the plan before the names of jobs, and for the directory below which
they write, where each evaluation puts its own."""


def plan_sweep(
    planner: Planner,
    base: Plan,
    measurement: Measurement,
    *,
    top: Path,
    root: Path,
    directory: Path,
) -> tuple[str, ...]:
    """Plan `config_ref` from `root`, the worktree of the root commit, and keep the plan
    in `directory`; the names of its jobs. What the search's plan names below `top`, the
    repository, is meant there. Raises AutoexpError."""

    def move(path: str) -> str:
        is_inside = path and Path(path).is_relative_to(top)
        return str(root / Path(path).relative_to(top)) if is_inside else path

    places = [move(base.config_dir), str(root / "config"), str(root)]
    found = [
        one for one in places if Path(one, f"{measurement.config_ref}.yaml").is_file()
    ]
    cwd = move(base.cwd)
    base = replace(
        base,
        cwd=cwd if Path(cwd).is_relative_to(root) else str(root),
        config_dir=found[0] if found else places[0],
        search_dirs=tuple(dict.fromkeys((*places[:1], *map(move, base.search_dirs)))),
    )
    asked = FurtherPlan(
        base=base,
        config_ref=measurement.config_ref,
        prefix=_PREFIX,
        output_dir=_OUTPUT,
        now=base.created_at,
    )
    where = f"tree.evaluate.config_ref: {measurement.config_ref}"
    try:
        plan = planner.plan(asked)
    except AutoexpError as error:
        if isinstance(error, ValidationFailed):
            own = (replace(p, job=p.job.removeprefix(_PREFIX)) for p in error.problems)
            error.problems = tuple(own)
        error.where = where + (f": {error.where}" if error.where else "")
        raise
    if named := next((job.name for job in plan.jobs if job.runtime_overrides), ""):
        raise UsageError(
            f"{named.removeprefix(_PREFIX)} reads values of running jobs "
            "({runtime...}), which a plan that measures candidates cannot",
            where=where,
            hint="Give it a value, or let the job read a file of the job before it.",
        )
    stages = list(dict.fromkeys(job.stage for job in plan.jobs))
    if measurement.stage and measurement.stage not in stages:
        raise UsageError(
            f"{measurement.config_ref} has no stage {measurement.stage}",
            where="tree.evaluate.stage",
            hint=f"It has: {', '.join(stages)}.",
        )
    write_atomic(directory / PLAN, encode_plan(plan))
    return tuple(job.name.removeprefix(_PREFIX) for job in plan.jobs)


def build_sweep_jobs(request: Request, evaluation: Evaluation) -> tuple[JobSpec, ...]:
    """The jobs of the plan as those of an evaluation, which begin once its worktree is
    ready."""
    directory, find = Path(request.directory), request.repository.get_worktree
    moved = ((str(find(Place("wt", "0"))), str(find(request.place))),)
    plan = _load_plan(directory, evaluation, moved)
    output = _find_output(directory, evaluation)
    after, file = evaluation.name_job(PREPARE), str(request.home / f"{PREPARE}.json")
    ready = JobStateIs(jobs=(after,), state=JobState.COMPLETED)

    def build(job: JobSpec) -> JobSpec:
        words = (sys.executable, "-m", f"{PROGRAMS}.fenced", file, output)
        return replace(
            job,
            index=0,
            family=f"{evaluation.id}_{job.family}",
            command=(*words, ",".join(job.env), *job.command),
            log_dir=str(directory / "logs" / job.name),
            start_conditions=(ready, *job.start_conditions),
            depends_on=(after, *job.depends_on),
            rules="",
            own_rules=plan.rules_of(job),
            config_record="",
            trial=True,
        )

    return tuple(map(build, plan.jobs))


def _find_output(directory: Path, evaluation: Evaluation) -> str:
    """Where the jobs of an evaluation write, each its own and all of it."""
    return str(directory / "eval" / evaluation.id / f"output{evaluation.suffix}")


def _load_plan(
    directory: Path, evaluation: Evaluation, moved: Sequence[tuple[str, str]] = ()
) -> Plan:
    """The plan with the names and the places of an evaluation."""
    path = directory / PLAN
    with explaining(path, "read the plan of the sweep"):
        text = read_checked(path, "own").decode()
    prefix = name_measuring_job(evaluation, "")
    output = _find_output(directory, evaluation)
    for old, new in ((_OUTPUT, output), (_PREFIX, prefix), *moved):
        text = text.replace(old, new)
    return decode_plan(text.encode(), str(path))


def write_rows(
    directory: Path,
    evaluation: Evaluation,
    jobs: Mapping[str, JobRecord],
    options: TreeOptions,
) -> bytes:
    """The CSV of an evaluation's jobs: a row for each run group of a stage, by default
    of the last; ok when all jobs of the group completed."""
    plan, metrics = _load_plan(directory, evaluation), options.list_metrics()
    records = [jobs[job.name] for job in plan.jobs]
    source = Source(plan=plan, jobs=records, live=[None] * len(records))
    groups = group_runs([source], options.evaluate.stage or plan.jobs[-1].stage)
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow((ID_COLUMN, STATUS_COLUMN, *metrics))
    for number, row in enumerate(groups.rows):
        own = [records[at] for at in row.jobs]
        cells = _list_cells(own, groups, metrics)
        writer.writerow((number, _tell_status(own), *cells))
    return written.getvalue().encode()


def _list_cells(
    jobs: Sequence[JobRecord], groups: Groups, metrics: Sequence[str]
) -> Iterator[str]:
    for metric in metrics:
        name, result = find_canonical_name(metric), groups.result
        measure = result if name == result.metric else Measure(name)
        cell = compute_cell([read_value(job, None, measure, result) for job in jobs])
        is_whole = cell.mean is not None and cell.finite == cell.of
        yield repr(cell.mean) if is_whole else ""


def _tell_status(jobs: Sequence[JobRecord]) -> str:
    wrong = next((job for job in jobs if job.state is not JobState.COMPLETED), None)
    if wrong is None:
        return OK
    if wrong.cause is None:
        return STATES[wrong.state]
    return f"{STATES[wrong.state]}: {format_cause_of_end(wrong.cause, wrong.state)}"
