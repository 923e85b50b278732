"""Run-time references, put into resolved specs: `{runtime.JOB.KEY}`, metadata of a job;
in actions and their conditions also a bare `{name}`, the job's own field or metadata.
What logs say is literal, no reference and no glob, and stands in no script; it is
refused where it might be read as more than text."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from autoexp_tui.model.kinds import FieldUse, Kind
from autoexp_tui.model.specs import JobSpec
from autoexp_tui.model.states import Why, why
from autoexp_tui.text.spelling import format_float

PLAIN: Final = "letters, digits and . _ + / : @ % , = -, not beginning with -"
"""The values that a command's word may be, in words."""
_PLAIN: Final = re.compile(r"(?!-)[A-Za-z0-9._+/:@%,=-]+")
_LONG_OPTION: Final = re.compile(r"(--[A-Za-z0-9][\w.-]*)=")
_SCRIPT_OPTION: Final = re.compile(
    r"-[A-Za-z0-9]*[ce]|--(?:command|eval|exec|execute|expression)|-execdir|-ok(?:dir)?"
)
"""Behind these stands a text, or a program, that is run."""
_RUNNERS: Final = {
    **dict.fromkeys(
        """
        busybox chrt command doas env exec ionice ltrace mpiexec mpirun nice nohup
        nsenter numactl parallel prlimit salloc sbatch script setsid srun stdbuf strace
        sudo systemd-run time timeout unbuffer unshare uvx valgrind watch xargs
        xvfb-run
        """.split(),  # noqa: SIM905 - as a list it takes a page
        0,
    ),
    **dict.fromkeys(("ssh", "rsh", "mosh", "chroot", "flock", "taskset"), 1),
    **dict.fromkeys(("conda", "mamba", "pixi", "poetry", "uv", "pipx"), 1),
    **dict.fromkeys(("docker", "podman", "apptainer", "singularity"), 2),
}
"""Programs that run another, and how many words (`run IMAGE`) stand before it."""
_INTERPRETERS: Final = re.compile(
    r"(?:ba|da|z|k|c|tc|fi)?sh|source|\.|python[\d.]*|perl|ruby|node|Rscript|julia"
    r"|torchrun|accelerate|deepspeed"
)
"""Programs whose first word is a script."""
_JOINING: Final = frozenset({"ssh", "rsh", "mosh", "watch", "parallel"})
"""Programs that join their words to a text for a shell."""
_NO_PROGRAM: Final = re.compile(
    r"-.*|\d+(?:\.\d+)?[smhd]?|[A-Z][A-Z0-9_]*|[A-Za-z_]\w*=.*"
)
"""What may stand between such a program and the one it runs."""

USE_ARGUMENT: Final = (
    "make it a word of its own; to a script give it as an argument, which no shell "
    """reads as more than text: [bash, -c, 'ls "$1"', "--", "{key}"]"""
)
"""How to write it where no value may stand."""


class Refused(Exception):
    """A value may not stand where it is asked for; the text says why."""


def is_plain(value: str) -> bool:
    """Whether no shell and no program would read a value as more than one word."""
    return _PLAIN.fullmatch(value) is not None


def explain_never(words: Sequence[str], at: int, start: int, end: int) -> str:
    """Why no value from a log may stand at `words[at][start:end]`; empty: some may."""
    word = words[at]
    if any(map(str.isspace, word)):
        return "in a word with blanks, which a shell may read"
    if at == 0:
        return "where the program is named"
    option = _LONG_OPTION.fullmatch(word[:start])
    if _SCRIPT_OPTION.fullmatch(option[1] if option else words[at - 1]):
        return f"behind {option[1] if option else words[at - 1]}, as a script"
    if end != len(word) or (start and not option):
        return "in a part of a word: it must be a whole word, or end --option="
    if not option and _is_program(words, at):
        return "where the program may be named (-- ends the options before it)"
    return ""


def check_command_value(words: Sequence[str], at: int, value: str) -> str:
    """The value, as a word of a command where some may stand; or `Refused`."""
    if not is_plain(value) and (is_joining_words(words[:at]) or "--" not in words[:at]):
        raise Refused(f"{value!r} is more than {PLAIN}")
    return check_no_nul(value)


def is_joining_words(words: Iterable[str]) -> bool:
    """Whether a program among them makes one text for a shell of those behind it."""
    return any(PurePosixPath(word).name in _JOINING for word in words)


def check_one_name(value: str) -> str:
    """The value, as one component of a path that is written to; or `Refused`."""
    if "/" in value or not value.strip("."):
        raise Refused(f"{value!r} is more than one name in a path")
    return check_no_nul(value)


def check_no_nul(value: str) -> str:
    """The value, where any text may stand; the system takes no NUL in one."""
    if "\0" in value:
        raise Refused(f"{value!r} holds a NUL")
    return value


def find_unsafe(command: Sequence[str], values: Iterable[str]) -> str:
    """The first value from a log in a command's scripts that is not plain; or empty."""
    texts = [
        word
        for at, word in enumerate(command)
        if is_joining_words(command[:at])
        or (at > 0 and _SCRIPT_OPTION.fullmatch(command[at - 1]))
    ]
    odd = (value for value in values if value and not is_plain(value))
    return next((one for one in odd if any(one in text for text in texts)), "")


