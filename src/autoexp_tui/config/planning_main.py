"""The planning process; it begins in `planning_process`.

Reads one request as JSON from stdin, writes one answer as JSON to what was stdout when
it began. Owns Hydra's globals and runs the user's own backend classes, whose prints go
to stderr. Findings about the config are part of the answer and the exit status is 0;
anything else that escapes is a bug, with a traceback on stderr and status 1.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final

from autoexp_tui.config.action_checks import ActionChecks
from autoexp_tui.config.default_files import check_hydra_settings
from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.key_places import KeyPlaces
from autoexp_tui.config.output_checks import OutputFindings, check_output_places
from autoexp_tui.config.plan_report import report_of
from autoexp_tui.config.planning_messages import (
    PlanningAnswer,
    PlanningRequest,
    Stage,
    Want,
    decode_request,
    encode_answer,
    findings,
)
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    Problem,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.model.masking import mask_values
from autoexp_tui.model.specs import JobSpec, Plan, PlanFinding, Share
from autoexp_tui.planning.as_json import hole_to_json
from autoexp_tui.planning.build import (
    PlanOutcome,
    PlanSource,
    mask_for,
    plan_outcome,
    selected,
)
from autoexp_tui.planning.partial_config import resolved_where_possible
from autoexp_tui.planning.ports import (
    CannotCompose,
    ConfigView,
    SpecRefused,
)
from autoexp_tui.planning.replan_job import job_with
from autoexp_tui.planning.validate import told_once
from autoexp_tui.probes.config_files import config_dir, config_roots, state_dir
from autoexp_tui.probes.yaml_files import make_refusal, parse_yaml, read_text
from autoexp_tui.storage.json_codec import encode_job, encode_plan
from autoexp_tui.storage.provenance import (
    RecordBuilder,
    git_state,
    store_record,
)
from autoexp_tui.storage.session_dir import (
    make_state_dir,
    read_manifest,
    write_manifest,
)
from autoexp_tui.sweep.expand import expand_sweep
from autoexp_tui.sweep.findings import SweepRefused
from autoexp_tui.sweep.provenance import Origins

_UNKNOWN: Final[Origins] = {}


def main() -> None:
    """Answer the one request on stdin."""
    answer_to = _private_stdout()
    threading.Thread(target=_end_unheard, args=(answer_to,), daemon=True).start()
    request = decode_request(sys.stdin.buffer.read())
    data = encode_answer(answered(request))
    with os.fdopen(answer_to, "wb") as out:
        out.write(data)


def answered(request: PlanningRequest) -> PlanningAnswer:
    """The answer to a request; what is wrong with the config is in it."""
    failed: Stage
    try:
        return _WANTED[request.want](request)
    except CannotCompose as error:
        found, failed = error.problems, "config"
    except (SpecRefused, SweepRefused, ValidationFailed) as error:
        found, failed = error.problems, "plan"
    except UsageError as error:
        found, failed = (_problem(error),), "config"
    except EnvironmentFailed as error:
        found, failed = (_problem(error),), "environment"
    return PlanningAnswer(errors=_Finder(request).placed(found), failed=failed)


class _Finder:
    """Finds the file and the line where the key of a finding stands."""

    def __init__(self, request: PlanningRequest, origins: Origins = _UNKNOWN) -> None:
        self._request = request
        self._origins = origins

    def placed(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """The findings, each with its place."""
        found = tuple(problems)
        if not found or self._request.sweep_file or self._places is None:
            return found
        placed = self._places.add_places(found, self._origins)
        return tuple(replace(one, others=()) for one in placed)

    def check_hydra(self) -> Sequence[tuple[Problem, bool]]:
        """Findings of Hydra's own settings; whether each is an error."""
        if self._places is None:
            return ()
        found = check_hydra_settings(self._places.files, self._request.overrides)
        return tuple(found)

    @cached_property
    def _places(self) -> KeyPlaces | None:
        request = self._request
        try:
            root = config_dir(request.config_dir or None, _cwd(request))
            roots = config_roots(root)
        except AutoexpError:
            return None
        return KeyPlaces(roots, request.config_ref, request.overrides)


def _problem(error: AutoexpError) -> Problem:
    return Problem(error.problem, where=error.where, hint=error.hint)


def _private_stdout() -> int:
    """A descriptor for the answer alone; whatever else is printed goes to stderr."""
    private = os.dup(1)
    os.dup2(2, 1)
    return private


