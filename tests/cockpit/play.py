"""A cockpit over a made-up session that moves: to be looked at by people.

    python tests/cockpit/play.py --jobs 124 --theme dark

Nothing runs; commands are shown in the Events mode as if an engine had taken them.
"""

from __future__ import annotations

import argparse
import random
import threading
import time
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from autoexp_tui.cockpit.app import CockpitApp
from autoexp_tui.cockpit.context import CockpitOptions
from autoexp_tui.effects import effects
from autoexp_tui.events import events
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.states import JobState
from tests.support.campaigns import campaign, planned
from tests.support.scripted_handle import (
    HOSTILE,
    ScriptedHandle,
    moved,
    with_events,
)


def main() -> None:
    parser = argparse.ArgumentParser(description="look at the cockpit")
    parser.add_argument("--jobs", type=int, default=124)
    parser.add_argument("--theme", default="dark")
    parser.add_argument("--ascii", action="store_true", default=None)
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--planned", action="store_true")
    parser.add_argument("--still", action="store_true", help="nothing moves")
    parser.add_argument("--away", action="store_true", help="greet with a digest")
    wanted = parser.parse_args()
    handle = ScriptedHandle(first_snapshot(wanted))
    stop = threading.Event()
    if not wanted.still:
        threading.Thread(target=keep_moving, args=(handle, stop), daemon=True).start()
    options = CockpitOptions(
        theme=wanted.theme,
        ascii=wanted.ascii,
        come_back="`autoexp-tui --session k7f2` comes back.",
        away_since=time.time() - 7 * 3600 if wanted.away else None,
    )
    app = CockpitApp(handle, options=options)
    way = app.run(mouse=False)
    stop.set()
    print(f"left: {way}; sent: {[sent.command for sent in handle.sent]}")
    if app.fault is not None:
        raise app.fault


def first_snapshot(wanted: argparse.Namespace) -> Snapshot:
    logs = mkdtemp(prefix="autoexp-play-")
    names = HOSTILE if wanted.hostile else ()
    now = time.time()
    if wanted.planned:
        return planned(wanted.jobs, now=now)
    snapshot = campaign(wanted.jobs, now=now, names=names, log_dir=logs)
    for record in snapshot.jobs[:60]:
        if record.attempt is not None and record.attempt.log_path:
            write_log(Path(record.attempt.log_path), 31_200)
    return with_events(snapshot, some_events(snapshot))


def write_log(path: Path, step: int) -> None:
    rng = random.Random(step)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f" [2026-03-14 04:{n // 60 % 60:02}:{n % 60:02}] iteration {n * 10:8d}/   60000"
        f" | lm loss: {2.4 + 60 / (n + 10) + rng.gauss(0, 0.01):.3E}"
        f" | learning rate: 1.000E-03 | tokens/s: {40000 + rng.randint(-300, 300)} |"
        for n in range(1, step // 10)
    ]
    lines += [
        "Traceback (most recent call last):",
        '  File "train.py", line 212, in <module>',
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=48213.17.",
    ]
    path.write_text("\n".join(lines) + "\n")


def some_events(snapshot: Snapshot) -> list[events.Event]:
    tasks = tuple((record.name, 1) for record in snapshot.jobs[:5])
    submit = effects.SubmitTasks(token="t7f2", tasks=tasks)
    cancel = effects.CancelTasks(tasks=tasks[:1])
    said = "sbatch --parsable --job-name=dense300m-t7f2 array.sh\n48213"
    return [
        events.SessionStarted(
            session="k7f2",
            name=snapshot.name,
            engine_version="0.1.0",
            wrapper_version="1",
            plan_sha="ab12",
        ),
        events.EffectOrdered(effect_id="e1", effect=submit),
        events.EffectSettled(effect_id="e1", outcome="ok", detail=said),
        events.SubmissionAccepted(
            token="t7f2",
            executor_ids=tuple(f"48213_{n}" for n in range(5)),
            submitted_at=snapshot.t,
        ),
        events.JobEnded(job=snapshot.jobs[0].name, state=JobState.COMPLETED),
        events.EffectOrdered(effect_id="e2", effect=cancel),
    ]


def keep_moving(handle: ScriptedHandle, stop: threading.Event) -> None:
    while not stop.wait(0.5):
        snapshot = moved(handle.snapshot(), 0.5)
        handle.push(replace(snapshot, t=time.time()))


if __name__ == "__main__":
    main()
