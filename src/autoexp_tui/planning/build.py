"""From a config to a plan: the whole way, with every finding at once.

A job that asks for another one is put aside until that one is made: no graph has to be
known beforehand, and a ring shows itself by coming back to a job that is put aside.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeAlias

from autoexp_tui.conditions.files import Places
from autoexp_tui.model.agents import AgentsSettings
from autoexp_tui.model.errors import Problem, ValidationFailed
from autoexp_tui.model.ids import digest
from autoexp_tui.model.masking import MaskRules, Share, is_secret_key, mask_rules
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Edge, ExecutorSpec, Hole, JobSpec, Plan
from autoexp_tui.planning.job_builder import AS_WRITTEN, JobBuilder, Naming
from autoexp_tui.planning.job_config import (
    CLOSED,
    FAULTS,
    Draft,
    JobFinisher,
    Needs,
    Record,
    Refused,
    check_without_jobs,
    list_problems,
    select_or_none,
)
from autoexp_tui.planning.ports import Composer, ConfigView, SpecParser
from autoexp_tui.planning.references import DroppedJob, Identity, World
from autoexp_tui.planning.validate import (
    fold_problems,
    format_ring,
    validate_execution_plan,
)
from autoexp_tui.sweep.expand import Expansion, expand, list_holes
from autoexp_tui.sweep.families import Families, UnusableJob, find_origins, label_point
from autoexp_tui.sweep.points import Origins, SweepFilter, SweepPoint, SweepRefused
from autoexp_tui.text.spelling import plural

_HELD_VIEWS: Final = 64
_MOST_FAILED: Final = 20
_NOT_MADE: Final = Problem(
    "is not looked at: too many jobs before it cannot be made",
    hint="correct those, then plan again",
)


class Resolution:
    def __init__(
        self,
        expansion: Expansion,
        composer: Composer,
        parser: SpecParser,
        *,
        session: Monitoring,
        record: Record | None = None,
        naming: Naming = AS_WRITTEN,
    ) -> None:
        """`session`: what the config says without any point."""
        self.families = Families(expansion.points, expansion.removed)
        self.drafts: dict[int, Draft] = {}
        self.dropped: dict[int, SweepFilter] = {}
        """Position -> the filter that dropped it after composing."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._failed: set[int] = set()
        self._views: OrderedDict[int, ConfigView] = OrderedDict()
        world = World(
            self.families,
            {key for event in session.log_events for key in event.extract_groups},
            self._find_job,
            self.warnings,
            base_is_a_key=composer.base().has("base"),
        )
        self.finisher = JobFinisher(parser, session, self.warnings)
        self._builder = JobBuilder(
            world, composer, parser, self.finisher, record, naming
        )

    def resolve(self) -> Sequence[Draft]:
        """Make every job; those without faults, in order of index."""
        for at in range(len(self.families.points)):
            self._ensure(at)
        for at, draft in sorted(self.drafts.items()):
            if draft.job is None and at not in self._failed:
                self._finish(draft, self._find_view(draft))
        return [self.drafts[at] for at in sorted(self.drafts)]

    def _find_job(self, at: int) -> tuple[Identity, Callable[[], ConfigView]]:
        if at in self.drafts:
            draft = self.drafts[at]
            return draft.identity, partial(self._find_view, draft)
        if at in self.dropped:
            raise DroppedJob(self.dropped[at])
        raise UnusableJob if at in self._failed else Needs(at)

    def _find_view(self, draft: Draft) -> ConfigView:
        if draft.at not in self._views:
            self._hold(draft.at, self._builder.recompose(draft))
        self._views.move_to_end(draft.at)
        return self._views[draft.at]

    def _hold(self, at: int, view: ConfigView) -> None:
        self._views[at] = view
        if len(self._views) > _HELD_VIEWS:
            self._views.popitem(last=False)

    def _ensure(self, at: int) -> None:
        aside = [at]
        keys: dict[int, str] = {}
        """Job -> with which key it reads the one put aside after it."""
        while aside:
            top = aside[-1]
            try:
                if not any(
                    top in of for of in (self.drafts, self.dropped, self._failed)
                ):
                    self._make(top)
            except Needs as needs:
                keys[top] = needs.key
                if needs.at not in aside:
                    aside.append(needs.at)
                    continue
                ring = aside[aside.index(needs.at) :]
                self._refuse_ring(ring, keys[ring[0]])
                del aside[-len(ring) :]
            else:
                aside.pop()

    def _refuse_ring(self, ring: Sequence[int], key: str) -> None:
        """`key`: what reads the second job of the ring."""
        self._failed.update(ring)
        points = [self.families.points[one] for one in ring]
        names = [point.stage or label_point(point) for point in points]
        message = format_ring("references go in a ring", names)
        hint = "one of these references has to go; a value written twice will do"
        if len(ring) == 1:
            message = "refers to itself"
            hint = "`{all.STAGE...}` of its own stage means this job too"
        job = label_point(points[0])
        self.problems.append(Problem(message, key or "sweep", job, hint))

    def _make(self, at: int) -> None:
        label = label_point(self.families.points[at])
        if len(self._failed) >= _MOST_FAILED:
            self._add_failed(at, Refused((_NOT_MADE,)), label)
            return
        try:
            draft, view = self._builder.build(at)
        except DroppedJob as dropped:
            self.dropped[at] = dropped.mark
            self.problems += dropped.faults
        except (Refused, UnusableJob) as error:
            self._add_failed(at, error, label)
        else:
            self.drafts[at] = draft
            self.problems += draft.problems
            self._hold(at, view)
            with suppress(Needs):  # its conditions name jobs that come later
                self._finish(draft, view)

    def _finish(self, draft: Draft, view: ConfigView) -> None:
        try:
            self._builder.finish(draft, view)
        except (Refused, UnusableJob) as error:
            self._add_failed(draft.at, error, draft.identity.name)

    def _add_failed(self, at: int, error: Refused | UnusableJob, job: str) -> None:
        """Keep what is wrong with a job; of one that needs another, that tells it."""
        self._failed.add(at)
        found = error.problems if isinstance(error, Refused) else ()
        self.problems += (replace(one, job=one.job or job) for one in found)


