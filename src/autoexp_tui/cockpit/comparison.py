"""Sessions that are shown beside the one that is open: watched, and never commanded.

Their jobs stand in the results and as curves. What a log said of a run that no engine
tells of is read when its curve is asked for, behind the screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from textual.app import App

    from autoexp_tui.cockpit.context import CockpitContext, LeaveWay
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.engine.handle import EngineHandle


class Comparison:
    """The other sessions, each by a handle of its own."""

    def __init__(
        self, context: CockpitContext, app: App[LeaveWay], renew: Callable[[], None]
    ) -> None:
        self._context = context
        self._app = app
        self._renew = renew
        self._handles: dict[str, EngineHandle] = {}
        """By the session's id."""

    def take(self) -> bool:
        """Let the model have what they say now; whether any of them moved."""
        told = {one: handle.snapshot() for one, handle in self._handles.items()}
        return self._context.model.take_others(told)

    async def change(self, ids: Sequence[str]) -> None:
        """Compare with these, or no longer with those that are; what cannot be read is
        left out, and the results say why."""
        for one in ids:
            self._context.model.left_out.pop(one, None)
            if (known := self._handles.pop(one, None)) is not None:
                known.close()
            elif view := self._context.options.view_session:
                try:
                    handle = await self._context.background.fetch(
                        f"view {one}", partial(view, one)
                    )
                except (AutoexpError, OSError) as problem:
                    self._context.model.left_out[one] = str(problem)
                    text = f"{outside(one)} is left out: {outside(problem)}"
                    self._app.notify(text, severity="warning")
                else:
                    self._handles[one] = handle
            self.take()
            self._renew()

    async def read_curves(self, jobs: Sequence[JobView]) -> None:
        """Read the logs of those that have run, and whose curves are not at hand."""
        model, read = self._context.model, self._context.options.read_curves
        lacking: dict[tuple[str, str], list[str]] = {}
        for job in jobs:
            directory = model.find_session(job).snapshot.engine.directory
            if job.record.attempts and not job.live.curves and directory:
                lacking.setdefault((job.session, directory), []).append(job.name)
        if read is None:
            return
        for (session, directory), names in lacking.items():
            self._app.notify(f"reading the logs of {plural(len(names), 'run')}")
            key, work = f"read {session}", partial(read, directory, names)
            found = await self._context.fetch_or_tell(self._app, key, work, "no curves")
            if found is not None:
                model.read |= {(session, name): live for name, live in found.items()}
                self._app.notify("")  # nothing is read any more
                self._renew()

    def close(self) -> None:
        """Watch none of them any more."""
        for handle in self._handles.values():
            handle.close()
