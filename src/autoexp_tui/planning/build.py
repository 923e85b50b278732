"""From a config to a plan: the whole way, with every finding at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from autoexp_tui.conditions.places import Places
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
from autoexp_tui.planning.job_config import (
    CLOSED,
    Record,
    RuleSets,
    SessionWide,
    check_without_jobs,
)
from autoexp_tui.planning.job_state import FAULTS, Draft, list_problems
from autoexp_tui.planning.ports import (
    CannotCompose,
    Composer,
    ConfigView,
    SpecParser,
)
from autoexp_tui.planning.resolve import Resolution
from autoexp_tui.planning.validate import (
    NamedJob,
    fold_problems,
    validate_execution_plan,
    validate_unfinished,
)
from autoexp_tui.sweep.expand import Expansion, expand_in_doubt
from autoexp_tui.sweep.points import NOTES, STAGE, SweepPoint, SweepRefused
from autoexp_tui.sweep.provenance import Origins, find_origins, list_holes

DEFAULT_STATE_DIR = "outputs/.autoexp"
_IF_TAKEN: Final = "no error if the filter is to take the job"


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
    """The plan of a config.

    Raises:
        ValidationFailed: with every error.
    """
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
    """The plan of a config, or why there is none; warnings either way.

    `record` is told of each job's config while it is at hand.

    Raises:
        CannotCompose: the primary config itself does not compose.
    """
    source = config or PlanSource()
    base = composer.base()
    sweep = source.sweep if source.sweep is not None else composer.sweep()
    common = _Common(base, parser)
    try:
        expansion = expand_in_doubt(sweep)
    except SweepRefused as refused:
        besides = [*common.problems, *check_without_jobs(base, parser, sweep)]
        return PlanOutcome(None, fold_problems([*refused.problems, *besides]))
    resolution = Resolution(
        expansion,
        composer,
        parser,
        metadata_keys=common.metadata_keys,
        session=SessionWide(common.config, common.monitoring),
        record=record,
    )
    drafts = resolution.resolve()
    errors = fold_problems(
        [
            *expansion.problems,
            *common.problems,
            *resolution.problems,
            *_list_in_doubt(resolution),
        ]
    )
    warnings = fold_problems([*_find_emptied(expansion), *resolution.warnings])
    holes, more = list_holes(expansion, resolution.dropped)
    if errors:
        errors += _check_unfinished(source, resolution, drafts)
        origins = _find_origins(expansion, drafts, [*errors, *warnings])
        return PlanOutcome(
            None, errors, warnings, expansion.points, holes, more, origins
        )
    plan = _build_plan(source, base, common, resolution, drafts)
    plan = replace(plan, holes=holes, holes_more=more)
    known = [name for name, *_ in source.known]
    found = validate_execution_plan(plan, known=known, empty=expansion.empty)
    warnings += found.warnings
    finished = replace(plan, warnings=tuple(map(_build_finding, warnings)))
    made = None if found.errors else finished
    return PlanOutcome(
        made,
        found.errors,
        warnings,
        expansion.points,
        holes,
        more,
        _find_origins(expansion, drafts, [*found.errors, *warnings]),
    )


def _find_origins(
    expansion: Expansion, drafts: Sequence[Draft], found: Iterable[Problem]
) -> Origins:
    """What each job chose in the sweep of which a finding tells."""
    told = frozenset(
        label for one in found for label in (one.job, *one.others) if label
    )
    names = {draft.at: draft.identity.name for draft in drafts}
    return find_origins(expansion.points, names, told) if told else {}


def _check_unfinished(
    source: PlanSource, resolution: Resolution, drafts: Sequence[Draft]
) -> tuple[Problem, ...]:
    """What else is wrong with the jobs that have got as far as a name."""
    # Of two jobs of one name, or of a ring, a filter may be meant to take one.
    sure = [draft for draft in drafts if draft.at not in resolution.doubted]
    jobs = [NamedJob(d.identity.name, d.point.stage, d.point.parameters) for d in sure]
    return validate_unfinished(jobs, _find_edges(drafts, resolution, source.known))


def _list_in_doubt(resolution: Resolution) -> Iterator[Problem]:
    """What is wrong with jobs that a filter may be meant to take, and says so.

    Not of what every job has, or one that certainly stays: it has to be mended.
    """
    jobs: dict[Problem, set[str]] = {}
    for problem in resolution.in_doubt:
        jobs.setdefault(replace(problem, job=""), set()).add(problem.job)
    sure = {replace(problem, job="") for problem in resolution.problems}
    sure |= {
        problem
        for problem, having in jobs.items()
        if len(having) == len(resolution.families.points)
    }
    for problem in resolution.in_doubt:
        hint = "; ".join(filter(None, [problem.hint, _IF_TAKEN]))
        certain = replace(problem, job="") in sure
        yield problem if certain else replace(problem, hint=hint)


def _find_emptied(expansion: Expansion) -> Iterator[Problem]:
    hint = "write at least one entry, or leave it out"
    for where in expansion.emptied:
        message = "is an empty list, so that the product around it makes no job"
        yield Problem(message, where, hint=hint)


def _build_finding(problem: Problem) -> PlanFinding:
    return PlanFinding(
        message=problem.message, where=problem.where, job=problem.job, hint=problem.hint
    )


# ------------------------------------------------------------- common to all jobs
class _Common:
    """What the base config says for the plan as a whole."""

    def __init__(self, base: ConfigView, parser: SpecParser) -> None:
        self.problems: list[Problem] = []
        self.config = {
            key: value
            for key in CLOSED
            if (value := self._read_section(base, key)) is not None
        }
        self.monitoring = Monitoring()
        self.executor = ExecutorSpec()
        try:
            self.monitoring = parser.monitoring(self.config)
            self.executor = parser.executor(self.config)
        except FAULTS as error:
            self.problems += list_problems(error, "")
        self.metadata_keys = frozenset(
            key for event in self.monitoring.log_events for key in event.extract_groups
        )

    def _read_section(self, base: ConfigView, key: str) -> object:
        try:
            return base.select(key) if base.has(key) else None
        except FAULTS as error:
            self.problems += list_problems(error, key)
            return None

    def setting(self, section: str, key: str) -> str:
        """A text of a section; empty when it is not set."""
        found = self.config.get(section)
        value = found.get(key) if isinstance(found, Mapping) else None
        return "" if value is None else str(value)

    @property
    def ui(self) -> Mapping[str, object]:
        """What the config says for the cockpit."""
        found = self.config.get("ui")
        return dict(found) if isinstance(found, Mapping) else {}


# ---------------------------------------------------------------------- assembling
def _build_plan(
    source: PlanSource,
    base: ConfigView,
    common: _Common,
    resolution: Resolution,
    drafts: Sequence[Draft],
) -> Plan:
    edges = _find_edges(drafts, resolution, source.known)
    rules = RuleSets(common.monitoring)
    jobs = tuple(_build_jobs(drafts, edges, rules))
    state_dir = source.state_dir or common.setting("monitoring", "state_dir")
    prints = "".join(f"{job.name}{job.fingerprint}" for job in jobs)
    return Plan(
        plan_id=digest(source.config_ref, source.overrides, source.created_at, prints),
        name=source.config_ref.rpartition("/")[2] or "plan",
        config_ref=source.config_ref,
        config_dir=source.config_dir,
        overrides=source.overrides,
        cwd=source.cwd,
        search_dirs=source.search_dirs,
        created_at=source.created_at,
        state_dir=state_dir or DEFAULT_STATE_DIR,
        base_output_dir=_base_output_dir(base),
        share=_read_share(select_or_none(base, "project.share")),
        mask=build_mask(
            select_or_none(base, "project.mask"), (job.parameters for job in jobs)
        ),
        jobs=jobs,
        edges=edges,
        monitoring=common.monitoring,
        rule_sets=rules.sets,
        executor=common.executor,
        ui=common.ui,
        environment=source.environment,
    )


def _base_output_dir(base: ConfigView) -> str:
    try:
        return str(base.select("project.base_output_dir"))
    except (KeyError, CannotCompose):
        return ""


def select_or_none(base: ConfigView, key: str) -> object:
    """A value of the base config; None where it has none."""
    try:
        return base.select(key)
    except (KeyError, CannotCompose):
        return None


def _read_share(share: object) -> Share:
    """`project.share`: private, group, or {group: read | write}."""
    group = share.get("group") if isinstance(share, Mapping) else None
    if group == "write":
        return "group_write"
    return "group" if share == "group" or group == "read" else "private"


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


def _build_places(drafts: Iterable[Draft], known: Iterable[KnownJob]) -> Places:
    identities = (draft.identity for draft in drafts)
    return Places([*((i.name, i.output_dir, i.log_dir) for i in identities), *known])


def _add_writers(drafts: Sequence[Draft], known: Iterable[KnownJob]) -> Places:
    """Tell each condition on a file who writes it; gives all places."""
    whose = _build_places(drafts, known)
    for draft in drafts:
        draft.start = tuple(map(whose.with_writers, draft.start))
        draft.cancel = tuple(map(whose.with_writers, draft.cancel))
    return whose


def _find_edges(
    drafts: Sequence[Draft], resolution: Resolution, known: Sequence[KnownJob]
) -> tuple[Edge, ...]:
    """Who waits for whom and who reads whom, in order of the later job."""
    whose = _add_writers(drafts, known)
    index = {name: at - len(known) for at, (name, *_) in enumerate(known)}
    index |= {draft.identity.name: draft.point.index for draft in drafts}
    found: list[Edge] = []
    for draft in drafts:
        name = draft.identity.name
        waits = {n for c in draft.start for n in whose.waited_for(c)}
        waits |= {resolution.drafts[at].identity.name for at in draft.waits}
        reads = {resolution.drafts[at].identity.name for at in draft.reads}
        found += _find_edges_to(name, waits, "waits", index)
        found += _find_edges_to(name, reads, "reads", index)
    return tuple(found)


def _find_edges_to(
    name: str, others: set[str], mode: Literal["waits", "reads"], index: dict[str, int]
) -> Iterator[Edge]:
    for before in sorted((others & index.keys()) - {name}, key=index.__getitem__):
        yield Edge(before=before, after=name, mode=mode)


def _build_jobs(
    drafts: Sequence[Draft], edges: Sequence[Edge], rules: RuleSets
) -> Iterator[JobSpec]:
    behind: dict[str, dict[str, None]] = {}
    for edge in edges:
        behind.setdefault(edge.after, {})[edge.before] = None
    for draft in drafts:
        identity = draft.identity
        yield JobSpec(
            name=identity.name,
            index=identity.index,
            stage=identity.stage,
            family=identity.family,
            parameters=draft.point.parameters,
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
            notes=_read_notes(draft.point),
        )


def _read_notes(point: SweepPoint) -> dict[str, object]:
    notes = point.parameters.get(NOTES)
    if not isinstance(notes, Mapping):
        return {}
    return {str(key): value for key, value in notes.items() if key != STAGE}
