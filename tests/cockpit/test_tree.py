"""Mode 6: what it shows of a search, and what its keys order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autoexp_tui.cockpit.render import tree as render
from autoexp_tui.cockpit.render.tree import build_outline
from autoexp_tui.cockpit.screens import tree as screen
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.config.planning import ChildPlanner
from autoexp_tui.engine.live import make_plan_snapshot
from autoexp_tui.evaluation.disk_trees import DiskTrees
from autoexp_tui.model.commands import Submit
from autoexp_tui.model.errors import UsageError
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.tree.commands import (
    EndEvaluation,
    MarkEvaluation,
    ProposeIdea,
    RetryEvaluation,
)
from autoexp_tui.tree.state import Evaluation, Mark, Node, Tree
from tests.cockpit.seat import cockpit
from tests.cockpit.test_cost import counted
from tests.model.builders import plan
from tests.support.fake_script import RunScript
from tests.support.journal_contract import PLAN
from tests.tree.fake_trees import FakeTrees
from tests.tree.test_decide import find, propose, search

SIZES = [(80, 24), (120, 40), (200, 60)]


def searching() -> Snapshot:
    """Depth 1: e1 passed, e2 failed, e3 goes on with its sweep."""
    scripts = {
        "e2_implement": [[RunScript(exit_code=1)]],
        "e3_sweep": [[RunScript(seconds=900)]],
    }
    bench = search(FakeTrees(propose), scripts)
    bench.run(20)
    return bench.snapshots[-1]


def ended() -> Snapshot:
    bench = search(FakeTrees(propose))
    bench.run(120)
    return bench.snapshots[-1]


def find_part(snapshot: Snapshot) -> Tree:
    part: Tree = snapshot.parts["tree"]
    return part


def with_part(snapshot: Snapshot, part: Tree) -> Snapshot:
    return replace(snapshot, parts={**snapshot.parts, "tree": part})


@pytest.mark.parametrize("size", SIZES)
async def test_each_row_says_what_became_of_its_idea_and_why(
    size: tuple[int, int],
) -> None:
    async with cockpit(searching(), size) as seat:
        await seat.see(
            "6",
            tree="depth 1 of 2, 3 opened, 1 open|best 1.000 root|1.100 e1|● root",
            below="1",
        )
        seat.check(tree="├✓ passed|e1|+10.0%|├! failed|└▸ sweep")
        await seat.see("j", detail="passed the gate: grade|1: score +0.100|1 of 1 ok")
        await seat.see("j", detail="implement failed")
        await seat.see("tab j", tree="> ├! failed")
    async with cockpit(ended(), size) as seat:
        await seat.see("6", tree="ended: last depth|├★ beam n1|│└= repeat")
        await seat.see("j", detail="promoted: rank 1|e1")
        await seat.see("escape", focus="jobs")


async def test_its_keys_order_after_a_question_and_their_twins_do_nothing() -> None:
    promote = MarkEvaluation(evaluation="e1", choice="promote", reason="I know")
    text = "# Warm up\n\nOver 100 steps.\n"
    async with cockpit(searching()) as seat:
        await seat.play("6 j a x i b r p")
        assert not seat.dialog
        await seat.order("A hear 'I~know enter hear y", promote)
        reject = replace(promote, choice="reject")
        await seat.order("X hear 'I~know enter hear y", reject)
        await seat.see("K", footer="not under way")
        await seat.see("R", footer="without results")
        await seat.order("j R hear y", RetryEvaluation(evaluation="e2"))
        await seat.see("B", footer="no node")
        idea = ProposeIdea(node="n0", text=text)
        await seat.order("I hear 'Warm~up:~Over~100~steps. enter hear y", idea)
        await seat.play("g B hear 'Alone enter hear")
        await seat.order("y", replace(idea, text="# Alone\n\nAlone\n"))
        await seat.see("G K hear y", footer="e3 will be ended in 5 s")
        await seat.see("U", footer="nothing was sent")
        await seat.play("K hear y")
        seat.clock.advance(6)
        await seat.order("j", EndEvaluation(evaluation="e3"))


async def test_a_search_without_jobs_of_its_own_is_begun_by_submitting_it() -> None:
    planned = replace(plan(), jobs=(), tree={"max_depth": 3, "beam_width": 2})
    async with cockpit(make_plan_snapshot(planned)) as seat:
        await seat.see("", why="a search: at most 3 depths, beam 2", footer="S submit")
        await seat.order("S hear y", Submit(plan_id=planned.plan_id))


async def test_a_research_is_begun_by_submitting_it() -> None:
    planned = replace(plan(), jobs=(), research={"goal": "g", "agent": ["rules"]})
    async with cockpit(make_plan_snapshot(planned)) as seat:
        await seat.see("", why="the agent rules decides", footer="S submit")
        await seat.order("S hear y", Submit(plan_id=planned.plan_id))


async def test_what_the_search_asks_is_answered_before_anything_is_promoted() -> None:
    bench = search(FakeTrees(propose), approve="beam")
    bench.run(40)
    async with cockpit(bench.snapshots[-1]) as seat:
        await seat.see("6 j A hear", dialog="Approve beam/0?")


async def test_a_mark_asks_for_a_reason_and_can_be_taken_away() -> None:
    shown = searching()
    part = find_part(shown).fork()
    marked = replace(part.evaluations["e1"], mark=Mark(choice="reject", reason="no"))
    part.evaluations["e1"] = marked
    part.evaluations["e3"] = replace(part.evaluations["e3"], mark=marked.mark)
    async with cockpit(with_part(shown, part)) as seat:
        await seat.see("6 G", tree="▸ sweep", detail="reject by : no")
        await seat.see("g j", tree="✗ rejected", detail="reject by : no")
        await seat.see("X hear y", dialog="type the reason first")
        await seat.order("2 y", MarkEvaluation(evaluation="e1", choice=None))


async def test_change_transcript_isolation_path_and_log_of_a_row(
    tmp_path: Path,
) -> None:
    shown = ended()
    part = find_part(shown).fork()
    part.directory = str(tmp_path)
    call = tmp_path / "eval/e4/experiment/calls/implement"
    call.mkdir(parents=True)
    (call / "transcript.log").write_text("I read \x1b]0;evil\x07 solver.py\n")
    answer = {"outcome": "ok", "seconds": 61, "usage": {"input_tokens": 31_000}}
    (call / "answer.json").write_text(json.dumps(answer))
    held = json.dumps({"isolation": "landlock: nothing else is written"})
    (tmp_path / "eval/e4/implemented.json").write_text(held)
    (tmp_path / "eval/e4/candidate.patch").write_text('+mine\n+"\x1b]"; evil\n')
    (tmp_path / "eval/e4/since_root.patch").write_text("-before\n+mine\n")
    async with cockpit(with_part(shown, part)) as seat:
        await seat.see("6 j j", detail="Detail  e4|landlock|31k tokens|+mine|!-before")
        await seat.see("d", dialog='against n1|+mine|+"\\x1b]"; evil|!-before')
        await seat.see("d", dialog="since the root|-before|+mine")
        await seat.see("escape o", dialog="implement|I read")
        assert "\x1b" not in seat.dialog
        await seat.see("escape j o", footer="e5 has called no agent")
        await seat.see("d", dialog="it left no change")
        assert seat.app.screen is not None
        await seat.play("escape")
        seat.check(focus="tree")
        assert seat.widget("tree").copy_text() == str(tmp_path / "eval/e5")
        await seat.see("0", focus="log")
        assert seat.app.current_mode == "jobs"


def grown(number: int) -> Snapshot:
    """A search of so many evaluations, in depths of a hundred."""
    shown = ended()
    part = find_part(shown).fork()
    nodes = [*part.nodes]
    like = part.evaluations["e5"]
    for at in range(len(part.evaluations) + 1, number + 1):
        node = nodes[at // 100 % len(nodes)]
        made: Evaluation = replace(like, id=f"e{at}", node=node)
        part.evaluations[made.id] = made
    return with_part(shown, part)


def of_one_depth(number: int) -> Snapshot:
    """The same in one open depth, with the evaluation e3 under way."""
    shown = searching()
    part = find_part(shown).fork()
    like = part.evaluations["e1"]
    for at in range(4, number + 1):
        part.evaluations[f"e{at}"] = replace(like, id=f"e{at}")
    part.here = tuple(part.evaluations)
    return with_part(shown, part)


@pytest.mark.parametrize("made", [grown, of_one_depth])
async def test_a_key_costs_what_is_visible_among_ten_thousand_evaluations(
    made: Callable[[int], Snapshot],
) -> None:
    shown = made(10_000)
    async with cockpit(shown, (200, 60)) as seat:
        await seat.see("6", tree="● root|e1")
        with counted(render.TreeOutline, "build_row") as rows:
            await seat.play("G")
            assert 0 < len(rows) <= 2 * 60
        with counted(screen, "build_outline") as outlines:
            await seat.play("k ctrl+u g j")
            seat.app.renew_screen()
            with counted(render, "sentence") as sentences:
                part = find_part(shown).fork()  # another tree with the same rows
                await seat.push(with_part(shown, part))
            assert not outlines
            assert len(sentences) < 60
            part = part.fork()
            part.open = (*part.open, "e1")
            await seat.push(with_part(shown, part))
            await seat.see("G", detail="Detail  e")
            await seat.idle()
            assert len(outlines) == 1


def test_an_outline_of_ten_thousand_evaluations_is_made_in_no_time() -> None:
    shown = grown(10_000)
    part, session = find_part(shown), build_session(shown)
    before = time.process_time()
    outline = build_outline(part, session)
    assert time.process_time() - before < 0.5
    assert len(outline.keys) > 10_000
    assert len(set(outline.keys)) == len(outline.keys)


@pytest.mark.parametrize("cells", [40, 72, 120])
def test_no_line_is_wider_than_its_pane(cells: int) -> None:
    shown = ended()
    outline = build_outline(find_part(shown), build_session(shown))
    lines = [
        *outline.build_head(cells),
        *outline.build_below(cells, 1),
        *outline.build_below(cells, 5),
    ]
    for key in outline.keys:
        lines += outline.build_detail(key, None, cells)
    assert max(len(plain(one)) for one in lines) <= cells


# What the commands do


def test_an_evaluation_without_results_is_tried_again_in_the_next_round() -> None:
    scripts = {
        "e1_implement": [[RunScript(exit_code=1)]],
        "e3_sweep": [[RunScript(seconds=60)]],
    }
    bench = search(FakeTrees(propose), scripts, max_depth=1)
    bench.run(20)
    bench.order(RetryEvaluation(evaluation="e3"))
    bench.order(RetryEvaluation(evaluation="e1"))
    bench.run(1)
    assert find(bench).open == ("e3", "e1")
    bench.run(100)
    tree = find(bench)
    first = tree.evaluations["e1"]
    assert first.round == 2
    assert first.judgement is not None
    assert first.judgement.outcome == "scored"
    assert "e1_sweep_r2" in bench.engine.state.jobs
    assert tree.opened == len(tree.evaluations)
    bench.order(RetryEvaluation(evaluation="e1"))
    assert find(bench).evaluations["e1"].round == 2


def test_a_person_s_idea_is_written_and_tried_in_the_present_depth() -> None:
    slow = {"e3_sweep": [[RunScript(seconds=60)]]}
    bench = search(FakeTrees(propose), slow, max_depth=1)
    bench.order(ProposeIdea(node="n0", text="# 0.7 too early"))
    assert not find(bench).nodes.get("n0")
    bench.run(20)
    bench.order(ProposeIdea(node="n0", text="# 0.7 of mine"))
    bench.run(100)
    tree = find(bench)
    mine = tree.evaluations["e4"]
    assert mine.idea is not None
    assert mine.idea.title == "0.7 of mine"
    assert tree.nodes["n1"].evaluation == "e4"


def test_an_idea_that_comes_before_the_others_of_its_depth_is_tried_behind_them() -> (
    None
):
    slow = {"n0_ideas": [[RunScript(seconds=60)]]}
    bench = search(FakeTrees(propose), slow, max_depth=1)
    bench.run(5)
    bench.order(ProposeIdea(node="n0", text="# 0.7 of mine"))
    bench.run(5)
    assert not find(bench).is_listed
    bench.run(150)
    titles = [one.idea and one.idea.title for one in find(bench).evaluations.values()]
    assert titles == [*propose("n0"), "0.7 of mine"]


def test_a_person_s_idea_lies_among_those_of_its_node(tmp_path: Path) -> None:
    trees = DiskTrees(
        directory=tmp_path, state_dir=tmp_path, plan=PLAN, planner=ChildPlanner()
    )
    made = [trees.write_idea("n2", "# Less\n\nof it\n") for _ in range(2)]
    assert made[0] == made[1]
    node = Node(id="n2", depth=1, commit="")
    assert trees.read_ideas(node).ideas == ()  # nobody proposed it
    assert (tmp_path / "node_ideas" / made[0].id).read_text() == "# Less\n\nof it\n"
    with pytest.raises(UsageError):
        trees.write_idea("n2", " \n")
