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
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.executors import wrapper
from autoexp_tui.storage.attempt_records import read_attempt
from tests.executors.wrapper_runs import PATIENCE, Attempt, can_lock, until

SOURCE = Path(wrapper.__file__)


# ------------------------------------------------------------------- where it can run
def test_it_imports_the_standard_library_alone() -> None:
    names: set[str] = set()
    for node in ast.walk(ast.parse(SOURCE.read_text(), feature_version=(3, 6))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def working_python(major: int, minor: int) -> str | None:
    pyenv = Path.home().glob(f".pyenv/versions/{major}.{minor}.*/bin/python")
    found = shutil.which(f"python{major}.{minor}")
    for python in filter(None, [found, *map(str, pyenv)]):
        probe = subprocess.run([python, "-c", ""], capture_output=True, check=False)
        if probe.returncode == 0:
            return python
    return None


@pytest.mark.parametrize("minor", [6, 7, 8, 9, 10, 12, 13, 14])
def test_it_runs_on_other_pythons(minor: int, attempt: Attempt) -> None:
    python = working_python(3, minor)
    if python is None:
        pytest.skip(f"no Python 3.{minor} here")
    attempt.python = python
    assert attempt.run("echo fine; exit 4") == attempt.ended["exit_code"] == 4
    assert attempt.log.read_text() == "fine\n"


def test_a_start_that_fails_says_why(attempt: Attempt) -> None:
    path = attempt.root / "task.json"
    for text in ("", "[]", "{}", '{"attempt_dir": 1}'):
        path.write_text(text)
        process = attempt.start(path)
        assert "cannot run" in process.communicate(timeout=PATIENCE)[1]
        assert process.returncode == 74
    task = attempt.task("exit 0", attempt_dir=str(attempt.root / "none"))
    process = attempt.start(task, flags=f"-I -S {SOURCE} --detach")
    answer = json.loads(process.communicate(timeout=PATIENCE)[0])
    assert (answer["state"], answer["errno"]) == ("failed", errno.ENOENT)


# -------------------------------------------------------------------------- the command
def test_a_run_leaves_its_claim_begin_end_and_log(attempt: Attempt) -> None:
    before = time.time()
    process = attempt.start(attempt.task("echo hello; echo oops >&2; exit 3"))
    assert attempt.wait(process) == 3
    claim, begun = attempt.record("claim"), attempt.record("begin.0.json")
    ended = attempt.ended
    assert (claim["nonce"], claim["process"]["pid"]) == ("n1", process.pid)
    assert claim["process"] == begun["process"]
    assert begun["executor_id"] == "tokentok.0"
    assert begun["log_path"] == str(attempt.root / "log" / "slurm-tokentok.0.out")
    assert (ended["run"], ended["exit_code"], ended["signal"]) == (0, 3, None)
    assert ended["asked"] is False
    assert before <= begun["began_at"] <= ended["ended_at"]
    assert ended["max_rss_kib"] > 0
    assert attempt.log.read_text() == "hello\noops\n"
    assert os.readlink(attempt.log) == "slurm-tokentok.0.out"
    left = ["begin.0.json", "claim", "exit.0.json", "task.n1.json"]
    assert sorted(os.listdir(attempt.dir)) == left


def test_the_command_finds_where_it_is_and_nothing_stray(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INHERITED", "yes")
    script = (
        'pwd; echo "$OWN $INHERITED"; env | grep ^AUTOEXP_ | sort; cat; '
        "ls /proc/self/fd | wc -l; ps -o sid= -p $$ | tr -d ' '; echo $$"
    )
    attempt.run(script, env={"OWN": "mine"}, attempt=2, resume=True)
    *lines, files, session, own = attempt.log.read_text().splitlines()
    assert lines == [
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
        (["true"], 126, "cannot use the directory {}/below"),
    ],
)
def test_a_command_that_cannot_start_gives_the_shells_code_and_the_reason(
    command: list[str], code: int, reason: str, attempt: Attempt
) -> None:
    script = attempt.root / "script"
    script.write_text("#!/no/such/shell\n")
    script.chmod(0o755)
    more = {"cwd": str(script / "below")} if command == ["true"] else {}
    assert attempt.run("", command=command, **more) == code
    assert attempt.ended["exit_code"] == code
    said = attempt.log.read_text().splitlines()[-1]
    assert said.startswith(f"autoexp: {reason.format(script)}")
    assert attempt.ended["note"].startswith(reason.format(script))


# ------------------------------------------------------------------ logs, late disks
def said_by(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


def test_a_log_that_cannot_be_opened_voids_the_attempt(attempt: Attempt) -> None:
    """Who is asked to end does not wait for a disk."""
    (attempt.root / "log").write_text("in the way")
    process = attempt.start(attempt.task("exit 0", patience_seconds=600))
    assert "cannot write" in said_by(process)
    process.terminate()
    assert attempt.wait(process) == 74
    void = attempt.record("void.json")
    assert (void["why"], "cannot open the log" in void["message"]) == ("failed", True)
    assert not attempt.has("begin.0.json")


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


def test_what_a_queues_node_sees_late_is_waited_for(attempt: Attempt) -> None:
    """Its task file, and its directory."""
    task = attempt.task("exit 3", patience_seconds=60)
    hidden = task.rename(attempt.root / "hidden")
    process = attempt.start(task)
    assert "cannot read the task yet" in said_by(process)
    os.link(hidden, task)
    assert attempt.wait(process) == 3
    shutil.rmtree(attempt.dir)
    process = attempt.start(hidden)
    assert "cannot write" in said_by(process)
    attempt.dir.mkdir()
    assert attempt.wait(process) == 3


# ------------------------------------------------------------------------------- claims
OF_AN_ARRAY = {"SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "3"}


@pytest.mark.parametrize(
    ("env", "name"),
    [({"SLURM_JOB_ID": "77"}, "77"), ({**OF_AN_ARRAY, "SLURM_JOB_ID": "78"}, "77_3")],
)
def test_a_run_names_itself_and_its_place_as_the_queue_does(
    env: dict[str, str], name: str, attempt: Attempt
) -> None:
    place = {"SLURMD_NODENAME": "nid001893", "SLURM_JOB_PARTITION": "gpu"}
    task = attempt.task("exit 0", executor_id="")
    attempt.wait(attempt.start(task, **env, **place))
    run = read_attempt(str(attempt.dir)).run
    assert run is not None
    assert (run.began.host, run.began.partition) == ("nid001893", "gpu")
    assert attempt.record("claim")["executor_id"] == run.began.executor_id == name
    assert os.readlink(attempt.log) == f"slurm-{name}.out"


@pytest.mark.parametrize(
    ("nonces", "env", "duplicates"),
    [([f"n{n}" for n in range(8)], {}, 7), (["n1"] * 4, {"SLURM_JOB_ID": "77"}, 1)],
    ids=["sent again and again", "the same on many nodes"],
)
def test_of_many_starts_at_once_exactly_one_runs(
    nonces: list[str], env: dict[str, str], duplicates: int, attempt: Attempt
) -> None:
    script, own = "echo ran >> ran; sleep 0.3", {"executor_id": ""} if env else {}
    tasks = [attempt.task(script, nonce, **own) for nonce in nonces]
    for process in [attempt.start(task, **env) for task in tasks]:
        assert attempt.wait(process) == 0
    assert attempt.out("ran") == "ran\n"
    found = list(attempt.dir.glob("duplicate.*.json"))
    assert len(found) == duplicates
    if env:
        assert attempt.record("duplicate.77.json")["executor_id"] == "77"


def starts(attempt: Attempt, script: str, *counts: str, **more: object) -> None:
    """One start after the other, with what the queue tells them of its restarts."""
    task = attempt.task(script, nonce="n1", **more)
    for count in counts:
        attempt.wait(attempt.start(task, SLURM_RESTART_COUNT=count))


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
    assert attempt.out("ran") == "ran\n" * runs
    assert attempt.has(f"exit.{runs - 1}.json")


def test_a_run_that_made_room_when_asked_is_followed(attempt: Attempt) -> None:
    task = attempt.task("trap 'exit 0' TERM; echo up; sleep 30 & wait")
    first = attempt.start(task, SLURM_RESTART_COUNT="0")
    attempt.wait_for_log("up")
    assert attempt.end(first)["exit_code"] == 0
    again = attempt.start(task, SLURM_RESTART_COUNT="1")
    attempt.wait_for("begin.1.json")
    attempt.end(again)


def test_a_requeued_start_is_a_further_run_with_the_same_log(attempt: Attempt) -> None:
    starts(attempt, "echo run $AUTOEXP_RUN resume $AUTOEXP_RESUME; exit 3", "0", "1")
    assert attempt.log.read_text() == "run 0 resume 0\nrun 1 resume 1\n"
    begun = read_attempt(str(attempt.dir)).run
    assert begun is not None
    assert begun.began.log_start == len("run 0 resume 0\n")
    names = ("exit.0.json", "exit.1.json", "duplicate.n1.json")
    assert [attempt.has(name) for name in names] == [True, True, False]


def test_a_restart_of_the_queue_follows_a_run_that_seems_to_live(
    attempt: Attempt,
) -> None:
    """A lost node may hold the lock for long; the queue knows that it is gone."""
    task = attempt.task("sleep 30", executor_id="")
    lost = attempt.start(task, SLURM_JOB_ID="77")
    attempt.wait_for("begin.0.json")
    again = attempt.start(task, SLURM_JOB_ID="77", SLURM_RESTART_COUNT="1")
    attempt.wait_for("begin.1.json")
    attempt.wait(attempt.start(task, SLURM_JOB_ID="77", SLURM_RESTART_COUNT="1"))
    assert attempt.has("duplicate.77.json")
    assert not attempt.has("begin.2.json")
    attempt.wait(lost)
    assert attempt.ended["ending"] == "a further run has begun"
    assert again.poll() is None
    attempt.end(again)
    assert attempt.record("exit.1.json")["ending"] == "signal 15"


def test_without_locks_a_second_start_of_one_count_does_nothing(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "not here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    task = wrapper.load_task(str(attempt.task("exit 0")))
    assert [wrapper.take_claim(task) for _ in range(2)] == [0, None]
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert wrapper.take_claim(task) == 0  # nothing has begun yet


def test_a_damaged_claim_is_somebody_elses(attempt: Attempt) -> None:
    task = attempt.task("echo ran >> ran")
    (attempt.dir / "claim").write_text("{")
    assert attempt.wait(attempt.start(task)) == 0
    assert (attempt.has("duplicate.n1.json"), attempt.out("ran")) == (True, "")


def test_a_link_whose_answer_was_lost_is_still_our_claim(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def linked_already(*arguments: str) -> None:
        link(*arguments)
        raise FileExistsError(errno.EEXIST, "the server repeats itself")

    monkeypatch.setattr(os, "link", linked_already)
    assert wrapper.take_claim(wrapper.load_task(str(attempt.task("exit 0")))) == 0


# ------------------------------------------------------------------------------- slots
def slots_in(attempt: Attempt, **more: object) -> dict[str, object]:
    return {"dir": str(attempt.root / "slots"), "count": 1, **more}


def test_a_slot_is_held_until_the_last_process_of_the_run_is_gone(
    attempt: Attempt,
) -> None:
    process = attempt.begin("sleep 30", slots=slots_in(attempt))
    assert not can_lock(attempt.root / "slots" / "slot.0")
    process.kill()
    attempt.wait_for("exit.0.json")
    assert attempt.living() == []
    assert until(lambda: can_lock(attempt.root / "slots" / "slot.0"))


def test_a_slot_file_that_was_removed_is_not_the_slot(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = attempt.root / "slot", os.open

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
    assert "only you can enter" in attempt.record("void.json")["message"]


def test_gpus_are_handed_out_by_their_ids_all_or_none(attempt: Attempt) -> None:
    home = attempt.root / "slots"
    home.mkdir(mode=0o700)
    taken = os.open(home / "gpu.1", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(taken, fcntl.LOCK_EX | fcntl.LOCK_NB)
    slots = slots_in(attempt, gpus=2, gpu_ids=["0", "1", "3"])
    attempt.run("echo $CUDA_VISIBLE_DEVICES", slots=slots)
    assert attempt.log.read_text() == "0,3\n"
    assert attempt.record("begin.0.json")["gpus"] == ["0", "3"]
    slots["gpu_ids"] = ["0", "1"]
    assert wrapper.take_slots(slots) is None
    assert all(can_lock(home / name) for name in ("slot.0", "gpu.0"))
    os.close(taken)
    assert wrapper.take_slots(slots) is not None


# ----------------------------------------------------------------- signals and cancels
@pytest.mark.parametrize(
    ("script", "name", "expected"),
    [
        *(
            (f"trap 'exit 5' {name[3:]}; echo up; sleep 30 & wait", name, (5, True))
            for name in ("SIGUSR1", "SIGUSR2", "SIGINT")
        ),
        ("echo up; sleep 0.3", "SIGHUP", (0, False)),
        ("echo up; exec sleep 30", "SIGTERM", (-15, True)),
        ("trap 'exit 0' TERM; echo up; sleep 30 & wait", "SIGTERM", (0, True)),
    ],
)
def test_what_a_signal_does_to_a_run(
    script: str, name: str, expected: tuple[int, bool], attempt: Attempt
) -> None:
    process = attempt.start(attempt.task(script))
    attempt.wait_for_log("up")
    process.send_signal(signal.Signals[name])
    status, ended = attempt.wait(process), attempt.ended
    code = -ended["signal"] if ended["exit_code"] is None else ended["exit_code"]
    assert (code, ended["asked"]) == expected
    assert status == (code if code >= 0 else 128 - code)
    assert ended["ending"] == ("signal 15" if name == "SIGTERM" else "")


IN_A_WRAPPER = """
import os, signal, sys, threading, time
from autoexp_tui.executors import wrapper
{}
sys.exit(wrapper.main(sys.argv[1:]))
"""
SLOW_SETSID = """
supervisor, setsid = os.getpid(), os.setsid

def slow_setsid():
    if os.getppid() != supervisor:
        time.sleep(0.2)
    setsid()

os.setsid = slow_setsid
"""
SIGNALLED = """
listen, when = wrapper.Child.read_report, sys.argv.pop(1)

def listen_and_be_signalled(child):
    told = "signal" in child.told
    heard = listen(child)
    if when == "with" and "signal" in child.told and not told:
        os.kill(os.getpid(), signal.SIGTERM)
    if when == "after" and "leftovers" in child.told:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
    return heard

wrapper.Child.read_report = listen_and_be_signalled
"""
BLOCKING = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2, signal.SIGTERM])
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
LIBC_SIGNALS = 0b11 << 31
"""Signals 32 and 33 are the C library's own; whoever started us may ignore them."""


def altered(
    attempt: Attempt, how: str, *words: object, **env: str
) -> subprocess.Popen[str]:
    """A wrapper some of whose parts are others."""
    return attempt.spawn("-c", IN_A_WRAPPER.format(how), *map(str, words), **env)


def test_a_run_that_has_begun_hears_signals_at_once(attempt: Attempt) -> None:
    task = attempt.task("exec sleep 30", grace_seconds=10)
    process = altered(attempt, SLOW_SETSID, task)
    attempt.wait_for("begin.0.json")
    assert attempt.end(process)["signal"] == signal.SIGTERM


@pytest.mark.parametrize(
    ("when", "env"), [("with", {}), ("after", {"SLURM_JOB_ID": "77"})]
)
def test_a_signal_that_comes_with_the_end_may_have_caused_it(
    when: str, env: dict[str, str], attempt: Attempt
) -> None:
    """Slurm may signal the command before the wrapper."""
    attempt.wait(altered(attempt, SIGNALLED, when, attempt.task("exit 0"), **env))
    assert (attempt.ended["exit_code"], attempt.ended["asked"]) == (0, True)


def test_the_command_has_no_signal_blocked_or_ignored(attempt: Attempt) -> None:
    task = attempt.task("", command=["grep", "^Sig[BI]", "/proc/self/status"])
    assert attempt.wait(altered(attempt, BLOCKING, SOURCE, task)) == 0
    lines = attempt.log.read_text().splitlines()
    assert [int(line.split()[1], 16) & ~LIBC_SIGNALS for line in lines] == [0, 0]


@pytest.mark.parametrize("stopped", ["command_pid", "guard_pid"])
def test_a_run_of_which_a_process_is_stopped_can_be_ended_at_once(
    stopped: str, attempt: Attempt
) -> None:
    process = attempt.begin_held("exit 3", grace_seconds=60)
    os.kill(attempt.record("begin.0.json")[stopped], signal.SIGSTOP)
    assert attempt.end(process)["signal"] == signal.SIGTERM


def test_a_cancel_file_ends_a_run_and_its_lock(attempt: Attempt) -> None:
    process = attempt.begin("sleep 30")
    assert not can_lock(attempt.dir / "claim")
    (attempt.dir / "cancel").touch()
    attempt.wait(process)
    told = [attempt.ended[key] for key in ("signal", "ending", "asked")]
    assert told == [signal.SIGTERM, "cancel file", True]
    assert until(lambda: can_lock(attempt.dir / "claim"))


# -------------------------------------------------------------------------------- ends
LEFT = "sleep 60 & setsid sleep 60 & (setsid sleep 60 &); sleep 0.1; exit 0"


@pytest.mark.parametrize(
    ("script", "limit", "expected"),
    [
        ("sleep 30", 0.2, {"signal": signal.SIGTERM, "timed_out": True}),
        ("exit 127", 30, {"exit_code": 127, "timed_out": False, "note": None}),
        (LEFT, None, {"exit_code": 0, "leftovers": 3, "restored": None}),
    ],
)
def test_how_a_run_ended_is_recorded(
    script: str, limit: float | None, expected: dict[str, object], attempt: Attempt
) -> None:
    more: dict[str, Any] = {"time_limit_seconds": limit} if limit else {}
    attempt.run(script, **more)
    assert {key: attempt.ended.get(key) for key in expected} == expected
    assert attempt.ended["oom_kills"] in (0, None)
    assert (attempt.living(), copies(attempt)) == ([], [])


def test_leftovers_may_end_in_order(attempt: Attempt) -> None:
    last_words = "trap 'sleep 0.1; echo bye >> bye; exit' TERM; echo up > up"
    leftover = f'sh -c "{last_words}; sleep 60 & wait" &'
    attempt.run(f"{leftover} while [ ! -e up ]; do sleep 0.01; done; exit 0")
    assert attempt.out("bye") == "bye\n"


def test_a_cancel_after_the_commands_end_has_not_caused_it(attempt: Attempt) -> None:
    waits = "trap 'echo asked > asked' TERM; while :; do sleep 0.01; done"
    process = attempt.start(attempt.task(f'sh -c "{waits}" & sleep 0.05; exit 0'))
    assert until(lambda: attempt.out("asked"))
    ended = attempt.end(process)
    assert (ended["exit_code"], ended["ending"]) == (0, "")


ENDED = {"exit_code": 0, "signal": None, "leftovers": 0}


def fill_disk(monkeypatch: pytest.MonkeyPatch, failures: int) -> list[float]:
    """Has `write_record` fail until there is room again; how time passes meanwhile."""
    left, now, write = iter(range(failures)), [1000.0], wrapper.write_record

    def write_if_there_is_room(*arguments: object) -> None:
        if next(left, None) is not None:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(wrapper, "write_record", write_if_there_is_room)
    monkeypatch.setattr(time, "monotonic", lambda: now[-1])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now[-1] + seconds))
    return now


def test_on_a_full_disk_the_exit_record_takes_the_room_set_aside(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = wrapper.load_task(str(attempt.task("exit 0")))
    wrapper.set_room_aside(task)
    fill_disk(monkeypatch, failures=10_000)
    wrapper.write_exit(task, 0, ENDED)
    assert attempt.ended["exit_code"] == 0
    assert sorted(os.listdir(attempt.dir)) == ["exit.0.json", "task.n1.json"]


def test_a_task_that_sets_no_end_of_patience_waits_for_room_for_hours(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = attempt.task("exit 0")
    fields = json.loads(path.read_text())
    del fields["record_patience"]
    path.write_text(json.dumps(fields))
    now = fill_disk(monkeypatch, failures=20_000)
    wrapper.write_exit(wrapper.load_task(str(path)), 0, ENDED)
    assert now[-1] > 3 * 3600
    assert attempt.ended["exit_code"] == 0


class Away:
    """The attempt's directory, taken away as by a file server."""

    def __init__(self, attempt: Attempt) -> None:
        self.place = attempt.dir
        self.kept = attempt.dir.rename(attempt.root / "away")
        self.place.write_text("")


def copies(attempt: Attempt) -> list[Path]:
    return list((attempt.root / "out" / ".autoexp").glob("exit.*.json"))


def test_an_exit_record_that_waits_is_left_elsewhere_with_its_runs_nonce(
    attempt: Attempt,
) -> None:
    """Its slot is free meanwhile."""
    process = attempt.begin_held("exit 3", slots=slots_in(attempt))
    nonce, disk = attempt.record("begin.0.json")["nonce"], Away(attempt)
    slot = attempt.root / "slots" / "slot.0"
    assert not can_lock(slot)
    attempt.let_go()
    assert until(lambda: copies(attempt) and can_lock(slot))
    (copy,) = copies(attempt)
    fields = json.loads(copy.read_text())
    assert (fields["exit_code"], fields["nonce"]) == (3, nonce)
    assert copy.name == f"exit.{nonce}.json"
    assert process.poll() is None
    disk.place.unlink()
    disk.kept.rename(disk.place)
    attempt.wait(process)
    assert (attempt.ended["exit_code"], copies(attempt)) == (3, [])


@pytest.mark.parametrize("how", ["patience is over", "cancelled", "removed for good"])
def test_a_queues_node_is_not_held_for_ever_for_a_record(
    how: str, attempt: Attempt
) -> None:
    patience = 0.3 if how == "patience is over" else 3 * PATIENCE
    process = attempt.begin_held("exit 3", record_patience=patience)
    if how == "removed for good":
        shutil.rmtree(attempt.dir)
        attempt.dir.symlink_to(attempt.root / "nowhere" / "attempt")
    elif how == "cancelled":
        (attempt.dir / f".exit.0.json.{os.uname().nodename}.{process.pid}.tmp").mkdir()
    else:
        Away(attempt)
    attempt.let_go()
    if how == "cancelled":
        assert until(lambda: copies(attempt))
        (attempt.dir / "cancel").touch()
    assert attempt.wait(process) == 3
    assert len(copies(attempt)) == 1 or how == "removed for good"


@pytest.mark.parametrize(
    "how",
    [
        "rm begin.0.json",
        "echo {} > begin.0.json",
        "rm claim",
        "echo '{}' > exit.0.json",
        "rm -r $AUTOEXP_ATTEMPT_DIR",
        "rm begin.0.json; mkfifo begin.0.json",
        "rm begin.0.json; ln -s /dev/zero begin.0.json",
        "mkdir exit.0.json",
        "mkfifo exit.0.json",
    ],
)
def test_records_that_a_command_meddles_with_are_put_right_and_that_is_noted(
    how: str, attempt: Attempt
) -> None:
    attempt.run(f"cd $AUTOEXP_ATTEMPT_DIR; {how}; exit 3")
    begin, ended = attempt.record("begin.0.json"), attempt.ended
    assert (ended["exit_code"], ended["nonce"]) == (3, begin["nonce"])
    assert attempt.record("claim")["nonce"] == "n1"
    assert ended["restored"]


def test_records_are_put_right_while_the_command_runs(attempt: Attempt) -> None:
    process = attempt.begin_held("exit 0")
    for name in ("claim", "begin.0.json"):
        (attempt.dir / name).unlink()
    for name in ("claim", "begin.0.json"):
        attempt.wait_for(name)
    assert not can_lock(attempt.dir / "claim")
    attempt.let_go()
    attempt.wait(process)


# --------------------------------------------------------------------- memory and GPUs
def test_kills_for_memory_are_counted_over_the_run(
    attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = wrapper.load_task(str(attempt.task("exit 0")))
    rows = [(2, 3, 1), (2, 2, 0), (None, 2, None), (2, None, None)]
    for before, after, new in rows:
        counts = iter([before, after])
        monkeypatch.setattr(wrapper, "oom_kills", lambda counts=counts: next(counts))
        supervisor = wrapper.Supervisor(task, 0, signals=None)  # type: ignore[arg-type]
        assert supervisor._new_oom_kills() == new


COUNTS = {
    "/sys/fs/cgroup/slurm/job_12/memory.events": "low 0\noom 4\noom_kill 3\n",
    "/sys/fs/cgroup/memory/me/memory.oom_control": "under_oom 0\noom_kill 3\n",
}


def test_the_kernel_is_asked_by_the_cgroups_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened(path: str, **_: object) -> io.StringIO:
        if path not in files:
            raise FileNotFoundError(path)
        return io.StringIO(files[path])

    monkeypatch.setattr(wrapper, "open", opened, raising=False)
    for home, kills in (
        ("0::/slurm/job_12/step_batch/user/task_0", 3),
        ("4:memory:/me\n0::/", 3),
        ("0::/nowhere", None),
        (None, None),
    ):
        own = {"/proc/self/cgroup": f"1:name=systemd:/\n{home}\n"} if home else {}
        files = {**own, **COUNTS}
        assert wrapper.oom_kills() == kills


class Tool:
    """A made-up nvidia-smi, first on a PATH; `$called` is for its notes."""

    def __init__(self, attempt: Attempt, script: str) -> None:
        self.called = attempt.root / "called"
        path = attempt.root / "bin" / "nvidia-smi"
        path.parent.mkdir()
        path.write_text(f"#!/bin/sh\ncalled={self.called}\n{script}\n")
        path.chmod(0o755)
        self.path = f"{path.parent}:{os.environ['PATH']}"
        self.until_called = f"while [ ! -s {self.called} ]; do sleep 0.01; done"


def samples(attempt: Attempt) -> list[dict[str, Any]]:
    path = attempt.dir / "gpu.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("allowed", "asked"), [("2,GPU-ab", "--id=2,GPU-ab"), ("MIG-1", ""), ("", None)]
)
def test_only_the_gpus_that_a_queue_gave_are_sampled_while_the_command_runs(
    allowed: str, asked: str | None, attempt: Attempt
) -> None:
    says = "echo '0, 93, 70123, 81559, 412.50, 61'; echo '1, [N/A], 5'"
    tool = Tool(attempt, f'echo "$@" > $called; {says}')
    task = attempt.task("sleep 30", gpu_seconds=0.02)
    process = attempt.start(task, PATH=tool.path, CUDA_VISIBLE_DEVICES=allowed)
    if asked is None:
        attempt.wait_for("begin.0.json")
        assert not until(tool.called.exists, seconds=0.2)
        return
    assert until(lambda: len(samples(attempt)) >= 3)
    attempt.end(process)
    words = tool.called.read_text().split()
    assert [word for word in words if word.startswith("--id")] == asked.split()
    keys = ("index", "util_percent", "used_mib", "total_mib", "watts", "celsius")
    assert samples(attempt)[0]["gpus"] == [
        dict(zip(keys, (0.0, 93.0, 70123.0, 81559.0, 412.5, 61.0), strict=True)),
        dict(zip(keys, (1.0, None, 5.0), strict=False)),
    ]


def test_a_tool_that_hangs_does_not_hold_up_the_run(attempt: Attempt) -> None:
    tool, began = Tool(attempt, "echo $$ > $called; exec sleep 60"), time.monotonic()
    task = attempt.task(f"{tool.until_called}; exit 6", gpu_seconds=1)
    assert attempt.wait(attempt.start(task, PATH=tool.path)) == 6
    assert time.monotonic() - began < 8
    pid = tool.called.read_text().strip()
    assert until(lambda: not Path("/proc", pid).exists())
