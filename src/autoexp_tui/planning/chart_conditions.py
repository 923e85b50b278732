"""What a stage waits for, said once for all its jobs where they wait alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from autoexp_tui.model.specs import JobSpec
from autoexp_tui.planning.chart_stages import Stage
from autoexp_tui.planning.chart_sweep import SweptKey, settings_of
from autoexp_tui.planning.chart_text import cut, hanging
from autoexp_tui.planning.chart_words import Purpose, Words

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
    for one in _sentences(talk, purpose):
        word = lead.further if one.joins else lead.first
        yield from hanging(f"{label}{word}", one.text, room)
        label = " " * len(label)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """What is said of some jobs of a stage."""

    text: str
    joins: bool
    """Whether it holds of a job beside one that stands above it."""


def _sentences(talk: StageTalk, purpose: Purpose) -> Iterable[_Sentence]:
    """Each sentence once, and of which jobs it is said when not of all."""
    told: dict[str, list[JobSpec]] = {}
    for job in talk.stage.jobs:
        for sentence in _said_of(job, talk.words, purpose):
            told.setdefault(sentence, []).append(job)
    above: set[str] = set()
    for sentence in _together(told)[: talk.most]:
        jobs = told[sentence]
        joins = any(job.name in above for job in jobs)
        above.update(job.name for job in jobs)
        yield _Sentence(f"{sentence}{_whose(jobs, talk)}", joins)
    rest = len(told) - talk.most
    if rest > 0:
        yield _Sentence(f"... and {rest} more that differ from job to job", joins=True)


def _together(told: Mapping[str, Sequence[JobSpec]]) -> Sequence[str]:
    """The sentences, those that some job has together one after another."""
    of_job: dict[str, list[str]] = {}
    for sentence, jobs in told.items():
        for job in jobs:
            of_job.setdefault(job.name, []).append(sentence)
    ordered: dict[str, None] = {}
    for sentence in told:
        ahead = [sentence]
        while ahead:
            one = ahead.pop()
            if one not in ordered:
                ordered[one] = None
                others = (of_job.pop(job.name, ()) for job in told[one])
                ahead += reversed(list(chain.from_iterable(others)))
    return list(ordered)


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
