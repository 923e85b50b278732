"""Checkpoints on disk: which one is meant, and moving it aside."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.effects.effects import LookForCheckpoint, MoveCheckpoint
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.outputs import CheckpointPlace, FoundCheckpoint
from autoexp_tui.storage.checkpoint_files import (
    CheckpointFiles,
    look_for_checkpoints,
    parse_step,
)

from .disk_session import failing

FILES = CheckpointFiles()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output directory with three checkpoints and a pointer."""
    place = tmp_path / "out"
    for step in (900, 1000, 12000):
        _save(place, step)
    (place / "ckpt/latest.txt").write_text("12000\n")
    return place


def _save(place: Path, step: int) -> None:
    made = place / f"ckpt/iter_{step:08d}"
    made.mkdir(parents=True)
    (made / "model").write_text(str(step))


def look(
    out: Path, glob: str = "ckpt/iter_*", path: str = ""
) -> FoundCheckpoint | None:
    where = LookForCheckpoint(
        job="a", attempt=1, output_dir=str(out), glob=glob, path=path
    )
    return FILES.find(where)


def find(out: Path, **where: str) -> FoundCheckpoint:
    found = look(out, **where)
    assert found is not None
    return found


def order(out: Path, found: FoundCheckpoint, **fields: Any) -> MoveCheckpoint:
    move = {"target": found.target, "before": found.before, **fields}
    return MoveCheckpoint(job="a", output_dir=str(out), checkpoint=found.newest, **move)


def names(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "ckpt").iterdir())


# ---------------------------------------------------------------------- which is meant
def test_the_highest_step_is_the_newest_unless_one_is_named(out: Path) -> None:
    os.utime(out / "ckpt/iter_00000900")
    (out / "ckpt/iter_00099999").symlink_to(out / "ckpt/iter_00000900")  # is none
    found = find(out)
    assert (found.newest.path, found.newest.step, found.others) == (
        str(out / "ckpt/iter_00012000"), 12000, 2,
    )  # fmt: skip
    assert found.before is not None
    assert found.before.step == 1000
    meant = find(out, path=str(out / "ckpt/iter_00001000"))
    assert meant.before is not None
    assert (meant.newest.step, meant.before.step) == (1000, 12000)
    for at, name in enumerate(("good.pt", "best.pt")):  # without a number: the youngest
        (out / name).touch()
        os.utime(out / name, (at, at))
    assert find(out, glob="*.pt").newest.path == str(out / "best.pt")
    assert look(out, "none/*") is look(out, path="ckpt/iter_5") is None
    with pytest.raises(EnvironmentFailed, match="no output directory"):
        look(out.parent / "gone")


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("iter_00008000", 8000),
        ("checkpoint-500", 500),
        ("epoch=3-step=2500.ckpt", 2500),
        ("step-10-of-99", 10),
        ("latest", None),
    ],
)
def test_the_step_is_read_from_the_name(name: str, step: int | None) -> None:
    assert parse_step(name) == step


def test_nothing_outside_the_output_directory_is_found_or_moved(out: Path) -> None:
    (out.parent / "iter_1").mkdir()
    _save(out.parent / "other", 99999)
    (out / "elsewhere").symlink_to(out.parent / "other/ckpt")
    (out / "ckpt/iter_00099999").symlink_to(out / "ckpt/iter_00000900")
    for path, problem in {
        str(out.parent / "iter_1"): "does not lie in",
        "ckpt/../..": "does not lie in",
        "elsewhere/iter_00099999": "does not lie in",
        "ckpt/iter_00099999": "symbolic link",
    }.items():
        with pytest.raises(EnvironmentFailed, match=problem):
            look(out, path=path)
    for glob in ("../iter_*", f"{out.parent}/iter_*", "elsewhere/iter_*"):
        assert look(out, glob) is None
    with pytest.raises(EnvironmentFailed, match="does not lie in"):
        FILES.move(order(out, find(out), target=str(out.parent / "x.quarantined-1")))