def _end_unheard(answer_to: int) -> None:
    """End this process, and what it started, once nobody waits for the answer.

    Who asked may be killed, or its terminal closed: planning would go on for nobody.
    """
    heard = select.poll()
    heard.register(answer_to, 0)  # a pipe that nobody reads is an error of its own
    if any(state & select.POLLERR for _, state in heard.poll()):
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)


def _composer(request: PlanningRequest) -> HydraComposer:
    return HydraComposer(
        request.config_ref,
        config_dir(request.config_dir or None, _cwd(request)),
        request.overrides,
        cwd=str(_cwd(request)),
        now=request.now or None,
        search_dirs=request.search_dirs,
    )


def _parser(
    request: PlanningRequest, composer: HydraComposer, state_dir: str = ""
) -> HouseParser:
    return HouseParser(
        str(_cwd(request)),
        state_dir=state_dir or str(_state_dir(request, composer)),
        config_dirs=(*request.search_dirs, *map(str, composer.roots)),
    )


def _state_dir(request: PlanningRequest, composer: HydraComposer) -> Path:
    configured = ""
    base = composer.base()
    if base.has("monitoring.state_dir"):
        configured = str(base.select("monitoring.state_dir"))
    return state_dir(request.state_dir or None, configured, _cwd(request))


def _cwd(request: PlanningRequest) -> Path:
    return Path(request.cwd or os.getcwd())


# -------------------------------------------------------------------------- the plan
def _plan(request: PlanningRequest) -> PlanningAnswer:
    composer = _composer(request)
    configs = RecordBuilder()
    outcome = plan_outcome(
        _source(request, composer),
        composer=composer,
        parser=_parser(request, composer),
        record=_recorder(configs) if request.keep else None,
    )
    places = _places(request, composer, outcome)
    finder = _Finder(request, outcome.origins)
    told = list(outcome.warnings)
    if outcome.plan is None:
        errors: Iterable[Problem] = (*outcome.errors, *places.errors)
    else:
        checks = ActionChecks(composer.roots, _cwd(request))
        checks.check_plan(outcome.plan)
        told += told_once([*checks.warnings, *places.warnings])
        errors = told_once([*checks.errors, *places.errors])
    hydra = finder.check_hydra()
    errors = (*(one for one, refused in hydra if refused), *errors)
    told += [one for one, refused in hydra if not refused]
    warnings = (*composer.warnings, *findings(finder.placed(told)))
    if outcome.plan is None or errors:
        return _refused(outcome, finder.placed(errors), warnings)
    plan = replace(
        outcome.plan, environment=composer.environment.digests(), warnings=warnings
    )
    data = encode_plan(plan)
    manifest = _kept(plan, data, configs, request) if request.keep else ""
    return PlanningAnswer(
        plan="" if request.report else data.decode(),
        report=json.dumps(report_of(plan)) if request.report else "",
        warnings=warnings,
        manifest=manifest,
        composed=composer.composed,
    )


def _refused(
    outcome: PlanOutcome,
    errors: tuple[Problem, ...],
    warnings: Iterable[PlanFinding],
) -> PlanningAnswer:
    """What is known of a plan with errors."""
    refused = {(error.where, error.place) for error in errors}
    return PlanningAnswer(
        errors=errors,
        warnings=tuple(w for w in warnings if (w.where, w.place) not in refused),
        holes=tuple(map(hole_to_json, outcome.holes)),
        holes_more=outcome.holes_more,
        failed="plan",
    )


def _places(
    request: PlanningRequest, composer: HydraComposer, outcome: PlanOutcome
) -> OutputFindings:
    """What there is to say of where the jobs are to write."""
    plan, base = outcome.plan, ""
    if plan is not None:
        base = plan.base_output_dir
    else:
        with suppress(KeyError, CannotCompose):
            base = str(composer.base().select("project.base_output_dir"))
    if not base:
        return OutputFindings()
    jobs = plan.jobs if plan is not None else ()
    share: Share = plan.share if plan is not None else "private"
    # Who joins a session writes beside its jobs: it is the owner that would be found.
    return check_output_places(
        _cwd(request) / base, jobs, owners=not request.known, share=share
    )


def _source(request: PlanningRequest, composer: HydraComposer) -> PlanSource:
    return PlanSource(
        config_ref=composer.config_ref,
        config_dir=str(composer.config_dir),
        overrides=request.overrides,
        state_dir=str(_state_dir(request, composer)),
        cwd=str(_cwd(request)),
        created_at=request.now,
        known=request.known,
        search_dirs=request.search_dirs,
    )


def _recorder(
    configs: RecordBuilder,
) -> Callable[[int, ConfigView, Mapping[str, object]], None]:
    def record(index: int, view: ConfigView, resolved: Mapping[str, object]) -> None:
        configs.add(index, resolved, view.written_dict())

    return record


