"""What a search's directory says of its owner."""

from __future__ import annotations

import json
import os
from pathlib import Path

from autoexp_tui.evaluation.lock_view import LOCK, ShownLease


class Lease:
    epoch = 3
    is_ours = True

    def heartbeat(self) -> bool:
        return self.is_ours

    def release(self) -> None:
        self.is_ours = False


def test_each_heartbeat_is_shown_and_a_clean_end_leaves_nothing(tmp_path: Path) -> None:
    shown = ShownLease(Lease(), tmp_path)
    assert shown.heartbeat()
    told = json.loads((tmp_path / LOCK).read_text())
    assert (told["pid"], told["epoch"]) == (os.getpid(), 3)
    assert told["created_at"] <= told["last_heartbeat_at"]
    shown.release()
    assert not (tmp_path / LOCK).exists()
    assert not shown.heartbeat()
    assert not (tmp_path / LOCK).exists()
