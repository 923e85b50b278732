"""Run-time references in conditions, actions and texts."""

from __future__ import annotations

import pytest

from autoexp_tui.actions.of_run import Restart
from autoexp_tui.actions.outside import (
    AppendToFile,
    NewJob,
    Notify,
    RunAutoexp,
    RunCommand,
)
from autoexp_tui.conditions.bindings import (
    Lookup,
    RefusedValue,
    bind,
    bind_text,
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

METADATA = {
    ("up", "checkpoint_iteration"): "8000",
    ("lr1.5", "path"): "/o/iter_8000",
    ("up", "shell"): "$(reboot)",
    ("up", "star"): "a*b",
    ("me", "checkpoint_path"): "/o/mine",
    ("up", "again"): "{runtime.up.checkpoint_iteration}",
}
JOBS = {"up", "lr1", "lr1.5", "me"}


def lookup(job: str, key: str) -> str | None:
    return METADATA.get((job, key))


def bound(spec: Condition, find: Lookup = lookup) -> Condition | None:
    return bind(spec, find, JOBS)[0]


def test_a_reference_becomes_its_value() -> None:
    spec = FileExists(path="/o/iter_{runtime.up.checkpoint_iteration}/done")
    assert bound(spec) == FileExists(path="/o/iter_8000/done")


def test_a_spec_without_references_stays_the_same_object() -> None:
    spec = Composite(conditions=(FileExists(path="/o"), Not(condition=TimeReached())))
    assert bound(spec) is spec


def test_references_are_found_in_nested_specs() -> None:
    inner = MetadataIs(key="k", value="{runtime.up.checkpoint_iteration}")
    spec = Composite(conditions=(Not(condition=inner),))
    assert bound(spec) == Composite(
        conditions=(Not(condition=MetadataIs(key="k", value="8000")),)
    )


def test_a_reference_is_found_however_the_same_spec_was_bound_before() -> None:
    spec = FileExists(path="/o/{runtime.up.late}")
    assert bound(spec, lambda _job, _key: None) is None
    assert bound(spec, lambda _job, _key: "now") == FileExists(path="/o/now")


def test_a_reference_is_found_beside_what_cannot_be_hashed() -> None:
    spec = RunCommand(command=("ls", "{runtime.up.path}"), env={"A": "b"})
    made, missing = bind(spec, lambda _job, _key: "x", JOBS)
    assert (made, missing) == (RunCommand(command=("ls", "x"), env={"A": "b"}), ())


def test_references_are_found_in_lists() -> None:
    spec = JobStateIs(jobs=("a_{runtime.up.checkpoint_iteration}", "b"), state="FAILED")
    assert bound(spec) == JobStateIs(jobs=("a_8000", "b"), state="FAILED")


def test_a_missing_value_is_named() -> None:
    spec = FileExists(path="/{runtime.up.x}/{runtime.me.y}")
    assert bind(spec, lookup, JOBS) == (None, (("up", "x"), ("me", "y")))


def test_a_pattern_is_never_bound() -> None:
    spec = FileContent(path="/f", pattern="{runtime.up.x}")
    assert bound(spec) is spec


def test_other_braces_of_a_start_condition_stay() -> None:
    spec = CommandPasses(command=("awk", "{print $1}", "{name}", "{{x}}"))
    assert bound(spec) is spec


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("up.a", ("up", "a")),
        ("lr1.5.path", ("lr1.5", "path")),
        ("lr1.6.path", ("lr1", "6.path")),
        ("unknown.a.b", ("unknown.a", "b")),
    ],
)
def test_the_longest_known_job_name_wins(path: str, expected: tuple[str, str]) -> None:
    assert split_reference(path, JOBS) == expected


def test_a_job_name_with_dots_is_found() -> None:
    assert bound(FileExists(path="{runtime.lr1.5.path}")) == FileExists(
        path="/o/iter_8000"
    )


def test_a_value_is_not_read_as_a_reference_again() -> None:
    spec = FileExists(path="{runtime.up.again}")
    assert bound(spec) == FileExists(path="{runtime.up.checkpoint_iteration}")


