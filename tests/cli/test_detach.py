"""The engine that is left behind when its screen is closed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from autoexp_tui.cli.leave import heir_command
from autoexp_tui.storage.session_dir import SessionDir


def test_it_starts_beside_files_that_are_called_like_modules(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("raise RuntimeError('not yours')\n")
    command = heir_command(SessionDir(tmp_path / "k7f2"), frozenset())
    module = command.index("autoexp_tui.cli.monitor")

    ran = subprocess.run(
        [*command[: module + 1], "--help"], cwd=tmp_path, capture_output=True
    )
    assert ran.returncode == 0, ran.stderr
