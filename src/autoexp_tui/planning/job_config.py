"""The composed config of a job: resolved as a whole, and what runs made of it.

Rules over logs and ends, metrics, progress and anomalies are each job's own; what one
engine, one executor and one screen have is taken from the config without any point, and
a point that changes it is told that it has no effect.

The fingerprint tells whether a job would do the same work as one that is done. It
covers the resolved config and the command, without the paths that are ours and what
only concerns watching or where it runs; of `slurm` the launcher counts, which may be a
container.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, TypeAlias

from autoexp_tui.model.errors import Findings, Problem
from autoexp_tui.model.ids import digest
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import JobSpec, Resources
from autoexp_tui.planning.overrides import escape_dollars, format_override, is_number
from autoexp_tui.planning.ports import (
    CannotCompose,
    ConfigView,
    SpecParser,
    SpecRefused,
)
from autoexp_tui.planning.references import Identity, NotAReference, Runtime
from autoexp_tui.sweep.families import SiblingNotFound
from autoexp_tui.sweep.points import SweepPoint, plain_key
from autoexp_tui.text.plain_tree import ABSENT, at

_WATCHING: Final = (
    *("monitoring", "ui", "agents", "tree", "research"),
    *("index", "family", "_refs", "sweep"),
)
_NOT_OF_PROJECT: Final = ("base_output_dir", "share", "mask")


def hash_job(
    config: Mapping[str, object], command: Sequence[str], paths: Sequence[str]
) -> str:
    """Hex sha256 of a resolved config and command; `paths` of ours do not count."""
    kept = {key: value for key, value in config.items() if key not in _WATCHING}
    project = kept.get("project")
    if isinstance(project, Mapping):
        kept["project"] = {k: v for k, v in project.items() if k not in _NOT_OF_PROJECT}
    slurm = kept.pop("slurm", None)
    if isinstance(slurm, Mapping) and (launcher := slurm.get("launcher_cmd")):
        kept["slurm"] = {"launcher_cmd": launcher}
    work = {"command": list(command), "config": kept}
    text = _encode(_replace_texts(work, _find_cleaner(tuple(paths))))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def format_canonical(value: object) -> str:
    return _encode(_replace_texts(value, str))


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode


def _replace_texts(value: object, clean: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {str(key): _replace_texts(item, clean) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_texts(item, clean) for item in value]
    return value


@lru_cache(maxsize=64)
def _find_cleaner(paths: tuple[str, ...]) -> Callable[[str], str]:
    ours = sorted({path for path in paths if path}, key=len, reverse=True)
    if not ours:
        return str
    either = "|".join(map(re.escape, ours))
    pattern = re.compile(rf"(?<![\w.\-/])(?:{either})(?![\w.\-])")
    mark = "/" if all("/" in path for path in ours) else ""  # most texts have none
    return lambda text: pattern.sub("\0", text) if mark in text else text


FAULTS: Final = (
    CannotCompose,
    NotAReference,
    SiblingNotFound,
    SpecRefused,
)
"""What may be wrong with a value of the config."""
NAME: Final = "project.name"
DIRECTORIES: Final = (
    "project.base_output_dir",
    "slurm.log_dir",
    "slurm.script_dir",
)
OUR_PLACES: Final = (*DIRECTORIES, "monitoring.state_dir")


class Refused(Findings):
    """A job that cannot be made."""


class Needs(Exception):
    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at
        self.key = ""
        """What reads it; empty until that is told."""


@dataclass(slots=True, eq=False)
class Draft:
    at: int
    point: SweepPoint
    identity: Identity
    mounts: Mapping[str, object]
    texts: dict[str, str] = field(default_factory=dict)
    """Parameter -> override, as a person would write it."""
    unfinished: dict[str, object] = field(default_factory=dict)
    """Parameters that read the job itself, as written."""
    composed: tuple[str, ...] = ()
    runtimes: Sequence[Runtime] = ()
    """The metadata of other jobs that its parameters hold."""
    runtime_overrides: tuple[str, ...] = ()
    """The overrides with metadata in them, to compose it with when it starts."""
    puts: dict[str, object] = field(default_factory=dict)
    """What was written into the config after composing, to do it again."""
    reads: set[int] = field(default_factory=set)
    waits: set[int] = field(default_factory=set)
    """Jobs that start conditions name."""
    job: JobSpec | None = None
    """All but who comes before it, once it is finished."""
    problems: list[Problem] = field(default_factory=list)

    def put(self, view: ConfigView, path: str, value: object) -> None:
        """Write a literal into the config, now and whenever it is composed again."""
        self.puts[path] = escape_dollars(value)
        view.put(path, self.puts[path])

    def set_text(self, key: str, value: object) -> None:
        self.texts[key] = format_override(self.texts[key].partition("=")[0], value)


def list_problems(error: Exception, where: str) -> tuple[Problem, ...]:
    if isinstance(error, CannotCompose | SpecRefused):
        return tuple(
            Problem(p.message, p.where or where, p.job, p.hint) for p in error.problems
        )
    message = error.message if isinstance(error, SiblingNotFound) else str(error)
    return (Problem(message, where, hint=getattr(error, "hint", "")),)


def select_or_none(base: ConfigView, key: str) -> object:
    try:
        return base.select(key)
    except (KeyError, CannotCompose):
        return None


def build_mounts(
    stage: str, index: int, family: str, base: ConfigView
) -> dict[str, object]:
    """What is mounted at the root of a job's config."""
    mounts: dict[str, object] = {"index": index}
    if stage or not base.has("stage"):
        mounts["stage"] = escape_dollars(stage)
    if not base.has("family"):
        mounts["family"] = family
    return mounts


