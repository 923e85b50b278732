"""The rules over new log lines: which match, and what they extract.

A `Scanner` looks at whole lines and keeps nothing between calls: a match is named by
the byte offset of its line, so scanning the same bytes again, or cut otherwise at line
ends, finds the same matches. Conditions and actions of a rule are not its concern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableSet, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from autoexp_tui.core.rule_kinds import QUIET_TYPES, LogEvent, StateEvent
from autoexp_tui.monitor.careful import CarefulRegex, Linear, careful, no_linear
from autoexp_tui.monitor.prefilter import LineFinder, line_text, with_newlines
from autoexp_tui.monitor.sieve import MakeTest, Sieve, by_re

MAX_SHOWN: Final = 2000
"""Characters of a line, or of an extracted value, that a match keeps."""
_Search: TypeAlias = Callable[[str], Mapping[str, str] | None]
"""A line -> what a match extracts; None: no match."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule ready to scan."""

    rule: LogEvent
    finder: LineFinder
    search: _Search


@dataclass(frozen=True, slots=True)
class Match:
    """A rule matched a line; at most one match a rule and line."""

    rule: str
    """The rule's name."""
    offset: int
    """Bytes from the start of the file to the start of the line."""
    line: str
    metadata: Mapping[str, str] = field(default_factory=dict)


def compile_rules(
    rules: Iterable[LogEvent], linear: Linear = no_linear
) -> tuple[CompiledRule, ...]:
    """Rules ready to scan, in order; those over silence are `monitor.quiet`'s.

    `linear`: what is asked before a regex is searched.

    Raises:
        ValueError: a regex does not compile, or has not the group that is extracted.
    """
    lines = (rule for rule in rules if rule.pattern_type not in QUIET_TYPES)
    return tuple(_compiled(rule, linear) for rule in lines)


def for_stage(rules: Iterable[CompiledRule], stage: str) -> tuple[CompiledRule, ...]:
    """The rules that concern jobs of `stage`."""
    return tuple(item for item in rules if concerns(item.rule, stage))


def concerns(rule: LogEvent | StateEvent, stage: str) -> bool:
    """Whether a rule is about jobs of `stage`."""
    return not rule.stages or stage in rule.stages


class Scanner:
    """Looks for all rules of a job in new lines."""

    def __init__(
        self, rules: Sequence[CompiledRule], make_test: MakeTest = by_re
    ) -> None:
        """`make_test`: how pieces without any of the rules' literals are told."""
        self.rules = {item.rule.name: item.rule for item in rules}
        ordered = list(enumerate(rules))
        grouped = {
            kind: [pair for pair in ordered if _is_of(pair[1], kind)]
            for kind in ("exact", "caseless", "unknown")
        }
        self._groups = [
            _Group(members, kind, make_test)
            for kind, members in grouped.items()
            if members
        ]

    def scan(
        self, chunk: bytes, offset: int, seen: MutableSet[str] | None = None
    ) -> list[Match]:
        """The matches in whole lines, in the order of lines, then of rules.

        Args:
            chunk: whole lines; a last one without its end counts as a line.
            offset: where `chunk` starts in the file, bytes.
            seen: names of `match_once` rules that matched in this run; those are not
                looked for again, and new ones are added.
        """
        if not self._groups:
            return []
        data = with_newlines(chunk)
        found = [
            (start, order, match)
            for group in self._groups
            for begin, end in group.spans(data)
            for order, item in group.members
            for start, match in _matches(item, data, (begin, end), offset, seen)
        ]
        found.sort(key=lambda entry: entry[:2])
        return [match for _, _, match in found]


class _Group:
    """Rules that are told by one test."""

    def __init__(
        self, members: list[tuple[int, CompiledRule]], kind: str, make_test: MakeTest
    ) -> None:
        self.members = members
        self._caseless = kind == "caseless"
        literals = {text for _, item in members for text in item.finder.literals}
        self._sieve = (
            Sieve(sorted(literals), make_test, caseless=self._caseless)
            if literals
            else None
        )

    def spans(self, data: bytes) -> Iterable[tuple[int, int]]:
        """Where the rules are to be looked for."""
        if self._sieve is None or (self._caseless and not data.isascii()):
            return ((0, len(data)),)
        return self._sieve.seldom(data)


def _is_of(item: CompiledRule, kind: str) -> bool:
    if not item.finder.literals:
        return kind == "unknown"
    return kind == ("caseless" if item.finder.caseless else "exact")


def _matches(
    item: CompiledRule,
    data: bytes,
    span: tuple[int, int],
    offset: int,
    seen: MutableSet[str] | None,
) -> Iterable[tuple[int, Match]]:
    name = item.rule.name
    once = item.rule.match_once and seen is not None
    if once and seen is not None and name in seen:
        return
    for start, end in item.finder.lines(data, *span):
        line = line_text(data, start, end)
        metadata = item.search(line)
        if metadata is None:
            continue
        yield start, Match(name, offset + start, line[:MAX_SHOWN], metadata)
        if once and seen is not None:
            seen.add(name)
            return


# ----------------------------------------------------------------------- compiling
def _compiled(rule: LogEvent, linear: Linear) -> CompiledRule:
    substring = rule.pattern_type == "substring"
    finder = LineFinder(rule.pattern, substring=substring)
    search = _substring(rule.pattern) if substring else _regex(rule, linear)
    return CompiledRule(rule, finder, search)


def _substring(text: str) -> _Search:
    return lambda line: {} if text and text in line else None


def _regex(rule: LogEvent, linear: Linear) -> _Search:
    regex = _checked(rule, linear)
    groups = [(key, _group(group)) for key, group in rule.extract_groups.items()]

    def search(line: str) -> Mapping[str, str] | None:
        match = regex.search(line)
        if match is None or not rule.pattern:
            return None
        found = ((key, match[group]) for key, group in groups)
        return {key: value[:MAX_SHOWN] for key, value in found if value is not None}

    return search


def _group(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _checked(rule: LogEvent, linear: Linear) -> CarefulRegex:
    made = regex_of(rule, linear)
    regex = made.regex
    for group in rule.extract_groups.values():
        known = int(group) <= regex.groups if group.isdecimal() else None
        if known is False or (known is None and group not in regex.groupindex):
            raise ValueError(f"rule {rule.name}: the pattern has no group {group!r}")
    return made


def regex_of(rule: LogEvent, linear: Linear = no_linear) -> CarefulRegex:
    """A rule's pattern, compiled.

    Raises:
        ValueError: it does not compile.
    """
    try:
        return careful(re.compile(rule.pattern), linear)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"rule {rule.name}: {rule.pattern!r}: {error}") from error