def test_a_value_in_a_glob_is_a_literal() -> None:
    spec = FileExists(path="/o/{runtime.up.star}/*", glob=True)
    assert bound(spec) == FileExists(path="/o/a[*]b/*", glob=True)


def test_a_value_in_a_log_glob_is_a_literal() -> None:
    spec = LogPattern(log_path="/o/{runtime.up.star}/*", pattern="x", glob=True)
    assert bound(spec) == LogPattern(log_path="/o/a[*]b/*", pattern="x", glob=True)


def refused(spec: Condition | Action, find: Lookup = lookup) -> list[str]:
    """Keys whose values may not stand where a spec asks for them."""
    made, lacking = bind(spec, find, JOBS, OWN)
    assert (made is None) == bool(lacking)
    return [one.key for one in lacking if isinstance(one, RefusedValue)]


def test_a_plain_value_is_one_word_of_a_command() -> None:
    spec = CommandPasses(command=("check", "{runtime.lr1.5.path}"))
    assert bound(spec) == CommandPasses(command=("check", "/o/iter_8000"))


def test_a_value_that_is_more_than_a_word_is_refused() -> None:
    assert refused(CommandPasses(command=("check", "{runtime.up.shell}"))) == ["shell"]


@pytest.mark.parametrize(
    "command",
    [
        ("bash", "-c", "test -f {runtime.lr1.5.path}"),
        ("/usr/bin/env", "sh", "-c", "{runtime.lr1.5.path}"),
        ("python", "-c", "print('{runtime.lr1.5.path}')"),
        ("timeout", "5", "nice", "bash", "-lc", "echo {runtime.lr1.5.path}"),
        ("ssh", "node", "echo {runtime.lr1.5.path}"),
        ("python3", "-Ic", "{runtime.lr1.5.path}"),
    ],
)
def test_no_value_comes_into_a_script(command: tuple[str, ...]) -> None:
    assert refused(CommandPasses(command=command)) == ["path"]


def test_a_path_that_is_read_may_hold_any_path() -> None:
    spec = FileExists(path="/o/{runtime.lr1.5.path}/done")
    assert bound(spec) == FileExists(path="/o//o/iter_8000/done")


def test_a_path_that_is_written_takes_one_name_of_a_value() -> None:
    spec = AppendToFile(path="notes/{k}.txt", text="x")
    good, _ = bind(spec, lambda job, key: "run-7", JOBS, OWN)
    assert good == AppendToFile(path="notes/run-7.txt", text="x")


@pytest.mark.parametrize(
    "value", ["../../.ssh/authorized_keys", "/etc/x", "..", ".", "", "a\0b"]
)
def test_a_path_that_is_written_takes_no_path_of_a_log(value: str) -> None:
    spec = AppendToFile(path="notes/{k}.txt", text="x")
    assert refused(spec, lambda job, key: value) == ["k"]


@pytest.mark.parametrize(
    "action",
    [
        RunAutoexp(config_path="{k}"),
        RunAutoexp(config_ref="experiments/{k}"),
        NewJob(command=("x",), cwd="{k}"),
        NewJob(command=("x",), name="{k}"),
        NewJob(command=("x",), options={"account": "{k}"}),
    ],
)
def test_what_a_rule_starts_is_named_by_no_path_of_a_log(action: Action) -> None:
    assert refused(action, lambda job, key: "../a b") == ["k"]


def test_a_job_s_own_fields_may_be_a_part_of_a_word() -> None:
    spec = RunCommand(command=("ls", "{output_dir}/x", "--dir={output_dir}/y"))
    done, _ = bind(spec, lookup, JOBS, OWN)
    assert done == RunCommand(command=("ls", "/o/me/x", "--dir=/o/me/y"))


def test_a_value_with_nul_is_no_path() -> None:
    spec = FileExists(path="{runtime.up.x}")
    assert refused(spec, lambda job, key: "a\0b") == ["x"]


# ------------------------------------------------------------------------ actions
OWN = {"name": "me", "output_dir": "/o/me", "attempt": "2"}


def test_an_action_may_name_its_jobs_own_fields_and_metadata() -> None:
    spec = Restart(overrides=("load={checkpoint_path}",), reason="{name} #{attempt}")
    expected = Restart(overrides=("load=/o/mine",), reason="me #2")
    assert bind(spec, lookup, JOBS, OWN) == (expected, ())


