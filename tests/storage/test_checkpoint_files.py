"""Checkpoints on disk: which one is meant, and moving it aside."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.effects.effects import LookForCheckpoint, MoveCheckpoint
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.outputs import CheckpointPlace, FoundCheckpoint, SeenCheckpoint
from autoexp_tui.storage.checkpoint_files import (
    CheckpointFiles,
    look_for_checkpoints,
    parse_step,
)

FILES = CheckpointFiles()


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output directory with three checkpoints and a pointer."""
    place = tmp_path / "out"
    for step in (900, 1000, 12000):
        _save(place, step)
    (place / "ckpt/latest.txt").write_text("12000\n")
    return place


def _save(place: Path, step: int) -> Path:
    made = place / f"ckpt/iter_{step:08d}"
    made.mkdir(parents=True)
    (made / "model").write_text(str(step))
    return made


def look(out: Path, **fields: Any) -> LookForCheckpoint:
    given: dict[str, Any] = {"glob": "ckpt/iter_*", **fields}
    return LookForCheckpoint(job="a", attempt=1, output_dir=str(out), **given)


def find(out: Path, **fields: Any) -> FoundCheckpoint:
    found = FILES.find(look(out, **fields))
    assert found is not None
    return found


def order(out: Path, found: FoundCheckpoint, **fields: Any) -> MoveCheckpoint:
    given: dict[str, Any] = {
        "checkpoint": found.newest,
        "target": found.target,
        "before": found.before,
        **fields,
    }
    return MoveCheckpoint(job="a", output_dir=str(out), **given)


def names(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "ckpt").iterdir())


def test_the_highest_step_is_the_newest(out: Path) -> None:
    os.utime(out / "ckpt/iter_00000900")
    found = find(out)
    assert found.newest.path == str(out / "ckpt/iter_00012000")
    assert found.newest.step == 12000
    assert found.before is not None
    assert found.before.step == 1000
    assert found.others == 2


def test_among_names_without_a_number_the_youngest_is_the_newest(out: Path) -> None:
    for at, name in enumerate(("good.pt", "best.pt")):
        (out / name).touch()
        os.utime(out / name, (at, at))
    assert find(out, glob="*.pt").newest.path == str(out / "best.pt")


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("iter_00008000", 8000),
        ("checkpoint-500", 500),
        ("global_step1000", 1000),
        ("epoch=3-step=2500.ckpt", 2500),
        ("step-10-of-99", 10),
        ("iteration_7", 7),
        ("0", 0),
        ("latest", None),
    ],
)
def test_the_step_is_read_from_the_name(name: str, step: int | None) -> None:
    assert parse_step(name) == step


def test_nothing_there_is_nothing(out: Path) -> None:
    assert FILES.find(look(out, glob="none/*")) is None
    assert FILES.find(look(out, path="ckpt/iter_5")) is None
    with pytest.raises(EnvironmentFailed, match="no output directory"):
        FILES.find(look(out.parent / "gone"))


def test_a_certain_one_is_found_by_its_path(out: Path) -> None:
    meant = str(out / "ckpt/iter_00001000")
    found = find(out, path=meant)
    assert found.newest.path == meant
    assert found.before is not None
    assert found.before.step == 12000


def test_a_path_outside_the_output_directory_is_refused(out: Path) -> None:
    (out.parent / "iter_1").mkdir()
    for path in ("../iter_1", str(out.parent / "iter_1"), ".", "ckpt/../.."):
        with pytest.raises(EnvironmentFailed, match="does not lie in"):
            FILES.find(look(out, path=path))
    for glob in ("../iter_*", f"{out.parent}/iter_*"):
        assert FILES.find(look(out, glob=glob)) is None


def test_links_are_not_followed_out_of_it(out: Path) -> None:
    _save(out.parent / "other", 99999)
    (out / "elsewhere").symlink_to(out.parent / "other/ckpt")
    assert FILES.find(look(out, glob="elsewhere/iter_*")) is None
    with pytest.raises(EnvironmentFailed, match="does not lie in"):
        FILES.find(look(out, path="elsewhere/iter_00099999"))


def test_a_link_is_no_checkpoint(out: Path) -> None:
    (out / "ckpt/iter_00099999").symlink_to(out / "ckpt/iter_00000900")
    assert find(out).newest.step == 12000
    with pytest.raises(EnvironmentFailed, match="symbolic link"):
        FILES.find(look(out, path="ckpt/iter_00099999"))


