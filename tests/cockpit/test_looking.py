"""Looking around: panes, rows, marks, filters. Nothing here sends anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.cockpit.widgets.pane import to_ascii
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import Edge, Plan
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import all_done, campaign, planned
from tests.support.scripted_handle import moved, with_job


async def test_the_jobs_have_the_focus_at_first() -> None:
    async with cockpit() as seat:
        assert seat.app.focused is seat.jobs.jobs


async def test_the_focused_pane_is_told_without_colour() -> None:
    async with cockpit() as seat:
        assert seat.pane("jobs").startswith("━ 2 Jobs")
        await seat.press("1")
        assert seat.pane("jobs").startswith("─ 2 Jobs")
        assert seat.pane("stages").startswith("━ 1 Stages")


@pytest.mark.parametrize(
    ("key", "pane"),
    [("1", "stages"), ("2", "jobs"), ("3", "why"), ("5", "needs"), ("0", "log")],
)
async def test_a_number_goes_to_its_pane(key: str, pane: str) -> None:
    async with cockpit() as seat:
        await seat.press("tab", key)
        assert seat.app.focused is not None
        assert seat.app.focused.id == pane


async def test_a_pane_without_a_place_opens_enlarged() -> None:
    async with cockpit() as seat:
        await seat.press("4")
        assert seat.jobs.enlarged == "metrics"
        assert "4 Metrics" in seat.pane("metrics")


async def test_curves_of_ended_jobs_are_asked_for_where_they_are_not_at_hand() -> None:
    done = all_done()
    async with cockpit(replace(done, live=(None,) * len(done.jobs))) as seat:
        await seat.press("4")
        assert seat.handle.looked_at[-1:] == [(done.jobs[0].name,)]


async def test_no_curve_is_asked_for_while_none_is_drawn() -> None:
    done = all_done()
    async with cockpit(replace(done, live=(None,) * len(done.jobs))) as seat:
        await seat.press("j", "j")
        assert seat.handle.looked_at == []


async def test_tab_goes_round() -> None:
    async with cockpit() as seat:
        seen = []
        for _ in range(5):
            await seat.press("tab")
            assert seat.app.focused is not None
            seen.append(seat.app.focused.id)
        assert sorted(map(str, seen)) == ["jobs", "log", "needs", "stages", "why"]


async def test_plus_enlarges_and_escape_restores() -> None:
    async with cockpit() as seat:
        await seat.press("3", "plus")
        assert not seat.jobs.jobs.display
        await seat.press("escape")
        assert seat.jobs.jobs.display


async def test_why_follows_the_cursor() -> None:
    async with cockpit() as seat:
        await seat.press("j")
        assert seat.model.session.jobs[1].name in seat.pane("why")


async def test_the_end_key_goes_to_the_last_row() -> None:
    async with cockpit() as seat:
        await seat.press("G")
        assert seat.jobs.jobs.key == seat.model.session.jobs[-1].name
        await seat.press("g")
        assert seat.jobs.jobs.key == seat.model.session.jobs[0].name


async def test_need_after_need_is_walked_through_going_round() -> None:
    async with cockpit() as seat:
        session = seat.model.session
        needing = sum(group.size for group in seat.model.groups)
        seen = []
        for _ in range(needing + 1):
            await seat.press("exclamation_mark")
            seen.append(seat.jobs.jobs.key)
        assert len(set(seen)) == needing
        assert seen[0] == seen[-1]
        job = session.job(seen[0])
        assert job is not None
        assert job.is_needy


async def test_a_need_that_a_filter_hides_is_shown_all_the_same() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("running")
        await seat.press("enter", "exclamation_mark")
        assert seat.model.arrangement.filter is None
        assert "the filter hid it" in seat.footer


async def test_nobody_needed_is_said() -> None:
    async with cockpit(planned(10)) as seat:
        await seat.press("exclamation_mark")
        assert "nobody is needed" in seat.footer


# -------------------------------------------------------------------------- filter
async def test_a_filter_works_while_it_is_typed() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("doomed")
        assert len(seat.model.rows) == seat.model.session.count(Look.DOOMED)


async def test_a_filter_that_cannot_be_meant_says_so_and_changes_nothing() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("cooldown")
        await seat.press("enter", "slash", "ctrl+u")
        await seat.type("lrr>1e-3")
        assert "no job has `lrr`; did you mean `lr`?" in seat.pane("problem")
        await seat.press("enter")
        assert seat.jobs.field is not None
        assert "/cooldown (esc)" in seat.pane("jobs")
        await seat.press("escape")
        assert "/cooldown (esc)" in seat.pane("jobs")
        assert not seat.jobs.query_one("#problem").display


async def test_a_mended_filter_works_and_its_problem_goes() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("lrr>1e-3")
        await seat.press("enter", "ctrl+u")
        await seat.type("lr>1e-3")
        await seat.press("enter")
        assert seat.jobs.field is None
        assert not seat.jobs.query_one("#problem").display
        assert "/lr>1e-3 (esc)" in seat.pane("jobs")


async def test_an_active_filter_is_always_shown() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("lr>1e-3")
        await seat.press("enter")
        assert "/lr>1e-3 (esc)" in seat.pane("jobs")


async def test_a_filter_given_up_leaves_the_old_one() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("doomed")
        await seat.press("enter", "slash")
        await seat.type("x")
        await seat.press("escape")
        assert seat.model.arrangement.filter is not None
        assert seat.model.arrangement.filter.text == "doomed"


async def test_no_match_says_how_to_see_all() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("lr>10")
        await seat.press("enter")
        assert "No job matches lr>10. esc shows all 124." in seat.pane("jobs")


async def test_keys_typed_into_a_filter_do_nothing_else() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("Kq")
        assert seat.jobs.field is not None
        assert seat.jobs.field.value == "Kq"
        assert seat.handle.sent == []


async def test_escape_clears_the_filter_first() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("doomed")
        await seat.press("enter", "space", "escape")
        assert seat.model.arrangement.filter is None
        assert seat.model.marks


# ---------------------------------------------------------------------- folding etc
async def test_a_low_screen_folds_equal_causes() -> None:
    async with cockpit(size=(80, 24)) as seat:
        assert "folded" in seat.pane("jobs")
        assert any(row.folded for row in seat.model.rows)


async def test_a_low_screen_with_few_jobs_does_not_fold() -> None:
    async with cockpit(campaign(10), size=(80, 24)) as seat:
        assert not seat.model.arrangement.fold


async def test_enter_unfolds_a_row_and_escape_folds_it_again() -> None:
    async with cockpit(size=(80, 24)) as seat:
        rows = len(seat.model.rows)
        await seat.press("enter")
        assert len(seat.model.rows) > rows
        await seat.press("escape")
        assert len(seat.model.rows) == rows


async def test_enter_on_a_job_tells_all_about_it() -> None:
    async with cockpit() as seat:
        await seat.press("enter")
        assert seat.jobs.enlarged == "why"
        assert "output" in seat.pane("why")


async def test_enter_on_a_stage_shows_its_jobs_only() -> None:
    async with cockpit() as seat:
        await seat.press("1", "j", "enter")
        shown = [seat.model.find_jobs(row)[0] for row in seat.model.rows]
        assert {job.stage for job in shown} == {"cooldown"}
        assert "only stage cooldown (esc)" in seat.pane("jobs")


async def test_a_stage_unfolds_into_its_families() -> None:
    async with cockpit() as seat:
        await seat.press("1", "l")
        assert "✓✓✓ lr=1e-3 bsz=256" in seat.pane("stages")
        await seat.press("h")
        assert "lr=1e-3" not in seat.pane("stages")


async def test_enter_on_a_cause_shows_its_jobs() -> None:
    async with cockpit() as seat:
        await seat.press("5", "enter")
        shown = [seat.model.find_jobs(row)[0] for row in seat.model.rows]
        assert {job.record.cause for job in shown} == {Cause.OUT_OF_MEMORY}


async def test_needs_first_puts_them_on_top() -> None:
    async with cockpit() as seat:
        await seat.press("full_stop", "g")
        first = seat.model.find_jobs(seat.model.rows[0])[0]
        assert first.is_needy
        assert "needs you first" in seat.pane("jobs")


async def test_sorting_reverses_and_then_plan_order_is_back() -> None:
    async with cockpit() as seat:
        await seat.press("comma")
        assert "by STATE" in seat.pane("jobs")
        assert "STATE▴" in seat.pane("jobs")
        await seat.press("comma")
        assert "STATE▾" in seat.pane("jobs")
        await seat.press("comma")
        assert seat.model.arrangement.order == "plan"
        assert "STATE " in seat.pane("jobs")


async def test_h_and_l_choose_the_column_while_the_table_is_sorted() -> None:
    async with cockpit() as seat:
        before = seat.pane("jobs")
        await seat.press("l")
        assert seat.pane("jobs") == before
        await seat.press("comma", "comma", "l", "l")
        assert "by lr " in seat.pane("jobs")
        assert "lr▴" in seat.pane("jobs")
        await seat.press("h")
        assert "STAGE▴" in seat.pane("jobs")


async def test_the_direction_has_an_ascii_twin() -> None:
    async with cockpit(ascii=True) as seat:
        await seat.press("comma")
        assert "STATE^" in to_ascii(seat.pane("jobs"))


async def test_the_cursor_stays_with_its_job_when_rows_fold_and_unfold() -> None:
    async with cockpit(size=(80, 24)) as seat:
        await seat.press("exclamation_mark")
        name = seat.jobs.jobs.find_jobs()[0].name
        assert len(seat.jobs.jobs.find_jobs()) > 1
        await seat.press("enter")
        assert seat.jobs.jobs.find_jobs()[0].name == name
        await seat.press("escape")
        assert len(seat.jobs.jobs.find_jobs()) > 1
        assert seat.jobs.jobs.find_jobs()[0].name == name
        await seat.press("b")
        assert [job.name for job in seat.jobs.jobs.find_jobs()] == [name]


async def test_an_empty_list_leaves_why_and_verbs_with_the_table_s_row() -> None:
    async with cockpit(all_done(10)) as seat:
        name = seat.jobs.jobs.find_jobs()[0].name
        await seat.press("5")
        assert "nobody is needed" in seat.pane("needs")
        assert name in seat.pane("why")
        assert [job.name for job in seat.jobs.find_scope().jobs] == [name]


async def test_an_empty_table_leaves_verbs_with_nothing() -> None:
    async with cockpit() as seat:
        await seat.press("1", "slash")
        await seat.type("nowhere")
        await seat.press("enter", "2")
        assert seat.jobs.find_scope().jobs == ()
        assert "No job is shown" in seat.pane("why")


# --------------------------------------------------------------------------- marks
async def test_space_marks_and_goes_on() -> None:
    async with cockpit() as seat:
        await seat.press("space", "space")
        names = {job.name for job in seat.model.session.jobs[:2]}
        assert seat.model.marks == names
        assert "2 marked" in seat.pane("jobs")


async def test_a_mark_is_shown_in_its_row() -> None:
    async with cockpit() as seat:
        await seat.press("space")
        assert seat.pane("jobs").splitlines()[2].startswith(" * ✓ done")


async def test_a_range_is_marked_from_v_to_v() -> None:
    async with cockpit() as seat:
        await seat.press("v", "j", "j", "v")
        assert len(seat.model.marks) == 3


async def test_m_marks_all_that_failed_alike() -> None:
    async with cockpit() as seat:
        await seat.press("exclamation_mark", "m")
        marked = seat.model.session.list_jobs(sorted(seat.model.marks))
        assert len(marked) == 4
        assert {job.record.cause for job in marked} == {Cause.OUT_OF_MEMORY}
        assert "4 alike marked" in seat.footer


async def test_escape_at_last_clears_the_marks_and_says_so() -> None:
    async with cockpit() as seat:
        await seat.press("space", "escape")
        assert not seat.model.marks
        assert "1 mark cleared" in seat.footer


async def test_two_marked_jobs_can_be_compared() -> None:
    async with cockpit() as seat:
        await seat.press("space", "j", "j", "space", "d")
        assert "-optim.lr: 1e-3" in seat.dialog
        assert "+optim.lr: 3e-4" in seat.dialog


async def test_one_job_cannot_be_compared() -> None:
    async with cockpit() as seat:
        await seat.press("d")
        assert "mark two jobs" in seat.footer


async def test_curves_of_the_marked_runs_share_a_frame() -> None:
    async with cockpit() as seat:
        await seat.press("space", "j", "j", "space", "c")
        text = seat.pane("metrics")
        assert " a " in text
        assert " b " in text
        await seat.press("y")
        assert "log" in seat.pane("metrics").splitlines()[0]
        await seat.press("right")
        assert "lr" in seat.pane("metrics").splitlines()[0]


# -------------------------------------------------------------- rows under the cursor
async def test_the_row_under_the_cursor_stays_when_others_come_before_it() -> None:
    async with cockpit(campaign(61)) as seat:
        await seat.press("full_stop", "G")
        await seat.press(*["k"] * 12)
        key, line = seat.jobs.jobs.key, cursor_line(seat)
        running = [j for j in seat.model.session.jobs if j.look is Look.RUNNING]
        snapshot = seat.model.session.snapshot
        for job in running[:2]:
            snapshot = with_job(
                snapshot, job.name, state=JobState.FAILED, cause=Cause.NAN
            )
        await seat.push(snapshot)
        assert seat.jobs.jobs.key == key
        assert cursor_line(seat) == line


def cursor_line(seat: Seat) -> int:
    lines = seat.pane("jobs").splitlines()
    return next(n for n, line in enumerate(lines) if line.startswith(">"))


async def test_the_cursor_stays_near_when_its_row_goes() -> None:
    async with cockpit() as seat:
        await seat.press("slash")
        await seat.type("running")
        await seat.press("enter", "j")
        gone = seat.jobs.jobs.key
        snapshot = with_job(
            seat.handle.snapshot(), gone, state=JobState.COMPLETED, why=None
        )
        await seat.push(snapshot)
        assert seat.jobs.jobs.key != gone
        assert seat.jobs.jobs.cursor == 1


async def test_new_values_appear() -> None:
    async with cockpit() as seat:
        before = seat.pane("jobs")
        await seat.push(moved(seat.handle.snapshot(), 900))
        assert seat.pane("jobs") != before


# ---------------------------------------------------------------------------- sizes
async def test_too_small_a_screen_says_one_line() -> None:
    async with cockpit(size=(50, 12)) as seat:
        assert "too small: 60x16 at least; all goes on" in seat.pane("header")


async def test_too_small_a_screen_asks_nothing() -> None:
    async with cockpit(size=(50, 12)) as seat:
        await seat.press("K")
        assert seat.app.screen is seat.jobs


async def test_a_screen_that_grows_shows_everything_again() -> None:
    async with cockpit(size=(50, 12)) as seat:
        await seat.pilot.resize_terminal(120, 40)
        await seat.until(lambda: "STATE" in seat.pane("jobs"))


async def test_metrics_and_warnings_stand_beside_at_200_columns() -> None:
    async with cockpit(size=(200, 60)) as seat:
        await seat.press("exclamation_mark")
        assert "4 Metrics" in seat.pane("metrics")
        assert "oom_kill" in seat.pane("needs")


# ---------------------------------------------------------------------- first moments
async def test_an_opened_plan_says_that_nothing_runs() -> None:
    async with cockpit(planned(10)) as seat:
        assert "Nothing is running. This plan has 10 jobs" in seat.pane("why")
        assert seat.handle.sent == []


async def test_a_plan_being_made_is_told_and_then_shown() -> None:
    empty = replace(
        planned(10),
        plan=Plan(plan_id="", name="exp", state_dir="", jobs=()),
        jobs=(),
        live=(),
    )
    empty = replace(empty, engine=replace(empty.engine, doing="planning exp"))
    async with cockpit(empty, size=(80, 24)) as seat:
        assert "planning exp" in seat.pane("jobs")
        await seat.push(planned(124))
        assert "S submits it" in seat.pane("jobs")
        assert seat.model.arrangement.fold


async def test_panes_find_their_places_when_the_plan_comes() -> None:
    empty = replace(
        planned(10),
        plan=Plan(plan_id="", name="exp", state_dir="", jobs=()),
        jobs=(),
        live=(),
    )
    async with cockpit(empty) as seat:
        tall = seat.jobs.jobs.size.height
        await seat.push(planned(10))
        await seat.until(lambda: seat.jobs.jobs.size.height < tall)


async def test_what_happened_meanwhile_is_told_and_walked_through() -> None:
    async with cockpit(away_since=1773477660.0 - 8 * 3600) as seat:
        await seat.until(lambda: "You left at" in seat.dialog)
        await seat.press("exclamation_mark")
        await seat.until(lambda: not seat.dialog)
        job = seat.model.session.job(seat.jobs.jobs.key)
        assert job is not None
        assert job.is_needy


async def test_help_lists_every_key() -> None:
    async with cockpit(size=(120, 160)) as seat:
        await seat.press("question_mark")
        for command in seat.app.context.keymap:
            assert command.id in seat.dialog


async def test_the_palette_finds_a_command_by_its_words() -> None:
    async with cockpit() as seat:
        await seat.press("colon")
        await seat.until(lambda: "Commands" in seat.dialog)
        await seat.type("needs first")
        assert "plan order" in seat.dialog
        await seat.press("enter")
        await seat.until(lambda: not seat.dialog)
        assert seat.model.arrangement.order == "needs"


async def test_a_copy_of_a_row_is_its_name() -> None:
    async with cockpit() as seat:
        await seat.press("y")
        assert "sent to the clipboard" in seat.footer
        name = seat.model.session.jobs[0].name
        assert f"{len(name)} B" in seat.footer


# --------------------------------------------------------------------------- mouse
async def test_a_click_puts_the_cursor_on_its_row() -> None:
    async with cockpit() as seat:
        await seat.pilot.click("#jobs", offset=(10, 6))
        await seat.pilot.pause()
        assert seat.jobs.jobs.key == seat.model.session.jobs[4].name


async def test_a_click_on_another_pane_goes_there() -> None:
    async with cockpit() as seat:
        await seat.pilot.click("#needs", offset=(4, 2))
        await seat.pilot.pause()
        assert seat.app.focused is seat.jobs.needs
        assert "node failure" in seat.jobs.needs.describe_row()


async def test_ends_of_very_many_jobs_are_estimated_in_the_background() -> None:
    async with cockpit(campaign(3000)) as seat:
        await seat.until(lambda: seat.model.ends.session is not None)
        await seat.until(lambda: "ends" in seat.pane("header"))


# ------------------------------------------------------------------- jobs that join
def grown(before: Snapshot) -> Snapshot:
    """One job more, which waits for the first one, as a rule lets it join."""
    assert before.plan is not None
    first = before.jobs[0].spec
    spec = replace(
        first,
        name="dense_joined",
        index=len(before.jobs),
        stage="joined",
        depends_on=(first.name,),
    )
    edge = Edge(before=first.name, after=spec.name, mode="waits")
    plan = replace(
        before.plan,
        jobs=(*before.plan.jobs, spec),
        edges=(*before.plan.edges, edge),
    )
    record = JobRecord(spec=spec, state=JobState.WAITING, since=before.t)
    return replace(
        before,
        seq=before.seq + 1,
        plan=plan,
        jobs=(*before.jobs, record),
        live=(*before.live, None),
    )


async def test_a_job_that_joins_has_its_row_its_stage_and_its_upstream() -> None:
    async with cockpit(campaign(10)) as seat:
        await seat.push(grown(seat.handle.snapshot()))
        await seat.press("G")
        assert seat.jobs.jobs.key == "dense_joined"
        assert "joined" in seat.pane("stages")
        session = seat.model.session
        assert session.upstream["dense_joined"] == (session.jobs[0].name,)
        assert "dense_joined" in seat.pane("why")


async def test_the_cursor_stays_where_it_is_when_jobs_join() -> None:
    async with cockpit(campaign(10)) as seat:
        await seat.press("j", "j")
        before = seat.jobs.jobs.key
        await seat.push(grown(seat.handle.snapshot()))
        assert seat.jobs.jobs.key == before
