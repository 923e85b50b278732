"""A state directory that takes no record when jobs end: each job still runs once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.model.rules import Monitoring, StateEvent
from tests.e2e.campaign import Campaign, build_job, result_of, save_plan, wait_until
from tests.executors.wrapper_runs import all_pids

NAMES = ("one", "two")
OUTAGE_SECONDS = 8.0
"""Longer than a local job may be without a trace before it is lost."""
SCRIPT = """
echo "$AUTOEXP_JOB $AUTOEXP_ATTEMPT x" >> {root}/ledger.txt
while [ ! -e {root}/go ]; do sleep 0.05; done
touch {root}/over.$AUTOEXP_JOB
"""


def mount(*words: str) -> None:
    """Raises CalledProcessError where this process may not mount."""
    subprocess.run(["mount", *words], check=True, capture_output=True)


@pytest.fixture
def disk(campaign: Campaign) -> Iterator[Path]:
    """The campaign's state directory on a disk apart."""
    place = campaign.state_dir
    place.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=4m", "none", str(place))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    yield place
    for pid in all_pids():  # of a test that failed: they would try for ever
        with suppress(OSError):
            if os.fsencode(campaign.root) in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    while os.path.ismount(place):
        subprocess.run(["umount", "-l", str(place)], check=True)


def make_read_only(place: Path) -> Callable[[], None]:
    """Nothing below it can be made, as after a failed disk; what ends that."""
    mount("--bind", str(place), str(place))
    mount("-o", "remount,ro,bind", str(place))
    return lambda: mount("-o", "remount,rw,bind", str(place))


def fill(place: Path) -> Callable[[], None]:
    """No room is left on its disk."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    return filler.unlink


@pytest.mark.parametrize("spoil", [make_read_only, fill])
def test_jobs_that_end_meanwhile_ran_once_though_a_supervisor_is_killed(
    spoil: Callable[[Path], Callable[[], None]], campaign: Campaign, disk: Path
) -> None:
    again = StateEvent(name="crashed", state="crash", actions=(Restart(reason="x"),))
    root, script = campaign.root, SCRIPT.format(root=campaign.root)
    jobs = [build_job(root, x, n, "sh", "-c", script) for n, x in enumerate(NAMES)]
    save_plan(root, jobs, Monitoring(poll_seconds=0.3, state_events=(again,)))
    run = campaign.run()

    def begun() -> list[dict[str, Any]]:
        found = disk.glob("*/attempts/*/1/begin.0.json")
        return [json.loads(path.read_text()) for path in found]

    wait_until(lambda: len(begun()) == 2)
    supervisor = begun()[0]["process"]["pid"]
    end = spoil(disk)
    (root / "go").touch()
    wait_until(lambda: len(list(root.glob("over.*"))) == 2)
    os.kill(supervisor, signal.SIGKILL)
    time.sleep(OUTAGE_SECONDS)
    end()
    out, err = run.communicate(timeout=120)
    told = result_of(out)
    assert [told[name]["state"] for name in NAMES] == ["COMPLETED"] * 2, err
    assert campaign.begun() == {"one 1": 1, "two 1": 1}
