"""What a step leaves of itself."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoexp_tui.evaluation import steps
from autoexp_tui.evaluation.requests import Request, Swept, find_record, write_record
from autoexp_tui.evaluation.steps import (
    Fence,
    StepFailed,
    make_fence,
    require_success,
    run_step,
)
from autoexp_tui.executors.wrapper import list_descendants
from autoexp_tui.isolation.kinds import Wanted
from autoexp_tui.model.errors import EnvironmentFailed


def build_request(place: Path, **changes: Any) -> Request:
    return Request(
        directory=str(place), git_dir="", top=str(place), worktree_root=str(place),
        run="r1", root_commit="", node="n0", commit="", evaluation="e1", **changes,
    )  # fmt: skip


def measure(request: Request) -> Swept:
    return Swept(sha256="new")


def fail(request: Request) -> Swept:
    raise StepFailed("sweep_failed", "it ended with 1")


def break_down(request: Request) -> Swept:
    raise EnvironmentFailed("the disk is away", "here")


@pytest.mark.parametrize(
    ("step", "status", "left"),
    [
        (measure, 0, Swept(sha256="new")),
        (fail, 1, Swept(code="sweep_failed", problem="it ended with 1")),
        (
            break_down,
            EnvironmentFailed.exit_code,
            Swept(code="environment", problem="here: the disk is away"),
        ),
    ],
)
def test_a_step_leaves_its_own_record_and_none_of_an_earlier_attempt(
    tmp_path: Path, step: Callable[[Request], Swept], status: int, left: Swept
) -> None:
    path, asked = tmp_path / "swept.json", tmp_path / "sweep.json"
    write_record(path, Swept(sha256="old"))
    write_record(asked, build_request(tmp_path))
    assert run_step([str(asked)], path.name, step) == status
    assert find_record(Swept, path) == left


def meet_full_disk(request: Request) -> Swept:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", [fail, break_down, meet_full_disk])
def test_what_fails_on_a_full_disk_ends_by_a_signal_and_is_tried_again(
    tmp_path: Path, step: Callable[[Request], Swept], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked, sent = tmp_path / "swept.json", tmp_path / "sweep.json", list[int]()
    write_record(asked, build_request(tmp_path))
    monkeypatch.setattr(signal, "raise_signal", sent.append)
    monkeypatch.setattr(steps, "disk_usage", lambda _: SimpleNamespace(free=4096))
    run_step([str(asked)], path.name, step)
    assert sent == [signal.SIGTERM]
    assert find_record(Swept, path) == Swept(
        code="environment", problem=f"{tmp_path}: the disk is full"
    )


STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
while True:
    os.write(1, b"x" * 65536)
"""
GRACE = 2.0


def open_fence(place: Path, isolation: Wanted, seconds: float, **tree: int) -> Fence:
    (place / "wt").mkdir(exist_ok=True)
    asked = build_request(place, tree=tree, isolation=isolation, seconds=seconds)
    return make_fence(asked, "sweep")


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["none", "prefer"])
def test_a_candidate_that_will_not_end_is_gone_in_time_and_the_next_one_starts(
    tmp_path: Path, isolation: Wanted
) -> None:
    others = {*list_descendants(os.getpid())}  # of other tests
    started = time.monotonic()
    fence = open_fence(tmp_path, isolation, 2.0)
    end = fence.run(
        ("python", "-c", STUBBORN), tmp_path / "wt", tmp_path / "out", tmp_path / "log"
    )
    gone = time.monotonic()
    assert not {*list_descendants(os.getpid())} - others
    assert gone - started < 2 + GRACE + 2
    with pytest.raises(StepFailed, match="it took longer than it may"):
        require_success(end, "sweep_failed", "the sweep")
    next_fence = open_fence(tmp_path, isolation, 2.0)
    log = tmp_path / "log"
    end = next_fence.run(("echo", "here"), tmp_path / "wt", tmp_path / "out", log)
    assert (end.exit_code, end.output) == (0, "here")
    assert time.monotonic() - gone < 1


@pytest.mark.parametrize(
    "code",
    [
        "open('large', 'wb').write(bytes(2 << 20))",
        "while True: print('x' * 9999, flush=True)",
        "import time\nfor n in range(64):\n  open(f'{n}', 'wb').write(bytes(1 << 18))"
        "\ntime.sleep(60)",
    ],
)
def test_what_writes_too_much_is_ended_with_its_reason(
    tmp_path: Path, code: str
) -> None:
    fence = open_fence(tmp_path, "none", 30.0, max_disk_bytes=1 << 20)
    code = f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n{code}"
    end = fence.run(
        ("python", "-c", code), tmp_path / "wt", tmp_path / "out", tmp_path / "log"
    )
    with pytest.raises(StepFailed, match=r"it wrote more than tree\.max_disk_bytes"):
        require_success(end, "sweep_failed", "the sweep")
