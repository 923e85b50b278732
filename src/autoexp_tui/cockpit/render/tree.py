"""A search as lines: its tree, the best so far, who would go on if the depth closed
now, and all that is known of one evaluation."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.outline import (
    WAITING,
    Outline,
    Pairs,
    State,
    describe_job,
    find_current_job,
    label_first,
)
from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    line,
    outside,
    render_bar,
    render_sparkline,
    width,
)
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.text.spelling import format_metric, plural
from autoexp_tui.tree.jobs import (
    SWEEP,
    find_candidate_dir,
    find_evaluation_dir,
    find_ideas_dir,
    find_node_dir,
    list_job_names,
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
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.states import Why

_WORD: Final = 11
"""Cells of glyph and word."""
_LEVELS: Final = 5
"""Levels that are drawn; of deeper ones the last."""
_NUMBER: Final = 7
_LABEL: Final = 9
_LONG: Final = 2000
_WORSE: Final[State] = ("✗", "worse", "failed")
_REPEAT: Final[State] = ("=", "repeat", "skipped")
_MARKED: Final[Mapping[str, State]] = {
    "promote": ("★", "marked", "accent"),
    "reject": ("✗", "rejected", "failed"),
}
_CODES: Final[Mapping[str, State]] = {
    "indecisive": ("~", "in noise", "stalled"),
    "repeated_change": _REPEAT,
    "primary_regressed": _WORSE,
    "should_explore_false": _WORSE,
    "ended_by_hand": ("–", "ended", "skipped"),
    "eval_timeout": ("–", "too long", "skipped"),
    "tests_failed": ("!", "tests fail", "failed"),
}
"""What a row is called by the code of its reason."""
_GATES: Final[Mapping[bool | None, State]] = {
    True: ("✓", "passed", "done"),
    False: ("✗", "refused", "failed"),
    None: ("!", "failed", "failed"),
}
"""What it is called else, by whether it passed its gate; None: it came to none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What the files of an evaluation say."""

    facts: Sequence[tuple[str, str]] = ()
    """Labels and texts: what came of each call of an agent, what held in its steps."""
    changes: Sequence[Line] = ()
    """The beginning of its change."""


def sign_tree(tree: Tree) -> tuple[object, ...]:
    """What the rows of an outline depend on: equal means the same rows."""
    marks = tuple(one.mark for one in tree.list_here())
    lists = (tree.open, tree.waiting, tree.added, tree.closed, tree.skipped, tree.here)
    return (*lists, len(tree.evaluations), tree.nodes[ROOT].baseline, marks)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TreeOutline(Outline):
    """The rows are the root's node, evaluations, and ideas that have no number."""

    tree: Tree
    stems: tuple[str, ...]
    """The lines that lead to each row."""
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
    steps: Sequence[tuple[str, float]]
    """The best so far, with its value: the root, then after each evaluation that
    passed."""

    def build_title(self) -> Line:
        tree, options = self.tree, self.tree.options
        wait = len(tree.waiting) + len(tree.added)
        counts = ((tree.opened, "opened"), (len(tree.open), "open"), (wait, "wait"))
        depth = min(tree.depth + 1, options.max_depth)
        parts = [f"ended: {outside(short(tree.stopped))}"] if tree.stopped else []
        parts += [f"depth {depth} of {options.max_depth}"]
        parts += [f"{number} {word}" for number, word in counts if number]
        parts += [f"beam {options.beam_width}", "gate on the parent, rank on the root"]
        return line(", ".join(parts))

    def build_head(self, cells: int) -> Sequence[Line]:
        """Changes are those of the primary metric."""
        name = outside(self.tree.options.primary.name).upper()
        idea, _ = self._share(cells)
        numbers = (fit(one, _NUMBER, right=True) for one in (name, "+PARENT", "+ROOT"))
        titles = f"{fit('STATE', self.state_cells)} ID   {fit('IDEA', idea)}"
        head = line(Span(f"  {titles} {' '.join(numbers)}  WHY", "muted"))
        return self._build_stairs(cells), cut(head, cells)

    def _build_stairs(self, cells: int) -> Line:
        """`best  0.754 root ▁▁▃▅▇█ 0.966 e27`: the best so far, by evaluation."""
        primary, steps = self.tree.options.primary, [value for _, value in self.steps]
        better = "higher" if primary.direction == "max" else "lower"
        about = f"  {outside(primary.name)}, {better} is better"
        if (error := self.tree.measure_error()) is not None:
            about += f"; noise ±{format_metric(error)}"
        best = Span(" best ", "muted")
        if not steps:
            return cut(line(best, "nothing is measured yet", about), cells)
        left = line(best, f"{format_metric(steps[0])} root ")
        last = f" {format_metric(steps[-1])} {self.steps[-1][0]}"
        right = line(Span(last, "strong"), Span(about, "muted"))
        room = min(60, max(8, cells - width(left) - width(right)))
        curve = Span(render_sparkline(steps, room), "curve1")
        return cut((*left, curve, *right), cells)

    def _share(self, cells: int) -> tuple[int, int]:
        """Cells of idea and reason, of a whole line."""
        left = cells - 10 - self.state_cells - 3 * (_NUMBER + 1)
        idea = max(8, min(48, left * 3 // 5))
        return idea, max(0, left - idea)

    def build_row(self, place: int, cells: int) -> Line:
        key, stem = self.keys[place], self.stems[place][-_LEVELS:]
        (glyph, word, role), told = self.find_state(key)
        idea, reason = self._share(cells + 2)
        one = self.tree.evaluations.get(key)
        judged = one.judgement if one else None
        value = self.tree.find_root_primary() if key == ROOT else None
        if judged and judged.root:
            value = judged.root.deltas[0].candidate
        sides = (judged.parent, judged.root) if judged else (None, None)
        return line(
            Span(stem, "rule"),
            Span(fit(f"{glyph} {word}", self.state_cells - len(stem)), role),
            Span(f" {key if one or key == ROOT else '-':<4} ", "muted"),
            Span(f"{fit(self._find_title(key), idea)} "),
            Span(format_metric(value).rjust(_NUMBER), "strong"),
            *(_render_change(it.deltas[0].relative if it else None) for it in sides),
            Span(f"  {fit(told, reason)}", "muted" if role == "done" else role),
        )

    def _find_title(self, key: str) -> str:
        if key == ROOT:
            return f"the root, {self.tree.root_commit[:12]}"
        idea = self.find_idea(key)
        return outside(idea.title) if idea else ""

    def find_idea(self, key: str) -> Idea | None:
        """What a row tries; None: it is the root."""
        one = self.tree.evaluations.get(key)
        return one.idea if one else self.ideas[key][0] if key in self.ideas else None

    def find_evaluation(self, key: str) -> Evaluation | None:
        """Of a row; of the root what measures it."""
        return self.tree.evaluations.get(BASELINE if key == ROOT else key)

    def find_state(self, key: str) -> tuple[State, str]:
        """What a row is, and why, in a few words."""
        if key in self.ideas:
            same = self.ideas[key][1]
            return (_REPEAT, f"repeats {outside(same)}") if same else _IN_LINE
        if key == ROOT and self.tree.nodes[ROOT].baseline is not None:
            return ("●", "root", "strong"), ""
        one = self.find_evaluation(key)
        if one is None:
            return ("✗", "root", "failed"), "is not measured"
        reason = self._find_reason(one)
        told = outside(short(reason)) if reason else _describe_tries(one)
        if one.judgement is None:
            return self._find_step(one), told
        return self._find_judged(one, one.judgement, reason), told

    def _find_step(self, one: Evaluation) -> State:
        """What an evaluation that is open is doing."""
        if one.ending:
            return "◂", "ending", "running"
        job = find_current_job(self.find_jobs(one.id))
        glyph, _, role = describe_job(job)
        if job is None:
            return glyph, "opening", role
        stage = job.stage or SWEEP
        return glyph, stage if job.attempt is not None else "waiting", role

    def _find_judged(
        self, one: Evaluation, judged: Judgement, why: Why | None
    ) -> State:
        if node := self.nodes.get(one.id):
            return "★", f"beam {node}", "accent"
        if one.mark is not None:
            return _MARKED[one.mark.choice]
        code = why.code if why else ""
        if why is not None and code == "candidate_failed":
            code = str(why.arg("code"))
        gate = judged.gate.has_passed if judged.gate else None
        return _CODES.get(code, _GATES[gate])

    def _find_reason(self, one: Evaluation) -> Why | None:
        """Why it is as it is: of an open one, why it is being ended. While its depth is
        open no rank is final, and the gate's word stands."""
        judged, ranked = one.judgement, self.ranked.get(one.id)
        if judged is None:
            return one.ending
        if ranked is None:
            return judged.reason
        is_open = one.id in self.tree.here and one.mark is None
        if is_open and judged.gate and ranked.why.code in ("promoted", "beyond_beam"):
            return judged.gate.why
        return ranked.why

    def build_below(self, cells: int, rows: int) -> Sequence[Line]:
        """Who would go on if the depth closed now."""
        tree = self.tree
        if rows <= 1:
            head = f" if depth {tree.depth + 1} closed now: " if tree.is_listed else " "
            chosen = [one for one in self.frontier if one.promoted]
            names = (
                f"{one.rank} e{one.eval_id} {_format_score(one)}" for one in chosen
            )
            told = "   ".join(names) or _describe_nobody(tree)
            return [cut(line(Span(head, "muted"), told), cells)]
        lines = [
            line(
                Span(f" {one.rank or '-':>2}  e{one.eval_id:<4} ", "accent"),
                Span(f"{_format_score(one):>8}  "),
                Span(outside(sentence(one.why, 0.0)), "muted"),
            )
            for one in self.frontier[: rows - 1]
        ]
        lines = lines or [line(Span(f" {_describe_nobody(tree)}", "muted"))]
        return [cut(one, cells) for one in [*lines, _render_budget(tree)]]

    def build_detail(self, key: str, records: object, cells: int) -> Sequence[Line]:
        state, told = self.find_state(key)
        one = self.find_evaluation(key)
        reason = self._find_reason(one) if one is not None else None
        told = sentence(reason, 0.0) if reason else told
        head, about = self.render_state(state, told), self._list_facts(key, one, reason)
        lines = [*self.render_facts(about, _LABEL, cells, head)]
        judged = one.judgement if one is not None else None
        lines += _render_metrics(judged, cells) if judged else ()
        known = records if isinstance(records, Records) else Records()
        above = "" if key == ROOT else f"{self.tree.directory}/"
        files = (path.removeprefix(above) for path in self._list_files(key))
        more = [*label_first("Files", files), *known.facts]
        doubts = [sentence(it, 0.0) for it in judged.doubts] if judged else []
        if judged and judged.measured_itself and judged.outcome == "scored":
            doubts.append("The candidate measured itself: no scorer.")
        heads = (line(Span(f"! {outside(it, _LONG)}", "warning")) for it in doubts)
        lines += self.render_facts(more, _LABEL, cells, *heads)
        if known.changes:
            title = Span(f"Change against {one.node if one else ''}", "title")
            lines += [(), line(title, Span("  d: all of it", "muted"))]
            lines += [cut(content, cells) for content in known.changes]
        return lines

    def _list_facts(
        self, key: str, one: Evaluation | None, reason: Why | None
    ) -> Pairs:
        """What a row is; of an evaluation what was decided of it, but for `reason`."""
        if key == ROOT:
            yield from _list_root(self.tree)
            return
        if (idea := self.find_idea(key)) is not None:
            yield "Idea", f"{idea.title}, by {idea.by}" if idea.by else idea.title
            node = self.tree.nodes[idea.node]
            of = f" ({node.evaluation})" if node.evaluation else ""
            tried = (f"depth {one.depth + 1}", _describe_tries(one)) if one else ()
            yield "On", ", ".join(filter(None, (f"{node.id}{of}", *tried)))
        if one is not None and one.mark is not None:
            yield "Mark", f"{one.mark.choice} by {one.mark.by}: {one.mark.reason}"
        if one is None or (judged := one.judgement) is None:
            return
        gate, ranked = judged.gate, self.ranked.get(one.id)
        for word in (gate.refusals or (gate.why,)) if gate else ():
            yield "Gate", sentence(word, 0.0) if word != reason else ""
        if ranked is not None and ranked.rank:
            now = ", if the depth closed now" if one.id in self.tree.here else ""
            basis = f"{(ranked.basis or '').replace('_', ' ')} {_format_score(ranked)}"
            yield "Rank", f"{ranked.rank}: {basis} on the root{now}"
        if (rows := judged.counts) is not None:
            yield "Rows", f"{rows.ok_count} of {rows.expected_count} ok"
        if judged.commit:
            yield "Code", f"{judged.commit[:12]}, {plural(judged.files, 'file')}"

    def find_jobs(self, key: str) -> tuple[JobView, ...]:
        one = self.find_evaluation(key)
        names = list_job_names(self.tree, one) if one is not None else ()
        job = find_current_job(self.session.list_jobs(names))
        return (job,) if job is not None else ()

    def find_files(self, key: str) -> str:
        return next(self._list_files(key))

    def _list_files(self, key: str) -> Iterator[str]:
        """Where the parts of a row lie, the most important first."""
        tree, one = self.tree, self.tree.evaluations.get(key)
        root = tree.options.worktree_root or tree.directory
        if one is not None:
            yield find_evaluation_dir(tree.directory, key)
        if (idea := self.find_idea(key)) is None:
            yield tree.directory
            return
        yield posixpath.join(find_ideas_dir(tree.directory, ""), idea.id)
        if node := self.nodes.get(key):
            yield find_node_dir(root, node)
        elif one is not None and (one.judgement is None or key in tree.here):
            yield find_candidate_dir(root, key)


_IN_LINE: Final = (WAITING, "in line")


def build_outline(tree: Tree, session: SessionView) -> TreeOutline:
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
    return TreeOutline(
        session=session,
        tree=tree,
        keys=keys,
        stems=stems,
        state_cells=_WORD + min(_LEVELS, max(map(len, stems))),
        ideas=ideas,
        nodes=nodes,
        ranked={f"e{one.eval_id}": one for one in (*past, *frontier)},
        frontier=frontier,
        steps=_measure_steps(tree),
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


def _measure_steps(tree: Tree) -> Sequence[tuple[str, float]]:
    """Over what passed its gate, in the order of numbers; of equal ones the first."""
    sign = 1 if tree.options.primary.direction == "max" else -1
    root = tree.find_root_primary()
    found = [("root", root)] if root is not None else []
    for one in tree.evaluations.values():
        if (judged := one.judgement) and judged.root and judged.has_passed:
            value = judged.root.deltas[0].candidate
            found += [(one.id, value)] if value is not None else []
    return [*accumulate(found, lambda *two: max(two, key=lambda one: sign * one[1]))]


def _describe_tries(one: Evaluation) -> str:
    times = one.round - 1 + one.retries
    return f"try {times + 1}" if times else ""


def _render_change(relative: float | None) -> Span:
    """A relative change of a metric; more is better."""
    role: Role = "done" if relative and relative > 0 else "failed"
    text = "-" if relative is None else f"{100 * relative:+.1f}%"
    return Span(f" {text:>{_NUMBER}}", role if relative else "muted")


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


def _list_root(tree: Tree) -> Pairs:
    options, node = tree.options, tree.nodes[ROOT]
    yield "Commit", tree.root_commit
    yield "Results", node.baseline.path if node.baseline else "not measured yet"
    yield "Beam", f"{options.beam_width} ({options.frontier}), {options.max_depth} deep"
    number = "being sought" if node.ideas is None else str(len(node.ideas))
    yield "Ideas", f"{number}, {options.ideas_per_node} a node are asked for"
    for one in tree.leftovers.values():
        yield "Left", f"{one.path}: {one.reason} ({one.attempts} tries)"


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
