"""Measures a candidate: `python -m autoexp_tui.evaluation.sweep REQUEST`.

Its worktree is made anew from its commit, with the root's protected paths. The scorer
runs from a checkout of the root, when no process of the sweep is left.
"""

from __future__ import annotations

import sys
from hashlib import sha256

from autoexp_tui.evaluation.prepare import prepare
from autoexp_tui.evaluation.requests import SWEPT, Request, Swept
from autoexp_tui.evaluation.steps import (
    Fence,
    StepFailed,
    exit_process,
    list_kept_refs,
    make_fence,
    require_refs,
    require_success,
    run_step,
)
from autoexp_tui.storage.trust import read_foreign
from autoexp_tui.tree.results_csv import FILE as RESULTS
from autoexp_tui.tree.results_csv import MOST_BYTES
from autoexp_tui.worktrees.checkouts import add_worktree, remove_worktree
from autoexp_tui.worktrees.tree_repository import Git, Place


def sweep(request: Request) -> Swept:
    """Run the sweep, then the scorer; raises StepFailed, AutoexpError."""
    fence, measurement = make_fence(request, "sweep"), request.options.evaluate
    git = Git(request.repository)
    worktree, refs = prepare(request, git), list_kept_refs(git, request.place)
    if measurement.command:
        log = request.home / "sweep.log"
        environment = build_environment(request)
        end = fence.run(measurement.command, worktree, request.output, log, environment)
        require_success(end, "sweep_failed", "the sweep")
    git = Git(request.repository)
    require_refs(git, request.place, refs)
    if measurement.score_command:
        _score(fence, git)
    return Swept(
        sha256=sha256(read_results(request)).hexdigest(),
        measured_itself=not measurement.score_command,
        isolation=fence.choose(measurement.command).summarize(),
    )


def build_environment(request: Request) -> dict[str, str]:
    """Where a sweep leaves its results, and how many rows count."""
    limit = request.options.sweep_config_limit
    return {
        "AGENTIC_OUTPUT_DIR": str(request.output),
        "AGENTIC_RESULTS_CSV": str(request.output / RESULTS),
        "AGENTIC_SWEEP_CONFIG_LIMIT": "" if limit is None else str(limit),
    }


def _score(fence: Fence, git: Git) -> None:
    """The scorer and what it reads lie outside of all that a candidate can write."""
    request = fence.request
    place = Place("scorer", request.evaluation[1:])
    remove_worktree(request.repository, place)
    checkout = add_worktree(git, place, request.root_commit)
    try:
        end = fence.run(
            request.options.evaluate.score_command,
            checkout,
            request.output,
            request.home / "score.log",
            build_environment(request),
        )
        require_success(end, "score_failed", "the scorer")
    finally:
        remove_worktree(request.repository, place)


def read_results(request: Request) -> bytes:
    """The CSV, a regular file of bounded size; raises StepFailed."""
    path = request.output / RESULTS
    try:
        return read_foreign(path, MOST_BYTES)
    except OSError as error:
        problem = f"{RESULTS}: {error.strerror or error}"
        raise StepFailed("no_results", problem) from None


if __name__ == "__main__":
    exit_process(run_step(sys.argv[1:], SWEPT, sweep))
