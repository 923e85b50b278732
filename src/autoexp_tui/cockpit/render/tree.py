"""A search as lines: its tree, the best so far, who would go on if the depth closed
now, and all that is known of one evaluation. Pure functions of the snapshot's `Tree`.

What all rows need is worked out once for a state of the tree (`build_outline`); a row
then costs the same whether ten evaluations are there or ten thousand.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    line,
    outside,
    render_bar,
    render_pairs,
    render_sparkline,
    width,
    wrap,
)
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.text.spelling import format_metric, plural
from autoexp_tui.tree.decide import describe_candidates
from autoexp_tui.tree.jobs import find_candidate_dir, find_evaluation_dir, find_node_dir
from autoexp_tui.tree.ranking import Ranked, rank_candidates
from autoexp_tui.tree.state import BASELINE, ROOT, Evaluation, Idea, Tree

if TYPE_CHECKING:
    from autoexp_tui.model.states import Why
    from autoexp_tui.tree.scores import Comparison, MetricDelta

State: TypeAlias = tuple[str, str, Role]
"""Glyph, word and role."""
FindStep: TypeAlias = Callable[[Evaluation], State]
"""What the jobs of an evaluation that is open are doing."""
_WORD: Final = 11
"""Cells of glyph and word."""
_LEVELS: Final = 5
"""Levels that are drawn; of deeper ones the last."""
_NUMBER: Final = 7
_CODES: Final[Mapping[str, State]] = {
    "indecisive": ("~", "in noise", "stalled"),
    "repeated_change": ("=", "repeat", "skipped"),
    "primary_regressed": ("✗", "worse", "failed"),
    "should_explore_false": ("✗", "worse", "failed"),
    "ended_by_hand": ("–", "ended", "skipped"),
    "eval_timeout": ("–", "too long", "skipped"),
    "tests_failed": ("!", "tests fail", "failed"),
}
"""What a row is called by the code of its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What the rows of a tree have in common."""

    keys: tuple[str, ...]
    """The root's node, evaluations, and ideas that have no number, in their order."""
    stems: tuple[str, ...]
    """The lines that lead to each of them."""
    deepest: int
    """Cells of the longest of these, as far as they are drawn."""
    ideas: Mapping[str, tuple[Idea, str]]
    """Ideas without a number, by id, and which idea each repeats; empty: it waits."""
    nodes: Mapping[str, str]
    """Evaluation -> the node that it became."""
    ranked: Mapping[str, Ranked]
    """The ranking of each evaluation; in the present depth, as if it closed now."""
    frontier: tuple[Ranked, ...]
    """The ranking of the present depth, if it closed now."""
    stairs: tuple[tuple[str, float], ...]
    """Each evaluation that was better than all before it; the root first."""
    steps: tuple[float, ...]
    """The best so far, after each evaluation that passed."""


def sign_tree(tree: Tree) -> tuple[object, ...]:
    """What an outline depends on: equal means the same outline."""
    marks = tuple(one.mark for one in tree.list_here())
    parts = (tree.open, tree.waiting, tree.closed, tree.skipped, tree.here)
    return (*parts, len(tree.evaluations), tree.nodes[ROOT].baseline, marks)


def build_outline(tree: Tree) -> Outline:
    """Costs what the tree holds."""
    nodes = {one.evaluation: one.id for one in tree.nodes.values()}
    ideas = {one.idea.id: (one.idea, one.same_as) for one in tree.skipped}
    ideas |= {idea.id: (idea, "") for idea in tree.waiting}
    below: defaultdict[str, list[str]] = defaultdict(list)
    for one in tree.evaluations.values():
        if one.idea is not None:
            below[one.node].append(one.id)
    for key, (idea, _) in ideas.items():
        below[idea.node].append(key)
    rows = [*_walk(below, nodes)]
    ended = [one for one in tree.list_here() if one.judgement is not None]
    frontier = rank_candidates([*describe_candidates(ended)], tree.options)
    past = (ranked for depth in tree.closed for ranked in depth.ranking)
    stairs, steps = _measure_stairs(tree)
    return Outline(
        keys=tuple(key for key, _ in rows),
        stems=tuple(stem for _, stem in rows),
        deepest=min(_LEVELS, max(len(stem) for _, stem in rows)),
        ideas=ideas,
        nodes=nodes,
        ranked={f"e{one.eval_id}": one for one in (*past, *frontier)},
        frontier=frontier,
        stairs=stairs,
        steps=steps,
    )


