"""A cockpit that only watches leaves no command unsent."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from autoexp_tui.engine.viewer import POLL_SECONDS, ViewerHandle
from autoexp_tui.model.commands import Order, Pause
from autoexp_tui.storage.live_sink import FileSessionWatcher
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.testing.clock import ManualClock
from tests.cli.session_places import Place


class SlowDisk(FileSessionWatcher):
    """Writes a command when the view was closed before it, or long after."""

    def __init__(self, session: SessionDir) -> None:
        super().__init__(session, ManualClock())
        self.closed = threading.Event()
        self.written = False

    def leave(self, order: Order) -> None:
        if not self.closed.wait(3 * POLL_SECONDS):
            super().leave(order)
            self.written = True

    def close(self) -> None:
        self.closed.set()
        super().close()


def test_closing_waits_for_a_command_that_is_being_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watcher = SlowDisk(Place(tmp_path, capsys).session("k7f2"))
    handle = ViewerHandle(watcher, ManualClock())
    handle.send(Pause())
    handle.close()
    assert watcher.written
