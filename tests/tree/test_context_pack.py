from __future__ import annotations

from dataclasses import replace

from autoexp_tui.model.states import why
from autoexp_tui.tree.context_pack import (
    PriorIdea,
    build_context_pack,
    describe_outcome,
)
from autoexp_tui.tree.options import IdeaSource, Metric, TreeOptions
from autoexp_tui.tree.ports import PackRequest
from autoexp_tui.tree.scores import compare_results
from autoexp_tui.tree.state import Evaluation, GateOutcome, Idea, Judgement, Node
from tests.tree.results import make_results

OPTIONS = TreeOptions(
    metrics=(Metric(name="a"), Metric(name="b")),
    ideas=IdeaSource(notes=("Try annealing.", "# Not a heading")),
)
COMPARED = compare_results(
    make_results((1.0, 2.0), metrics="a b"),
    make_results((1.1, 1.9), metrics="a b"),
    OPTIONS,
)


def evaluate(number: int, title: str, gate: GateOutcome | None) -> Evaluation:
    judged = Judgement(outcome="scored", gate=gate, root=COMPARED)
    idea = Idea(node="n2", file="1.md", title=title, sha256="x")
    return Evaluation(id=f"e{number}", node="n2", depth=1, idea=idea, judgement=judged)


FEW = why("too_few_rows", used=3, expected=4)
REFUSED = evaluate(9, "Faster", GateOutcome(FEW, (FEW,)))
PASSED = evaluate(10, "Slower", GateOutcome(why("gate_passed")))
REQUEST = PackRequest(
    root_commit="c",
    node=Node(id="n4", depth=2, commit="c"),
    ancestors=tuple(Node(id=name, depth=0, commit="c") for name in ("n2", "n0")),
    siblings=(PASSED, REFUSED),
    comparison=COMPARED,
)


def prior(name: str) -> PriorIdea:
    text = f"Do {name}.\nNow."
    return PriorIdea(name, f"Idea {name}", text, f"ideas/{name}.md", f"sha-{name}")


IDEAS = [prior("z"), replace(prior("c"), node="n2", outcome=describe_outcome(PASSED))]
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

    solver.py  +5 -4

## Changes since the parent

    solver.py  +2 -0

## Refused beside this node

- e9 Faster: its results have 3 rows; `gate.min_rows` asks for 4

## Earlier ideas and what became of them

- Idea z (z, before this search): not tried
    Do z.
    Now.
- Idea c (c, n2): passed the gate; mixed, score 0.0250
    Do c.
    Now.
"""


def test_the_context_of_a_node_shows_what_came_of_its_path() -> None:
    stats = (["solver.py  +5 -4"], ["solver.py  +2 -\x1b[2J0"])
    found = build_context_pack(REQUEST, OPTIONS, IDEAS, *stats)
    assert found.text == EXPECTED
    assert found.files == tuple((f"ideas/{it}.md", f"sha-{it}") for it in "zc")
    assert describe_outcome(REFUSED) == "too_few_rows"


def test_a_context_is_bounded_and_says_what_it_leaves_out() -> None:
    many = [prior(f"{at:03}") for at in range(500)]
    refused = tuple(replace(REFUSED, id=f"e{at}") for at in range(30))
    notes = replace(OPTIONS, ideas=IdeaSource(notes=("x" * 10_000,) * 9))
    request, no_stat = replace(REQUEST, siblings=refused), ((), ())
    found = build_context_pack(request, notes, many, *no_stat, 16_000)
    assert 15_000 < len(found.text.encode()) <= 16_000
    assert found.files[-1] == ("ideas/499.md", "sha-499")  # the newest stay
    assert f"({500 - len(found.files)} older ones are left out)" in found.text
    assert "(10 more are left out)" in found.text
    tiny = build_context_pack(request, notes, many, *no_stat, 100)
    assert (len(tiny.text.encode()), tiny.files) == (100, ())
