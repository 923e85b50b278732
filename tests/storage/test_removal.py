"""Whatever foreign code left goes, and nothing beside it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.storage.removal import remove_below

NOBODY = 65534


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory of an ordinary user, whom modes stop; links lead out of it."""
    base = Path(tempfile.mkdtemp())
    (base / "made").mkdir()
    (base / "outside").mkdir()
    (base / "outside/file").write_text("kept")
    user = os.geteuid()
    if user == 0:
        for path in (base, base / "made", base / "outside"):
            os.chown(path, NOBODY, -1)
        os.seteuid(NOBODY)
    yield base / "made"
    os.seteuid(user)
    assert (base / "outside/file").read_text() == "kept"
    shutil.rmtree(base)


def test_a_tree_goes_whatever_its_depth_and_its_modes(root: Path) -> None:
    here = os.getcwd()
    (root / "cand/tree").mkdir(parents=True)
    os.chdir(root / "cand/tree")
    try:
        for _ in range(3000):  # more than a stack, a path or open files hold
            os.mkdir("d")
            os.symlink(root.parent / "outside", "link")
            os.chdir("d")
        Path("file").touch()
        Path("shut").mkdir(mode=0)
        os.chmod(".", 0o500)
        os.chmod("..", 0o300)
    finally:
        os.chdir(here)
    assert remove_below(root, "cand/tree")
    assert list(root.iterdir()) == [root / "cand"]
    assert not remove_below(root, "cand/tree")


def test_a_link_goes_itself_and_is_never_a_way(root: Path) -> None:
    (root / "link").symlink_to("../outside")
    with pytest.raises(OSError, match="Not a directory"):
        remove_below(root, "link/file")
    assert remove_below(root, "link")
    assert not any(root.iterdir())


@pytest.mark.parametrize("inside", ["", ".", "..", "a/../../outside", "/etc"])
def test_a_path_that_leads_out_is_a_mistake(root: Path, inside: str) -> None:
    with pytest.raises(ValueError, match="not a path below"):
        remove_below(root, inside)