def list_own_paths(config: Mapping[str, object]) -> Sequence[str]:
    """The directories of a resolved config that do not count for the fingerprint."""
    found = (at(config, tuple(path.split("."))) for path in OUR_PLACES)
    return [str(one) for one in found if one is not None and one is not ABSENT]


def find_parameter(parameters: Mapping[str, object], name: str) -> object:
    """The value of a parameter, however its key is written; None when not there."""
    return {plain_key(key): v for key, v in parameters.items()}.get(name)


CLOSED: Final = ("slurm", "monitoring", "ui", "agents", "tree", "research")
"""The sections that are checked, and that hold what is the session's."""
_OF_THE_SESSION: Final = (
    *("monitoring.state_dir.", "monitoring.poll_seconds.", "monitoring.storm."),
    "monitoring.lock_stale_seconds.",
    *("slurm.client.", "slurm.max_parallel.", "slurm.template_path."),
    *("slurm.launcher_cmd.", "slurm.srun_opts.", "slurm.confirm.", "ui."),
    *("agents.", "tree.", "research."),
)
"""What one engine, one executor and one screen have, with a dot behind."""
EARLY: Final = {
    "hydra": "Hydra reads it before any job is composed",
    "defaults": "Hydra reads it before any job is composed",
    "sweep": "the sweep is read before any job is composed",
}
"""Keys at the top that no composition of a job sees, and why."""

Record = Callable[[int, ConfigView, Mapping[str, object]], None]
"""Told of each job: its index, its config as composed, the same resolved."""


@lru_cache(maxsize=4096)
def find_section(key: str) -> str:
    return plain_key(key).partition(".")[0]


def list_ineffective(keys: Iterable[str]) -> Iterator[Problem]:
    """Warnings for parameters that set what is settled before, or the session's."""
    for key in keys:
        plain, why = plain_key(key), EARLY.get(find_section(key), "")
        if not why and f"{plain}.".startswith(_OF_THE_SESSION):
            why = "it is one for the whole session"
        if why:
            hint = f"set `{plain}` in the config, outside the sweep"
            yield Problem(f"has no effect in a sweep: {why}", key, hint=hint)


