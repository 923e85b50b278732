"""The panes of a search: its tree, what is under the cursor, and who would go on.

All of them draw from one `TreeView`: a tree, and the outline that was made of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.tree import (
    Outline,
    Records,
    State,
    build_detail,
    build_frontier,
    build_head,
    build_outline,
    build_row,
    build_stairs,
    describe_progress,
    find_files,
    sign_tree,
)
from autoexp_tui.cockpit.spans import Line, Span, line
from autoexp_tui.cockpit.widgets.pane import DetailPane, ListPane, TextPane
from autoexp_tui.tree.jobs import SWEEP, list_job_names
from autoexp_tui.tree.state import BASELINE, PART, ROOT, Evaluation, Tree

if TYPE_CHECKING:
    from autoexp_tui.cockpit.context import Background
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView

_MANY: Final = 500
"""Evaluations from which on the keys would feel that an outline is made."""


class TreeView:
    """A tree with what all its rows need."""

    def __init__(self, model: SessionModel) -> None:
        self._model = model
        self._signature: tuple[object, ...] = ()
        self._is_busy = False
        self.tree: Tree | None = None
        self.outline: Outline | None = None

    def _find_newest(self) -> Tree | None:
        """None: the session has no search that was opened."""
        found = self._model.session.snapshot.parts.get(PART)
        return found if isinstance(found, Tree) and found.root_commit else None

    def renew(self) -> bool:
        """Take the newest tree; False: it is large and has other rows, and `lay_out`
        has to come first."""
        tree = self._find_newest()
        if tree is self.tree or self._is_busy:
            return True
        signature = sign_tree(tree) if tree is not None else ()
        if tree is not None and signature != self._signature:
            if len(tree.evaluations) >= _MANY:
                return False
            self.outline = build_outline(tree)
        self.tree, self._signature = tree, signature
        return True

    async def lay_out(self, background: Background) -> None:
        """Take the newest tree once its outline was made, behind the screen."""
        tree = self._find_newest()
        if tree is None or self._is_busy:
            return
        self._is_busy = True
        try:
            work = partial(build_outline, tree)
            self.outline = await background.fetch("outline", work)
            self.tree, self._signature = tree, sign_tree(tree)
        finally:
            self._is_busy = False

    def find_job(self, one: Evaluation) -> JobView | None:
        """The job of an evaluation to look at: the first that has not ended, else the
        last that began."""
        names = [*list_job_names(self.tree, one)] if self.tree else []
        jobs = self._model.session.list_jobs(names)
        begun = [job for job in jobs if job.attempt is not None]
        left = (job for job in jobs if not job.record.ended)
        return next(left, next(reversed(begun or jobs), None))

    def find_step(self, one: Evaluation) -> State:
        """What an evaluation that is open is doing."""
        job = self.find_job(one)
        if job is None:
            return "◌", "opening", "waiting"
        word = (job.stage or SWEEP) if job.attempt is not None else "waiting"
        return job.look.glyph, word, job.look.role


class TreePane(ListPane):
    """The root, each evaluation below its node, and ideas without a number."""

    name_in_table = "tree"
    number = "6"
    heading = "Tree"
    nothing = "The repository is being opened."
    always_points = True
    view: TreeView

    def renew(self) -> None:
        outline = self.view.outline
        self.set_keys(outline.keys if self.view.tree and outline else ())

    def build_title(self) -> Line:
        return describe_progress(self.view.tree) if self.view.tree else ()

    def build_head(self, cells: int) -> Sequence[Line]:
        tree, outline = self.view.tree, self.view.outline
        if tree is None or outline is None:
            return ()
        head = build_head(tree, outline, cells)
        return build_stairs(tree, outline, cells), head

    def row(self, place: int, cells: int) -> Line:
        tree, outline = self.view.tree, self.view.outline
        assert tree is not None, "rows are of a tree"
        assert outline is not None, "and of its outline"
        return build_row(tree, outline, place, cells, self.view.find_step)

    @property
    def evaluation(self) -> Evaluation | None:
        """What is under the cursor: of the root what measures it."""
        name = BASELINE if self.key == ROOT else self.key
        return self.view.tree.evaluations.get(name) if self.view.tree else None

    def find_jobs(self) -> tuple[JobView, ...]:
        one = self.evaluation
        job = self.view.find_job(one) if one is not None else None
        return (job,) if job is not None else ()

    def copy_text(self) -> str:
        """Where the row's files are."""
        tree, outline = self.view.tree, self.view.outline
        return find_files(tree, outline, self.key) if tree and outline else ""


class EvaluationPane(DetailPane):
    """All that is known of the row under the cursor."""

    name_in_table = "tree"
    view: TreeView

    def build_lines(self, cells: int) -> Sequence[Line]:
        view, records = self.view, self.records
        if view.tree is None or view.outline is None or not self.key:
            return ()
        known = records if isinstance(records, Records) else Records()
        step = view.find_step
        return build_detail(view.tree, view.outline, self.key, step, known, cells)


class FrontierPane(TextPane):
    """Who would go on if the depth closed now; one line where it is low."""

    name_in_table = "tree"
    heading = "If this depth closed now"
    can_focus = False
    view: TreeView

    def build_title(self) -> Line:
        return line(Span("rank, score on the root, why", "muted"))

    def build_lines(self, cells: int) -> Sequence[Line]:
        tree, outline = self.view.tree, self.view.outline
        if tree is None or outline is None:
            return ()
        return build_frontier(tree, outline, cells, self.size.height - (not self.bare))
