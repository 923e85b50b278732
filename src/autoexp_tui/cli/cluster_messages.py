"""A cluster's answers about a plan, as text for people and as JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from autoexp_tui.executors.slurm.check import Checked, ClusterCheck
from autoexp_tui.executors.slurm.refusals import format_sizes
from autoexp_tui.text.spelling import clock_time, plural

_NAMED = 3
"""Jobs that are told by name before the rest is counted."""
_SOON_SECONDS = 60.0


def format_check(check: ClusterCheck, now: float) -> str:
    """What was asked, and each answer with the next step."""
    lines = [
        f"cluster   {_name_cluster(check)}: "
        f"{plural(len(check.checks), 'question')}, nothing was submitted"
    ]
    for one in check.checks:
        lines += _format_answer(one, now)
    return "\n".join(lines)


def _name_cluster(check: ClusterCheck) -> str:
    facts = check.facts
    version = f"Slurm {facts.version}" if facts.version else "Slurm"
    return f"{facts.cluster}, {version}" if facts.cluster else version


def _format_answer(one: Checked, now: float) -> Iterator[str]:
    jobs = plural(len(one.jobs), "job")
    where = one.options.get("partition") or "the default partition"
    asked = ", ".join(
        part
        for part in (
            f"partition {where}",
            format_sizes(one.options),
            _format_limit(one),
        )
        if part and part != "partition the default partition"
    )
    match one.verdict:
        case "taken":
            yield f"  ✓ {jobs:<9} {_format_start(one, now)}   ({asked or 'no options'})"
        case "not now":
            yield f"  · {jobs:<9} not taken just now: {one.said}   ({asked})"
            yield "      It is sent again by itself until there is room."
        case "refused":
            yield f"  ✗ {jobs:<9} would be refused: {_join_names(one)}"
            yield from _explain_refusal(one)


def _format_limit(one: Checked) -> str:
    limit = one.options.get("time")
    return f"time {limit}" if limit is not None else ""


def _format_start(one: Checked, now: float) -> str:
    if one.starts_at is None:
        return "would be taken"
    late = one.starts_at - now > _SOON_SECONDS
    when = f"expected {clock_time(one.starts_at, now)}" if late else "at once"
    where = f" on {one.nodes}" if one.nodes else ""
    inside = f" in {one.partition}" if one.partition else ""
    return f"would start {when}{where}{inside}"


def _join_names(one: Checked) -> str:
    names = ", ".join(one.jobs[:_NAMED])
    more = len(one.jobs) - _NAMED
    return f"{names} and {more} more" if more > 0 else names


def _explain_refusal(one: Checked) -> Iterator[str]:
    if one.refused is None:
        return
    where = f"{one.refused.where}: " if one.refused.where else ""
    yield f"      {where}{one.refused.reason}"
    if one.refused.said != one.refused.reason:
        yield f"      Slurm said: {one.refused.said}"
    if one.refused.hint:
        yield f"      {one.refused.hint}"


def check_json(check: ClusterCheck) -> dict[str, object]:
    """The answers in the documented shape."""
    return {
        "name": check.facts.cluster,
        "version": check.facts.version,
        "accounting": check.facts.accounting,
        "checks": [_answer_json(one) for one in check.checks],
    }


def _answer_json(one: Checked) -> dict[str, object]:
    found = asdict(one) | {"options": dict(one.options)}
    if one.refused is not None:
        found["refused"] = asdict(one.refused) | {"where": one.refused.where}
    return found
