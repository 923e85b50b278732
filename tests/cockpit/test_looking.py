"""Looking around: panes, rows, marks, filters. Nothing here sends anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.cockpit.dialogs.reader import list_keys
from autoexp_tui.cockpit.keymap import Keymap
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.session import Look
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.snapshot import EngineView, Live, Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.model.states import Cause, JobState
from tests.cockpit.plans import opened
from tests.cockpit.seat import Seat, cockpit
from tests.cockpit.sweeps import swept
from tests.cockpit.views import brief
from tests.planning.plans import job, plan
from tests.support.campaigns import T0, all_done, campaign, planned
from tests.support.scripted_handle import with_job

ROADS = {
    "the focus is told without colour, and goes where its number leads": """
        => focus: jobs; jobs: ━ 2 Jobs
        1 => focus: stages; jobs: ─ 2 Jobs; stages: ━ 1 Stages
        tab => focus: jobs
        tab => focus: needs
        tab => focus: why
        5 => focus: needs
        tab 0 => focus: log
        tab 2 => focus: jobs
        4 => focus: metrics; metrics: 4 Metrics
        2 j => why: dense300m_lr0.001_bsz256_cooldown
        enter => focus: why; why: output""",
    "a filter is shown, given up alone, and cleared before the marks": """
        slash 'cannot enter => jobs: /cannot (esc)
        slash 'x escape => jobs: /cannot (esc)
        space escape => jobs: 1 marked|!(esc)
        escape => footer: 1 mark cleared; jobs: ! marked
        escape => jobs: 1 marked
        escape => jobs: ! marked
        slash 'lr>10 enter => jobs: No job matches lr>10. esc shows all 124.
        ctrl+u escape slash 'running enter => jobs: running (esc)
        exclamation_mark => footer: the filter hid it; jobs: !running (esc)""",
    "a filter that cannot be meant says so and changes nothing": """
        slash 'cooldown enter slash ctrl+u 'lrr>1e-3 => footer: did you mean `lr`?
        enter => jobs: /cooldown (esc)
        escape => jobs: /cooldown (esc); footer: !did you mean
        slash ctrl+u 'lrr>1e-3 enter => footer: no job has `lrr`; jobs: /cooldown
        ctrl+u 'lr>1e-3 enter => jobs: /lr>1e-3 (esc); footer: !did you mean""",
    "an empty table leaves why and the verbs with nothing": """
        1 slash 'nowhere enter 2 K => why: No job is shown; footer: can be ended""",
    "a stage unfolds into its families and folds again": """
        1 l => stages: ✓✓✓ lr=1e-3 bsz=256
        h => stages: !lr=1e-3
        j enter => jobs: 41 of 124   only stage cooldown (esc)
        5 enter => jobs: 4 of 124   only out of memory (esc)""",
    "a sort is told, reversed, and plan order comes back": """
        l => jobs: !by |STATE |!STATE▴
        comma => jobs: by LOSS|LOSS▴
        comma => jobs: LOSS▾
        h => jobs: by PROGRESS|PROG
        h h => jobs: by lr |lr▴
        h h comma comma => jobs: STATE |!by STATE|!STATE▾
        full_stop g => jobs: needs you first""",
    "marks are set one by one and from v to v": """
        K => footer: nothing here can be ended
        d => footer: mark two jobs
        y => footer: 31 B sent to the clipboard
        space => jobs: 1 marked| * ✓ done
        space => jobs: 2 marked
        escape v j j v => jobs: 3 marked""",
    "two marked jobs are compared, and their curves share a frame": """
        space j j space d => dialog: -optim.lr: 1e-3|+optim.lr: 3e-4
        escape c => metrics: a | b
        y l => metrics: log|lr""",
}


@pytest.mark.parametrize("road", ROADS)
async def test_keys_lead_where_they_should(road: str) -> None:
    async with cockpit() as seat:
        await seat.walk(ROADS[road])
        assert seat.handle.sent == []


