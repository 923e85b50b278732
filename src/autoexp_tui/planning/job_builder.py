"""Makes one job of a point: substitute, compose, name, resolve, parse.

The order is fixed: parameters (other jobs are known) -> overrides -> the composed
config -> the name (the config is known) -> what reads the name -> filters that need
the config -> conditions -> the command. Every fault of a step is gathered; a step that
has faults ends the making. Which job comes first is `build`.
"""

from __future__ import annotations

import itertools
import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from autoexp_tui.conditions.kinds import MetadataIs
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.planning.job_config import (
    DIRECTORIES,
    EARLY,
    FAULTS,
    NAME,
    Draft,
    JobFinisher,
    Needs,
    Record,
    Refused,
    build_mounts,
    find_parameter,
    find_section,
    list_ineffective,
    list_problems,
)
from autoexp_tui.planning.overrides import (
    MISSING,
    OverrideWriter,
    escape_dollars,
    format_override,
    is_number,
    strip_quotes,
)
from autoexp_tui.planning.ports import Composer, ConfigView, SpecParser
from autoexp_tui.planning.references import (
    ATTRIBUTES,
    MOUNT,
    DroppedJob,
    Identity,
    NotAReference,
    Substitution,
    World,
    is_reading_others,
)
from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.families import UnusableJob, label_point
from autoexp_tui.sweep.filters import is_kept_by, list_names
from autoexp_tui.sweep.points import (
    MOST_OF_A_FILTER,
    NOT_OVERRIDES,
    NOTES,
    STAGE,
    SweepFilter,
    SweepPoint,
    find_fault_of_name,
    format_in_name,
    plain_key,
    shorten_text,
)

COMMAND_KEY: Final = "start_condition_cmd"
_CHOSEN_EARLY: Final = (
    "a config group is chosen before the job's own config is known; "
    "{stage}, {index} and values of other jobs can stand here"
)
_OF_A_NAME: Final = (frozenset(ATTRIBUTES) | {NAME}) - {STAGE, "index", "family"}
"""What a job knows of itself only once it is named."""
_MONITORING_COMMAND: Final = f"monitoring.{COMMAND_KEY}"
"""A start condition for all jobs of a config, where other programs have it."""


