"""The planning process; `planning` starts it.

Reads requests as JSON from stdin, writes an answer each as a line of JSON to what was
stdout when it began. What is wrong with a config is part of its answer, and the exit
status 0;
anything else that escapes is a bug.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.plan_checks import ActionChecks, check_output_places
from autoexp_tui.config.planning import (
    PlanningAnswer,
    PlanningRequest,
    Stage,
    Want,
    decode_requests,
    encode_answer,
    report_of,
)
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.config.sweep_overrides import find_override
from autoexp_tui.config.yaml_files import (
    KeyPlaces,
    make_refusal,
    parse_nodes,
    read_text,
)
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    Problem,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.model.masking import mask_values
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.as_json import hole_to_json
from autoexp_tui.planning.build import (
    PlanOutcome,
    PlanSource,
    build_mask,
    build_plan_outcome,
)
from autoexp_tui.planning.growth import settle_names
from autoexp_tui.planning.job_builder import AS_WRITTEN, Naming
from autoexp_tui.planning.job_config import resolve_where_possible, select_or_none
from autoexp_tui.planning.overrides import check_hydra_key
from autoexp_tui.planning.ports import CannotCompose, ConfigView, SpecRefused
from autoexp_tui.planning.replan_job import build_job_again
from autoexp_tui.planning.validate import fold_problems
from autoexp_tui.probes.config_files import find_config_dir, find_state_dir
from autoexp_tui.storage.json_codec import encode_plan
from autoexp_tui.storage.manifests import make_state_dir, read_manifest, write_manifest
from autoexp_tui.storage.plan_changes import compare_to_last
from autoexp_tui.storage.provenance import RecordBuilder, read_git_state, save_record
from autoexp_tui.sweep.expand import expand_sweep
from autoexp_tui.sweep.points import Origins, SweepRefused

_UNKNOWN: Final[Origins] = {}


def main() -> None:
    """Answer the requests on stdin, each with a line."""
    answer_to = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed goes to stderr
    threading.Thread(target=_end_unheard, args=(answer_to,), daemon=True).start()
    requests = decode_requests(sys.stdin.buffer.read())
    shared: dict[object, HydraComposer] = {}
    with os.fdopen(answer_to, "wb") as out:
        for request in requests:
            out.write(encode_answer(answer_request(request, shared)) + b"\n")
            out.flush()


def _end_unheard(answer_to: int) -> None:
    """End this process, and what it started, once nobody waits for the answer. Who
    asked may be killed, or its terminal closed: planning would go on for nobody."""
    heard = select.poll()
    heard.register(answer_to, 0)  # a pipe that nobody reads is an error of its own
    if any(state & select.POLLERR for _, state in heard.poll()):
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def answer_request(
    request: PlanningRequest, shared: dict[object, HydraComposer] | None = None
) -> PlanningAnswer:
    """The answer to a request; what is wrong with the config is in it. `shared`: what
    earlier requests of the process have composed."""
    cwd = Path(request.cwd or os.getcwd())
    planning = _Planning(
        request, cwd, {} if shared is None else shared, request.overrides
    )
    failed: Stage
    try:
        if request.further and request.want != "job":
            planning.add_overrides(request.further)
        return _WANTED[request.want](planning)
    except CannotCompose as error:
        found, failed = error.problems, "config"
    except (SpecRefused, SweepRefused, ValidationFailed) as error:
        found, failed = error.problems, "plan"
    except (UsageError, EnvironmentFailed) as error:
        found = (Problem(error.problem, where=error.where, hint=error.hint),)
        failed = "config" if isinstance(error, UsageError) else "environment"
    return PlanningAnswer(errors=planning.add_places(found), failed=failed)


@dataclass
class _Planning:
    """What one request is answered with, each made when it is first needed."""

    request: PlanningRequest
    cwd: Path
    shared: dict[object, HydraComposer]
    """Of all requests of the process, by what they compose."""
    overrides: tuple[str, ...] = ()

    @cached_property
    def configs(self) -> RecordBuilder:
        return RecordBuilder()

    def add_overrides(self, further: Iterable[str]) -> None:
        """Plan with further ones, which replace those of the same key; raises
        CannotCompose."""
        sweep = self.composer.sweep() or {}
        found = [find_override(text, sweep) for text in further]
        keys = {text.partition("=")[0] for text in found}
        kept = [one for one in self.overrides if one.partition("=")[0] not in keys]
        is_more = len(kept) == len(self.overrides)
        extended = self.composer.extend(found) if is_more else None
        self.overrides = (*kept, *found)
        for made in ("composer", "state_dir", "places"):
            self.__dict__.pop(made, None)
        if extended is not None:
            self.composer = extended

    @cached_property
    def composer(self) -> HydraComposer:
        request = self.request
        place = (request.config_ref, request.config_dir, request.search_dirs)
        key = (place, self.overrides, self.cwd, request.now)
        if key not in self.shared:
            self.shared[key] = HydraComposer(
                request.config_ref,
                find_config_dir(request.config_dir or None, self.cwd),
                self.overrides,
                cwd=str(self.cwd),
                now=request.now or None,
                search_dirs=request.search_dirs,
            )
        return self.shared[key]

    @cached_property
    def state_dir(self) -> Path:
        configured = ""
        base = self.composer.base()
        if base.has("monitoring.state_dir"):
            configured = str(base.select("monitoring.state_dir"))
        return find_state_dir(self.request.state_dir or None, configured, self.cwd)

    def make_parser(self, state_dir: str = "") -> HouseParser:
        """`state_dir`: of the session, where it is known."""
        roots = map(str, self.composer.roots)
        return HouseParser(
            str(self.cwd),
            state_dir=state_dir or str(self.state_dir),
            config_dirs=(*self.request.search_dirs, *roots),
        )

    def build(
        self,
        record: Callable[[int, ConfigView, Mapping[str, object]], None] | None,
        naming: Naming = AS_WRITTEN,
    ) -> PlanOutcome:
        """The plan, or what is wrong with it; `record` is told each job's config."""
        request, composer = self.request, self.composer
        naming = replace(naming, prefix=request.prefix)
        source = PlanSource(
            config_ref=composer.config_ref,
            config_dir=str(composer.config_dir),
            overrides=self.overrides,
            state_dir=str(self.state_dir),
            cwd=str(self.cwd),
            created_at=request.now,
            known=request.known,
            search_dirs=request.search_dirs,
            naming=naming,
        )
        return build_plan_outcome(
            source, composer=composer, parser=self.make_parser(), record=record
        )

    def save_configs(self, jobs: Iterable[JobSpec], place: Path, name: str) -> Path:
        """Keep what jobs were made from; the file."""
        record = self.configs.record(jobs, read_git_state(self.cwd))
        return save_record(place, name, record)

    def add_places(
        self, problems: Iterable[Problem], origins: Origins = _UNKNOWN
    ) -> tuple[Problem, ...]:
        """The findings, each with the file and the line where its key stands."""
        found: Iterable[Problem] = problems
        if not self.request.sweep_file:
            found = (self.places.add_place(one, origins) for one in problems)
        return tuple(found)

    @cached_property
    def places(self) -> KeyPlaces:
        try:
            return KeyPlaces(self.composer.list_files())
        except AutoexpError:  # of the directory of configs
            return KeyPlaces(())


