"""Users' patterns, compiled and searched by RE2: the one module that does.

RE2 never goes back. What it lacks, or takes in another meaning than Python's `re`, is
refused with the way to write it; `\\w`, `\\d`, `\\s`, `\\b` are about ASCII."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import re2

MAX_LINE: Final = 64 * 1024
"""Bytes of a line that are looked at; the rest of a longer one is not."""
MAX_SIZE: Final = 5_000
"""Instructions of a pattern. A text that is made to be slow takes some nanoseconds for
each of its bytes and each instruction, so this bounds what a line may take."""
_MEMORY: Final = 8 << 20
"""Bytes of one pattern, and of what RE2 remembers of its searches."""
_MEMORY_OF_ALL: Final = 64 << 20
"""The same of patterns that are searched together."""


class PatternRefused(ValueError):
    """A pattern that we do not search: what is wrong, and how to write it."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Pattern:
    source: str
    groups: int
    names: Mapping[str, int]
    """Named groups, by their number."""
    size: int
    """Instructions: what a byte of text costs at worst."""
    line: str
    """The same for the lines of a text at once."""
    _regex: Any

    def search(self, text: bytes, start: int = 0) -> re.Match[bytes] | None:
        """The first match from byte `start` on; it reads as one of `re`."""
        found: re.Match[bytes] | None = self._regex.search(text, start)
        return found

    @property
    def value_group(self) -> int:
        """The group that yields a number: `value`, else the first."""
        return self.names.get("value", 1)


@lru_cache(maxsize=512)
def compile_line_pattern(source: str, *, ignore_case: bool = False) -> Pattern:
    """A pattern for single lines; raises PatternRefused."""
    options = _make_options(_MEMORY, lines=True)
    options.case_sensitive = not ignore_case
    return _compile(source, options)


@lru_cache(maxsize=512)
def compile_text_pattern(source: str) -> Pattern:
    """A pattern for whole texts (`^`, `$` are about lines); raises PatternRefused."""
    return _compile(source, _make_options(_MEMORY, lines=False))


def compile_literal_pattern(text: str) -> Pattern:
    """A pattern for lines that hold a text as it is; raises PatternRefused."""
    return compile_line_pattern(re2.escape(_encode(text)).decode())


def make_readable(data: bytes) -> bytes:
    """`data` to be searched: `\\n` for each `\\r`, `?` for a byte that is no UTF-8."""
    text = data if data.isascii() else read_text(data).encode()
    return text.replace(b"\r", b"\n") if b"\r" in text else text


def read_text(data: bytes) -> str:
    """`data` as text; each byte that is no UTF-8 is `?`."""
    return data.decode("utf-8", "surrogateescape").encode("utf-8", "replace").decode()


def make_text_readable(data: bytes) -> bytes:
    """`data` as it is searched whole: readable, each end of a line one `\\n`."""
    return make_readable(data.replace(b"\r\n", b"\n"))


def _make_options(memory: int, *, lines: bool) -> Any:
    options = re2.Options()
    options.log_errors = False  # a search that lacks memory goes on, slower
    options.max_mem = memory
    options.never_nl = lines
    return options


def _compile(source: str, options: Any) -> Pattern:
    _encode(source)
    tokens = list(_split_tokens(source))
    names: set[str] = set()
    for kind, text in tokens:
        if kind in _REFUSALS:
            problem, hint = _REFUSALS[kind]
            raise PatternRefused(f"{problem} (`{text}`)", hint)
        name = text.partition("<")[2]
        if kind == "name" and name in names:
            problem = f"has two groups `{name[:-1]}`"
            raise PatternRefused(problem, "name each group once")
        names.add(name)
    line = "".join(_LINE_EDGES.get(text, text) for _, text in tokens)
    try:
        regex = re2.compile(_encode(f"(?m){source}"), options)
    except re2.error as error:
        raise PatternRefused(*_explain(error)) from error
    if regex.programsize > MAX_SIZE:
        hint = "use smaller counts, or * and +"
        raise PatternRefused(f"is too large: {regex.programsize} steps a byte", hint)
    groups = {name.decode(): number for name, number in regex.groupindex.items()}
    return Pattern(source, regex.groups, groups, regex.programsize, line, regex)


def _encode(source: str) -> bytes:
    try:
        return source.encode()
    except UnicodeEncodeError as error:
        problem = f"holds a character that no UTF-8 spells: {source[error.start]!r}"
        raise PatternRefused(problem, "leave it out") from error