def test_an_output_directory_behind_a_link_is_itself(out: Path) -> None:
    (out.parent / "named").symlink_to(out)
    found = find(out.parent / "named", path=str(out / "ckpt/iter_00012000"))
    FILES.move(order(out.parent / "named", found))
    assert "iter_00012000.quarantined-1" in names(out)


def test_a_move_outside_is_refused_whatever_the_order_says(out: Path) -> None:
    found = find(out)
    with pytest.raises(EnvironmentFailed, match="does not lie in"):
        FILES.move(order(out, found, target=str(out.parent / "x.quarantined-1")))


def test_a_moved_checkpoint_keeps_everything_in_it(out: Path) -> None:
    found = find(out)
    FILES.move(order(out, found, pointer="ckpt/none.txt"))
    assert find(out).newest.step == 1000
    assert (Path(found.target) / "model").read_text() == "12000"
    assert "iter_00012000" not in names(out)
    _save(out, 12000)
    FILES.move(order(out, find(out)))
    assert "iter_00012000.quarantined-2" in names(out)


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


def test_a_target_that_somebody_took_is_refused(out: Path) -> None:
    found = find(out)
    Path(found.target).mkdir()
    with pytest.raises(EnvironmentFailed, match="something else"):
        FILES.move(order(out, found))
    assert "iter_00012000" in names(out)


def test_a_checkpoint_that_is_gone_is_said(out: Path) -> None:
    found = find(out)
    os.rename(found.newest.path, out / "away")
    with pytest.raises(EnvironmentFailed, match="it is gone"):
        FILES.move(order(out, found))


def test_a_directory_that_refuses_is_said(out: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write everywhere")
    found = find(out)
    (out / "ckpt").chmod(0o500)
    with pytest.raises(EnvironmentFailed, match="move the checkpoint aside"):
        FILES.move(order(out, found))
    (out / "ckpt").chmod(0o700)


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("12000", "1000"),
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


def test_a_pointing_link_leads_to_the_one_before(out: Path) -> None:
    link = out / "ckpt/latest"
    link.symlink_to("iter_00012000")
    FILES.move(order(out, find(out), pointer="ckpt/latest"))
    assert os.readlink(link) == "iter_00001000"


def test_a_pointer_goes_aside_with_the_only_one(out: Path) -> None:
    for step in (900, 1000):
        os.rename(out / f"ckpt/iter_{step:08d}", out / f"old{step}")
    FILES.move(order(out, find(out), pointer="ckpt/latest.txt"))
    assert names(out) == ["iter_00012000.quarantined-1", "latest.txt.quarantined-1"]


def seen(out: Path, glob: str = "ckpt/iter_*", **fields: Any) -> SeenCheckpoint | str:
    place = CheckpointPlace(job="a", output_dir=str(out), glob=glob, **fields)
    return look_for_checkpoints([place])["a"]


def test_the_newest_checkpoint_that_a_job_that_runs_has_saved_is_seen(
    out: Path,
) -> None:
    os.utime(out / "ckpt/iter_00012000", (1.0, time.time() - 60))
    found = seen(out)
    assert isinstance(found, SeenCheckpoint)
    assert found.step == 12000
    assert 59 < found.age < 90
    of_other_work_before = seen(out, since=time.time() - 30)
    assert isinstance(of_other_work_before, SeenCheckpoint)
    assert of_other_work_before.step == 1000


def test_that_there_is_no_checkpoint_yet_is_told(out: Path) -> None:
    none = "monitoring.checkpoints.glob finds none"
    assert seen(out, "ckpt/step_*") == none
    assert seen(out / "not there") == none
    assert seen(out, since=time.time() + 60) == none


def test_a_look_that_takes_long_leaves_the_other_jobs_out(out: Path) -> None:
    place = CheckpointPlace(job="a", output_dir=str(out), glob="ckpt/iter_*")
    found = look_for_checkpoints([place], seconds=0.0)
    assert found == {"a": "not looked for: it takes more than 0 s"}


def test_a_checkpoint_directory_that_cannot_be_read_is_told(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_args: object) -> object:
        raise EnvironmentFailed("cannot look for checkpoints: refused", "/ckpt")

    monkeypatch.setattr("autoexp_tui.storage.checkpoint_files._find_matches", refused)
    assert "refused" in str(seen(out))
