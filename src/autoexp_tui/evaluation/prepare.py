"""Makes a candidate's worktree ready to be measured:
`python -m autoexp_tui.evaluation.prepare REQUEST`.

It is made anew from its commit, with the root's protected paths, and what an earlier
attempt left is moved aside.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from autoexp_tui.evaluation.requests import (
    IMPLEMENTED,
    SWEPT,
    Implemented,
    Request,
    Swept,
    load_record,
)
from autoexp_tui.evaluation.steps import exit_process, list_kept_refs, run_step
from autoexp_tui.isolation.kinds import choose_isolation
from autoexp_tui.storage.atomic import make_directory
from autoexp_tui.worktrees.checkouts import restore_worktree
from autoexp_tui.worktrees.tree_repository import Git

_OURS: Final = (".autoexp", "provenance")
"""In an output directory: what the engine has put there for this attempt."""


def prepare(request: Request, git: Git) -> Path:
    """The worktree; raises AutoexpError."""
    commit = request.commit
    if request.title:  # else the root itself is measured
        commit = load_record(Implemented, request.home / IMPLEMENTED).commit
    worktree = restore_worktree(
        git,
        request.place,
        commit,
        root_commit=request.root_commit,
        protected_paths=request.options.implement.protected_paths,
    )
    make_directory(request.output)
    for path in [*request.output.iterdir()]:
        if path.name not in _OURS:
            target = request.home / "earlier"
            make_directory(target)
            number = len([*target.iterdir()])
            path.rename(target / f"{number}_{path.name}")
    return worktree


def _make_ready(request: Request) -> Swept:
    git = Git(request.repository)
    prepare(request, git)
    held = choose_isolation(request.isolation).summarize()
    return Swept(refs=list_kept_refs(git, request.place), isolation=held)


if __name__ == "__main__":
    exit_process(run_step(sys.argv[1:], SWEPT, _make_ready))
