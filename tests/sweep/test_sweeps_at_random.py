"""Whatever a sweep says, planning ends in a plan or in findings, and soon.

Sweeps are generated along the grammar, from values that nobody would write, and then
mangled. Two roads lead from such a text: the pure one (YAML, expansion, families) and
the whole one (Hydra, references, conditions). `AUTOEXP_FUZZ` is the number of sweeps
tried on each; `make fuzz` tries 1,000.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from textwrap import indent
from typing import Any, NoReturn

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.config.yaml_files import parse_nodes
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.build import build_plan_outcome
from autoexp_tui.planning.ports import CannotCompose
from autoexp_tui.planning.references import (
    NotAReference,
    list_references,
    parse_address,
)
from autoexp_tui.sweep.expand import expand
from autoexp_tui.sweep.families import Families, SiblingNotFound
from autoexp_tui.sweep.points import SweepRefused
from tests.config.config_trees import write_tree

TRIED = int(os.environ.get("AUTOEXP_FUZZ", "0"))
CPU_SECONDS, WALL_SECONDS = 5.0, 240
"""More is a hang."""
LONGEST = 3000
"""Characters of a message that a person may still read."""
REFERENCES = (
    *("{sibling.a.name}", "{sibling.b.output_dir}/x", "{sibling[stage=a].x.y}"),
    *("{sibling.stage=b.x.y}", "{sibling.index=0.name}", "{sibling.index=99.name}"),
    *("{all.a.name}", "{all.b.x.y}", "{base.name}", "{parent.x.y}", "${base.x.y}"),
    *("{stage}", "{index}", "{name}", "{output_dir}", "{aux.z}", "{nowhere}", "{all}"),
    *("{sibling.{stage}.name}", "{runtime.{sibling.a.name}.k}", "{sibling.a}"),
    *("{sibling.a.metadata.k}", "{sibling}", "{sibling..x}", "{sibling[.x}", "{{x}}"),
    *("{", "}", "}}", "{}", "{ x }", "{sibling.a.x.y}{sibling.b.x.y}", "a{all.a.name}"),
)
INTERPOLATIONS = (
    *("${x.y}", "${.y}", "${..x.y}", "${oc.eval:${x.y}*2}", "${oc.eval:(${x.y}+1)//2}"),
    *("${oc.eval:'${x.y}*2'}", "${oc.eval:__import__('os')}", "${oc.eval:9**9**9}"),
    *("${oc.env:HOME}", "${oc.nope:1}", "${ax.ceil:1.2}", "${ax.pad:${x.y},4}"),
    *("${", "${}", "${x", "${x.y}}", "$${x.y}", "\\${x.y}", "${nowhere}", "${.}"),
    *("${x.${x.y}}", "${project.name}", "${oc.eval:{sibling.a.x.y}*2}", "${hydra:x}"),
)
TEXTS = (
    *("a", "b", "???", "", " ", "é", "\u2028", "\U0001f600", "x" * 2000, "-", "=", "*"),
    *("!!set", "'", '"', "\\", "it's", "null", "true", "1e-4", "1:30", "a=b", "a,b"),
    *("[1,2]", "{a: 1}", "# no", "key: value", "@x", "%y", "`z`", "\t", "a\nb", "../x"),
    *("/abs", "~", "[", "(1", "glob(*)", "choice(1,2)", "\x07", "\x1b[31m", "\u202e"),
)
FILTERS = (
    *("stage == 'a'", "x.y > 1", "y > 1", "p['x.y'] == 1", "True", "False", "stage.x"),
    *("", "y", "y >", "nope == 1", "x.y is None", "x.y < None", "__import__('os')"),
    *("9**9**9", "'a' * 10**9", "[i for i in y]", "(lambda: 1)()", "y.__class__"),
    *("${x.y} > 0", "${x.y", "{sibling.a.x.y} > 1", "${oc.eval:'${x.y} < 2'}", "a.b("),
    *("(" * 300, "y == " + "9" * 5000, "stage in ('a', 'b')", "not stage"),
)
KEYS = (
    *("x.y", "x.z", "backend", "backend.lr", "stage", "_stage", "_meta", "_meta.stage"),
    *("aux", "aux.z", "start_conditions", "cancel_conditions", "start_condition_cmd"),
    *("project.name", "++n", "+x.n", "~x.y", "x.yy", "", "+", "a b", "é", "k" * 400),
    *("x..y", "x.", ".x", "1", "index", "family", "sweep", "defaults", "hydra.run.dir"),
    *("a/b", "backend@x", "x.y.z", "_filter", "filter", "params", "name", "_refs", "x"),
)
CONDITIONS = (
    {"class_name": "FileExistsCondition", "path": "{sibling.a.output_dir}/x"},
    {"class_name": "SlurmState", "job_name": "{sibling.a.name}", "state": "COMPLETED"},
    {"class_name": "SlurmState", "job_name": "{all.b.name}", "state": "FAILED"},
    {"class_name": "MetadataCondition", "key": "base.k", "equals": "${x.y}"},
    {"class_name": "LogPattern", "log_path": "x", "pattern": "a{b("},
    {"class_name": "Composite", "mode": "all", "conditions": [{"class_name": "No"}]},
    {"class_name": "FileExist", "path": 3}, {"path": "x"},
)  # fmt: skip
SNIPPETS = (
    *("&a ", "*a", "!!set ", "!!int ", "<<: *a\n", "- ", ": ", "{", "}", "[", "]", "'"),
    *('"', "\t", "\0", "\n", "# ", "---\n", "? ", "| ", "> ", "%", "\ufeff", "stage: "),
    *("&l [*l]", "&m {k: *m}", "{sibling.a}", "9" * 5000, "[" * 200, "${" * 99),
)
NUMBERS = (0.5, 1e-4, 1e300, float("inf"), float("nan"), 10**40, 1, 0, -3, True, None)

Strategy = st.SearchStrategy[Any]
one_of = st.one_of


def words(of: Sequence[Any]) -> Strategy:
    """One of these, which Hypothesis does not spell out: that fills pages."""
    return st.integers(0, len(of) - 1).map(lambda at: of[at])


def few(of: Strategy, most: int = 3) -> Strategy:
    return st.lists(of, max_size=most)


def has(more: dict[str, Strategy] = {}, **fields: Strategy) -> Strategy:  # noqa: B006
    return st.fixed_dictionaries(dict[Any, Any](fields), optional=more)


SCALARS = words((*TEXTS, *REFERENCES, *INTERPOLATIONS, *NUMBERS))
VALUES = st.recursive(
    SCALARS | words(CONDITIONS),
    lambda of: few(of) | st.dictionaries(words(["y", "z", "a b", "1", "lr"]), of),
    max_leaves=4,
)
NAMES = one_of(words(KEYS[:20]), words(KEYS), st.integers(0, 2))
ENTRIES = st.dictionaries(NAMES, VALUES, max_size=4)
STAGED = st.builds(lambda stage, of: {"stage": stage, **of}, words("abc"), ENTRIES)
TRIED_VALUES = st.dictionaries(NAMES, few(VALUES) | VALUES, max_size=3)
THOUSAND = list(range(1000))
HUGE = words([{"x.y": THOUSAND, "x.z": THOUSAND, "q": [1, 2, 3] * 400}])
OF_NODES = {
    "type": words(["product", "list", "zip", "product", "list", "produ", 3, None]),
    "defaults": ENTRIES, "filter": words(FILTERS), "name": SCALARS, "grop": SCALARS,
}  # fmt: skip


def nodes(of: Strategy) -> Strategy:
    configs = few(one_of(STAGED, ENTRIES, of), 4)
    return has(OF_NODES, groups=few(of)) | has(OF_NODES, configs=configs)


PARAMS = has(OF_NODES, params=one_of(TRIED_VALUES, TRIED_VALUES, TRIED_VALUES, HUGE))
LEAVES = one_of(PARAMS, has(configs=few(STAGED, 4)), VALUES)
DERIVED = few(has(
    {"for_each_base_job": words([True, False, "x"]), "parameter_overrides": ENTRIES,
     "aux": ENTRIES | VALUES, "start_conditions": few(words(CONDITIONS), 2)},
    name=words(["c", "d", "", 3]),
))  # fmt: skip
OF_ROOTS = {"derived_jobs": DERIVED, "list_composition": few(NAMES, 2) | SCALARS,
            "base_values": ENTRIES}  # fmt: skip
ROOTS = one_of(
    st.recursive(LEAVES, nodes, max_leaves=6),
    has({"derived_jobs": DERIVED}, grids=few(TRIED_VALUES, 2)),
    has(OF_ROOTS, groups=few(st.recursive(LEAVES, nodes, max_leaves=4))),
)


@st.composite
def sweeps(draw: st.DrawFn, bound: int) -> str:
    """The YAML of a sweep of at most `bound` points, often no longer readable."""
    tree = draw(ROOTS)
    if isinstance(tree, dict):
        tree = {**tree, "max_points": bound}
    text = str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    for _ in range(draw(words([0, 0, 0, 1, 1, 2, 4]))):
        lines = text.splitlines(keepends=True) or [""]
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        column = draw(st.integers(0, max(0, len(line) - 1)))
        inserted = line[:column] + draw(words(SNIPPETS)) + line[column:]
        lines[at] = draw(words([inserted, inserted, "", line * 2, f"  {line}"]))
        if draw(st.booleans()):
            lines[at], lines[0] = lines[0], lines[at]
        text = "".join(lines)
    return text


HEAD = """\
defaults: [{backend: one}, _self_]
project: {name: "{stage}_{index}", base_output_dir: /out}
x: {y: 1, z: null}
lr: 1
sweep:
"""


def take_pure_road(text: str) -> Sequence[Problem]:
    """What YAML, expansion and families say of a sweep; nothing when it is fine."""
    try:
        found = expand(parse_nodes(text, "exp.yaml")[1])  # type: ignore[arg-type]
    except (CannotCompose, SweepRefused) as refused:
        return refused.problems
    families = Families(found.points, found.removed)
    for at, point in enumerate(found.points[:30]):
        references = list_references(point.parameters)
        for part in (part for one in references for part in one.parts):
            if isinstance(part, str):
                with suppress(SiblingNotFound, NotAReference):
                    families.find(parse_address(part)[1].partition(".")[0], at)
    return ()


def take_whole_road(text: str, place: Path) -> Sequence[Problem]:
    """What planning says of a config with this sweep; nothing when it plans."""
    backends = ('class_name: "Null"\nlr: 1\nname: ' + name for name in ("one", "two"))
    write_tree(place, **dict(zip(("backend__one", "backend__two"), backends)))  # noqa: B905
    sweep = indent(text, "  ").encode("utf-8", "surrogatepass")
    (place / "exp.yaml").write_bytes(HEAD.encode() + sweep)
    with closing(HydraComposer("exp", place, cwd=str(place))) as composer:
        try:
            parser = HouseParser(str(place))
            found = build_plan_outcome(composer=composer, parser=parser)
        except CannotCompose as refused:
            return refused.problems
    assert found.plan is not None or found.errors
    return found.errors


@contextmanager
def in_time() -> Iterator[None]:
    """Fail what takes too long, instead of waiting for it."""

    def give_up(*_: object) -> NoReturn:
        raise AssertionError(f"it takes more than {WALL_SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(WALL_SECONDS)
    begun = time.process_time()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert time.process_time() - begun < CPU_SECONDS


def assert_clear(found: Sequence[Problem]) -> None:
    """Every finding says what, and where or for which job; none is endless."""
    for problem in found:
        assert problem.message.strip()
        assert problem.where or problem.job
        assert len(str(problem)) < LONGEST, str(problem)


@settings(max_examples=TRIED or 150, suppress_health_check=list(HealthCheck))
@given(text=sweeps(bound=5000))
def test_any_sweep_expands_or_is_refused(text: str) -> None:
    with in_time():
        found = take_pure_road(text)
    assert_clear(found)


@settings(max_examples=TRIED or 25, suppress_health_check=list(HealthCheck))
@given(text=sweeps(bound=12))
def test_any_config_plans_or_is_refused(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp() / "fuzzed"
    with in_time():
        found = take_whole_road(text, place)
    assert_clear(found)
