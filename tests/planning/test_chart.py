"""The chart of a plan: its folding, what it says of the DAG, and what it checks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.conditions import kinds
from autoexp_tui.conditions.kinds import MetadataIs
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.specs import PlanFinding as Finding
from autoexp_tui.planning.chart import Section, build_chart, quote_label, render_mermaid
from autoexp_tui.text.sanitize import clean_line
from tests.planning.plans import job, plan
from tests.support.campaigns import plan_of, planned


def staged(name: str, index: int, *after: str) -> JobSpec:
    """A job alone in the stage that is called as it is."""
    return job(name, index, stage=name, depends_on=after)


def many(count: int) -> Plan:
    """Jobs of one stage that differ in one key."""
    return plan([
        job(f"run{at}", at, stage="train", family=f"f{at}", parameters={"seed": at})
        for at in range(count)
    ])  # fmt: skip


def stages(made: Plan) -> list[Section]:
    return list(build_chart(made).sections[1:])


def titles(made: Plan) -> list[str]:
    return [one.title for one in stages(made)]


def findings(*warnings: Finding) -> list[tuple[str, ...]]:
    return list(build_chart(plan([job("a")], warnings=warnings)).findings)


def waiting(*each: tuple[Any, ...], cancelled: bool = False) -> tuple[Any, ...]:
    """The lines about jobs of one stage that start on these conditions."""
    both = ["start_conditions", *["cancel_conditions"] * cancelled]
    jobs = [job(f"run{at}", at, stage="s", **dict.fromkeys(both, conditions))
            for at, conditions in enumerate(each)]  # fmt: skip
    return stages(plan(jobs))[0].tables[-1]


def test_many_jobs_and_values_show_the_first_and_count_the_rest() -> None:
    rows, more, _ = stages(many(44))[0].tables
    assert [row[0] for row in rows] == [f"run{at}" for at in range(7)]
    assert more == (("... and 37 more",),)
    rows, _ = stages(many(8))[0].tables
    assert rows[-1] == ("run7", "seed=7", "")
    ((name, values),) = build_chart(many(400)).sections[0].tables[0]
    assert (name, values[:9]) == ("seed", "0, 1, 2, ")
    assert values.endswith(", 19 and 380 more")
    keys = [{f"k{key}": at for key in range(14)} for at in range(2)]
    jobs = [job(f"run{at}", at, parameters=own) for at, own in enumerate(keys)]
    rows, more = build_chart(plan(jobs)).sections[0].tables
    assert (len(rows), more) == (12, (("... and 2 keys more",),))


def test_many_conditions_are_folded_and_counted() -> None:
    lines = waiting(*((MetadataIs(key=f"k{at}"),) for at in range(10)))
    assert lines[5] == ("", "when k5 == None [1 of 10 jobs]")
    assert lines[6:] == (("", "... and 4 more that differ from job to job"),)
    lines = waiting(tuple(MetadataIs(key=f"k{at}") for at in range(9)))
    assert lines[-2:] == (("", "and k5 == None"), ("", "... and 3 more"))


def test_many_stages_and_warnings_are_counted_instead_of_shown() -> None:
    made = plan([staged(f"s{at}", at) for at in range(45)])
    assert titles(made)[39:] == ["s39: 1 job", "... and 5 stages more with 5 jobs"]
    told = findings(*(Finding(message=f"oddity {at}") for at in range(30)))
    assert told[-2:] == [("!", "oddity 19"), ("", "... and 10 warnings more")]
    warning = Finding(message="is odd", where="lr", job="a", hint="write it so")
    assert findings(warning)[-1] == ("!", "a lr: is odd\n  write it so")


def test_whole_unfolds_every_job_value_and_warning() -> None:
    warnings = tuple(Finding(message=f"warning {at}.") for at in range(30))
    shown = build_chart(plan(many(30).jobs, warnings=warnings), whole=True)
    assert len(shown.sections[1].tables[0]) == 30
    assert shown.findings[-1] == ("!", "warning 29.")
    assert "more" not in str(shown)


def test_a_stage_comes_after_those_it_waits_for_or_reads() -> None:
    made = plan([staged("last", 0, "first"), staged("first", 1)])
    assert titles(made) == ["first: 1 job", "last: 1 job, after first"]
    edges = (Edge(before="a", after="b", mode="reads"),)
    last = stages(plan([staged("a", 0), staged("b", 1)], edges=edges))[-1]
    assert last.title == "b: 1 job, reads a"
    assert last.tables[0] == (("b", "", "reads a"),)
    made = plan([job("a"), job("b", 1)])
    assert titles(made) == ["jobs: 2 jobs"]
    assert build_chart(made).title == "exp: 2 jobs, config exp"
    assert findings() == [("✓", "no warnings")]


def test_a_condition_of_some_jobs_tells_of_how_many() -> None:
    sizes = ((MetadataIs(key="step", op=">=", value=n),) for n in (256, 256, 512))
    assert waiting(*sizes) == (
        ("Starts", "when step >= 256 [2 of 3 jobs]"),
        ("", "when step >= 512 [1 of 3 jobs]"),
    )
    ready = kinds.JobStateIs(jobs=("a",), state="COMPLETED")
    assert waiting((), (ready,)) == (
        ("Starts", "at once [1 of 2 jobs]"), ("", "when a COMPLETED [1 of 2 jobs]")
    )  # fmt: skip


def test_only_conditions_that_one_job_has_both_are_joined() -> None:
    first, second, third = (MetadataIs(key=key) for key in ("first", "second", "third"))
    told = waiting((first,), (second,), (first, third), cancelled=True)
    words = ("first", "second", "first", "third")
    lines = [f"{word} == None [1 of 3 jobs]" for word in words]
    starts = [f"when {line}" for line in lines[:3]] + [f"and {lines[3]}"]
    ends = [f"if {line}" for line in lines[:3]] + [f"or {lines[3]}"]
    heads = ["Starts", "", "", "", "Cancelled", "", "", ""]
    assert told == tuple(zip(heads, starts + ends, strict=True))


@pytest.mark.parametrize(("path", "told"), [
    ("/data/web/x.bin", "web/x.bin"), ("b/x.bin", "eval/x.bin"),
    ("/out/b/x.bin", "eval/x.bin"), ("/out/b.c/b", "b.c/b"),
])  # fmt: skip
def test_a_job_in_a_path_goes_by_its_stage_as_a_whole(path: str, told: str) -> None:
    waits = kinds.FileExists(path=path)
    more: dict[str, Any] = {"depends_on": ("g\x1bone",), "start_conditions": (waits,)}
    me = job("b", stage="eval", family="f0", **more)
    ((_, text),) = stages(plan([me]))[0].tables[-1]
    assert text == f"when {told}"


def test_a_condition_that_does_not_block_says_so() -> None:
    shown = MetadataIs(
        key="step", op=">=", value=8, blocking=False, timeout_seconds=7200
    )
    assert waiting((shown,), cancelled=True) == (
        (
            "Starts",
            "when step >= 8 (only shown, holds nothing back) (gives up after 2 h)",
        ),
        (
            "Cancelled",
            "if step >= 8 (only shown, cancels nothing) (looks no more after 2 h)",
        ),
    )


def test_jobs_stand_in_their_stages_and_arrows_join_them() -> None:
    asks = kinds.Composite(conditions=(kinds.Approval(),))
    made = plan([
        job("a", stage="train", depends_on=("gone",)),
        job("b", 1, stage="report", depends_on=("a",), start_conditions=(asks,)),
    ])  # fmt: skip
    read = replace(made, edges=(Edge(before="a", after="b", mode="reads"),))
    assert "  j0 -.-> j1" in render_mermaid(read).splitlines()
    assert render_mermaid(made).splitlines() == [
        "flowchart TD", '  subgraph s0["train"]', '    j0["a"]', "  end",
        '  subgraph s1["report"]', '    j1{{"b"}}', "  end", "  j0 --> j1",
    ]  # fmt: skip


def test_a_large_plan_shows_stages_and_how_many_waits_join_them() -> None:
    assert render_mermaid(plan_of(planned(124))).splitlines() == [
        "flowchart TD", '  s0["stable, 41 jobs"]', '  s1["cooldown, 41 jobs"]',
        '  s2["evaluate, 41 jobs"]', '  s3["report, 1 job"]', "  s0 -->|41| s1",
        "  s1 -->|41| s2", "  s2 -->|41| s3",
    ]  # fmt: skip


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=100))
def test_a_label_reads_as_the_text_and_holds_nothing_of_mermaids_own(text: str) -> None:
    label = quote_label(text)
    assert re.fullmatch(r'"(?:[\w ./=+,@-]|#\d+;)+"', label)
    shown = re.sub(r"#(\d+);", lambda found: chr(int(found[1])), label[1:-1])
    assert shown == (clean_line(text, 200) or "?")
    assert quote_label('a%%"#1;') == '"a#37;#37;#34;#35;1#59;"'
