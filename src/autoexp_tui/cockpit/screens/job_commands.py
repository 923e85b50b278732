"""What the keys of Jobs mode do: a function each, by the command's id.

They ask the screen's desk and panes for what is needed; acting ones hand a scope to
`acts`, which asks before anything is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.screens.job_list_screen import RUN_COMMANDS, ActingScreen
from autoexp_tui.cockpit.screens.log_screen import LOG_COMMANDS
from autoexp_tui.cockpit.state.filtering import is_unfinished
from autoexp_tui.cockpit.state.reasons import describe_cause

if TYPE_CHECKING:
    from autoexp_tui.cockpit.screens.jobs import JobsScreen

LIVE_FILTER_UP_TO = 2000
"""Jobs up to which a filter works while it is typed."""


# ---------------------------------------------------------------------------- rows
def need(screen: JobsScreen) -> None:
    """To the next that needs a person."""
    jobs = screen.jobs.jobs()
    target = screen.desk.next_need(jobs[-1].name if jobs else "")
    if target is None:
        screen.say(screen.desk.opening or "nobody is needed")
    else:
        screen.reveal(target)


def ask_filter(screen: JobsScreen) -> None:
    """Ask for a filter; given up, the one before stays.

    What cannot be meant is told above the line, and filters nothing.
    """
    wanted = screen.desk.arrangement.filter
    before = wanted.text if wanted is not None else ""
    small = len(screen.desk.session.jobs) <= LIVE_FILTER_UP_TO

    def given_up() -> None:
        screen.filter_by(before)

    def preview(text: str) -> None:
        if is_unfinished(text):
            return
        problem = screen.filter_problem(text)
        screen.tell_problem(problem)
        if small:
            screen.filter_by(before if problem else text)

    screen.checked = screen.filter_problem
    screen.prompt(
        "filter",
        "words, lr>1e-3, stage:cooldown",
        before,
        screen.filter_by,
        preview=preview,
        given_up=given_up,
    )


def order(screen: JobsScreen) -> None:
    """Needs-you first, or plan order."""
    screen.desk.toggle_order()
    screen.renew()


def sort(screen: JobsScreen) -> None:
    """Sort by a column; then the other way round; then plan order again."""
    if not screen.jobs.columns:
        return
    screen.desk.sort_next(screen.jobs.columns)
    screen.renew()


def group(screen: JobsScreen) -> None:
    """Fold equal causes, or show every job; the cursor stays with its job."""
    jobs = screen.jobs.jobs()
    screen.desk.fold(on=not screen.desk.arrangement.fold)
    screen.renew()
    screen.stay_with(jobs)


def neighbour(how: str) -> Callable[[JobsScreen], None]:
    """To the job after, or before, the pane kept."""

    def go(screen: JobsScreen) -> None:
        screen.list = screen.jobs
        screen.jobs.move(how)
        screen.tell_about()

    return go


# --------------------------------------------------------------------------- marks
def mark(screen: JobsScreen) -> None:
    """Mark, or unmark, the row, and go on to the next."""
    screen.desk.toggle_marks([job.name for job in screen.jobs.jobs()])
    screen.jobs.move("down")
    screen.renew()


def mark_range(screen: JobsScreen) -> None:
    """Begin a range, or mark from its beginning to here."""
    desk = screen.desk
    if not desk.range_from:
        desk.range_from = screen.jobs.key
    else:
        number = desk.mark_range(desk.range_from, screen.jobs.key)
        desk.range_from = ""
        screen.say(f"{number} marked")
    screen.renew()


def mark_alike(screen: JobsScreen) -> None:
    """Mark all with the same cause."""
    jobs = screen.under_cursor()
    if len(jobs) == 1:
        number = screen.desk.mark_alike(jobs[0])
        screen.say(f"{number} alike marked: {describe_cause(jobs[0])}")
    elif jobs:
        screen.desk.marks.update(job.name for job in jobs)
        screen.say(f"{len(jobs)} marked")
    screen.renew()


def diff(screen: JobsScreen) -> None:
    """Compare two jobs: the marked ones, or the marked one with this."""
    names = set(screen.desk.marks)
    if len(names) < 2:
        names |= {job.name for job in screen.under_cursor()}
    if len(names) != 2:
        marked = f"{len(names)} are marked: " if len(names) > 2 else ""
        screen.say(f"{marked}mark two jobs with space, then d", "warning")
        return
    jobs = sorted(
        screen.desk.session.list_jobs(tuple(names)), key=lambda job: job.index
    )
    screen.cockpit.show_papers(jobs)


def inspect(screen: ActingScreen) -> None:
    """Read how the job under the cursor is made; of a row of several, the first."""
    jobs = screen.under_cursor()
    if jobs:
        screen.cockpit.show_papers(jobs[:1])
    else:
        screen.say("there is no job here")


# ---------------------------------------------------------------------------- runs
def skip(screen: JobsScreen) -> None:
    """Ask what to skip or waive; acknowledge a warning."""
    chosen = screen.needs.group() if screen.list is screen.needs else None
    if chosen is not None and chosen.acknowledgeable and not screen.desk.marks:
        screen.cockpit.acts.acknowledge(chosen)
    else:
        screen.cockpit.acts.skip(screen.scope())


JOB_COMMANDS: Final[Mapping[str, Callable[[JobsScreen], object]]] = MappingProxyType(
    {
        "rows.need": need,
        "rows.filter": ask_filter,
        "rows.order": order,
        "rows.sort": sort,
        "rows.group": group,
        "rows.next_job": neighbour("down"),
        "rows.previous_job": neighbour("up"),
        "rows.mark": mark,
        "rows.range": mark_range,
        "rows.alike": mark_alike,
        "rows.curves": lambda screen: screen.do_pane("metrics"),
        "rows.diff": diff,
        "rows.config": inspect,
        "stages.grid": lambda screen: screen.cockpit.to_mode("grid"),
        **LOG_COMMANDS,
        "metrics.scale": lambda screen: screen.metrics.toggle_scale(),
        **RUN_COMMANDS,
        "run.skip": skip,
    }
)
"""By command id."""
