from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.model.states import why
from autoexp_tui.tree.context_pack import (
    ChangedFile,
    ContextFacts,
    PriorIdea,
    SiblingRefusal,
    build_context_pack,
)
from autoexp_tui.tree.options import ContextStrategy, Metric, TreeOptions
from autoexp_tui.tree.scores import compare_results
from tests.tree.results import make_results


def prior(node: int | None, name: str, outcome: str = "") -> PriorIdea:
    return PriorIdea(
        node=node, idea_id=f"id{name}", title=f"Idea {name}", text=f"Do {name}.\nNow.",
        path=f"ideas/{name}.md", sha256=f"sha-{name}", outcome=outcome,
    )  # fmt: skip


FACTS = ContextFacts(
    node=4,
    depth=2,
    ancestors=(0, 2),
    wanted=7,
    diffstat_root=" solver.py | 9 ++++-----\n",
    diffstat_parent=" solver.py | 2 ++\n",
    files=(ChangedFile(path="b.py", added=1, removed=0),
           ChangedFile(path="a\x1b[2J.py", added=4, removed=5)),
    comparison=compare_results(
        make_results((1.0, 2.0), metrics="a b"),
        make_results((1.1, 1.9), metrics="a b"),
        TreeOptions(metrics=(Metric(name="a"), Metric(name="b"))),
    ),
    siblings=(SiblingRefusal(eval_id=9, title="Faster",
                             why=why("too_few_rows", used=3, expected=4)),),
    ideas=(prior(2, "c", "promoted as n4"), prior(0, "b"), prior(3, "d"),
           prior(4, "e"), prior(None, "z")),
    notes=("Try annealing.", "# Not a heading"),
)  # fmt: skip

EXPECTED = """\
# Node n4 at depth 2

Path from the root: n0 -> n2 -> n4
Ideas wanted: 7

## Notes of the person

    Try annealing.
    # Not a heading

## Results beside the root

Grade mixed, score 0.025; primary_metric_improved, score_too_low
- gain: a 1 -> 1.1 (+10.00 %)
- loss: b 2 -> 1.9 (-5.00 %)

## Changes since the root

     solver.py | 9 ++++-----

## Most changed files

- a.py +4 -5
- b.py +1 -0

## Changes since the parent

     solver.py | 2 ++

## Refused beside this node

- e9 Faster: its results have 3 rows; `gate.min_rows` asks for 4

## Earlier ideas and what became of them

- Idea z (idz, before this search): not tried
    Do z.
    Now.
- Idea b (idb, n0): not tried
    Do b.
    Now.
- Idea c (idc, n2): promoted as n4
    Do c.
    Now.
- Idea e (ide, n4): not tried
    Do e.
    Now.
"""


def test_the_context_of_a_node_shows_what_came_of_its_path() -> None:
    assert build_context_pack(FACTS, "node_plus_ancestors").text == EXPECTED


@pytest.mark.parametrize(("strategy", "names"), [
    ("node_plus_ancestors", "zbce"), ("node_only", "ze"),
    ("global_prior_ideas", "zbcde"),
])  # fmt: skip
def test_the_strategy_chooses_the_ideas_and_their_files_are_listed(
    strategy: ContextStrategy, names: str
) -> None:
    found = build_context_pack(FACTS, strategy)
    assert found.files == tuple((f"ideas/{one}.md", f"sha-{one}") for one in names)
    turned = replace(FACTS, ideas=FACTS.ideas[::-1], files=FACTS.files[::-1])
    assert build_context_pack(turned, strategy) == found


def test_a_context_is_bounded_and_says_what_it_leaves_out() -> None:
    many = tuple(prior(2, f"{at:03}") for at in range(500))
    files = tuple(ChangedFile(path=f"{at}.py", added=1, removed=0) for at in range(30))
    long = replace(FACTS, ideas=many, files=files, notes=("x" * 10_000,) * 9)
    found = build_context_pack(long, "node_plus_ancestors", 16_000)
    assert 15_000 < len(found.text.encode()) <= 16_000
    assert found.files[-1] == ("ideas/499.md", "sha-499")  # the newest stay
    assert f"({500 - len(found.files)} older ones are left out)" in found.text
    assert "(10 more are left out)" in found.text
    tiny = build_context_pack(long, "node_plus_ancestors", 100)
    assert (len(tiny.text.encode()), tiny.files) == (100, ())
