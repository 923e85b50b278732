"""How one plan differs from another: jobs, their parameters, configs and waits.

Pure: the text of a job's resolved config is asked of whoever keeps it, and a plan
without such a record is compared by its parameters. Jobs are matched by name; one whose
name alone is new is a renamed one. A path or a name that differs because the job or
the output directory was renamed is no difference. `compare_words` says it for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from autoexp_tui.model.masking import MaskRules, mask_override, mask_value
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.planning.as_json import condition_to_json, json_safe
from autoexp_tui.planning.config_lines import ABSENT, differing
from autoexp_tui.planning.fingerprint import canonical
from autoexp_tui.planning.same_jobs import (
    NAME,
    Translator,
    flat,
    matched,
    root_of,
    spelled,
)
from autoexp_tui.sweep.points import plain_key

ConfigText: TypeAlias = Callable[[str], str]
"""A job's name -> its resolved config as planning recorded it; empty: not recorded."""

_NUMBERED: Final = frozenset({"index", "family", "sweep", "_refs"})
"""Top-level keys of a config that another job before this one changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChange:
    """One value that differs; `ABSENT` where there is none."""

    key: str
    old: object = ABSENT
    new: object = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeChange:
    """A wait or a read that one of the plans alone has."""

    mode: Literal["waits", "reads"]
    added: bool
    job: str
    """The one that is waited for or read, as its own plan names it."""
    stage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChange:
    """A job of both plans, and all that differs."""

    name: str
    old_name: str
    stage: str = ""
    parameters: tuple[ValueChange, ...] = ()
    config: tuple[ValueChange, ...] = ()
    """Keys of the resolved config that no parameter sets by the same name."""
    conditions: tuple[ValueChange, ...] = ()
    edges: tuple[EdgeChange, ...] = ()
    other: tuple[ValueChange, ...] = ()
    """The command, environment and resources, where no key above tells of them."""
    likeness: str = field(default="", repr=False, compare=False)
    """The same text for jobs that changed alike, whatever they are called."""

    @property
    def renamed(self) -> bool:
        """Whether it has another name."""
        return self.name != self.old_name

    @property
    def values(self) -> tuple[ValueChange, ...]:
        """Every value that differs, of whatever kind."""
        return (*self.parameters, *self.config, *self.conditions, *self.other)

    @property
    def changed(self) -> bool:
        """Whether more than its name differs."""
        return bool(self.values or self.edges)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsOnly:
    """Jobs of one stage that one of the plans alone has."""

    stage: str
    names: tuple[str, ...]
    values: tuple[ValueChange, ...] = ()
    """Parameters that all of them share and no job of the other plan has so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDifference:
    """All that differs between two plans."""

    plan: tuple[ValueChange, ...] = ()
    """What holds for the plan as a whole."""
    added: tuple[JobsOnly, ...] = ()
    removed: tuple[JobsOnly, ...] = ()
    jobs: tuple[JobChange, ...] = ()
    """Those that are renamed or changed, in the new plan's order."""
    same: int = 0
    """Jobs without any difference."""
    without_config: int = 0
    """Jobs that do other work by their fingerprints, with no record of what differs."""
    unseen: int = 0
    """Those of them of which nothing else differs: they are not the same."""

    @property
    def any(self) -> bool:
        """Whether anything differs."""
        return bool(self.plan or self.added or self.removed or self.jobs or self.unseen)

    @property
    def renamed(self) -> tuple[JobChange, ...]:
        """Jobs with another name, changed otherwise or not."""
        return tuple(job for job in self.jobs if job.renamed)

    @property
    def changed(self) -> tuple[JobChange, ...]:
        """Jobs of which more than the name differs."""
        return tuple(job for job in self.jobs if job.changed)

    @property
    def folded(self) -> tuple[tuple[JobChange, ...], ...]:
        """Changed jobs, those together that changed alike."""
        groups: dict[str, list[JobChange]] = {}
        for job in self.changed:
            groups.setdefault(job.likeness, []).append(job)
        return tuple(map(tuple, groups.values()))


def no_config(job: str) -> str:
    """Where no configs are recorded."""
    return ""


def compare(
    old: Plan,
    new: Plan,
    *,
    old_config: ConfigText = no_config,
    new_config: ConfigText = no_config,
) -> PlanDifference:
    """How `new` differs from `old`."""
    pairs, gone, come = matched(old, new)
    renames = {a.name: b.name for a, b in pairs if a.name != b.name}
    compared = _Comparison(old, new, renames, old_config, new_config)
    changes = [compared.of(a, b) for a, b in pairs]
    masks = _Masks(old.mask, new.mask)
    told = tuple(one for one in changes if one.renamed or one.changed)
    unseen = len(compared.without_config - {one.name for one in told})
    return PlanDifference(
        plan=tuple(_of_plans(old, new)),
        added=_only(come, old.jobs, masks, added=True),
        removed=_only(gone, new.jobs, masks, added=False),
        jobs=told,
        same=len(changes) - len(told) - unseen,
        without_config=len(compared.without_config),
        unseen=unseen,
    )


