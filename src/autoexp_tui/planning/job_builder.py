"""Makes one job of a point: substitute, compose, name, resolve, parse.

The order is fixed: parameters (other jobs are known) -> overrides -> the composed
config -> the name (the config is known) -> what reads the name -> filters that need
the config -> conditions -> the command. Every fault of a step is gathered; a step that
has faults ends the making. Which job comes first is `resolve`.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from autoexp_tui.conditions.kinds import MetadataIs
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.planning.job_config import (
    DIRECTORIES,
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
    is_early_key,
    list_ineffective,
    list_problems,
)
from autoexp_tui.planning.override_checks import OverrideWriter, is_number
from autoexp_tui.planning.overrides import (
    escape_dollars,
    format_override,
    strip_quotes,
)
from autoexp_tui.planning.ports import CannotCompose, Composer, ConfigView, SpecParser
from autoexp_tui.planning.references import (
    ATTRIBUTES,
    KNOWN_EARLY,
    DroppedJob,
    Identity,
    NotAReference,
    Runtime,
    Values,
    World,
    is_reading_others,
)
from autoexp_tui.planning.substitution import MOUNT, Substitution
from autoexp_tui.sweep.expression import ExpressionError
from autoexp_tui.sweep.families import UnusableJob, label_point
from autoexp_tui.sweep.filters import is_kept_by, list_names
from autoexp_tui.sweep.points import (
    MOST_OF_A_FILTER,
    NOT_OVERRIDES,
    DeferredFilter,
    SweepPoint,
    find_fault_of_name,
    format_in_name,
    join_path,
    plain_key,
    shorten_text,
)

COMMAND_KEY: Final = "start_condition_cmd"
_MISSING: Final = "???"
"""What OmegaConf reads as a value that is still to come."""
_CHOSEN_EARLY: Final = (
    "a config group is chosen before the job's own config is known; "
    "{stage}, {index} and values of other jobs can stand here"
)
_LATE: Final = (frozenset(ATTRIBUTES) | {NAME}) - KNOWN_EARLY
"""What a job knows of itself only once it is named."""
_MONITORING_COMMAND: Final = f"monitoring.{COMMAND_KEY}"
"""A start condition for all jobs of a config, where other programs have it."""


@dataclass(slots=True)
class _Parts:
    values: dict[str, object] = field(default_factory=dict)
    """With other jobs' values in them; what reads the job itself is `${...}`."""
    unfinished: dict[str, tuple[object, Sequence[str]]] = field(default_factory=dict)
    """Parameters that read the job itself: as written, and what they read of it."""
    mounted: dict[str, object] = field(default_factory=dict)
    """Reference to another job -> its value."""
    runtimes: list[Runtime] = field(default_factory=list)
    """The metadata that the values hold."""
    is_usable: bool = True
    """No job that the values read has faults of its own."""
    problems: list[Problem] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """Parameter -> override."""

    def mount(self, text: str, value: object) -> str:
        """Keep a value of another job; the `${...}` that reads it."""
        self.mounted.setdefault(text, value)
        return f"${{{MOUNT}.r{list(self.mounted).index(text)}}}"


