"""A cockpit for tests on a real terminal; says in a file how it ended.

python tests/cockpit/terminal_app.py RESULT-FILE JOBS [MOTION] [hup|nohup]

MOTION is still, moving, hostile, or running: all jobs at once.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from tests.support.campaigns import all_done, all_running, campaign
from tests.support.scripted_handle import HOSTILE, ScriptedHandle, moved


def main(result: str, jobs: str, motion: str = "still", hup: str = "hup") -> None:
    now = time.time()
    still = motion == "still"
    start = time.perf_counter()
    names = HOSTILE if motion == "hostile" else ()
    moving = all_running if motion == "running" else partial(campaign, names=names)
    made = all_done if still else moving
    snapshot = made(int(jobs), now=now)
    Path(f"{result}.made").write_text(f"{time.perf_counter() - start}")
    handle = ScriptedHandle(snapshot)
    app = CockpitApp(handle, options=CockpitOptions(ascii=False, no_color=False))
    if hup == "hup":
        signal.signal(signal.SIGHUP, lambda *_: app.notify_terminal_lost())
    else:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if not still:
        threading.Thread(target=keep_moving, args=(handle,), daemon=True).start()
    way = app.run(mouse=False)
    Path(result).write_text(
        f"{way} {app.fault!r} {app.context.model.session.snapshot.seq}"
    )


def keep_moving(handle: ScriptedHandle) -> None:
    while True:
        time.sleep(0.1)
        handle.push(moved(handle.snapshot(), 0.1))


if __name__ == "__main__":
    main(*sys.argv[1:])
