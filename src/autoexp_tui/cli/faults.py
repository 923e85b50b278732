"""What is wrong with a config, with the file and line that each finding belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli.options import Options
from autoexp_tui.model.errors import AutoexpError, Problem, ValidationFailed

if TYPE_CHECKING:
    from autoexp_tui.cockpit.render.faults import Fault
    from autoexp_tui.config.key_places import KeyPlaces


def faults_of(error: AutoexpError, options: Options) -> tuple[Fault, ...]:
    """Every finding of an error; where no file has its key, without a place."""
    places = _places(options)
    return tuple(_fault(problem, places) for problem in _problems(error))


def _problems(error: AutoexpError) -> tuple[Problem, ...]:
    if isinstance(error, ValidationFailed) and error.problems:
        return error.problems
    return (Problem(error.problem, where=error.where, hint=error.hint),)


def _places(options: Options) -> KeyPlaces | None:
    from autoexp_tui.cli.open import DEFAULT_CONFIG
    from autoexp_tui.config.key_places import KeyPlaces
    from autoexp_tui.probes.config_files import config_dir, config_roots

    try:
        roots = config_roots(config_dir(options.config_dir or None, Path.cwd()))
    except AutoexpError:
        return None
    config = options.config_ref or DEFAULT_CONFIG
    return KeyPlaces(roots, config, options.overrides)


def _fault(problem: Problem, places: KeyPlaces | None) -> Fault:
    from autoexp_tui.cockpit.render.faults import Fault

    path, line = _place(problem, places)
    return Fault(
        message=problem.message,
        where=problem.where,
        job=problem.job,
        hint=problem.hint,
        path=path,
        line=line,
    )


def _place(problem: Problem, places: KeyPlaces | None) -> tuple[str, int]:
    """Planning has said it; what was no finding of planning is looked for here."""
    if problem.place:
        path, _, line = problem.place.rpartition(":")
        return path, int(line)
    found = places.find(problem) if places is not None else None
    return found or ("", 0)