CURVES = {
    "the first six rows, those under the cursor, the marked": """
        c => metrics: a | f |train lr=3e-4 seed=2|!lr=1e-3
        ] => metrics: a |seed=1|!seed=2
        2 space space 4 => metrics: seed=1|seed=2|!seed=0""",
    "a readout, steps around it, a range and back": """
        c => metrics: newest|!steps 12.8k
        left left left => metrics: at 25k|!newest
        z => metrics: steps 12.|of 25.5k
        { { => metrics: steps 0 to
        f v => metrics: range from |!steps 0 to
        left left left v => metrics: steps 24.|!range from
        escape => metrics: newest|steps 24.
        escape => metrics: !steps 24.
        v => footer: to where the range begins; metrics: !range from""",
    "smoothed, over seeds, by a parameter, and so when one comes back": """
        c e => metrics: smoothed 0.6, raw not drawn
        e b => metrics: smoothed 0.9 |over seeds: min to max|(3 seeds)|!raw
        b => metrics: mean +- sd
        c => metrics: by lr
        y o => metrics: loss, log, log steps|2 points <= 0 not shown
        8 4 => metrics: smoothed 0.9|mean +- sd|by lr|log steps""",
    "several metrics, and one that runs lack": """
        c n => metrics: lr|loss
        n n => metrics: tokens|val_acc
        n l l l => metrics: val_acc|2 without it|no val_acc: train lr=1e-4 seed=2""",
}


@pytest.mark.parametrize("road", CURVES)
async def test_curves_are_looked_at(road: str) -> None:
    async with cockpit(swept()) as seat:
        await seat.walk(CURVES[road])


async def test_of_more_runs_than_letters_the_best_are_drawn_and_all_counted() -> None:
    async with cockpit(swept(seeds=9), (80, 24)) as seat:
        await seat.see("v G v 4", metrics="the 26 best of 36")
        await seat.see("b", metrics="(9 seeds)|!best of")


async def test_metrics_for_which_a_legend_has_no_room_are_counted() -> None:
    async with cockpit(swept(), (80, 24)) as seat:
        await seat.see("v G v 4 n", metrics="lr|!hidden")
        await seat.see("n n", metrics="+2 hidden")


async def test_the_best_rows_of_the_results_come_as_a_curve_each_over_their_seeds() -> (
    None
):
    async with cockpit(swept(seeds=9)) as seat:
        await seat.see("e c", metrics="over seeds: mean +- sd|lr=1e-3 (9 seeds)")
        await seat.see("b", metrics="the 26 best of 36|!over seeds")
        await seat.see("l escape e c", metrics="loss 1/4|over seeds")
        await seat.see("escape down 4", metrics="!over seeds")


async def test_rows_that_are_no_longer_in_order_say_when_they_were_sorted() -> None:
    def turn(live: Live | None) -> Live | None:
        """The lowest loss becomes the highest."""
        metrics = {} if live is None else dict(live.metrics)
        turned = {**metrics, "loss": 9 - metrics.get("loss", 0)}
        return live and replace(live, metrics=turned)

    made = campaign()
    async with cockpit(made) as seat:
        await seat.see("e", results="by loss, lowest first|!first at")
        await seat.push(replace(made))
        await seat.see(results="by loss, lowest first|!first at")
        await seat.push(replace(made, live=tuple(map(turn, made.live))))
        await seat.see(results="by loss, lowest first at ")
        await seat.see("comma comma", results="by loss, lowest first|!first at")


