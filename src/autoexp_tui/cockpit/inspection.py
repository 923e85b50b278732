"""Things to read that come from disk: how jobs were made, what was kept of a run.

What the plan tells is shown at once; records of megabytes are read off the screen's
thread. Of a directory only regular files are opened; links are not followed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from autoexp_tui.cockpit.dialogs.reader import PagesScreen
from autoexp_tui.cockpit.render.job_details import (
    Page,
    build_diff_pages,
    build_known_pages,
    build_pages,
)
from autoexp_tui.cockpit.spans import Line, Span, outside
from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.planning.job_details import JobDetails
from autoexp_tui.text.spelling import size

if TYPE_CHECKING:
    from textual.app import App

    from autoexp_tui.cockpit.context import CockpitContext, ShowNotice
    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.specs import JobSpec, Plan

MOST_FILES = 30
MOST_BYTES = 1 << 16
"""Of each file that is shown."""
_NOTHING_KEPT = "Nothing but the plan is at hand here: the config was not read."


def show_job_details(
    context: CockpitContext,
    app: App[Any],
    jobs: Sequence[JobView],
    show_notice: ShowNotice,
) -> None:
    """Show how a job was made, or what differs between two; a fault closes nothing."""
    plan, read = context.model.session.snapshot.plan, context.options.papers
    if plan is None:
        return
    specs = [job.record.spec for job in jobs]
    if read is None:
        known = [JobDetails(script=one.command, missing=_NOTHING_KEPT) for one in specs]
        pages = _build_pages(plan, specs, known)
    else:
        pages = build_known_pages(plan, specs)
    title = "What differs" if len(specs) == 2 else "How it is made"
    screen = PagesScreen(context, title, pages)

    async def load(read: Callable[[Plan, JobSpec], JobDetails]) -> None:
        def work() -> tuple[Page, ...]:
            return _build_pages(plan, specs, [read(plan, spec) for spec in specs])

        try:
            found = await context.background.fetch("papers", work)
        except (AutoexpError, OSError) as problem:
            told = outside(problem, 2000)
            show_notice(told, "failed", keep=True)
            lacking = [JobDetails(missing=told, script=(told,)) for _ in specs]
            found = _build_pages(plan, specs, lacking)
        screen.replace_pages(found)

    app.push_screen(screen)
    if read is not None:
        screen.call_after_refresh(lambda: app.run_worker(load(read)))


def _build_pages(
    plan: Plan, specs: Sequence[JobSpec], found: Sequence[JobDetails]
) -> tuple[Page, ...]:
    if len(specs) == 2:
        return build_diff_pages((specs[0], found[0]), (specs[1], found[1]), plan.mask)
    return build_pages(plan, specs[0], found[0])


def read_folder(path: str) -> Sequence[Line]:
    """What lies in a directory, file by file, as safe lines; raises OSError."""
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    lines: list[Line] = [(Span(outside(path, 4000), "muted"),)]
    for entry in entries[:MOST_FILES]:
        lines += _read_entry(entry)
    if len(entries) > MOST_FILES:
        lines += [(), (Span(f"and {len(entries) - MOST_FILES} more", "muted"),)]
    if not entries:
        lines += [(), (Span("nothing lies there", "muted"),)]
    return lines


def _read_entry(entry: os.DirEntry[str]) -> Sequence[Line]:
    name = Span(outside(entry.name), "title")
    if not entry.is_file(follow_symlinks=False):
        return [(), (name, Span("  no plain file: not opened", "muted"))]
    try:
        length = entry.stat(follow_symlinks=False).st_size
        with open(entry.path, "rb") as file:
            data = file.read(MOST_BYTES)
    except OSError as error:
        return [(), (name, Span(f"  cannot be read: {error.strerror}", "warning"))]
    head: Line = (name, Span(f"  {size(length)}", "muted"))
    rows = data.decode("utf-8", "replace").splitlines()
    lines: list[Line] = [(Span(outside(row, 4000)),) for row in rows]
    if length > len(data):
        lines.append((Span(f"({length - len(data)} further bytes)", "muted"),))
    return [(), head, *lines]
