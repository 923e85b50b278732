"""Mode 7: what it shows of a research loop, and what its keys order."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.cockpit.render import research as render
from autoexp_tui.cockpit.render.research_rows import list_job_purpose
from autoexp_tui.cockpit.screens import research as screen
from autoexp_tui.cockpit.screens.research import ask_insert
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.model.agents import Outcome
from autoexp_tui.model.commands import AnswerAsk, Command
from autoexp_tui.model.errors import Problem, ValidationFailed
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.state import PendingEffect
from autoexp_tui.model.states import JobState, why
from autoexp_tui.research.commands import (
    AcknowledgeCondition,
    Consult,
    EndCall,
    MoveItem,
    PutItem,
    RemoveItem,
    TellAgent,
)
from autoexp_tui.research.effects import PlanItem, list_planned
from autoexp_tui.research.options import RoleBudget
from autoexp_tui.research.state import CodeChange, Item, Research
from tests.cockpit.researching import ASK, DECISION, LINES, make_snapshot, researching
from tests.cockpit.seat import Seat, cockpit
from tests.cockpit.test_cost import counted
from tests.research.fixtures import LIVE, NOW, make_item, make_long_view

SIZES = [(80, 24), (120, 40), (200, 60)]


def find_part(snapshot: Snapshot) -> Research:
    part: Research = snapshot.parts["research"]
    return part


async def go_to(seat: Seat, row: str) -> None:
    """In mode 7, to a row by its key."""
    if seat.app.current_mode != "research":
        await seat.play("7")
    assert seat.widget("research").move_to_key(row)
    await seat.pilot.pause()


def seal(*lines: str) -> str:
    return digest_question(DECISION, ASK.prompt, lines)


@pytest.mark.parametrize("size", SIZES)
async def test_it_tells_why_the_agent_woke_what_it_saw_and_what_it_answered(
    size: tuple[int, int],
) -> None:
    async with cockpit(researching(), size) as seat:
        await seat.see(
            "7",
            research="1 run, 3 listed, 4 ended|best 2.310 r1|– void|run finished: r4",
            detail="What c1 proposes|kills: end r5",
            below="c3 (run finished: r4, r3)|calls|6 of 20",
        )
        seat.check(research="▸ 1 next|lr=0.005  by ann|◌ 2 waits|waits for r5")
        await go_to(seat, "call:c1")
        await seat.see(detail="Woke by|list depleted|ok|10k tokens")
        await seat.see(
            "tab G", detail="Void|x9: its name is taken|Asked|change 2 files"
        )
        await seat.see("escape G", research="✓ met|✗ oom|– killed")
        await seat.see("escape", focus="jobs")


async def test_each_row_tells_all_that_is_known_of_it() -> None:
    async with cockpit(researching(), (200, 60)) as seat:
        for row, words in {
            "call:c3": "Ends        when it has taken 30 min|nothing for 5 min",
            "run:r5": "h1: A lower rate is better|after step 1000 → NOT TRIGGERED",
            "item:x2": "waits for r5|lr=0.002|After       r5",
            "item:x1": "ann: answers leave it where it is",
            "hypothesis:h1": "2 in a row|r4: loss 9|loss < 2.4",
            "warning:gpu/r5": "GPU 3: 12 %|X acknowledges it",
            "warning:seen": "by ann: no agent is told of it",
            "goal:": "lowest loss|Low rates win|Try 0.005.|2 notes not read|7 of 8",
            "call:c2": "Fixes       r2|reduced batch_size 64 to 32",
            "ended:r2": "CUDA out of memory|as r3|/logs/r2",
            "ended:r1": "✓ met|loss 2.31",
        }.items():
            await go_to(seat, row)
            await seat.see(detail=words)


ORDERS: dict[tuple[str, str], Command] = {
    ("call:c1", "A hear j space y"): AnswerAsk(
        ask=DECISION, digest=seal(*LINES), approved=True
    ),
    ("call:c2", "X hear 'too~soon enter hear y"): AnswerAsk(
        ask=DECISION, digest=seal(*LINES), approved=False, reason="too soon"
    ),
    ("item:x2", "X hear y"): RemoveItem(item="x2"),
    ("warning:gpu/r5", "X"): AcknowledgeCondition(key="gpu/r5"),
    ("item:x2", "M hear y"): MoveItem(item="x2", place=0),
    ("item:x2", "M hear j j y"): MoveItem(item="x2", place=2),
    ("item:x1", "M hear 5 '3 enter hear y"): MoveItem(item="x1", place=2),
    ("item:x1", "T hear 'try~Adam enter hear y"): TellAgent(text="try Adam"),
    ("item:x1", "C hear y"): Consult(),
    (
        "item:x2",
        "E hear j j j j tab 'loss>4 enter hear j j tab '2 enter hear y",
    ): PutItem(
        item=replace(
            make_item("x2", "lr=0.002", hypothesis="h1", depends_on=("r5",)),
            kill_criteria="loss > 4",
            gpus=2,
            jobs=(),
        )
    ),
    ("item:x2", "I hear j tab 'lr=1~wd=0 enter hear y"): PutItem(
        item=Item(id="hand_1", overrides=("lr=1", "wd=0")), place=1
    ),
    ("item:x2", f"E hear {'j ' * 7}tab 'big enter hear j tab 'r1 enter hear y"): (
        PutItem(
            item=replace(
                make_item("x2", "lr=0.002", hypothesis="h1", depends_on=("r5",)),
                config_ref="big",
                baseline_run="r1",
                jobs=(),
            )
        )
    ),
    ("call:c1", "I hear j tab 'lr=1 enter hear y"): PutItem(
        item=Item(id="hand_1", overrides=("lr=1",)), place=3
    ),
}
"""By a row, and the keys that are pressed there."""


async def test_each_acting_key_asks_and_sends_its_command() -> None:
    async with cockpit(researching()) as seat:
        for (row, keys), command in ORDERS.items():
            await go_to(seat, row)
            await seat.order(keys, command)


async def test_what_cannot_be_meant_is_told_in_the_dialog_and_not_sent() -> None:
    async with cockpit(researching()) as seat:
        for row, keys, problem in (
            ("item:x1", "E hear y", "nothing is changed"),
            ("item:x2", "E hear j j j j tab 'loss enter hear y", "its kill_criteria"),
            (
                "item:x2",
                "E hear j j j j j j tab 'x enter hear y",
                "GPUs: type a number",
            ),
            (
                "item:x2",
                "I hear tab 'x enter hear j j j j j j tab 'r9 enter hear y",
                "r9",
            ),
            ("item:x1", "M hear 5 '9 enter hear y", "from 1 to 3"),
        ):
            await go_to(seat, row)
            await seat.see(keys, dialog=problem)
            await seat.play("escape")
            seat.clock.advance(1)  # keys behind a field are no commands
        assert not seat.handle.sent


@pytest.mark.parametrize("keys", ["I hear tab 'x", "E hear tab 'x", "T hear 'x"])
async def test_esc_in_a_field_closes_the_dialog(keys: str) -> None:
    async with cockpit(researching()) as seat:
        await go_to(seat, "item:x2")
        await seat.play(f"{keys} escape")
        await seat.until(lambda: not seat.dialog)
        assert not seat.handle.sent


@pytest.mark.parametrize("run", ["r2", "r5"])
def test_a_job_says_what_its_run_is_for_and_names_no_log_beside_its_own(
    run: str,
) -> None:
    shown = researching()
    told = list_job_purpose(find_part(shown), build_session(shown), f"item {run}")
    labels = [label for label, _ in told]
    assert "Overrides" in labels
    assert "Log" not in labels


def test_an_item_that_is_still_planned_has_its_name() -> None:
    snapshot = researching()
    effect = PlanItem(item=Item(id="hand_1"), place=0)
    pending = [PendingEffect(effect_id="e1", effect=effect, seq=1, ordered_utc=0.0)]
    question = ask_insert(snapshot.parts["research"], 0, list_planned(pending))
    assert question.choices[0].given == "hand_2"


async def test_a_void_line_is_shown_as_such_and_cannot_be_kept() -> None:
    async with cockpit(researching()) as seat:
        await seat.see("7 A hear", dialog="[x]  1|[-]  2  void: kills|approve 1 of 2")
        await seat.see("j space", dialog="it can no longer be done|[-]  2")
        await seat.see("k space y", dialog="every line is dropped")


async def test_a_call_is_ended_after_five_seconds_unless_that_is_undone() -> None:
    async with cockpit(researching()) as seat:
        await seat.see("7 K hear y", footer="the call c3 will be ended in 5 s")
        await seat.see("U", footer="nothing was sent")
        await seat.play("K hear y")
        seat.clock.advance(6)
        await seat.order("j", EndCall(consultation="c3"))


async def test_an_answer_that_is_being_read_is_not_told_to_be_done() -> None:
    shown = researching()
    *runs, call = shown.jobs
    jobs = (*runs, replace(call, state=JobState.COMPLETED))
    async with cockpit(replace(shown, jobs=jobs)) as seat:
        await seat.see("7", research="▸ reading   c3")


async def test_lower_case_twins_do_nothing_and_what_has_ended_is_told() -> None:
    async with cockpit(researching()) as seat:
        await go_to(seat, "item:x1")
        await seat.play("a x m i t c p")
        seat.check(focus="research")
        assert not seat.dialog
        assert not seat.handle.sent
        await seat.see("g j j j E", footer="only an item of the list")
    over = researching(stopped=why("nothing_left"), open=(), items=())
    async with cockpit(replace(over, asks={})) as seat:
        await seat.see(
            "7", research="ended: nothing left|◌ empty", below="ended: nothing"
        )
        for key in "TCI":
            await seat.see(key, footer="the research has ended")
        await seat.see("A", footer="nothing asks")


async def test_a_pause_of_agents_tells_when_they_are_called_again() -> None:
    waits = {"agents_wait": why("notice", text="429"), "resume_at": NOW + 240}
    async with cockpit(researching(**waits)) as seat:
        await seat.see("7", below="no agent is called before 08:45, in 4 min: 429")
    missing = why("agents_wait", at=NOW, problem="no codex")
    waits = {"agents_wait": missing, "wait_outcome": Outcome.NOT_FOUND}
    async with cockpit(researching(**waits)) as seat:
        await seat.see("7", below="before you have one (C): no codex")


async def test_what_others_wrote_is_cleaned_and_secrets_are_masked() -> None:
    item = make_item("x1", "api_token=s3cret", "name=\x1b]0;evil\x07[red]x")
    async with cockpit(researching(items=(item,))) as seat:
        await go_to(seat, "item:x1")
        await seat.see(detail="api_token=***|[red]x")
        assert "s3cret" not in seat.everything
        assert "evil" not in seat.everything


async def test_secrets_of_an_item_stay_what_they_are_when_it_is_edited() -> None:
    item = make_item("x1", "api_token=s3cret", "lr=1", note="password: s3cret")
    shown = researching(items=(item,))
    asked = replace(ASK, lines=("experiments: x1  api_token=s3cret",))
    shown = replace(shown, asks={DECISION: asked})
    async with cockpit(shown) as seat:
        await go_to(seat, "item:x1")
        for keys in ("E hear", "X hear", "A hear"):
            await seat.see(keys, dialog="***")
            assert "s3cret" not in seat.everything
            await seat.play("escape")
            seat.clock.advance(1)
        made = replace(item, overrides=(*item.overrides, "wd=0"), jobs=())
        await seat.order("E hear tab '~wd=0 enter hear y", PutItem(item=made))
        await go_to(seat, f"ask:{DECISION}")
        await seat.see("X hear", dialog="***")
        assert "s3cret" not in seat.everything


async def test_budgets_of_a_role_have_bars_of_their_own() -> None:
    options = find_part(researching()).options
    own = RoleBudget(calls=2)
    budgets = replace(options.budgets, fixer=own)
    shown = researching(options=replace(options, budgets=budgets))
    async with cockpit(shown, (200, 60)) as seat:
        await seat.see("7", below="fixer calls ██████████|1 of 2|calls |6 of 20")


async def test_a_research_that_cannot_begin_tells_all_that_is_to_be_done() -> None:
    problems = [Problem(f"{'many ' * 60}{at}", hint="Commit it.") for at in "12"]
    error = ValidationFailed("it cannot begin", "/repo", problems=tuple(problems))
    broken = why("research_broken", problem=error.line)
    shown = researching(directory="", stopped=broken, open=())
    async with cockpit(replace(shown, jobs=(), live=()), (120, 40)) as seat:
        await seat.see("", jobs="research has ended: a step failed; 7 tells all")
        await go_to(seat, "goal:")
        seat.check(research="ended: a step failed", detail="it cannot begin; ")
        seat.check(detail="many 1. Commit it; |Commit it  ")


async def test_a_job_s_why_tells_the_item_or_the_call_that_it_is_for() -> None:
    async with cockpit(researching()) as seat:
        await go_to(seat, "run:r5")
        await seat.see("enter 3 +", focus="why", why="NOT TRIGGERED")
        seat.check(why="h1: A lower rate is better")
        assert "repeats" not in seat.everything  # which is empty
        await seat.play("_")
        await go_to(seat, "call:c3")
        await seat.see("enter 3 +", why="c3: run finished: r4, r3")


async def test_files_of_a_call_are_read_behind_the_screen(tmp_path: Path) -> None:
    shown = researching(directory=str(tmp_path))
    calls = find_part(shown).consultations
    code = CodeChange(commit="71be02f", base="0", sha256="b", files=1)
    calls["c1"] = replace(calls["c1"], prompt_sha256="a", code=code)
    call = tmp_path / "calls/c1_research"
    call.mkdir(parents=True)
    (call / "prompt.md").write_text("x" * 1200)
    (call / "transcript.log").write_text("I read \x1b]0;evil\x07 the curves\n")
    (call / "code.patch").write_text("+mine\n")
    async with cockpit(shown) as seat:
        await go_to(seat, "call:c1")
        await seat.see(detail="(1200|71be02f")
        assert seat.widget("research").copy_text() == str(call)
        await seat.see("o", dialog="Transcript of c1|I read")
        assert "\x1b" not in seat.dialog
        await seat.see("escape d", dialog="+mine")
        await seat.see("escape k o", dialog="it has left nothing yet")
        (tmp_path / "calls/c3_research").mkdir()
        (tmp_path / "calls/c3_research/transcript.log").touch()
        await seat.see("escape o", dialog="it has left nothing yet")
        await seat.see("escape d", footer="it changes no code")
        await seat.see("k 0", focus="log")


def grown() -> Snapshot:
    """A thousand runs, and a list of a hundred."""
    items = tuple(make_item(f"m{at}", gpus=8) for at in range(100))
    view, _ = make_long_view(1000, items=items)
    return make_snapshot(view, LIVE)


async def test_a_key_costs_what_is_visible_among_a_thousand_runs() -> None:
    async with cockpit(grown(), (200, 60)) as seat:
        await seat.see("7", research="100 listed")
        with (
            counted(screen, "build_outline") as outlines,
            counted(render.ResearchOutline, "build_row") as rows,
        ):
            await seat.play("G k ctrl+u g j")
        assert 0 < len(rows) <= 5 * 60
        assert outlines == []


def test_an_outline_of_a_thousand_runs_is_made_between_two_keys() -> None:
    shown = grown()
    session = build_session(shown)
    before = time.process_time()
    for _ in range(5):
        outline = render.build_outline(find_part(shown), session)
    assert (time.process_time() - before) / 5 < 0.05
    assert len(set(outline.keys)) == len(outline.keys) > 1100


def test_no_item_of_a_paused_session_begins() -> None:
    shown = replace(researching(), paused=why("notice", text="by hand"))
    outline = render.build_outline(find_part(shown), build_session(shown))
    assert "by hand" in plain(outline.build_row(outline.keys.index("item:x1"), 120))


@pytest.mark.parametrize("cells", [40, 72, 120])
@pytest.mark.parametrize("changes", [{}, {"items": (), "best": None, "live": ()}])
def test_no_line_is_wider_than_its_pane(cells: int, changes: dict[str, Any]) -> None:
    shown = researching(**changes)
    outline = render.build_outline(find_part(shown), build_session(shown))
    lines = [*outline.build_head(cells), *outline.build_below(cells, 6)]
    lines += outline.build_below(cells, 1)
    for place, key in enumerate(outline.keys):
        lines += [outline.build_row(place, cells)]
        lines += outline.build_detail(key, 1200, cells)
    assert max(len(plain(one)) for one in lines) <= cells