def _explain(error: Exception) -> tuple[str, str]:
    """What RE2 says of a pattern, and what to do."""
    message = error.args[0] if error.args else b""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else message
    if "repetition size" in text:
        return f"repeats too often: {text}", "at most 1000 times in all; or use * and +"
    if "too large" in text:
        return "is too large", "use smaller counts, or * and +"
    text = text.replace(": (?m)", ": ")
    hint = "it is an RE2 regex; in YAML put it between single quotes"
    return f"does not compile: {text}", hint


_OUTSIDE: Final = re.compile(
    r"(?P<look>\(\?<?[=!])"
    r"|(?P<back>\\[1-9]|\(\?P=|\(\?\()"
    r"|(?P<atomic>\(\?>|[*+?]\+|\{[0-9]+(?:,[0-9]*)?\}\+)"
    r"|(?P<comment>\(\?\#)"
    r"|(?P<verbose>\(\?[a-zA-Z]*x)"
    r"|(?P<letters>\(\?[a-zA-Z]*[aLu])"
    r"|(?P<multiline>\(\?[a-zA-Z]*-[a-zA-Z]*m)"
    r"|(?P<end>\\Z)"
    r"|(?P<unicode>\\[uUN])"
    r"|(?P<only>\\[CQ])"
    r"|(?P<least>\{,[0-9]*\})"
    r"|(?P<name>\(\?P?<\w+>)"
    r"|(?P<class>\[\^?\]?)"
    r"|(?P<other>\\.|.)",
    re.DOTALL,
)
_INSIDE: Final = re.compile(
    r"(?P<posix>\[:\^?[a-z]+:\])|(?P<unicode>\\[uUN])|(?P<closed>\])|(?P<other>\\.|.)",
    re.DOTALL,
)
_REFUSALS: Final = {
    "look": (
        "looks around itself",
        "match the text around it too, and put what counts into a group",
    ),
    "back": (
        "refers back to a group",
        "write out what may stand there; several rules can share one action",
    ),
    "atomic": (
        "has a possessive or atomic part",
        "leave out the second + or write (?:...): searches never go back anyway",
    ),
    "comment": ("holds a comment", "put it behind # in the YAML"),
    "verbose": ("has the flag x", "write it without blanks and breaks"),
    "letters": (
        "has a flag a, u or L",
        r"leave it out: \w, \d, \s and \b are about ASCII; or use \pL, \pN",
    ),
    "multiline": ("turns the flag m off", r"write \A and \z for the ends"),
    "end": ("has \\Z", r"write $ or \z"),
    "unicode": ("has \\u, \\U or \\N", r"write \x{20AC} with the character's number"),
    "only": ("has \\C or \\Q", "write . or a backslash before each special sign"),
    "least": ("counts as {,n}", "write {0,n}"),
    "posix": ("has a class as [:alpha:]", r"write a-z, 0-9, \w, \s or \d"),
}
_LINE_EDGES: Final = {r"\A": "^", r"\z": "$"}
"""The ends of a text, as the ends of its lines."""


def _split_tokens(source: str) -> Iterator[tuple[str, str]]:
    """(kind, text) of what a pattern consists of."""
    at, inside = 0, False
    while at < len(source):
        match = (_INSIDE if inside else _OUTSIDE).match(source, at)
        assert match is not None  # `.` matches the rest
        assert match.lastgroup is not None
        inside = match.lastgroup != "closed" if inside else match.lastgroup == "class"
        yield match.lastgroup, match[0]
        at = match.end()


class MatchedLine(NamedTuple):
    """A line that some pattern may match; whoever searches with one learns whether."""

    start: int
    """Bytes from the start of the text."""
    text: bytes
    """At most `MAX_LINE` bytes, without its end."""


class LineSearch:
    """Finds the lines that any of some line patterns match, in one pass."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        either = "|".join(f"(?:{pattern.line})" for pattern in patterns)
        options = _make_options(_MEMORY_OF_ALL, lines=True)
        options.never_capture = True
        try:
            self._any = re2.compile(f"(?m){either}".encode(), options)
        except re2.error:  # too large together: each line is looked at
            self._any = re2.compile(rb"(?m)^", options)
        self.size = sum(pattern.size for pattern in patterns)
        """Instructions: what a byte of text costs at worst."""

    def find(self, text: bytes) -> Iterator[MatchedLine]:
        """The lines of a text made readable, in order."""
        start = 0 if self.size else len(text)
        while start < len(text):
            found = self._any.search(text, start)
            if found is None or (found.start() == len(text) and text.endswith(b"\n")):
                return
            begin = text.rfind(b"\n", start, found.start()) + 1 or start
            end = text.find(b"\n", found.end())
            end = len(text) if end < 0 else end
            line = text[begin : min(end, begin + MAX_LINE)]
            yield MatchedLine(begin, line)
            start = end + 1
