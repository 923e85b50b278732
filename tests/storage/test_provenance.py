"""What a job was made from, kept and read back; and git looked at with care: none of
the programs that a repository's configuration names runs."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.build import build_plan_outcome
from autoexp_tui.storage import provenance
from autoexp_tui.storage.provenance import (
    GitState,
    JobConfigs,
    MadeFrom,
    ProvenanceRecord,
    RecordBuilder,
    load_made_from,
    read_git_state,
    record_of,
    save_record,
    write_provenance,
)
from autoexp_tui.text.plain_tree import Path as TreePath
from autoexp_tui.text.plain_tree import unpatched, with_values
from tests.model.builders import job


def job_in(place: Path, index: int = 7) -> JobSpec:
    name = f"job{index}"
    return job(name, index, overrides=("lr=7",), output_dir=str(place / "out" / name))


def plan_in(tmp_path: Path) -> Plan:
    return Plan(
        plan_id="p1",
        name="n",
        config_ref="exp",
        state_dir=str(tmp_path / "state"),
        overrides=("slurm=local",),
        jobs=(job_in(tmp_path),),
        environment={"HOME": "abc", "NOT_SET": ""},
    )


GIT = GitState(commit="c")


def make_record(
    git: GitState = GIT, trees: dict[int, tuple[Any, Any]] | None = None
) -> ProvenanceRecord:
    """Of jobs by their index, of one that is called job7."""
    builder = RecordBuilder()
    given = {7: ({"lr": 7}, {"lr": "${x7}"})} if trees is None else trees
    for index, (resolved, unresolved) in given.items():
        builder.add(index, resolved, unresolved)
    return builder.record((job_in(Path(), n) for n in given), git)


# ------------------------------------------------------------------------- a record
def test_each_jobs_configs_survive_the_record_wherever_it_lies(tmp_path: Path) -> None:
    shared = {f"shared{n}": "é" for n in range(40)}
    same = "".join(f'{key}: "é"\n' for key in shared)
    trees = {n: ({"lr": n, **shared}, {"lr": f"${{x{n}}}"}) for n in range(50)}
    plan = plan_in(tmp_path)
    save_record(Path(plan.state_dir), "p1", make_record(GIT, trees))
    record = record_of(plan, tmp_path / "elsewhere")  # where the plan was made
    assert record is not None
    assert record.git == GIT
    assert [record.get_configs(f"job{n}") for n in trees] == [
        JobConfigs(resolved=f"lr: {n}\n{same}", unresolved=f'lr: "${{x{n}}}"\n')
        for n in trees
    ]
    assert record.load_resolved("job3") == {"lr": 3, **shared}
    assert record.get_configs("unknown") is record.load_resolved("unknown") is None
    assert record_of(replace(plan, state_dir=""), tmp_path / "elsewhere") is None


def test_a_record_that_does_not_read_is_none(tmp_path: Path) -> None:
    assert record_of(plan_in(tmp_path), tmp_path) is None
    path = save_record(tmp_path, "p1", make_record())
    assert record_of(plan_in(tmp_path), tmp_path) is not None
    for tree in (b'{"version": 3, "git": {"x": 1}}', b'{"version": 9}', b"{}"):
        for data in (gzip.compress(tree), tree, b"", b"\x1f"):
            path.write_bytes(data)
            assert record_of(plan_in(tmp_path), tmp_path) is None


def test_a_job_gets_everything_it_was_made_from(tmp_path: Path) -> None:
    def written(record: ProvenanceRecord | None) -> dict[str, str]:
        place = write_provenance(plan_in(tmp_path), job_in(tmp_path), record)
        files = {path.name: path.read_text() for path in place.iterdir()}
        for name in files:
            (place / name).unlink()
        return files

    missing = written(None)
    assert "without the record" in missing["MISSING.txt"]
    assert missing["git.txt"] == "not recorded\n"
    git = GitState(commit="0123", diff="-a\n+b\n", untracked=("new file.py",))
    assert written(make_record(git)) == {
        "resolved_config.yaml": "lr: 7\n",
        "unresolved_config.yaml": 'lr: "${x7}"\n',
        "overrides.txt": "slurm=local\nlr=7\n",
        "environment.txt": "HOME hmac-sha256:abc\nNOT_SET not set\n",
        "git.txt": "commit 0123\nwith uncommitted changes: git.diff\n"
        "with files that git does not track: git_untracked.txt\n",
        "git.diff": "-a\n+b\n",
        "git_untracked.txt": "new file.py\n",
        "command.json": '[\n "true"\n]\n',
    }
    # configs that were written before stay when their record is not read
    directory = Path(job_in(tmp_path).output_dir) / "provenance"
    (directory / "resolved_config.yaml").write_text("lr: 1\n")
    kept = written(None)
    assert "MISSING.txt" not in kept
    assert kept["resolved_config.yaml"] == "lr: 1\n"


def test_a_job_without_a_config_tells_what_it_was_made_from(tmp_path: Path) -> None:
    by_hand, spec = replace(plan_in(tmp_path), config_ref=""), job_in(tmp_path)
    place = write_provenance(by_hand, spec, None)
    assert (place / "made_from.json").read_text() == "{}\n"
    assert not (place / "MISSING.txt").exists()
    made = MadeFrom(commit="c1", parent="c0", diff="e12.patch", idea="anneal longer")
    git = GitState(commit="c1", diff="-a\n+b\n")
    write_provenance(by_hand, spec, ProvenanceRecord(git=git, made_from=made))
    assert load_made_from(spec) == made
    assert (place / "git.txt").read_text() == "commit c1\nmade on c0: git.diff\n"
    assert (place / "git.diff").read_text() == git.diff


# ----------------------------------------------------------------- configs, in a record
ORIGIN: dict[str, Any] = {
    "lr": 0.1,
    "model": {"width": 8, "part": {"a": None, "b": [1, 2]}},
    "words": ["x", {"y": 1}],
}
WRITTEN: dict[str, Any] = {"lr": "${model.width}", "model": {"width": 8}}
VALUES = [7, 1.5, "é", None, [True], {"k": 1}, {}]
PLACES: list[TreePath] = [
    ("lr",), ("new",), ("model", "width"), ("model", "part", "b"),
    ("model", "part", "new"), ("other", "new"), ("words", 1, "y"),
]  # fmt: skip


def read_back(resolved: Any, unresolved: Any) -> tuple[Any, Any]:
    found = make_record(trees={7: (resolved, unresolved)}).get_configs("job7")
    assert found is not None
    return yaml.safe_load(found.resolved), yaml.safe_load(found.unresolved)


def test_a_config_that_differs_in_a_few_keys_comes_back() -> None:
    written = with_values(WRITTEN, {("lr",): "${x}"})
    for first, second in zip(VALUES, VALUES[::-1], strict=True):
        for here, there in combinations(PLACES, 2):
            tree = with_values(ORIGIN, {here: first, there: second})
            found = read_back(tree, written)
            assert repr(found) == repr((unpatched(tree), unpatched(written)))


@pytest.mark.parametrize(
    "kept", ["not JSON", "[1]", "[[9,[]],[9,[]]]", "[", "[[]]", '["",7]']
)
def test_a_damaged_config_says_so(kept: str) -> None:
    record = ProvenanceRecord(configs={"a": kept})
    with pytest.raises(EnvironmentFailed, match="a config is damaged"):
        record.get_configs("a")


NUMBERED = """
project: {name: "j${index}", base_output_dir: out}
backend: {class_name: "Null"}
lr: 1.0
table: {1: x, 7: [{2.5: "1"}]}
copy: null
sweep:
  groups:
    - params: {lr: [1.0, 2.0, 3.0]}
    - configs: [{stage: a, "++own": {3: y}}, {stage: b, copy: "{sibling.a.own}"}]
