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
SITE = CONFIG.replace("{slurm: local}", "{slurm: local}, {site: big}")
SITE += "hydra: {searchpath: ['pkg://ours.conf']}\n"


@pytest.mark.parametrize(
    ("command", "class_name", "config", "by_path"),
    [
        ("visualize", "Command", CONFIG, False),
        ("plan", "mine:Mine", CONFIG, False),
        ("plan", "mine:Mine", CONFIG, True),
        ("render_config", "Command", SITE, False),
    ],
)
def test_no_module_is_imported_but_a_class_that_the_config_names(
    tmp_path: Path, command: str, class_name: str, config: str, by_path: bool
) -> None:
    plugins, site = tmp_path / "hydra_plugins" / "evil", tmp_path / "ours/conf/site"
    for path in (tmp_path / "config", plugins, site):
        path.mkdir(parents=True)
    evil = ["hydra_plugins/evil/__init__", "hydra_plugins/worse", "colorama"]
    # Where the module path names the directory, it would be right to import this.
    for name in (*evil, *([] if by_path else ["sitecustomize"])):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    (site / "big.yaml").write_text("answer: 42\n")
    (tmp_path / "mine.py").write_text(OWN)
    text = config % (tmp_path / "out", class_name)
    (tmp_path / "config" / "x.yaml").write_text(text)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)} if by_path else None
    words = ["-m", f"autoexp_tui.cli.{command}", "-C", "config", "--config-ref", "x"]
    done = subprocess.run(
        [sys.executable, "-P", *words],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("answer: 42" in done.stdout) == (config is SITE)
    assert not (tmp_path / "ran").exists()
