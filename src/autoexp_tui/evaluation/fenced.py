"""Runs a command of a candidate's, isolated, in its place:
`python -m autoexp_tui.evaluation.fenced REQUEST OUTPUT NAMES COMMAND ...`.

It may write `OUTPUT` and the worktree; it gets the variables `NAMES` (with commas),
those of the run, of Slurm and of accelerators, and what every candidate gets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from autoexp_tui.evaluation.requests import Request, load_record
from autoexp_tui.evaluation.steps import make_fence, name_program
from autoexp_tui.model.errors import AutoexpError

_PASSED = (
    *("AUTOEXP_", "SLURM_", "CUDA_", "NVIDIA_", "ROCR_", "HIP_"),
    *("MASTER_", "NCCL_", "OMP_"),
)


def main(arguments: Sequence[str]) -> int:
    """Becomes the command; returns where that does not start."""
    path, output, names, *command = arguments
    try:
        request = load_record(Request, Path(path))
        fence = make_fence(request, "sweep")
        worktree = request.repository.get_worktree(request.place)
        profile, env = fence.prepare(worktree, Path(output))
        wanted = [*filter(None, names.split(","))]
        passed = (n for n in os.environ if n in wanted or n.startswith(_PASSED))
        env = {name: os.environ[name] for name in passed} | env
        argv = fence.choose(command).wrap(name_program(command), profile)
    except AutoexpError as error:
        sys.stderr.write(f"{error.line}\n")
        return error.exit_code or 1
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
