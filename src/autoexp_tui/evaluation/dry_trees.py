"""The disk and git of a dry run: all is real, and a cleanup fails where a step says
so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from autoexp_tui.demo.dry_run_steps import find_step
from autoexp_tui.evaluation.disk_trees import DiskTrees
from autoexp_tui.tree.state import Leftover
from autoexp_tui.worktrees.promotion import list_cleanup
from autoexp_tui.worktrees.tree_repository import Git, Place

REASON: Final = "it is busy, as it is scripted"


class DryTrees(DiskTrees):
    """Implements `tree.ports.Trees` for `autoexp-tree --dry-run`."""

    def prune(self, git: Git, evaluation: str, commit: str) -> Sequence[Leftover]:
        """The first try fails where it is scripted; the next one is a real one."""
        idea = self.directory / "eval" / evaluation / "prompt_context.txt"
        step = find_step(idea.read_text("utf-8"))
        if step is None or not step.is_stuck:
            return super().prune(git, evaluation, commit)
        found = list_cleanup(git.tree, Place("cand", evaluation[1:]), commit)
        return [replace(one, reason=REASON) for one in found]
