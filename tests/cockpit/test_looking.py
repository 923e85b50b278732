"""Looking around: panes, rows, marks, filters. Nothing here sends anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autoexp_tui.cockpit.state.session import JobView
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import Edge, Plan
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import Cause, JobState
from tests.cockpit.seat import Seat, cockpit
from tests.support.campaigns import all_done, campaign, planned
from tests.support.scripted_handle import with_job

SCENES = {
    "the jobs have the focus at first": ("", {"focus": "jobs", "jobs": "━ 2 Jobs"}),
    "the focused pane is told without colour": (
        "1",
        {"jobs": "─ 2 Jobs", "stages": "━ 1 Stages"},
    ),
    "1 goes to the stages": ("tab 1", {"focus": "stages"}),
    "2 goes to the jobs": ("tab 2", {"focus": "jobs"}),
    "3 goes to why": ("tab 3", {"focus": "why"}),
    "5 goes to what needs a person": ("tab 5", {"focus": "needs"}),
    "0 goes to the log": ("tab 0", {"focus": "log"}),
    "a pane without a place opens enlarged": (
        "4",
        {"focus": "metrics", "metrics": "4 Metrics"},
    ),
    "a need that a filter hides is shown all the same": (
        "slash 'running enter exclamation_mark",
        {"footer": "the filter hid it", "jobs": "!running (esc)"},
    ),
    "why follows the cursor": (
        "j",
        {"why": "dense300m_lr0.001_bsz256_cooldown"},
    ),
    # filters
    "an active filter is always shown": (
        "slash 'lr>1e-3 enter",
        {"jobs": "/lr>1e-3 (esc)"},
    ),
    "a filter given up leaves the old one": (
        "slash 'cannot enter slash 'x escape",
        {"jobs": "/cannot (esc)"},
    ),
    "no match says how to see all": (
        "slash 'lr>10 enter",
        {"jobs": "No job matches lr>10. esc shows all 124."},
    ),
    "escape clears the filter before the marks": (
        "slash 'cannot enter space escape",
        {"jobs": "1 marked|!(esc)"},
    ),
    # folds and orders
    "enter on a job tells all about it": ("enter", {"focus": "why", "why": "output"}),
    "a stage unfolds into its families": (
        "1 l",
        {"stages": "✓✓✓ lr=1e-3 bsz=256"},
    ),
    "and folds again": ("1 l h", {"stages": "!lr=1e-3"}),
    "a sort is told": ("comma", {"jobs": "by STATE|STATE▴"}),
    "sorted again it is reversed": ("comma comma", {"jobs": "STATE▾"}),
    "then plan order is back": (
        "comma comma comma",
        {"jobs": "STATE |!by STATE|!STATE▾"},
    ),
    "needs come first": ("full_stop g", {"jobs": "needs you first"}),
    "h and l choose no column in plan order": ("l", {"jobs": "!by "}),
    "h and l choose the column while the table is sorted": (
        "comma comma l l",
        {"jobs": "by lr |lr▴"},
    ),
    "and go back": ("comma comma l l h", {"jobs": "STAGE▴"}),
    "an empty table leaves why with nothing": (
        "1 slash 'nowhere enter 2 K",
        {"why": "No job is shown", "footer": "nothing here can be ended"},
    ),
    # marks
    "space marks and goes on": ("space space", {"jobs": "2 marked"}),
    "a mark is shown in its row": ("space", {"jobs": "\n * ✓ done"}),
    "a range is marked from v to v": ("v j j v", {"jobs": "3 marked"}),
    "escape at last clears the marks and says so": (
        "space escape",
        {"footer": "1 mark cleared", "jobs": "! marked"},
    ),
    "two marked jobs can be compared": (
        "space j j space d",
        {"dialog": "-optim.lr: 1e-3|+optim.lr: 3e-4"},
    ),
    "a copy of a row is its name": ("y", {"footer": "31 B sent to the clipboard"}),
    "nothing to kill is said": ("K", {"footer": "nothing here can be ended"}),
    "one job cannot be compared": ("d", {"footer": "mark two jobs"}),
    "curves of the marked runs share a frame": (
        "space j j space c",
        {"metrics": " a | b "},
    ),
    "the scale and the metric are chosen": (
        "space j j space c y right",
        {"metrics": "log|lr"},
    ),
}


@pytest.mark.parametrize("scene", SCENES)
async def test_keys_lead_where_they_should(scene: str) -> None:
    script, shown = SCENES[scene]
    async with cockpit() as seat:
        await seat.play(script)
        seat.check(**shown)
        assert seat.handle.sent == []


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


async def test_an_opened_plan_says_that_nothing_runs_or_needs_anybody() -> None:
    async with cockpit(planned(10)) as seat:
        seat.check(why="Nothing is running. This plan has 10 jobs")
        await seat.play("exclamation_mark")
        seat.check(footer="nothing needs you")
        assert seat.handle.sent == []


# -------------------------------------------------------------------------- filter
async def test_a_filter_works_while_it_is_typed() -> None:
    async with cockpit() as seat:
        await seat.play("slash 'cannot")
        assert len(seat.model.rows) == seat.model.session.count(Look.DOOMED)


async def test_a_filter_that_cannot_be_meant_says_so_and_changes_nothing() -> None:
    async with cockpit() as seat:
        await seat.play("slash 'cooldown enter slash ctrl+u 'lrr>1e-3")
        seat.check(footer="no job has `lrr`; did you mean `lr`?")
        await seat.press("enter")
        assert seat.jobs.field is not None
        seat.check(jobs="/cooldown (esc)")
        await seat.press("escape")
        seat.check(jobs="/cooldown (esc)")
        assert not seat.jobs.footer.problem
        await seat.play("slash ctrl+u 'lrr>1e-3 enter ctrl+u 'lr>1e-3 enter")
        assert not seat.jobs.footer.problem
        seat.check(jobs="/lr>1e-3 (esc)")


# ---------------------------------------------------------------------- folding etc
@pytest.mark.parametrize(("jobs", "folds"), [(124, True), (10, False)])
async def test_a_low_screen_folds_equal_causes_of_many_jobs(
    jobs: int, folds: bool
) -> None:
    async with cockpit(campaign(jobs), size=(80, 24)) as seat:
        assert any(row.folded for row in seat.model.rows) is folds
        assert ("folded" in seat.pane("jobs")) is folds


@pytest.mark.parametrize(
    ("script", "title", "by"),
    [
        ("1 j enter", "stage cooldown", lambda job: job.stage == "cooldown"),
        (
            "5 enter",
            "out of memory",
            lambda job: job.record.cause is Cause.OUT_OF_MEMORY,
        ),
    ],
)
async def test_enter_on_a_heading_shows_its_jobs_only(
    script: str, title: str, by: Callable[[JobView], bool]
) -> None:
    async with cockpit() as seat:
        await seat.play(script)
        shown = {seat.model.find_jobs(row)[0] for row in seat.model.rows}
        assert shown == set(filter(by, seat.model.session.jobs))
        seat.check(jobs=f"only {title}|(esc)")


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
        assert "nothing needs you" in seat.pane("needs")
        assert name in seat.pane("why")
        assert [job.name for job in seat.jobs.find_scope().jobs] == [name]


async def test_m_marks_all_that_failed_alike() -> None:
    async with cockpit() as seat:
        await seat.press("exclamation_mark", "m")
        marked = seat.model.session.list_jobs(sorted(seat.model.marks))
        assert len(marked) == 4
        assert {job.record.cause for job in marked} == {Cause.OUT_OF_MEMORY}
        assert "4 alike marked" in seat.footer


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


# ---------------------------------------------------------------------------- sizes
async def test_too_small_a_screen_says_one_line_and_asks_nothing_until_it_grows() -> (
    None
):
    async with cockpit(size=(50, 12)) as seat:
        seat.check(header="too small: 60x16 at least; all goes on")
        await seat.press("K")
        assert seat.app.screen is seat.jobs
        await seat.pilot.resize_terminal(120, 40)
        await seat.until(lambda: "STATE" in seat.pane("jobs"))


# ---------------------------------------------------------------------- first moments
def being_planned() -> Snapshot:
    """A plan that is still being made: there are no jobs yet."""
    nothing = Plan(plan_id="", name="exp", state_dir="", jobs=())
    empty = replace(planned(10), plan=nothing, jobs=(), live=())
    return replace(empty, engine=replace(empty.engine, doing="planning exp"))


async def test_a_plan_being_made_is_told_and_then_shown() -> None:
    async with cockpit(being_planned(), size=(80, 24)) as seat:
        seat.check(jobs="planning exp")
        await seat.push(planned(124))
        seat.check(jobs="not submitted")
        assert seat.model.arrangement.fold


async def test_panes_find_their_places_when_the_plan_comes() -> None:
    async with cockpit(being_planned()) as seat:
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


# --------------------------------------------------------------------------- mouse
async def test_a_click_goes_to_a_row_and_to_another_pane() -> None:
    async with cockpit() as seat:
        await seat.pilot.click("#jobs", offset=(10, 6))
        await seat.pilot.pause()
        assert seat.jobs.jobs.key == seat.model.session.jobs[4].name
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


async def test_a_job_that_joins_has_its_row_and_moves_no_cursor() -> None:
    async with cockpit(campaign(10)) as seat:
        await seat.play("j j")
        before = seat.jobs.jobs.key
        await seat.push(grown(seat.handle.snapshot()))
        assert seat.jobs.jobs.key == before
        await seat.press("G")
        assert seat.jobs.jobs.key == "dense_joined"
        seat.check(stages="joined", why="dense_joined")
        session = seat.model.session
        assert session.links.upstream["dense_joined"] == (session.jobs[0].name,)
