"""Shows how jobs were made: at once what the plan tells, the rest when it was read.

Config and script come from disk, and the first time from a record of megabytes: they
are read, and set in lines, off the screen's thread, once the plan's own page is there
to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.dialogs.reader import PagesScreen
from autoexp_tui.cockpit.render.job_details import (
    Page,
    build_diff_pages,
    build_known_pages,
    build_pages,
)
from autoexp_tui.cockpit.spans import outside
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.planning.job_details import JobDetails

if TYPE_CHECKING:
    from autoexp_tui.cockpit.app import CockpitApp
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.specs import JobSpec, Plan

_NOTHING_KEPT = "Nothing but the plan is at hand here: the config was not read."


class PaperDesk:
    """Shows one job's papers, or what differs between two."""

    def __init__(self, app: CockpitApp) -> None:
        self._app = app

    def show(self, jobs: Sequence[JobView]) -> None:
        """Show, then read; a fault is said, and closes nothing."""
        plan = self._app.desk.session.snapshot.plan
        if plan is None:
            return
        specs = [job.record.spec for job in jobs]
        if self._app.options.papers is None:
            self._push(specs, _pages(plan, specs, [_of_plan(one) for one in specs]))
            return
        screen = self._push(specs, build_known_pages(plan, specs))
        screen.call_after_refresh(self._read, screen, plan, specs)

    def _push(self, specs: Sequence[JobSpec], pages: Sequence[Page]) -> PagesScreen:
        title = "What differs" if len(specs) == 2 else "How it is made"
        screen = PagesScreen(self._app.skin, title, pages)
        self._app.push_screen(screen)
        return screen

    def _read(self, screen: PagesScreen, plan: Plan, specs: Sequence[JobSpec]) -> None:
        read = self._app.options.papers
        assert read is not None

        def work() -> tuple[Page, ...]:
            return _pages(plan, specs, [read(plan, spec) for spec in specs])

        def done(found: Any, problem: BaseException | None) -> None:
            if isinstance(problem, AutoexpError | OSError):
                told = outside(problem, 2000)
                self._app.say(told, "failed", keep=True)
                lacking = [JobDetails(missing=told, script=(told,)) for _ in specs]
                screen.turn_into(_pages(plan, specs, lacking))
            elif problem is not None:
                raise problem
            else:
                screen.turn_into(found)

        self._app.background.call("papers", work, done)


def _pages(
    plan: Plan, specs: Sequence[JobSpec], found: Sequence[JobDetails]
) -> tuple[Page, ...]:
    if len(specs) == 2:
        return build_diff_pages((specs[0], found[0]), (specs[1], found[1]), plan.mask)
    return build_pages(plan, specs[0], found[0])


def _of_plan(spec: JobSpec) -> JobDetails:
    """What the plan alone tells."""
    return JobDetails(script=spec.command, missing=_NOTHING_KEPT)
