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
from autoexp_tui.tree.jobs import (
    find_candidate_dir,
    find_evaluation_dir,
    find_ideas_dir,
    find_node_dir,
)
from autoexp_tui.tree.ranking import rank_evaluations
from autoexp_tui.tree.state import (
    BASELINE,
    ROOT,
    Evaluation,
    Idea,
    Judgement,
    Ranked,
    Tree,
)

if TYPE_CHECKING:
    from autoexp_tui.model.states import Why

State: TypeAlias = tuple[str, str, Role]
"""Glyph, word and role."""
FindStep: TypeAlias = Callable[[Evaluation], State]
"""What the jobs of an evaluation that is open are doing."""
_WORD: Final = 11
"""Cells of glyph and word."""
_LEVELS: Final = 5
"""Levels that are drawn; of deeper ones the last."""
_NUMBER: Final = 7
_LONG: Final = 2000
_WORSE: Final[State] = ("✗", "worse", "failed")
_MARKED: Final[Mapping[str, State]] = {
    "promote": ("★", "marked", "accent"),
    "reject": ("✗", "rejected", "failed"),
}
_CODES: Final[Mapping[str, State]] = {
    "indecisive": ("~", "in noise", "stalled"),
    "repeated_change": ("=", "repeat", "skipped"),
    "primary_regressed": _WORSE,
    "should_explore_false": _WORSE,
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
    state_cells: int
    """Of the column of states, with these lines."""
    ideas: Mapping[str, tuple[Idea, str]]
    """Ideas without a number, by id, and which idea each repeats; empty: it waits."""
    nodes: Mapping[str, str]
    """Evaluation -> the node that it became."""
    ranked: Mapping[str, Ranked]
    """The ranking of each evaluation; in the present depth, as if it closed now."""
    frontier: tuple[Ranked, ...]
    """The ranking of the present depth, if it closed now."""
    best: str
    """The evaluation that is best so far; empty: the root is."""
    steps: tuple[float, ...]
    """The best so far, of the root and after each evaluation that passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What the files of an evaluation say."""

    isolation: Sequence[str] = ()
    """What held in its steps."""
    calls: Sequence[str] = ()
    """What came of each call of an agent."""
    changes: Sequence[Line] = ()
    """The beginning of its change."""


def sign_tree(tree: Tree) -> tuple[object, ...]:
    """What an outline depends on: equal means the same outline."""
    marks = tuple(one.mark for one in tree.list_here())
    lists = (tree.open, tree.waiting, tree.added, tree.closed, tree.skipped, tree.here)
    return (*lists, len(tree.evaluations), tree.nodes[ROOT].baseline, marks)


def build_outline(tree: Tree) -> Outline:
    """Costs what the tree holds."""
    nodes = {one.evaluation: one.id for one in tree.nodes.values()}
    ideas = {one.idea.id: (one.idea, one.same_as) for one in tree.skipped}
    ideas |= {idea.id: (idea, "") for idea in (*tree.waiting, *tree.added)}
    below: defaultdict[str, list[str]] = defaultdict(list)
    for one in tree.evaluations.values():
        if one.idea is not None:
            below[one.node].append(one.id)
    for key, (idea, _) in ideas.items():
        below[idea.node].append(key)
    keys, stems = zip(*_walk(below, nodes), strict=True)
    ended = [one for one in tree.list_here() if one.judgement is not None]
    frontier = rank_evaluations(ended, tree.options)
    past = (ranked for depth in tree.closed for ranked in depth.ranking)
    best, steps = _measure_steps(tree)
    return Outline(
        keys=keys,
        stems=stems,
        state_cells=_WORD + min(_LEVELS, max(map(len, stems))),
        ideas=ideas,
        nodes=nodes,
        ranked={f"e{one.eval_id}": one for one in (*past, *frontier)},
        frontier=frontier,
        best=best,
        steps=steps,
    )


def _walk(
    below: Mapping[str, Sequence[str]], nodes: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Each key behind its parent, with the lines before it."""
    yield ROOT, ""
    levels = [("", iter(below.get(ROOT, ())), len(below.get(ROOT, ())))]
    while levels:
        stem, rest, left = levels.pop()
        if not left:
            continue
        key, is_last = next(rest), left == 1
        levels.append((stem, rest, left - 1))
        yield key, stem + ("└" if is_last else "├")
        children = below.get(nodes.get(key, ""), ())
        deeper = stem + (" " if is_last else "│")
        levels.append((deeper, iter(children), len(children)))


def _measure_steps(tree: Tree) -> tuple[str, tuple[float, ...]]:
    """Over what passed its gate, in the order of numbers."""
    sign = 1 if tree.options.primary.direction == "max" else -1
    root, best = tree.find_root_primary(), ""
    steps = [] if root is None else [root]
    for one in tree.evaluations.values():
        judged = one.judgement
        if judged is None or judged.root is None or judged.gate is None:
            continue
        value = judged.root.deltas[0].candidate
        if judged.gate.has_passed and value is not None:
            if not steps or sign * value > sign * steps[-1]:
                best = one.id
                steps.append(value)
            else:
                steps.append(steps[-1])
    return best, tuple(steps)


def find_state(
    tree: Tree, outline: Outline, key: str, find_step: FindStep
) -> tuple[State, str]:
    """What a row is, and why, in a few words."""
    if key in outline.ideas:
        same = outline.ideas[key][1]
        repeat = (_CODES["repeated_change"], f"repeats {outside(same)}")
        return repeat if same else (("◌", "waiting", "waiting"), "in line")
    one = tree.evaluations.get(BASELINE if key == ROOT else key)
    if key == ROOT and tree.nodes[ROOT].baseline is not None:
        return ("●", "root", "strong"), ""
    if one is None:
        return ("✗", "root", "failed"), "is not measured"
    reason = find_reason(tree, outline, one)
    told = outside(short(reason)) if reason else _describe_tries(one)
    if one.judgement is not None:
        return _find_judged(outline, one, reason), told
    ending: State = ("◂", "ending", "running")
    return ending if one.ending else find_step(one), told


def _find_judged(outline: Outline, one: Evaluation, reason: Why | None) -> State:
    if node := outline.nodes.get(one.id):
        return "★", f"beam {node}", "accent"
    if one.mark is not None:
        return _MARKED[one.mark.choice]
    code = reason.code if reason else ""
    if reason is not None and code == "candidate_failed":
        code = str(reason.arg("code"))
    judged = one.judgement
    if code in _CODES or judged is None or judged.gate is None:
        return _CODES.get(code, ("!", "failed", "failed"))
    return (
        ("✓", "passed", "done")
        if judged.gate.has_passed
        else ("✗", "refused", "failed")
    )


def find_reason(tree: Tree, outline: Outline, one: Evaluation) -> Why | None:
    """Why it is as it is: of an open one, why it is being ended. While its depth is
    open no rank is final, and the gate's word stands."""
    judged, ranked = one.judgement, outline.ranked.get(one.id)
    if judged is None:
        return one.ending
    if ranked is None:
        return judged.reason
    is_open = one.id in tree.here and one.mark is None
    if is_open and judged.gate and ranked.why.code in ("promoted", "beyond_beam"):
        return judged.gate.why
    return ranked.why


def _describe_tries(one: Evaluation) -> str:
    times = one.round - 1 + one.retries
    return f"try {times + 1}" if times else ""


def build_head(tree: Tree, outline: Outline, cells: int) -> Line:
    """The names of the columns: changes are those of the primary metric."""
    name = outside(tree.options.primary.name).upper()
    idea, _ = _share(cells, outline)
    numbers = (fit(one, _NUMBER, right=True) for one in (name, "+PARENT", "+ROOT"))
    titles = f"{fit('STATE', outline.state_cells)} ID   {fit('IDEA', idea)}"
    return cut(line(Span(f"  {titles} {' '.join(numbers)}  WHY", "muted")), cells)


def _share(cells: int, outline: Outline) -> tuple[int, int]:
    """Cells of idea and reason, of a whole line."""
    left = cells - 10 - outline.state_cells - 3 * (_NUMBER + 1)
    idea = max(8, min(48, left * 3 // 5))
    return idea, max(0, left - idea)


def build_row(
    tree: Tree, outline: Outline, place: int, cells: int, find_step: FindStep
) -> Line:
    """One line of the tree, gutter left out."""
    key, stem = outline.keys[place], outline.stems[place][-_LEVELS:]
    (glyph, word, role), told = find_state(tree, outline, key, find_step)
    idea, reason = _share(cells + 2, outline)
    one = tree.evaluations.get(key)
    judged = one.judgement if one else None
    value = tree.find_root_primary() if key == ROOT else None
    if judged and judged.root:
        value = judged.root.deltas[0].candidate
    return line(
        Span(stem, "rule"),
        Span(fit(f"{glyph} {word}", outline.state_cells - len(stem)), role),
        Span(f" {key if one or key == ROOT else '-':<4} ", "muted"),
        Span(f"{fit(_find_title(tree, outline, key), idea)} "),
        Span(format_metric(value).rjust(_NUMBER), "strong"),
        *(
            _render_change(side.deltas[0].relative if side else None)
            for side in ((judged.parent, judged.root) if judged else (None, None))
        ),
        Span(f"  {fit(told, reason)}", "muted" if role == "done" else role),
    )


def _find_title(tree: Tree, outline: Outline, key: str) -> str:
    if key == ROOT:
        return f"the root, {tree.root_commit[:12]}"
    idea = outline.ideas[key][0] if key in outline.ideas else tree.evaluations[key].idea
    return outside(idea.title) if idea else ""


def _render_change(relative: float | None) -> Span:
    """A relative change of a metric; more is better."""
    role: Role = "done" if relative and relative > 0 else "failed"
    text = "-" if relative is None else f"{100 * relative:+.1f}%"
    return Span(f" {text:>{_NUMBER}}", role if relative else "muted")


def build_stairs(tree: Tree, outline: Outline, cells: int) -> Line:
    """`best  0.754 root ▁▁▃▅▇█ 0.966 e27`: the best so far, by evaluation."""
    primary, steps = tree.options.primary, outline.steps
    better = "higher" if primary.direction == "max" else "lower"
    about = f"  {outside(primary.name)}, {better} is better"
    if (error := tree.measure_error()) is not None:
        about += f"; noise ±{format_metric(error)}"
    best = Span(" best ", "muted")
    if not steps:
        return cut(line(best, "nothing is measured yet", about), cells)
    left = line(best, f"{format_metric(steps[0])} root ")
    last = f" {format_metric(steps[-1])} {outline.best or 'root'}"
    right = line(Span(last, "strong"), Span(about, "muted"))
    room = min(60, max(8, cells - width(left) - width(right)))
    return cut((*left, Span(render_sparkline(steps, room), "curve1"), *right), cells)


def describe_progress(tree: Tree) -> Line:
    """Depth, evaluations and what is under way, for the title of the tree."""
    options = tree.options
    wait = len(tree.waiting) + len(tree.added)
    counts = ((tree.opened, "opened"), (len(tree.open), "open"), (wait, "wait"))
    depth = min(tree.depth + 1, options.max_depth)
    parts = [f"ended: {outside(short(tree.stopped))}"] if tree.stopped else []
    parts += [f"depth {depth} of {options.max_depth}"]
    parts += [f"{number} {word}" for number, word in counts if number]
    parts += [f"beam {options.beam_width}", "gate on the parent, rank on the root"]
    return line(", ".join(parts))


def build_frontier(
    tree: Tree, outline: Outline, cells: int, rows: int
) -> Sequence[Line]:
    """Who would go on if the depth closed now; where there is room, the budgets."""
    if rows <= 1:
        head = f" if depth {tree.depth + 1} closed now: " if tree.is_listed else " "
        chosen = [one for one in outline.frontier if one.promoted]
        names = (f"{one.rank} e{one.eval_id} {_format_score(one)}" for one in chosen)
        told = "   ".join(names) or _describe_nobody(tree)
        return [cut(line(Span(head, "muted"), told), cells)]
    lines = [
        line(
            Span(f" {one.rank or '-':>2}  e{one.eval_id:<4} ", "accent"),
            Span(f"{_format_score(one):>8}  "),
            Span(outside(sentence(one.why, 0.0)), "muted"),
        )
        for one in outline.frontier[: rows - 1]
    ]
    lines = lines or [line(Span(f" {_describe_nobody(tree)}", "muted"))]
    return [cut(one, cells) for one in [*lines, _render_budget(tree)]]


def _describe_nobody(tree: Tree) -> str:
    if tree.stopped is not None:
        best = tree.find_best()
        return f"the search has ended; the best node is {best.id if best else ROOT}"
    return "nothing passed yet" if tree.is_listed else "ideas are being sought"


def _format_score(one: Ranked) -> str:
    return "-" if one.rank_score is None else f"{one.rank_score:+.3f}"


def _render_budget(tree: Tree) -> Line:
    """What may still be opened; without a limit of evaluations the depths alone."""
    options, spans = tree.options, list[Span]()
    depths = ("depths", len(tree.closed), options.max_depth)
    evaluations = ("evaluations", tree.opened, options.max_total_idea_evals)
    for name, used, limit in (depths, evaluations):
        if limit:
            spans.append(Span(f" {name} {used} of {limit} ", "muted"))
            spans += render_bar(used / limit, 12)
    return tuple(spans)


def build_detail(
    tree: Tree,
    outline: Outline,
    key: str,
    find_step: FindStep,
    records: Records,
    cells: int,
) -> Sequence[Line]:
    """All that is known of a row."""
    (glyph, word, role), told = find_state(tree, outline, key, find_step)
    one = tree.evaluations.get(BASELINE if key == ROOT else key)
    reason = find_reason(tree, outline, one) if one is not None else None
    why = outside(sentence(reason, 0.0), _LONG) if reason else told
    lines = [line(Span(f"{glyph} {word}", role), f"  {why}" if why else "")]
    lines += render_pairs(_list_about(tree, outline, key, reason), "", 9, 9)
    if one is not None and one.judgement is not None:
        lines += _render_metrics(one.judgement, cells)
        lines += _list_doubts(one.judgement)
    more = [*_list_files(tree, outline, key)]
    more += [("Calls", outside(call, _LONG)) for call in records.calls]
    more += [("Isolation", outside(text, _LONG)) for text in records.isolation]
    lines += render_pairs(more, "", 9, 9)
    shown = [part for content in lines for part in wrap(content, cells, " " * 11)]
    if records.changes:
        title = Span(f"Change against {one.node if one else ''}", "title")
        shown += [(), line(title, Span("  d: all of it", "muted"))]
        shown += [cut(content, cells) for content in records.changes]
    return shown


def _list_about(
    tree: Tree, outline: Outline, key: str, reason: Why | None
) -> Iterator[tuple[str, str]]:
    """What a row is; of an evaluation what was decided of it, but for `reason`."""
    if key == ROOT:
        yield from _list_root(tree)
        return
    one = tree.evaluations.get(key)
    idea = one.idea if one else outline.ideas[key][0]
    if idea is not None:
        by = f", by {idea.by}" if idea.by else ""
        yield "Idea", outside(f"{idea.title}{by}", _LONG)
        node = tree.nodes[idea.node]
        of = f" ({node.evaluation})" if node.evaluation else ""
        again = one and _describe_tries(one)
        depth = f", depth {one.depth + 1}" if one else ""
        yield "On", f"{node.id}{of}{depth}{f', {again}' if again else ''}"
    if one is not None and one.mark is not None:
        mark = f"{one.mark.choice} by {one.mark.by}: {one.mark.reason}"
        yield "Mark", outside(mark, _LONG)
    if one is not None and one.judgement is not None:
        yield from _list_decision(tree, outline, one, reason)


def _list_decision(
    tree: Tree, outline: Outline, one: Evaluation, reason: Why | None
) -> Iterator[tuple[str, str]]:
    judged, ranked = one.judgement, outline.ranked.get(one.id)
    assert judged is not None, "it has ended"
    words = judged.gate.refusals or (judged.gate.why,) if judged.gate else ()
    for word in words:
        if word != reason:
            yield "Gate", outside(sentence(word, 0.0), _LONG)
    if ranked is not None and ranked.rank:
        now = ", if the depth closed now" if one.id in tree.here else ""
        basis = (ranked.basis or "").replace("_", " ")
        yield "Rank", f"{ranked.rank}: {basis} {_format_score(ranked)} on the root{now}"
    if judged.counts is not None:
        yield "Rows", f"{judged.counts.ok_count} of {judged.counts.expected_count} ok"
    if judged.commit:
        yield "Code", f"{judged.commit[:12]}, {plural(judged.files, 'file')}"


def _list_root(tree: Tree) -> Iterator[tuple[str, str]]:
    options, node = tree.options, tree.nodes[ROOT]
    yield "Commit", tree.root_commit
    results = node.baseline.path if node.baseline else "not measured yet"
    yield "Results", outside(results)
    yield "Beam", f"{options.beam_width} ({options.frontier}), {options.max_depth} deep"
    number = "being sought" if node.ideas is None else str(len(node.ideas))
    yield "Ideas", f"{number}, {options.ideas_per_node} a node are asked for"
    for one in tree.leftovers.values():
        yield "Left", outside(f"{one.path}: {one.reason} ({one.attempts} tries)")


def _render_metrics(judged: Judgement, cells: int) -> Iterator[Line]:
    """Each metric on the root, the parent and here, and the changes to both."""
    if judged.parent is None or judged.root is None:
        return
    number = _NUMBER + 1
    titles = ("ROOT", "PARENT", "THIS", "+PARENT", "+ROOT")[: (cells - 8) // number]
    name = max(8, min(34, cells - len(titles) * number))
    head = "".join(f"{title:>{number}}" for title in titles)
    yield ()
    yield cut(line(Span(f"{fit('METRIC', name)}{head}", "muted")), cells)
    for root, parent in zip(judged.root.deltas, judged.parent.deltas, strict=True):
        mark = "! " if root.name in judged.root.risk_flags else ""
        values = map(format_metric, (root.baseline, parent.baseline, root.candidate))
        row = line(
            fit(f"{mark}{outside(root.name)}", name),
            "".join(f"{one:>{number}}" for one in values),
            *(_render_change(one.relative) for one in (parent, root)),
        )
        yield cut(row[: len(titles) - 1], cells)
    yield ()


def _list_doubts(judged: Judgement) -> Iterator[Line]:
    told = [outside(sentence(doubt, 0.0), _LONG) for doubt in judged.doubts]
    if judged.measured_itself and judged.outcome == "scored":
        told.append("The candidate measured itself: no scorer.")
    return (line(Span(f"! {one}", "warning")) for one in told)


def find_files(tree: Tree, outline: Outline, key: str) -> str:
    """The directory of what a row is about, or the file of an idea; absolute."""
    if key in outline.ideas:
        return posixpath.join(find_ideas_dir(tree.directory, ""), key)
    return tree.directory if key == ROOT else find_evaluation_dir(tree.directory, key)


def _list_files(tree: Tree, outline: Outline, key: str) -> Iterator[tuple[str, str]]:
    """Where the parts of a row lie, below the search's directory where they do."""
    root = tree.options.worktree_root or tree.directory
    above = "" if key == ROOT else f"{tree.directory}/"
    paths = [find_files(tree, outline, key)]
    if (one := tree.evaluations.get(key)) and one.idea is not None:
        paths.append(posixpath.join(find_ideas_dir(tree.directory, ""), one.idea.id))
        if node := outline.nodes.get(key):
            paths.append(find_node_dir(root, node))
        elif one.judgement is None or key in tree.here:
            paths.append(find_candidate_dir(root, key))
    for at, path in enumerate(paths):
        yield "" if at else "Files", outside(path.removeprefix(above))
