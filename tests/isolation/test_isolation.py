"""What a command can still do inside the fence, and how the fence is chosen."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from autoexp_tui.cli.doctor import check_isolation
from autoexp_tui.isolation.kinds import (
    Bubblewrap,
    Container,
    Landlock,
    NoIsolation,
    Wanted,
    choose_isolation,
    list_mounts,
)
from autoexp_tui.isolation.port import Isolation
from autoexp_tui.model.errors import UsageError
from tests.isolation.fence import (
    Fence,
    build_here,
    list_identity,
    make_fence,
    start_victim,
)

KINDS = ("none", "landlock", "bwrap")
WORK = """
import multiprocessing, os, pathlib, shutil, subprocess, tempfile
own = pathlib.Path.cwd()
(own / "solver.py").write_text("changed")
(own / "solver.py").rename(own / "moved.py")
shutil.move(own / "moved.py", own.parents[1] / "eval/e1/output/solver.py")
(pathlib.Path.home() / ".cache").mkdir()
tempfile.NamedTemporaryFile(dir=os.environ["TMPDIR"]).close()
multiprocessing.Lock()
assert (pathlib.Path.home() / "login.json").read_text() == "token"
assert subprocess.check_output(["sh", "-c", "ls /usr > /dev/null; echo hi"]) == b"hi\\n"
assert "NoNewPrivs:\\t1" in pathlib.Path("/proc/self/status").read_text()
assert set(map(int, os.listdir("/proc/self/fd"))) <= {0, 1, 2, 3}  # 3: the listing
raise SystemExit(7)
"""
CONNECT = "import socket; socket.create_connection(('127.0.0.1', {}), 5)"
LOOPBACK = """
import socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).sendall(b"!")
assert server.accept()[0].recv(1) == b"!"
"""
OWN_SYSTEM = """
import errno, os
assert os.getppid() == 1  # whose end is that of all others
assert os.stat("/dev/tty").st_rdev == os.stat("/dev/null").st_rdev
try:
    os.mkdir("/elsewhere")
except OSError as error:
    assert error.errno == errno.EROFS
else:
    raise AssertionError