def _walk(
    below: Mapping[str, Sequence[str]], nodes: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Each key behind its parent, with the lines before it."""
    yield ROOT, ""
    open_levels = [("", iter(_pair(below.get(ROOT, ()))))]
    while open_levels:
        stem, rest = open_levels[-1]
        key, is_last = next(rest, ("", False))
        if not key:
            open_levels.pop()
            continue
        yield key, stem + ("└" if is_last else "├")
        if children := below.get(nodes.get(key, "")):
            deeper = stem + (" " if is_last else "│")
            open_levels.append((deeper, iter(_pair(children))))


def _pair(keys: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Keys, and whether each is the last."""
    return ((key, at == len(keys)) for at, key in enumerate(keys, 1))


def _measure_stairs(
    tree: Tree,
) -> tuple[tuple[tuple[str, float], ...], tuple[float, ...]]:
    """Over what passed its gate, in the order of numbers."""
    sign = 1 if tree.options.primary.direction == "max" else -1
    stairs, steps = list[tuple[str, float]](), list[float]()
    for one in tree.evaluations.values():
        judged = one.judgement
        if judged is None or judged.root is None or judged.gate is None:
            continue
        primary = judged.root.deltas[0]
        if not stairs and primary.baseline is not None:
            stairs.append(("root", primary.baseline))
            steps.append(primary.baseline)
        value = primary.candidate
        if not judged.gate.passed or value is None:
            continue
        if not stairs or sign * value > sign * stairs[-1][1]:
            stairs.append((one.id, value))
        steps.append(stairs[-1][1])
    return tuple(stairs), tuple(steps)


def find_state(
    tree: Tree, outline: Outline, key: str, find_step: FindStep
) -> tuple[State, str]:
    """What a row is, and why, in a few words."""
    if key == ROOT:
        return _find_root_state(tree, find_step)
    if key in outline.ideas:
        same = outline.ideas[key][1]
        if same:
            return ("=", "repeat", "skipped"), f"repeats {outside(same)}"
        return ("◌", "waiting", "waiting"), "waits for its turn"
    one = tree.evaluations[key]
    reason = find_reason(tree, outline, one)
    told = outside(short(reason)) if reason else ""
    if one.judgement is None:
        ending: State = ("◂", "ending", "running")
        return ending if one.ending else find_step(one), told or _tell_again(one)
    if one.id in outline.nodes:
        return ("★", f"beam {outline.nodes[one.id]}", "accent"), told
    if one.mark is not None:
        is_in = one.mark.choice == "promote"
        word: State = (
            ("★", "marked", "accent") if is_in else ("✗", "rejected", "failed")
        )
        return word, told
    return _find_judged(one, reason), told


def _find_root_state(tree: Tree, find_step: FindStep) -> tuple[State, str]:
    one = tree.evaluations.get(BASELINE)
    if tree.nodes[ROOT].baseline is not None:
        return ("●", "root", "strong"), ""
    if one is not None and one.judgement is None:
        return find_step(one), "is being measured"
    return ("✗", "root", "failed"), "is not measured"


def _find_judged(one: Evaluation, reason: Why | None) -> State:
    code = reason.code if reason else ""
    if code == "candidate_failed" and reason is not None:
        code = str(dict(reason.args).get("code", ""))
    judged = one.judgement
    if code in _CODES:
        return _CODES[code]
    if judged is not None and judged.gate is not None:
        passed: State = ("✓", "passed", "done")
        return passed if judged.gate.passed else ("✗", "refused", "failed")
    return ("!", "failed", "failed")


def find_reason(tree: Tree, outline: Outline, one: Evaluation) -> Why | None:
    """Why it is as it is: of an open one, why it is being ended. While its depth is
    open no rank is final, and the gate's word stands."""
    judged, ranked = one.judgement, outline.ranked.get(one.id)
    if judged is None:
        return one.ending
    is_final = one.id not in tree.here or one.mark is not None
    if judged.gate is not None and judged.gate.passed and ranked and not is_final:
        is_rank = ranked.why.code in ("promoted", "beyond_beam")
        return judged.gate.why if is_rank else ranked.why
    return ranked.why if ranked else judged.gate.why if judged.gate else judged.why


def _tell_again(one: Evaluation) -> str:
    times = one.round - 1 + one.retries
    return f"try {times + 1}" if times else ""


def build_head(tree: Tree, outline: Outline, cells: int) -> Line:
    """The names of the columns."""
    name = outside(tree.options.primary.name).upper()
    idea, _ = _share(cells, outline)
    state = _measure_state(outline)
    numbers = (fit(one, _NUMBER, right=True) for one in (name, "PARENT", "ROOT"))
    titles = (
        f"{'STATE':<{state}} {'ID':<4} {fit('IDEA', idea)} {' '.join(numbers)}  WHY"
    )
    return cut(line(Span(f"  {titles}", "muted")), cells)


def _measure_state(outline: Outline) -> int:
    return outline.deepest + _WORD


def _share(cells: int, outline: Outline) -> tuple[int, int]:
    """Cells of idea and reason."""
    left = cells - 2 - _measure_state(outline) - 6 - 3 * (_NUMBER + 1) - 2
    idea = max(8, min(48, left * 3 // 5))
    return idea, max(0, left - idea)


def build_row(
    tree: Tree, outline: Outline, place: int, cells: int, find_step: FindStep
) -> Line:
    """One line of the tree, gutter left out."""
    key = outline.keys[place]
    (glyph, word, role), told = find_state(tree, outline, key, find_step)
    stem = outline.stems[place][-_LEVELS:]
    idea, reason = _share(cells + 2, outline)
    state = _measure_state(outline) - len(stem)
    number = key if key in tree.evaluations or key == ROOT else "-"
    title, parent, root = _find_title(tree, outline, key), None, None
    if (one := tree.evaluations.get(key)) and one.judgement:
        parent, root = one.judgement.parent, one.judgement.root
    value = root.deltas[0].candidate if root else None
    if key == ROOT and outline.stairs and outline.stairs[0][0] == "root":
        value = outline.stairs[0][1]
    return line(
        Span(stem, "rule"),
        Span(fit(f"{glyph} {word}", state), role),
        Span(f" {fit(number, 4)} ", "muted"),
        Span(f"{fit(title, idea)} "),
        Span(format_metric(value).rjust(_NUMBER), "strong"),
        *_render_change(parent),
        *_render_change(root),
        Span(f"  {fit(told, reason)}", "muted" if role == "done" else role),
    )


def _find_title(tree: Tree, outline: Outline, key: str) -> str:
    if key == ROOT:
        return f"the root, {tree.root_commit[:12]}"
    if key in outline.ideas:
        return outside(outline.ideas[key][0].title)
    idea = tree.evaluations[key].idea
    return outside(idea.title) if idea else ""


def _render_change(side: Comparison | None) -> Line:
    """A relative change of the primary metric; more is better."""
    relative = side.deltas[0].relative if side else None
    return (
        Span(f" {format_change(relative).rjust(_NUMBER)}", _find_change_role(relative)),
    )


def format_change(relative: float | None) -> str:
    return "-" if relative is None else f"{100 * relative:+.1f}%"


def _find_change_role(relative: float | None) -> Role:
    if not relative:
        return "muted"
    return "done" if relative > 0 else "failed"


def build_stairs(tree: Tree, outline: Outline, cells: int) -> Line:
    """`best  0.754 root ▁▁▃▅▇█ 0.966 e27`: the best so far, by evaluation."""
    primary = tree.options.primary
    better = "higher" if primary.direction == "max" else "lower"
    about = f"  {outside(primary.name)}, {better} is better"
    if not outline.stairs:
        return cut(
            line(Span(" best ", "muted"), "nothing is measured yet", about), cells
        )
    (_, first), (name, last) = outline.stairs[0], outline.stairs[-1]
    left = line(Span(" best ", "muted"), f"{format_metric(first)} root ")
    right = line(Span(f" {format_metric(last)} {name}", "strong"), Span(about, "muted"))
    room = max(8, cells - width(left) - width(right))
    curve = Span(render_sparkline(outline.steps, min(room, 60)), "curve1")
    return cut((*left, curve, *right), cells)


def describe_progress(tree: Tree) -> Line:
    """Depth, evaluations and what is under way, for the title of the tree."""
    options = tree.options
    depth = min(tree.depth + 1, options.max_depth)
    most = options.max_total_idea_evals
    opened = f"{tree.opened} of {most} opened" if most else f"{tree.opened} opened"
    parts = [f"depth {depth} of {options.max_depth}", opened]
    parts += [f"{len(tree.open)} open"] if tree.open else []
    parts += [f"{len(tree.waiting)} wait"] if tree.waiting else []
    if tree.stopped is not None:
        parts.insert(0, f"ended: {outside(short(tree.stopped))}")
    return line(", ".join([*parts, f"beam {options.beam_width}"]))


def build_frontier(
    tree: Tree, outline: Outline, cells: int, rows: int
) -> Sequence[Line]:
    """Who would go on if the depth closed now; where there is room, the budgets."""
    chosen = [one for one in outline.frontier if one.promoted]
    if rows <= 1:
        head = f" if depth {tree.depth + 1} closed now: " if tree.is_listed else " "
        names = (f"{one.rank} e{one.eval_id} {_spell_rank(one)}" for one in chosen)
        told = "   ".join(names) or _tell_none(tree)
        return [cut(line(Span(head, "muted"), told), cells)]
    lines = [
        line(
            Span(f" {one.rank or '-':>2}  e{one.eval_id:<4} ", "accent"),
            Span(f"{_spell_rank(one):>8}  "),
            Span(outside(sentence(one.why, 0.0)), "muted"),
        )
        for one in outline.frontier
    ]
    lines = lines or [line(Span(f" {_tell_none(tree)}", "muted"))]
    return [cut(one, cells) for one in [*lines[: rows - 1], _render_budget(tree)]]


def _tell_none(tree: Tree) -> str:
    if tree.stopped is not None:
        best = tree.find_best()
        return f"the search has ended; the best node is {best.id if best else ROOT}"
    return "nothing passed yet" if tree.is_listed else "ideas are being sought"


def _spell_rank(one: Ranked) -> str:
    if one.rank_score is None:
        return "-"
    return f"{one.rank_score:+.3f}"


def _render_budget(tree: Tree) -> Line:
    """What may still be opened; without a limit of evaluations the depths alone."""
    options = tree.options
    most = options.max_total_idea_evals
    shares = [("depths", len(tree.closed), options.max_depth)]
    shares += [("evaluations", tree.opened, most)] if most else []
    spans: list[Span] = []
    for name, used, limit in shares:
        spans += (Span(f" {name} {used} of {limit} ", "muted"),)
        spans += render_bar(used / max(1, limit), 12)
    return tuple(spans)


def build_detail(
    tree: Tree,
    outline: Outline,
    key: str,
    find_step: FindStep,
    isolation: Mapping[str, str],
    cells: int,
) -> Sequence[Line]:
    """All that is known of a row; `isolation`: what held, by step."""
    (glyph, word, role), told = find_state(tree, outline, key, find_step)
    one = tree.evaluations.get(BASELINE if key == ROOT else key)
    reason = find_reason(tree, outline, one) if one is not None else None
    why = outside(sentence(reason, 0.0), 2000) if reason else told
    lines = [line(Span(f"{glyph} {word}", role), f"  {why}" if why else "")]
    if key == ROOT:
        pairs = [*_list_root(tree)]
    elif key in outline.ideas:
        pairs = [*_list_idea(tree, *outline.ideas[key])]
    else:
        assert one is not None, "a row is the root, an idea or an evaluation"
        pairs = [*_list_evaluation(tree, outline, one)]
    shown = [*lines, *render_pairs(pairs, "", 8)]
    if one is not None:
        shown += [*_render_metrics(one, cells), *_render_checks(one, isolation)]
        shown += render_pairs(_list_paths(tree, outline, one), "", 8)
    return [part for content in shown for part in wrap(content, cells, " " * 10)]


def _list_root(tree: Tree) -> Iterator[tuple[str, str]]:
    options = tree.options
    baseline = tree.nodes[ROOT].baseline
    yield "Commit", tree.root_commit
    yield "Results", outside(baseline.path) if baseline else "not measured yet"
    yield "Beam", f"{options.beam_width} ({options.frontier}), {options.max_depth} deep"
    ideas = tree.nodes[ROOT].ideas
    number = "being sought" if ideas is None else str(len(ideas))
    yield "Ideas", f"{number}, {options.ideas_per_node} a node are asked for"
    for one in tree.leftovers.values():
        yield "Left", outside(f"{one.path}: {one.reason} ({one.attempts} tries)")


def _list_idea(tree: Tree, idea: Idea, same: str) -> Iterator[tuple[str, str]]:
    yield "Idea", outside(idea.title)
    yield "Node", idea.node
    if same:
        yield "Same as", outside(same)
    yield "Path", outside(posixpath.join(tree.directory, "node_ideas", idea.id))


def _list_evaluation(
    tree: Tree, outline: Outline, one: Evaluation
) -> Iterator[tuple[str, str]]:
    if one.idea is not None:
        by = f", by {one.idea.by}" if one.idea.by else ""
        yield "Idea", outside(f"{one.idea.title}{by}", 2000)
    parent = tree.nodes[one.node]
    of = f" ({parent.evaluation})" if parent.evaluation else ""
    again = _tell_again(one)
    yield "On", f"{one.node}{of}, depth {one.depth + 1}{again and ', ' + again}"
    if one.mark is not None:
        mark = f"{one.mark.choice} by {one.mark.by}: {one.mark.reason}"
        yield "Mark", outside(mark, 2000)
    judged, ranked = one.judgement, outline.ranked.get(one.id)
    if judged is None:
        return
    if judged.gate is not None:
        refusals = judged.gate.refusals or (judged.gate.why,)
        for at, refusal in enumerate(refusals):
            yield "" if at else "Gate", outside(sentence(refusal, 0.0), 2000)
    if ranked is not None:
        now = "" if one.id not in tree.here else ", if the depth closed now"
        place = f"{ranked.rank}, {_spell_rank(ranked)}" if ranked.rank else "none"
        yield "Rank", f"{place} beside the root{now}"
    if judged.counts is not None:
        counts = judged.counts
        yield "Rows", f"{counts.ok_count} of {counts.expected_count} ok"
    if judged.commit:
        yield "Code", f"{judged.commit[:12]}, {plural(judged.files, 'file')}"


def _render_metrics(one: Evaluation, cells: int) -> Iterator[Line]:
    """Each metric on the root, the parent and here, and the changes to both."""
    judged = one.judgement
    if judged is None or judged.parent is None or judged.root is None:
        return
    name = max(8, min(34, cells - 5 * (_NUMBER + 1)))
    titles = [
        f"{one:>{_NUMBER}}" for one in ("ROOT", "PARENT", "THIS", "+PAR", "+ROOT")
    ]
    yield ()
    yield cut(line(Span(" ".join([fit("METRIC", name), *titles]), "muted")), cells)
    for root, parent in zip(judged.root.deltas, judged.parent.deltas, strict=True):
        yield cut(_render_metric(root, parent, name, judged.root.risk_flags), cells)
    yield ()


def _render_metric(
    root: MetricDelta, parent: MetricDelta, name: int, flags: Sequence[str]
) -> Line:
    values = (root.baseline, parent.baseline, root.candidate)
    cells = "".join(f" {format_metric(one):>{_NUMBER}}" for one in values)
    mark = "! " if root.name in flags else ""
    changes = [
        Span(f" {format_change(one.relative):>{_NUMBER}}", _find_change_role(one.delta))
        for one in (parent, root)
    ]
    return line(fit(f"{mark}{outside(root.name)}", name), cells, *changes)


def _render_checks(one: Evaluation, isolation: Mapping[str, str]) -> Iterator[Line]:
    judged = one.judgement
    if judged is None:
        return
    for doubt in judged.doubts:
        yield line(Span(f"! {outside(sentence(doubt, 0.0), 2000)}", "warning"))
    if judged.measured_itself and judged.outcome == "scored":
        yield line(Span("! The candidate measured itself: no scorer.", "warning"))
    for step, held in isolation.items():
        yield line(Span(f"{step}: ", "muted"), outside(held, 2000))


def _list_paths(
    tree: Tree, outline: Outline, one: Evaluation
) -> Iterator[tuple[str, str]]:
    yield "Files", outside(find_evaluation_dir(tree.directory, one.id))
    node, root = outline.nodes.get(one.id), tree.options.worktree_root or tree.directory
    if node:
        yield "Node", outside(find_node_dir(root, node))
    elif one.judgement is None or one.id in tree.here:
        yield "Tree", outside(find_candidate_dir(root, one.id))
    if one.idea is not None:
        path = posixpath.join(tree.directory, "node_ideas", one.idea.id)
        yield "Idea at", outside(path)
