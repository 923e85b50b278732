"""What a search asks: whether a depth goes on that fails, and which nodes it makes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from autoexp_tui.cli.diagnostics import ExitCode
from autoexp_tui.cli.headless import Watching, is_over
from autoexp_tui.model.commands import AnswerAsk
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.policy import find_end
from autoexp_tui.tree.decide import TreePolicy
from tests.engine.bench import Bench
from tests.support.fake_script import RunScript
from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import decide_all, fails, find, find_code, propose, search

ALL_FAIL = {f"e{at}_sweep": fails() for at in range(1, 7)}
BEAM: dict[str, Any] = {"approve": "beam"}


def answer(
    bench: Bench, name: str, *, approved: bool, dropped: tuple[int, ...] = ()
) -> None:
    ask = bench.engine.state.asks[name]
    digest = digest_question(name, ask.prompt, ask.list_kept(dropped))
    bench.order(
        AnswerAsk(
            ask=name, digest=digest, approved=approved, dropped=dropped, reason="seen"
        ),
        by="ann",
    )
    bench.run(1)


@pytest.mark.parametrize(
    ("failing", "options", "code"),
    [
        ((1, 2, 3), {}, "failed_alike"),
        ((1, 2), {}, ""),
        ((2, 3, 4), {"ideas_per_node": 4}, ""),
        ((2,), {"strict_fail_depth": True}, "first_failure"),
        ((), {"strict_fail_depth": True}, ""),
    ],
)
def test_failures_at_the_head_of_a_depth_pause_the_search_and_ask(
    failing: tuple[int, ...], options: dict[str, Any], code: str
) -> None:
    scripts = {f"e{at}_sweep": fails() for at in failing}

    def name_ideas(node: str) -> list[str]:
        return [*propose(node), "0.01 more"]

    bench = search(FakeTrees(name_ideas), scripts, max_depth=1, **options)
    bench.run(60)
    held = find(bench).held
    assert (held.code if held else "") == code
    assert [*bench.engine.state.asks] == (["search/0"] if code else [])


def test_a_paused_search_without_a_screen_ends_with_the_guards_code() -> None:
    bench = search(FakeTrees(propose), ALL_FAIL)
    bench.run(60)
    shown = bench.snapshots[-1]
    assert is_over(shown, Watching())
    assert not is_over(shown, Watching(stop_in_storm=False))
    end = find_end(shown.parts)
    assert end is not None
    assert end.code == ExitCode.GUARD
    assert "ended alike" in end.reason
    assert TreePolicy().is_open(find(bench)).endswith("waits for an answer")


def test_what_is_open_when_a_search_is_paused_goes_on_to_its_end() -> None:
    slow = {"e1_sweep": fails(), "e2_sweep": [[RunScript(seconds=30)]]}
    bench = search(FakeTrees(propose), slow, strict_fail_depth=True)
    bench.run(15)
    assert (find(bench).held is not None, find(bench).open) == (True, ("e2",))
    bench.run(60)
    assert [*find(bench).evaluations] == ["e1", "e2"]
    assert find(bench).evaluations["e2"].judgement is not None


@pytest.mark.parametrize(
    ("approved", "stopped"), [(True, "empty_frontier"), (False, "search_refused")]
)
def test_the_answer_lets_the_depth_go_on_or_ends_the_search(
    approved: bool, stopped: str
) -> None:
    bench = search(FakeTrees(propose), ALL_FAIL, strict_fail_depth=True)
    bench.run(30)
    answer(bench, "search/0", approved=approved)
    bench.die(5)
    decide_all(bench)
    assert find_code(find(bench).stopped) == stopped
    assert len(find(bench).evaluations) == (3 if approved else 2)
    assert [len(one.ranking) for one in find(bench).closed] == [3 if approved else 2]
    end = find_end(bench.snapshots[-1].parts)
    assert end is not None
    assert end.code == (ExitCode.OK if approved else ExitCode.GUARD)


def test_a_beam_is_approved_line_by_line_and_no_other_takes_a_dropped_place() -> None:
    bench = search(FakeTrees(propose), max_depth=1, **BEAM)
    bench.run(60)
    asked = bench.engine.state.asks["beam/0"]
    assert [line.split("  ")[:2] for line in asked.lines] == [
        ["e1", "0.1 of n0"],
        ["e2", "0.05 of n0"],
    ]
    assert find(bench).closed == ()
    bench.die(5)
    answer(bench, "beam/0", approved=True, dropped=(0,))
    decide_all(bench)
    (closed,) = find(bench).closed
    assert [*closed.list_promoted()] == [("e2", "n1")]
    assert closed.ranking[0].why.code == "left_out_of_beam"


def test_a_refused_beam_ends_the_search_and_makes_no_node() -> None:
    bench = search(FakeTrees(propose), **BEAM)
    bench.run(60)
    answer(bench, "beam/0", approved=False)
    decide_all(bench)
    assert find_code(find(bench).stopped) == "beam_refused"
    assert [*find(bench).nodes] == ["n0"]


@pytest.mark.parametrize("seed", range(4))
def test_answers_given_beforehand_change_nothing_of_what_is_decided(seed: int) -> None:
    draw = random.Random(seed)
    slow = {f"e{at}_sweep": [[RunScript(seconds=draw.uniform(1, 9))]] for at in (1, 4)}
    bench = search(FakeTrees(propose), slow, given="beam", **BEAM)
    bench.single_steps(draw.randrange(40, 400))
    bench.die(3)
    decide_all(bench)
    plain = search(FakeTrees(propose), max_parallel_evals=1)
    decide_all(plain)
    assert find(bench).closed == find(plain).closed