"""


def test_keys_of_a_plans_configs_that_are_no_texts_come_back_as_they_were(
    tmp_path: Path,
) -> None:
    (tmp_path / "exp.yaml").write_text(NUMBERED)
    builder = RecordBuilder()
    outcome = build_plan_outcome(
        composer=HydraComposer("exp", tmp_path, environ={}, cwd="/cwd"),
        parser=HouseParser("/cwd"),
        record=lambda index, view, resolved: builder.add(
            index, resolved, view.written_dict()
        ),
    )
    assert outcome.errors == ()
    assert outcome.plan is not None
    record = builder.record(outcome.plan.jobs, GitState())
    for one in outcome.plan.jobs:
        configs = record.get_configs(one.name)
        assert configs is not None
        tree = yaml.safe_load(configs.resolved)
        assert tree["table"] == {1: "x", 7: [{2.5: "1"}]}
        assert tree["own" if one.index % 2 == 0 else "copy"] == {3: "y"}


# ------------------------------------------------------------------------- of git
def git(directory: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    local = ("-c", "protocol.file.allow=always")
    subprocess.run(
        ("git", "-C", directory, *identity, *local, *words),
        check=True,
        capture_output=True,
    )


def make_repository(place: Path, attributes: str, *names: str) -> Path:
    """One commit of files that say "one"."""
    place.mkdir()
    git(place, "init", "-q")
    for name in names:
        (place / name).write_text("one\n")
    (place / ".gitattributes").write_text(attributes)
    git(place, "add", "-A")
    git(place, "commit", "-q", "-m", "first")
    return place


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With a commit, changes, a file that is not tracked and one that is ignored."""
    attributes = "* filter=evil diff=evil merge=evil\n"
    made = make_repository(tmp_path / "repository", attributes, "a.txt", "b.bin")
    for name in ("a.txt", "b.bin"):
        (made / name).write_text("two\n")
    for name in ("new file.txt", "ignored"):
        (made / name).touch()
    (made / ".git" / "info" / "exclude").write_text("ignored\n")
    return made


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """Comes into being when a program of the repository runs."""
    return tmp_path / "ran"