DEFAULT_STATE_DIR = "outputs/.autoexp"
KnownJob: TypeAlias = tuple[str, str, str]
"""A job's name, its output directory and its log directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSource:
    """Where a plan comes from: what it keeps of that, for people and for resuming."""

    config_ref: str = ""
    config_dir: str = ""
    overrides: tuple[str, ...] = ()
    state_dir: str = ""
    """Wins over `monitoring.state_dir` of the config."""
    cwd: str = ""
    """Where relative paths of the config start."""
    created_at: float = 0.0
    """UTC, seconds since the epoch."""
    environment: Mapping[str, str] = field(default_factory=dict)
    sweep: Mapping[str, object] | None = None
    """Instead of the config's own sweep."""
    known: tuple[KnownJob, ...] = ()
    """Jobs of the session that the plan is to join: conditions may name them."""
    search_dirs: tuple[str, ...] = ()
    """Where config groups were looked for beside `config_dir`."""
    naming: Naming = AS_WRITTEN


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What came of planning; with errors there is no plan."""

    plan: Plan | None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    points: tuple[SweepPoint, ...] = ()
    holes: tuple[Hole, ...] = ()
    """What filters took, of a plan with errors too; as `Plan.holes`."""
    holes_more: int = 0
    origins: Origins = field(default_factory=dict)
    """Of the jobs of which errors and warnings tell."""


def build_execution_plan(
    config: PlanSource | None = None,
    *,
    composer: Composer,
    parser: SpecParser,
    record: Record | None = None,
) -> Plan:
    """The plan of a config; raises ValidationFailed with every error."""
    outcome = build_plan_outcome(
        config, composer=composer, parser=parser, record=record
    )
    if outcome.plan is None or outcome.errors:
        head = f"the plan has {plural(len(outcome.errors), 'error')}"
        raise ValidationFailed(head, problems=outcome.errors)
    return outcome.plan


def build_plan_outcome(
    config: PlanSource | None = None,
    *,
    composer: Composer,
    parser: SpecParser,
    record: Record | None = None,
) -> PlanOutcome:
    """The plan, or why there is none; CannotCompose: the config itself does not."""
    source = config or PlanSource()
    base = composer.base()
    sweep = source.sweep if source.sweep is not None else composer.sweep()
    closed, errors = _read_closed(base)
    session, executor = Monitoring(), ExecutorSpec()
    tree: Mapping[str, object] = {}
    research: Mapping[str, object] = {}
    agents = AgentsSettings()
    try:
        session, executor = parser.monitoring(closed), parser.executor(closed)
        tree, agents = parser.tree(closed), parser.agents(closed)
        research = parser.research(closed)
    except FAULTS as error:
        errors += list_problems(error, "")
    # A search and a research loop make their own.
    has_policy = bool(closed.get("tree") or closed.get("research"))
    makes_jobs = sweep is not None or not has_policy
    try:
        expansion = expand(sweep) if makes_jobs else Expansion(())
    except SweepRefused as refused:
        errors += (*refused.problems, *check_without_jobs(base, parser, sweep))
        return PlanOutcome(None, fold_problems(errors))
    resolution = Resolution(
        expansion,
        composer,
        parser,
        session=session,
        record=record,
        naming=source.naming,
    )
    drafts = resolution.resolve()
    errors += resolution.problems
    warnings = fold_problems(resolution.warnings)
    holes, more = list_holes(expansion, resolution.dropped)
    plan = None
    if errors:
        besides = check_without_jobs(base, parser, sweep) if makes_jobs else ()
        told = {(one.where, one.message) for one in errors}
        errors += (one for one in besides if (one.where, one.message) not in told)
        problems = fold_problems(errors)
    else:
        jobs, edges = _link_jobs(drafts, resolution.drafts, source.known)
        plan = replace(
            _build_plan(source, base, closed, jobs),
            edges=edges,
            monitoring=session,
            rule_sets=resolution.finisher.rule_sets,
            executor=executor,
            tree=tree,
            research=research,
            agents=agents.by_name,
            isolation=agents.isolation,
            holes=holes,
            holes_more=more,
        )
        names = dict.fromkeys(name for name, *_ in source.known)
        found = validate_execution_plan(plan, known=names)
        problems, warnings = found.errors, (*warnings, *found.warnings)
        plan = None if problems else replace(plan, warnings=warnings)
    named = {draft.at: draft.identity.name for draft in drafts}
    wanted = {one.job for one in (*problems, *warnings)} - {""}
    origins = find_origins(expansion.points, named, wanted)
    return PlanOutcome(plan, problems, warnings, expansion.points, holes, more, origins)


def _read_closed(base: ConfigView) -> tuple[dict[str, object], list[Problem]]:
    """The sections that are checked, as the config has them without any point."""
    found: dict[str, object] = {}
    problems: list[Problem] = []
    for key in CLOSED:
        try:
            if base.has(key) and (section := base.select(key)) is not None:
                found[key] = section
        except FAULTS as error:
            problems += list_problems(error, key)
    return found, problems


def build_mask(mask: object, each: Iterable[Mapping[str, object]]) -> MaskRules:
    """`project.mask`; a parameter with several values tells jobs apart: it is shown."""
    given = mask_rules({"project": {"mask": mask}})
    swept: dict[str, object] = {}
    several = [
        key
        for parameters in each
        for key, value in parameters.items()
        if is_secret_key(key) and swept.setdefault(key, value) != value
    ]
    return replace(given, keep=tuple(dict.fromkeys((*given.keep, *several))))


def _build_plan(
    source: PlanSource,
    base: ConfigView,
    closed: Mapping[str, object],
    jobs: tuple[JobSpec, ...],
) -> Plan:
    prints = "".join(f"{job.name}{job.fingerprint}" for job in jobs)
    monitoring, ui = (closed.get(key) for key in ("monitoring", "ui"))
    own = monitoring.get("state_dir") if isinstance(monitoring, Mapping) else None
    own_state_dir = str(own or DEFAULT_STATE_DIR)
    base_output_dir = select_or_none(base, "project.base_output_dir")
    shared = select_or_none(base, "project.share")  # group, or {group: read | write}
    group = shared.get("group") if isinstance(shared, Mapping) else None
    share: Share = "group" if shared == "group" or group == "read" else "private"
    mask = select_or_none(base, "project.mask")
    ids = (source.config_ref, source.overrides, source.created_at, prints)
    return Plan(
        plan_id=digest(*ids),
        name=source.config_ref.rpartition("/")[2] or "plan",
        config_ref=source.config_ref,
        config_dir=source.config_dir,
        overrides=source.overrides,
        cwd=source.cwd,
        search_dirs=source.search_dirs,
        created_at=source.created_at,
        state_dir=source.state_dir or own_state_dir,
        own_state_dir=own_state_dir,
        base_output_dir="" if base_output_dir is None else str(base_output_dir),
        share="group_write" if group == "write" else share,
        mask=build_mask(mask, (job.parameters for job in jobs)),
        jobs=jobs,
        ui=dict(ui) if isinstance(ui, Mapping) else {},
        environment=source.environment,
    )


def _link_jobs(
    drafts: Sequence[Draft], made: Mapping[int, Draft], known: Sequence[KnownJob]
) -> tuple[tuple[JobSpec, ...], tuple[Edge, ...]]:
    """Who waits for, or reads, whom; each condition on a file is told its writer."""
    who = (draft.identity for draft in drafts)
    whose = Places([*((i.name, i.output_dir, i.log_dir) for i in who), *known])
    index = {name: at - len(known) for at, (name, *_) in enumerate(known)}
    index |= {draft.identity.name: draft.point.index for draft in drafts}
    jobs: list[JobSpec] = []
    edges: list[Edge] = []
    for draft, job in ((one, one.job) for one in drafts if one.job is not None):
        start = tuple(map(whose.with_writers, job.start_conditions))
        cancel = tuple(map(whose.with_writers, job.cancel_conditions))
        waits = {one for c in start for one in whose.list_awaited(c)}
        waits |= {made[at].identity.name for at in draft.waits}
        reads = {made[at].identity.name for at in draft.reads}
        modes: Mapping[Literal["waits", "reads"], set[str]]
        modes = {"waits": waits, "reads": reads}
        own = [
            Edge(before=before, after=job.name, mode=mode)
            for mode, others in modes.items()
            for before in sorted(others & index.keys(), key=index.__getitem__)
            if before != job.name
        ]
        edges += own
        behind = tuple(dict.fromkeys(edge.before for edge in own))
        jobs.append(
            replace(
                job, start_conditions=start, cancel_conditions=cancel, depends_on=behind
            )
        )
    return tuple(jobs), tuple(edges)