def test_a_condition_of_an_action_may_name_them_too() -> None:
    spec = Notify(message="x", conditions=(FileExists(path="{output_dir}/f"),))
    done, _ = bind(spec, lookup, JOBS, OWN)
    assert done == Notify(message="x", conditions=(FileExists(path="/o/me/f"),))


def test_an_override_never_gets_a_value_that_hydra_would_read() -> None:
    assert refused(Restart(overrides=("x={runtime.up.shell}",))) == ["shell"]


@pytest.mark.parametrize(
    ("written", "value", "bound"),
    [
        ("load={v}", "/a/b-1", "load=/a/b-1"),
        ("load={v}/x", "/lr=1,b=2", "load='/lr=1,b=2/x'"),
        ("load='{v}'", "/lr=1,b=2", "load='/lr=1,b=2'"),
        ('load="{v} x"', "a b", 'load="a b x"'),
        ("load=[{v}]", "a", "load=[a]"),
        ("load=a b{v}", "c", "load=a bc"),
        ("{v}=1", "a.b", "a.b=1"),
        ("~{v}", "a", "~a"),
    ],
)
def test_a_value_in_an_override_is_only_text(
    written: str, value: str, bound: str
) -> None:
    spec = RunAutoexp(overrides=(written,))
    done, missing = bind(spec, lambda job, key: value, JOBS, OWN)
    assert (done, missing) == (RunAutoexp(overrides=(bound,)), ())


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("load={v}", "it's"),
        ("load={v}", "${oc.env:HOME}"),
        ("load={v}", "{sibling.x.name}"),
        ("load={v}", "a\\"),
        ("load={v}", "a\nb"),
        ("load=[{v}]", "a,b"),
        ("load=${oc.eval:{v}}", "1,2"),
        ("load='a' + {v}", "b c"),
        ("{v}=1", "a=b"),
        ("~{v}", "a b"),
    ],
)
def test_a_value_that_cannot_be_only_text_in_an_override_is_refused(
    written: str, value: str
) -> None:
    spec = RunAutoexp(overrides=(written,))
    assert refused(spec, lambda job, key: value) == ["v"]


def test_only_the_words_of_a_shell_s_command_must_be_plain() -> None:
    shell = RunCommand(command=("sh", "-c", "echo $V"), env={"V": "{v}"})
    done, _ = bind(shell, lambda job, key: "a; b", JOBS, OWN)
    assert done == RunCommand(command=("sh", "-c", "echo $V"), env={"V": "a; b"})
    wrong = RunCommand(command=("sh", "-c", "echo {v}"))
    assert bind(wrong, lambda job, key: "a; b", JOBS, OWN)[0] is None


def test_a_bare_name_nobody_knows_is_missing() -> None:
    assert bind(Restart(reason="{what}"), lookup, JOBS, OWN) == (
        None,
        (("me", "what"),),
    )


def test_doubled_braces_of_an_action_are_literal() -> None:
    done, _ = bind(Notify(message="{{name}} {name}"), lookup, JOBS, OWN)
    assert done == Notify(message="{name} me")


def test_text_for_people_keeps_what_is_not_known() -> None:
    text = bind_text("{name} {what} {runtime.up.x}", OWN, lookup, JOBS)
    assert text == "me {what} {runtime.up.x}"


def test_text_that_is_no_reference_stays() -> None:
    assert bind_text("{'a': 1} {} {1}", OWN, lookup, JOBS) == "{'a': 1} {} {1}"


def test_a_jobs_own_fields_hold_its_parameters() -> None:
    spec = JobSpec(
        name="me",
        index=3,
        stage="stable",
        parameters={"optim.lr": 1e-4, "++n": 2},
        command=("c",),
        output_dir="/o/me",
        log_dir="/l/me",
    )
    assert list_own_fields(spec, 2) == {
        "optim.lr": "1e-4",
        "n": "2",
        "name": "me",
        "project.name": "me",
        "stage": "stable",
        "index": "3",
        "family": "",
        "output_dir": "/o/me",
        "log_dir": "/l/me",
        "log_path_current": "/l/me/current.log",
        "attempt": "2",
    }