"""
POLITE = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("ready", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def fence() -> Iterator[Fence]:
    with make_fence() as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_works_in_its_own_places_and_its_status_comes_back(
    kind: str, fence: Fence
) -> None:
    with open(os.devnull) as inherited:
        argv = (fence.python.path, "-c", WORK)
        wrapped = build_here(fence, kind).wrap(argv, fence.make_profile())
        run = fence.run(wrapped, pass_fds=(inherited.fileno(),))
    assert (run.returncode, run.stderr) == (7, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone has capabilities")
@pytest.mark.parametrize("kind", ["landlock", "bwrap"])
def test_root_has_no_capabilities_inside(kind: str, fence: Fence) -> None:
    for place in (fence.base, fence.base / "private/home", fence.base / "private/tmp"):
        place.chmod(0o755)  # root's rights over others' files are one of them
    argv = ("grep", "CapEff", "/proc/self/status")
    wrapped = build_here(fence, kind).wrap(argv, fence.make_profile())
    run = subprocess.run(wrapped, cwd="/", capture_output=True, text=True, timeout=60)
    assert run.stdout.split() == ["CapEff:", "0" * 16]


def test_without_a_network_bubblewrap_keeps_a_loopback(fence: Fence) -> None:
    run = fence.run_python(build_here(fence, "bwrap"), LOOPBACK)
    assert (run.returncode, run.stderr) == (0, "")


def test_bubblewrap_alone_has_no_terminal_and_nothing_to_write_elsewhere(
    fence: Fence,
) -> None:
    run = fence.run_python(build_here(fence, "bwrap-0"), OWN_SYSTEM)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("kind", ["landlock", "bwrap"])
def test_tcp_goes_to_the_named_ports_alone(kind: str, fence: Fence) -> None:
    isolation = build_here(fence, kind)
    with start_victim(fence) as (_, port):
        code = CONNECT.format(port)
        assert fence.run_python(isolation, code, (port,)).returncode == 0
        assert fence.run_python(isolation, code, (port % 65535 + 1,)).returncode == 1
        assert fence.run_python(isolation, code, "all").returncode == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_may_end_itself_when_its_group_is_asked_to(
    kind: str, fence: Fence
) -> None:
    argv = build_here(fence, kind).wrap(
        (fence.python.path, "-c", POLITE), fence.make_profile()
    )
    with subprocess.Popen(
        argv,
        cwd=fence.base / "cand/e1",
        stdout=subprocess.PIPE,
        process_group=0,
        **list_identity(),
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"ready\n"
        os.killpg(running.pid, signal.SIGTERM)
        assert running.wait(30) == 7


def test_a_kernel_that_holds_less_than_was_promised_starts_nothing(
    fence: Fence,
) -> None:
    run = fence.run_python(Landlock(99, fence.python), "print('started')")
    assert (run.returncode, run.stdout) == (69, "")
    assert "ABI 99 was promised" in run.stderr


@pytest.mark.parametrize(
    ("command", "status"), [("nowhere-at-all", 127), ("solver.py", 126)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_command_that_cannot_run_says_so(
    kind: str, command: str, status: int, fence: Fence
) -> None:
    path = command if status == 127 else f"{fence.base}/cand/e1/{command}"
    wrapped = build_here(fence, kind).wrap((path,), fence.make_profile())
    run = fence.run(wrapped)
    assert (run.returncode, f"cannot run {path}" in run.stderr) == (status, True)


@pytest.mark.parametrize("kind", ["landlock", "bwrap"])
def test_a_missing_directory_of_its_own_is_told_and_nothing_starts(
    kind: str, fence: Fence
) -> None:
    (fence.base / "eval/e1/output/.keep").unlink()
    (fence.base / "eval/e1/output").rmdir()
    run = fence.run_python(build_here(fence, kind), "print('started')")
    assert run.returncode != 0
    assert run.stdout == ""
    assert f"{fence.base}/eval/e1/output" in run.stderr


def test_mounts_keep_links_and_give_the_inner_directory_its_own_right(
    tmp_path: Path,
) -> None:
    inner = tmp_path / "real/prefix/work"
    inner.mkdir(parents=True)
    (tmp_path / "named").symlink_to(tmp_path / "real")
    words = list(list_mounts([tmp_path / "named/prefix"], [inner, inner.parent / "x"]))
    prefix, named = str(inner.parent), str(tmp_path / "named/prefix")
    assert words[:2] == ["--tmpfs", "/tmp"]
    for option in (
        ["--ro-bind-try", prefix, prefix],
        ["--bind", str(inner), str(inner)],
        ["--symlink", prefix, named],
    ):
        at = words.index(option[1]) - 1
        assert words[at : at + 3] == option or option[0] in words
    assert words.count("--bind") == 2
    assert words.index("--ro-bind-try") < words.index("--bind")


# ------------------------------------------------------------------------ the choice
STRONG, WEAK, FILES_ALONE = Bubblewrap("bwrap", 6), Landlock(1), Landlock(3)


@pytest.mark.parametrize(
    ("wanted", "found", "command", "chosen"),
    [
        ("prefer", (FILES_ALONE, STRONG), "python x.py", STRONG),
        ("prefer", (WEAK,), "python exec", WEAK),
        ("prefer", (), "", NoIsolation()),
        ("prefer", (STRONG,), "/bin/apptainer -q exec a.sif", Container()),
        ("none", (STRONG,), "", NoIsolation()),
        ("require", (FILES_ALONE,), "", FILES_ALONE),
        ("require", (WEAK,), "", None),
        ("require", (), "", None),
        ("require", (STRONG,), "singularity run a.sif", None),
    ],
)
def test_the_strongest_is_chosen_and_a_requirement_is_never_weakened(
    wanted: Wanted,
    found: tuple[Isolation, ...],
    command: str,
    chosen: Isolation | None,
) -> None:
    if chosen is None:
        with pytest.raises(UsageError, match="isolation is required") as refused:
            choose_isolation(wanted, found, command.split())
        assert "bubblewrap" in refused.value.hint
    else:
        assert choose_isolation(wanted, found, command.split()) == chosen


def test_the_doctor_tells_what_holds_and_what_would_hold_more() -> None:
    told = [check_isolation(found) for found in ((STRONG,), (WEAK,), ())]
    assert [one.grade for one in told] == ["ok", "hint", "hint"]
    assert "not promised: writes" in told[1].found
    assert told[2].found == "none: nothing is promised"
    assert "bubblewrap" in told[2].mend


# --------------------------------------------------------------------- the container
def test_a_container_gets_flags_for_its_profile_behind_the_verb(fence: Fence) -> None:
    argv = ("/opt/bin/apptainer", "-q", "exec", "--nv", "image.sif", "python", "exec")
    words = Container().wrap(argv, fence.make_profile())
    assert words[:6] == (*argv[:3], "--containall", "--no-privs", "--net")
    assert words[-4:] == argv[3:]
    assert f"{fence.base}/login.json:{fence.base}/login.json:ro" in words
    assert f"{fence.base}/cand/e1:{fence.base}/cand/e1" in words
    assert words[words.index("--home") + 1] == f"{fence.base}/private/home"


def test_what_is_no_apptainer_command_is_not_guessed_at(fence: Fence) -> None:
    with pytest.raises(ValueError, match="no apptainer exec"):
        Container().wrap(("python", "exec"), fence.make_profile())
