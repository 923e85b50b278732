"""The jobs of the research loop: calls of agents, and items as they are started. Where
each reads and writes follows from the ids alone."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from autoexp_tui.model.specs import JobSpec

if TYPE_CHECKING:
    from autoexp_tui.research.state import Consultation, Item, Research

PROGRAMS: Final = "autoexp_tui.consultation"
"""The package of what the calls run."""
REQUEST: Final = "call.json"


def find_call_dir(directory: str, consultation: Consultation) -> str:
    return posixpath.join(directory, "calls", consultation.job)


def build_call_job(research: Research, consultation: Consultation) -> JobSpec:
    place = find_call_dir(research.directory, consultation)
    request = posixpath.join(place, REQUEST)
    return JobSpec(
        name=consultation.job,
        index=0,  # the next free one, when it joins
        stage=consultation.role,
        family=consultation.id,
        command=(research.python, "-m", f"{PROGRAMS}.call", request),
        cwd=research.directory,
        output_dir=posixpath.join(place, "output"),
        log_dir=posixpath.join(research.directory, "logs", consultation.job),
        place="beside",
        trial=True,
    )


def build_item_jobs(research: Research, item: Item) -> tuple[JobSpec, ...]:
    """The jobs of an item as they join. Code that no person approved runs isolated."""
    made = tuple(replace(job, index=0, trial=True) for job in item.jobs)
    if not item.code_ref or research.code_approved.get(item.code_ref):
        return made
    call = research.consultations[item.code_ref]
    request = posixpath.join(find_call_dir(research.directory, call), REQUEST)
    program = (research.python, "-m", f"{PROGRAMS}.fenced", request)
    return tuple(
        replace(
            job,
            command=(*program, job.output_dir, ",".join(job.env), *job.command),
        )
        for job in made
    )
