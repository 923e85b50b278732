"""Planning, drawing and rendering in a directory that somebody else has filled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """
defaults: [_self_, {slurm: local}]
project: {name: x, base_output_dir: %s}
backend: {class_name: %s, command: ["true"]}
"""
OWN = """
class Mine:
    def problems(self, backend, config):
        return []

    def command(self, backend, config):
        return ["true"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a plugin for Hydra, and modules named like others."""
    (tmp_path / "config").mkdir()
    plugins = tmp_path / "hydra_plugins" / "evil"
    plugins.mkdir(parents=True)
    touch = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    for path in (
        plugins / "__init__.py",
        plugins.parent / "worse.py",
        tmp_path / "colorama.py",
        tmp_path / "sitecustomize.py",
    ):
        path.write_text(touch)
    (tmp_path / "mine.py").write_text(OWN)
    return tmp_path


def run(
    place: Path, command: str, class_name: str, config: str = CONFIG, **env: str
) -> tuple[int, str]:
    text = config % (place / "out", class_name)
    (place / "config" / "x.yaml").write_text(text)
    done = subprocess.run(
        [
            *(sys.executable, "-P", "-m", f"autoexp_tui.cli.{command}"),
            *("-C", "config", "--config-ref", "x"),
        ],
        cwd=place,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("command", ["plan", "visualize", "render_config"])
def test_no_module_of_the_working_directory_is_imported(
    place: Path, command: str
) -> None:
    code, said = run(place, command, "Command")
    assert code == 0, said
    assert not (place / "ran").exists()


@pytest.mark.parametrize("by_path", [False, True])
def test_a_class_that_the_config_names_is_and_no_plugin_with_it(
    place: Path, *, by_path: bool
) -> None:
    env = {}
    if by_path:  # the module path names the directory
        (place / "sitecustomize.py").unlink()
        env = {"PYTHONPATH": str(place)}
    code, said = run(place, "plan", "mine:Mine", **env)
    assert code == 0, said
    assert not (place / "ran").exists()


def test_configs_of_a_package_in_the_working_directory_are_found(place: Path) -> None:
    site = place / "ours" / "conf" / "site"
    site.mkdir(parents=True)
    (site / "big.yaml").write_text("answer: 42\n")
    config = CONFIG.replace("{slurm: local}", "{slurm: local}, {site: big}")
    config += "hydra: {searchpath: ['pkg://ours.conf']}\n"
    code, said = run(place, "render_config", "Command", config)
    assert code == 0, said
    assert "answer: 42" in said
    assert not (place / "ran").exists()
