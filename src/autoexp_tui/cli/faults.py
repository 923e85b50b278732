"""What is wrong with a config, with the file and line that each finding belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli.options import DEFAULT_CONFIG, Options
from autoexp_tui.model.errors import AutoexpError, Problem, ValidationFailed

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.plan_findings import Fault
    from autoexp_tui.config.key_places import KeyPlaces


def locate_faults(error: AutoexpError, options: Options) -> tuple[Fault, ...]:
    """Every finding of an error; where no file has its key, without a place."""
    problems: Sequence[Problem] = ()
    if isinstance(error, ValidationFailed):
        problems = error.problems
    own = Problem(error.problem, where=error.where, hint=error.hint)
    places = _find_key_places(options)
    return tuple(_locate_fault(one, places) for one in problems or (own,))


def _find_key_places(options: Options) -> KeyPlaces | None:
    from autoexp_tui.config.key_places import KeyPlaces
    from autoexp_tui.probes.config_files import config_dir, config_roots

    try:
        roots = config_roots(config_dir(options.config_dir or None, Path.cwd()))
    except AutoexpError:
        return None
    config = options.config_ref or DEFAULT_CONFIG
    return KeyPlaces(roots, config, options.overrides)


def _locate_fault(problem: Problem, places: KeyPlaces | None) -> Fault:
    """Planning has said the place; what was no finding of planning is looked for."""
    from autoexp_tui.cockpit.render.plan_findings import Fault

    path, line = "", 0
    if problem.place:
        path, _, number = problem.place.rpartition(":")
        line = int(number)
    elif places is not None:
        path, line = places.find(problem) or ("", 0)
    return Fault(
        message=problem.message,
        where=problem.where,
        job=problem.job,
        hint=problem.hint,
        path=path,
        line=line,
    )
