"""Where jobs are to write: room, inodes, quota, permission."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autoexp_tui.config import plan_checks
from autoexp_tui.config.plan_checks import Finding, Quota, check_output_places
from autoexp_tui.model.facts import CommandResult
from tests.model.builders import job

LEFT: list[Quota] = [(4096, "bytes")]
FEW: Quota = (50 * 1024, "bytes")
JOBS = [job(f"j{n}", n) for n in range(3)]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What statvfs says; changes of the dict change it. No quota."""
    told = {
        "f_blocks": 1 << 42, "f_bavail": 1 << 40, "f_frsize": 1, "f_files": 10_000,
        "f_favail": 9_000, "f_flag": 0,
    }  # fmt: skip
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**told))
    monkeypatch.setattr(plan_checks, "read_quotas", lambda _: ())
    return told


def said(found: Sequence[Finding]) -> tuple[list[str], list[str]]:
    """What stops a plan, and what does not."""
    stops = [str(problem) for problem, is_error in found if is_error]
    return stops, [str(problem) for problem, is_error in found if not is_error]


OTHER = "choose another directory that you may write to"
ROOM = "make room, or choose another directory; checkpoints are large"


@pytest.mark.parametrize(("change", "stops", "message"), [
    ({"f_bavail": 100 << 20},
     *(True, f"105 MB free at {{}}\n    {ROOM}")),
    ({"f_bavail": 1 << 30}, False, f"1.07 GB free at {{}}\n    {ROOM}"),
    *(
        ({"f_favail": left}, left == 2,
         f"{left} more files can be made at {{}}\n    {ROOM}") for left
        in (2, 40)),
    ({"f_flag": os.ST_RDONLY}, True, f"{{}} is mounted read-only\n    {OTHER}"),
    pytest.param({"f_blocks": 0, "f_bavail": 0}, False, "", id="no size told"),
    pytest.param({"f_files": 0, "f_favail": 0}, False, "", id="no inodes told"),
])  # fmt: skip
def test_what_the_file_system_says_is_told(
    disk: dict[str, Any],
    tmp_path: Path,
    change: dict[str, int],
    message: str,
    *,
    stops: bool,
) -> None:
    disk |= change
    told = [f"project.base_output_dir: {message}".format(tmp_path)] if message else []
    wanted = (told, []) if stops else ([], told)
    assert said(check_output_places(tmp_path, JOBS)) == wanted


@pytest.mark.usefixtures("disk")
def test_a_directory_of_others_or_a_file_in_its_place_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[str]:
        return said(check_output_places(tmp_path / "out", JOBS))[0]

    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        message = f"out cannot be made: you may not write to {tmp_path}\n    {OTHER}"
        assert told() == [f"project.base_output_dir: {tmp_path}/{message}"]
    (tmp_path / "out").touch()
    message = f"{tmp_path}/out is a file, not a directory\n    {OTHER}"
    assert told() == [f"project.base_output_dir: {message}"]


@pytest.mark.parametrize(("quota", "stops", "told"), [
    ((100_000 * 1024, "bytes"), True, "102 MB"),
    ((1_000_000 * 1024, "bytes"), False, "1.02 GB"), ((0, "files"), True, "0 files"),
    ((390, "files"), False, "390 files"),
])  # fmt: skip
@pytest.mark.usefixtures("disk")
def test_a_quota_that_leaves_little_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quota: Quota,
    told: str,
    *,
    stops: bool,
) -> None:
    monkeypatch.setattr(plan_checks, "read_quotas", lambda _: (quota,))
    errors, warnings = said(check_output_places(tmp_path, JOBS))
    assert (errors if stops else warnings) == [
        f"project.base_output_dir: your quota at {tmp_path} leaves {told}\n    {ROOM}"
    ]


@pytest.mark.parametrize(("kind", "printed", "expected"), [
    ("lustre", {"lfs": "/x 5 9 0 0 1 0 0 0"}, LEFT),
    ("lustre", {"lfs": "/x 250* 200 300 6d 10 0 20 -"}, [FEW, (10, "files")]),
    ("lustre", {"lfs": "/x 250 0 0 0 10 0 0 0"}, []),
    ("lustre", {"lfs": "Cannot resolve"}, []),
    ("lustre", {"lfs": ""}, []),
    ("ext4", {"quota": "Disk quotas\n/dev/b 1 2\n/dev/a 5 9 0 0 1 0 0 0"}, LEFT),
    ("ext4", {}, []),
    ("", {"quota": "/dev/a 5 9 0 0 1 0 0 0"}, []),
])  # fmt: skip
def test_the_quota_is_asked_of_the_file_system_s_own_tool_and_read_as_it_writes_it(
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    printed: dict[str, str],
    expected: list[Quota],
) -> None:
    printed = printed | {"df": f"Type Filesystem\n{kind} /dev/a" if kind else ""}

    def run(command: Sequence[str], _: float) -> CommandResult:
        text = printed.get(command[0])
        return CommandResult(None if text is None else 0, text or "")

    monkeypatch.setattr("shutil.which", printed.get)
    monkeypatch.setattr(plan_checks, "run_bounded", run)
    assert list(plan_checks.read_quotas(Path("/x"))) == expected


def test_a_look_that_hangs_is_told_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def hang(*_: object) -> Sequence[object]:
        over.wait(60)
        return ()

    monkeypatch.setattr(plan_checks, "find_problems", hang)
    found = check_output_places(tmp_path, JOBS, seconds=0.05)
    over.set()
    message = (
        f"{tmp_path} did not answer within 0.05 s\n    look at it with `df`; jobs "
    )
    message += "that write there would hang as well"
    assert said(found) == ([], [f"project.base_output_dir: {message}"])
