"""Run-time references in conditions, actions and texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import pytest

from autoexp_tui.actions.command import RunCommand
from autoexp_tui.actions.new_job import NewJob, RunAutoexp
from autoexp_tui.actions.notify import AppendToFile, Notify
from autoexp_tui.actions.restart import Restart
from autoexp_tui.conditions.bindings import (
    Binder,
    Lookup,
    RefusedValue,
    bind,
    list_own_fields,
    split_reference,
)
from autoexp_tui.conditions.kinds import (
    CommandPasses,
    Composite,
    FileContent,
    FileExists,
    JobStateIs,
    LogPattern,
    MetadataIs,
    Not,
    TimeReached,
)
from autoexp_tui.model.action import Action
from autoexp_tui.model.condition import Condition
from autoexp_tui.model.specs import JobSpec

S = TypeVar("S")
METADATA = {
    ("up", "checkpoint_iteration"): "8000", ("lr1.5", "path"): "/o/iter_8000",
    ("up", "star"): "a*b", ("up", "again"): "{runtime.up.checkpoint_iteration}",
}  # fmt: skip
JOBS = {"up", "lr1", "lr1.5", "me"}


def lookup(job: str, key: str) -> str | None:
    return METADATA.get((job, key))


def say(value: str | None) -> Lookup:
    """Every log has said this."""
    return lambda job, key: value


OWN: Final = {"name": "me", "output_dir": "/o/me", "attempt": "2"}
EIGHT: Final = "{runtime.up.checkpoint_iteration}"


def bound(spec: S, find: Lookup = lookup, own: Mapping[str, str] | None = None) -> Any:
    """The spec with its values, or what lacks."""
    made, lacking = bind(spec, find, JOBS, own)
    assert (made is None) == bool(lacking)
    return lacking if made is None else made


def refused(spec: Condition | Action, find: Lookup = lookup) -> list[str]:
    """Keys whose values may not stand where a spec asks for them."""
    lacking = bind(spec, find, JOBS, OWN)[1]
    return [one.key for one in lacking if isinstance(one, RefusedValue)]


def in_shell(value: str) -> RunCommand:
    return RunCommand(command=("sh", "-c", "echo $V"), env={"V": value})


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (FileExists(path=f"/o/{EIGHT}/done"), FileExists(path="/o/8000/done")),
        (
            Composite(conditions=(Not(condition=MetadataIs(key="k", value=EIGHT)),)),
            Composite(conditions=(Not(condition=MetadataIs(key="k", value="8000")),)),
        ),
        (
            JobStateIs(jobs=(f"a_{EIGHT}", "b"), state="FAILED"),
            JobStateIs(jobs=("a_8000", "b"), state="FAILED"),
        ),
        (FileExists(path="/{runtime.up.x}/{runtime.me.y}"), (("up", "x"), ("me", "y"))),
        (FileExists(path="{runtime.lr1.5.path}"), FileExists(path="/o/iter_8000")),
        (FileExists(path="/{runtime.lr1.5.path}"), FileExists(path="//o/iter_8000")),
        (FileExists(path="{runtime.up.again}"), FileExists(path=EIGHT)),  # once
        (
            FileExists(path="/o/{runtime.up.star}/*", glob=True),
            FileExists(path="/o/a[*]b/*", glob=True),
        ),
        (
            LogPattern(log_path="/o/{runtime.up.star}/*", pattern="x", glob=True),
            LogPattern(log_path="/o/a[*]b/*", pattern="x", glob=True),
        ),
        (
            CommandPasses(command=("check", "{runtime.lr1.5.path}")),
            CommandPasses(command=("check", "/o/iter_8000")),
        ),
    ],
)
def test_references_of_a_condition_become_their_values(
    spec: Condition, expected: object
) -> None:
    assert bound(spec) == expected


@pytest.mark.parametrize("spec", [
    Composite(conditions=(FileExists(path="/o"), Not(condition=TimeReached()))),
    FileContent(path="/f", pattern="{runtime.up.x}"),
    CommandPasses(command=("awk", "{print $1}", "{name}", "{{x}}")),
])  # fmt: skip
def test_patterns_and_what_is_no_reference_stay(spec: Condition) -> None:
    assert bound(spec) is spec


@pytest.mark.parametrize(
    ("spec", "value", "expected"),
    [
        (
            Restart(overrides=("load={checkpoint_path}",), reason="{name} #{attempt}"),
            "/o/mine",
            Restart(overrides=("load=/o/mine",), reason="me #2"),
        ),
        (
            Notify(message="x", conditions=(FileExists(path="{output_dir}/f"),)),
            None,
            Notify(message="x", conditions=(FileExists(path="/o/me/f"),)),
        ),
        (
            RunCommand(command=("ls", "{output_dir}/x", "--dir={output_dir}/y")),
            None,
            RunCommand(command=("ls", "/o/me/x", "--dir=/o/me/y")),
        ),
        (
            AppendToFile(path="notes/{k}.txt", text="x"),
            "run-7",
            AppendToFile(path="notes/run-7.txt", text="x"),
        ),
        (in_shell("{v}"), "a; b", in_shell("a; b")),  # its mapping has no hash
        (Restart(reason="{what}"), None, (("me", "what"),)),
        (Notify(message="{{name}} {name}"), None, Notify(message="{name} me")),
    ],
)
def test_an_action_may_name_its_job_s_own_fields_and_metadata(
    spec: Action, value: str | None, expected: object
) -> None:
    assert bound(spec, say(value), OWN) == expected


def test_a_reference_is_found_however_the_same_spec_was_bound_before() -> None:
    spec = FileExists(path="/o/{runtime.up.late}")
    assert bound(spec, say(None)) == (("up", "late"),)
    assert bound(spec, say("now")) == FileExists(path="/o/now")


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
])  # fmt: skip
def test_a_value_in_an_override_is_only_text(
    written: str, value: str, bound: str
) -> None:
    spec = RunAutoexp(overrides=(written,))
    assert bind(spec, say(value), JOBS, OWN) == (RunAutoexp(overrides=(bound,)), ())


@pytest.mark.parametrize(("written", "value"), [
    ("load={v}", "it's"), ("load={v}", "${oc.env:HOME}"),
    ("load={v}", "{sibling.x.name}"), ("load={v}", "a\\"), ("load={v}", "a\nb"),
    ("load=[{v}]", "a,b"), ("load=${oc.eval:{v}}", "1,2"), ("load='a' + {v}", "b c"),
    ("{v}=1", "a=b"), ("~{v}", "a b"),
])  # fmt: skip
def test_a_value_that_cannot_be_only_text_in_an_override_is_refused(
    written: str, value: str
) -> None:
    spec = RunAutoexp(overrides=(written,))
    assert refused(spec, say(value)) == ["v"]


@pytest.mark.parametrize(("text", "told"), [
    ("{name} {what} {runtime.up.x}", "me {what} {runtime.up.x}"),
    ("{'a': 1} {} {1}", "{'a': 1} {} {1}"),
])  # fmt: skip
def test_text_for_people_keeps_what_is_not_known(text: str, told: str) -> None:
    assert Binder(lookup, JOBS, OWN).text(text) == told


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
