"""What three everyday trips through the program enter: functions, and files.

    python -m tests.architecture.trips [--names]

Planning a config of two jobs; a line of a log until the next snapshot has its loss; an
order to kill a job until the executor hears of it. All modules are imported before.
Counted are functions of ours that have a name; those of test helpers are not.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from unittest.mock import patch

import autoexp_tui
from autoexp_tui.config.planning import PlanningRequest
from autoexp_tui.config.planning_main import answer_request
from autoexp_tui.model.commands import Kill
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.probes.log_reader import LogReader
from tests.engine.bench import Bench
from tests.model.builders import job, plan
from tests.support.fake_executor import FakeExecutor
from tests.support.fake_script import RunScript

HERE = Path(__file__).parent / "trips"
SRC = Path(autoexp_tui.__file__).parent
HELPERS = (str(SRC / "testing"),)
ENDLESS = RunScript(seconds=1e9)


@contextmanager
def watched() -> Iterator[set[CodeType]]:
    """Notes what runs in the body, in any thread that it begins."""
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        path = code.co_filename
        is_ours = path.startswith(str(SRC)) and not path.startswith(HELPERS)
        if event == "call" and is_ours and not code.co_name.startswith("<"):
            entered.add(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def import_all() -> None:
    """Import every module, so that no trip is measured with its imports."""
    for module in pkgutil.walk_packages([str(SRC)], "autoexp_tui."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def plan_two_jobs() -> set[CodeType]:
    """Config to plan, in this process."""
    with tempfile.TemporaryDirectory() as cwd, watched() as entered:
        answer = answer_request(
            PlanningRequest(config_dir=str(HERE), config_ref="two_jobs", cwd=cwd)
        )
    assert not answer.errors, answer.errors
    return entered


def read_a_log_line() -> set[CodeType]:
    """A line in the log of a running job until a snapshot tells its loss."""
    with tempfile.TemporaryDirectory() as root:
        bench = running_job(Path(root))
        log = Path(bench.job("a").attempts[-1].log_path)
        first, second = (HERE / "lines.log").read_text().splitlines(keepends=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(first)
        bench.until(lambda: loss_of(bench.snapshots[-1]) == 2.75)
        with watched() as entered, log.open("a") as file:
            file.write(second)
            file.flush()
            bench.until(lambda: loss_of(bench.snapshots[-1]) == 2.5)
    return entered


def kill_a_job() -> set[CodeType]:
    """A command to kill until the executor is called."""
    order = json.loads((HERE / "kill.json").read_text())
    called: list[object] = []
    cancel = FakeExecutor.cancel

    def cancel_and_tell(self: FakeExecutor, *words: object, **more: object) -> object:
        called.append(words)
        return cancel(self, *words, **more)  # type: ignore[arg-type]

    with (
        tempfile.TemporaryDirectory() as root,
        patch.object(FakeExecutor, "cancel", cancel_and_tell),
    ):
        bench = running_job(Path(root))
        with watched() as entered:
            bench.order(Kill(jobs=tuple(order["jobs"])))
            bench.until(lambda: bool(called))
    return entered


def running_job(root: Path) -> Bench:
    """A session with one job that runs."""
    spec = job("a", log_dir=str(root), output_dir=str(root / "out"))
    bench = Bench(plan(spec), {"a": [[ENDLESS]]}, logs=LogReader())
    bench.until(lambda: set(bench.states().values()) == {"RUNNING"})
    FakeExecutor.poll_seconds = 1e9
    bench.run(60.0)
    return bench


def loss_of(snapshot: Snapshot) -> float | None:
    """The loss that a snapshot tells of its only job."""
    (live,) = snapshot.live
    return None if live is None else live.metrics.get("loss")


TRIPS: dict[str, Callable[[], set[CodeType]]] = {
    "plan two jobs": plan_two_jobs,
    "log line to snapshot": read_a_log_line,
    "kill order to executor": kill_a_job,
}


def main(arguments: list[str] | None = None) -> None:
    """Print a line a trip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", action="store_true", help="every function")
    chosen = parser.parse_args(arguments)
    import_all()
    for name, take in TRIPS.items():
        entered = take()
        files = {code.co_filename for code in entered}
        print(f"{name:25}{len(entered):5} functions{len(files):5} files")
        if chosen.names:
            for code in sorted(
                entered, key=lambda c: (c.co_filename, c.co_firstlineno)
            ):
                where = Path(code.co_filename).relative_to(SRC)
                print(f"    {where}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    main()
