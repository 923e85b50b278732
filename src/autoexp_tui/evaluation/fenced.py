"""Runs a command of a candidate's, isolated, in its place:
`python -m autoexp_tui.evaluation.fenced REQUEST OUTPUT NAMES COMMAND ...`.

It may write `OUTPUT` and the worktree; it gets the variables `NAMES` (with commas),
those of the run, of Slurm and of accelerators, and what every candidate gets. Of these
Slurm's token is none: who has it may order jobs as its user.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

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


Prepared: TypeAlias = tuple[Isolation, Profile, Mapping[str, str]]


def become(
    arguments: Sequence[str], prepare: Callable[[Path, Path, Sequence[str]], Prepared]
) -> int:
    """Become the command, isolated; returns where it does not start. `prepare`: what
    the request and the output directory of a command come to."""
    path, output, names, *command = arguments
    try:
        isolation, profile, env = prepare(Path(path), Path(output), command)
    except AutoexpError as error:
        sys.stderr.write(f"{error.line}\n")
        return error.exit_code or 1
    wanted = [*filter(None, names.split(","))]
    argv = isolation.wrap(name_program(command), profile)
    try:
        os.execvpe(argv[0], argv, {**list_passed(os.environ, wanted), **env})
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
    return 127


def _prepare(path: Path, output: Path, command: Sequence[str]) -> Prepared:
    request = load_record(Request, path)
    fence = make_fence(request, "sweep")
    worktree = request.repository.get_worktree(request.place)
    return fence.choose(command), *fence.prepare(worktree, output)


if __name__ == "__main__":
    sys.exit(become(sys.argv[1:], _prepare))