AWAY: dict[str, Any] = {"away_since": T0 - 8 * 3600}
PLANNING = Snapshot(name="exp", engine=EngineView(role="plan", doing="planning exp"))
GOES_ON = "footer: planning exp goes on"
SHORT_ROADS: list[tuple[Snapshot, str, dict[str, Any]]] = [
    (planned(10), "=> why: This plan has 10 jobs\n! => footer: nothing needs you", {}),
    (all_done(10), "5 => needs: nothing needs you; why: lr0.001_bsz256_stable", {}),
    (PLANNING, f"=> jobs: planning exp|!hidden\nS => {GOES_ON}\n! => {GOES_ON}", {}),
    (campaign(), "=> header: ends", {}),  # estimated in the background
    (campaign(), "=> dialog: You left at\n! => focus: jobs; jobs: >  ✗ failed", AWAY),
    (campaign(), "? => dialog: submit: all|run.kill", {"size": (120, 160)}),
    (campaign(), "0 ? => dialog: │                    log.search", {"size": (60, 40)}),
    (campaign(), ": 'zzqq => dialog: Nothing fits zzqq|!12 of", {}),
    (campaign(), ": 'cooldown => dialog: 12 of ", {}),
    (campaign(), ": 'cooldo enter => jobs: only stage cooldown (esc)", {}),
    (campaign(), ": 'lr0.002256eval enter => why: lr0.002_bsz256_evaluate", {}),
    (campaign(), "5 ? => dialog: Here, in needs", {}),
    (campaign(), ": 'needs~first => dialog: plan order\nenter => jobs: (. plan", {}),
    (campaign(), "w ! => focus: jobs; jobs: >  ✗ failed", {}),
    (campaign(), "8 ! => focus: jobs; jobs: >  ✗ failed", {}),
]


@pytest.mark.parametrize(("made", "road", "options"), SHORT_ROADS)
async def test_other_sessions_and_modes_are_told_of(
    made: Snapshot, road: str, options: dict[str, Any]
) -> None:
    async with cockpit(made, **options) as seat:
        await seat.walk(road)


def test_the_keys_of_a_pane_begin_with_those_that_it_alone_has() -> None:
    title, line, *_ = map(plain, list_keys(Keymap(), "metrics"))
    assert (title, "the next metric" in line) == ("Here, in metrics", True)


async def test_need_after_need_is_walked_through_going_round() -> None:
    async with cockpit() as seat:
        needing = sum(group.size for group in seat.model.groups)
        seen = []
        for _ in range(needing + 1):
            await seat.press("exclamation_mark")
            seen.append(seat.jobs.jobs.find_jobs()[0])
        assert len({job.name for job in seen}) == needing
        assert seen[0] == seen[-1]
        assert seen[0].is_needy
        await seat.press("full_stop", "exclamation_mark", "m")
        marked = seat.model.session.list_jobs(sorted(seat.model.marks))
        causes = [job.record.cause for job in marked]
        assert causes == [Cause.OUT_OF_MEMORY] * 4
        seat.check(footer="4 alike marked")


async def test_the_cursor_stays_with_its_job_when_rows_fold_and_unfold() -> None:
    async with cockpit(size=(80, 24)) as seat:
        await seat.press("exclamation_mark")
        first, *others = seat.jobs.jobs.find_jobs()
        for key, alone in (("enter", True), ("escape", False), ("b", True)):
            await seat.press(key)
            found = [job.name for job in seat.jobs.jobs.find_jobs()]
            assert found[0] == first.name
            assert len(found) == (1 if alone else len(others) + 1)


def cursor_line(seat: Seat) -> int:
    lines = seat.pane("jobs").splitlines()
    return next(n for n, line in enumerate(lines) if line.startswith(">"))


async def test_the_row_under_the_cursor_stays_when_others_come_before_it() -> None:
    async with cockpit(campaign(61)) as seat:
        await seat.press("full_stop", "G", *["k"] * 12)
        key, line = seat.jobs.jobs.key, cursor_line(seat)
        snapshot = seat.model.session.snapshot
        ill = {"state": JobState.FAILED, "cause": Cause.NAN}
        for job in seat.looking(Look.RUNNING)[:2]:
            snapshot = with_job(snapshot, job.name, **ill)
        await seat.push(snapshot)
        assert (seat.jobs.jobs.key, cursor_line(seat)) == (key, line)