class _NoPlan(Exception):
    """There is none; the answer says why."""

    def __init__(self, answer: PlanningAnswer) -> None:
        super().__init__()
        self.answer = answer


def _answer_growth(planning: _Planning) -> PlanningAnswer:
    """The plan with the names that its jobs have in the session, and the same with new
    ones for those that differ."""
    request, answers = planning.request, list[PlanningAnswer]()
    places = {name: (output, logs) for name, output, logs in request.known}

    def build(names: Mapping[str, str]) -> Plan:
        answer = _answer_plan(planning, Naming(names, places))
        if answer.plan is None:
            raise _NoPlan(answer)
        answers.append(answer)
        return answer.plan

    try:
        plan, renamed = settle_names(dict(request.fingerprints), build)
    except _NoPlan as failed:
        return failed.answer
    by_plan = {id(answer.plan): answer for answer in answers}
    return replace(
        by_plan[id(plan)],
        renamed=renamed,
        renamed_json="" if renamed is plan else by_plan[id(renamed)].plan_json,
    )


def _answer_plan(planning: _Planning, naming: Naming = AS_WRITTEN) -> PlanningAnswer:
    request, composer = planning.request, planning.composer
    outcome = planning.build(
        (lambda at, view, found: planning.configs.add(at, found, view.written_dict()))
        if request.keep
        else None,
        naming,
    )
    errors, warnings = _collect_findings(planning, outcome)
    if outcome.plan is None or errors:
        refused = {(error.where, error.place) for error in errors}
        return PlanningAnswer(
            errors=errors,
            warnings=tuple(w for w in warnings if (w.where, w.place) not in refused),
            holes=tuple(map(hole_to_json, outcome.holes)),
            holes_more=outcome.holes_more,
            failed="plan",
        )
    plan = replace(
        outcome.plan, environment=composer.environment.digests(), warnings=warnings
    )
    data, manifest, changes = encode_plan(plan), "", None
    if request.keep:
        place = Path(plan.state_dir)
        make_state_dir(place, plan.share)
        planning.save_configs(plan.jobs, place, plan.plan_id)
        if not request.joins:
            manifest = str(write_manifest(place, plan, data))
            changes = None if request.report or request.known else compare_to_last(plan)
    return PlanningAnswer(
        plan=None if request.report else plan,
        plan_json="" if request.report else data.decode(),
        report=json.dumps(report_of(plan)) if request.report else "",
        warnings=warnings,
        manifest=manifest,
        changes=changes,
    )


