"""What an agent is told before it writes ideas for a node: one text, byte for byte the
same for equal facts.

Texts of git, candidates and earlier agents are cleaned and indented, so that none of
them reads as a heading of ours. Each part has its own bound, and says what it leaves
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.wording import sentence
from autoexp_tui.text.sanitize import clean, clean_line
from autoexp_tui.text.spelling import format_metric, format_number

if TYPE_CHECKING:
    from autoexp_tui.tree.options import TreeOptions
    from autoexp_tui.tree.ports import PackRequest
    from autoexp_tui.tree.scores import Comparison, MetricDelta
    from autoexp_tui.tree.state import Evaluation

MOST_BYTES: Final = 64 * 1024
_MOST_DELTAS: Final = 5
_MOST_SIBLINGS: Final = 20
_MOST_DIFFSTAT: Final = 4_000
_MOST_NOTES: Final = 8_000
_MOST_IDEA: Final = 1_500
"""Characters of one idea's text."""


@dataclass(frozen=True, slots=True)
class PriorIdea:
    """An idea that was written before, and what became of it."""

    name: str
    """Of its file."""
    title: str
    text: str
    path: str
    sha256: str
    node: str = "before this search"
    """For which it was written."""
    outcome: str = "not tried"


@dataclass(frozen=True, slots=True)
class ContextPack:
    """`files`: path and sha256 of each idea that the text shows, in its order."""

    text: str
    files: tuple[tuple[str, str], ...]


def build_context_pack(
    request: PackRequest,
    options: TreeOptions,
    ideas: Sequence[PriorIdea],
    since_root: Sequence[str] = (),
    since_parent: Sequence[str] = (),
    most_bytes: int = MOST_BYTES,
) -> ContextPack:
    """The text and the files of ideas in it; at most `most_bytes` of UTF-8, of which
    ideas have what the other parts leave, the newest first to be kept. `since_...`: the
    changed files of the node."""
    head = "\n".join(_list_head(request, options, since_root, since_parent))
    room = most_bytes - len(head.encode()) - 200
    shown, texts = list[PriorIdea](), list[str]()
    for one in reversed(ideas):
        text = _describe_idea(one)
        room -= len(text.encode()) + 1
        if room < 0:
            break
        shown.insert(0, one)
        texts.insert(0, text)
    left = len(ideas) - len(shown)
    lines = [head, "\n## Earlier ideas and what became of them\n"]
    lines += [f"({left} older ones are left out)"] if left else []
    text = "\n".join([*lines, *(texts or ["None."])]) + "\n"
    files = tuple((one.path, one.sha256) for one in shown)
    return ContextPack(text.encode()[:most_bytes].decode("utf-8", "ignore"), files)


def describe_outcome(one: Evaluation) -> str:
    """What became of an idea, in a few words."""
    judged = one.judgement
    if judged is None:
        return "not tried"
    if judged.root is None or not judged.has_passed:
        return judged.reason.code if judged.reason else "not tried"
    made = judged.root.recommendation
    return f"passed the gate; {made.grade}, score {format_metric(made.score)}"


def _list_head(
    request: PackRequest,
    options: TreeOptions,
    since_root: Sequence[str],
    since_parent: Sequence[str],
) -> Iterator[str]:
    node = request.node
    path = [one.id for one in (node, *request.ancestors)][::-1]
    yield f"# Node {node.id} at depth {node.depth}\n"
    yield f"Path from the root: {' -> '.join(path)}"
    yield f"Ideas wanted: {options.ideas_per_node}"
    notes = "\n".join(options.ideas.notes)[-_MOST_NOTES:]  # the newest of them
    parts = {
        "Notes of the person": _quote(notes, _MOST_NOTES),
        "Results beside the root": _list_results(request.comparison),
        "Changes since the root": _quote("\n".join(since_root)),
        "Changes since the parent": _quote("\n".join(since_parent)),
        "Refused beside this node": _list_siblings(request.siblings),
    }
    for title, lines in parts.items():
        if lines:
            yield f"\n## {title}\n"
            yield from lines


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


def _list_siblings(siblings: Sequence[Evaluation]) -> list[str]:
    """Why the gate refused those of the node's parent that it refused."""
    lines = list[str]()
    for one in sorted(siblings, key=lambda one: one.number):
        reason = one.judgement.reason if one.judgement else None
        if reason and one.judgement and not one.judgement.has_passed:
            title = clean_line(one.idea.title) if one.idea else ""
            lines.append(f"- {one.id} {title}: {sentence(reason, 0.0, keys=False)}")
    rest = len(lines) - _MOST_SIBLINGS
    return [*lines[-_MOST_SIBLINGS:], *([f"({rest} more are left out)"] * (rest > 0))]


def _describe_idea(one: PriorIdea) -> str:
    outcome = clean_line(one.outcome)
    head = f"- {clean_line(one.title)} ({one.name}, {one.node}): {outcome}"
    return "\n".join([head, *_quote(one.text, _MOST_IDEA)])


def _quote(text: str, most: int = _MOST_DIFFSTAT) -> list[str]:
    """The lines of a text of others, indented, at most `most` characters of them."""
    shown = clean(text, keep_newlines=True, limit=most).strip("\n")
    return [f"    {line}" for line in shown.splitlines()]