def _is_program(words: Sequence[str], at: int, runner: int = 0) -> bool:
    """Whether the word may be what a program such as `env`, or `python`, runs.

    Whether an option takes the word behind it is that program's own affair: it may.
    """
    name = PurePosixPath(words[runner]).name
    if _INTERPRETERS.fullmatch(name):
        return all(word.startswith("-") for word in words[runner + 1 : at])
    left = _RUNNERS.get(name)
    if left is None:
        return False
    for here in range(runner + 1, at):
        word, before = words[here], words[here - 1]
        if _NO_PROGRAM.fullmatch(word):
            continue
        if _is_program(words, at, here):
            return True
        if not before.startswith("-") or before == "--" or "=" in before:
            left -= 1  # no option's value
        if left < 0:
            return False
    return True


S = TypeVar("S")

Lookup: TypeAlias = Callable[[str, str], str | None]
"""(job, key) -> the job's metadata, None when there is none yet."""

_RUNTIME: Final = re.compile(r"\{runtime\.(?P<path>[^{}\s]+\.[^{}.\s][^{}\s]*)\}")
_BARE: Final = re.compile(
    r"(?P<brace>\{\{|\}\})|\{runtime\.(?P<path>[^{}\s]+)\}"
    r"|\{(?P<bare>[A-Za-z_][\w.\-/]*)\}"
)
_UNQUOTED: Final = re.compile(r"[A-Za-z0-9_@%+./:-]*")
"""What neither a shell nor Hydra's override grammar reads as more than text."""
_FIXED: Final = frozenset(
    {"kind", "pattern", "mode", "check_mode", "op", "state", "cause", "level"}
    | {"class_path", "description", "on_timeout"}
)
_QUOTABLE: Final = re.compile(r"""[^'"\\${}\x00-\x1f\x7f]*""")
"""What Hydra reads as text, and as nothing more, between quotes."""
_STRUCTURE: Final = re.compile(r"""['"\\$\[\](){},]""")
"""What makes an override's value more than one unquoted text."""
_LINE: Final = "line"
"""The log line that triggered an action: beside its own fields, and from a log."""


class Lacking(NamedTuple):
    """A value of a spec that no log has shown yet, or that may not stand there."""

    job: str
    key: str
    problem: str = ""

    def explain(self) -> Why:
        if self.problem:
            args = self._asdict()
            return why("value_refused", **args)
        return why("no_metadata", job=self.job, key=self.key)


def bind(
    spec: S,
    lookup: Lookup,
    jobs: Container[str],
    own: Mapping[str, str] | None = None,
) -> tuple[S | None, tuple[Lacking, ...]]:
    """A condition or an action with its references replaced, and what is lacking.

    `jobs`: those known: in `{runtime.a.b.c}` the longest name wins. `own`: fields of
    the job that the spec is for (`list_own_fields`); given for actions, where bare
    names are bound too and `{{`, `}}` are braces. Where anything lacks: no spec.
    """
    binder = Binder(lookup, jobs, own)
    bound = binder.spec(spec)
    return (None if binder.lacking else bound), tuple(binder.lacking)