def read_last_step(view: ConfigView, path: str) -> int | None:
    """The whole number at a config path; None when there is none."""
    value = view.select(path) if path and view.has(path) else None
    return int(value) if is_number(value) and value % 1 == 0 else None


_Settled: TypeAlias = tuple[Mapping[str, object], str, Resources]
"""The closed sections, the name of the rules that they make, what the job asks for."""


@dataclass(slots=True)
class JobFinisher:
    """Finishes jobs of one plan; what their configs share is checked once."""

    parser: SpecParser
    session: Monitoring
    warnings: list[Problem]
    rule_sets: dict[str, Monitoring] = field(default_factory=dict)
    """The sets of rules that jobs have of their own, each kept once."""
    _checked: deque[_Settled] = field(default_factory=lambda: deque(maxlen=16))

    def finish(
        self, job: JobSpec, view: ConfigView, config: Mapping[str, object]
    ) -> JobSpec:
        """The job with what its resolved config says of it; SpecRefused: all faults."""
        problems: list[Problem] = []
        try:
            _, rules, resources = self._settle(config)
        except FAULTS as error:
            problems += list_problems(error, "")
        try:
            launch = self.parser.launch(config)
        except FAULTS as error:
            problems += list_problems(error, "")
        if problems:
            raise SpecRefused(tuple(problems))
        self.warnings += (replace(one, job=job.name) for one in launch.warnings)
        total = self.rule_sets.get(rules, self.session).progress.total
        return replace(
            job,
            command=launch.command,
            env=launch.env,
            cwd=launch.cwd,
            resources=resources,
            rules=rules,
            progress_total=read_last_step(view, total),
            fingerprint=hash_job(config, launch.command, list_own_paths(config)),
        )

    def _settle(self, config: Mapping[str, object]) -> _Settled:
        """The closed sections, checked once for each content that they have."""
        closed = {key: config.get(key) for key in CLOSED}
        for settled in self._checked:
            if settled[0] == closed:
                return settled
        if problems := self.parser.check(config):
            raise SpecRefused(tuple(problems))
        rules = replace(
            self.parser.monitoring(config),  # but what is the session's
            poll_seconds=self.session.poll_seconds,
            storm=self.session.storm,
            lock_stale_seconds=self.session.lock_stale_seconds,
        )
        name = "" if rules == self.session else digest(repr(rules))
        if name:
            self.rule_sets.setdefault(name, rules)
        self._checked.append((closed, name, self.parser.resources(config)))
        return self._checked[-1]


def resolve_where_possible(view: ConfigView) -> dict[str, object]:
    """The config with all values that can be had, the others as they are written."""

    def resolve(path: str, written: object) -> object:
        with suppress(CannotCompose, KeyError):  # no path leads to a key with a dot
            return view.select(path)
        if isinstance(written, Mapping):
            return {key: resolve(f"{path}.{key}", one) for key, one in written.items()}
        return written

    return {key: resolve(key, written) for key, written in view.written_dict().items()}


def check_without_jobs(
    base: ConfigView, parser: SpecParser, sweep: Mapping[str, object] | None
) -> Sequence[Problem]:
    """The findings about a config that resolves which no key of its sweep may mend."""
    try:
        found = parser.check(base.to_dict())
    except FAULTS:
        return ()
    keys = {f"{key}." for key in _list_keys(sweep)}
    return [
        problem
        for problem in found
        if not any(
            f"{problem.where}.".startswith(key) or key.startswith(f"{problem.where}.")
            for key in keys
        )
    ]


def _list_keys(value: object) -> Iterator[str]:
    """Every key below a value, as it would stand in the config."""
    if isinstance(value, Mapping):
        yield from (plain_key(str(key)).replace("/", ".") for key in value)
        value = list(value.values())
    for item in value if isinstance(value, list | tuple) else ():
        yield from _list_keys(item)
