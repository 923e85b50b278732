"""What agents and evaluations may reach."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import autoexp_tui
from autoexp_tui.isolation.port import Profile
from autoexp_tui.isolation.profiles import (
    find_exposed,
    list_program_paths,
    make_agent_profile,
    make_evaluation_profile,
    measure_disk,
    prepare_profile,
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
    assert (own.network, own.logins) == ("none", ())
    package = Path(autoexp_tui.__file__).parents[1]  # an import lists it
    ours = {Path(sys.prefix), Path(sys.base_prefix), package}
    assert ours <= {*own.readable}


def test_what_lies_in_an_open_directory_is_found_through_links(tmp_path: Path) -> None:
    for name in ("data", "hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "also").symlink_to(tmp_path / "hidden")
    secrets = (tmp_path / "data/test.csv", tmp_path / "hidden/score.py")

    def exposed(readable: Path) -> tuple[Path, ...]:
        own = make_evaluation_profile(TREE, PRIVATE, TREE, readable=[readable])
        return find_exposed(own, secrets)

    assert exposed(tmp_path / "data") == secrets[:1]
    assert exposed(tmp_path / "also") == secrets[1:]
    assert exposed(tmp_path) == secrets


def test_a_program_of_npm_is_read_with_its_prefix(tmp_path: Path) -> None:
    real = tmp_path / "node/lib/node_modules/codex/bin/codex.js"
    real.parent.mkdir(parents=True)
    real.touch()
    (tmp_path / "codex").symlink_to("node/lib/node_modules/codex/bin/codex.js")
    found = list(list_program_paths(tmp_path / "codex"))
    assert found == [tmp_path / "codex", real, tmp_path / "node"]


def test_home_is_made_with_links_to_the_logins_at_their_places(tmp_path: Path) -> None:
    login = tmp_path / "user/.codex/auth.json"
    agent = make_agent_profile(TREE, tmp_path / "private", logins=[login])
    for _ in range(2):
        prepare_profile(agent, tmp_path / "user")
    assert (agent.home / ".codex/auth.json").readlink() == login
    assert agent.tmp.stat().st_mode & 0o777 == 0o700


def test_disk_counts_what_is_written_and_not_what_links_lead_to(tmp_path: Path) -> None:
    own = Profile("test", (tmp_path,), tmp_path / "home", tmp_path / "tmp")
    prepare_profile(own)
    before = measure_disk(own)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/file").write_bytes(bytes(1 << 20))
    (tmp_path / "link").symlink_to("/usr")
    assert 1 << 20 <= measure_disk(own) - before < 2 << 20


def test_a_path_that_is_not_absolute_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not absolute"):
        Profile("test", (Path("here"),), PRIVATE, PRIVATE)
