"""The chart of a plan, and its order: who follows whom, rings, the first family."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.conditions import kinds
from autoexp_tui.conditions.kinds import MetadataIs
from autoexp_tui.model.errors import Problem as Finding
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.planning import dag
from autoexp_tui.planning.chart import Section, build_chart, quote_label, render_mermaid
from autoexp_tui.planning.validate import format_ring
from autoexp_tui.text.sanitize import clean_line
from tests.planning.plans import job, plan, ten_jobs
from tests.support.campaigns import plan_of, planned


def staged(name: str, index: int, *after: str) -> JobSpec:
    return job(name, index, stage=name, depends_on=after)


def reads(before: str, after: str) -> Edge:
    return Edge(before=before, after=after, mode="reads")


def many(count: int) -> Plan:
    return plan([
        job(f"run{at}", at, stage="train", family=f"f{at}", parameters={"seed": at})
        for at in range(count)
    ])  # fmt: skip


def stages(made: Plan) -> list[Section]:
    return list(build_chart(made).sections[1:])


def findings(*warnings: Finding) -> list[tuple[str, ...]]:
    return list(build_chart(plan([job("a")], warnings=warnings)).findings)


def waiting(*each: tuple[Any, ...], cancelled: bool = False) -> tuple[Any, ...]:
    """The lines about jobs of one stage that start on these conditions."""
    both = ["start_conditions", *["cancel_conditions"] * cancelled]
    jobs = [job(f"run{at}", at, stage="s", **dict.fromkeys(both, conditions))
            for at, conditions in enumerate(each)]  # fmt: skip
    return stages(plan(jobs))[0].tables[-1]


def test_values_of_one_parameter_are_spelled_alike() -> None:
    made = [job(f"run{at}", at, parameters={"lr": lr}) for at, lr in enumerate(RATES)]
    (((_, swept),),) = build_chart(plan(made)).sections[0].tables
    assert swept == "1e-4, 1e-3, 1e-2"
    assert [row[1] for row in stages(plan(made))[0].tables[0]][-1] == "lr=1e-2"


RATES = (1e-4, 1e-3, 0.01)


def test_many_jobs_and_values_show_the_first_and_count_the_rest() -> None:
    rows, more, _ = stages(many(44))[0].tables
    assert [row[0] for row in rows] == [f"run{at}" for at in range(7)]
    assert more == (("... and 37 more",),)
    rows, _ = stages(many(8))[0].tables
    assert rows[-1] == ("run7", "seed=7", "")
    ((name, values),) = build_chart(many(400)).sections[0].tables[0]
    assert (name, values[:9]) == ("seed", "0, 1, 2, ")
    assert values.endswith(", 19 and 380 more")
    lines = waiting(*((MetadataIs(key=f"k{at}"),) for at in (0, *range(10))))
    assert lines[0] == ("Starts", "when k0 == None [2 of 11 jobs]")
    assert lines[5] == ("", "when k5 == None [1 of 11 jobs]")
    assert lines[6:] == (("", "... and 4 more that differ from job to job"),)
    told = findings(*(Finding(message=f"oddity {at}") for at in range(30)))
    assert told[-2:] == [("!", "oddity 19"), ("", "... and 10 warnings more")]
    assert findings() == [("✓", "no warnings")]
    warning = Finding(message="is odd", where="lr", job="a", hint="write it so")
    assert findings(warning)[-1] == ("!", "a lr: is odd\n  write it so")


def test_a_stage_comes_after_those_it_waits_for_or_reads() -> None:
    made = stages(plan([staged("last", 0, "first"), staged("first", 1)]))
    titles = [one.title for one in made]
    assert titles == ["first: 1 job", "last: 1 job, after first"]
    both = plan([staged("a", 0), staged("b", 1)], edges=(reads("a", "b"),))
    last = stages(both)[-1]
    assert last.title == "b: 1 job, reads a"
    assert last.tables[0] == (("b", "", "reads a"),)
    unstaged = build_chart(plan([job("a"), job("b", 1)]))
    assert unstaged.title == "exp: 2 jobs, config exp"
    assert unstaged.sections[1].title == "jobs: 2 jobs"


def test_a_condition_that_does_not_block_says_so() -> None:
    only = {"blocking": False, "timeout_seconds": 7200}
    shown = MetadataIs(key="step", op=">=", value=8, **only)  # type: ignore[arg-type]
    holds, ends = "holds nothing back) (gives up", "cancels nothing) (looks no more"
    assert waiting((shown,), cancelled=True) == (
        ("Starts", f"when step >= 8 (only shown, {holds} after 2 h)"),
        ("Cancelled", f"if step >= 8 (only shown, {ends} after 2 h)"),
    )


def test_jobs_stand_in_their_stages_and_arrows_join_them() -> None:
    asks = kinds.Composite(conditions=(kinds.Approval(),))
    made = plan([
        job("a", stage="train", depends_on=("gone",)),
        job("b", 1, stage="report", depends_on=("a",), start_conditions=(asks,)),
    ])  # fmt: skip
    read = replace(made, edges=(reads("a", "b"),))
    assert "  j0 -.-> j1" in render_mermaid(read).splitlines()
    assert render_mermaid(made).splitlines() == [
        "flowchart TD", '  subgraph s0["train"]', '    j0["a"]', "  end",
        '  subgraph s1["report"]', '    j1{{"b"}}', "  end", "  j0 --> j1",
    ]  # fmt: skip
    assert render_mermaid(plan_of(planned(124))).splitlines() == [
        "flowchart TD", '  s0["stable, 41 jobs"]', '  s1["cooldown, 41 jobs"]',
        '  s2["evaluate, 41 jobs"]', '  s3["report, 1 job"]', "  s0 -->|41| s1",
        "  s1 -->|41| s2", "  s2 -->|41| s3",
    ]  # fmt: skip


@given(st.text(max_size=100))
def test_a_label_reads_as_the_text_and_holds_nothing_of_mermaids_own(text: str) -> None:
    label = quote_label(text)
    assert re.fullmatch(r'"(?:[\w ./=+,@-]|#\d+;)+"', label)
    shown = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label[1:-1])
    assert shown == (clean_line(text, 200) or "?")
    assert quote_label('a%%"#1;') == '"a#37;#37;#34;#35;1#59;"'


def test_a_long_ring_is_told_by_its_ends() -> None:
    assert format_ring("ring", list("abcdefghijkl")).count("->") == 12
    head = "s0 -> s1 -> s2 -> s3 -> s4 -> s5 -> (3,988 more) -> "
    tail = "s3994 -> s3995 -> s3996 -> s3997 -> s3998 -> s3999 -> s0"
    told = format_ring("ring", [f"s{at}" for at in range(4000)])
    assert told == f"ring: {head}{tail}"


@pytest.mark.parametrize(("before", "order"), [
    ({"c": [], "a": [], "b": []}, ["c", "a", "b"]),
    ({"late": ["first"], "first": [], "other": []}, ["first", "late", "other"]),
    ({"a": ["a"], "b": []}, ["a", "b"]), ({"a": ["gone"], "b": []}, ["a", "b"]),
    ({"a": ["c"], "b": ["a"], "c": ["b"], "d": []}, ["d", "a", "b", "c"]),
    ({"a": "db", "b": "", "c": "e", "d": "", "e": ""}, ["b", "d", "a", "e", "c"]),
], ids=["as is", "free", "after itself", "unknown", "a ring", "ties"])  # fmt: skip
def test_stages_come_in_order(before: Any, order: list[str]) -> None:
    assert dag.order_stages(before) == order


def test_the_first_family_goes_with_all_its_stages_and_what_it_waits_for() -> None:
    made = ten_jobs()
    assert dag.find_first_family(made) == tuple(one.name for one in made.jobs[:3])
    base, data = job("base", 2, depends_on=("data",)), job("data", 3)
    a, b = (job(n, at, family=f"f{at}") for at, n in enumerate("ab"))
    jobs = [replace(a, depends_on=("base",)), b, base, data]
    assert dag.find_first_family(plan(jobs)) == ("a", "base", "data")
    assert dag.find_first_family(plan([job("a"), job("b", 1)])) == ("a",)
    assert dag.find_first_family(plan([])) == ()
    jobs = [a, replace(b, depends_on=("a",)), job("c", 2, family="f2")]
    assert dag.find_first_family(plan(jobs), done=("a",)) == ("a", "b")