class _NotNamed(Exception):
    """A parameter reads the job's name, which is not known yet."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What a session says of names that a config gives."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Name as the config gives it -> the one that the job has instead."""
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Job that is there already -> its output and log directory."""
    prefix: str = ""
    """Put before each name that the config gives."""


AS_WRITTEN: Final = Naming()


class JobBuilder:
    def __init__(
        self,
        world: World,
        composer: Composer,
        parser: SpecParser,
        finisher: JobFinisher,
        record: Record | None = None,
        naming: Naming = AS_WRITTEN,
    ) -> None:
        self._naming = naming
        self._world = world
        self._composer = composer
        self._parser = parser
        self._finisher = finisher
        self._record = record
        points = (point.parameters for point in world.families.points)
        self._writer = OverrideWriter(composer, points)
        self._base = composer.base()

    @cached_property
    def _names_in_filters(self) -> Collection[str]:
        points = self._world.families.points
        return list_names(point.parameters for point in points)

    def build(self, at: int) -> tuple[Draft, ConfigView]:
        """The job composed and named; Refused, UnusableJob, DroppedJob or Needs."""
        point = self._world.families.points[at]
        label, family = label_point(point), self._world.families.family(at)
        draft = Draft(
            at,
            point,
            Identity(name=label, stage=point.stage, index=point.index, family=family),
            build_mounts(point.stage, point.index, family, self._base),
        )
        marks = self._find_undecided(draft) if point.deferred else ()
        mounted: dict[str, object] = {}

        def mount(text: str, value: object) -> str:
            mounted.setdefault(text, value)
            return f"${{{MOUNT}.r{list(mounted).index(text)}}}"

        source = Substitution(self._world, at, mount, read=draft.reads)
        values, is_usable = self._substitute(draft, source)
        mounts = {
            f"++{MOUNT}.r{n}": escape_dollars(value)
            for n, value in enumerate(mounted.values())
        }
        made = self._writer.write(mounts | values)
        keys = dict(self._writer.flatten(point.parameters))
        for warning in (*list_ineffective(keys), *made.warnings):
            self._world.warnings.append(replace(warning, job=label))
        if draft.problems or made.errors:
            raise Refused((*draft.problems, *made.errors))
        if not is_usable:
            raise UnusableJob
        draft.texts = made.texts
        late = self._take_late(draft) if source.runtimes else []
        draft.runtimes = tuple(dict.fromkeys(source.runtimes))
        draft.composed = tuple(draft.texts.values())
        try:
            view = self._composer.compose(draft.composed, draft.mounts)
        except FAULTS as error:
            raise Refused(list_problems(error, "")) from None
        self._settle(draft, view, source)
        if source.runtimes:
            found = (t for t in (*late, *draft.texts.values()) if "{runtime." in t)
            draft.runtime_overrides = tuple(dict.fromkeys(map(strip_quotes, found)))
        if marks:
            self._filter(draft, view, marks)
        return draft, view

    def recompose(self, draft: Draft) -> ConfigView:
        view = self._composer.compose(draft.composed, draft.mounts)
        for path, value in draft.puts.items():
            view.put(path, value)
        return view

    def _substitute(
        self, draft: Draft, source: Substitution
    ) -> tuple[dict[str, object], bool]:
        """Parameters with other jobs' values in them; whether those can be used."""
        values: dict[str, object] = {}
        is_usable = True
        covered = {"index"} if self._base.has("family") else {"index", "family"}
        for key, value in self._writer.flatten(_list_parameters(draft.point)):
            if plain_key(key) in covered:  # a mount would hide it
                hint = "give the parameter another name"
                message = "is what the plan gives each job, and no parameter"
                draft.problems.append(Problem(message, key, hint=hint))
            # Braces in rules are read when a rule fires.
            is_late = plain_key(key) == NAME or find_section(key) == "monitoring"
            source.is_unfinished = False
            try:
                values[key] = value if is_late else source.value(value)
                is_early = source.is_unfinished or "{runtime." in repr(values[key])
                if self._writer.selects(key) and is_early:
                    raise NotAReference(_CHOSEN_EARLY)
                if source.is_unfinished:
                    draft.unfinished[key] = value
            except FAULTS as error:
                values.pop(key, None)
                draft.problems += list_problems(error, key)
            except UnusableJob:
                is_usable = False
            except Needs as needs:
                needs.key = key
                raise
        return values, is_usable

    def _take_late(self, draft: Draft) -> Sequence[str]:
        """Take out numbers that only metadata will tell: the config's own stand in."""
        late = []
        for key, text in list(draft.texts.items()):
            plain = plain_key(key)
            is_late = "{runtime." in text and self._base.has(plain)
            if is_late and is_number(self._base.raw(plain)):
                draft.unfinished.pop(key, None)
                late.append(draft.texts.pop(key))
        return late

    def _settle(self, draft: Draft, view: ConfigView, source: Substitution) -> None:
        """Finish the parameters that read the job itself, the name in the middle.

        Each comes after those that it reads; what reads the name, after the name.
        """
        waiting, problems = dict(draft.unfinished), list[Problem]()

        def finish(key: str) -> None:
            if key not in waiting:  # another one that reads it has had it done
                return
            written, path = waiting.pop(key), plain_key(key)
            try:
                found = source.value(written)
                draft.put(view, path, view.interpolate(found, path))
                draft.set_text(key, found)
            except FAULTS as error:
                problems.extend(list_problems(error, key))
            except _NotNamed:
                waiting[key] = written
                raise

        def prepare(accessor: str) -> None:
            if accessor in _OF_A_NAME and not draft.identity.output_dir:
                raise _NotNamed
            for key in list(waiting):
                plain = plain_key(key)
                if (
                    f"{plain}.".startswith(f"{accessor}.")
                    or plain.endswith(f".{accessor}")
                    or accessor.startswith(f"{plain}.")
                ):
                    finish(key)

        def finish_all() -> None:
            source.own = draft.identity, view
            for key in list(waiting):
                with suppress(_NotNamed):
                    finish(key)
            if problems:
                raise Refused(tuple(problems))

        source.prepare = prepare
        finish_all()
        self._name(draft, view)
        finish_all()
        for key in draft.texts:
            if plain_key(key) == NAME:
                draft.set_text(key, escape_dollars(draft.identity.name))

    def _name(self, draft: Draft, view: ConfigView) -> None:
        raw = view.raw(NAME) if view.has(NAME) else None
        if raw is None or isinstance(raw, Mapping | list):
            shown = f"is {shorten_text(repr(raw))}, not a text"
            message = "is not set" if raw is None else shown
            hint = 'project: {name: "lr{lr}_{stage}"}'
            raise Refused((Problem(message, NAME, hint=hint),))
        try:
            after = self._read_after(draft, view, "n", draft.reads)
            name = (
                after.format_name(raw) if isinstance(raw, str) else format_in_name(raw)
            )
            base, logs, scripts = (
                str(view.select(key) or "") if view.has(key) else ""
                for key in DIRECTORIES
            )
        except FAULTS as error:
            raise Refused(list_problems(error, NAME)) from None
        except Needs as needs:
            needs.key = NAME
            raise
        given, name = name, self._naming.prefix + name
        if fault := find_fault_of_name(name):
            raise Refused((Problem(f"{shorten_text(repr(name))}: {fault}", NAME),))
        name = self._naming.names.get(name, name)
        if name != given and not any(plain_key(key) == NAME for key in draft.texts):
            draft.texts[NAME] = format_override(NAME, escape_dollars(name))
        draft.put(view, NAME, name)
        base = base or "outputs"
        logs = logs or posixpath.join(base, "logs")
        new = posixpath.join(base, name), posixpath.join(logs, name)
        output_dir, log_dir = self._naming.places.get(name, new)
        draft.identity = replace(
            draft.identity,
            name=name,
            output_dir=output_dir,
            log_dir=log_dir,
            script_path=posixpath.join(
                scripts or posixpath.join(base, "scripts"), f"{name}.sbatch"
            ),
        )

    def _read_after(
        self, draft: Draft, view: ConfigView, mount_prefix: str, read: set[int]
    ) -> Substitution:
        """`read` is told which jobs are asked."""
        held = itertools.count()

        def mount(_: str, value: object) -> str:
            path = f"{MOUNT}.{mount_prefix}{next(held)}"
            draft.put(view, path, value)
            return f"${{{path}}}"

        own = draft.identity, view
        return Substitution(self._world, draft.at, mount, own, is_final=True, read=read)

    def _find_undecided(self, draft: Draft) -> Sequence[SweepFilter]:
        """The filters that need what other jobs, or the job's name, put into it.

        The others are decided without those (DroppedJob: one says no), so that a family
        can be dropped whose jobs refer to each other.
        """
        marks = draft.point.deferred
        if not is_reading_others(_list_parameters(draft.point)):
            return marks
        source = Substitution(self._world, draft.at, _refuse_mount)
        undecided = []
        try:
            known = {  # what is not known yet, is missing
                key: MISSING if is_reading_others(value) else source.value(value)
                for key, value in self._writer.flatten(_list_parameters(draft.point))
                if plain_key(key) != NAME
            }
            made = self._writer.write({**known, f"++{NAME}": MISSING})
            if made.errors:
                return marks
            view = self._composer.compose(tuple(made.texts.values()), draft.mounts)
        except FAULTS:
            return marks
        for mark in marks:
            try:
                is_kept = self._holds(mark, draft.point, view)
            except (ExpressionError, *FAULTS):
                undecided.append(mark)
                continue
            if not is_kept:
                raise DroppedJob(mark)
        return undecided

    def _holds(self, mark: SweepFilter, point: SweepPoint, view: ConfigView) -> bool:
        return is_kept_by(
            mark.text, point.parameters, self._names_in_filters, view.interpolate
        )

    def _filter(
        self, draft: Draft, view: ConfigView, marks: Sequence[SweepFilter]
    ) -> None:
        """Raise DroppedJob where a filter says no; one in doubt keeps the job."""
        for mark in marks:
            try:
                if not self._holds(mark, draft.point, view):
                    raise DroppedJob(mark, draft.problems)
            except (ExpressionError, *FAULTS) as error:
                text = shorten_text(mark.text, MOST_OF_A_FILTER)
                draft.problems += (
                    Problem(
                        f"`{text}`: {one.message}",
                        mark.where,
                        draft.identity.name,
                        one.hint,
                    )
                    for one in list_problems(error, mark.where)
                )

    def finish(self, draft: Draft, view: ConfigView) -> None:
        """Resolve all, and make the command; raises Refused, UnusableJob or Needs."""
        identity, parameters = draft.identity, draft.point.parameters
        after = self._read_after(draft, view, "s", draft.waits)
        reader = _ConditionReader(self._parser, after)
        start = [*reader.read_list(parameters, "start_conditions")]
        asked = {(one.job, one.key) for one in start if isinstance(one, MetadataIs)}
        commands = {
            COMMAND_KEY: find_parameter(parameters, COMMAND_KEY),
            _MONITORING_COMMAND: (
                view.has(_MONITORING_COMMAND) and view.raw(_MONITORING_COMMAND)
            ),
        }
        for where, command in commands.items():
            if command:
                start += reader.read_command(command, where)
                hint = "write it as a CommandCondition in start_conditions"
                deprecated = Problem("is deprecated", where, identity.name, hint)
                self._world.warnings.append(deprecated)
        start += (
            MetadataIs(job=one.job, key=one.key, op="known")
            for one in draft.runtimes
            if (one.job, one.key) not in asked
        )
        reader.after = self._read_after(draft, view, "c", draft.reads)
        cancel = tuple(reader.read_list(parameters, "cancel_conditions"))
        notes = parameters.get(NOTES)
        notes = notes if isinstance(notes, Mapping) else {}
        job = JobSpec(
            name=identity.name,
            index=identity.index,
            stage=identity.stage,
            family=identity.family,
            parameters=parameters,
            overrides=tuple(draft.texts.values()),
            runtime_overrides=draft.runtime_overrides,
            command=(),
            output_dir=identity.output_dir,
            log_dir=identity.log_dir,
            start_conditions=tuple(start),
            cancel_conditions=cancel,
            notes={str(key): value for key, value in notes.items() if key != STAGE},
        )
        try:
            config = view.to_dict()
            draft.job = self._finisher.finish(job, view, config)
        except FAULTS as error:
            raise Refused((*list_problems(error, ""), *reader.problems)) from None
        if reader.problems:
            raise Refused(tuple(reader.problems))
        if reader.unusable is not None:
            raise reader.unusable
        if self._record is not None:
            self._record(draft.point.index, view, config)


