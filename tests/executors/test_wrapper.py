"""The wrapper: claim, slots, begin, command, signals, end; each seen from outside."""

from __future__ import annotations

import ast
import errno
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.executors import wrapper
from autoexp_tui.storage.attempt_records import read_attempt
from tests.executors.wrapper_runs import PATIENCE, Attempt, until

SOURCE = Path(wrapper.__file__)


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[Attempt]:
    made = Attempt(tmp_path)
    yield made
    made.close()


def test_it_imports_the_standard_library_alone() -> None:
    tree = ast.parse(SOURCE.read_text())
    names = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_its_syntax_is_that_of_python_3_6() -> None:
    ast.parse(SOURCE.read_text(), feature_version=(3, 6))


@pytest.mark.parametrize("minor", [6, 7, 8, 9, 10, 12, 13, 14])
def test_it_runs_on_other_pythons(minor: int, tmp_path: Path) -> None:
    python = working_python(3, minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} here")
    attempt = Attempt(tmp_path, python)
    assert attempt.run("echo fine; exit 4") == 4
    assert attempt.record("exit.0.json")["exit_code"] == 4
    assert attempt.log.read_text() == "fine\n"


def test_an_older_python_shows_in_the_log_what_is_needed(attempt: Attempt) -> None:
    """What it shows of a file that it cannot read is the first such line."""
    tree = ast.parse(SOURCE.read_text())
    newer = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    line = SOURCE.read_text().splitlines()[newer[0].lineno - 1]
    assert line.startswith("PYTHON_3_6_OR_NEWER_IS_NEEDED")
    assert newer[0].lineno < functions[0].lineno
    older = working_python(2, 7)
    if older is not None:
        attempt.python = older
        process = attempt.start(attempt.task("exit 0"), flags="-E")
        _, stderr = process.communicate(timeout=PATIENCE)
        assert line in stderr


def working_python(major: int, minor: int) -> str | None:
    pyenv = Path.home().glob(f".pyenv/versions/{major}.{minor}.*/bin/python")
    found = shutil.which(f"python{major}.{minor}")
    for python in filter(None, [found, *map(str, pyenv)]):
        probe = subprocess.run([python, "-c", ""], capture_output=True, check=False)
        if probe.returncode == 0:
            return python
    return None


def test_a_task_file_that_cannot_be_read_is_reported(attempt: Attempt) -> None:
    path = attempt.root / "task.json"
    for text in ("", "[]", "{}", '{"attempt_dir": 1}'):
        path.write_text(text)
        process = attempt.start(path)
        _, stderr = process.communicate(timeout=PATIENCE)
        assert process.returncode == 74
        assert "cannot run" in stderr


def test_a_run_leaves_its_claim_begin_end_and_log(attempt: Attempt) -> None:
    before = time.time()
    process = attempt.start(attempt.task("echo hello; echo oops >&2; exit 3"))
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    claim = attempt.record("claim")
    begun = attempt.record("begin.0.json")
    ended = attempt.record("exit.0.json")
    owner = claim["process"]
    assert isinstance(owner, dict)
    assert owner["pid"] == process.pid
    assert owner == begun["process"]
    assert claim["nonce"] == "n1"
    assert begun["executor_id"] == "tokentok.0"
    assert begun["log_path"] == str(attempt.root / "log" / "slurm-tokentok.0.out")
    assert (ended["run"], ended["exit_code"], ended["signal"]) == (0, 3, None)
    assert ended["asked"] is False
    assert before <= float(str(begun["began_at"])) <= float(str(ended["ended_at"]))
    assert int(str(ended["max_rss_kib"])) > 0
    assert attempt.log.read_text() == "hello\noops\n"
    assert os.readlink(attempt.log) == "slurm-tokentok.0.out"


def test_nothing_but_the_records_is_left(attempt: Attempt) -> None:
    attempt.run("exit 0")
    assert sorted(os.listdir(attempt.dir)) == [
        "begin.0.json",
        "claim",
        "exit.0.json",
        "task.n1.json",
    ]


