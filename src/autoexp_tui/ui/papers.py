"""Fetches how jobs were made, off the screen's thread, and shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.core.errors import AutoexpError
from autoexp_tui.plan.papers import JobPapers
from autoexp_tui.ui.screens.reader import PagesScreen
from autoexp_tui.ui.view.papers import pages_of, pages_of_two
from autoexp_tui.ui.view.spans import outside

if TYPE_CHECKING:
    from autoexp_tui.core.specs import JobSpec, Plan
    from autoexp_tui.ui.app import CockpitApp
    from autoexp_tui.ui.view.session import JobView

_NOTHING_KEPT = "Nothing but the plan is at hand here: the config was not read."


class PaperDesk:
    """Shows one job's papers, or what differs between two."""

    def __init__(self, app: CockpitApp) -> None:
        self._app = app

    def show(self, jobs: Sequence[JobView]) -> None:
        """Read, then show; a fault is said, and closes nothing."""
        plan = self._app.desk.session.snapshot.plan
        if plan is None:
            return
        specs = [job.record.spec for job in jobs]
        read = self._app.options.papers
        if read is None:
            self._push(plan, specs, [_of_plan(spec) for spec in specs])
            return

        def done(found: Any, problem: BaseException | None) -> None:
            if isinstance(problem, AutoexpError | OSError):
                self._app.say(outside(problem), "failed", keep=True)
            elif problem is not None:
                raise problem
            else:
                self._push(plan, specs, found)

        self._app.background.call(
            "papers", lambda: [read(plan, spec) for spec in specs], done
        )

    def _push(
        self, plan: Plan, specs: Sequence[JobSpec], found: Sequence[JobPapers]
    ) -> None:
        if len(specs) == 2:
            title = "What differs"
            pages = pages_of_two((specs[0], found[0]), (specs[1], found[1]))
        else:
            title = "How it is made"
            pages = pages_of(plan, specs[0], found[0])
        self._app.push_screen(PagesScreen(self._app.skin, title, pages))


def _of_plan(spec: JobSpec) -> JobPapers:
    """What the plan alone tells."""
    return JobPapers(script=spec.command, missing=_NOTHING_KEPT)
