"""Run-time references: what is known only while jobs run, put into resolved specs.

Planning resolves everything but `{runtime.JOB.KEY}`, the metadata of a job. In action
fields, and in conditions of actions, a bare `{name}` is also bound: the job's own
fields first, then its own metadata. Values come from logs and are literals: they are
never read as references or as a glob. Where a shell or Hydra would read one as more
than plain text, it counts as missing.

Not bound: `pattern` fields, and names that choose a meaning (kind, mode, op, state).
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Final, NamedTuple, TypeAlias, TypeVar

from autoexp_tui.core.action_kinds import NewJob, RunCommand
from autoexp_tui.core.condition_kinds import (
    CommandPasses,
    FileExists,
    LogPattern,
    MetadataIs,
)
from autoexp_tui.core.specs import JobSpec
from autoexp_tui.core.wording import spell_float

S = TypeVar("S")

Lookup: TypeAlias = Callable[[str, str], str | None]
"""(job, key) -> the job's metadata, None when there is none yet."""

_RUNTIME: Final = re.compile(r"\{runtime\.([^{}\s]+)\.([^{}.\s][^{}\s]*)\}")
_BARE: Final = re.compile(
    r"(?P<open>\{\{)|(?P<close>\}\})|\{runtime\.(?P<path>[^{}\s]+)\}"
    r"|\{(?P<bare>[A-Za-z_][\w.\-/]*)\}"
)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_@%+./:-]*")
"""What neither a shell nor Hydra's override grammar reads as more than text."""
_FIXED: Final = frozenset(
    {"kind", "pattern", "mode", "check_mode", "op", "state", "cause", "level"}
    | {"class_path"}
    | {"description", "on_timeout"}
)
_QUOTABLE: Final = re.compile(r"""[^'"\\${}\x00-\x1f\x7f]*""")
"""What Hydra reads as text, and as nothing more, between quotes."""
_STRUCTURE: Final = re.compile(r"""['"\\$\[\](){},]""")
"""What makes an override's value more than one unquoted text."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish"})
_SCRIPT_FLAGS: Final = frozenset({"-c", "-e", "--command", "--eval"})


class MissingKey(NamedTuple):
    """A metadata value that a spec needs and no log has shown yet."""

    job: str
    key: str


def bind(
    spec: S,
    lookup: Lookup,
    jobs: Container[str],
    own: Mapping[str, str] | None = None,
) -> tuple[S | None, tuple[MissingKey, ...]]:
    """A condition or an action with its references replaced by their values.

    Args:
        spec: a condition or an action; returned as it is when it has no reference.
        lookup: metadata of any job.
        jobs: the known jobs: in `{runtime.a.b.c}` the longest known name wins.
        own: fields of the job that the spec is for (`own_fields`); given for actions,
            where bare names are bound too and `{{`, `}}` are literal braces.

    Returns:
        (bound, ()) or (None, what is missing).
    """
    if not _may_refer(spec):
        return spec, ()
    binder = _Binder(lookup, jobs, own)
    bound = binder.spec(spec)
    return (None if binder.missing else bound), tuple(binder.missing)


def _may_refer(spec: object) -> bool:
    """Whether anything in a spec may be a reference; most specs have none, and each is
    bound again at every look."""
    try:
        return _has_brace(spec)
    except TypeError:  # it holds something that cannot be hashed
        return True


@lru_cache(maxsize=4096)
def _has_brace(value: object) -> bool:
    if isinstance(value, str):
        return "{" in value
    if isinstance(value, Mapping):
        return any(map(_has_brace, value.values()))
    if isinstance(value, tuple | list):
        return any(map(_has_brace, value))
    if not is_dataclass(value) or isinstance(value, type):
        return False
    names = (one.name for one in fields(value) if one.name not in _FIXED)
    return any(_has_brace(getattr(value, name)) for name in names)


def bind_text(
    template: str, own: Mapping[str, str], lookup: Lookup, jobs: Container[str]
) -> str:
    """Text for people with its references replaced; unknown ones stay as written."""
    binder = _Binder(lookup, jobs, own)
    return binder.text(template)


def own_fields(spec: JobSpec, attempt: int) -> dict[str, str]:
    """What a bare name in an action may mean, metadata apart.

    The job's name (also as project.name), stage, index, family, output_dir, log_dir,
    log_path_current, attempt (the present one's number) and its parameters as written.
    """
    parameters = {key.lstrip("+"): _spelled(v) for key, v in spec.parameters.items()}
    return parameters | {
        "name": spec.name,
        "project.name": spec.name,
        "stage": spec.stage,
        "index": str(spec.index),
        "family": spec.family,
        "output_dir": spec.output_dir,
        "log_dir": spec.log_dir,
        "log_path_current": spec.log_path_current,
        "attempt": str(attempt),
    }


def _spelled(value: object) -> str:
    return spell_float(value) if isinstance(value, float) else str(value)


def split_reference(path: str, jobs: Container[str]) -> MissingKey:
    """`JOB.KEY`, where both may hold dots: the longest known job wins.

    When no part is a known job, everything before the last dot counts as the job.
    """
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        job = ".".join(parts[:cut])
        if job in jobs:
            return MissingKey(job, ".".join(parts[cut:]))
    job, _, key = path.rpartition(".")
    return MissingKey(job, key)


# ------------------------------------------------------------------------- binder
class _Binder:
    """One pass over one spec; collects what is missing."""

    def __init__(
        self, lookup: Lookup, jobs: Container[str], own: Mapping[str, str] | None
    ) -> None:
        self._lookup = lookup
        self._jobs = jobs
        self._own = own
        self.missing: list[MissingKey] = []

    def spec(self, spec: S) -> S:
        """The spec with every text field bound, nested specs included."""
        if not is_dataclass(spec) or isinstance(spec, type):
            return spec
        changes = {}
        for item in fields(spec):
            old = getattr(spec, item.name)
            new = old if item.name in _FIXED else self._value(old, spec, item.name)
            if new is not old:
                changes[item.name] = new
        return replace(spec, **changes) if changes else spec

    def _value(self, value: object, spec: object, name: str) -> object:
        if isinstance(value, str):
            if "{" not in value:
                return value
            if name == "overrides":
                return self.override(value)
            return self.text(value, _literal(spec, name))
        if isinstance(value, Mapping):
            bound = {key: self._value(part, spec, name) for key, part in value.items()}
            return value if all(bound[key] is value[key] for key in value) else bound
        if isinstance(value, tuple | list):
            new = [self._value(part, spec, name) for part in value]
            same = all(one is two for one, two in zip(new, value, strict=True))
            return value if same else type(value)(new)
        return self.spec(value)

    def text(self, text: str, literal: Callable[[str], str | None] = str) -> str:
        """`text` with its references replaced, each value through `literal`."""
        pattern = _RUNTIME if self._own is None else _BARE
        return pattern.sub(lambda match: self._replacement(match, literal), text)

    def override(self, text: str) -> str:
        """A Hydra override with its references replaced by values that are only text.

        A value that the grammar would read as more is put between quotes, as long as
        the override is written so that it can be; otherwise it counts as missing.
        """
        head, separator, body = text.partition("=")
        if not separator:
            return self.text(text, _plain_only)
        key = self.text(head, _plain_only)
        marks = _STRUCTURE.findall(_BARE.sub("", body))
        if marks and not _is_quoted(body, marks):
            return f"{key}={self.text(body, _plain_only)}"
        odd: list[str] = []

        def quotable(value: str) -> str | None:
            odd.extend([value] if _plain_only(value) is None else [])
            return value if _QUOTABLE.fullmatch(value) else None

        bound = self.text(body, quotable)
        return f"{key}={bound}" if marks or not odd else f"{key}='{bound}'"

    def _replacement(
        self, match: re.Match[str], literal: Callable[[str], str | None]
    ) -> str:
        if self._own is not None and (match["open"] or match["close"]):
            return match[0][0]
        found = self._find(match)
        usable = None if found.value is None else literal(found.value)
        if usable is None:
            self.missing.append(found.source)
            return match[0]
        return usable

    def _find(self, match: re.Match[str]) -> _Found:
        if self._own is None:
            return self._metadata(split_reference(match[0][9:-1], self._jobs))
        if match["path"]:
            return self._metadata(split_reference(match["path"], self._jobs))
        bare = match["bare"]
        source = MissingKey(self._own.get("name", ""), bare)
        if bare in self._own:
            return _Found(source, self._own[bare])
        return self._metadata(source)

    def _metadata(self, source: MissingKey) -> _Found:
        return _Found(source, self._lookup(source.job, source.key))


class _Found(NamedTuple):
    """Where a value was looked for, and the value."""

    source: MissingKey
    value: str | None


# ------------------------------------------------------------------------ literals
def _literal(spec: object, name: str) -> Callable[[str], str | None]:
    """How a value is made safe for a field; None back means it cannot be."""
    match spec:
        case FileExists(glob=True) if name == "path":
            return glob.escape
        case LogPattern(glob=True) if name == "log_path":
            return glob.escape
        case CommandPasses(command=command) if _runs_text(command):
            return _plain_only
        case RunCommand(command=command) | NewJob(command=command):
            runs = name == "command" and _runs_text(command)
            return _plain_only if runs else _without_nul
        case MetadataIs():
            return str
        case _:
            return _without_nul


def _runs_text(command: tuple[str, ...]) -> bool:
    """Whether the user wrote a script as an argument: it would run what a log says."""
    shells = any(PurePosixPath(word).name in _SHELLS for word in command[:3])
    return shells or not _SCRIPT_FLAGS.isdisjoint(command)


def _is_quoted(body: str, marks: list[str]) -> bool:
    """Whether an override's value is one text between quotes."""
    return len(marks) == 2 and body[:1] == body[-1:] == marks[0] and marks[0] in "'\""


def _plain_only(value: str) -> str | None:
    return value if _PLAIN.fullmatch(value) else None


def _without_nul(value: str) -> str | None:
    return None if "\0" in value else value
