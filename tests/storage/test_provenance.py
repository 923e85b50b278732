from __future__ import annotations

import base64
import gzip
import json
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.build import build_plan_outcome
from autoexp_tui.storage import provenance
from autoexp_tui.storage.provenance import (
    GitState,
    JobConfigs,
    ProvenanceRecord,
    RecordBuilder,
    load_record,
    read_git_state,
    record_of,
    record_path,
    save_record,
    write_provenance,
)
from autoexp_tui.text.plain_tree import Path as TreePath
from autoexp_tui.text.plain_tree import unpatched, with_values

SHARED = {f"shared{n}": "é" for n in range(40)}
TREES = [({"lr": n, **SHARED}, {"lr": f"${{x{n}}}"}) for n in range(50)]


def texts(n: int) -> JobConfigs:
    resolved = f"lr: {n}\n" + "".join(f'{key}: "é"\n' for key in SHARED)
    return JobConfigs(resolved=resolved, unresolved=f'lr: "${{x{n}}}"\n')


CONFIGS = {f"job{n}": texts(n) for n in range(50)}


def make_record(git: GitState) -> ProvenanceRecord:
    builder = RecordBuilder()
    for index, (resolved, unresolved) in enumerate(TREES):
        builder.add(index, resolved, unresolved)
    return builder.record((job_in(Path(), n) for n in range(50)), git)


def job_in(tmp_path: Path, index: int = 7) -> JobSpec:
    name = f"job{index}"
    return JobSpec(
        name=name,
        index=index,
        command=("python", "train.py"),
        overrides=("lr=7",),
        output_dir=str(tmp_path / "out" / name),
        log_dir=str(tmp_path / "logs"),
    )


def plan_in(tmp_path: Path) -> Plan:
    return Plan(
        plan_id="p1",
        name="n",
        state_dir=str(tmp_path / "state"),
        overrides=("slurm=local",),
        jobs=(job_in(tmp_path),),
        environment={"HOME": "abc", "NOT_SET": ""},
    )


def written(tmp_path: Path, record: ProvenanceRecord | None) -> dict[str, str]:
    place = write_provenance(plan_in(tmp_path), job_in(tmp_path), record)
    return {path.name: path.read_text() for path in place.iterdir()}


def test_each_jobs_configs_survive_the_record(tmp_path: Path) -> None:
    save_record(tmp_path, "p1", make_record(GitState(commit="c")))
    record = load_record(tmp_path, "p1")

    assert record is not None
    assert {name: record.get_configs(name) for name in CONFIGS} == CONFIGS
    assert record.git == GitState(commit="c")
    assert record.get_configs("unknown") is None


def test_a_job_gets_everything_it_was_made_from(tmp_path: Path) -> None:
    git = GitState(commit="0123", diff="-a\n+b\n")
    files = written(tmp_path, make_record(git))

    assert files == {
        "resolved_config.yaml": CONFIGS["job7"].resolved,
        "unresolved_config.yaml": CONFIGS["job7"].unresolved,
        "overrides.txt": "slurm=local\nlr=7\n",
        "environment.txt": "HOME hmac-sha256:abc\nNOT_SET not set\n",
        "git.txt": "commit 0123\nwith uncommitted changes: git.diff\n",
        "git.diff": "-a\n+b\n",
        "command.json": '[\n "python",\n "train.py"\n]\n',
    }


def test_without_a_record_a_note_says_so(tmp_path: Path) -> None:
    files = written(tmp_path, None)

    assert "without the record" in files["MISSING.txt"]
    assert files["git.txt"] == "not recorded\n"


def test_no_record_and_a_foreign_one_read_as_none(tmp_path: Path) -> None:
    path = save_record(tmp_path, "p1", ProvenanceRecord())
    path.write_text("{}")

    assert load_record(tmp_path, "p1") is None
    assert load_record(tmp_path, "p2") is None


def git(directory: Path, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    subprocess.run(("git", "-C", directory, *identity, *words), check=True)


def test_the_commit_and_the_changes_since_are_read(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "first")
    (tmp_path / "a.txt").write_text("two\n")
    state = read_git_state(tmp_path)

    assert len(state.commit) == 40
    assert "+two" in state.diff
    assert state.note == ""


def test_outside_a_repository_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    assert read_git_state(tmp_path).note.startswith("not in a git repository")


def test_without_git_a_note_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert read_git_state(tmp_path).note.startswith("git did not answer")


def test_files_that_git_does_not_track_are_named(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("ignored\n")
    git(tmp_path, "add", ".gitignore")
    git(tmp_path, "commit", "-q", "-m", "first")
    for name in ("new file.py", "ignored"):
        (tmp_path / name).touch()
    state = read_git_state(tmp_path)
    assert state.untracked == ("new file.py",)
    files = written(tmp_path, make_record(state))
    assert files["git_untracked.txt"] == "new file.py\n"
    assert "does not track: git_untracked.txt" in files["git.txt"]


def test_a_diff_without_end_is_cut_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "_MOST_DIFF", 4096)
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "first")
    (tmp_path / "a.txt").write_text("line\n" * 100_000)
    state = read_git_state(tmp_path)
    assert len(state.diff) == 4096
    assert state.note == "the diff was cut at 4096 bytes"