def plant(repository: Path, ran: Path) -> dict[str, str]:
    """Every setting and every hook that we know to start a program."""
    script, hooks = ran.parent / "evil.sh", ran.parent / "hooks"
    hooks.mkdir()
    names = ("fsmonitor-watchman", "post-index-change", "post-checkout", "pre-commit")
    own = [repository / ".git" / "hooks" / name for name in names]
    for path in (script, *own, *(hooks / name for name in names)):
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {ran}\n")
        path.chmod(0o755)
    evil = f"sh -c 'touch {ran}; cat'"
    drivers = [
        *(f"filter.evil.{one}" for one in ("clean", "smudge", "process")),
        *("diff.evil.textconv", "diff.evil.command", "diff.external"),
        *("merge.evil.driver", "core.sshCommand", "core.pager", "core.editor"),
    ]
    return {
        **dict.fromkeys(drivers, evil),
        **dict.fromkeys(("core.fsmonitor", "core.askPass", "gpg.program"), str(script)),
        "core.hooksPath": str(hooks),
        "core.fsmonitorHookVersion": "2",
        "filter.evil.required": "true",
        "diff.evil.cachetextconv": "true",
        "log.showSignature": "true",
        "credential.helper": f"!{evil}",
        "alias.diff": f"!{evil}",
        "alias.rev-parse": f"!{evil}",
        "pager.diff": "true",
    }


def require_traps(repository: Path, ran: Path) -> None:
    """Git as it is called without our care falls into them."""
    command = ("git", "-C", repository, "diff", "HEAD")
    subprocess.run(command, check=False, capture_output=True)
    assert ran.exists()
    ran.unlink()


@pytest.mark.parametrize("where", ["own", "included"])
def test_no_program_of_a_repository_runs(
    repository: Path, ran: Path, where: str
) -> None:
    more = ran.parent / "more.cfg"
    for key, value in plant(repository, ran).items():
        git(repository, "config", *(() if where == "own" else ("-f", more)), key, value)
    if where == "included":
        git(repository, "config", "include.path", str(more))
    require_traps(repository, ran)
    state = read_git_state(repository)
    assert not ran.exists()
    assert "+two" in state.diff
    assert (len(state.commit), state.untracked, state.note) == (
        40, ("new file.txt",), "",
    )  # fmt: skip


def test_nor_one_of_a_submodule(repository: Path, ran: Path, tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner", "* filter=other\n", "x.txt")
    git(repository, "submodule", "add", "-q", str(inner), "sub")
    git(repository, "commit", "-q", "-m", "sub")
    (repository / "sub" / "x.txt").write_text("two\n")
    git(repository / "sub", "config", "filter.other.clean", f"touch {ran}; cat")
    require_traps(repository, ran)
    (repository / "sub" / "x.txt").write_text("three\n")
    assert read_git_state(repository).commit
    assert not ran.exists()


def test_nor_one_that_cannot_be_switched_off_or_that_a_variable_names(
    repository: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {ran}")
    assert "+two" in read_git_state(repository).diff
    git(repository, "config", "filter.a=b.clean", f"touch {ran}")
    assert "names a program" in read_git_state(repository).note
    assert not ran.exists()


def test_nor_do_a_users_own_settings_change_what_is_told(
    repository: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_git_state(repository)
    own = ran.parent / ".gitconfig"
    for key, value in (("diff.noprefix", "true"), ("diff.external", f"touch {ran}")):
        git(repository, "config", "-f", str(own), key, value)
    monkeypatch.setenv("HOME", str(own.parent))
    assert read_git_state(repository) == expected
    assert not ran.exists()


def test_nothing_else_calls_git() -> None:
    package = Path(provenance.__file__).parents[1]
    calls = re.compile(r"""[=(\s][\[(]\s*["']git["'],""")
    callers = [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if calls.search(path.read_text())
    ]
    # The demo imports nothing of ours.
    assert sorted(callers) == ["demo/packing/repository.py", "storage/repository.py"]


def test_where_git_tells_nothing_a_note_says_why(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note() -> str:
        return read_git_state(repository).note

    with monkeypatch.context() as patch:
        patch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        said = read_git_state(tmp_path).note
        assert said.startswith("not in a git repository")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        assert note().startswith("git did not answer")
    monkeypatch.setattr("autoexp_tui.storage.repository._SECONDS", 0.2)
    os.mkfifo(repository / "pipe")  # a configuration that never ends
    git(repository, "config", "include.path", str(repository / "pipe"))
    assert note().startswith("git did not answer")


def test_a_diff_without_end_is_cut_and_told(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "_MOST_DIFF", 4096)
    (repository / "a.txt").write_text("line\n" * 100_000)
    state = read_git_state(repository)
    assert len(state.diff) == 4096
    assert state.note == "the diff was cut at 4096 bytes"