def test_the_command_finds_where_it_is(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    script = 'pwd; echo "$OWN $INHERITED"; env | grep ^AUTOEXP_ | sort'
    attempt.run(script, env={"OWN": "mine"}, attempt=2, resume=True)
    assert attempt.log.read_text().splitlines() == [
        str(attempt.root / "out"),
        "mine yes",
        "AUTOEXP_ATTEMPT=2",
        f"AUTOEXP_ATTEMPT_DIR={attempt.dir}",
        "AUTOEXP_JOB=train lr=1",
        f"AUTOEXP_OUTPUT_DIR={attempt.root}/out",
        "AUTOEXP_RESUME=1",
        "AUTOEXP_RUN=0",
        "AUTOEXP_SESSION=k7f2",
    ]


def test_the_command_has_no_input_no_terminal_and_no_stray_files(
    attempt: Attempt,
) -> None:
    attempt.run("cat; ls /proc/self/fd | wc -l; ps -o sid= -p $$ | tr -d ' '; echo $$")
    files, session, own = attempt.log.read_text().split()
    assert int(files) == 4  # in, out, err, and the directory that ls reads
    assert session == own


def test_the_command_does_not_pass_a_shell(attempt: Attempt) -> None:
    attempt.run("", command=["printf", "%s|", "$HOME", "a b", "*", "; exit 9"])
    assert attempt.log.read_text() == "$HOME|a b|*|; exit 9|"


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        (["/no/such/program"], 127, "command not found: /no/such/program"),
        (["no-such-program"], 127, "command not found: no-such-program"),
        (["/etc/passwd"], 126, "permission denied: /etc/passwd"),
        (["nul\0byte"], 126, "cannot start the command: "),
        ([], 126, "cannot start the command: "),
        (["../script"], 127, "the interpreter of ../script is missing"),
        (["true"], 126, "cannot use the directory file/below"),
    ],
)
def test_a_command_that_cannot_start_gives_the_shells_code_and_the_reason(
    command: list[str], code: int, reason: str, attempt: Attempt
) -> None:
    script = attempt.root / "script"
    script.write_text("#!/no/such/shell\n")
    script.chmod(0o755)
    more = {"cwd": str(script / "below")} if command == ["true"] else {}
    reason = reason.replace("file/below", str(script / "below"))
    assert attempt.run("", command=command, **more) == code
    assert attempt.record("exit.0.json")["exit_code"] == code
    assert attempt.log.read_text().splitlines()[-1].startswith(f"autoexp: {reason}")
    assert str(attempt.record("exit.0.json")["note"]).startswith(reason)


def test_a_log_that_cannot_be_opened_voids_the_attempt(attempt: Attempt) -> None:
    (attempt.root / "file").touch()
    assert attempt.run("exit 0", log_dir=str(attempt.root / "file" / "log")) == 74
    void = attempt.record("void.json")
    assert void["why"] == "failed"
    assert "cannot open the log" in str(void["message"])
    assert not attempt.has("begin.0.json")


def test_who_is_asked_to_end_does_not_wait_for_a_disk(attempt: Attempt) -> None:
    (attempt.root / "log").write_text("in the way")
    process = attempt.start(attempt.task("exit 0", patience_seconds=600))
    assert process.stderr is not None
    assert "cannot write" in process.stderr.readline()
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert "cannot open the log" in str(attempt.record("void.json")["message"])


def test_a_current_log_in_the_way_does_not_stop_the_run(attempt: Attempt) -> None:
    attempt.log.mkdir(parents=True)
    assert attempt.run("echo still; exit 0") == 0
    begun = attempt.record("begin.0.json")
    assert Path(str(begun["log_path"])).read_text() == "still\n"


OF_AN_ARRAY = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "3"}


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ({"SLURM_JOB_ID": "77"}, "77"),
        ({**OF_AN_ARRAY, "SLURM_JOB_ID": "78"}, "77_3"),
    ],
)
def test_a_run_names_itself_and_its_place_as_the_queue_does(
    env: dict[str, str], name: str, attempt: Attempt
) -> None:
    place = {"SLURMD_NODENAME": "nid001893", "SLURM_JOB_PARTITION": "gpu"}
    process = attempt.start(attempt.task("exit 0", executor_id=""), **env, **place)
    process.communicate(timeout=PATIENCE)
    run = read_attempt(str(attempt.dir)).run
    assert run is not None
    assert (run.began.host, run.began.partition) == ("nid001893", "gpu")
    assert attempt.record("claim")["executor_id"] == run.began.executor_id == name
    assert os.readlink(attempt.log) == f"slurm-{name}.out"


def test_of_many_starts_at_once_exactly_one_runs(attempt: Attempt) -> None:
    tasks = [attempt.task("echo ran >> ran", nonce=f"n{n}") for n in range(8)]
    for process in [attempt.start(task) for task in tasks]:
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert (attempt.root / "out" / "ran").read_text() == "ran\n"
    assert len(list(attempt.dir.glob("duplicate.*.json"))) == 7


def starts(attempt: Attempt, script: str, *counts: str, **more: object) -> None:
    """One start after the other, with what the queue tells them of its restarts."""
    task = attempt.task(script, nonce="n1", **more)
    for count in counts:
        process = attempt.start(task, SLURM_RESTART_COUNT=count)
        process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize(
    ("script", "counts", "more", "runs"),
    [
        ("exit 3", "00", {}, 1),
        ("test $AUTOEXP_RUN = 1 || kill -9 $$", "00", {}, 2),
        ("sleep 60", "00", {"time_limit_seconds": 0.2}, 1),
        ("exit 0", "01", {}, 1),
    ],
    ids=[
        "a second sending under the id that a controller gave twice does not follow",
        "a start that a controller forgot to count follows a run that it killed",
        "a run that met its own time limit is not followed",
        "a run that ended well is not followed",
    ],
)
def test_which_ended_runs_a_further_start_follows(
    script: str, counts: str, more: dict[str, Any], runs: int, attempt: Attempt
) -> None:
    starts(attempt, f"echo ran >> ran; {script}", *counts, **more)
    assert (attempt.root / "out" / "ran").read_text() == "ran\n" * runs
    assert attempt.has(f"exit.{runs - 1}.json")


