"""Makes one job of a point: substitute, compose, name, resolve, parse.

The order is fixed: parameters (other jobs are known) -> overrides -> the composed
config -> the name (the config is known) -> what reads the name -> filters that need
the config -> conditions -> the command. Every fault of a step is gathered; a step that
has faults ends the making. Which job comes first is `resolution`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from autoexp_tui.conditions.kinds import Condition, MetadataIs
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.conditions import (
    COMMAND_KEY,
    FAULTS,
    MONITORING_COMMAND,
    ConditionReader,
    command_of,
    problems_of,
)
from autoexp_tui.planning.failed_job_diagnostics import (
    MISSING,
    UnmadeJobs,
    Workshop,
    parameters_of,
)
from autoexp_tui.planning.job_builder_state import Draft, Needs, Refused, Settling
from autoexp_tui.planning.job_end import JobEnding, Record
from autoexp_tui.planning.job_places import (
    NAME,
    directories_of,
    identity_of,
    mounts_of,
    nobody_yet,
    written_name,
)
from autoexp_tui.planning.override_checks import find_numbers, number_at
from autoexp_tui.planning.overrides import (
    OverrideWriter,
    bare_reference,
    literal,
    spell_override,
)
from autoexp_tui.planning.ports import Composer, ConfigView, SpecParser
from autoexp_tui.planning.reference_syntax import NotAReference
from autoexp_tui.planning.references import (
    ATTRIBUTES,
    KNOWN_EARLY,
    DroppedJob,
    Runtime,
    Values,
    reads_others,
)
from autoexp_tui.planning.substitution import (
    MOUNT,
    After,
    Before,
    placeholder,
    unfinished_in,
)
from autoexp_tui.planning.watching import (
    SessionWide,
    is_rule,
    is_settled,
    settled_too_early,
)
from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.families import UnusableJob, called
from autoexp_tui.sweep.filters import deferred_holds
from autoexp_tui.sweep.names import fault_of_name, spell
from autoexp_tui.sweep.points import DeferredFilter, SweepPoint, plain_key
from autoexp_tui.sweep.schema import MOST_OF_A_FILTER, shown

_LATE: Final = (frozenset(ATTRIBUTES) | {NAME}) - KNOWN_EARLY
"""What a job knows of itself only once it is named."""

_CHOSEN_EARLY: Final = (
    "a config group is chosen before the job's own config is known; "
    "{stage}, {index} and values of other jobs can stand here"
)


@dataclass(slots=True)
class _Faults:
    """What hinders preparing a point's parameters."""

    problems: list[Problem]
    unusable: UnusableJob | None = None
    """Another job has faults of its own; they are told there."""


