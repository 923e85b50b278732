"""A cockpit for tests on a real terminal; says in a file how it ended.

python tests/cockpit/terminal_app.py RESULT-FILE JOBS [MOTION] [hup|nohup]

MOTION is still, moving, hostile, running: all jobs at once, or busy: a thousand changes
of jobs a second.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from tests.support.campaigns import all_done, all_running, campaign
from tests.support.scripted_handle import HOSTILE, ScriptedHandle, moved


def main(result: str, jobs: str, motion: str = "still", hup: str = "hup") -> None:
    now = time.time()
    still = motion == "still"
    names = HOSTILE if motion == "hostile" else ()
    moving = all_running if motion == "running" else partial(campaign, names=names)
    made = all_done if still else moving
    snapshot = made(int(jobs), now=now)
    handle = ScriptedHandle(snapshot)
    app = CockpitApp(handle, options=CockpitOptions(ascii=False, no_color=False))
    if hup == "hup":
        signal.signal(signal.SIGHUP, lambda *_: app.notify_terminal_lost())
    else:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if not still:
        go_on = keep_changing if motion == "busy" else keep_moving
        threading.Thread(target=go_on, args=(handle,), daemon=True).start()
    gc.collect()
    gc.freeze()  # as the command does once a session is open
    way = app.run(mouse=False)
    Path(result).write_text(
        f"{way} {app.fault!r} {app.context.model.session.snapshot.seq}"
    )


def keep_moving(handle: ScriptedHandle) -> None:
    while True:
        time.sleep(0.1)
        handle.push(moved(handle.snapshot(), 0.1))


def keep_changing(handle: ScriptedHandle) -> None:
    for turn in count():
        time.sleep(0.1)
        snapshot = handle.snapshot()
        jobs, step = list(snapshot.jobs), max(1, len(snapshot.jobs) // 100)
        for place in range(turn % step, len(jobs), step):
            jobs[place] = replace(jobs[place], resume=not jobs[place].resume)
        t, seq = snapshot.t + 0.1, snapshot.seq + len(jobs) // step
        handle.push(replace(snapshot, jobs=tuple(jobs), t=t, seq=seq))


if __name__ == "__main__":
    main(*sys.argv[1:])
