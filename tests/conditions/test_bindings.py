"""Run-time references in conditions, actions and texts; which values may stand."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

import pytest

from autoexp_tui.actions.kinds import (
    AppendToFile,
    NewJob,
    Notify,
    Restart,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.conditions.bindings import (
    Lacking,
    Lookup,
    Refused,
    bind,
    check_command_value,
    check_one_name,
    explain_never,
    find_unsafe,
    is_plain,
    list_own_fields,
    split_reference,
)
from autoexp_tui.conditions.kinds import (
    CommandPasses,
    Composite,
    FileExists,
    JobStateIs,
    LogPattern,
    MetadataIs,
    Not,
)
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.rules import Action
from autoexp_tui.model.specs import JobSpec

METADATA = {
    ("up", "checkpoint_iteration"): "8000", ("lr1.5", "path"): "/o/iter_8000",
    ("up", "star"): "a*b", ("up", "again"): "{runtime.up.checkpoint_iteration}",
}  # fmt: skip
JOBS = {"up", "lr1", "lr1.5", "me"}


def lookup(job: str, key: str) -> str | None:
    return METADATA.get((job, key))


def say(value: str | None) -> Lookup:
    return lambda job, key: value


UP_X: Final = Lacking("up", "x")
OWN: Final = {"name": "me", "output_dir": "/o/me", "attempt": "2"}
EIGHT: Final = "{runtime.up.checkpoint_iteration}"


def bound(spec: Any, find: Lookup = lookup, own: Any = None) -> Any:
    made, lacking = bind(spec, find, JOBS, own)
    assert (made is None) == bool(lacking)
    return lacking if made is None else made


def refused(spec: Condition | Action, find: Lookup = lookup) -> list[str]:
    """Keys whose values may not stand where a spec asks for them."""
    lacking = bind(spec, find, JOBS, OWN)[1]
    return [one.key for one in lacking if one.problem]


def in_shell(value: str) -> RunCommand:
    return RunCommand(command=("sh", "-c", "echo $V"), env={"V": value})


def glob_log(path: str) -> LogPattern:
    return LogPattern(log_path=path, pattern="x", glob=True)


def inside(value: str) -> Composite:
    return Composite(conditions=(Not(condition=MetadataIs(key="k", value=value)),))


@pytest.mark.parametrize(("spec", "expected"), [
    (FileExists(path=f"/o/{EIGHT}/done"), FileExists(path="/o/8000/done")),
    (inside(EIGHT), inside("8000")),
    (JobStateIs(jobs=(f"a_{EIGHT}", "b"), state="FAILED"),
     JobStateIs(jobs=("a_8000", "b"), state="FAILED")),
    (FileExists(path="/{runtime.up.x}/{runtime.me.y}"), (UP_X, Lacking("me", "y"))),
    (FileExists(path="{runtime.lr1.5.path}"), FileExists(path="/o/iter_8000")),
    (FileExists(path="/{runtime.lr1.5.path}"), FileExists(path="//o/iter_8000")),
    (FileExists(path="{runtime.up.again}"), FileExists(path=EIGHT)),  # once
    (FileExists(path="/o/{runtime.up.star}/*", glob=True),
     FileExists(path="/o/a[*]b/*", glob=True)),
    (glob_log("/o/{runtime.up.star}/*"), glob_log("/o/a[*]b/*")),
    (CommandPasses(command=("check", "{runtime.lr1.5.path}")),
     CommandPasses(command=("check", "/o/iter_8000"))),
])  # fmt: skip
def test_references_of_a_condition_become_their_values(
    spec: Condition, expected: object
) -> None:
    assert bound(spec) == expected


@pytest.mark.parametrize(("spec", "value", "expected"), [
    (Restart(overrides=("load={checkpoint_path}",), reason="{name} #{attempt}"),
     "/o/mine", Restart(overrides=("load=/o/mine",), reason="me #2")),
    (Notify(message="x", conditions=(FileExists(path="{output_dir}/f"),)), None,
     Notify(message="x", conditions=(FileExists(path="/o/me/f"),))),
    (RunCommand(command=("ls", "{output_dir}/x", "--dir={output_dir}/y")), None,
     RunCommand(command=("ls", "/o/me/x", "--dir=/o/me/y"))),
    (AppendToFile(path="notes/{k}.txt", text="x"), "run-7",
     AppendToFile(path="notes/run-7.txt", text="x")),
    (in_shell("{v}"), "a; b", in_shell("a; b")),  # its mapping has no hash
    (Restart(reason="{what}"), None, (Lacking("me", "what"),)),
    (Notify(message="{{name}} {name}"), None, Notify(message="{name} me")),
])  # fmt: skip
def test_an_action_may_name_its_job_s_own_fields_and_metadata(
    spec: Action, value: str | None, expected: object
) -> None:
    assert bound(spec, say(value), OWN) == expected


@pytest.mark.parametrize(("path", "expected"), [
    ("up.a", ("up", "a")), ("lr1.5.path", ("lr1.5", "path")),
    ("lr1.6.path", ("lr1", "6.path")), ("unknown.a.b", ("unknown.a", "b")),
])  # fmt: skip
def test_the_longest_known_job_name_wins(path: str, expected: tuple[str, str]) -> None:
    assert split_reference(path, JOBS) == expected


@pytest.mark.parametrize(("spec", "value"), [
    (CommandPasses(command=("check", "{k}")), "$(reboot)"),
    (Restart(overrides=("x={k}",)), "it's"), (FileExists(path="{k}"), "a\0b"),
    (RunAutoexp(config_path="{k}"), "../a b"),
    (RunAutoexp(config_ref="experiments/{k}"), "../a b"),
    (NewJob(command=("x",), cwd="{k}"), "../a b"),
    (NewJob(command=("x",), name="{k}"), "../a b"),
    (NewJob(command=("x",), options={"account": "{k}"}), "../a b"),
    (RunCommand(command=("sh", "-c", "echo {k}")), "a; b"),
    (CommandPasses(command=("bash", "-c", "test -f {k}")), "/o"),
    (CommandPasses(command=("/usr/bin/env", "sh", "-c", "{k}")), "/o"),
    *((AppendToFile(path="notes/{k}.txt", text="x"), value) for value in (
        "../../.ssh/authorized_keys", "/etc/x", "..", ".", "", "a\0b")),
])  # fmt: skip
def test_a_value_is_refused_where_it_could_be_more_than_data(
    spec: Condition | Action, value: str
) -> None:
    assert refused(spec, say(value)) == ["k"]


@pytest.mark.parametrize(("written", "value", "bound"), [
    ("load={v}", "/a/b-1", "load=/a/b-1"),
    ("load={v}/x", "/lr=1,b=2", "load='/lr=1,b=2/x'"),
    ("load='{v}'", "/lr=1,b=2", "load='/lr=1,b=2'"),
    ('load="{v} x"', "a b", 'load="a b x"'), ("load=[{v}]", "a", "load=[a]"),
    ("load=a b{v}", "c", "load=a bc"), ("{v}=1", "a.b", "a.b=1"), ("~{v}", "a", "~a"),
    ("load={v}", "it's", None), ("load={v}", "${oc.env:HOME}", None),
    ("load={v}", "{sibling.x.name}", None), ("load={v}", "a\\", None),
    ("load={v}", "a\nb", None), ("load=[{v}]", "a,b", None), ("~{v}", "a b", None),
    ("load=${oc.eval:{v}}", "1,2", None), ("load='a' + {v}", "b c", None),
    ("{v}=1", "a=b", None),
])  # fmt: skip
def test_a_value_in_an_override_is_only_text_or_refused(
    written: str, value: str, bound: str | None
) -> None:
    spec = RunAutoexp(overrides=(written,))
    if bound is None:
        assert refused(spec, say(value)) == ["v"]
    else:
        made = RunAutoexp(overrides=(bound,))
        assert bind(spec, say(value), JOBS, OWN) == (made, ())


def test_a_jobs_own_fields_hold_its_parameters() -> None:
    spec = JobSpec(
        name="me", index=3, stage="stable", parameters={"optim.lr": 1e-4, "++n": 2},
        command=("c",), output_dir="/o/me", log_dir="/l/me",
    )  # fmt: skip
    assert list_own_fields(spec, 2) == {
        "optim.lr": "1e-4", "n": "2", "name": "me", "project.name": "me",
        "stage": "stable", "index": "3", "family": "", "output_dir": "/o/me",
        "log_dir": "/l/me", "log_path_current": "/l/me/current.log", "attempt": "2",
    }  # fmt: skip


def never(command: str) -> str:
    """Why no value may stand in the place of `{k}`."""
    words = shlex.split(command)
    at = next(at for at, word in enumerate(words) if "{k}" in word)
    match = re.search(re.escape("{k}"), words[at])
    assert match is not None
    return explain_never(words, at, *match.span())


@pytest.mark.parametrize("command", [
    "convert {k}", "convert --from={k}", "timeout 5 nice convert {k}",
    "timeout -s KILL 5m convert -v {k}", "env A=b -u LD_PRELOAD convert {k}",
    "ssh -q -- node convert {k}", "sudo -u root convert {k}", "sudo -n -- convert {k}",
    "srun --overlap python eval.py {k}", "srun --gpus=1 convert {k}",
    "docker run image convert {k}", "python -u train.py --lr {k}",
    "python -m package.eval {k}", "bash train.sh {k}", "sh -c 'echo $1' -- {k}",
    "uv run python train.py {k}", "python train.py --lr {k}",
])  # fmt: skip
def test_a_value_may_be_a_word_or_end_an_option(command: str) -> None:
    assert never(command) == ""


@pytest.mark.parametrize(("why", "commands"), [
    ("blanks", ["timeout 5 nice bash -lc 'ls {k}'", "ssh node 'ls {k}'",
                "sh -c 'ls\t{k}'"]),
    ("behind -Ic", ["python3 -Ic {k}"]), ("behind -c", ["bash -c {k}"]),
    ("behind -ne", ["perl -ne {k}"]), ("behind -execdir", ["find . -execdir {k}"]),
    ("behind --eval", ["node --eval={k}", "node --eval {k}"]),
    ("program", [
        "{k} a", "env {k}", "env A=b -- {k}", "timeout 5 nice -n 10 {k}",
        "timeout -s KILL 5 {k}", "/usr/bin/ssh node {k}", "ssh -i key node {k}",
        "sudo -u root {k}", "sudo -n convert {k}", "srun -p gpu {k}",
        "srun --partition gpu {k}", "srun --partition gpu env {k}", "stdbuf -o l {k}",
        "chroot /x {k}", "flock /l {k}", "docker run image {k}", "bash {k}",
        "python3.11 -u {k}", "python -m {k}", "srun -n 1 python {k}"]),
    ("part of a word", [
        "python '-cprint({k})'", "ls /o/{k}", "ls {k}/x", "train lr={k}",
        "train -x={k}", "train --x={k}/y"]),
])  # fmt: skip
def test_a_value_is_never_a_program_a_script_or_a_part(
    why: str, commands: list[str]
) -> None:
    assert [one for one in commands if why not in never(one)] == []


def test_only_a_plain_value_stands_as_a_word_of_its_own() -> None:
    for value in ("a", "/o/iter_8000", "1e-4", "a@b:c,d%e=f+g"):
        assert is_plain(value)
        assert check_command_value(("x", "{k}"), 1, value) == value
    for value in ("", "-rf", "--x", "a b", "a;b", "$(x)", "`x`", "a\nb", "~", "*", "é",
                  "a\n"):  # fmt: skip
        assert not is_plain(value)
        with pytest.raises(Refused):
            check_command_value(("x", "{k}"), 1, value)
    for value in ("..", ".", "", "a/b", "/a", "a\0"):  # a name in a path is no path
        with pytest.raises(Refused):
            check_one_name(value)


def test_behind_two_dashes_any_value_stands_but_where_words_are_joined() -> None:
    behind = ("sh", "-c", "echo $1", "--", "{k}")
    assert check_command_value(behind, 4, "-a; b") == "-a; b"
    with pytest.raises(Refused):
        check_command_value(("ssh", "node", "--", "ls", "{k}"), 4, "a; b")


def test_a_value_in_a_script_is_found() -> None:
    script = ("bash", "-c", "python t.py --load=/x;reboot")
    assert find_unsafe(script, ("/x;reboot",)) == "/x;reboot"
    assert find_unsafe(script, ("/x", "elsewhere;")) == ""
    assert find_unsafe(("python", "t.py", "/x;reboot"), ("/x;reboot",)) == ""