def test_a_run_that_made_room_when_asked_is_followed(attempt: Attempt) -> None:
    task = attempt.task("trap 'exit 0' TERM; touch ready; sleep 30 & wait")
    first = attempt.start(task, SLURM_RESTART_COUNT="0")
    assert until((attempt.root / "out" / "ready").exists)
    first.terminate()
    first.communicate(timeout=PATIENCE)
    assert attempt.record("exit.0.json")["exit_code"] == 0
    again = attempt.start(task, SLURM_RESTART_COUNT="1")
    attempt.wait_for("begin.1.json")
    again.terminate()
    again.communicate(timeout=PATIENCE)


def test_a_requeued_start_is_a_further_run_with_the_same_log(attempt: Attempt) -> None:
    starts(attempt, "echo run $AUTOEXP_RUN resume $AUTOEXP_RESUME; exit 3", "0", "1")
    assert attempt.log.read_text() == "run 0 resume 0\nrun 1 resume 1\n"
    begun = read_attempt(str(attempt.dir)).run
    assert begun is not None
    assert begun.began.log_start == len("run 0 resume 0\n")
    assert attempt.has("exit.0.json")
    assert attempt.has("exit.1.json")
    assert not attempt.has("duplicate.n1.json")


def test_the_same_start_on_two_nodes_at_once_runs_once(attempt: Attempt) -> None:
    task = attempt.task("echo ran >> ran; sleep 0.3", executor_id="")
    processes = [attempt.start(task, SLURM_JOB_ID="77") for _ in range(4)]
    for process in processes:
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 0
    assert (attempt.root / "out" / "ran").read_text() == "ran\n"
    assert attempt.record("duplicate.77.json")["executor_id"] == "77"


def test_a_restart_of_the_queue_follows_a_run_that_seems_to_live(
    attempt: Attempt,
) -> None:
    """A lost node may hold the lock for long; the queue knows that it is gone."""
    task = attempt.task("sleep 30", executor_id="")
    lost = attempt.start(task, SLURM_JOB_ID="77")
    attempt.wait_for("begin.0.json")
    again = attempt.start(task, SLURM_JOB_ID="77", SLURM_RESTART_COUNT="1")
    attempt.wait_for("begin.1.json")
    once_more = attempt.start(task, SLURM_JOB_ID="77", SLURM_RESTART_COUNT="1")
    once_more.communicate(timeout=PATIENCE)
    assert attempt.has("duplicate.77.json")
    assert not attempt.has("begin.2.json")
    lost.communicate(timeout=PATIENCE)
    assert attempt.record("exit.0.json")["ending"] == "a further run has begun"
    assert again.poll() is None
    again.terminate()
    again.communicate(timeout=PATIENCE)
    assert attempt.record("exit.1.json")["ending"] == "signal 15"


