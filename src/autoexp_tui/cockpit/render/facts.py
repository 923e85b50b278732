"""What is known of a job, fact by fact: the lower part of pane 3.

Its stage and values, what is run and where it writes, what its logs told, its attempts,
and what it waits for; each with a name before it, the texts in one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from autoexp_tui.cockpit.render.gpus import gpus_text
from autoexp_tui.cockpit.render.numbers import measure
from autoexp_tui.cockpit.render.reasons import told
from autoexp_tui.cockpit.render.spans import Line, Span, outside
from autoexp_tui.cockpit.state.parameters import is_value, planned_text, spell, value_of
from autoexp_tui.cockpit.state.subjects import what_is_read
from autoexp_tui.model.masking import mask_of, mask_text, mask_words
from autoexp_tui.model.wording import CAUSES, clock_time

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.causes import PlanWords
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.masking import MaskRules
    from autoexp_tui.model.specs import JobSpec
    from autoexp_tui.model.state import Attempt, JobRecord

_INDENT: Final = "   "
_NAME_LEAST: Final = 10
_NAME_MOST: Final = 24
"""Cells of the names; a longer one stands out of line."""


def fact_lines(job: JobView, session: SessionView, words: PlanWords) -> Iterable[Line]:
    """What is known of the job, a line each, their texts in one column."""
    facts = list(_pairs(job, session, words))
    cells = max(_NAME_LEAST, *(min(cell_len(name), _NAME_MOST) for name, _ in facts))
    for label, text in facts:
        padded = label + " " * (cells - cell_len(label))
        yield (Span(f"{_INDENT}{padded} ", "muted"), Span(text))


def _pairs(
    job: JobView, session: SessionView, words: PlanWords
) -> Iterator[tuple[str, str]]:
    spec, mask = job.record.spec, mask_of(session.snapshot.plan)
    yield "stage", f"{outside(spec.stage) or '-'}   family {spec.family or '-'}"
    values = [
        f"{outside(key)}={value_of(spec, key)}" for key in _told_keys(spec, words)
    ]
    yield "values", mask_text("  ".join(values), mask) or "-"
    if spec.planned is not None:
        yield (
            "planned",
            "  ".join(
                mask_text(f"{outside(key)}={planned_text(spec, key)}", mask)
                for key in spec.own_values
            ),
        )
    yield "command", outside(" ".join(mask_words(spec.command, mask)), 2000)
    yield "output", outside(spec.output_dir)
    yield "log", outside(spec.log_path_current)
    for key, text in job.record.metadata.items():
        yield outside(key), outside(text)
    for name, value in _newest(job).items():
        yield outside(name), measure(value)
    if job.live and job.live.gpu and not job.record.ended:
        yield "GPUs", gpus_text(job.live.gpu, session.now)
    for attempt in reversed(job.record.attempts):
        yield f"attempt {attempt.number}", _attempt_text(attempt, session.now)
        if ran_with := ran_with_text(job.record, attempt, mask):
            yield "ran with", ran_with
        if attempt.ordered_why is not None:
            yield "ordered", told(attempt.ordered_why, job, session)
        for directory in attempt.captures:
            yield "evidence", outside(directory, 4096)
    for edge in session.upstream.get(job.name, ()):
        yield "waits for", outside(edge)
    if not job.record.started:
        for condition in spec.start_conditions:
            for text in what_is_read(condition):
                yield "reads", text


def _told_keys(spec: JobSpec, words: PlanWords) -> list[str]:
    """The keys of its swept values: those that tell jobs apart first."""
    telling = {entry.key for entry in words.parameters}
    keys = [key for key in spec.parameters if is_value(key) and key not in words.paths]
    return sorted(keys, key=lambda key: key not in telling)


def _newest(job: JobView) -> Mapping[str, float]:
    """The newest values; of a job that ended long ago those that were journaled."""
    noted = job.record.noted
    told = {
        name: float(value) for name, value in (noted.values if noted else {}).items()
    }
    return {**told, **(job.live.metrics if job.live else {})}


def ran_with_text(job: JobRecord, attempt: Attempt, mask: MaskRules) -> str:
    """The values of an attempt, of those that are not the plan's in each of them."""
    values = job.values_of(attempt)
    changed = [key for key in job.changed_keys if key in values]
    return mask_text(
        "  ".join(f"{outside(key)}={spell(values[key])}" for key in changed), mask
    )


def _attempt_text(attempt: Attempt, now: float) -> str:
    parts = [outside(attempt.executor_id) or "not yet taken"]
    if attempt.began_at is not None:
        parts.append(f"began {clock_time(attempt.began_at, now)}")
    if attempt.node:
        inside = f" in {outside(attempt.partition)}" if attempt.partition else ""
        parts.append(f"on {outside(attempt.node)}{inside}")
    if attempt.outcome is not None:
        cause = f", {CAUSES[attempt.cause]}" if attempt.cause else ""
        parts.append(f"{attempt.outcome.value.lower()}{cause}")
    if attempt.ended_at is not None:
        parts.append(f"ended {clock_time(attempt.ended_at, now)}")
    if attempt.evidence:
        parts.append(outside(attempt.evidence))
    return ", ".join(parts)
