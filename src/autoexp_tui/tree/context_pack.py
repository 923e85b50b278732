"""What an agent is told before it writes ideas for a node: one text from frozen facts,
byte for byte the same for equal facts.

Texts of git, candidates and earlier agents are cleaned and indented, so that none of
them reads as a heading of ours. Each part has its own bound, and says what it leaves
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.model.states import Why
from autoexp_tui.model.wording import sentence
from autoexp_tui.text.sanitize import clean, clean_line
from autoexp_tui.text.spelling import format_number
from autoexp_tui.tree.options import ContextStrategy
from autoexp_tui.tree.scores import Comparison, MetricDelta

MOST_BYTES: Final = 64 * 1024
_MOST_FILES: Final = 20
_MOST_DELTAS: Final = 5
_MOST_SIBLINGS: Final = 20
_MOST_DIFFSTAT: Final = 4_000
_MOST_NOTES: Final = 8_000
_MOST_IDEA: Final = 1_500
"""Characters of one idea's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    path: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorIdea:
    """An idea that was written before, and what became of it."""

    node: int | None
    """For which it was written; None: it comes from `ideas.context_dirs`."""
    idea_id: str
    title: str
    text: str
    path: str
    sha256: str
    outcome: str = ""
    """In a few words; empty: not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingRefusal:
    """A candidate of the node's parent that the gate refused."""

    eval_id: int
    title: str
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFacts:
    """All that a context pack is made of."""

    node: int
    depth: int
    ancestors: tuple[int, ...] = ()
    """From the root to the parent."""
    wanted: int = 1
    """How many ideas are asked for."""
    diffstat_root: str = ""
    diffstat_parent: str = ""
    files: tuple[ChangedFile, ...] = ()
    """From the root to the node."""
    comparison: Comparison | None = None
    """Of the node with the root."""
    siblings: tuple[SiblingRefusal, ...] = ()
    ideas: tuple[PriorIdea, ...] = ()
    """Of the whole search; the strategy chooses among them."""
    notes: tuple[str, ...] = ()
    """Of the person, oldest first."""


@dataclass(frozen=True, slots=True)
class ContextPack:
    """`files`: path and sha256 of each idea that the text shows, in its order."""

    text: str
    files: tuple[tuple[str, str], ...]


def build_context_pack(
    facts: ContextFacts, strategy: ContextStrategy, most_bytes: int = MOST_BYTES
) -> ContextPack:
    """The text and the files of ideas in it; at most `most_bytes` of UTF-8, of which
    ideas have what the other parts leave, the newest first to be kept."""
    head = "\n".join(_list_head(facts))
    chosen = _choose_ideas(facts, strategy)
    room = most_bytes - len(head.encode()) - 200
    shown, texts = list[PriorIdea](), list[str]()
    for one in reversed(chosen):
        text = _describe_idea(one)
        room -= len(text.encode()) + 1
        if room < 0:
            break
        shown.insert(0, one)
        texts.insert(0, text)
    left = len(chosen) - len(shown)
    lines = [head, "\n## Earlier ideas and what became of them\n"]
    lines += [f"({left} older ones are left out)"] if left else []
    text = "\n".join([*lines, *(texts or ["None."])]) + "\n"
    files = tuple((one.path, one.sha256) for one in shown)
    return ContextPack(text.encode()[:most_bytes].decode("utf-8", "ignore"), files)


def _list_head(facts: ContextFacts) -> Iterator[str]:
    path = " -> ".join(f"n{node}" for node in (*facts.ancestors, facts.node))
    yield f"# Node n{facts.node} at depth {facts.depth}\n"
    yield f"Path from the root: {path}"
    yield f"Ideas wanted: {facts.wanted}"
    yield from _list_part("Notes of the person", _list_notes(facts.notes))
    yield from _list_part("Results beside the root", _list_results(facts.comparison))
    yield from _list_part("Changes since the root", _quote(facts.diffstat_root))
    yield from _list_part("Most changed files", _list_files(facts.files))
    yield from _list_part("Changes since the parent", _quote(facts.diffstat_parent))
    yield from _list_part("Refused beside this node", _list_siblings(facts.siblings))


def _list_part(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"\n## {title}\n"
        yield from lines


def _list_notes(notes: Sequence[str]) -> list[str]:
    """The newest of them, where they are long."""
    return _quote("\n".join(notes)[-_MOST_NOTES:], _MOST_NOTES)


def _list_results(comparison: Comparison | None) -> list[str]:
    if comparison is None:
        return []
    made = comparison.recommendation
    score = "none" if made.score is None else format_number(made.score)
    gains, losses = comparison.list_largest_deltas(_MOST_DELTAS)
    return [
        f"Grade {made.grade}, score {score}; {', '.join(made.reasons) or 'no reasons'}",
        *(_describe_delta("gain", one) for one in gains),
        *(_describe_delta("loss", one) for one in losses),
    ]


def _describe_delta(word: str, one: MetricDelta) -> str:
    before, after = (
        "none" if value is None else format_number(value)
        for value in (one.baseline, one.candidate)
    )
    percent = f"{100 * (one.relative or 0.0):+.2f} %"
    return f"- {word}: {clean_line(one.name)} {before} -> {after} ({percent})"


def _list_files(files: Sequence[ChangedFile]) -> list[str]:
    most = sorted(files, key=lambda one: (-(one.added + one.removed), one.path))
    lines = [
        f"- {clean_line(one.path)} +{one.added} -{one.removed}"
        for one in most[:_MOST_FILES]
    ]
    return _add_rest(lines, len(most))


def _list_siblings(siblings: Sequence[SiblingRefusal]) -> list[str]:
    ordered = sorted(siblings, key=lambda one: one.eval_id)[-_MOST_SIBLINGS:]
    told = (sentence(one.why, 0.0, keys=False) for one in ordered)
    lines = [
        f"- e{one.eval_id} {clean_line(one.title)}: {reason}"
        for one, reason in zip(ordered, told, strict=True)
    ]
    return _add_rest(lines, len(siblings))


def _add_rest(lines: list[str], count: int) -> list[str]:
    rest = count - len(lines)
    return [*lines, f"({rest} more are left out)"] if rest else lines


def _choose_ideas(facts: ContextFacts, strategy: ContextStrategy) -> list[PriorIdea]:
    """In order of node and path, those of other directories first."""
    nodes = {facts.node, *(facts.ancestors if strategy != "node_only" else ())}
    chosen = (
        one
        for one in facts.ideas
        if one.node is None or one.node in nodes or strategy == "global_prior_ideas"
    )
    return sorted(
        chosen, key=lambda one: (one.node is not None, one.node or 0, one.path)
    )


def _describe_idea(one: PriorIdea) -> str:
    home = "before this search" if one.node is None else f"n{one.node}"
    outcome = clean_line(one.outcome) or "not tried"
    head = f"- {clean_line(one.title)} ({one.idea_id}, {home}): {outcome}"
    return "\n".join([head, *_quote(one.text, _MOST_IDEA)])


def _quote(text: str, most: int = _MOST_DIFFSTAT) -> list[str]:
    """The lines of a text of others, indented, at most `most` characters of them."""
    shown = clean(text, keep_newlines=True, limit=most).strip("\n")
    return [f"    {line}" for line in shown.splitlines()]