def _collect_findings(
    planning: _Planning, outcome: PlanOutcome
) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Errors and warnings of a plan, with their places. Hydra's sweepers and launchers
    are replaced by `sweep` and `slurm`: a config that sets them would run one job where
    many were meant."""
    composer = planning.composer
    errors, warnings = [*outcome.errors], [*outcome.warnings]
    if plan := outcome.plan:
        wrong, odd = [], []
        waits = ((job.start_conditions, job.cancel_conditions) for job in plan.jobs)
        is_watched = plan.monitoring != Monitoring() or plan.rule_sets
        if is_watched or any("{runtime." in repr(one) for one in waits):
            checks = ActionChecks(plan, composer.roots, planning.cwd)
            checks.check_plan()
            wrong, odd = checks.errors, checks.warnings
        base = planning.cwd / plan.base_output_dir
        outputs = check_output_places(base, plan.jobs, share=plan.share)
        odd += [problem for problem, stops in outputs if not stops]
        wrong += [problem for problem, stops in outputs if stops]
        warnings += fold_problems(odd)
        errors = [*fold_problems(wrong)]
    wheres = {key: key for key in planning.places.list_hydra_keys()}
    for text in planning.overrides:
        key = text.partition("=")[0].lstrip("+~")
        wheres[key] = f"override {key}"
    found = [check_hydra_key(key, where) for key, where in wheres.items()]
    hydra = [one for one in found if one is not None]
    errors = [*(one for one, is_error in hydra if is_error), *errors]
    warnings += [one for one, is_error in hydra if not is_error]
    return (
        planning.add_places(errors, outcome.origins),
        (*composer.warnings, *planning.add_places(warnings, outcome.origins)),
    )


def _answer_points(planning: _Planning) -> PlanningAnswer:
    """The expanded sweep, of a file by itself or of the config."""
    mask: object = None
    if alone := planning.request.sweep_file:
        path = str(planning.cwd / alone)
        _, tree = parse_nodes(read_text(path), path)
        sweep: Any = tree.get("sweep", tree) if isinstance(tree, dict) else tree
        if not isinstance(sweep, dict):
            hint = "a sweep is a mapping: type, and params, configs or groups"
            raise make_refusal(f"holds {sweep!r}, not a sweep", path, hint)
    else:
        sweep = planning.composer.sweep()
        mask = select_or_none(planning.composer.base(), "project.mask")
    found = expand_sweep(sweep)
    rules = build_mask(mask, [point.parameters for point in found])
    points = tuple(
        {"index": point.index, "parameters": mask_values(point.parameters, rules)}
        for point in found
    )
    return PlanningAnswer(points=points)


def _answer_config(planning: _Planning) -> PlanningAnswer:
    """The primary config, or one job's; what does not resolve stays as written."""
    if not planning.request.job:
        base = planning.composer.base()
        try:
            return PlanningAnswer(config=base.to_dict())
        except CannotCompose:
            found = resolve_where_possible(base)
            return PlanningAnswer(config=found)
    taken: dict[int, Mapping[str, object]] = {}
    outcome = planning.build(lambda index, view, found: taken.update({index: found}))
    if outcome.plan is None:
        errors = planning.add_places(outcome.errors, outcome.origins)
        return PlanningAnswer(errors=errors, failed="plan")
    job = _find_job(outcome.plan, planning.request.job)
    return PlanningAnswer(config=taken[job.index])


def _find_job(plan: Plan, name: str) -> JobSpec:
    for job in plan.jobs:
        if job.name == name:
            return job
    names = ", ".join(job.name for job in plan.jobs[:12])
    raise UsageError(f"there is no job `{name}`", hint=f"jobs: {names}")


def _answer_job(planning: _Planning) -> PlanningAnswer:
    """One job of a plan as it is with further overrides; its names and waits stay."""
    request = planning.request
    plan = read_manifest(Path(request.manifest), run=True)
    job = _find_job(plan, request.job)
    planned = len(job.overrides)
    has_them = request.further[:planned] == tuple(job.overrides)
    made = build_job_again(
        job,
        request.further[planned:] if has_them else request.further,
        plan=plan,
        composer=planning.composer,
        parser=planning.make_parser(plan.state_dir),
        record=partial(planning.configs.add, job.index) if request.keep else None,
    )
    if request.keep and made.planned is not None:
        name = f"{plan.plan_id}-{made.index}-{made.fingerprint[:16]}"
        place = Path(request.state_dir or plan.state_dir)
        record = str(planning.save_configs([made], place, name))
        made = replace(made, config_record=record)
    return PlanningAnswer(job=made, job_json=encode_plan(made).decode())


_WANTED: Final[Mapping[Want, Callable[[_Planning], PlanningAnswer]]] = {
    "plan": _answer_plan,
    "points": _answer_points,
    "config": _answer_config,
    "job": _answer_job,
    "growth": _answer_growth,
}
