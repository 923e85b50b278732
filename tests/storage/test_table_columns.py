"""Columns of a table are kept by config; bad files are told and lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.storage.user_files import keep_columns, read_columns


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "autoexp-tui" / "columns.json"


def test_each_config_has_its_own_columns_until_the_usual_ones_are_taken(
    file: Path,
) -> None:
    keep_columns("a exp", ("name", "metric:é"))
    keep_columns("b exp", ("id",))
    assert [*read_columns("a exp")] == ["name", "metric:é"]
    keep_columns("a exp", ())
    assert [*map(tuple, map(read_columns, ("a exp", "b exp", "c")))] == [
        (),
        ("id",),
        (),
    ]
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"configs": {"a": 3}}', '{"configs": {"a": [3]}}', "[" * 9999]
)
def test_a_file_that_is_none_is_told_and_put_aside_when_columns_are_kept(
    file: Path, text: str
) -> None:
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(EnvironmentFailed, match="no list of columns"):
        read_columns("a")
    keep_columns("a", ("id",))
    assert [*read_columns("a")] == ["id"]
    assert Path(f"{file}.bad").read_text() == text


def test_without_a_place_to_write_keeping_says_so() -> None:
    with pytest.raises(EnvironmentFailed):
        keep_columns("a", ("id",))
