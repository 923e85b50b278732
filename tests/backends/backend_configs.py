"""Configs with a backend, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from autoexp_tui.backends.base import Places
from autoexp_tui.backends.launch import Backends
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import Launch, SpecRefused


def slurm(**sbatch: object) -> Mapping[str, object]:
    """The section of a job that goes to Slurm."""
    return {"client": {"class_name": "SlurmClient"}, "sbatch": sbatch}


def launched(backend: object, places: Places | None = None, **config: object) -> Launch:
    """What a backend makes of a config."""
    made = Backends(places or Places("/w", "/w/state"))
    return made.launch({"backend": backend, **config})


def refused(
    backend: object, places: Places | None = None, **config: object
) -> list[Problem]:
    """What is found wrong with it."""
    with pytest.raises(SpecRefused) as caught:
        launched(backend, places, **config)
    return list(caught.value.problems)


def found(problem: Problem) -> tuple[str, str]:
    """Where, and what."""
    return (problem.where, problem.message)
