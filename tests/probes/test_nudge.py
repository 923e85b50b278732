from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from autoexp_tui.probes.file_watcher import LogNudger, Nudger, roots

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


def test_a_log_that_grows_wakes_although_its_directory_came_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoexp_tui.probes.file_watcher._COME_SECONDS", 0.05)
    log, woken = tmp_path / "logs" / "job" / "slurm-1.out", threading.Event()
    told: set[str] = set()

    def nudge(paths: Iterable[str]) -> None:
        told.update(paths)
        if str(log) in told:
            woken.set()

    nudger = LogNudger([str(tmp_path / "logs")], nudge)
    nudger.start()
    log.parent.mkdir(parents=True)
    number = 0
    while not woken.wait(0.2) and number < ALIVE_SECONDS / 0.2:
        number += 1
        with log.open("a") as file:
            file.write("line\n")
    nudger.stop()
    assert woken.is_set()


def test_directories_within_one_another_are_watched_once() -> None:
    assert roots(["/a/b", "/a", "/ab", "/a/b/c", "/a"]) == ["/a", "/ab"]
