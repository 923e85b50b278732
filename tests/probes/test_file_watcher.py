from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from autoexp_tui.probes.file_watcher import FileWatcher, find_outermost, has_record

ALIVE_SECONDS = 10.0


def test_only_records_wake_the_look_at_the_executor() -> None:
    for name in ("begin.0.json", "exit.2.json", "duplicate.1.json"):
        assert has_record(["/session/attempts/a/1/launch.sh", f"/a/{name}"])
        assert not has_record([f"/a/{name}.tmp", "/a/gpu.jsonl", "/a/launch.sh"])


def test_a_log_that_grows_wakes_although_its_directory_came_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoexp_tui.probes.file_watcher._COME_SECONDS", 0.05)
    log, woken = tmp_path / "logs" / "job" / "slurm-1.out", threading.Event()

    def nudge(paths: Iterable[str]) -> None:
        if str(log) in paths:
            woken.set()

    watcher = FileWatcher([str(tmp_path / "logs")], nudge, debounce_ms=100)
    watcher.start()
    log.parent.mkdir(parents=True)
    for _ in range(int(ALIVE_SECONDS / 0.2)):
        if woken.wait(0.2):
            break
        with log.open("a") as file:
            file.write("line\n")
    watcher.stop()
    assert woken.is_set()


def test_directories_within_one_another_are_watched_once() -> None:
    assert find_outermost(["/a/b", "/a", "/ab", "/a/b/c", "/a"]) == ["/a", "/ab"]
