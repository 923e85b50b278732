"""Stages as a graph: branches and merges, at any size."""

from __future__ import annotations

from autoexp_tui.model.specs import Plan
from tests.cockpit.plans import opened, staged
from tests.cockpit.seat import cockpit
from tests.planning.plans import plan


def branching() -> Plan:
    """A base, two branches, a merge of both, and one that reads the base as well."""
    return plan(
        [
            staged("report", 0, "report", "base", "average"),
            staged("base", 1, "stable"),
            staged("short", 2, "cool_short", "base"),
            staged("long", 3, "cool_long", "base"),
            staged("average", 4, "average", "short", "long"),
        ]
    )


def rows(text: str) -> list[str]:
    return [line.rstrip("│ ") for line in text.splitlines()]


async def test_lines_lead_to_each_stage_from_those_before_it() -> None:
    async with cockpit(opened(branching())) as seat:
        names = [stage.name for stage in seat.model.stages]
        assert names == ["stable", "cool_short", "cool_long", "average", "report"]
        heads = [row for row in rows(seat.pane("stages")) if "▹" in row]
        lines = [row.partition("▹")[0].strip(" >") for row in heads]
        assert lines == ["", "├", "├─", "│└┴", "└──┴"]
        assert "after stable, average" in seat.pane("stages")


async def test_a_chain_too_deep_for_lines_is_told_in_words() -> None:
    jobs = [staged("s0", 0, "s00")]
    jobs += [staged(f"s{at}", at, f"s{at:02}", f"s{at - 1}") for at in range(1, 12)]
    async with cockpit(opened(plan(jobs)), size=(120, 60)) as seat:
        assert "after s08" in seat.pane("stages")
