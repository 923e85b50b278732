"""A state directory that takes no record when jobs end: each job still runs once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from autoexp_tui.actions.restart import Restart
from autoexp_tui.model.rules import Monitoring, StateEvent
from tests.e2e.campaign import Campaign, build_job, result_of, save_plan
from tests.executors.wrapper_runs import all_pids, until

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
def campaign(tmp_path: Path) -> Iterator[Campaign]:
    """Two jobs that a rule restarts when they crash; their state on a disk apart."""
    made = Campaign(tmp_path)
    made.state_dir.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=4m", "none", str(made.state_dir))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("file systems cannot be mounted here")
    save(made)
    yield made
    for pid in all_pids():  # of a test that failed: they would try for ever
        with suppress(OSError):
            if os.fsencode(made.root) in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    while os.path.ismount(made.state_dir):
        subprocess.run(["umount", "-l", str(made.state_dir)], check=True)


def save(campaign: Campaign) -> None:
    again = StateEvent(name="crashed", state="crash", actions=(Restart(reason="x"),))
    root, script = campaign.root, SCRIPT.format(root=campaign.root)
    jobs = [
        build_job(root, name, n, "sh", "-c", script) for n, name in enumerate(NAMES)
    ]
    save_plan(root, jobs, Monitoring(poll_seconds=0.3, state_events=(again,)))


class ReadOnly:
    """Nothing below the state directory can be made, as after a failed disk."""

    def __init__(self, place: Path) -> None:
        self.place = str(place)
        mount("--bind", self.place, self.place)
        mount("-o", "remount,ro,bind", self.place)

    def end(self) -> None:
        mount("-o", "remount,rw,bind", self.place)


class Full:
    """No room is left on the disk of the state directory."""

    def __init__(self, place: Path) -> None:
        self.filler = place / "filler"
        with self.filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                pass

    def end(self) -> None:
        self.filler.unlink()


def begun(campaign: Campaign) -> list[dict[str, object]]:
    found = campaign.state_dir.glob("*/attempts/*/1/begin.0.json")
    return [json.loads(path.read_text()) for path in found]


@pytest.mark.parametrize("kind", [ReadOnly, Full])
def test_jobs_that_end_meanwhile_ran_once_though_a_supervisor_is_killed(
    kind: type[ReadOnly] | type[Full], campaign: Campaign
) -> None:
    run = campaign.start("--manifest", str(campaign.manifest), "--json")
    assert until(lambda: len(begun(campaign)) == 2, 60)
    supervisors = [int(str(one["process"]["pid"])) for one in begun(campaign)]  # type: ignore[index]
    disk = kind(campaign.state_dir)
    (campaign.root / "go").touch()
    assert until(lambda: len(list(campaign.root.glob("over.*"))) == 2, 60)
    os.kill(supervisors[0], signal.SIGKILL)
    time.sleep(OUTAGE_SECONDS)
    disk.end()
    out, err = run.communicate(timeout=120)
    jobs = result_of(out)
    assert [jobs[name]["state"] for name in NAMES] == ["COMPLETED"] * 2, err
    assert campaign.begun() == {"one 1": 1, "two 1": 1}
