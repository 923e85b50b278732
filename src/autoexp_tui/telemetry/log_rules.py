"""The rules over new log lines: which match, and what they extract.

A `Scanner` looks at whole lines and keeps nothing between calls: a match is named by
the byte offset of its line, so scanning the same bytes again, or cut otherwise at line
ends, finds the same matches. Conditions and actions of a rule are not its concern.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSet, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.model.rules import LogEvent, StateEvent
from autoexp_tui.text.patterns import (
    LineSearch,
    Pattern,
    PatternRefused,
    compile_line_pattern,
    literal_pattern,
    readable,
)

MAX_SHOWN: Final = 2000
"""Characters of a line, or of an extracted value, that a match keeps."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule ready to scan."""

    rule: LogEvent
    pattern: Pattern
    groups: Sequence[tuple[str, int]]
    """(metadata key, number of the group that is extracted)."""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule matched a line; at most one match a rule and line."""

    rule: str
    """The rule's name."""
    offset: int
    """Bytes from the start of the file to the start of the line."""
    line: str
    metadata: Mapping[str, str] = field(default_factory=dict)


def compile_rule(rule: LogEvent) -> CompiledRule:
    """A rule ready to scan; one over silence is `telemetry.inactivity`'s.

    Raises:
        ValueError: its pattern is refused, or has not the group that is extracted.
    """
    pattern = compile_rule_pattern(rule)
    groups = [
        (key, _group_number(rule, pattern, group))
        for key, group in rule.extract_groups.items()
    ]
    return CompiledRule(rule, pattern, groups)


def concerns(rule: LogEvent | StateEvent, stage: str) -> bool:
    """Whether a rule is about jobs of `stage`."""
    return not rule.stages or stage in rule.stages


class Scanner:
    """Looks for all rules of a job in new lines."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self.rules = {item.rule.name: item.rule for item in rules}
        self._rules = rules
        self._search = LineSearch([item.pattern for item in rules])

    @property
    def size(self) -> int:
        """Instructions of all patterns; see `patterns.Pattern.size`."""
        return self._search.size

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
        found: list[Match] = []
        for line in self._search.find(readable(chunk)):
            for item in self._rules:
                once = item.rule.match_once and seen is not None
                if once and seen is not None and item.rule.name in seen:
                    continue
                match = _match(item, line.text, offset + line.start)
                if match is None:
                    continue
                found.append(match)
                if once and seen is not None:
                    seen.add(item.rule.name)
        return found


def _match(item: CompiledRule, line: bytes, offset: int) -> Match | None:
    found = item.pattern.search(line)
    if found is None:
        return None
    texts = ((key, found[group]) for key, group in item.groups)
    metadata = {key: _show_text(text) for key, text in texts if text is not None}
    return Match(item.rule.name, offset, _show_text(line), metadata)


def _show_text(text: bytes) -> str:
    return text[: 4 * MAX_SHOWN].decode("utf-8", "replace")[:MAX_SHOWN]


# ----------------------------------------------------------------------- compiling
def _group_number(rule: LogEvent, pattern: Pattern, group: str) -> int:
    number = int(group) if group.isdecimal() else pattern.names.get(group)
    if number is None or number > pattern.groups:
        raise ValueError(f"rule {rule.name}: the pattern has no group {group!r}")
    return number


def compile_rule_pattern(rule: LogEvent) -> Pattern:
    """A rule's pattern.

    Raises:
        ValueError: it is refused.
    """
    if not rule.pattern:
        raise ValueError(f"rule {rule.name}: its pattern is empty")
    is_literal = rule.pattern_type == "substring"
    try:
        return (literal_pattern if is_literal else compile_line_pattern)(rule.pattern)
    except PatternRefused as error:
        where = f"rule {rule.name}: {rule.pattern!r}"
        raise ValueError(f"{where} {error.problem}: {error.hint}") from error