def _kept(
    plan: Plan, data: bytes, configs: RecordBuilder, request: PlanningRequest
) -> str:
    """Write the manifest (`data`) and, beside it, what the jobs were made from."""
    place = Path(plan.state_dir)
    record = configs.record(plan.jobs, git_state(_cwd(request)))
    make_state_dir(place, plan.share)
    store_record(place, plan.plan_id, record)
    return str(write_manifest(place, plan, data))


# ------------------------------------------------------------------------ the points
def _points(request: PlanningRequest) -> PlanningAnswer:
    """The expanded sweep, of a file by itself or of the config."""
    alone = request.sweep_file
    mask: object = None
    sweep: Mapping[str, object] | None
    if alone:
        sweep = _sweep_in(str(_cwd(request) / alone))
    else:
        composer = _composer(request)
        sweep, mask = composer.sweep(), selected(composer.base(), "project.mask")
    found = expand_sweep(sweep)
    rules = mask_for(mask, [point.parameters for point in found])
    points = tuple(
        {"index": point.index, "parameters": mask_values(point.parameters, rules)}
        for point in found
    )
    return PlanningAnswer(points=points)


def _sweep_in(path: str) -> Mapping[str, object]:
    """The `sweep:` of a YAML file, or the whole of it."""
    tree = parse_yaml(read_text(path), path)
    found = tree.get("sweep", tree) if isinstance(tree, dict) else tree
    if not isinstance(found, dict):
        hint = "a sweep is a mapping: type, and params, configs or groups"
        raise make_refusal(f"holds {found!r}, not a sweep", path, hint)
    return found


# ------------------------------------------------------------------- configs and jobs
def _config(request: PlanningRequest) -> PlanningAnswer:
    """The primary config, or one job's, resolved where it can be."""
    if not request.job:
        return PlanningAnswer(
            config=_resolved_where_possible(_composer(request).base())
        )
    taken: dict[int, Mapping[str, object]] = {}
    composer = _composer(request)
    outcome = plan_outcome(
        _source(request, composer),
        composer=composer,
        parser=_parser(request, composer),
        record=lambda index, view, resolved: taken.update({index: resolved}),
    )
    if outcome.plan is None:
        errors = _Finder(request, outcome.origins).placed(outcome.errors)
        return PlanningAnswer(errors=errors, failed="plan")
    job = _job_of(outcome.plan, request.job)
    return PlanningAnswer(config=taken[job.index])


def _resolved_where_possible(view: ConfigView) -> Mapping[str, object]:
    """The base config: what only a job can resolve stays as written."""
    try:
        return view.to_dict()
    except CannotCompose:
        return resolved_where_possible(view, as_written=True)


def _job_of(plan: Plan, name: str) -> JobSpec:
    for job in plan.jobs:
        if job.name == name:
            return job
    names = ", ".join(job.name for job in plan.jobs[:12])
    raise UsageError(f"there is no job `{name}`", hint=f"jobs: {names}")


def _job(request: PlanningRequest) -> PlanningAnswer:
    """One job of a plan as it is with further overrides; its names and waits stay."""
    plan = read_manifest(Path(request.manifest), run=True)
    job = _job_of(plan, request.job)
    composer = _composer(request)
    configs = RecordBuilder()
    made = job_with(
        job,
        _without(request.further, job.overrides),
        plan=plan,
        composer=composer,
        parser=_parser(request, composer, plan.state_dir),
        record=partial(configs.add, job.index) if request.keep else None,
    )
    if request.keep and made.planned is not None:
        made = _with_record(made, plan, configs, request)
    return PlanningAnswer(job=encode_job(made).decode())


def _without(overrides: tuple[str, ...], planned: tuple[str, ...]) -> tuple[str, ...]:
    """Overrides without those that the plan has already."""
    number = len(planned)
    return overrides[number:] if overrides[:number] == planned else overrides


def _with_record(
    job: JobSpec, plan: Plan, configs: RecordBuilder, request: PlanningRequest
) -> JobSpec:
    """Keep the config of a job that differs from its plan's beside the manifest."""
    name = f"{plan.plan_id}-{job.index}-{job.fingerprint[:16]}"
    place = Path(request.state_dir or plan.state_dir)
    record = configs.record([job], git_state(_cwd(request)))
    return replace(job, config_record=str(store_record(place, name, record)))


_WANTED: Final[Mapping[Want, Callable[[PlanningRequest], PlanningAnswer]]] = {
    "plan": _plan,
    "points": _points,
    "config": _config,
    "job": _job,
}
