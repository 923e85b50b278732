"""Hydra's own settings are refused where they would mislead, else warned about."""

from __future__ import annotations

from pathlib import Path

import pytest

from autoexp_tui.config.default_files import config_files
from autoexp_tui.config.hydra_settings import check_hydra_settings
from tests.config.config_trees import write_tree


def check(root: Path, *overrides: str) -> dict[str, bool]:
    """Where each finding is -> whether it is an error."""
    files = config_files([root], "exp", {})
    return {
        problem.where: is_error
        for problem, is_error in check_hydra_settings(files, overrides)
    }


def test_sweeper_and_launcher_are_refused_wherever_a_file_sets_them(
    tmp_path: Path,
) -> None:
    write_tree(
        tmp_path,
        exp="""
        defaults: [{backend: one}, {override hydra/launcher: submitit_slurm}, _self_]
        hydra: {sweeper: {params: {lr: "1,2"}}}
        """,
        backend__one="# @package _global_\nhydra: {run: {dir: x}}",
    )

    assert check(tmp_path) == {
        "hydra.sweeper": True,
        "hydra/launcher": True,
        "hydra.run": False,
    }


@pytest.mark.parametrize(
    ("override", "is_error"),
    [
        ("hydra.sweeper.params.lr='1,2'", True),
        ("hydra/sweeper=optuna", True),
        ("+hydra.launcher.n_jobs=3", True),
        ("hydra.job.chdir=true", False),
        ("hydra.run.dir=x", False),
    ],
)
def test_the_command_line_is_looked_at_too(
    tmp_path: Path, override: str, is_error: bool
) -> None:
    write_tree(tmp_path, exp="a: 1")

    assert list(check(tmp_path, override).values()) == [is_error]


def test_search_paths_and_own_keys_are_no_finding(tmp_path: Path) -> None:
    write_tree(tmp_path, exp="hydra: {searchpath: [/x]}\nhydrate: {a: 1}")

    assert check(tmp_path, "hydra.searchpath=[/y]", "hydrate.a=2") == {}
