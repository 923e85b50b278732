"""The chart of a plan: its folding, what it says of the DAG, and what it checks."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.conditions.kinds import (
    Approval,
    Composite,
    FileExists,
    JobStateIs,
    MetadataIs,
)
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.specs import Edge, JobSpec, Plan
from autoexp_tui.model.specs import PlanFinding as Finding
from autoexp_tui.planning.chart import Section, build_chart, quote_label, render_mermaid
from autoexp_tui.text.sanitize import clean_line
from tests.planning.plans import job, plan
from tests.support.campaigns import plan_of, planned


def staged(name: str, index: int, *after: str, **fields: Any) -> JobSpec:
    """A job alone in the stage that is called as it is."""
    return job(name, index, stage=name, depends_on=after, **fields)


def many(count: int) -> Plan:
    """Jobs of one stage that differ in one key."""
    return plan(
        [
            job(f"run{at}", at, stage="train", family=f"f{at}", parameters={"seed": at})
            for at in range(count)
        ]
    )


def stages(made: Plan) -> list[Section]:
    """The stages' sections."""
    return list(build_chart(made).sections[1:])


def titles(made: Plan) -> list[str]:
    return [one.title for one in stages(made)]


def findings(made: Plan) -> list[tuple[str, ...]]:
    return list(build_chart(made).findings)


# ------------------------------------------------------------------------ folding
def test_a_stage_with_many_jobs_shows_the_first_and_counts_the_rest() -> None:
    rows, more, _ = stages(many(44))[0].tables
    assert [row[0] for row in rows] == [f"run{at}" for at in range(7)]
    assert more == (("... and 37 more",),)


def test_a_stage_that_just_fits_is_not_folded() -> None:
    rows, _ = stages(many(8))[0].tables
    assert rows[-1] == ("run7", "seed=7", "")


def test_a_key_with_many_values_shows_the_first_and_counts_the_rest() -> None:
    ((name, values),) = build_chart(many(400)).sections[0].tables[0]
    assert name == "seed"
    assert values.startswith("0, 1, 2, ")
    assert values.endswith(", 19 and 380 more")


def test_many_keys_are_counted() -> None:
    jobs = [
        job(f"run{at}", at, parameters={f"k{key}": at for key in range(14)})
        for at in range(2)
    ]
    rows, more = build_chart(plan(jobs)).sections[0].tables
    assert (len(rows), more) == (12, (("... and 2 keys more",),))


def test_conditions_that_differ_from_job_to_job_are_folded_and_counted() -> None:
    jobs = [
        job(f"run{at}", at, stage="s", start_conditions=(MetadataIs(key=f"k{at}"),))
        for at in range(10)
    ]
    conditions = stages(plan(jobs))[0].tables[-1]
    assert conditions[5] == ("", "when k5 == None [1 of 10 jobs]")
    assert conditions[6:] == (("", "... and 4 more that differ from job to job"),)


def test_many_conditions_of_one_job_are_counted() -> None:
    waits = tuple(MetadataIs(key=f"k{at}") for at in range(9))
    (made,) = stages(plan([job("a", start_conditions=waits)]))
    assert made.tables[-1][-2:] == (("", "and k5 == None"), ("", "... and 3 more"))


def test_many_stages_are_counted_instead_of_shown() -> None:
    made = plan([staged(f"s{at}", at) for at in range(45)])
    assert titles(made)[39:] == ["s39: 1 job", "... and 5 stages more with 5 jobs"]


def test_many_different_warnings_are_counted() -> None:
    warnings = tuple(Finding(message=f"oddity {at}") for at in range(30))
    assert findings(plan([job("a")], warnings=warnings))[-2:] == [
        ("!", "oddity 19"),
        ("", "... and 10 warnings more"),
    ]


def test_whole_unfolds_every_job_value_and_warning() -> None:
    warnings = tuple(Finding(message=f"warning {at}.") for at in range(30))
    jobs = many(30).jobs
    shown = build_chart(plan(jobs, warnings=warnings), whole=True)
    assert len(shown.sections[1].tables[0]) == 30
    assert shown.findings[-1] == ("!", "warning 29.")
    assert "more" not in str(shown)


# ------------------------------------------------------------------------ the DAG
def test_a_stage_comes_after_those_it_waits_for_whatever_its_index() -> None:
    made = plan([staged("last", 0, "first"), staged("first", 1)])
    assert titles(made) == ["first: 1 job", "last: 1 job, after first"]


def test_reading_without_waiting_is_told_apart_from_waiting() -> None:
    edges = (Edge(before="a", after="b", mode="reads"),)
    last = stages(plan([staged("a", 0), staged("b", 1)], edges=edges))[-1]
    assert last.title == "b: 1 job, reads a"
    assert last.tables[0] == (("b", "", "reads a"),)


def test_jobs_without_stages_are_one_section_of_jobs() -> None:
    made = plan([job("a"), job("b", 1)])
    assert titles(made) == ["jobs: 2 jobs"]
    assert build_chart(made).title == "exp: 2 jobs, config exp"
    assert findings(made) == [("✓", "no warnings")]


# --------------------------------------------------------------------- conditions
def test_a_condition_of_some_jobs_tells_of_how_many() -> None:
    jobs = [
        job(
            f"run{at}",
            at,
            stage="s",
            start_conditions=(MetadataIs(key="step", op=">=", value=bsz),),
        )
        for at, bsz in enumerate((256, 256, 512))
    ]
    assert stages(plan(jobs))[0].tables[-1] == (
        ("Starts", "when step >= 256 [2 of 3 jobs]"),
        ("", "when step >= 512 [1 of 3 jobs]"),
    )


