"""What is wrong with a config, with the file and line that each finding belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autoexp_tui.model.errors import (
    AutoexpError,
    Problem,
    UsageError,
    ValidationFailed,
    find_written_place,
)

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.plan_findings import Fault


def locate_faults(error: AutoexpError) -> tuple[Fault, ...]:
    """Every finding of an error; where planning told no place, without one."""
    problems: tuple[Problem, ...] = ()
    if isinstance(error, ValidationFailed | UsageError):
        problems = error.problems
    own = Problem(error.problem, where=error.where, hint=error.hint)
    return tuple(map(_locate_fault, problems or (own,)))


def _locate_fault(problem: Problem) -> Fault:
    from autoexp_tui.cockpit.render.plan_findings import Fault

    path, line = find_written_place(problem.place or problem.where) or ("", 0)
    return Fault(
        message=problem.message,
        where=problem.where,
        job=problem.job,
        hint=problem.hint,
        path=path,
        line=line,
    )