@dataclass(frozen=True, slots=True)
class _Masks:
    """What each plan says of its secrets."""

    old: MaskRules
    new: MaskRules

    def shown(self, key: str, old: object, new: object) -> ValueChange:
        """A change, either value as its plan shows it."""
        return ValueChange(
            key=key,
            old=mask_value(key, old, self.old),
            new=mask_value(key, new, self.new),
        )


# ----------------------------------------------------------------------- comparing
class _Comparison:
    """What the comparison of each pair of jobs needs of the whole plans."""

    def __init__(
        self,
        old: Plan,
        new: Plan,
        renames: Mapping[str, str],
        old_config: ConfigText,
        new_config: ConfigText,
    ) -> None:
        self._renames = renames
        self._masks = _Masks(old.mask, new.mask)
        self._old_edges, self._new_edges = _edges_of(old), _edges_of(new)
        self._old_stages = {job.name: job.stage for job in old.jobs}
        self._new_stages = {job.name: job.stage for job in new.jobs}
        self._old_config, self._new_config = old_config, new_config
        self._conditions: dict[object, dict[str, object]] = {}
        self.without_config: set[str] = set()
        """Jobs, by their new names; see `PlanDifference`."""

    def of(self, old: JobSpec, new: JobSpec) -> JobChange:
        """What differs between the two."""
        same = self._translator(old, new)
        parameters = tuple(
            _changes(
                spelled(old.parameters), spelled(new.parameters), same, self._masks
            )
        )
        config = tuple(self._config(old, new, parameters, same))
        conditions = tuple(
            _changes(_conditions_of(old), _conditions_of(new), same, self._masks)
            if old.start_conditions != new.start_conditions
            or old.cancel_conditions != new.cancel_conditions
            else ()
        )
        change = JobChange(
            name=new.name,
            old_name=old.name,
            stage=new.stage,
            parameters=parameters,
            config=config,
            conditions=conditions,
            edges=tuple(self._edges(old, new)),
            other=()
            if parameters or config
            else tuple(_rest(old, new, same, self._masks)),
        )
        return replace(change, likeness=_likeness(change, old, new))

    def _translator(self, old: JobSpec, new: JobSpec) -> Translator:
        texts = {old.output_dir: new.output_dir, old.log_dir: new.log_dir}
        texts |= {
            root_of(old.output_dir, old.name): root_of(new.output_dir, new.name),
            root_of(old.log_dir, old.name): root_of(new.log_dir, new.name),
        }
        texts |= {
            name: self._renames[name]
            for name in (old.name, *old.depends_on)
            if name in self._renames
        }
        return Translator(texts)

    def _config(
        self,
        old: JobSpec,
        new: JobSpec,
        parameters: Sequence[ValueChange],
        same: Translator,
    ) -> Iterator[ValueChange]:
        before, after = self._old_config(old.name), self._new_config(new.name)
        if not before or not after:
            if old.fingerprint != new.fingerprint:
                self.without_config.add(new.name)
            return
        told = {plain_key(change.key) for change in parameters}
        for key, (theirs, ours) in differing(before, after).items():
            if key in told or key.partition(".")[0] in _NUMBERED:
                continue
            if _differ(same(theirs), ours):
                yield self._masks.shown(key, theirs, ours)

    def _edges(self, old: JobSpec, new: JobSpec) -> Iterator[EdgeChange]:
        before = {
            (edge.mode, self._renames.get(edge.before, edge.before)): edge
            for edge in self._old_edges.get(old.name, ())
        }
        after = {
            (edge.mode, edge.before): edge for edge in self._new_edges.get(new.name, ())
        }
        for key, edge in after.items():
            if key not in before:
                yield _edge(edge, self._new_stages, added=True)
        for key, edge in before.items():
            if key not in after:
                yield _edge(edge, self._old_stages, added=False)


def _edges_of(plan: Plan) -> dict[str, list[Edge]]:
    found: dict[str, list[Edge]] = {}
    for edge in plan.edges:
        found.setdefault(edge.after, []).append(edge)
    return found


def _edge(edge: Edge, stages: Mapping[str, str], *, added: bool) -> EdgeChange:
    stage = stages.get(edge.before, "")
    return EdgeChange(mode=edge.mode, added=added, job=edge.before, stage=stage)


def _conditions_of(job: JobSpec) -> dict[str, object]:
    """Every field of every condition; defaults say nothing and are left out."""
    found: dict[str, object] = {}
    for where, conditions in (
        ("start_conditions", job.start_conditions),
        ("cancel_conditions", job.cancel_conditions),
    ):
        for at, condition in enumerate(conditions):
            found |= flat(f"{where}.{at}", _said(condition_to_json(condition)))
    return found


