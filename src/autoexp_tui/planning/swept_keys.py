"""What a plan sweeps over, and how the number of its jobs comes about.

Read from the jobs alone, as a manifest holds them: a key is swept when jobs of one
stage have different values of it. What only tells stages apart is no hyperparameter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final, TypeAlias

from autoexp_tui.model.masking import NO_RULES, MaskRules, mask_value
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.sweep.points import NOT_OVERRIDES, plain_key
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import plural, spell_value

UNSET: Final = "unset"
"""The value of a key in a job that does not set it."""
_NOT_SWEPT: Final = NOT_OVERRIDES | {"project.name"}
"""Keys that are ours, or name jobs and make none."""
_MOST_TERMS: Final = 4

Settings: TypeAlias = Mapping[str, str]
"""What a sweep point sets: plain key -> value, spelled."""
_Family: TypeAlias = Sequence[JobSpec]


def read_settings(
    parameters: Mapping[str, object], rules: MaskRules = NO_RULES
) -> Settings:
    """What a sweep point sets; what is ours or only names jobs is left out."""
    return {
        plain: spell_value(mask_value(key, value, rules))
        for key, value in parameters.items()
        if (plain := _swept_key(key))
    }


@lru_cache(maxsize=4096)
def _swept_key(key: str) -> str:
    """A key without its plus signs; empty when no hyperparameter is called so."""
    plain = plain_key(key)
    return "" if plain in _NOT_SWEPT else plain


def label_keys(keys: Iterable[str]) -> Mapping[str, str]:
    """The last part of each key; the whole key where that is not enough."""
    tails = {key: key.rsplit(".", 1)[-1] for key in keys}
    often = Counter(tails.values())
    return {
        key: clean_line(tail if often[tail] == 1 else key) or "?"
        for key, tail in tails.items()
    }


@dataclass(frozen=True, slots=True)
class SweptKey:
    """A key of the sweep, its short label, and its values in order, spelled."""

    key: str
    label: str
    values: tuple[str, ...]


class SweepSummary:
    """The keys that vary within a stage of a plan, in the sweep's order."""

    def __init__(self, plan: Plan) -> None:
        self._jobs = plan.jobs
        self._settings = [read_settings(job.parameters, plan.mask) for job in plan.jobs]
        self._of_job = {
            job.name: own for job, own in zip(plan.jobs, self._settings, strict=True)
        }
        keys = dict.fromkeys(key for own in self._settings for key in own)
        varying = [key for key in keys if self._varies(key)]
        labels = label_keys(varying)
        self.keys = tuple(
            SweptKey(key, labels[key], self._values(key)) for key in varying
        )

    def _varies(self, key: str) -> bool:
        """Whether two jobs of one stage differ in it."""
        seen: dict[str, str] = {}
        return any(
            seen.setdefault(job.stage, own.get(key, UNSET)) != own.get(key, UNSET)
            for job, own in zip(self._jobs, self._settings, strict=True)
        )

    def _values(self, key: str) -> tuple[str, ...]:
        """Its values; `unset` last, when some jobs of a stage that has it lack it."""
        pairs = list(zip(self._jobs, self._settings, strict=True))
        having = {job.stage for job, own in pairs if key in own}
        lacking = any(job.stage in having and key not in own for job, own in pairs)
        found = dict.fromkeys(own[key] for own in self._settings if key in own)
        return (*found, UNSET) if lacking else tuple(found)

    def settings_of(self, job: JobSpec) -> Settings:
        """What the job's sweep point sets."""
        return self._of_job[job.name]

    def describe_job(self, job: JobSpec) -> str:
        """`lr=1e-3 bsz=256`: what tells a job from the others of its stage."""
        own = self.settings_of(job)
        return " ".join(
            f"{one.label}={own[one.key]}" for one in self.keys if one.key in own
        )

    # ------------------------------------------------------------------- counting
    def count_jobs(self) -> str:
        """`3 lr × 3 stages + 1 = 10 jobs`: exact, and in one line."""
        total = plural(len(self._jobs), "job")
        families = self._families()
        terms = self._terms(families)
        if len(terms) > _MOST_TERMS:
            return f"{total} in {len(families)} families"
        text = " + ".join(terms)
        return total if text in (str(len(self._jobs)), total) else f"{text} = {total}"

    def _families(self) -> Sequence[_Family]:
        """The jobs by family; a job that has none is one of its own."""
        grouped: dict[tuple[str, int], list[JobSpec]] = {}
        for place, job in enumerate(self._jobs):
            key = (job.family, 0) if job.family else ("", place)
            grouped.setdefault(key, []).append(job)
        return list(grouped.values())

    def _terms(self, families: Iterable[_Family]) -> list[str]:
        """One for all families with the same stages; single jobs are added up."""
        alike: dict[tuple[tuple[str, int], ...], list[_Family]] = {}
        for family in families:
            shape = tuple(Counter(job.stage for job in family).items())
            alike.setdefault(shape, []).append(family)
        terms = [self._term(group) for group in alike.values()]
        singles = terms.count("")
        return [*filter(None, terms), *([str(singles)] if singles else [])]

    def _term(self, families: Sequence[_Family]) -> str:
        """`3 lr × 2 bsz × 3 stages`; empty for a single job."""
        factors = self._factors(families) if len(families) > 1 else []
        each = families[0]
        stages = len({job.stage for job in each})
        if len(each) > 1:
            jobs = f"{len(each)} jobs each" if factors else f"{len(each)} jobs"
            factors.append(f"{stages} stages" if stages == len(each) else jobs)
        return " × ".join(factors)

    def _factors(self, families: Sequence[_Family]) -> list[str]:
        """The number of families, as the product of its keys' values if it is one."""
        places = [self._place(family) for family in families]
        counts = [len(set(values)) for values in zip(*places, strict=True)]
        if not len(set(places)) == len(families) == prod(counts):
            return [plural(len(families), "combination")]
        return [
            f"{number} {one.label}"
            for number, one in zip(counts, self.keys, strict=True)
            if number > 1
        ]

    def _place(self, family: _Family) -> tuple[tuple[str, ...], ...]:
        """For each key, the values that the family's jobs have."""
        settings = [self.settings_of(job) for job in family]
        return tuple(
            tuple(dict.fromkeys(own[one.key] for own in settings if one.key in own))
            for one in self.keys
        )
