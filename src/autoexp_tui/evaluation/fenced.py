"""Runs a command of a candidate's, isolated, in its place:
`python -m autoexp_tui.evaluation.fenced REQUEST OUTPUT NAMES COMMAND ...`.

It may write `OUTPUT` and the worktree; it gets the variables `NAMES` (with commas),
those of the run, of Slurm and of accelerators, and what every candidate gets. Of these
Slurm's token is none: who has it may order jobs as its user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from autoexp_tui.evaluation.requests import Request, load_record
from autoexp_tui.evaluation.steps import make_fence, name_program
from autoexp_tui.isolation.port import Isolation, Profile
from autoexp_tui.model.errors import AutoexpError

_PASSED = (
    *("AUTOEXP_", "SLURM_", "CUDA_", "NVIDIA_", "ROCR_", "HIP_"),
    *("MASTER_", "NCCL_", "OMP_"),
)


_SECRET = "SLURM_JWT"


def list_passed(environ: Mapping[str, str], wanted: Collection[str]) -> dict[str, str]:
    """The variables that a candidate gets beside those that all get."""
    return {
        name: value
        for name, value in environ.items()
        if name in wanted or (name.startswith(_PASSED) and name != _SECRET)
    }


def main(arguments: Sequence[str]) -> int:
    """Becomes the command; returns where that does not start."""
    path, output, names, *command = arguments
    try:
        request = load_record(Request, Path(path))
        fence = make_fence(request, "sweep")
        worktree = request.repository.get_worktree(request.place)
        profile, env = fence.prepare(worktree, Path(output))
        isolation = fence.choose(command)
    except AutoexpError as error:
        sys.stderr.write(f"{error.line}\n")
        return error.exit_code or 1
    return become(command, isolation, profile, env, names)


def become(
    command: Sequence[str],
    isolation: Isolation,
    profile: Profile,
    env: Mapping[str, str],
    names: str,
) -> int:
    """Become the command, isolated; the status where it does not start. `names`: of the
    variables that it gets beside `env`, with commas."""
    wanted = [*filter(None, names.split(","))]
    env = {**list_passed(os.environ, wanted), **env}
    argv = isolation.wrap(name_program(command), profile)
    try:
        os.execvpe(argv[0], argv, env)
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
    return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