def _refuse_mount(_: str, value: object) -> str:
    raise NotAReference(f"{value!r} is not of the job itself")


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
        elif not (find_section(key) in EARLY or {plain_key(key), key} & NOT_OVERRIDES):
            others[key] = value
    return aux | others


_BASE_KEY: Final = re.compile(r"(?:base|parent)\.(.+)")


@dataclass(slots=True)
class _ConditionReader:
    parser: SpecParser
    after: Substitution
    problems: list[Problem] = field(default_factory=list)
    unusable: UnusableJob | None = None
    """A job that they name has faults of its own, which are told there."""

    def read_list(
        self, parameters: Mapping[str, object], where: str
    ) -> Iterator[Condition]:
        """The conditions of one list; those with findings are left out."""
        raw = find_parameter(parameters, where) or ()
        if isinstance(raw, list | tuple):
            for at, item in enumerate(raw):
                yield from self._read(item, f"{where}.{at}")
        else:
            hint = "conditions are a list: `- class_name: FileExistsCondition`"
            message = f"is {shorten_text(repr(raw))}, not a list"
            self.problems.append(Problem(message, where, hint=hint))

    def read_command(self, raw: object, where: str) -> Iterator[Condition]:
        """The condition that a `start_condition_cmd` stands for."""
        try:
            words = shlex.split(raw) if isinstance(raw, str) else raw
        except ValueError as error:
            message = f"{shorten_text(repr(raw))}: {error}"
            self.problems.append(Problem(message, where))
        else:
            fields = {"class_name": "CommandCondition", "command": words}
            yield from self._read(fields, where)

    def _read(self, raw: object, where: str) -> Iterator[Condition]:
        try:
            fields = self._resolve(raw) if isinstance(raw, Mapping) else raw
            yield self.parser.condition(fields, where)
        except FAULTS as error:
            self.problems += list_problems(error, where)
        except UnusableJob as unusable:
            self.unusable = unusable

    def _resolve(self, raw: Mapping[str, object]) -> dict[str, object]:
        fields = dict(raw)
        name = str(raw.get("class_name", "")).removesuffix("Condition")
        if name == "Metadata" and isinstance(key := raw.get("key"), str):
            key = _BASE_KEY.sub(r"{base.metadata.\1}", key) if "{" not in key else key
            if (runtime := self.after.find_runtime(key)) is not None:
                fields |= {"job": runtime.job, "key": runtime.key}
        for key, value in fields.items():
            if key == "condition" and isinstance(value, Mapping):
                fields[key] = self._resolve(value)
            elif key == "conditions" and isinstance(value, list | tuple):
                fields[key] = [
                    self._resolve(item) if isinstance(item, Mapping) else item
                    for item in value
                ]
            elif key not in {"pattern", "class_name"}:
                fields[key] = self.after.value(value)
        return fields