async def test_the_cursor_stays_near_when_its_row_goes() -> None:
    async with cockpit() as seat:
        await seat.play("slash 'running enter j")
        gone = seat.jobs.jobs.key
        over = {"state": JobState.COMPLETED, "why": None}
        await seat.push(with_job(seat.handle.snapshot(), gone, **over))
        assert seat.jobs.jobs.key != gone
        assert seat.jobs.jobs.cursor == 1


async def test_too_small_a_screen_says_one_line_and_asks_nothing_until_it_grows() -> (
    None
):
    async with cockpit(size=(50, 12)) as seat:
        seat.check(header="too small: 60x16 at least; all goes on")
        await seat.press("K")
        assert seat.app.screen is seat.jobs
        await seat.pilot.resize_terminal(120, 40)
        await seat.see(jobs="STATE")


@pytest.mark.parametrize(("jobs", "size"), [(124, (80, 24)), (10, (120, 40))])
async def test_a_plan_being_made_is_told_and_then_has_its_places(
    jobs: int, size: tuple[int, int]
) -> None:
    nothing = Plan(plan_id="", name="exp", state_dir="", jobs=())
    empty = replace(planned(10), plan=nothing, jobs=(), live=())
    made = replace(empty, engine=replace(empty.engine, doing="planning exp"))
    async with cockpit(made, size=size) as seat:
        tall = seat.jobs.jobs.size.height
        seat.check(jobs="planning exp")
        await seat.push(planned(jobs))
        seat.check(jobs="not submitted")
        assert seat.model.arrangement.fold is (jobs > 100)
        if jobs == 10:
            await seat.until(lambda: seat.jobs.jobs.size.height < tall)


async def test_a_click_goes_to_a_row_and_to_another_pane() -> None:
    async with cockpit() as seat:
        for offset, order in (
            (27, "by lr (, rev"),
            (27, "by lr (, plan"),
            (19, "by STAGE"),
        ):
            await seat.pilot.click("#jobs", offset=(offset, 1))
            await seat.see(jobs=order)
        await seat.press("full_stop", "full_stop", "g")
        await seat.pilot.click("#footer", offset=(3, 0))
        await seat.see(dialog="Keys|Here, in jobs")
        await seat.press("escape")
        await seat.pilot.click("#jobs", offset=(10, 6))
        await seat.pilot.pause()
        assert seat.jobs.jobs.key == seat.model.session.jobs[4].name
        await seat.pilot.click("#needs", offset=(4, 2))
        await seat.pilot.pause()
        seat.check(focus="needs")
        assert "node failure" in seat.jobs.needs.describe_row()


async def test_a_click_in_a_dialog_presses_what_stands_there() -> None:
    async with cockpit() as seat:
        await seat.go_to(Look.FAILED)
        await seat.play("R hear")
        await seat.click("2 ( )")
        await seat.see(dialog="2 (o)")
        await seat.click("[")
        await seat.until(lambda: not seat.dialog)
        await seat.go_to(Look.RUNNING)
        await seat.play("K hear")
        await seat.click("y kill")
        await seat.see("U", footer="stopped: nothing was sent")
        await seat.see("|", dialog="1 [x]")
        await seat.click("1 [x]")
        await seat.see(dialog="1 [ ]")
        await seat.click("as it was")
        await seat.see("ctrl+p 'this~list", dialog="Find|this list")
        await seat.click("this list")
        await seat.see(dialog="Here, in jobs")
        await seat.click("[Close]")
        await seat.until(lambda: not seat.dialog)
        assert seat.handle.sent == []


