"""Sweeps as nobody would write them: generated along the grammar, then mangled.

Two roads lead from such a text: the pure one (YAML, expansion, families) and the whole
one (Hydra, references, conditions). Either ends in a plan or in findings.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import indent
from types import FrameType
from typing import Any

import yaml
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

CPU_SECONDS = 5.0
"""More is a hang."""
_WALL_SECONDS = 240
_MOST_POINTS_LOOKED_AT = 30

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
    {"class_name": "FileExist", "path": 3},
    {"path": "x"},
)


Strategy = st.SearchStrategy[Any]


def _named(strategy: Strategy) -> Strategy:
    """The strategy under a short name: in full, what it may draw fills pages."""

    @st.composite
    def drawn(draw: st.DrawFn) -> Any:
        return draw(strategy)

    return drawn()


def _few(of: Strategy, most: int = 3) -> Strategy:
    return st.lists(of, max_size=most)


_NUMBERS = st.sampled_from([0.5, 1e-4, 1e300, float("inf"), float("nan"), 10**40])
_WORDS = st.sampled_from(TEXTS + REFERENCES + INTERPOLATIONS)
_SCALARS = _named(
    st.one_of(_WORDS, st.integers(-3, 3), _NUMBERS, st.booleans(), st.none())
)
_INNER_KEYS = st.sampled_from(["y", "z", "a b", "1", "lr"])
_CONDITIONS = st.sampled_from(CONDITIONS)
_VALUES = _named(st.recursive(
    st.one_of(_SCALARS, _CONDITIONS),
    lambda of: st.one_of(_few(of), st.dictionaries(_INNER_KEYS, of, max_size=2)),
    max_leaves=4,
))  # fmt: skip
_KEYS = _named(
    st.one_of(st.sampled_from(KEYS[:20]), st.sampled_from(KEYS), st.integers(0, 2))
)
_ENTRIES = _named(st.dictionaries(_KEYS, _VALUES, max_size=4))
_STAGED = st.builds(
    lambda stage, entry: {"stage": stage, **entry}, st.sampled_from("abc"), _ENTRIES
)
_TRIED = st.dictionaries(_KEYS, st.one_of(_few(_VALUES), _VALUES), max_size=3)
_THOUSAND = list(range(1000))
_HUGE = st.just({"x.y": _THOUSAND, "x.z": _THOUSAND, "q": [1, 2, 3] * 400})
_TYPES = st.sampled_from(
    ["product", "list", "zip", "product", "list", "produ", 3, None]
)
_EXTRAS = st.sets(
    st.sampled_from(["type", "defaults", "filter", "name", "grop"]), max_size=3
)


def _node(
    body: Any, kind: object, defaults: object, text: str, extras: set[str]
) -> dict[str, object]:
    more = {"type": kind, "defaults": defaults, "filter": text, "name": "n", "grop": []}
    return {**body, **{key: more[key] for key in sorted(extras)}}


def _as_node(body: Strategy) -> Strategy:
    return st.builds(_node, body, _TYPES, _ENTRIES, st.sampled_from(FILTERS), _EXTRAS)


def _has(**fields: Strategy) -> Strategy:
    return st.fixed_dictionaries(fields)


def _nodes(of: Strategy) -> Strategy:
    """Nodes around others, and things that are none."""
    configs = _few(st.one_of(_STAGED, _ENTRIES, of), 4)
    return _as_node(st.one_of(_has(groups=_few(of)), _has(configs=configs)))


_PARAMS = _as_node(_has(params=st.one_of(_TRIED, _TRIED, _TRIED, _HUGE)))
_LEAVES = _named(st.one_of(_PARAMS, _has(configs=_few(_STAGED, 4)), _VALUES))
_DERIVED = _named(_few(st.fixed_dictionaries(
    {"name": st.sampled_from(["c", "d", "", 3])},
    optional={
        "for_each_base_job": st.sampled_from([True, False, "x"]),
        "parameter_overrides": _ENTRIES, "aux": st.one_of(_ENTRIES, _VALUES),
        "start_conditions": _few(_CONDITIONS, 2),
    },
)))  # fmt: skip
_COMPOSED = st.one_of(_few(_KEYS, 2), _SCALARS)
_MORE = {"list_composition": _COMPOSED, "base_values": _ENTRIES}
_GROUPS = _few(st.recursive(_LEAVES, _nodes, max_leaves=4))
_DERIVING = st.fixed_dictionaries(
    {"grids": _few(_TRIED, 2)}, optional={"derived_jobs": _DERIVED}
)
_GROUPED = st.fixed_dictionaries(
    {"groups": _GROUPS}, optional={**_MORE, "derived_jobs": _DERIVED}
)
_NESTED = st.recursive(_LEAVES, _nodes, max_leaves=6)
_ROOTS = _named(st.one_of(_NESTED, _DERIVING, _GROUPED))
_SNIPPETS = (
    *("&a ", "*a", "!!set ", "!!int ", "<<: *a\n", "- ", ": ", "{", "}", "[", "]", "'"),
    *('"', "\t", "\0", "\n", "# ", "---\n", "? ", "| ", "> ", "%", "\ufeff", "stage: "),
    *("&l [*l]", "&m {k: *m}", "{sibling.a}", "9" * 5000, "[" * 200, "${" * 99),
)


@st.composite
def sweeps(draw: st.DrawFn, bound: int) -> str:
    """The YAML of a sweep of at most `bound` points, often no longer readable."""
    tree = draw(_ROOTS)
    if isinstance(tree, dict):
        tree = {**tree, "max_points": bound}
    text = str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2, 4]))):
        text = _mangled(draw, text)
    return text


def _mangled(draw: st.DrawFn, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at = draw(st.integers(0, len(lines) - 1))
    column = draw(st.integers(0, max(0, len(lines[at]) - 1)))
    match draw(st.sampled_from(["insert", "insert", "drop", "twice", "swap", "shift"])):
        case "insert":
            snippet = draw(st.sampled_from(_SNIPPETS))
            lines[at] = lines[at][:column] + snippet + lines[at][column:]
        case "drop":
            del lines[at]
        case "twice":
            lines.insert(at, lines[at])
        case "swap":
            lines[at], lines[0] = lines[0], lines[at]
        case "shift":
            lines[at] = "  " + lines[at]
    return "".join(lines)


HEAD = """\
defaults: [{backend: one}, _self_]
project: {name: "{stage}_{index}", base_output_dir: /out}
x: {y: 1, z: null}
lr: 1
sweep:
"""


def pure_road(text: str) -> Sequence[Problem]:
    """What YAML, expansion and families say of a sweep; nothing when it is fine."""
    try:
        _, tree = parse_nodes(text, "exp.yaml")
        found = expand(tree)  # type: ignore[arg-type]
    except (CannotCompose, SweepRefused) as refused:
        return refused.problems
    families = Families(found.points, found.removed)
    for at, point in enumerate(found.points[:_MOST_POINTS_LOOKED_AT]):
        references = list_references(point.parameters)
        for part in (part for one in references for part in one.parts):
            if isinstance(part, str):
                with suppress(SiblingNotFound, NotAReference):
                    families.find(parse_address(part)[1].partition(".")[0], at)
    return ()


def whole_road(text: str, place: Path) -> Sequence[Problem]:
    """What planning says of a config with this sweep; nothing when it plans."""
    (place / "backend").mkdir(exist_ok=True)
    for name in ("one", "two"):
        backend = f'class_name: "Null"\nlr: 1\nname: {name}\n'
        (place / "backend" / f"{name}.yaml").write_text(backend)
    (place / "exp.yaml").write_bytes(
        (HEAD + indent(text, "  ")).encode("utf-8", "surrogatepass")
    )
    composer = HydraComposer("exp", place, cwd=str(place))
    try:
        found = build_plan_outcome(composer=composer, parser=HouseParser(str(place)))
    except CannotCompose as refused:
        return refused.problems
    finally:
        composer.close()
    assert found.plan is not None or found.errors
    return found.errors


@contextmanager
def in_time() -> Iterator[None]:
    """Fail what takes too long, instead of waiting for it."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"it takes more than {_WALL_SECONDS} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_WALL_SECONDS)
    begun = time.process_time()
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    taken = time.process_time() - begun
    assert taken < CPU_SECONDS, f"it took {taken:.1f} s of processor time"
