"""What a search's directory says of its owner."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from autoexp_tui.evaluation import disk_trees
from autoexp_tui.evaluation.disk_trees import LOCK, ShownLease
from autoexp_tui.model.errors import EnvironmentFailed


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


def test_an_owner_that_was_taken_over_leaves_its_successor_s(tmp_path: Path) -> None:
    lease = Lease()
    shown = ShownLease(lease, tmp_path)
    assert shown.heartbeat()
    lease.is_ours = False
    shown.release()
    assert (tmp_path / LOCK).exists()


def test_a_disk_that_is_full_is_no_loss_of_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object) -> None:
        raise EnvironmentFailed("no space is left")

    monkeypatch.setattr(disk_trees, "write_atomic", fill)
    assert ShownLease(Lease(), tmp_path).heartbeat()
