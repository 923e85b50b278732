"""A cluster's answers about a plan, as text for people and as JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from autoexp_tui.executors.slurm.refusals import format_sizes
from autoexp_tui.model.wording import clock_time, plural

if TYPE_CHECKING:
    from autoexp_tui.executors.slurm.check import Checked, ClusterCheck

_NAMED = 3
"""Jobs that are told by name before the rest is counted."""
_SOON_SECONDS = 60.0


def as_text(check: ClusterCheck, now: float) -> str:
    """What was asked, and each answer with the next step."""
    lines = [
        f"cluster   {_cluster(check)}: "
        f"{plural(len(check.checks), 'question')}, nothing was submitted"
    ]
    for one in check.checks:
        lines += _lines(one, now)
    return "\n".join(lines)


def _cluster(check: ClusterCheck) -> str:
    facts = check.facts
    version = f"Slurm {facts.version}" if facts.version else "Slurm"
    return f"{facts.cluster}, {version}" if facts.cluster else version


def _lines(one: Checked, now: float) -> Iterator[str]:
    jobs = plural(len(one.jobs), "job")
    where = one.options.get("partition") or "the default partition"
    asked = ", ".join(
        part
        for part in (f"partition {where}", format_sizes(one.options), _time(one))
        if part and part != "partition the default partition"
    )
    match one.verdict:
        case "taken":
            yield f"  ✓ {jobs:<9} {_start(one, now)}   ({asked or 'no options'})"
        case "not now":
            yield f"  · {jobs:<9} not taken just now: {one.said}   ({asked})"
            yield "      It is sent again by itself until there is room."
        case "refused":
            yield f"  ✗ {jobs:<9} would be refused: {_names(one)}"
            yield from _refusal(one)


def _time(one: Checked) -> str:
    limit = one.options.get("time")
    return f"time {limit}" if limit is not None else ""


def _start(one: Checked, now: float) -> str:
    if one.starts_at is None:
        return "would be taken"
    late = one.starts_at - now > _SOON_SECONDS
    when = f"expected {clock_time(one.starts_at, now)}" if late else "at once"
    where = f" on {one.nodes}" if one.nodes else ""
    inside = f" in {one.partition}" if one.partition else ""
    return f"would start {when}{where}{inside}"


def _names(one: Checked) -> str:
    names = ", ".join(one.jobs[:_NAMED])
    more = len(one.jobs) - _NAMED
    return f"{names} and {more} more" if more > 0 else names


def _refusal(one: Checked) -> Iterator[str]:
    if one.refused is None:
        return
    where = f"{one.refused.where}: " if one.refused.where else ""
    yield f"      {where}{one.refused.reason}"
    if one.refused.said != one.refused.reason:
        yield f"      Slurm said: {one.refused.said}"
    if one.refused.hint:
        yield f"      {one.refused.hint}"


def as_json(check: ClusterCheck) -> dict[str, object]:
    """The answers in the documented shape."""
    return {
        "name": check.facts.cluster,
        "version": check.facts.version,
        "accounting": check.facts.accounting,
        "checks": [_as_json(one) for one in check.checks],
    }


def _as_json(one: Checked) -> dict[str, object]:
    found = asdict(one) | {"options": dict(one.options)}
    if one.refused is not None:
        found["refused"] = asdict(one.refused) | {"where": one.refused.where}
    return found
