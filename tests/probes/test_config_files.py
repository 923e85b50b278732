from __future__ import annotations

from pathlib import Path

import pytest

import autoexp_tui
from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.probes.config_files import config_dir, shipped, state_dir


def test_the_shipped_configs_hold_the_default_experiment() -> None:
    assert (shipped("config") / "exp.yaml").is_file()


def test_a_wheels_own_data_comes_before_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site" / "autoexp_tui"
    for place in (package / "_data" / "config", package.parent.parent / "config"):
        place.mkdir(parents=True)
    monkeypatch.setattr(autoexp_tui, "__file__", str(package / "__init__.py"))

    assert shipped("config") == package / "_data" / "config"


def test_a_package_without_its_data_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "a" / "b" / "autoexp_tui"
    monkeypatch.setattr(autoexp_tui, "__file__", str(package / "__init__.py"))
    with pytest.raises(EnvironmentFailed, match="has no config/ directory"):
        shipped("config")


def test_the_users_own_config_directory_comes_before_the_shipped_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "config").mkdir()

    assert config_dir(None, tmp_path) == tmp_path / "config"


def test_without_an_own_directory_the_shipped_one_is_taken(tmp_path: Path) -> None:
    assert config_dir(None, tmp_path) == shipped("config")


def test_a_chosen_directory_is_taken_relative_to_the_start(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()

    assert config_dir("conf", tmp_path) == tmp_path / "conf"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [("nowhere", "is not there"), ("file", "is a file, not a directory")],
)
def test_a_chosen_directory_that_is_none_says_so(
    tmp_path: Path, chosen: str, message: str
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=message):
        config_dir(chosen, tmp_path)


def test_flag_then_variable_then_config_then_default_name_the_state_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = state_dir(None, None, tmp_path)
    configured = state_dir(None, "c", tmp_path)
    monkeypatch.setenv("AUTOEXP_STATE_DIR", "v")
    by_variable = state_dir(None, "c", tmp_path)
    by_flag = state_dir("f", "c", tmp_path)

    assert [default, configured, by_variable, by_flag] == [
        tmp_path / "outputs" / ".autoexp",
        tmp_path / "c",
        tmp_path / "v",
        tmp_path / "f",
    ]