def test_a_git_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(provenance, "_SECONDS", 0.2)
    assert read_git_state(tmp_path).note.startswith("git did not answer")


def test_a_record_is_found_where_the_plan_was_made(tmp_path: Path) -> None:
    plan = plan_in(tmp_path)
    save_record(Path(plan.state_dir), plan.plan_id, make_record(GitState(commit="c")))
    found = record_of(plan, tmp_path / "elsewhere")
    assert found is not None
    assert found.git.commit == "c"
    assert record_of(replace(plan, state_dir=""), tmp_path / "elsewhere") is None


def test_of_a_record_of_an_earlier_version_the_commit_is_read(tmp_path: Path) -> None:
    path = record_path(tmp_path, "p1").with_suffix("")
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 2, "git": {"commit": "c"}, "configs": "packed"}')
    found = load_record(tmp_path, "p1")
    assert found is not None
    assert (found.git.commit, found.get_configs("a")) == ("c", None)


def test_configs_that_were_written_before_stay_when_their_record_is_not_read(
    tmp_path: Path,
) -> None:
    spec = job_in(tmp_path)
    directory = Path(spec.output_dir) / "provenance"
    directory.mkdir(parents=True)
    (directory / "resolved_config.yaml").write_text("lr: 1\n")
    write_provenance(plan_in(tmp_path), spec, None)
    assert not (directory / "MISSING.txt").exists()
    assert (directory / "resolved_config.yaml").read_text() == "lr: 1\n"


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(b'{"version": 3, "git": {"x": 1}}'),
        b'{"version": 9}',
        b"",
        b"\x1f",
    ],
    ids=["other fields", "a newer version", "empty", "cut off"],
)
def test_a_record_that_does_not_read_is_none(tmp_path: Path, data: bytes) -> None:
    save_record(tmp_path, "p1", make_record(GitState()))
    record_path(tmp_path, "p1").write_bytes(data)
    assert load_record(tmp_path, "p1") is None


ORIGIN: dict[str, Any] = {
    "lr": 0.1,
    "model": {"width": 8, "part": {"a": None, "b": [1, 2]}},
    "words": ["x", {"y": 1}],
}
WRITTEN: dict[str, Any] = {"lr": "${model.width}", "model": {"width": 8}}
VALUES = (
    st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.none()
    | st.lists(st.booleans(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)
CHANGES = st.dictionaries(
    st.sampled_from(
        [
            ("lr",),
            ("new",),
            ("model", "width"),
            ("model", "part", "b"),
            ("model", "part", "new"),
            ("other", "new"),
            ("words", 1, "y"),
        ]
    ),
    VALUES,
    min_size=1,
)


def read_back(resolved: Any, unresolved: Any) -> tuple[Any, Any]:
    builder = RecordBuilder()
    builder.add(7, resolved, unresolved)
    found = builder.record([job_in(Path())], GitState()).get_configs("job7")
    assert found is not None
    return yaml.safe_load(found.resolved), yaml.safe_load(found.unresolved)


@given(CHANGES)
def test_a_config_that_differs_in_a_few_keys_comes_back(
    changes: dict[TreePath, object],
) -> None:
    tree = with_values(ORIGIN, changes)
    written = with_values(WRITTEN, {("lr",): "${x}"})
    assert repr(read_back(tree, written)) == repr((unpatched(tree), unpatched(written)))


def test_a_config_that_was_made_alone_comes_back() -> None:
    tree = {1: "a", "b": [1.5, None]}
    assert read_back(tree, WRITTEN) == (tree, WRITTEN)


def test_changes_on_changes_come_back() -> None:
    tree = with_values(ORIGIN, {("model", "width"): 1, ("lr",): 2})
    tree = with_values(tree, {("model", "part", "a"): 3, ("lr",): 4})
    found, _ = read_back(tree, with_values(WRITTEN, {("lr",): 1}))
    assert found == unpatched(tree)
    assert found["model"] == {"width": 1, "part": {"a": 3, "b": [1, 2]}}


def test_many_jobs_of_one_origin_hold_it_once() -> None:
    builder = RecordBuilder()
    for n in range(100):
        changed = (with_values(tree, {("lr",): n}) for tree in (ORIGIN, WRITTEN))
        builder.add(n, *changed)
    record = builder.record([job_in(Path(), n) for n in range(100)], GitState())
    assert len(record.wholes) == 2
    assert max(map(len, record.configs.values())) < 60


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
    for job in outcome.plan.jobs:
        configs = record.get_configs(job.name)
        assert configs is not None
        tree = yaml.safe_load(configs.resolved)
        assert tree["table"] == {1: "x", 7: [{2.5: "1"}]}
        assert tree["own" if job.index % 2 == 0 else "copy"] == {3: "y"}


def test_a_section_that_does_not_read_hides_no_other() -> None:
    text = 'a:\n- 1\nb: "\\udcff"\nc: {d: 2}\n'
    kept = base64.b85encode(zlib.compress(text.encode())).decode()
    record = ProvenanceRecord(configs={"a": json.dumps([kept, kept])})
    assert record.load_resolved("a") == {"a": [1], "c": {"d": 2}}
