"""Runs a command of an item whose change of code no person approved, isolated, in its
place: `python -m autoexp_tui.consultation.fenced REQUEST OUTPUT NAMES COMMAND ...`.

`REQUEST` is that of the call that made the change. Otherwise as `evaluation.fenced`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from autoexp_tui.consultation.requests import CallRequest, find_code_place
from autoexp_tui.evaluation.fenced import Prepared, become
from autoexp_tui.evaluation.requests import load_record
from autoexp_tui.evaluation.steps import make_environment
from autoexp_tui.isolation.kinds import choose_isolation
from autoexp_tui.isolation.profiles import make_evaluation_profile


def _prepare(path: Path, output: Path, command: Sequence[str]) -> Prepared:
    request = load_record(CallRequest, path)
    repository = request.repository
    profile = make_evaluation_profile(
        repository.get_worktree(find_code_place(request.consultation)),
        request.home / "private" / output.name,
        output,
        readable=repository.list_links(),
        file_bytes=request.options.max_disk_bytes,
    )
    isolation = choose_isolation(request.isolation, command=command)
    return isolation, profile, make_environment(profile, output, repository)


if __name__ == "__main__":
    sys.exit(become(sys.argv[1:], _prepare))
