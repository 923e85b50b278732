"""Has ideas proposed for a node: `python -m autoexp_tui.evaluation.ideas REQUEST`.

They are markdown files in `node_ideas/<node>/`; those that are there stay, unless they
are to be made anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from autoexp_tui.evaluation.implement import call_agents
from autoexp_tui.evaluation.requests import IMPLEMENTED, Implemented, Request
from autoexp_tui.evaluation.steps import (
    Fence,
    StepFailed,
    exit_process,
    make_fence,
    require_success,
    run_step,
)
from autoexp_tui.storage.atomic import make_directory, write_atomic
from autoexp_tui.storage.trust import read_foreign
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.tree.ideas import MOST_BYTES, SUFFIX, is_personal
from autoexp_tui.worktrees.checkouts import restore_worktree
from autoexp_tui.worktrees.tree_repository import Git, Place

_ANSWERS = f"ideas/*{SUFFIX}"


def propose(request: Request) -> Implemented | None:
    """What it came to, as far as that needs words; raises StepFailed, AutoexpError."""
    source = request.options.ideas
    target = Path(request.directory, "node_ideas", request.ideas_place)
    make_directory(target)
    there = _list_proposed(target)
    if there and not request.options.force_regenerate_ideas:
        return None
    for path in there:
        path.unlink()
    if source.dir:
        place = Path(request.top, source.dir)
        if not (found := sorted(place.glob(f"*{SUFFIX}"))):
            problem = f"no *{SUFFIX} is in {clean_line(source.dir)} (tree.ideas.dir)"
            raise StepFailed("no_ideas", problem)
        return _copy_files(found, target)
    fence = make_fence(request, request.node)
    git, node = Git(request.repository), Place("wt", request.node[1:])
    worktree = restore_worktree(git, node, request.commit)
    make = _run_command if source.command else _ask_agent
    told = make(fence, worktree, target)
    if not _list_proposed(target):
        raise StepFailed("no_ideas", told.problem if told else "it wrote none")
    return told


def _list_proposed(target: Path) -> Sequence[Path]:
    found = target.glob(f"*{SUFFIX}")
    return [path for path in found if not is_personal(path.name)]


def _run_command(fence: Fence, worktree: Path, target: Path) -> None:
    request = fence.request
    words = ["--ideas-dir", str(target)]
    for place in request.context_dirs:
        words += ["--context-ideas-dir", place]
    command = (*request.options.ideas.command, *words)
    end = fence.run(command, worktree, target, fence.private / "ideas.log")
    require_success(end, "ideas_failed", "the command for ideas")


def _ask_agent(fence: Fence, worktree: Path, target: Path) -> Implemented | None:
    request = fence.request
    prompt = Path(request.prompt).read_bytes()
    name, agent = f"ideas_{request.node}", request.options.ideas.agent
    answer = call_agents(fence, agent, name, prompt, answer_file=_ANSWERS, cwd=worktree)
    files = fence.private / "calls" / name / "files"
    return _copy_files([files / one.name for one in answer.files], target)


def _copy_files(paths: Sequence[Path], target: Path) -> Implemented | None:
    """One that cannot be read, or is too long, costs no other; it is told."""
    problems = list[str]()
    for path in paths:
        try:
            data = read_foreign(path, MOST_BYTES)
        except OSError as error:
            problems.append(f"{clean_line(path.name)}: {error.strerror or error}")
        else:
            write_atomic(target / path.name, data)
    return Implemented(problem="; ".join(problems)) if problems else None


if __name__ == "__main__":
    exit_process(run_step(sys.argv[1:], IMPLEMENTED, propose))
