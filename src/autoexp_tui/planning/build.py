"""From a config to a plan: the whole way, with every finding at once.

A job that asks for another one is put aside until that one is made: no graph has to be
known beforehand, and a ring shows itself by coming back to a job that is put aside.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeAlias

from autoexp_tui.conditions.files import Places
from autoexp_tui.model.errors import Problem, ValidationFailed
from autoexp_tui.model.ids import digest
from autoexp_tui.model.masking import MaskRules, is_secret_key, mask_rules
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import (
    Edge,
    ExecutorSpec,
    Hole,
    JobSpec,
    Plan,
    PlanFinding,
    Share,
)
from autoexp_tui.planning.dag import format_rings
from autoexp_tui.planning.job_builder import JobBuilder
from autoexp_tui.planning.job_config import (
    CLOSED,
    FAULTS,
    Draft,
    Needs,
    Record,
    Refused,
    RuleSets,
    check_without_jobs,
    list_problems,
)
from autoexp_tui.planning.ports import (
    Composer,
    ConfigView,
    SpecParser,
    select_or_none,
)
from autoexp_tui.planning.references import DroppedJob, Identity, World
from autoexp_tui.planning.validate import (
    fold_problems,
    validate_execution_plan,
)
from autoexp_tui.sweep.expand import Expansion, expand, list_holes
from autoexp_tui.sweep.families import Families, UnusableJob, find_origins, label_point
from autoexp_tui.sweep.points import (
    NOTES,
    STAGE,
    DeferredFilter,
    Origins,
    SweepPoint,
    SweepRefused,
)

_HELD_VIEWS: Final = 64
_MOST_FAILED: Final = 20
"""Jobs with faults after which no more are composed."""


class Resolution:
    """Makes the jobs of an expanded sweep; findings are gathered."""

    def __init__(
        self,
        expansion: Expansion,
        composer: Composer,
        parser: SpecParser,
        *,
        metadata_keys: Collection[str],
        session: Monitoring,
        record: Record | None = None,
    ) -> None:
        """See `JobBuilder`; `metadata_keys`: what log rules extract."""
        self.families = Families(expansion.points, expansion.removed)
        self.drafts: dict[int, Draft] = {}
        self.dropped: dict[int, DeferredFilter] = {}
        """Position -> the filter that dropped it after composing."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._failed: set[int] = set()
        self._rings: dict[tuple[str, ...], list[list[str]]] = {}
        """What reads the second job of a ring, and the stages of it -> such rings."""
        self._views: OrderedDict[int, ConfigView] = OrderedDict()
        self._postponed: list[tuple[Draft, ConfigView]] = []
        self._composer = composer
        world = World(self.families, metadata_keys, self._find_job, self.warnings)
        self._builder = JobBuilder(world, composer, parser, session, record)

    def resolve(self) -> Sequence[Draft]:
        """Make every job; those without faults, in order of index."""
        for at in range(len(self.families.points)):
            self._ensure(at)
        for draft, view in self._postponed:
            self._finish(draft, view)
        for (key, *_), rings in self._rings.items():
            message = format_rings("references go in a ring", rings)
            hint = "one of these references has to go; a value written twice will do"
            if len(rings[0]) == 1:
                message = "refers to itself"
                hint = "`{all.STAGE...}` of its own stage means this job too"
            where, job = key or "sweep", rings[0][0]
            self.problems.append(Problem(message, where, job, hint))
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
                points = [self.families.points[one] for one in ring]
                names = list(map(label_point, points))
                stages = (p.stage or n for p, n in zip(points, names, strict=True))
                self._rings.setdefault((keys[ring[0]], *stages), []).append(names)
                self._failed.update(ring)
                del aside[-len(ring) :]
            else:
                aside.pop()

    def _make(self, at: int) -> None:
        if len(self._failed) >= _MOST_FAILED:
            self._composer.stop_composing()
        try:
            draft, view = self._builder.build(at)
        except DroppedJob as dropped:
            self.dropped[at] = dropped.mark
            self.problems += dropped.faults
            return
        except (Refused, UnusableJob) as error:
            self._add_failed(at, error)
            return
        self.drafts[at] = draft
        self.problems += draft.faults
        self._hold(at, view)
        try:
            self._finish(draft, view)
        except Needs:  # its conditions name jobs that come later
            self._postponed.append((draft, view))

    def _finish(self, draft: Draft, view: ConfigView) -> None:
        try:
            self._builder.finish(draft, view)
        except (Refused, UnusableJob) as error:
            self._add_failed(draft.at, error)

    def _add_failed(self, at: int, error: Refused | UnusableJob) -> None:
        """Keep what is wrong with a job; of one that needs another, that tells it."""
        self._failed.add(at)
        label = label_point(self.families.points[at])
        found = error.problems if isinstance(error, Refused) else ()
        self.problems += (replace(one, job=one.job or label) for one in found)


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
        count = len(outcome.errors)
        head = f"the plan has {count} error{'s' if count != 1 else ''}"
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
    common = _Common(base, parser)
    try:
        expansion = expand(sweep)
    except SweepRefused as refused:
        besides = [*common.problems, *check_without_jobs(base, parser, sweep)]
        return PlanOutcome(None, fold_problems([*refused.problems, *besides]))
    events = common.monitoring.log_events
    resolution = Resolution(
        expansion,
        composer,
        parser,
        metadata_keys={key for event in events for key in event.extract_groups},
        session=common.monitoring,
        record=record,
    )
    drafts = resolution.resolve()
    errors = [*common.problems, *resolution.problems]
    hint = "write at least one entry, or leave it out"
    message = "is an empty list, so that the product around it makes no job"
    emptied = [
        Problem(message, where, hint=hint)
        for where in expansion.empty
        if expansion.points
    ]
    warnings = fold_problems([*emptied, *resolution.warnings])
    holes, more = list_holes(expansion, resolution.dropped)
    plan = None
    if errors:
        known = {(one.where, one.message) for one in errors}
        besides = [
            one
            for one in check_without_jobs(base, parser, sweep)
            if (one.where, one.message) not in known
        ]
        problems = (*fold_problems(errors), *fold_problems(besides))
    else:
        edges = _find_edges(drafts, resolution.drafts, source.known)
        plan = _build_plan(source, base, common, drafts, edges)
        plan = replace(plan, holes=holes, holes_more=more)
        names = [name for name, *_ in source.known]
        found = validate_execution_plan(plan, known=names, empty=expansion.empty)
        problems, warnings = found.errors, (*warnings, *found.warnings)
        findings = (
            PlanFinding(message=p.message, where=p.where, job=p.job, hint=p.hint)
            for p in warnings
        )
        plan = None if problems else replace(plan, warnings=tuple(findings))
    labels = (
        label for one in (*problems, *warnings) for label in (one.job, *one.others)
    )
    origins = find_origins(
        expansion.points,
        {draft.at: draft.identity.name for draft in drafts},
        frozenset(filter(None, labels)),
    )
    return PlanOutcome(plan, problems, warnings, expansion.points, holes, more, origins)