# ---------------------------------------------------------------------- moving it aside
def test_a_moved_checkpoint_keeps_everything_in_it(out: Path) -> None:
    (out.parent / "named").symlink_to(out)  # an output directory behind a link is it
    found = find(out.parent / "named", path=str(out / "ckpt/iter_00012000"))
    FILES.move(order(out.parent / "named", found, pointer="ckpt/none.txt"))
    assert find(out).newest.step == 1000
    assert (Path(found.target) / "model").read_text() == "12000"
    _save(out, 12000)
    FILES.move(order(out, find(out)))
    aside = [f"iter_00012000.quarantined-{number}" for number in (1, 2)]
    assert names(out) == ["iter_00000900", "iter_00001000", *aside, "latest.txt"]


@pytest.mark.parametrize("done", ["all of it", "but for the pointer"])
def test_a_move_that_is_ordered_again_is_done_once(out: Path, done: str) -> None:
    move = order(out, find(out), pointer="ckpt/latest.txt")
    if done == "all of it":
        FILES.move(move)
    else:
        os.rename(move.checkpoint.path, move.target)
    before = names(out)
    FILES.move(move)
    assert names(out) == before
    assert (out / "ckpt/latest.txt").read_text() == "1000\n"


def test_a_move_that_cannot_be_made_is_refused_and_changes_nothing(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find(out)
    Path(found.target).mkdir()
    with pytest.raises(EnvironmentFailed, match="something else"):
        FILES.move(order(out, found))
    Path(found.target).rmdir()
    with monkeypatch.context() as broken:
        broken.setattr(os, "rename", failing(errno.EACCES))
        with pytest.raises(EnvironmentFailed, match="move the checkpoint aside"):
            FILES.move(order(out, found))
    assert "iter_00012000" in names(out)
    os.rename(found.newest.path, out / "away")
    with pytest.raises(EnvironmentFailed, match="it is gone"):
        FILES.move(order(out, found))


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("12000\n", "1000\n"),
        ("00012000\n", "00001000\n"),
        ("iter_00012000\n", "iter_00001000\n"),
        ("release\n", "release\n"),
        ("900", "900"),
    ],
)
def test_a_pointer_to_what_was_moved_names_the_one_before(
    out: Path, text: str, mended: str
) -> None:
    (out / "ckpt/latest.txt").write_text(text)
    FILES.move(order(out, find(out), pointer="ckpt/latest.txt"))
    assert (out / "ckpt/latest.txt").read_text() == mended


def test_a_pointing_link_leads_to_the_one_before_and_goes_aside_with_the_only_one(
    out: Path,
) -> None:
    (out / "ckpt/latest").symlink_to("iter_00012000")
    FILES.move(order(out, find(out), pointer="ckpt/latest"))
    assert os.readlink(out / "ckpt/latest") == "iter_00001000"
    os.rename(out / "ckpt/iter_00000900", out / "old")
    (out / "ckpt/latest.txt").write_text("1000")
    FILES.move(order(out, find(out), pointer="ckpt/latest.txt"))
    assert "latest.txt.quarantined-1" in names(out)
    assert "latest.txt" not in names(out)


# ------------------------------------------------------------------ of a job that runs
def test_the_newest_checkpoint_that_a_job_that_runs_has_saved_is_seen(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def seen(glob: str = "ckpt/iter_*", out: Path = out, **how: Any) -> Any:
        since, seconds = how.get("since"), how.get("seconds", 5.0)
        place = CheckpointPlace(job="a", output_dir=str(out), glob=glob, since=since)
        return look_for_checkpoints([place], seconds)["a"]

    os.utime(out / "ckpt/iter_00012000", (1.0, time.time() - 60))
    found = seen()
    assert (found.step, 59 < found.age < 90) == (12000, True)
    assert seen(since=time.time() - 30).step == 1000  # without other work's before
    for none in (
        seen("ckpt/step_*"),
        seen(out=out / "not there"),
        seen(since=time.time() + 60),
    ):
        assert none == "monitoring.checkpoints.glob finds none"
    assert seen(seconds=0.0) == "not looked for: it takes more than 0 s"

    def refused(*_args: object) -> object:
        raise EnvironmentFailed("cannot look for checkpoints: refused", "/ckpt")

    monkeypatch.setattr("autoexp_tui.storage.checkpoint_files._find_matches", refused)
    assert "refused" in seen()