class JobBuilder:
    """Makes the jobs of one plan, one at a time."""

    def __init__(
        self,
        world: World,
        composer: Composer,
        parser: SpecParser,
        session: Monitoring,
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
    def _names_in_filters(self) -> Collection[str]:
        points = self._world.families.points
        return list_names(point.parameters for point in points)

    def build(self, at: int) -> tuple[Draft, ConfigView]:
        """The job composed and named; Refused, UnusableJob, DroppedJob or Needs."""
        point, parts = self._world.families.points[at], _Parts()
        label = label_point(point)
        marks = self._find_undecided(at)
        values = Values(self._world, at)
        before = Substitution(values, parts.mount, self._base_is_a_key, parts.runtimes)
        self._substitute(point, parts, before)
        mounted = {
            f"++{MOUNT}.r{n}": escape_dollars(v)
            for n, v in enumerate(parts.mounted.values())
        }
        made = self._writer.write(mounted | parts.values)
        parts.problems += (replace(error, job=label) for error in made.errors)
        keys = dict(self._writer.flatten(point.parameters))
        warnings = (*list_ineffective(keys), *made.warnings)
        self._world.warnings += (replace(warning, job=label) for warning in warnings)
        if parts.problems:
            raise Refused(tuple(parts.problems))
        if not parts.is_usable:
            raise UnusableJob
        parts.texts = dict(made.texts)
        late = self._take_late(parts) if parts.runtimes else []
        draft, view = self._compose(at, parts)
        draft.reads = values.read
        self._settle(draft, view, parts, before)
        draft.overrides = tuple(parts.texts.values())
        if parts.runtimes:
            texts = (text for text in (*late, *draft.overrides) if "{runtime." in text)
            draft.runtime_overrides = tuple(dict.fromkeys(map(strip_quotes, texts)))
        self._filter(draft, view, marks)
        return draft, view

    def recompose(self, draft: Draft) -> ConfigView:
        """The job's config, composed once more."""
        view = self._composer.compose(draft.composed, draft.mounts)
        for path, value in draft.puts.items():
            view.put(path, value)
        return view

    def _substitute(
        self, point: SweepPoint, parts: _Parts, before: Substitution
    ) -> None:
        """Put other jobs' values into the parameters; `aux` as dotted keys."""
        label = label_point(point)
        covered = {"index"} if self._base.has("family") else {"index", "family"}
        for key in point.parameters:
            if plain_key(key) in covered:  # a mount would hide it
                hint = "give the parameter another name"
                message = "is what the plan gives each job, and no parameter"
                parts.problems.append(Problem(message, key, label, hint))
        for key, value in self._writer.flatten(_list_parameters(point)):
            late = plain_key(key) == NAME or find_section(key) == "monitoring"
            try:
                # Braces in rules are read when a rule fires.
                before.own.clear()
                found = value if late else before.value(value)
                if self._writer.selects(key) and (
                    before.own or "{runtime." in repr(found)
                ):
                    raise NotAReference(_CHOSEN_EARLY)
                parts.values[key] = found
                if before.own:
                    parts.unfinished[key] = value, tuple(before.own)
            except FAULTS as error:
                parts.problems += list_problems(error, key, label)
            except UnusableJob:
                parts.is_usable = False
            except Needs as needs:
                needs.key = key
                raise

    def _take_late(self, parts: _Parts) -> Sequence[str]:
        """Take out numbers that only metadata will tell: the config's own stand in."""
        late = []
        for key, text in list(parts.texts.items()):
            plain = plain_key(key)
            is_late = "{runtime." in text and self._base.has(plain)
            if is_late and is_number(self._base.raw(plain)):
                parts.unfinished.pop(key, None)
                late.append(parts.texts.pop(key))
        return late

    def _settle(
        self, draft: Draft, view: ConfigView, parts: _Parts, after: Substitution
    ) -> None:
        """Finish the parameters that read the job itself, the name in the middle.

        Each comes after those that it reads; what reads the name, after the name.
        """
        waiting, problems = dict(parts.unfinished), list[Problem]()

        def list_behind(accessor: str) -> list[str]:
            return [
                key
                for key in waiting
                if f"{(plain := plain_key(key))}.".startswith(f"{accessor}.")
                or plain.endswith(f".{accessor}")
                or accessor.startswith(f"{plain}.")
            ]

        def is_late(key: str, seen: Collection[str] = ()) -> bool:
            return key not in seen and any(
                accessor in _LATE
                or any(is_late(one, {*seen, key}) for one in list_behind(accessor))
                for accessor in waiting[key][1]
            )

        def finish(keys: Iterable[str]) -> None:
            for key in keys:
                if key not in waiting:  # another one that reads it has had it done
                    continue
                written, _ = waiting.pop(key)
                path, head = plain_key(key), parts.texts[key].partition("=")[0]
                try:
                    found = after.value(written)
                    draft.put(view, path, view.interpolate(found, path))
                    parts.texts[key] = format_override(head, found)
                except FAULTS as error:
                    problems.extend(list_problems(error, key, draft.identity.name))

        def finish_all(keys: Iterable[str]) -> None:
            after.values.own = draft.identity, view
            finish(keys)
            if problems:
                raise Refused(tuple(problems))

        after.values.prepare = lambda accessor: finish(list_behind(accessor))
        finish_all([key for key in waiting if not is_late(key)])
        self._name(draft, view)
        finish_all(parts.unfinished)
        for key in parts.texts:
            if plain_key(key) == NAME:
                head = parts.texts[key].partition("=")[0]
                value = escape_dollars(draft.identity.name)
                parts.texts[key] = format_override(head, value)

    def _compose(self, at: int, parts: _Parts) -> tuple[Draft, ConfigView]:
        point = self._world.families.points[at]
        label, family = label_point(point), self._world.families.family(point.index)
        mounts = build_mounts(point.stage, point.index, family, self._base)
        texts = tuple(parts.texts.values())
        nobody = Identity(
            name=label, stage=point.stage, index=point.index, family=family
        )
        runtimes = tuple(dict.fromkeys(parts.runtimes))
        draft = Draft(at, point, nobody, texts, mounts, runtimes=runtimes)
        try:
            return draft, self._composer.compose(texts, mounts)
        except FAULTS as error:
            raise Refused(list_problems(error, "", label)) from None

    def _name(self, draft: Draft, view: ConfigView) -> None:
        label = draft.identity.name
        try:
            raw = view.raw(NAME) if view.has(NAME) else None
            if raw is None or isinstance(raw, Mapping | list):
                shown = f"is {shorten_text(repr(raw))}, not a text"
                message = "is not set" if raw is None else shown
                hint = 'project: {name: "lr{lr}_{stage}"}'
                raise CannotCompose((Problem(message, NAME, hint=hint),))
            after = self._read_after(draft, view, "n", draft.reads)
            name = (
                after.format_name(raw) if isinstance(raw, str) else format_in_name(raw)
            )
            places = [
                view.select(key) if view.has(key) else None for key in DIRECTORIES
            ]
        except FAULTS as error:
            raise Refused(list_problems(error, NAME, label)) from None
        except Needs as needs:
            needs.key = NAME
            raise
        if fault := find_fault_of_name(name):
            message = f"{shorten_text(repr(name))}: {fault}"
            raise Refused((Problem(message, NAME, label),))
        draft.put(view, NAME, name)
        base, logs, scripts = ("" if one is None else str(one) for one in places)
        base = base or "outputs"
        logs, scripts = (
            logs or join_path(base, "logs"),
            scripts or join_path(base, "scripts"),
        )
        draft.identity = replace(
            draft.identity,
            name=name,
            output_dir=join_path(base, name),
            log_dir=join_path(logs, name),
            script_path=join_path(scripts, f"{name}.sbatch"),
        )

    def _read_after(
        self, draft: Draft, view: ConfigView, mount_prefix: str, read: set[int]
    ) -> Substitution:
        """`read` is told which jobs are asked."""
        values = Values(self._world, draft.at, (draft.identity, view), read)
        held = itertools.count()

        def mount(_: str, value: object) -> str:
            path = f"{MOUNT}.{mount_prefix}{next(held)}"
            draft.put(view, path, value)
            return f"${{{path}}}"

        return Substitution(values, mount, self._base_is_a_key, view=view)

    def _find_undecided(self, at: int) -> Sequence[DeferredFilter]:
        """The filters that need what other jobs, or the job's name, put into it.

        The others are decided without those (DroppedJob: one says no), so that a family
        can be dropped whose jobs refer to each other.
        """
        point = self._world.families.points[at]
        if not point.deferred or not is_reading_others(_list_parameters(point)):
            return point.deferred
        try:
            view = self._compose_alone(at, point)
        except FAULTS:
            return point.deferred
        undecided = []
        for mark in point.deferred:
            try:
                is_kept = self._holds(mark, point, view)
            except (ExpressionError, *FAULTS):
                undecided.append(mark)
                continue
            if not is_kept:
                raise DroppedJob(mark)
        return undecided

    def _compose_alone(self, at: int, point: SweepPoint) -> ConfigView:
        """The config without what is not known yet: that is missing in it."""
        before = Substitution(
            Values(self._world, at), _refuse_mount, self._base_is_a_key
        )
        known = {
            key: _MISSING if is_reading_others(value) else before.value(value)
            for key, value in self._writer.flatten(_list_parameters(point))
            if plain_key(key) != NAME
        }
        texts = self._writer.write({**known, f"++{NAME}": _MISSING}).texts
        family = self._world.families.family(point.index)
        mounts = build_mounts(point.stage, point.index, family, self._base)
        return self._composer.compose(tuple(texts.values()), mounts)

    def _holds(self, mark: DeferredFilter, point: SweepPoint, view: ConfigView) -> bool:
        return is_kept_by(
            mark.text, point.parameters, self._names_in_filters, view.interpolate
        )

    def _filter(
        self, draft: Draft, view: ConfigView, marks: Sequence[DeferredFilter]
    ) -> None:
        """Raise DroppedJob where a filter says no; one in doubt keeps the job."""
        for mark in marks:
            try:
                if not self._holds(mark, draft.point, view):
                    raise DroppedJob(mark, draft.faults)
            except (ExpressionError, *FAULTS) as error:
                text, name = (
                    shorten_text(mark.text, MOST_OF_A_FILTER),
                    draft.identity.name,
                )
                draft.faults += (
                    Problem(f"`{text}`: {one.message}", mark.where, name, one.hint)
                    for one in list_problems(error, mark.where)
                )

    def finish(self, draft: Draft, view: ConfigView) -> None:
        """Resolve all, and make the command; raises Refused, UnusableJob or Needs."""
        reader = self._add_conditions(draft, view)
        problems = [replace(one, job=draft.identity.name) for one in reader.problems]
        try:
            self._finisher.finish(draft, view)
        except Refused as refused:
            raise Refused((*refused.problems, *problems)) from None
        if problems:
            raise Refused(tuple(problems))
        if reader.unusable is not None:
            raise reader.unusable

    def _add_conditions(self, draft: Draft, view: ConfigView) -> ConditionReader:
        """Read the conditions; the reader tells what is wrong with them."""
        parameters = draft.point.parameters
        waits: set[int] = set()
        reads: set[int] = set()
        reader = ConditionReader(
            self._parser, self._read_after(draft, view, "s", waits)
        )
        draft.start = reader.read_list(parameters, "start_conditions")
        commands = {COMMAND_KEY: find_parameter(parameters, COMMAND_KEY)}
        if commands[COMMAND_KEY] is not None:
            draft.start += reader.read_command(commands[COMMAND_KEY], COMMAND_KEY)
        asked = {(c.job, c.key) for c in draft.start if isinstance(c, MetadataIs)}
        draft.start += tuple(
            MetadataIs(job=one.job, key=one.key, op="known")
            for one in draft.runtimes
            if (one.job, one.key) not in asked
        )
        if view.has(_MONITORING_COMMAND) and (command := view.raw(_MONITORING_COMMAND)):
            commands[_MONITORING_COMMAND] = command
            draft.start += reader.read_command(command, _MONITORING_COMMAND)
        hint = "write it as a CommandCondition in start_conditions"
        self._world.warnings += (
            Problem("is deprecated", where, draft.identity.name, hint)
            for where, command in commands.items()
            if command is not None
        )
        reader.after = self._read_after(draft, view, "c", reads)
        draft.cancel = reader.read_list(parameters, "cancel_conditions")
        draft.waits |= waits
        draft.reads |= reads
        return reader


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
        elif not is_early_key(key) and not {plain_key(key), key} & NOT_OVERRIDES:
            others[key] = value
    return aux | others


_BASE_KEY: Final = re.compile(r"(?:base|parent)\.(?P<key>.+)")


class ConditionReader:
    """Reads the conditions of one job; findings go to `problems`."""

    def __init__(self, parser: SpecParser, after: Substitution) -> None:
        self.after = after
        self._parser = parser
        self.problems: list[Problem] = []
        self.unusable: UnusableJob | None = None
        """A job that they name has faults of its own, which are told there."""

    def _note(self, message: str, where: str, hint: str) -> tuple[Condition, ...]:
        self.problems.append(Problem(message, where, hint=hint))
        return ()

    def read_list(
        self, parameters: Mapping[str, object], where: str
    ) -> tuple[Condition, ...]:
        """The conditions of one list; those with findings are left out."""
        raw = find_parameter(parameters, where) or ()
        if isinstance(raw, list | tuple):
            each = (self._read(item, f"{where}.{at}") for at, item in enumerate(raw))
            return tuple(condition for found in each for condition in found)
        if isinstance(raw, Mapping):
            hint = "write `- ` before its class_name: conditions are a list"
            return self._note("is a mapping, not a list", where, hint)
        hint = "conditions are a list: `- class_name: FileExistsCondition`"
        return self._note(f"is {shorten_text(repr(raw))}, not a list", where, hint)

    def read_command(self, raw: object, where: str) -> tuple[Condition, ...]:
        """The condition that a `start_condition_cmd` stands for."""
        try:
            words = shlex.split(raw) if isinstance(raw, str) else raw
        except ValueError as error:
            hint = "close the quote, or write the command as a list"
            return self._note(f"{shorten_text(repr(raw))}: {error}", where, hint)
        return self._read({"class_name": "CommandCondition", "command": words}, where)

    def _read(self, raw: object, where: str) -> tuple[Condition, ...]:
        if not isinstance(raw, Mapping):
            hint = "class_name: FileExistsCondition, and its fields"
            shown = "null" if raw is None else shorten_text(repr(raw))
            return self._note(f"is {shown}, not a mapping", where, hint)
        try:
            return (self._parser.condition(self._resolve(raw), where),)
        except FAULTS as error:
            self.problems += list_problems(error, where)
        except UnusableJob as unusable:
            self.unusable = unusable
        return ()

    def _resolve(self, raw: Mapping[str, object]) -> dict[str, object]:
        fields = dict(raw)
        name = str(raw.get("class_name", "")).removesuffix("Condition")
        if name == "Metadata" and isinstance(key := raw.get("key"), str):
            if (runtime := self.after.find_runtime(key)) is not None:
                fields |= {"job": runtime.job, "key": runtime.key}
            elif base := _BASE_KEY.fullmatch(key):
                fields |= {"job": self.after.values.base_name(), "key": base["key"]}
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
