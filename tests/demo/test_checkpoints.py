"""Checkpoints are complete or not there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from autoexp_tui.demo import checkpoints
from autoexp_tui.demo.checkpoints import Checkpoint, DemoError, RunFacts
from autoexp_tui.demo.model import Shape

if TYPE_CHECKING:
    from pathlib import Path

SHAPE = Shape(context=2, hidden=3, vocabulary=5)

KILLED_SAVES = """
import os, signal, sys
from pathlib import Path
from autoexp_tui.demo import checkpoints as checkpoint

def die_in_time(event):
    global left
    if event in ("open", "fsync") or event.startswith(("os.", "shutil.")):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

def synced(descriptor, sync=os.fsync):
    die_in_time("fsync")
    sync(descriptor)

made = checkpoint.load(Path(sys.argv[1]))
for place in map(Path, sys.argv[2:]):
    if os.fork() == 0:
        left = int(place.name)
        os.fsync = synced
        sys.addaudithook(lambda event, _: die_in_time(event))
        checkpoint.prepare(place)
        checkpoint.save(place, made)
        os._exit(0)
    print(place.name, os.wait()[1])
"""
"""Saves into each directory, killed before the n-th step that touches the disk."""


def made(iteration: int = 7) -> Checkpoint:
    facts = RunFacts(iteration, samples=70, seed=1, lr=0.1, corpus="abc", shape=SHAPE)
    numbers = np.arange(SHAPE.parameters, dtype=np.float32)
    return Checkpoint(facts, numbers, numbers * 2, numbers * 3)


def save(directory: Path, iteration: int = 7) -> Path:
    checkpoints.prepare(directory)
    return checkpoints.save(directory, made(iteration))


def test_what_was_saved_is_loaded_and_named_the_latest(tmp_path: Path) -> None:
    path = save(tmp_path, 8000)
    loaded, saved = checkpoints.load(path), made(8000)
    assert loaded.facts == saved.facts
    for name in ("parameters", "mean", "square"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(saved, name))
    assert path == tmp_path / "iter_00008000"
    assert {file.name for file in path.iterdir()} == {"model.npz", "done.txt"}
    latest = tmp_path / "latest_checkpointed_iteration.txt"
    assert latest.read_text() == "8000\n"


def test_a_kill_at_any_step_leaves_a_complete_checkpoint_or_none(
    tmp_path: Path,
) -> None:
    source = save(tmp_path / "source")
    places = [tmp_path / "killed" / str(step) for step in range(30)]
    (tmp_path / "killed").mkdir()
    arguments = [str(path) for path in (source, *places)]
    command = [sys.executable, "-c", KILLED_SAVES, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kills = [line for line in done.stdout.splitlines() if not line.endswith(" 0")]
    found = [checkpoints.find_newest(place) for place in places]
    assert 10 <= len(kills) < len(places)
    assert found[0] is None
    assert found[len(kills) - 1] is not None
    for path in filter(None, found):
        assert checkpoints.load(path).facts.iteration == 7


def test_what_a_killed_writer_left_is_removed_and_written_anew(tmp_path: Path) -> None:
    left = tmp_path / ".iter_00000007.partial"
    left.mkdir()
    (left / "model.npz").write_bytes(b"half")
    (tmp_path / "iter_00000007").mkdir()
    path = save(tmp_path)
    assert not left.exists()
    assert checkpoints.load(path).facts.iteration == 7


def test_the_newest_is_the_highest_complete_iteration(tmp_path: Path) -> None:
    older, newer, last = (save(tmp_path, iteration) for iteration in (9, 10, 11))
    (last / "done.txt").unlink()
    assert checkpoints.find_newest(tmp_path) == newer
    assert checkpoints.locate(tmp_path) == newer
    assert checkpoints.locate(tmp_path, 9) == older
    assert checkpoints.locate(older) == older


def test_a_damaged_checkpoint_is_an_error(tmp_path: Path) -> None:
    path = save(tmp_path)
    arrays = path / "model.npz"
    arrays.write_bytes(arrays.read_bytes()[:-200])
    with pytest.raises(DemoError, match="cannot read the checkpoint"):
        checkpoints.load(path)


def test_a_checkpoint_of_another_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DemoError, match="another text"):
        checkpoints.require_corpus(tmp_path, made().facts, "def")