def waiting(name: str, at: int, *keys: str) -> JobSpec:
    """A job that waits for each key, and is cancelled by each."""
    asked = tuple(MetadataIs(key=key) for key in keys)
    return job(name, at, stage="s", start_conditions=asked, cancel_conditions=asked)


def test_only_conditions_that_one_job_has_both_are_joined() -> None:
    jobs = [
        waiting("one", 0, "first"),
        waiting("two", 1, "second"),
        waiting("three", 2, "first", "third"),
    ]
    assert stages(plan(jobs))[0].tables[-1] == (
        ("Starts", "when first == None [1 of 3 jobs]"),
        ("", "when second == None [1 of 3 jobs]"),
        ("", "when first == None [1 of 3 jobs]"),
        ("", "and third == None [1 of 3 jobs]"),
        ("Cancelled", "if first == None [1 of 3 jobs]"),
        ("", "if second == None [1 of 3 jobs]"),
        ("", "if first == None [1 of 3 jobs]"),
        ("", "or third == None [1 of 3 jobs]"),
    )


def test_jobs_that_may_start_at_once_are_counted_beside_those_that_wait() -> None:
    ready = JobStateIs(jobs=("a",), state="COMPLETED")
    jobs = [job("a", stage="s"), job("b", 1, stage="s", start_conditions=(ready,))]
    assert stages(plan(jobs))[0].tables[-1] == (
        ("Starts", "at once [1 of 2 jobs]"),
        ("", "when a COMPLETED [1 of 2 jobs]"),
    )


def starts(name: str, spec: Condition, *after: str, **fields: Any) -> list[str]:
    """What the start of a job called so in stage `eval` waits for is told as."""
    me = job(name, stage="eval", depends_on=after, start_conditions=(spec,), **fields)
    return [text for _, text in stages(plan([me]))[0].tables[-1]]


def test_a_dependency_that_is_not_in_the_plan_is_told_whatever_its_name() -> None:
    asked = MetadataIs(key="step", op=">=", value=8)
    assert starts("a", asked, "g\x1bone  x") == ["when step >= 8"]


@pytest.mark.parametrize(("path", "told"), [
    ("/data/web/x.bin", "web/x.bin"), ("b/x.bin", "eval/x.bin"),
    ("/out/b/x.bin", "eval/x.bin"), ("/out/b.c/b", "b.c/b"),
])  # fmt: skip
def test_a_job_in_a_path_goes_by_its_stage_only_as_a_whole(
    path: str, told: str
) -> None:
    found = starts("b", FileExists(path=path), family="f0")
    assert found == [f"when {told}"]


def test_a_condition_that_does_not_block_says_so() -> None:
    shown = MetadataIs(
        key="step", op=">=", value=8, blocking=False, timeout_seconds=7200
    )
    me = job("a", stage="s", start_conditions=(shown,), cancel_conditions=(shown,))
    assert stages(plan([me]))[0].tables[-1] == (
        ("Starts",
         "when step >= 8 (only shown, holds nothing back) (gives up after 2 h)"),
        ("Cancelled",
         "if step >= 8 (only shown, cancels nothing) (looks no more after 2 h)"),
    )  # fmt: skip


# --------------------------------------------------------------------- validation


def test_warnings_have_their_job_place_and_hint() -> None:
    warning = Finding(message="is odd", where="lr", job="a", hint="write it so")
    last = findings(plan([job("a")], warnings=(warning,)))[-1]
    assert last == ("!", "a lr: is odd\n  write it so")


# ---------------------------------------------------------------- mermaid
def test_jobs_stand_in_their_stages_and_arrows_join_them() -> None:
    jobs = [
        job("a", stage="train", depends_on=("gone",)),
        job("b", 1, stage="report", depends_on=("a",)),
    ]
    made = plan(jobs)
    read = replace(made, edges=(Edge(before="a", after="b", mode="reads"),))
    assert "  j0 -.-> j1" in render_mermaid(read).splitlines()
    assert render_mermaid(made).splitlines() == [
        "flowchart TD", '  subgraph s0["train"]', '    j0["a"]', "  end",
        '  subgraph s1["report"]', '    j1["b"]', "  end", "  j0 --> j1",
    ]  # fmt: skip


def test_a_job_that_asks_a_person_is_a_hexagon() -> None:
    asks = Composite(conditions=(Approval(),))
    assert '    j0{{"a"}}' in render_mermaid(plan([job("a", start_conditions=(asks,))]))


def test_a_large_plan_shows_stages_and_how_many_waits_join_them() -> None:
    assert render_mermaid(plan_of(planned(124))).splitlines() == [
        "flowchart TD", '  s0["stable, 41 jobs"]', '  s1["cooldown, 41 jobs"]',
        '  s2["evaluate, 41 jobs"]', '  s3["report, 1 job"]', "  s0 -->|41| s1",
        "  s1 -->|41| s2", "  s2 -->|41| s3",
    ]  # fmt: skip


def test_quotes_comments_and_entities_in_a_name_are_numbers() -> None:
    assert quote_label('a%%"#1;') == '"a#37;#37;#34;#35;1#59;"'


@settings(deadline=None)
@given(st.text())
def test_a_label_holds_nothing_that_mermaid_reads_as_its_own(text: str) -> None:
    assert re.fullmatch(r'"(?:[\w ./=+,@-]|#\d+;)+"', quote_label(text))


@settings(deadline=None)
@given(st.text(max_size=100))
def test_a_label_reads_as_the_text(text: str) -> None:
    shown = re.sub(
        r"#(\d+);", lambda found: chr(int(found[1])), quote_label(text)[1:-1]
    )
    assert shown == (clean_line(text, 200) or "?")
