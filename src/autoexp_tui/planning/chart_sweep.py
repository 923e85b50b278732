"""What a plan sweeps over, and how the number of its jobs comes about.

Read from the jobs alone, as a manifest holds them: a key is swept when jobs of one
stage have different values of it. What only tells stages apart is no hyperparameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

from autoexp_tui.model.masking import NO_RULES, MaskRules, mask_value
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.wording import plural, spell_float
from autoexp_tui.planning.chart_text import said
from autoexp_tui.sweep.points import NOT_OVERRIDES, plain_key

UNSET: Final = "unset"
"""The value of a key in a job that does not set it."""
_NAMING: Final = frozenset({"project.name"})
"""Keys that name jobs and make none."""
_MOST_TERMS: Final = 4

_Family: TypeAlias = Sequence[JobSpec]


@dataclass(frozen=True, slots=True)
class SweptKey:
    """A key of the sweep, its short label, and its values in order, spelled."""

    key: str
    label: str
    values: tuple[str, ...]


def swept_keys(plan: Plan) -> tuple[SweptKey, ...]:
    """The keys that vary within a stage, in the sweep's order."""
    settings = [(job.stage, settings_of(job)) for job in plan.jobs]
    keys = dict.fromkeys(key for _, own in settings for key in own)
    varying = [key for key in keys if _varies(key, settings)]
    labels = _labels(varying)
    return tuple(
        SweptKey(key, labels[key], tuple(_values(key, settings))) for key in varying
    )


_Settings: TypeAlias = Sequence[tuple[str, Mapping[str, str]]]


def settings_of(job: JobSpec, rules: MaskRules = NO_RULES) -> Mapping[str, str]:
    """What a job's sweep point sets, spelled; what is ours or only names left out."""
    return {
        plain_key(key): _spelled(mask_value(key, value, rules))
        for key, value in job.parameters.items()
        if plain_key(key) not in NOT_OVERRIDES | _NAMING
    }


def _spelled(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = spell_float(value) if isinstance(value, float) else value
    return said(text) or '""'


def _varies(key: str, settings: _Settings) -> bool:
    """Whether two jobs of one stage, of a stage that has it, differ in it."""
    seen: dict[str, str] = {}
    return any(
        seen.setdefault(stage, own.get(key, UNSET)) != own.get(key, UNSET)
        for stage, own in settings
    )


def _values(key: str, settings: _Settings) -> Iterable[str]:
    """Its values; `unset` last, when some jobs of a stage that has it lack it."""
    having = {stage for stage, own in settings if key in own}
    found = dict.fromkeys(own[key] for _, own in settings if key in own)
    lacking = any(stage in having and key not in own for stage, own in settings)
    return (*found, UNSET) if lacking else tuple(found)


def _labels(keys: Sequence[str]) -> Mapping[str, str]:
    """The last part of each key; the whole key where that is not enough."""
    tails = {key: key.rsplit(".", 1)[-1] for key in keys}
    often = Counter(tails.values())
    return {
        key: said(tail if often[tail] == 1 else key) or "?"
        for key, tail in tails.items()
    }


def described(job: JobSpec, keys: Sequence[SweptKey]) -> str:
    """`lr=1e-3 bsz=256`: what tells a job from the others of its stage."""
    own = settings_of(job)
    return " ".join(f"{one.label}={own[one.key]}" for one in keys if one.key in own)


# ------------------------------------------------------------------------ counting
def counted(plan: Plan, keys: Sequence[SweptKey]) -> str:
    """`3 lr × 3 stages + 1 = 10 jobs`: exact, and in one line."""
    total = plural(len(plan.jobs), "job")
    terms = _terms(plan, keys)
    if len(terms) > _MOST_TERMS:
        families = sum(1 for _ in _families(plan))
        return f"{total} in {families} families"
    text = " + ".join(terms)
    return total if text in (str(len(plan.jobs)), total) else f"{text} = {total}"


def _terms(plan: Plan, keys: Sequence[SweptKey]) -> list[str]:
    """One for all families with the same stages; single jobs are added up."""
    alike: dict[tuple[tuple[str, int], ...], list[_Family]] = {}
    for family in _families(plan):
        shape = tuple(Counter(job.stage for job in family).items())
        alike.setdefault(shape, []).append(family)
    terms = [_term(families, keys) for families in alike.values()]
    singles = terms.count("")
    told = [term for term in terms if term]
    return [*told, str(singles)] if singles else told


def _families(plan: Plan) -> Iterable[_Family]:
    """The jobs by family; a job that has none is one of its own."""
    grouped: dict[tuple[str, int], list[JobSpec]] = {}
    for place, job in enumerate(plan.jobs):
        key = (job.family, 0) if job.family else ("", place)
        grouped.setdefault(key, []).append(job)
    return grouped.values()


def _term(families: Sequence[_Family], keys: Sequence[SweptKey]) -> str:
    """`3 lr × 2 bsz × 3 stages`; empty for a single job."""
    factors = _factors(families, keys) if len(families) > 1 else []
    each = families[0]
    stages = len({job.stage for job in each})
    if len(each) > 1:
        jobs = f"{len(each)} jobs each" if factors else f"{len(each)} jobs"
        factors.append(f"{stages} stages" if stages == len(each) else jobs)
    return " × ".join(factors)


def _factors(families: Sequence[_Family], keys: Sequence[SweptKey]) -> list[str]:
    """The number of families, as the product of its keys' values when it is one."""
    places = [_place(family, keys) for family in families]
    counts = [len(set(values)) for values in zip(*places, strict=True)]
    full = len(set(places)) == len(families) == prod(counts)
    if not full:
        return [plural(len(families), "combination")]
    return [
        f"{number} {one.label}"
        for number, one in zip(counts, keys, strict=True)
        if number > 1
    ]


def _place(family: _Family, keys: Sequence[SweptKey]) -> tuple[tuple[str, ...], ...]:
    """For each key, the values that the family's jobs have."""
    settings = [settings_of(job) for job in family]
    return tuple(
        tuple(dict.fromkeys(own[one.key] for own in settings if one.key in own))
        for one in keys
    )