def list_texts(value: object) -> Iterator[str]:
    """The texts of a spec that may hold references, those of nested specs too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | tuple | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from list_texts(part)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            if one.name not in _FIXED:
                yield from list_texts(getattr(value, one.name))


def list_runtime_sources(
    texts: Iterable[str], jobs: Container[str]
) -> tuple[tuple[str, str], ...]:
    """The metadata that `{runtime.JOB.KEY}` in texts names, each once."""
    found = (match["path"] for text in texts for match in _RUNTIME.finditer(text))
    return tuple(dict.fromkeys(split_reference(path, jobs) for path in found))


def list_own_fields(spec: JobSpec, attempt: int) -> dict[str, str]:
    """What a bare name in an action may mean, metadata apart; parameters as written."""
    values = ((key.lstrip("+"), value) for key, value in spec.parameters.items())
    return {
        **{k: format_float(v) if isinstance(v, float) else str(v) for k, v in values},
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


def split_reference(path: str, jobs: Container[str]) -> tuple[str, str]:
    """`JOB.KEY`, where both may hold dots: the longest known job wins; when no part is
    one, everything before the last dot counts as the job."""
    parts = path.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        job = ".".join(parts[:cut])
        if job in jobs:
            return job, ".".join(parts[cut:])
    job, _, key = path.rpartition(".")
    return job, key


class _Found(NamedTuple):
    """Where a value was looked for, and the value."""

    job: str
    key: str
    value: str | None
    outside: bool
    """Whether it was read from a log."""


_Match: TypeAlias = "re.Match[str]"
_Literal: TypeAlias = Callable[[_Found, str, _Match], str]
"""A value as it may stand for a reference; raises `Refused`."""


class Binder:
    """One pass over one spec; collects what is lacking. `own`: as of `bind`."""

    def __init__(
        self, lookup: Lookup, jobs: Container[str], own: Mapping[str, str] | None
    ) -> None:
        self._lookup = lookup
        self._jobs = jobs
        self._own = own or {}
        self._pattern = _RUNTIME if own is None else _BARE
        self.lacking: list[Lacking] = []

    def spec(self, spec: S) -> S:
        """The spec with every text field bound, nested specs included."""
        if not is_dataclass(spec) or isinstance(spec, type):
            return spec
        changes = {}
        for name in (one.name for one in fields(spec) if one.name not in _FIXED):
            old = getattr(spec, name)
            new = self._value(old, spec, name)
            if new is not old:
                changes[name] = new
        return replace(spec, **changes) if changes else spec

    def _value(self, value: Any, spec: object, name: str) -> object:
        """A field's value, or a part of it; itself where nothing is bound."""
        if isinstance(value, str):
            if "{" not in value:
                return value
            if name == "overrides":
                return self.override(value)
            use = spec.find_use(name) if isinstance(spec, Kind) else "text"
            return self.text(value, _LITERALS[use])
        if isinstance(value, Mapping):
            bound = {key: self._value(part, spec, name) for key, part in value.items()}
            return value if all(bound[key] is value[key] for key in value) else bound
        if isinstance(value, tuple) and name == "command":
            return self._command(value)
        if isinstance(value, tuple | list):
            new = [self._value(part, spec, name) for part in value]
            same = all(one is two for one, two in zip(new, value, strict=True))
            return value if same else type(value)(new)
        return self.spec(value)

    def _command(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """A command, whose words no value from a log can make more than words."""

        def literal(at: int, found: _Found, value: str, match: _Match) -> str:
            never = explain_never(words, at, *match.span())
            if not found.outside:
                return _check_plain(value) if never else check_no_nul(value)
            if never:
                raise Refused(f"no value from a log may stand {never}")
            return check_command_value(words, at, value)

        new = (self.text(word, partial(literal, at)) for at, word in enumerate(words))
        changed = tuple(new)
        return words if changed == words else changed

    def text(self, text: str, literal: _Literal | None = None) -> str:
        """`text` with its references replaced, each value through `literal`."""
        return self._pattern.sub(lambda match: self._replace(match, literal), text)

    def override(self, text: str) -> str:
        """A Hydra override with its references replaced by values that are only text.
        A value that the grammar would read as more is put between quotes, as long as
        the override is written so that it can be; otherwise it is refused."""
        head, separator, body = text.partition("=")
        plain = _LITERALS["plain"]
        if not separator:
            return self.text(text, plain)
        key = self.text(head, plain)
        marks = _STRUCTURE.findall(_BARE.sub("", body))
        ends = {body[:1], body[-1:], *marks}
        if marks and not (len(marks) == 2 and ends in ({"'"}, {'"'})):
            return f"{key}={self.text(body, plain)}"
        odd: list[str] = []

        def quotable(_found: _Found, value: str, _match: _Match) -> str:
            odd.extend([] if _UNQUOTED.fullmatch(value) else [value])
            if not _QUOTABLE.fullmatch(value):
                raise Refused(f"{value!r} cannot be put between quotes")
            return value

        bound = self.text(body, quotable)
        return f"{key}={bound}" if marks or not odd else f"{key}='{bound}'"

    def _replace(self, match: _Match, literal: _Literal | None) -> str:
        if brace := match.groupdict().get("brace"):
            return brace[0]
        found = self._find(match)
        if found.value is None:
            self.lacking.append(Lacking(found.job, found.key))
            return match[0]
        if literal is None:
            return found.value
        try:
            return literal(found, found.value, match)
        except Refused as refused:
            self.lacking.append(Lacking(found.job, found.key, str(refused)))
            return match[0]

    def list_outside_values(self, texts: Iterable[str]) -> tuple[str, ...]:
        """The values from logs that texts of an action ask for, where known."""
        matches = (match for text in texts for match in _BARE.finditer(text))
        found = [self._find(match) for match in matches if not match["brace"]]
        return tuple(x.value for x in found if x.outside and x.value is not None)

    def _find(self, match: _Match) -> _Found:
        if path := match["path"]:
            job, key = split_reference(path, self._jobs)
        else:
            job, key = self._own.get("name", ""), match["bare"]
            if key in self._own:
                return _Found(job, key, self._own[key], outside=key == _LINE)
        return _Found(job, key, self._lookup(job, key), outside=True)


def _check_plain(value: str) -> str:
    if not _UNQUOTED.fullmatch(value):
        raise Refused(f"{value!r} would be read as more than text")
    return value


_LITERALS: Final[Mapping[FieldUse, _Literal]] = {
    "text": lambda found, value, match: check_no_nul(value),
    "glob": lambda found, value, match: glob.escape(check_no_nul(value)),
    "name": lambda found, value, match: (
        check_one_name(value) if found.outside else check_no_nul(value)
    ),
    "plain": lambda found, value, match: _check_plain(value),
}
"""How a value is made safe for a field that is no command and no override."""
