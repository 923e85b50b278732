"""The plan as a Mermaid flowchart: its text, and that labels stay labels."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from autoexp_tui.conditions.kinds import Approval, Composite
from autoexp_tui.model.specs import Edge
from autoexp_tui.planning.chart import quote_label, render_mermaid
from autoexp_tui.text.sanitize import clean_line
from tests.planning.plans import job, plan
from tests.support.campaigns import plan_of, planned


def test_jobs_stand_in_their_stages_and_arrows_join_them() -> None:
    made = plan(
        [job("a", stage="train"), job("b", 1, stage="report", depends_on=("a",))]
    )
    assert render_mermaid(made).splitlines() == [
        "flowchart TD",
        '  subgraph s0["train"]',
        '    j0["a"]',
        "  end",
        '  subgraph s1["report"]',
        '    j1["b"]',
        "  end",
        "  j0 --> j1",
    ]


def test_reading_is_dotted() -> None:
    edges = (Edge(before="a", after="b", mode="reads"),)
    assert "  j0 -.-> j1" in render_mermaid(plan([job("a"), job("b", 1)], edges=edges))


def test_a_job_that_asks_a_person_is_a_hexagon() -> None:
    asks = Composite(conditions=(Approval(),))
    assert '    j0{{"a"}}' in render_mermaid(plan([job("a", start_conditions=(asks,))]))


def test_a_wait_for_a_job_that_is_not_there_draws_no_arrow() -> None:
    assert "--" not in render_mermaid(plan([job("a", depends_on=("gone",))]))


def test_a_large_plan_shows_stages_and_how_many_waits_join_them() -> None:
    assert render_mermaid(plan_of(planned(124))).splitlines() == [
        "flowchart TD",
        '  s0["stable, 41 jobs"]',
        '  s1["cooldown, 41 jobs"]',
        '  s2["evaluate, 41 jobs"]',
        '  s3["report, 1 job"]',
        "  s0 -->|41| s1",
        "  s1 -->|41| s2",
        "  s2 -->|41| s3",
    ]


def test_what_is_left_out_of_a_very_large_plan_is_counted() -> None:
    jobs = [job(f"run{at}", at, stage=f"s{at}") for at in range(130)]
    assert render_mermaid(plan(jobs)).splitlines()[-1] == '  more["and 30 more stages"]'


def test_arrows_beyond_what_viewers_draw_are_counted() -> None:
    names = [f"run{at}" for at in range(70)]
    jobs = [
        job(name, at, stage=name, depends_on=tuple(names[:at]))
        for at, name in enumerate(names)
    ]
    drawn = render_mermaid(plan(jobs)).splitlines()
    assert sum("-->" in line for line in drawn) == 400
    assert drawn[-1] == '  more["and 2015 more arrows"]'


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