class JobMaker:
    """Makes the jobs of one plan, one at a time."""

    def __init__(
        self,
        world: Workshop,
        composer: Composer,
        parser: SpecParser,
        session: SessionWide | None = None,
        record: Record | None = None,
    ) -> None:
        """`session`: what the config says without any point."""
        self._world = world
        self._composer = composer
        self._parser = parser
        self._ending = JobEnding(parser, session or SessionWide(), world.warn, record)
        points = (point.parameters for point in world.families.points)
        self._writer = OverrideWriter(composer, find_numbers(points))
        self._base = composer.base()
        self._base_is_a_key = self._base.has("base")
        self._unmade = UnmadeJobs(
            world, composer, parser, self._writer, self._ending, self._base_is_a_key
        )

    # --------------------------------------------------------------- composing
    def begun(self, at: int) -> tuple[Draft, ConfigView]:
        """The job composed and named.

        Raises:
            Refused: with every finding of the step that failed.
            DroppedJob: a filter that needed the config says no.
            Needs: another job must be made first; the key that reads it is told.
        """
        point = self._world.families.points[at]
        values = Values(self._world, at)
        mounted: list[object] = []
        runtimes: list[Runtime] = []
        marks = self._undecided(at)
        prepared, faults = self._prepared(point, values, mounted, runtimes)
        mounts = self._mounts(point)
        try:
            texts = self._texts(point, prepared, mounted, faults)
            late = self._taken_late(prepared, texts) if runtimes else {}
            view = self._composer.compose(tuple(texts.values()), mounts)
        except FAULTS as error:
            raise Refused(problems_of(error, "", called(point))) from None
        draft = Draft(
            at=at,
            point=point,
            identity=nobody_yet(point, self._world.families.family(point.index)),
            overrides=(),
            composed=tuple(texts.values()),
            mounts=mounts,
            runtimes=tuple(dict.fromkeys(runtimes)),
            reads=values.read,
        )
        self._settle(draft, view, prepared, texts)
        draft.overrides = tuple(texts.values())
        if runtimes:
            written = (late.get(key) or texts[key] for key in (*late, *texts))
            draft.runtime_overrides = tuple(
                dict.fromkeys(
                    bare_reference(text) for text in written if "{runtime." in text
                )
            )
        self._filter(draft, view, marks)
        return draft, view

    def recomposed(self, draft: Draft) -> ConfigView:
        """The job's config, composed once more."""
        view = self._composer.compose(draft.composed, draft.mounts)
        for path, value in draft.puts.items():
            view.put(path, value)
        return view

    def _taken_late(
        self, prepared: dict[str, object], texts: dict[str, str]
    ) -> dict[str, str]:
        """Take out the overrides of numbers that only metadata will tell.

        The config's own number stands for them in the plan, so that what is calculated
        from them can be planned as well.
        """
        late = [
            key
            for key, text in texts.items()
            if "{runtime." in text and number_at(self._base, plain_key(key)) is not None
        ]
        for key in late:
            prepared.pop(key, None)
        return {key: texts.pop(key) for key in late}

    def _prepared(
        self,
        point: SweepPoint,
        values: Values,
        mounted: list[object],
        runtimes: list[Runtime],
    ) -> tuple[dict[str, object], _Faults]:
        """The parameters with other jobs' values in them; `aux` as dotted keys.

        Those with faults are left out. `mounted`, `runtimes`: are told what is to be
        mounted, and the metadata that the values hold.
        """

        def mount(value: object) -> str:
            mounted.append(value)
            return f"${{{MOUNT}.r{len(mounted) - 1}}}"

        before = Before(values, mount, self._base_is_a_key, runtimes)
        prepared: dict[str, object] = {}
        faults = _Faults(list(self._covered(point)))
        for key, value in self._writer.flattened(parameters_of(point)):
            try:
                late = plain_key(key) == NAME or is_rule(key)
                found = value if late else before.value(value)
                if self._writer.selects(key) and _is_open(found):
                    raise NotAReference(_CHOSEN_EARLY)
                prepared[key] = found
            except FAULTS as error:
                faults.problems += problems_of(error, key, called(point))
            except UnusableJob as unusable:
                faults.unusable = unusable
            except Needs as needs:
                needs.key = key
                raise
        return prepared, faults

    def _covered(self, point: SweepPoint) -> Iterator[Problem]:
        """Parameters that the mounts would cover: nobody would ever see them."""
        covered = {"index"} if self._base.has("family") else {"index", "family"}
        for key in point.parameters:
            if plain_key(key) in covered:
                hint = "give the parameter another name"
                message = "is what the plan gives each job, and no parameter"
                yield Problem(message, key, called(point), hint)

    def _texts(
        self,
        point: SweepPoint,
        prepared: Mapping[str, object],
        mounted: list[object],
        faults: _Faults,
    ) -> dict[str, str]:
        """Parameter -> override, as it is composed.

        Raises:
            Refused: with what is wrong with keys and with values, all of it.
            UnusableJob: nothing is, but a value of another job cannot be had.
        """
        made = self._writer.write(
            {f"++{MOUNT}.r{at}": literal(value) for at, value in enumerate(mounted)}
            | {key: placeholder(value) for key, value in prepared.items()}
        )
        early = map(settled_too_early, filter(is_settled, point.parameters))
        for warning in (*early, *made.warnings):
            self._world.warn(replace(warning, job=called(point)))
        named = (replace(error, job=called(point)) for error in made.errors)
        problems = (*faults.problems, *named)
        if problems:
            raise Refused(problems)
        if faults.unusable is not None:
            raise faults.unusable
        return dict(made.texts)

    def _mounts(self, point: SweepPoint) -> dict[str, object]:
        family = self._world.families.family(point.index)
        return mounts_of(point.stage, point.index, family, self._base)

    # ---------------------------------------------------------------- settling
    def _settle(
        self,
        draft: Draft,
        view: ConfigView,
        prepared: Mapping[str, object],
        texts: dict[str, str],
    ) -> None:
        """Finish what reads the job itself: the name in the middle."""
        waiting = {
            key: value for key, value in prepared.items() if any(unfinished_in(value))
        }
        settling = Settling(draft, view, self._world, waiting, texts)
        settling.all_but(_LATE)
        self._name(draft, view)
        settling.all_but(frozenset())
        for key in [key for key in texts if plain_key(key) == NAME]:
            head = texts[key].partition("=")[0]
            texts[key] = spell_override(head, literal(draft.identity.name))
        if settling.problems:
            raise Refused(tuple(settling.problems))

    def _name(self, draft: Draft, view: ConfigView) -> None:
        try:
            raw = written_name(view)
            after = self._after(draft, view, "n", draft.reads)
            name = after.spelled(raw) if isinstance(raw, str) else spell(raw)
            directories = directories_of(view)
        except FAULTS as error:
            raise Refused(problems_of(error, NAME, called(draft.point))) from None
        except Needs as needs:
            needs.key = NAME
            raise
        fault = fault_of_name(name)
        if fault:
            message = f"{shown(repr(name))}: {fault}"
            raise Refused((Problem(message, NAME, called(draft.point)),))
        draft.put(view, NAME, name)
        draft.identity = identity_of(draft.identity, name, directories)

    def _after(
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

        return After(values, view, mount, self._base_is_a_key)

    # ------------------------------------------------------------------ filters
    def _undecided(self, at: int) -> Sequence[DeferredFilter]:
        """The filters that need what other jobs, or the job's name, put into it.

        The others are decided without those, so that a family can be dropped whose
        jobs refer to each other.

        Raises:
            DroppedJob: one of them says no.
        """
        point = self._world.families.points[at]
        if not point.deferred or not reads_others(parameters_of(point)):
            return point.deferred
        try:
            view = self._alone(at, point)
        except FAULTS:
            return point.deferred
        return [mark for mark in point.deferred if not self._decided(mark, point, view)]

    def _alone(self, at: int, point: SweepPoint) -> ConfigView:
        """The config without what is not known yet: that is missing in it."""
        values = Values(self._world, at)
        before = Before(values, _no_mount, self._base_is_a_key)
        known = {
            key: MISSING if reads_others(value) else placeholder(before.value(value))
            for key, value in self._writer.flattened(parameters_of(point))
            if plain_key(key) != NAME
        }
        texts = self._writer.write({**known, f"++{NAME}": MISSING}).texts
        return self._composer.compose(tuple(texts.values()), self._mounts(point))

    def _decided(
        self, mark: DeferredFilter, point: SweepPoint, view: ConfigView
    ) -> bool:
        try:
            keep = self._holds(mark, point, view)
        except (ExpressionError, *FAULTS):
            return False
        if not keep:
            raise DroppedJob(mark)
        return True

    def _holds(self, mark: DeferredFilter, point: SweepPoint, view: ConfigView) -> bool:
        return deferred_holds(
            mark.text, point.parameters, self._world.known, view.interpolate
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
                keep = self._holds(mark, draft.point, view)
            except ExpressionError as error:
                said = [Problem(str(error), mark.where)]
            except FAULTS as error:
                said = list(problems_of(error, mark.where))
            else:
                if not keep:
                    raise DroppedJob(mark, draft.faults)
                continue
            draft.faults += (_of_filter(mark, one, draft) for one in said)

    # -------------------------------------------------------------- conditions
    def add_conditions(self, draft: Draft, view: ConfigView) -> None:
        """Resolve and parse the conditions.

        Raises:
            Refused: with every finding.
            UnusableJob: there is none, but another job that they name has some.
        """
        start, waits = self._reader(draft, view, "s")
        draft.start = start.start_of(draft.point.parameters)
        draft.start += _waits_for_metadata(draft)
        if command_of(draft.point.parameters) is not None:
            self._world.warn(_deprecated(draft.identity.name, COMMAND_KEY))
        if view.has(MONITORING_COMMAND) and (command := view.raw(MONITORING_COMMAND)):
            draft.start += start.read_command(command, MONITORING_COMMAND)
            self._world.warn(_deprecated(draft.identity.name, MONITORING_COMMAND))
        cancel, reads = self._reader(draft, view, "c")
        draft.cancel = cancel.cancel_of(draft.point.parameters)
        draft.waits |= waits.read
        draft.reads |= reads.read
        problems = (*start.problems, *cancel.problems)
        if problems:
            name = draft.identity.name
            raise Refused(tuple(replace(problem, job=name) for problem in problems))
        unusable = start.unusable or cancel.unusable
        if unusable is not None:
            raise unusable

    def faults_of_unmade(self, at: int) -> Sequence[Problem]:
        """What is wrong with a job that could not be made; see `UnmadeJobs`."""
        return self._unmade.faults(at)

    def _reader(
        self, draft: Draft, view: ConfigView, mount_prefix: str
    ) -> tuple[ConditionReader, Values]:
        after = self._after(draft, view, mount_prefix, set())
        return ConditionReader(
            after, self._parser, after.values.base_name
        ), after.values

    # ----------------------------------------------------------------- ending
    def end(self, draft: Draft, view: ConfigView) -> None:
        """Resolve everything, and make the command of it.

        Raises:
            Refused: with every finding.
        """
        self._ending.end(draft, view)


# ------------------------------------------------------------------------- pieces
def _is_open(value: object) -> bool:
    """Whether a value is not known before its job is composed, or starts."""
    return any(unfinished_in(value)) or "{runtime." in repr(value)


def _waits_for_metadata(draft: Draft) -> tuple[Condition, ...]:
    """Conditions that the metadata in parameters is known, where none asks for it."""
    asked = {(one.job, one.key) for one in draft.start if isinstance(one, MetadataIs)}
    return tuple(
        MetadataIs(job=one.job, key=one.key, op="known")
        for one in draft.runtimes
        if (one.job, one.key) not in asked
    )


def _no_mount(value: object) -> str:
    raise NotAReference(f"{value!r} is not of the job itself")


def _of_filter(mark: DeferredFilter, problem: Problem, draft: Draft) -> Problem:
    message = f"`{shown(mark.text, MOST_OF_A_FILTER)}`: {problem.message}"
    return Problem(message, mark.where, draft.identity.name, problem.hint)


def _deprecated(job: str, where: str) -> Problem:
    hint = "write it as a CommandCondition in start_conditions"
    return Problem("is deprecated", where=where, job=job, hint=hint)
