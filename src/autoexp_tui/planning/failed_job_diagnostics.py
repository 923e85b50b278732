"""What else is wrong with jobs that cannot be made.

Such a job has a key or a value that is wrong, reads a job that has faults, or lies on
a ring. Whatever of its config does not hang on that is looked at all the same, so that
all of it is told at once; what only follows from what is told already is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.conditions import (
    FAULTS,
    AsWritten,
    ConditionReader,
    problems_of,
)
from autoexp_tui.planning.job_builder_state import Draft, Needs
from autoexp_tui.planning.job_end import MOST_FAILED, JobEnding
from autoexp_tui.planning.job_places import NAME, mounts_of, nobody_yet, written_name
from autoexp_tui.planning.overrides import OverrideWriter, literal, spell_override
from autoexp_tui.planning.ports import CannotCompose, Composer, ConfigView, SpecParser
from autoexp_tui.planning.references import (
    DroppedJob,
    UnknownKey,
    Values,
    World,
    accessed_own,
)
from autoexp_tui.planning.substitution import MOUNT, Before, placeholder, unfinished_in
from autoexp_tui.planning.watching import is_rule, is_settled
from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.families import UnusableJob, called
from autoexp_tui.sweep.filters import Place, deferred_holds
from autoexp_tui.sweep.names import fault_of_name
from autoexp_tui.sweep.points import NOT_OVERRIDES, SweepPoint, is_key, plain_key
from autoexp_tui.sweep.schema import shown

MISSING: Final = "???"
"""What OmegaConf reads as a value that is still to come."""


class Workshop(World, Protocol):
    """The world of a job, and what all jobs share."""

    @property
    def known(self) -> Collection[Place]:
        """The keys that filters may name."""
        ...

    def warn(self, problem: Problem) -> None:
        """Keep a warning."""
        ...


@dataclass(slots=True)
class _Parts:
    """The parameters of a point, as far as they have values."""

    known: dict[str, object] = field(default_factory=dict)
    mounted: list[object] = field(default_factory=list)
    unfinished: dict[str, object] = field(default_factory=dict)
    """Those that read the job itself."""
    doubtful: set[str] = field(default_factory=set)
    """Keys whose values nobody knows."""
    problems: list[Problem] = field(default_factory=list)

    def mount(self, value: object) -> str:
        """Keep a value of another job; the `${...}` that reads it."""
        self.mounted.append(value)
        return f"${{{MOUNT}.r{len(self.mounted) - 1}}}"


class UnmadeJobs:
    """Looks at the jobs of one plan that could not be made."""

    def __init__(
        self,
        world: Workshop,
        composer: Composer,
        parser: SpecParser,
        writer: OverrideWriter,
        ending: JobEnding,
        base_is_a_key: bool,  # noqa: FBT001
    ) -> None:
        self._world = world
        self._composer = composer
        self._parser = parser
        self._writer = writer
        self._ending = ending
        self._base_is_a_key = base_is_a_key
        self._base = composer.base()
        self._looked = 0
        """Jobs whose configs were looked at."""

    def faults(self, at: int) -> Sequence[Problem]:
        """Everything that is wrong with a job, as far as that can be told."""
        try:
            self._looked += 1
            found = self._check_config(at) if self._looked <= MOST_FAILED else ()
            return (*found, *self._check_conditions(at))
        except DroppedJob:
            return ()

    def _check_conditions(self, at: int) -> Sequence[Problem]:
        point = self._world.families.points[at]
        values = Values(self._world, at)
        reader = ConditionReader(AsWritten(values), self._parser, values.check_base)
        reader.start_of(point.parameters)
        reader.cancel_of(point.parameters)
        return reader.problems

    # ------------------------------------------------------------------- config
    def _check_config(self, at: int) -> Sequence[Problem]:
        """What is wrong with the config.

        Raises:
            DroppedJob: a filter says no to the job.
        """
        point = self._world.families.points[at]
        parts = self._substitute(at)
        view = self._compose_certain(point, parts)
        if view is None:
            return parts.problems
        self._check_filters(point, view)
        draft = self._make_draft(at, point)
        return [
            *parts.problems,
            *_check_name(view, called(point)),
            *self._check_own_references(draft, view, parts),
            *self._ending.faults(draft, view, parts.doubtful),
        ]

    def _substitute(self, at: int) -> _Parts:
        parts = _Parts()
        point = self._world.families.points[at]
        before = Before(Values(self._world, at), parts.mount, self._base_is_a_key)
        for key, value in self._writer.flattened(parameters_of(point)):
            late = plain_key(key) == NAME or is_rule(key)
            try:
                found = value if late else before.value(value)
            except FAULTS as error:
                parts.problems += problems_of(error, key, called(point))
                parts.doubtful.add(plain_key(key))
            except (UnusableJob, Needs):
                parts.doubtful.add(plain_key(key))
            else:
                own = any(unfinished_in(found))
                (parts.unfinished if own else parts.known)[key] = found
        parts.doubtful |= set(map(plain_key, parts.unfinished))
        return parts

    def _compose_certain(self, point: SweepPoint, parts: _Parts) -> ConfigView | None:
        """The config, without what is in doubt; None: it does not compose."""
        made = self._writer.write(
            {f"++{MOUNT}.r{at}": literal(one) for at, one in enumerate(parts.mounted)}
            | {key: placeholder(value) for key, value in parts.known.items()}
        )
        label = called(point)
        parts.problems += (replace(one, job=label) for one in made.errors)
        parts.doubtful |= made.doubtful
        texts = {**made.texts, **dict(self._mark_missing(parts.doubtful))}
        try:
            return self._compose(point, texts)
        except FAULTS as error:
            parts.problems += problems_of(error, "", label)
        return None

    def _mark_missing(self, keys: Collection[str]) -> Iterator[tuple[str, str]]:
        for key in sorted(keys):
            is_ours = key in NOT_OVERRIDES or not is_key(key)
            if not is_ours and not self._writer.selects(key):
                yield f"++{key}", spell_override(f"++{key}", MISSING)

    def _compose(self, point: SweepPoint, texts: Mapping[str, str]) -> ConfigView:
        family = self._world.families.family(point.index)
        mounts = mounts_of(point.stage, point.index, family, self._base)
        return self._composer.compose(tuple(texts.values()), mounts)

    def _make_draft(self, at: int, point: SweepPoint) -> Draft:
        nobody = nobody_yet(point, self._world.families.family(point.index))
        return Draft(at, point, nobody, (), (), {})

    def _check_filters(self, point: SweepPoint, view: ConfigView) -> None:
        for mark in point.deferred:
            with suppress(ExpressionError, *FAULTS):
                if not deferred_holds(
                    mark.text, point.parameters, self._world.known, view.interpolate
                ):
                    raise DroppedJob(mark)

    def _check_own_references(
        self, draft: Draft, view: ConfigView, parts: _Parts
    ) -> Iterator[Problem]:
        """References to the job itself that stand for nothing."""
        keys = self._world.metadata_keys
        for key, value in parts.unfinished.items():
            for text in unfinished_in(value):
                for accessor in text.accessors:
                    try:
                        accessed_own(draft.identity, view, keys, accessor)
                    except UnknownKey as error:
                        yield from problems_of(error, key, draft.identity.name)
                    except FAULTS:
                        continue


def _check_name(view: ConfigView, label: str) -> Iterator[Problem]:
    try:
        written_name(view)
    except CannotCompose as error:
        yield from problems_of(error, NAME, label)
        return
    with suppress(KeyError, *FAULTS):
        name = view.select(NAME)
        is_whole = isinstance(name, str) and "{" not in name
        fault = fault_of_name(str(name)) if is_whole else ""
        if fault:
            yield Problem(f"{shown(repr(name))}: {fault}", NAME, label)


def parameters_of(point: SweepPoint) -> dict[str, object]:
    """What becomes overrides: `aux` first, key by key, then the others in order."""
    aux: dict[str, object] = {}
    others: dict[str, object] = {}
    for key, value in point.parameters.items():
        bare = key.lstrip("+")
        if bare == "aux" and isinstance(value, Mapping):
            aux |= {f"++aux.{name}": inner for name, inner in value.items()}
        elif bare == "aux" or bare.startswith("aux."):
            aux[f"++{bare}"] = value
        elif not is_settled(key) and not {plain_key(key), key} & NOT_OVERRIDES:
            others[key] = value
    return aux | others
