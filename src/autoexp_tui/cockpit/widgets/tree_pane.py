"""The panes of a search: its tree, what is under the cursor, and who would go on.

All of them draw from one `TreeView`, which works the outline out anew only where the
tree has other rows."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.render.tree import (
    Outline,
    State,
    build_detail,
    build_frontier,
    build_head,
    build_outline,
    build_row,
    build_stairs,
    describe_progress,
    sign_tree,
)
from autoexp_tui.cockpit.spans import Line, line
from autoexp_tui.cockpit.widgets.pane import ListPane, TextPane
from autoexp_tui.tree.jobs import find_evaluation_dir, list_job_names
from autoexp_tui.tree.state import BASELINE, PART, ROOT, Evaluation, Tree

if TYPE_CHECKING:
    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.session import JobView


class TreeView:
    """The tree of the newest snapshot, with what all its rows need."""

    def __init__(self, model: SessionModel) -> None:
        self._model = model
        self._signature: tuple[object, ...] = ()
        self.tree: Tree | None = None
        self.outline: Outline | None = None

    def renew(self) -> Tree | None:
        """Take the newest tree; None: the session has none."""
        found = self._model.session.snapshot.parts.get(PART)
        tree = found if isinstance(found, Tree) and found.root_commit else None
        if tree is not None and tree is not self.tree:
            signature = sign_tree(tree)
            if signature != self._signature:
                self._signature, self.outline = signature, build_outline(tree)
        self.tree = tree
        return tree

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
        word = job.stage if job.attempt is not None else "waiting"
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
        tree = self.view.renew()
        outline = self.view.outline
        self.set_keys(outline.keys if tree and outline else ())

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
        """The directory of the row's files."""
        tree = self.view.tree
        if tree is None:
            return ""
        if self.evaluation is not None:
            return find_evaluation_dir(tree.directory, self.evaluation.id)
        ideas = posixpath.join(tree.directory, "node_ideas", self.key)
        return tree.directory if self.key == ROOT else ideas


class DetailPane(TextPane):
    """All that is known of the row under the cursor."""

    name_in_table = "tree"
    heading = "Detail"
    view: TreeView
    key: str = ""
    isolation: Mapping[str, str] = {}
    """What held, by step, as far as it was read."""

    def build_title(self) -> Line:
        return line(self.key)

    def build_lines(self, cells: int) -> Sequence[Line]:
        view = self.view
        if view.tree is None or view.outline is None or not self.key:
            return ()
        step, held = view.find_step, self.isolation
        return build_detail(view.tree, view.outline, self.key, step, held, cells)

    def show(self, key: str) -> None:
        """Show a row; another one from its beginning."""
        is_other = key != self.key
        self.key = key
        if is_other:
            self.isolation = {}
        self.renew(to_top=is_other)


class FrontierPane(TextPane):
    """Who would go on if the depth closed now; one line where it is low."""

    name_in_table = "tree"
    heading = "If this depth closed now"
    can_focus = False
    view: TreeView

    def build_lines(self, cells: int) -> Sequence[Line]:
        tree, outline = self.view.tree, self.view.outline
        if tree is None or outline is None:
            return ()
        return build_frontier(tree, outline, cells, self.size.height - (not self.bare))