async def test_columns_are_chosen_and_kept_for_the_config_and_its_next_cockpit() -> (
    None
):
    kept: dict[str, Sequence[str]] = {}

    def keep(config: str, columns: Sequence[str]) -> None:
        kept[config] = columns

    def read(config: str) -> Sequence[str]:
        return kept.get(config, ())

    ways: dict[str, Any] = {"read_columns": read, "keep_columns": keep}
    async with cockpit(**ways) as seat:
        await seat.walk("""
            | => dialog: 8 columns of 15|1 [x] stage
            1 > > => dialog: 7 columns
            slash 'tokens enter 1 => dialog: [x] metric tokens_per_second
            escape => dialog: >   [x] metric tokens_per_second
            enter => jobs: token|!STAGE""")
        await seat.idle()
        (chosen,) = kept.values()
        assert "metric:tokens_per_second" in chosen
        assert "stage" not in chosen
    async with cockpit(**ways) as seat:
        await seat.see(jobs="token|!STAGE")
        await seat.walk("""
            | r enter => jobs: STAGE|!token
            | 1 escape => jobs: STAGE""")
        assert [*kept.values()] == [()]


async def test_columns_that_cannot_be_read_or_kept_are_told() -> None:
    def fail(*_: object) -> Sequence[str]:
        raise EnvironmentFailed("cannot read: it is odd", "columns.json")

    ways: dict[str, Any] = {"read_columns": fail, "keep_columns": fail}
    async with cockpit(**ways) as seat:
        await seat.see(footer="it is odd|the usual columns are shown", jobs="STAGE")
        await seat.see("| 1 enter", footer="the columns are not kept", jobs="!STAGE")


async def test_columns_without_room_are_said_and_scrolled_to_also_by_a_sort() -> None:
    made = plan(
        [job(f"j{at}", at, parameters=dict.fromkeys(KEYS, at)) for at in (1, 2)]
    )
    async with cockpit(opened(made), size=(100, 30)) as seat:
        await seat.walk("""
            => jobs: a_long_one|+4 hidden (l)|!eighth
            l l l l l l l l => jobs: eighth|!a_long_one
            h h h h h h h => jobs: a_long_one
            comma l l l l l l => jobs: +4 hidden (h)|by eighth_one|▴""")


KEYS = (
    "a_long_one",
    "second_one",
    "third_one",
    "fourth_one",
    "fifth_one",
    "eighth_one",
)


async def test_a_sort_that_holds_no_longer_says_so_and_is_done_again() -> None:
    async with cockpit() as seat:
        await seat.see("comma", jobs="by LOSS (, reverses")
        best = seat.jobs.jobs.keys[0]
        lives = list(seat.handle.snapshot().live)
        lives[seat.model.session.index[best]] = Live(step=9, metrics={"loss": 99.0})
        await seat.push(replace(seat.handle.snapshot(), live=tuple(lives)))
        seat.check(jobs="by LOSS, values changed (, sorts again)")
        assert seat.jobs.jobs.keys[0] == best
        await seat.see("comma", jobs="by LOSS (, reverses")
        assert seat.jobs.jobs.keys[0] != best


async def test_y_in_why_copies_the_page_of_the_run_where_its_log_told_one() -> None:
    url = "https://wandb.ai/me/p/runs/i31"
    base = campaign(4)
    name = base.jobs[0].spec.name
    async with cockpit(with_job(base, name, metadata={"run_url": url})) as seat:
        await seat.see("2 g 3", why=f"run_url|{url}")
        assert seat.widget("why").copy_text() == url
        await seat.see("2 j 3", why="cooldown|!run_url")
        assert "values" in seat.widget("why").copy_text()


async def test_the_palette_finds_sessions_and_says_how_one_is_opened() -> None:
    listed = [brief(id="a1b2", name="sweepy"), brief(id="k7f2")]
    async with cockpit(list_sessions=lambda: listed) as seat:
        await seat.see(": 'sweepy", dialog="a1b2 sweepy")
        await seat.see("enter", footer="`autoexp-tui --session a1b2` opens it")


async def test_a_theme_is_taken_while_the_cockpit_runs() -> None:
    async with cockpit() as seat:
        before = seat.widget("jobs").render_line(3)
        await seat.play(": 'light enter")
        await seat.until(lambda: seat.app.context.skin.theme.name == "autoexp-light")
        assert seat.widget("jobs").render_line(3) != before
        assert seat.app.theme == "autoexp-light"
