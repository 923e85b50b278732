"""The rules over new log lines: which match, what they extract, how many are told. A
match is named by the byte offset of its line, so scanning again finds the same. Beyond
a few a second matches are gathered: one event tells the first, the last and how
many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSet, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.conditions.jobs import as_number
from autoexp_tui.model.rules import LogEvent
from autoexp_tui.text.patterns import (
    LineSearch,
    Pattern,
    PatternRefused,
    compile_line_pattern,
    compile_literal_pattern,
    make_readable,
)

MAX_SHOWN: Final = 2000
"""Characters of a line, or of an extracted value, that a match keeps."""
MOST_AT_ONCE: Final = 50
"""Matches of a rule that are events of their own although they come together."""
MOST_A_SECOND: Final = 5.0
GATHER_SECONDS: Final = 1.0
"""For which matches are gathered before they are told."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    rule: LogEvent
    pattern: Pattern
    groups: Sequence[tuple[str, int]]
    """(metadata key, number of the group that is extracted)."""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule matched a line; at most one match a rule and line."""

    rule: str
    offset: int
    """Bytes from the start of the file to the start of the line."""
    line: str
    metadata: Mapping[str, str] = field(default_factory=dict)


def compile_rule(rule: LogEvent) -> CompiledRule:
    """A rule ready to scan; raises ValueError."""
    pattern = compile_rule_pattern(rule)
    groups = []
    for key, group in rule.extract_groups.items():
        number = int(group) if group.isdecimal() else pattern.names.get(group)
        if number is None or number > pattern.groups:
            raise ValueError(f"rule {rule.name}: the pattern has no group {group!r}")
        groups.append((key, number))
    return CompiledRule(rule, pattern, groups)


class Scanner:
    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self.rules = {item.rule.name: item.rule for item in rules}
        self._rules = rules
        self.search = LineSearch([item.pattern for item in rules])

    def scan(
        self, chunk: bytes, offset: int, seen: MutableSet[str] | None = None
    ) -> list[Match]:
        """The matches in whole lines that begin at byte `offset`, by line, then rule.
        `seen`: `match_once` rules that matched in this run; new ones are added."""
        found: list[Match] = []
        seen = set() if seen is None else seen
        for line in self.search.find(make_readable(chunk)):
            for item in self._rules:
                once, name = item.rule.match_once, item.rule.name
                if once and name in seen:
                    continue
                match = item.pattern.search(line.text)
                if match is None:
                    continue
                texts = ((key, match[group]) for key, group in item.groups)
                metadata = {
                    k: _show_text(text) for k, text in texts if text is not None
                }
                shown = _show_text(line.text)
                found.append(Match(name, offset + line.start, shown, metadata))
                if once:
                    seen.add(name)
        return found


def _show_text(text: bytes) -> str:
    return text[: 4 * MAX_SHOWN].decode("utf-8", "replace")[:MAX_SHOWN]


def find_number(pattern: Pattern, line: bytes) -> float | None:
    """What the group `value`, or the first one, spells in a line; None: no number."""
    match = pattern.search(line)
    text = match[pattern.value_group] if match else None
    number = as_number(text.decode().replace(",", "")) if text else None
    return None if number is None else float(number)


def compile_rule_pattern(rule: LogEvent) -> Pattern:
    """A rule's pattern; raises ValueError where it is refused."""
    if not rule.pattern:
        raise ValueError(f"rule {rule.name}: its pattern is empty")
    is_literal = rule.pattern_type == "substring"
    return compile_pattern(f"rule {rule.name}", rule.pattern, is_literal=is_literal)


def compile_pattern(where: str, source: str, *, is_literal: bool = False) -> Pattern:
    """A pattern for lines, or a literal text; raises ValueError."""
    try:
        return (compile_literal_pattern if is_literal else compile_line_pattern)(source)
    except PatternRefused as error:
        problem = f"{source!r} {error.problem}: {error.hint}"
        raise ValueError(f"{where}: {problem}") from error


@dataclass(slots=True)
class GatheredMatches:
    first: int
    """Offset of the first one's line, bytes."""
    since_lived: float
    last: Match
    count: int = 0
    metadata: dict[str, str] = field(default_factory=dict)
    """What the last one extracted counts instead of what came before."""


class MatchLimits:
    """Of the rules over one run's log."""

    def __init__(self) -> None:
        self._rules: dict[str, tuple[float, float]] = {}
        """(matches of a rule that may yet be events of their own, since when)."""
        self.gathered: dict[str, GatheredMatches] = {}

    def gather(self, match: Match, lived: float) -> bool:
        """Whether a match is gathered; else it is an event of its own."""
        left, since = self._rules.get(match.rule, (MOST_AT_ONCE, lived))
        left = min(left + (lived - since) * MOST_A_SECOND, MOST_AT_ONCE)
        if match.rule not in self.gathered and left >= 1.0:
            self._rules[match.rule] = (left - 1.0, lived)
            return False
        self._rules[match.rule] = (left, lived)
        fresh = GatheredMatches(match.offset, lived, match)
        gathered = self.gathered.setdefault(match.rule, fresh)
        gathered.last = match
        gathered.count += 1
        gathered.metadata.update(match.metadata)
        return True

    def take_due(self, lived: float) -> Iterator[GatheredMatches]:
        """What was gathered for long enough; infinity: all of it."""
        for name, found in list(self.gathered.items()):
            if lived - found.since_lived >= GATHER_SECONDS:
                del self.gathered[name]
                yield found
