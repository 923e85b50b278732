"""Pictures of real runs: the default experiment, planned, submitted and watched, one
that diverges, a search, and the research loop.

    make screenshots

Nothing is staged: the engine, the processes and their logs are real, only the terminal
is Textual's own. Takes about three minutes and writes SVG files beside this script.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from autoexp_tui.cli.open import make_plan, open_plan
from autoexp_tui.cli.options import Options
from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.engine.live import LiveHandle
from autoexp_tui.model.commands import Submit
from autoexp_tui.model.resubmission import list_open_asks
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import JobState
from autoexp_tui.probes.config_files import find_shipped

HERE = Path(__file__).parent
LARGE, SMALL, HUGE = (120, 40), (80, 24), (200, 60)
LIMIT_SECONDS = 300.0
KILL = ("slash", *"running", "enter", "K")
"""Of the jobs that run then, whichever they are, the first."""
PYTHON = ("backend.python=python3",)
"""By name, so that no picture shows where this checkout happens to lie."""


async def picture(
    handle: LiveHandle,
    name: str,
    size: tuple[int, int],
    keys: tuple[str, ...] = (),
    theme: str = "dark",
) -> None:
    """Open the cockpit on a running engine, press keys, and keep what it shows."""
    app = CockpitApp(handle, options=CockpitOptions(theme=theme, notify=False))
    async with app.run_test(size=size) as pilot:
        await pilot.pause(1.5)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.6)
        path = HERE / f"{name}.svg"
        path.write_text(app.export_screenshot(title="autoexp-tui"))
        print(f"{path.relative_to(HERE.parent)}")  # noqa: T201


def wait(handle: LiveHandle, holds: Callable[[Snapshot], bool]) -> None:
    """Wait until the session is so far."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not holds(handle.snapshot()):
        if time.monotonic() > deadline:
            raise SystemExit("the run did not get there in time")
        time.sleep(0.2)


def stage(name: str, state: JobState, count: int = 1) -> Callable[[Snapshot], bool]:
    """At least `count` jobs of a stage are in a state."""
    return lambda snapshot: (
        sum(job.spec.stage == name and job.state is state for job in snapshot.jobs)
        >= count
    )


def asks(snapshot: Snapshot) -> bool:
    """Somebody is asked for approval."""
    return any(
        job.ask is not None and job.ask.approved is None for job in snapshot.jobs
    )


def default_experiment(state_dir: str) -> None:
    """The default experiment from its plan to its end."""
    options = Options(
        config_ref="exp",
        config_dir=str(find_shipped("config")),
        state_dir=state_dir,
        overrides=PYTHON,
    )
    handle = open_plan(make_plan(options)[0], options)
    asyncio.run(picture(handle, "plan-120x40", LARGE))
    handle.send(Submit())
    wait(handle, stage("cooldown", JobState.RUNNING))
    asyncio.run(picture(handle, "main-120x40", LARGE))
    asyncio.run(picture(handle, "main-80x24", SMALL))
    asyncio.run(picture(handle, "kill-120x40", LARGE, KILL))
    wait(handle, stage("evaluate", JobState.COMPLETED, 2))
    asyncio.run(picture(handle, "wide-200x60", HUGE, ("space", "j", "space")))
    asyncio.run(picture(handle, "light-120x40", LARGE, theme="light"))
    wait(handle, asks)
    asyncio.run(picture(handle, "approve-120x40", LARGE, ("exclamation_mark", "A")))
    asyncio.run(picture(handle, "events-120x40", LARGE, ("8",)))
    asyncio.run(picture(handle, "results-120x40", LARGE, ("e",)))
    handle.close()


def begin(example: str, state_dir: str) -> LiveHandle:
    """An engine for an example that has begun."""
    options = Options(
        config_ref=f"experiments/{example}",
        config_dir=str(find_shipped("config")),
        state_dir=state_dir,
        overrides=() if example == "tree" else PYTHON,
    )
    handle = open_plan(make_plan(options)[0], options)
    handle.send(Submit())
    return handle


def search(state_dir: str) -> None:
    """The example of a search: amid its second depth, an evaluation, the end."""
    handle = begin("tree", state_dir)
    wait(handle, judged(14))
    asyncio.run(picture(handle, "tree-120x40", LARGE, ("6", *"jjj")))
    asyncio.run(picture(handle, "tree-change-120x40", LARGE, ("6", *"jjjd")))
    wait(handle, lambda snapshot: not snapshot.open)
    asyncio.run(picture(handle, "tree-end-120x40", LARGE, ("6", *"jjj")))
    handle.close()


def judged(count: int) -> Callable[[Snapshot], bool]:
    """At least so many evaluations have ended."""

    def holds(snapshot: Snapshot) -> bool:
        tree = snapshot.parts.get("tree")
        known = tree.evaluations.values() if tree is not None else ()
        return sum(one.judgement is not None for one in known) >= count

    return holds


def research(state_dir: str) -> None:
    """The example of the research loop, while a decision of its agent waits."""
    handle = begin("research", state_dir)
    wait(handle, lambda snapshot: bool(list_open_asks(snapshot.asks)))
    asyncio.run(picture(handle, "research-120x40", LARGE, ("7",)))
    handle.close()


def diverging(state_dir: str) -> None:
    """A learning rate that goes to NaN, and what became of its family."""
    handle = begin("diverging", state_dir)
    wait(handle, stage("evaluate", JobState.SKIPPED))
    keys = ("exclamation_mark",)
    asyncio.run(picture(handle, "nan-120x40", LARGE, keys))
    handle.close()


def main() -> None:
    """Make every picture in a directory that is removed afterwards."""
    before = Path.cwd()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    place = Path(tempfile.mkdtemp(prefix="autoexp-pictures-"))
    os.chdir(place)
    try:
        default_experiment(str(place / "state"))
        diverging(str(place / "state"))
        search(str(place / "state"))
        research(str(place / "state"))
    finally:
        os.chdir(before)
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