def test_without_locks_a_second_start_of_one_count_does_nothing(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "not here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    task = wrapper.load_task(str(attempt.task("exit 0")))
    assert wrapper.take_claim(task) == 0
    assert wrapper.take_claim(task) is None
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert wrapper.take_claim(task) == 0  # nothing has begun yet


def test_a_run_that_another_start_has_begun_does_not_begin(attempt: Attempt) -> None:
    attempt.dir.mkdir()
    wrapper.write_new(str(attempt.dir), "begin.0.json", {"run": 0})
    with pytest.raises(FileExistsError):
        wrapper.write_new(str(attempt.dir), "begin.0.json", {"run": 0})
    assert sorted(os.listdir(attempt.dir)) == ["begin.0.json"]


def test_a_start_from_a_queue_waits_for_its_directory(attempt: Attempt) -> None:
    task = attempt.task("exit 3", patience_seconds=60)
    away = attempt.dir.rename(attempt.root / "away")
    process = attempt.start(away / task.name)
    assert process.stderr is not None
    assert "cannot write" in process.stderr.readline()
    away.rename(attempt.dir)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3


def test_a_task_file_that_comes_late_is_waited_for(attempt: Attempt) -> None:
    task = attempt.task("exit 3")
    hidden = task.rename(attempt.root / "hidden")
    process = attempt.start(task)
    assert process.stderr is not None
    assert "cannot read the task yet" in process.stderr.readline()
    hidden.rename(task)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3


def test_a_damaged_claim_is_somebody_elses(attempt: Attempt) -> None:
    task = attempt.task("echo ran >> ran")
    (attempt.dir / "claim").write_text("{")
    process = attempt.start(task)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert attempt.has("duplicate.n1.json")
    assert not (attempt.root / "out" / "ran").exists()


def test_a_link_whose_answer_was_lost_is_still_our_claim(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def linked_already(*arguments: str) -> None:
        link(*arguments)
        raise FileExistsError(errno.EEXIST, "the server repeats itself")

    monkeypatch.setattr(os, "link", linked_already)
    assert wrapper.take_claim(wrapper.load_task(str(attempt.task("exit 0")))) == 0


def test_the_claim_is_locked_while_the_run_lives(attempt: Attempt) -> None:
    process = attempt.start(attempt.task("sleep 30"))
    attempt.wait_for("begin.0.json")
    assert not can_lock(attempt.dir / "claim")
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert until(lambda: can_lock(attempt.dir / "claim"))


def can_lock(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_the_log_of_an_array_is_the_file_that_the_queue_writes(
    attempt: Attempt,
) -> None:
    home = attempt.root / "log" / ".arrays" / "token"
    home.mkdir(parents=True)
    (home / "slurm-77_3.out").write_text("the queue's first word\n")
    more = {"executor_id": "77_3", "log_home": str(home)}
    starts(attempt, "echo mine; exit 3", "0", "1", **more)
    assert attempt.log.read_text() == "the queue's first word\nmine\nmine\n"
    assert (attempt.root / "log" / "slurm-77_3.out").is_symlink()


def slots_in(attempt: Attempt, **more: object) -> dict[str, object]:
    return {"dir": str(attempt.root / "slots"), "count": 1, **more}


def hold(attempt: Attempt, name: str) -> int:
    """Take a lock as another session's supervisor would."""
    directory = attempt.root / "slots"
    directory.mkdir(mode=0o700, exist_ok=True)
    handle = os.open(directory / name, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def test_a_slot_is_held_until_the_last_process_of_the_run_is_gone(
    attempt: Attempt,
) -> None:
    process = attempt.start(attempt.task("sleep 30", slots=slots_in(attempt)))
    attempt.wait_for("begin.0.json")
    assert not can_lock(attempt.root / "slots" / "slot.0")
    process.kill()
    attempt.wait_for("exit.0.json")
    assert attempt.living() == []
    assert until(lambda: can_lock(attempt.root / "slots" / "slot.0"))


def test_a_slot_file_that_was_removed_is_not_the_slot(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = attempt.root / "slot"
    opened = os.open

    def removed_meanwhile(*arguments: object, **more: object) -> int:
        handle = opened(*arguments, **more)  # type: ignore[arg-type]
        path.unlink()
        return handle

    monkeypatch.setattr(os, "open", removed_meanwhile)
    assert wrapper.take_lock(str(path)) is None


@pytest.mark.parametrize("mode", [0o755, 0o770, 0])
def test_a_slot_directory_that_others_can_enter_is_refused(
    mode: int, attempt: Attempt
) -> None:
    place = attempt.root / "slots"
    place.with_name("elsewhere").mkdir(mode=0o700)
    if mode:
        place.mkdir()
        place.chmod(mode)
    else:
        place.symlink_to("elsewhere")
    assert attempt.run("exit 0", slots=slots_in(attempt)) == 74
    assert "only you can enter" in str(attempt.record("void.json")["message"])


def test_gpus_are_handed_out_by_their_ids(attempt: Attempt) -> None:
    taken = hold(attempt, "gpu.1")
    slots = slots_in(attempt, gpus=2, gpu_ids=["0", "1", "3"])
    attempt.run("echo $CUDA_VISIBLE_DEVICES", slots=slots)
    assert attempt.log.read_text() == "0,3\n"
    assert attempt.record("begin.0.json")["gpus"] == ["0", "3"]
    os.close(taken)


def test_a_run_takes_all_its_gpus_or_none(attempt: Attempt) -> None:
    slots = slots_in(attempt, gpus=2, gpu_ids=["0", "1"])
    taken = hold(attempt, "gpu.1")
    assert wrapper.take_slots(slots) is None
    for name in ("slot.0", "gpu.0"):
        assert can_lock(attempt.root / "slots" / name)
    os.close(taken)
    assert wrapper.take_slots(slots) is not None


SIGNALLED: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    **{
        f"{name} reaches it": (
            f"trap 'exit 5' {name[3:]}; echo up; sleep 30 & wait",
            *(name, {}, {"exit_code": 5, "asked": True}),
        )
        for name in ("SIGUSR1", "SIGUSR2", "SIGINT")
    },
    "a closed terminal does not end it": (
        "echo up; sleep 0.3",
        *("SIGHUP", {}, {"exit_code": 0, "asked": False}),
    ),
    "a hang-up is passed on where the task asks for it": (
        "echo up; exec sleep 30",
        *("SIGHUP", {"forward_hup": True}, {"signal": signal.SIGHUP}),
    ),
    "it ends by TERM": (
        "echo up; exec sleep 30",
        *("SIGTERM", {}, {"signal": signal.SIGTERM, "ending": "signal 15"}),
    ),
    "it may end in order when it is asked to": (
        "trap 'exit 0' TERM; echo up; sleep 30 & wait",
        *("SIGTERM", {}, {"exit_code": 0, "asked": True}),
    ),
}


@pytest.mark.parametrize("case", SIGNALLED)
def test_what_a_signal_does_to_a_run(case: str, attempt: Attempt) -> None:
    script, name, more, expected = SIGNALLED[case]
    process = attempt.start(attempt.task(script, **more))
    assert until(lambda: attempt.log.exists() and "up" in attempt.log.read_text())
    process.send_signal(signal.Signals[name])
    process.communicate(timeout=PATIENCE)
    ended = attempt.record("exit.0.json")
    assert {key: ended[key] for key in expected} == expected
    by_signal = 128 + int(str(ended["signal"] or 0))
    assert process.returncode == (
        by_signal if ended["exit_code"] is None else ended["exit_code"]
    )


_SLOW_COMMAND = """
import os, sys, time
from autoexp_tui.executors import wrapper
supervisor, setsid = os.getpid(), os.setsid

def slow_setsid():
    if os.getppid() != supervisor:
        time.sleep(0.2)
    setsid()

os.setsid = slow_setsid
sys.exit(wrapper.main(sys.argv[1:]))
"""


def test_a_run_that_has_begun_hears_signals_at_once(attempt: Attempt) -> None:
    task = attempt.task("exec sleep 30", grace_seconds=10)
    process = subprocess.Popen([sys.executable, "-c", _SLOW_COMMAND, str(task)])
    attempt.wait_for("begin.0.json")
    process.terminate()
    process.wait(PATIENCE)
    assert attempt.record("exit.0.json")["signal"] == signal.SIGTERM


_BLOCKING = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


_LIBC_SIGNALS = 0b11 << 31
"""Signals 32 and 33 are the C library's own; whoever started us may ignore them."""


def test_the_command_has_no_signal_blocked_or_ignored(attempt: Attempt) -> None:
    task = attempt.task("", command=["grep", "^Sig[BI]", "/proc/self/status"])
    words = [sys.executable, "-c", _BLOCKING, str(SOURCE), str(task)]
    subprocess.run(words, check=True, timeout=PATIENCE)
    lines = attempt.log.read_text().splitlines()
    masks = [int(line.split()[1], 16) & ~_LIBC_SIGNALS for line in lines]
    assert masks == [0, 0]


def test_a_stopped_command_can_be_ended(attempt: Attempt) -> None:
    process = attempt.start(attempt.task("exec sleep 30", grace_seconds=10))
    attempt.wait_for("begin.0.json")
    command = int(str(attempt.record("begin.0.json")["command_pid"]))
    assert until(attempt.living)
    os.kill(command, signal.SIGSTOP)
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert attempt.record("exit.0.json")["signal"] == signal.SIGTERM


def test_a_cancel_file_ends_a_run(attempt: Attempt) -> None:
    process = attempt.start(attempt.task("sleep 30"))
    attempt.wait_for("begin.0.json")
    (attempt.dir / "cancel").touch()
    process.communicate(timeout=PATIENCE)
    ended = attempt.record("exit.0.json")
    assert (ended["signal"], ended["ending"]) == (signal.SIGTERM, "cancel file")
    assert ended["asked"] is True


_SIGNALLED = """
import os, signal, sys, threading
from autoexp_tui.executors import wrapper
listen = wrapper.Child.read_report

def listen_and_be_signalled(child):
    told = "signal" in child.told
    heard = listen(child)
    if sys.argv[1] == "with" and "signal" in child.told and not told:
        os.kill(os.getpid(), signal.SIGTERM)
    if sys.argv[1] == "after" and "leftovers" in child.told:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
    return heard

wrapper.Child.read_report = listen_and_be_signalled
sys.exit(wrapper.main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("when", "env"), [("with", {}), ("after", {"SLURM_JOB_ID": "77"})]
)
def test_a_signal_that_comes_with_the_end_may_have_caused_it(
    when: str, env: dict[str, str], attempt: Attempt
) -> None:
    """Slurm may signal the command before the wrapper."""
    words = [sys.executable, "-c", _SIGNALLED, when, str(attempt.task("exit 0"))]
    ran = {**os.environ, **env}
    subprocess.run(words, check=False, timeout=PATIENCE, env=ran)
    ended = attempt.record("exit.0.json")
    assert (ended["exit_code"], ended["asked"]) == (0, True)


def test_a_cancelled_attempt_never_begins(attempt: Attempt) -> None:
    task = attempt.task("echo ran >> ran")
    (attempt.dir / "cancel").touch()
    attempt.start(task).communicate(timeout=PATIENCE)
    assert attempt.record("void.json")["why"] == "cancelled"
    assert not attempt.has("begin.0.json")
    assert not (attempt.root / "out").exists()


@pytest.mark.parametrize("how", ["signal", "file"])
def test_a_run_that_waits_for_a_slot_can_be_cancelled(
    how: str, attempt: Attempt
) -> None:
    hold(attempt, "slot.0")
    process = attempt.start(attempt.task("exit 0", slots=slots_in(attempt)))
    attempt.wait_for("claim")
    if how == "signal":
        process.terminate()
    else:
        (attempt.dir / "cancel").touch()
    process.communicate(timeout=PATIENCE)
    assert attempt.record("void.json")["why"] == "cancelled"
    assert not attempt.has("begin.0.json")


ENDS: dict[str, tuple[str, dict[str, Any], dict[str, object]]] = {
    "a time limit": (
        "sleep 30",
        {"time_limit_seconds": 0.2},
        {"signal": signal.SIGTERM, "timed_out": True},
    ),
    "a limit that is not reached": (
        "exit 127",
        {"time_limit_seconds": 30},
        {"exit_code": 127, "timed_out": False, "note": None, "restored": None},
    ),
    "leftovers in any session": (
        "sleep 60 & setsid sleep 60 & (setsid sleep 60 &); sleep 0.1; exit 0",
        {},
        {"exit_code": 0, "leftovers": 3},
    ),
}


@pytest.mark.parametrize("case", ENDS)
def test_how_a_run_ended_is_recorded(case: str, attempt: Attempt) -> None:
    script, more, expected = ENDS[case]
    attempt.run(script, **more)
    ended = attempt.record("exit.0.json")
    assert {key: ended.get(key) for key in expected} == expected
    assert ended["oom_kills"] in (0, None)
    assert (attempt.living(), copies(attempt)) == ([], [])


def test_without_prctl_the_commands_group_is_ended(attempt: Attempt) -> None:
    task = attempt.task("trap '' TERM; sleep 60 & sleep 0.05; exit 7")
    words = "wrapper.PRCTL = None; sys.exit(wrapper.main(sys.argv[1:]))"
    code = f"import sys; from autoexp_tui.executors import wrapper; {words}"
    ran = subprocess.run([sys.executable, "-c", code, str(task)], check=False)
    assert ran.returncode == 7
    assert until(lambda: attempt.living() == [])


def test_leftovers_may_end_in_order(attempt: Attempt) -> None:
    last_words = "trap 'sleep 0.1; echo bye >> bye; exit' TERM; echo up > up"
    leftover = f'sh -c "{last_words}; sleep 60 & wait" &'
    attempt.run(f"{leftover} while [ ! -e up ]; do sleep 0.01; done; exit 0")
    assert (attempt.root / "out" / "bye").read_text() == "bye\n"


def test_a_cancel_after_the_commands_end_does_not_claim_to_have_caused_it(
    attempt: Attempt,
) -> None:
    stubborn = (
        "sh -c \"trap 'echo asked > asked' TERM; while :; do sleep 0.01; done\" &"
    )
    process = attempt.start(attempt.task(f"{stubborn} sleep 0.05; exit 0"))
    assert until(lambda: (attempt.root / "out" / "asked").exists())
    process.terminate()
    process.communicate(timeout=PATIENCE)
    ended = attempt.record("exit.0.json")
    assert (ended["exit_code"], ended["ending"]) == (0, "")


class FullDisk:
    """Has `write_record` fail until there is room again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
        self.left = failures
        self._write = wrapper.write_record
        monkeypatch.setattr(wrapper, "write_record", self)
        monkeypatch.setattr(time, "sleep", lambda _: None)

    def __call__(self, *arguments: object) -> None:
        self.left -= 1
        if self.left >= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._write(*arguments)  # type: ignore[arg-type]


ENDED = {"exit_code": 0, "signal": None, "leftovers": 0}


def test_on_a_full_disk_the_exit_record_takes_the_room_set_aside(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = wrapper.load_task(str(attempt.task("exit 0")))
    wrapper.set_room_aside(task)
    FullDisk(monkeypatch, failures=10_000)
    wrapper.write_exit(task, 0, ENDED)
    assert attempt.record("exit.0.json")["exit_code"] == 0
    assert sorted(os.listdir(attempt.dir)) == ["exit.0.json", "task.n1.json"]


def test_a_task_that_sets_no_end_of_patience_waits_for_room_for_hours(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = json.loads(attempt.task("exit 0").read_text())
    del fields["record_patience"]
    path = attempt.dir / "task.n1.json"
    path.write_text(json.dumps(fields))
    task = wrapper.load_task(str(path))
    FullDisk(monkeypatch, failures=20_000)
    now = 1000.0

    def passes(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", passes)
    wrapper.write_exit(task, 0, ENDED)
    assert now > 3 * 3600
    assert attempt.record("exit.0.json")["exit_code"] == 0


class Away:
    """The attempt's directory, taken away as by a file server."""

    def __init__(self, attempt: Attempt) -> None:
        self.place = attempt.dir
        self.kept = attempt.dir.rename(attempt.root / "away")
        self.place.write_text("")

    def comes_back(self) -> None:
        self.place.unlink()
        self.kept.rename(self.place)


def begun(attempt: Attempt, script: str, **more: float) -> subprocess.Popen[str]:
    """A run whose command ends when the file `go` is there."""
    wait = "while [ ! -e ../go ]; do sleep 0.01; done"
    process = attempt.start(attempt.task(f"echo up; {wait}; {script}", "n1", **more))
    assert until(lambda: attempt.log.exists() and "up" in attempt.log.read_text())
    return process


def let_end(attempt: Attempt) -> None:
    (attempt.root / "go").touch()


def copies(attempt: Attempt) -> list[Path]:
    return list((attempt.root / "out" / ".autoexp").glob("exit.*.json"))


def test_an_exit_record_that_waits_is_left_elsewhere_with_its_runs_nonce(
    attempt: Attempt,
) -> None:
    process = begun(attempt, "exit 3", copy_seconds=0.1)
    nonce = attempt.record("begin.0.json")["nonce"]
    disk = Away(attempt)
    let_end(attempt)
    assert until(lambda: copies(attempt))
    copy = json.loads(copies(attempt)[0].read_text())
    assert (copy["exit_code"], copy["nonce"]) == (3, nonce)
    assert copies(attempt)[0].name == f"exit.{nonce}.json"
    disk.comes_back()
    process.communicate(timeout=PATIENCE)
    assert attempt.record("exit.0.json")["exit_code"] == 3
    assert copies(attempt) == []


def test_a_queues_node_is_not_held_for_longer_than_its_patience(
    attempt: Attempt,
) -> None:
    process = begun(attempt, "exit 3", copy_seconds=0.1, record_patience=0.3)
    Away(attempt)
    let_end(attempt)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert len(copies(attempt)) == 1


def test_a_slot_is_free_while_the_exit_record_of_an_ended_command_waits(
    attempt: Attempt,
) -> None:
    slots = slots_in(attempt)
    wait = "while [ ! -e ../go ]; do sleep 0.01; done"
    task = attempt.task(f"touch up; {wait}", slots=slots, copy_seconds=0.1)
    process = attempt.start(task)
    assert until(lambda: (attempt.root / "out" / "up").exists())
    assert not can_lock(attempt.root / "slots" / "slot.0")
    disk = Away(attempt)
    let_end(attempt)
    assert until(lambda: can_lock(attempt.root / "slots" / "slot.0"))
    assert process.poll() is None
    disk.comes_back()
    process.communicate(timeout=PATIENCE)


def test_a_cancel_ends_a_supervisor_that_has_left_its_record_elsewhere(
    attempt: Attempt,
) -> None:
    process = begun(attempt, "exit 3", copy_seconds=0.1)
    supervisor = process.pid
    name = f".exit.0.json.{os.uname().nodename}.{supervisor}.tmp"
    (attempt.dir / name).mkdir()
    let_end(attempt)
    assert until(lambda: copies(attempt))
    (attempt.dir / "cancel").touch()
    process.communicate(timeout=PATIENCE)
    assert len(copies(attempt)) == 1


def test_an_attempt_that_was_removed_for_good_is_not_waited_for(
    attempt: Attempt,
) -> None:
    process = begun(attempt, "exit 3", copy_seconds=0.1)
    shutil.rmtree(attempt.root / "attempt")
    (attempt.root / "attempt").symlink_to(attempt.root / "nowhere" / "attempt")
    let_end(attempt)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 3


def test_a_guard_whose_supervisor_died_tries_as_long(attempt: Attempt) -> None:
    process = begun(attempt, "exit 3", copy_seconds=0.1)
    disk = Away(attempt)
    let_end(attempt)
    assert until(lambda: copies(attempt))
    process.kill()
    process.wait(PATIENCE)
    copies(attempt)[0].unlink()
    assert until(lambda: copies(attempt))
    disk.comes_back()
    attempt.wait_for("exit.0.json")
    ended = attempt.record("exit.0.json")
    assert (ended["exit_code"], ended["note"]) == (3, "the supervisor died")


MEDDLING = {
    "the begin record is removed": "rm begin.0.json",
    "the begin record is changed": "echo {} > begin.0.json",
    "the claim is removed": "rm claim",
    "an exit record is forged": "echo '{}' > exit.0.json",
    "all of it is removed": "rm -r $AUTOEXP_ATTEMPT_DIR",
    "a pipe is made of the begin record": "rm begin.0.json; mkfifo begin.0.json",
    "the begin record has no end": "rm begin.0.json; ln -s /dev/zero begin.0.json",
    "an exit record is a directory": "mkdir exit.0.json",
    "an exit record is a pipe": "mkfifo exit.0.json",
}


@pytest.mark.parametrize("how", MEDDLING.values(), ids=MEDDLING)
def test_records_that_a_command_meddles_with_are_put_right_and_that_is_noted(
    how: str, attempt: Attempt
) -> None:
    attempt.run(f"cd $AUTOEXP_ATTEMPT_DIR; {how}; exit 3")
    begin, ended = attempt.record("begin.0.json"), attempt.record("exit.0.json")
    assert (ended["exit_code"], ended["nonce"]) == (3, begin["nonce"])
    assert attempt.record("claim")["nonce"] == "n1"
    assert ended["restored"]


def test_records_are_put_right_while_the_command_runs(attempt: Attempt) -> None:
    process = begun(attempt, "exit 0")
    (attempt.dir / "claim").unlink()
    (attempt.dir / "begin.0.json").unlink()
    attempt.wait_for("begin.0.json")
    attempt.wait_for("claim")
    assert not can_lock(attempt.dir / "claim")
    let_end(attempt)
    process.communicate(timeout=PATIENCE)


def test_a_run_whose_guard_is_stopped_can_be_ended_at_once(attempt: Attempt) -> None:
    process = begun(attempt, "exit 3", grace_seconds=60)
    os.kill(int(str(attempt.record("begin.0.json")["guard_pid"])), signal.SIGSTOP)
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert attempt.record("exit.0.json")["signal"] == signal.SIGTERM


def counted(monkeypatch: pytest.MonkeyPatch, *counts: int | None) -> None:
    """What the kernel counts at each look."""
    left = iter(counts)
    monkeypatch.setattr(wrapper, "oom_kills", lambda: next(left))


@pytest.mark.parametrize(
    ("before", "after", "new"), [(2, 3, 1), (2, 2, 0), (None, 2, None), (2, None, None)]
)
def test_kills_for_memory_are_counted_over_the_run(
    before: int | None,
    after: int | None,
    new: int | None,
    attempt: Attempt,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted(monkeypatch, before, after)
    task = wrapper.load_task(str(attempt.task("exit 0")))
    supervisor = wrapper.Supervisor(task, 0, signals=None)  # type: ignore[arg-type]
    assert supervisor._new_oom_kills() == new


HOMES = {
    "version 2": "0::/slurm/job_12/step_batch/user/task_0",
    "version 1": "4:memory:/me\n0::/",
}
COUNTS = {
    "/sys/fs/cgroup/slurm/job_12/memory.events": "low 0\noom 4\noom_kill 3\n",
    "/sys/fs/cgroup/memory/me/memory.oom_control": "under_oom 0\noom_kill 3\n",
}


@pytest.mark.parametrize("home", HOMES.values(), ids=HOMES)
def test_the_kernel_is_asked_by_the_cgroups_it_has(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"/proc/self/cgroup": f"1:name=systemd:/\n{home}\n", **COUNTS}

    def opened(path: str, **_: object) -> io.StringIO:
        return io.StringIO(files[path])

    monkeypatch.setattr(wrapper, "open", opened, raising=False)
    assert wrapper.oom_kills() == 3


def test_where_the_kernel_does_not_count_nothing_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(path: str, **_: object) -> io.StringIO:
        raise FileNotFoundError(path)

    monkeypatch.setattr(wrapper, "open", missing, raising=False)
    assert wrapper.oom_kills() is None


def tool(attempt: Attempt, script: str) -> str:
    """A made-up nvidia-smi; the PATH that has it first."""
    directory = attempt.root / "bin"
    directory.mkdir()
    path = directory / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def test_gpus_are_sampled_while_the_command_runs(attempt: Attempt) -> None:
    path = tool(attempt, "echo '0, 93, 70123, 81559, 412.50, 61'; echo '1, [N/A], 5'")
    process = attempt.start(attempt.task("sleep 30", gpu_seconds=0.02), PATH=path)
    assert until(lambda: len(samples(attempt)) >= 3)
    process.terminate()
    process.communicate(timeout=PATIENCE)
    first, second = samples(attempt)[0]["gpus"]
    assert first == {
        "index": 0.0,
        "util_percent": 93.0,
        "used_mib": 70123.0,
        "total_mib": 81559.0,
        "watts": 412.5,
        "celsius": 61.0,
    }
    assert second == {"index": 1.0, "util_percent": None, "used_mib": 5.0}


def samples(attempt: Attempt) -> list[dict[str, list[dict[str, float | None]]]]:
    path = attempt.dir / "gpu.jsonl"
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("allowed", "asked"),
    [("2,GPU-ab", "--id=2,GPU-ab"), ("MIG-1", ""), ("0", "--id=0"), ("", None)],
)
def test_only_the_gpus_that_a_queue_gave_are_sampled(
    allowed: str, asked: str | None, attempt: Attempt
) -> None:
    called = attempt.root / "called"
    path = tool(attempt, f'echo "$@" > {called}; echo "0, 1"')
    script = f"while [ ! -s {called} ]; do sleep 0.01; done"
    task = attempt.task("sleep 0.2" if asked is None else script, gpu_seconds=0.1)
    process = attempt.start(task, PATH=path, CUDA_VISIBLE_DEVICES=allowed)
    process.communicate(timeout=PATIENCE)
    assert called.exists() is (asked is not None)
    words = called.read_text().split() if asked is not None else []
    assert [word for word in words if word.startswith("--id")] == (asked or "").split()


def test_a_tool_that_hangs_does_not_hold_up_the_run(attempt: Attempt) -> None:
    path = tool(attempt, f"echo $$ > {attempt.root}/called; exec sleep 60")
    script = f"while [ ! -s {attempt.root}/called ]; do sleep 0.01; done; exit 6"
    started = time.monotonic()
    process = attempt.start(attempt.task(script, gpu_seconds=1), PATH=path)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 6
    assert time.monotonic() - started < 8
    hung = (attempt.root / "called").read_text().strip()
    assert until(lambda: not Path("/proc", hung).exists())


def test_a_tool_that_fails_is_given_up(attempt: Attempt) -> None:
    path = tool(attempt, f"echo x >> {attempt.root}/called; exit 9")
    task = attempt.task("sleep 0.5", gpu_seconds=0.01)
    attempt.start(task, PATH=path).communicate(timeout=PATIENCE)
    assert (attempt.root / "called").read_text() == "x\n" * 3
    assert samples(attempt) == []


def detached(attempt: Attempt, task: Path) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-I", "-S", str(SOURCE), "--detach", str(task)]
    return subprocess.run(
        arguments, capture_output=True, text=True, timeout=PATIENCE, check=True
    )


def test_a_detached_start_that_fails_says_why(attempt: Attempt) -> None:
    task = attempt.task("exit 0", attempt_dir=str(attempt.root / "none"))
    answer = json.loads(detached(attempt, task).stdout)
    assert (answer["state"], answer["errno"]) == ("failed", errno.ENOENT)