def _said(tree: object) -> object:
    """A condition's fields that hold something; nested conditions by their number."""
    if isinstance(tree, Mapping):
        kept = {key: _said(item) for key, item in tree.items()}
        return {k: v for k, v in kept.items() if v not in (None, "", [], {})}
    if isinstance(tree, list) and any(isinstance(item, Mapping) for item in tree):
        return {str(at): _said(item) for at, item in enumerate(tree)}
    return tree


def _rest(
    old: JobSpec, new: JobSpec, same: Translator, masks: _Masks
) -> Iterator[ValueChange]:
    """What neither a parameter nor a key of the config tells."""
    yield from _changes(_launch_of(old), _launch_of(new), same, masks)


def _launch_of(job: JobSpec) -> dict[str, object]:
    texts: dict[str, object] = {"stage": job.stage, "command": " ".join(job.command)}
    texts |= {f"env.{name}": value for name, value in job.env.items()}
    texts |= {f"slurm.sbatch.{k}": v for k, v in job.resources.options.items()}
    return texts | {"cwd": job.cwd}


def _changes(
    old: Mapping[str, object],
    new: Mapping[str, object],
    same: Translator,
    masks: _Masks,
) -> Iterator[ValueChange]:
    for key in dict.fromkeys((*new, *old)):
        theirs, ours = old.get(key, ABSENT), new.get(key, ABSENT)
        if theirs is not ours and _differ(same(theirs), ours):
            yield masks.shown(key, theirs, ours)


def _text(value: object) -> str:
    """The same text for equal values, and for no others."""
    return "" if value is ABSENT else canonical(value)


def _differ(theirs: object, ours: object) -> bool:
    # Two of one plain type need no text; True and 1, or 1 and 1.0, do.
    if type(theirs) is type(ours) and isinstance(ours, str | int):
        return theirs != ours
    return _text(theirs) != _text(ours)


# -------------------------------------------------------------------- whole plans
def _of_plans(old: Plan, new: Plan) -> Iterator[ValueChange]:
    for key, theirs, ours in (
        ("config_ref", old.config_ref, new.config_ref),
        (
            "command line",
            _only_here(old, new),
            _only_here(new, old),
        ),
        ("project.base_output_dir", old.base_output_dir, new.base_output_dir),
        (
            "slurm.client.class_name",
            old.executor.class_name,
            new.executor.class_name,
        ),
        ("slurm.max_parallel", old.executor.max_parallel, new.executor.max_parallel),
    ):
        if theirs != ours:
            yield ValueChange(key=key, old=theirs or ABSENT, new=ours or ABSENT)
    for name in sorted({*old.environment} & {*new.environment}):
        if old.environment[name] != new.environment[name]:
            yield ValueChange(key=f"environment {name}", old="a value", new="another")


def _only_here(plan: Plan, other: Plan) -> str:
    here = (text for text in plan.overrides if text not in other.overrides)
    return " ".join(mask_override(text, plan.mask) for text in here)


def _only(
    jobs: Sequence[JobSpec],
    others: Sequence[JobSpec],
    masks: _Masks,
    *,
    added: bool,
) -> tuple[JobsOnly, ...]:
    """Jobs of one plan alone, by stage, with what sets them apart."""
    stages: dict[str, list[JobSpec]] = {}
    for job in jobs:
        stages.setdefault(job.stage, []).append(job)
    if not stages:
        return ()
    theirs = {
        (key, _text(value))
        for job in others
        for key, value in spelled(job.parameters).items()
    }
    return tuple(
        JobsOnly(
            stage=stage,
            names=tuple(job.name for job in members),
            values=tuple(_apart(members, theirs, masks, added=added)),
        )
        for stage, members in stages.items()
    )


def _apart(
    jobs: Sequence[JobSpec],
    theirs: set[tuple[str, str]],
    masks: _Masks,
    *,
    added: bool,
) -> Iterator[ValueChange]:
    each = [spelled(job.parameters) for job in jobs]
    for key, value in each[0].items():
        text = _text(value)
        shared = all(_text(one.get(key, ABSENT)) == text for one in each[1:])
        if shared and key not in ("stage", NAME) and (key, text) not in theirs:
            sides = (ABSENT, value) if added else (value, ABSENT)
            yield masks.shown(key, *sides)


def _likeness(change: JobChange, old: JobSpec, new: JobSpec) -> str:
    if not change.changed:
        return ""
    masks = {name: f"\0{at}" for at, name in enumerate((old.name, *old.depends_on))}
    masks |= {name: f"\0{at}" for at, name in enumerate((new.name, *new.depends_on))}
    hides = Translator(masks)
    values = [
        (value.key, _text(hides(value.old)), _text(hides(value.new)))
        for value in change.values
    ]
    edges = [(edge.mode, edge.added, edge.stage or edge.job) for edge in change.edges]
    return canonical(json_safe([values, edges]))
