from __future__ import annotations

import threading
from pathlib import Path

from autoexp_tui.adapters.nudge import Nudger

ALIVE_SECONDS = 10.0


def test_a_written_record_wakes_and_other_files_do_not(tmp_path: Path) -> None:
    woken = threading.Event()
    nudger = Nudger(tmp_path, woken.set)
    nudger.start()
    attempt = tmp_path / "job" / "1"
    attempt.mkdir(parents=True)
    number = 0
    while not woken.wait(0.2) and number < ALIVE_SECONDS / 0.2:
        number += 1
        (attempt / f"exit.{number}.json").write_text("{}")
    nudger.stop()
    assert woken.is_set()


def test_a_directory_that_cannot_be_watched_costs_nothing(tmp_path: Path) -> None:
    nudger = Nudger(tmp_path / "missing", lambda: None)
    nudger.start()
    nudger.stop()
    nudger._thread.join(ALIVE_SECONDS)
    assert not nudger._thread.is_alive()
