"""Runs a command of an item whose change of code no person approved, isolated, in its
place: `python -m autoexp_tui.consultation.fenced REQUEST OUTPUT NAMES COMMAND ...`.

`REQUEST` is that of the call that made the change. Otherwise as `evaluation.fenced`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from autoexp_tui.consultation.requests import CallRequest, find_code_place
from autoexp_tui.evaluation.fenced import become
from autoexp_tui.evaluation.requests import load_record
from autoexp_tui.evaluation.steps import make_environment
from autoexp_tui.isolation.kinds import choose_isolation
from autoexp_tui.isolation.profiles import make_evaluation_profile
from autoexp_tui.model.errors import AutoexpError


def main(arguments: Sequence[str]) -> int:
    """Becomes the command; returns where that does not start."""
    path, output, names, *command = arguments
    try:
        request = load_record(CallRequest, Path(path))
        isolation = choose_isolation(request.isolation, command=command)
        repository = request.repository
        profile = make_evaluation_profile(
            repository.get_worktree(find_code_place(request.consultation)),
            request.home / "private" / Path(output).name,
            Path(output),
            readable=request.repository.list_links(),
            file_bytes=request.options.max_disk_bytes,
        )
        env = make_environment(profile, Path(output), repository)
    except AutoexpError as error:
        sys.stderr.write(f"{error.line}\n")
        return error.exit_code or 1
    return become(command, isolation, profile, env, names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
