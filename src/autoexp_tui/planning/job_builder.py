"""Makes one job of a point: substitute, compose, name, resolve, parse.

The order is fixed: parameters (other jobs are known) -> overrides -> the composed
config -> the name (the config is known) -> what reads the name -> filters that need
the config -> conditions -> the command. Every fault of a step is gathered; a step that
has faults ends the making. Which job comes first is `resolve`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from autoexp_tui.conditions.kinds import MetadataIs
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.condition_reader import (
    COMMAND_KEY,
    MONITORING_COMMAND,
    ConditionReader,
)
from autoexp_tui.planning.job_config import (
    JobFinisher,
    Record,
    SessionWide,
    explain_early_key,
    is_early_key,
    is_rule,
)
from autoexp_tui.planning.job_state import (
    FAULTS,
    NAME,
    Draft,
    Needs,
    Refused,
    Settling,
    build_identity,
    build_mounts,
    find_parameter,
    list_problems,
    read_directories,
    read_name,
)
from autoexp_tui.planning.override_checks import OverrideWriter, is_number
from autoexp_tui.planning.overrides import (
    escape_dollars,
    strip_quotes,
)
from autoexp_tui.planning.ports import (
    Composer,
    ConfigView,
    SpecParser,
)
from autoexp_tui.planning.reference_syntax import NotAReference
from autoexp_tui.planning.references import (
    DroppedJob,
    Runtime,
    Values,
    World,
    is_reading_others,
)
from autoexp_tui.planning.substitution import (
    MOUNT,
    After,
    Before,
    build_placeholder,
    list_unfinished,
)
from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.families import UnusableJob, label_point
from autoexp_tui.sweep.filters import Place, is_kept_by, list_places
from autoexp_tui.sweep.points import (
    NOT_OVERRIDES,
    DeferredFilter,
    SweepPoint,
    find_fault_of_name,
    format_in_name,
    plain_key,
)
from autoexp_tui.sweep.schema import MOST_OF_A_FILTER, shorten_text

_MISSING: Final = "???"
"""What OmegaConf reads as a value that is still to come."""
_CHOSEN_EARLY: Final = (
    "a config group is chosen before the job's own config is known; "
    "{stage}, {index} and values of other jobs can stand here"
)


@dataclass(slots=True)
class _Parts:
    """The parameters of a point on their way to a config."""

    values: dict[str, object] = field(default_factory=dict)
    """With other jobs' values in them; what reads the job itself is unfinished."""
    mounted: list[object] = field(default_factory=list)
    runtimes: list[Runtime] = field(default_factory=list)
    """The metadata that the values hold."""
    is_usable: bool = True
    """No job that the values read has faults of its own."""
    problems: list[Problem] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Parameter -> override."""

    def mount(self, value: object) -> str:
        """Keep a value of another job; the `${...}` that reads it."""
        self.mounted.append(value)
        return f"${{{MOUNT}.r{len(self.mounted) - 1}}}"


class JobBuilder:
    """Makes the jobs of one plan, one at a time."""

    def __init__(
        self,
        world: World,
        composer: Composer,
        parser: SpecParser,
        session: SessionWide,
        record: Record | None = None,
    ) -> None:
        """`session`: what the config says without any point."""
        self._world = world
        self._composer = composer
        self._parser = parser
        self._finisher = JobFinisher(parser, session, world.warnings, record)
        points = (point.parameters for point in world.families.points)
        self._writer = OverrideWriter(composer, points)
        self._base = composer.base()
        self._base_is_a_key = self._base.has("base")

    @cached_property
    def _filter_places(self) -> Collection[Place]:
        """The keys that filters may name."""
        points = self._world.families.points
        return dict.fromkeys(list_places(point.parameters for point in points))

    # --------------------------------------------------------------- composing
    def build(self, at: int) -> tuple[Draft, ConfigView]:
        """The job composed and named.

        Raises:
            Refused: with every finding of the step that fails.
            UnusableJob: a job that it reads has faults.
            DroppedJob: a filter that needed the config says no.
            Needs: another job must be made first; the key that reads it is told.
        """
        point, parts = self._world.families.points[at], _Parts()
        marks = self._find_undecided(at)
        values = Values(self._world, at)
        self._substitute(at, parts, values)
        warnings = self._write_overrides(at, parts)
        early = map(explain_early_key, filter(is_early_key, point.parameters))
        for warning in (*early, *warnings):
            self._world.warnings.append(replace(warning, job=label_point(point)))
        if parts.problems:
            raise Refused(tuple(parts.problems))
        if not parts.is_usable:
            raise UnusableJob
        late = self._take_late(parts) if parts.runtimes else {}
        draft, view = self._compose(at, parts)
        draft.reads = values.read
        Settling(draft, view, self._world, parts.values, parts.texts).settle(self._name)
        draft.overrides = tuple(parts.texts.values())
        if parts.runtimes:
            written = (*late.values(), *parts.texts.values())
            draft.runtime_overrides = tuple(
                dict.fromkeys(
                    strip_quotes(text) for text in written if "{runtime." in text
                )
            )
        self._filter(draft, view, marks)
        return draft, view

    def recompose(self, draft: Draft) -> ConfigView:
        """The job's config, composed once more."""
        view = self._composer.compose(draft.composed, draft.mounts)
        for path, value in draft.puts.items():
            view.put(path, value)
        return view

    def _substitute(self, at: int, parts: _Parts, values: Values) -> None:
        """Put other jobs' values into the parameters; `aux` as dotted keys."""
        point = self._world.families.points[at]
        parts.problems += self._check_mounts(point)
        before = Before(values, parts.mount, self._base_is_a_key, parts.runtimes)
        for key, value in self._writer.flatten(_list_parameters(point)):
            late = plain_key(key) == NAME or is_rule(key)
            try:
                found = value if late else before.value(value)
                if self._writer.selects(key) and _is_open(found):
                    raise NotAReference(_CHOSEN_EARLY)
                parts.values[key] = found
            except FAULTS as error:
                parts.problems += list_problems(error, key, label_point(point))
            except UnusableJob:
                parts.is_usable = False
            except Needs as needs:
                needs.key = key
                raise

    def _check_mounts(self, point: SweepPoint) -> Iterator[Problem]:
        """Parameters that the mounts would cover: nobody would ever see them."""
        covered = {"index"} if self._base.has("family") else {"index", "family"}
        for key in point.parameters:
            if plain_key(key) in covered:
                hint = "give the parameter another name"
                message = "is what the plan gives each job, and no parameter"
                yield Problem(message, key, label_point(point), hint)

    def _write_overrides(self, at: int, parts: _Parts) -> Sequence[Problem]:
        """The overrides, and what is wrong with keys and values; gives warnings."""
        made = self._writer.write(
            {
                f"++{MOUNT}.r{at}": escape_dollars(one)
                for at, one in enumerate(parts.mounted)
            }
            | {key: build_placeholder(value) for key, value in parts.values.items()}
        )
        label = label_point(self._world.families.points[at])
        parts.texts = dict(made.texts)
        parts.problems += (replace(error, job=label) for error in made.errors)
        return made.warnings

    def _take_late(self, parts: _Parts) -> dict[str, str]:
        """Take out the overrides of numbers that only metadata will tell.

        The config's own number stands for them in the plan, so that what is calculated
        from them can be planned as well.
        """
        late = [
            key
            for key, text in parts.texts.items()
            if "{runtime." in text and self._is_number(plain_key(key))
        ]
        for key in late:
            parts.values.pop(key, None)
        return {key: parts.texts.pop(key) for key in late}

    def _is_number(self, key: str) -> bool:
        """Whether the base config has a number at a key."""
        return self._base.has(key) and is_number(self._base.raw(key))

    def _compose(self, at: int, parts: _Parts) -> tuple[Draft, ConfigView]:
        """The config of a job, and a draft of it that has no name yet.

        Raises:
            Refused: it does not compose.
        """
        point = self._world.families.points[at]
        family = self._world.families.family(point.index)
        mounts = build_mounts(point.stage, point.index, family, self._base)
        texts = tuple(parts.texts.values())
        nobody = build_identity(point, family)
        runtimes = tuple(dict.fromkeys(parts.runtimes))
        draft = Draft(at, point, nobody, texts, mounts, runtimes=runtimes)
        try:
            return draft, self._composer.compose(texts, mounts)
        except FAULTS as error:
            raise Refused(list_problems(error, "", label_point(point))) from None

    def _name(self, draft: Draft, view: ConfigView) -> None:
        point = draft.point
        try:
            raw = read_name(view)
            after = self._read_after(draft, view, "n", draft.reads)
            name = (
                after.format_name(raw) if isinstance(raw, str) else format_in_name(raw)
            )
            directories = read_directories(view)
        except FAULTS as error:
            raise Refused(list_problems(error, NAME, label_point(point))) from None
        except Needs as needs:
            needs.key = NAME
            raise
        fault = find_fault_of_name(name)
        if fault:
            message = f"{shorten_text(repr(name))}: {fault}"
            raise Refused((Problem(message, NAME, label_point(point)),))
        draft.put(view, NAME, name)
        family = draft.identity.family
        draft.identity = build_identity(point, family, name, directories)

    def _read_after(
        self, draft: Draft, view: ConfigView, mount_prefix: str, read: set[int]
    ) -> After:
        """`read` is told which jobs are asked."""
        values = Values(self._world, draft.at, (draft.identity, view), read)
        held: list[object] = []

        def mount(value: object) -> str:
            held.append(value)
            path = f"{MOUNT}.{mount_prefix}{len(held) - 1}"
            draft.put(view, path, value)
            return f"${{{path}}}"

        return After(values, mount, self._base_is_a_key, view=view)

    # ------------------------------------------------------------------ filters
    def _find_undecided(self, at: int) -> Sequence[DeferredFilter]:
        """The filters that need what other jobs, or the job's name, put into it.

        The others are decided without those, so that a family can be dropped whose
        jobs refer to each other.

        Raises:
            DroppedJob: one of them says no.
        """
        point = self._world.families.points[at]
        if not point.deferred or not is_reading_others(_list_parameters(point)):
            return point.deferred
        try:
            view = self._compose_alone(at, point)
        except FAULTS:
            return point.deferred
        return [mark for mark in point.deferred if not self._keeps(mark, point, view)]

    def _compose_alone(self, at: int, point: SweepPoint) -> ConfigView:
        """The config without what is not known yet: that is missing in it."""

        def refuse_mount(value: object) -> str:
            raise NotAReference(f"{value!r} is not of the job itself")

        before = Before(Values(self._world, at), refuse_mount, self._base_is_a_key)
        known = {
            key: _MISSING
            if is_reading_others(value)
            else build_placeholder(before.value(value))
            for key, value in self._writer.flatten(_list_parameters(point))
            if plain_key(key) != NAME
        }
        texts = self._writer.write({**known, f"++{NAME}": _MISSING}).texts
        family = self._world.families.family(point.index)
        mounts = build_mounts(point.stage, point.index, family, self._base)
        return self._composer.compose(tuple(texts.values()), mounts)

    def _keeps(self, mark: DeferredFilter, point: SweepPoint, view: ConfigView) -> bool:
        """Whether a filter keeps the job; False where that is not known.

        Raises:
            DroppedJob: it does not.
        """
        with suppress(ExpressionError, *FAULTS):
            if not self._holds(mark, point, view):
                raise DroppedJob(mark)
            return True
        return False

    def _holds(self, mark: DeferredFilter, point: SweepPoint, view: ConfigView) -> bool:
        return is_kept_by(
            mark.text, point.parameters, self._filter_places, view.interpolate
        )

    def _filter(
        self, draft: Draft, view: ConfigView, marks: Sequence[DeferredFilter]
    ) -> None:
        """Drop what a filter says no to; what cannot be decided keeps the job.

        Raises:
            DroppedJob: a filter says no; with what is wrong with those before it.
        """
        for mark in marks:
            try:
                if not self._holds(mark, draft.point, view):
                    raise DroppedJob(mark, draft.faults)
            except (ExpressionError, *FAULTS) as error:
                text = shorten_text(mark.text, MOST_OF_A_FILTER)
                draft.faults += (
                    Problem(
                        f"`{text}`: {one.message}",
                        mark.where,
                        draft.identity.name,
                        one.hint,
                    )
                    for one in list_problems(error, mark.where)
                )

    # --------------------------------------------------------------- finishing
    def finish(self, draft: Draft, view: ConfigView) -> None:
        """Resolve the conditions and everything, and make the command of it.

        Raises:
            Refused: with every finding.
            UnusableJob: there is none, but another job that they name has some.
            Needs: conditions name a job that comes later.
        """
        try:
            self._add_conditions(draft, view)
        except (Refused, UnusableJob) as error:
            told = error.problems if isinstance(error, Refused) else ()
            try:
                self._finisher.finish(draft, view)
            except Refused as refused:
                told = (*refused.problems, *told)
            if told:
                raise Refused(told) from None
            raise
        self._finisher.finish(draft, view)

    def _add_conditions(self, draft: Draft, view: ConfigView) -> None:
        start, waits = self._build_reader(draft, view, "s")
        name, parameters = draft.identity.name, draft.point.parameters
        draft.start = start.read_start(parameters)
        asked = {(c.job, c.key) for c in draft.start if isinstance(c, MetadataIs)}
        draft.start += tuple(
            MetadataIs(job=one.job, key=one.key, op="known")
            for one in draft.runtimes
            if (one.job, one.key) not in asked
        )
        if find_parameter(parameters, COMMAND_KEY) is not None:
            self._world.warnings.append(_warn_deprecated(name, COMMAND_KEY))
        if view.has(MONITORING_COMMAND) and (command := view.raw(MONITORING_COMMAND)):
            draft.start += start.read_command(command, MONITORING_COMMAND)
            self._world.warnings.append(_warn_deprecated(name, MONITORING_COMMAND))
        cancel, reads = self._build_reader(draft, view, "c")
        draft.cancel = cancel.read_list(parameters, "cancel_conditions")
        draft.waits |= waits.read
        draft.reads |= reads.read
        problems = (*start.problems, *cancel.problems)
        if problems:
            raise Refused(tuple(replace(problem, job=name) for problem in problems))
        unusable = start.unusable or cancel.unusable
        if unusable is not None:
            raise unusable

    def _build_reader(
        self, draft: Draft, view: ConfigView, mount_prefix: str
    ) -> tuple[ConditionReader, Values]:
        after = self._read_after(draft, view, mount_prefix, set())
        return ConditionReader(after, self._parser), after.values


# ------------------------------------------------------------------------- pieces
def _list_parameters(point: SweepPoint) -> dict[str, object]:
    """What becomes overrides: `aux` first, key by key, then the others in order."""
    aux: dict[str, object] = {}
    others: dict[str, object] = {}
    for key, value in point.parameters.items():
        bare = key.lstrip("+")
        if bare == "aux" and isinstance(value, Mapping):
            aux |= {f"++aux.{name}": inner for name, inner in value.items()}
        elif bare == "aux" or bare.startswith("aux."):
            aux[f"++{bare}"] = value
        elif not is_early_key(key) and not {plain_key(key), key} & NOT_OVERRIDES:
            others[key] = value
    return aux | others


def _is_open(value: object) -> bool:
    """Whether a value is not known before its job is composed, or starts."""
    return any(list_unfinished(value)) or "{runtime." in repr(value)


def _warn_deprecated(job: str, where: str) -> Problem:
    hint = "write it as a CommandCondition in start_conditions"
    return Problem("is deprecated", where=where, job=job, hint=hint)
