"""What agents and evaluations may reach."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import autoexp_tui
from autoexp_tui.isolation.port import Profile
from autoexp_tui.isolation.profiles import (
    list_program_paths,
    make_agent_profile,
    make_evaluation_profile,
)

TREE = Path("/data/run/cand/e1")
PRIVATE = Path("/data/run/private/e1")


def test_an_agent_writes_its_worktree_and_reads_its_login() -> None:
    login = Path("/home/ann/.codex/auth.json")
    agent = make_agent_profile(TREE, PRIVATE, logins=[login], readable=[Path("/sets")])
    assert agent.list_writable() == (TREE, PRIVATE / "home", PRIVATE / "tmp")
    assert agent.network == (443,)
    assert {login, Path("/sets"), Path("/usr")} <= {*agent.list_readable()}


def test_an_evaluation_has_its_output_but_no_login_and_no_network() -> None:
    output = Path("/data/run/eval/e1/output")
    own = make_evaluation_profile(TREE, PRIVATE, output)
    assert own.list_writable() == (TREE, output, PRIVATE / "home", PRIVATE / "tmp")
    assert own.network == "none"
    package = Path(autoexp_tui.__file__).parents[1]  # an import lists it
    ours = {Path(sys.prefix), Path(sys.base_prefix), package}
    assert ours <= {*own.readable}


def test_a_program_of_npm_is_read_with_its_prefix(tmp_path: Path) -> None:
    real = tmp_path / "node/lib/node_modules/codex/bin/codex.js"
    real.parent.mkdir(parents=True)
    real.touch()
    (tmp_path / "codex").symlink_to("node/lib/node_modules/codex/bin/codex.js")
    found = list(list_program_paths(tmp_path / "codex"))
    assert found == [tmp_path / "codex", real, tmp_path / "node"]


def test_a_program_of_another_python_is_read_with_that_and_a_shim_with_its_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, env, shim = (
        tmp_path / name for name in ("base", "env", "pyenv/shims/python3")
    )
    for path in (base / "lib/python3.12/os.py", base / "bin/python3.12", shim):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (env / "bin").mkdir(parents=True)
    (env / "pyvenv.cfg").touch()
    (env / "bin/python").symlink_to(base / "bin/python3.12")
    tool = env / "bin/tool"
    assert {env, base, base / "bin/python3.12"} < {*list_program_paths(tool)}
    assert tmp_path / "pyenv" in list_program_paths(shim)
    for home in (base, base / "user"):  # nobody's home is a program's
        monkeypatch.setenv("HOME", str(home))
        assert base not in list_program_paths(base / "bin/python3.12")


def test_a_path_that_is_not_absolute_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not absolute"):
        Profile((Path("here"),), PRIVATE, PRIVATE)