class _Common:
    def __init__(self, base: ConfigView, parser: SpecParser) -> None:
        self.problems: list[Problem] = []
        self.config: dict[str, object] = {}
        self.monitoring = Monitoring()
        self.executor = ExecutorSpec()
        for key in CLOSED:
            try:
                if (found := base.select(key) if base.has(key) else None) is not None:
                    self.config[key] = found
            except FAULTS as error:
                self.problems += list_problems(error, key)
        try:
            self.monitoring = parser.monitoring(self.config)
            self.executor = parser.executor(self.config)
        except FAULTS as error:
            self.problems += list_problems(error, "")


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
    common: _Common,
    drafts: Sequence[Draft],
    edges: Sequence[Edge],
) -> Plan:
    rules = RuleSets(common.monitoring)
    behind: dict[str, dict[str, None]] = {}
    for edge in edges:
        behind.setdefault(edge.after, {})[edge.before] = None
    jobs = tuple(_build_job(one, behind, rules) for one in drafts)
    prints = "".join(f"{job.name}{job.fingerprint}" for job in jobs)
    monitoring, ui = (common.config.get(key) for key in ("monitoring", "ui"))
    configured = isinstance(monitoring, Mapping) and monitoring.get("state_dir")
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
        state_dir=str(source.state_dir or configured or DEFAULT_STATE_DIR),
        base_output_dir="" if base_output_dir is None else str(base_output_dir),
        share="group_write" if group == "write" else share,
        mask=build_mask(mask, (job.parameters for job in jobs)),
        jobs=jobs,
        edges=tuple(edges),
        monitoring=common.monitoring,
        rule_sets=rules.sets,
        executor=common.executor,
        ui=dict(ui) if isinstance(ui, Mapping) else {},
        environment=source.environment,
    )


def _find_edges(
    drafts: Sequence[Draft], made: Mapping[int, Draft], known: Sequence[KnownJob]
) -> Sequence[Edge]:
    """Who waits for, or reads, whom; each condition on a file is told its writer."""
    who = (draft.identity for draft in drafts)
    whose = Places([*((i.name, i.output_dir, i.log_dir) for i in who), *known])
    index = {name: at - len(known) for at, (name, *_) in enumerate(known)}
    index |= {draft.identity.name: draft.point.index for draft in drafts}
    found: list[Edge] = []
    for draft in drafts:
        draft.start = tuple(map(whose.with_writers, draft.start))
        draft.cancel = tuple(map(whose.with_writers, draft.cancel))
        name = draft.identity.name
        waits = {one for c in draft.start for one in whose.list_awaited(c)}
        waits |= {made[at].identity.name for at in draft.waits}
        reads = {made[at].identity.name for at in draft.reads}
        modes: Mapping[Literal["waits", "reads"], set[str]]
        modes = {"waits": waits, "reads": reads}
        for mode, others in modes.items():
            befores = (others & index.keys()) - {name}
            found += (
                Edge(before=before, after=name, mode=mode)
                for before in sorted(befores, key=index.__getitem__)
            )
    return found


def _build_job(
    draft: Draft, behind: Mapping[str, Mapping[str, None]], rules: RuleSets
) -> JobSpec:
    """`behind`: a job -> those that it waits for or reads."""
    identity, point = draft.identity, draft.point
    notes = point.parameters.get(NOTES)
    notes = notes if isinstance(notes, Mapping) else {}
    return JobSpec(
        name=identity.name,
        index=identity.index,
        stage=identity.stage,
        family=identity.family,
        parameters=point.parameters,
        overrides=draft.overrides,
        runtime_overrides=draft.runtime_overrides,
        command=draft.launch.command,
        env=draft.launch.env,
        cwd=draft.launch.cwd,
        output_dir=identity.output_dir,
        log_dir=identity.log_dir,
        fingerprint=draft.fingerprint,
        start_conditions=draft.start,
        cancel_conditions=draft.cancel,
        depends_on=tuple(behind.get(identity.name, ())),
        resources=draft.resources,
        progress_total=draft.progress_total,
        rules=rules.add(draft.monitoring),
        notes={str(key): value for key, value in notes.items() if key != STAGE},
    )
