"""What a stage waits for, said once for all its jobs where they wait alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.core.specs import JobSpec
from autoexp_tui.plan.chart_stages import Stage
from autoexp_tui.plan.chart_sweep import SweptKey, settings_of
from autoexp_tui.plan.chart_text import cut, hanging
from autoexp_tui.plan.chart_words import Purpose, Words

_VALUE_COLUMNS: Final = 40


@dataclass(frozen=True, slots=True)
class _Lead:
    """What stands before the sentences of a purpose; all as wide."""

    label: str
    first: str
    further: str


_LEADS: Final[Mapping[Purpose, _Lead]] = {
    "start": _Lead("Starts     ", "when  ", "and   "),
    "cancel": _Lead("Cancelled  ", "if    ", "or    "),
}


@dataclass(frozen=True, slots=True)
class StageTalk:
    """A stage, and what is needed to speak of its jobs."""

    stage: Stage
    words: Words
    keys: Sequence[SweptKey]
    most: int
    """Sentences for one purpose."""


def condition_rows(talk: StageTalk, room: int) -> Iterable[str]:
    """When the stage's jobs start, and what cancels them, in `room` columns."""
    yield from _rows(talk, "start", room)
    yield from _rows(talk, "cancel", room)


def _rows(talk: StageTalk, purpose: Purpose, room: int) -> Iterable[str]:
    lead = _LEADS[purpose]
    label = lead.label
    free = [job for job in talk.stage.jobs if not job.start_conditions]
    if purpose == "start" and free:
        yield from hanging(label, f"at once{_whose(free, talk)}", room)
        label = " " * len(label)
    word = lead.first
    for sentence in _sentences(talk, purpose):
        yield from hanging(f"{label}{word}", sentence, room)
        label, word = " " * len(label), lead.further


def _sentences(talk: StageTalk, purpose: Purpose) -> Iterable[str]:
    """Each sentence once, and of which jobs it is said when not of all."""
    told: dict[str, list[JobSpec]] = {}
    for job in talk.stage.jobs:
        for sentence in _said_of(job, talk.words, purpose):
            told.setdefault(sentence, []).append(job)
    for sentence, jobs in list(told.items())[: talk.most]:
        yield f"{sentence}{_whose(jobs, talk)}"
    rest = len(told) - talk.most
    if rest > 0:
        yield f"... and {rest} more that differ from job to job"


def _said_of(job: JobSpec, words: Words, purpose: Purpose) -> Iterable[str]:
    own = job.start_conditions if purpose == "start" else job.cancel_conditions
    return dict.fromkeys(words.sentence(spec, job, purpose) for spec in own)


def _whose(jobs: Sequence[JobSpec], talk: StageTalk) -> str:
    """` [bsz=256]`, or ` [3 of 6 jobs]`; empty when it is all of them."""
    total = len(talk.stage.jobs)
    if len(jobs) == total:
        return ""
    return f" [{_mark(jobs, talk) or f'{len(jobs)} of {total} jobs'}]"


def _mark(jobs: Sequence[JobSpec], talk: StageTalk) -> str:
    """`bsz=256` when exactly these jobs of the stage have it."""
    for key in talk.keys:
        values = {settings_of(job).get(key.key) for job in jobs}
        value = values.pop()
        if values or value is None:
            continue
        having = (settings_of(job).get(key.key) for job in talk.stage.jobs)
        if sum(1 for one in having if one == value) == len(jobs):
            return f"{key.label}={cut(value, _VALUE_COLUMNS)}"
    return ""
