"""The helpers of configs: what they give, what they refuse, on both roads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autoexp_tui.config.hydra_compose import HydraComposer
from autoexp_tui.config.resolvers import HELPERS, PREFIX, PURE
from autoexp_tui.planning.overrides import format_override
from autoexp_tui.planning.ports import CannotCompose
from tests.config.config_trees import write_tree
from tests.support.refusals import read_refusals

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"


@pytest.mark.parametrize(("written", "value"), [
    ("ax.floor:-1.5", -2), ("ax.ceil:1.2", 2), ("ax.down_to:22888,2000", 22000),
    ("ax.if:${large},a,b", "a"), ("ax.str:1e-4", "1e-4"), ("ax.lower:AbC", "abc"),
    ("ax.upper:AbC", "ABC"), ("ax.strip:'  a '", "a"),
    ("ax.join:_,lr,1e-4,${list}", "lr_1e-4_1_2_3"), ("ax.split:'a,b',','", ["a", "b"]),
    ("ax.split:'a  b'", ["a", "b"]), ("ax.replace:a/b/c,/,-", "a-b-c"),
    ("ax.basename:/data/wiki.bin", "wiki.bin"), ("ax.dirname:/data/wiki.bin", "/data"),
    ("ax.stem:/data/wiki.bin", "wiki"), ("ax.pad:8000,8", "00008000"),
    ("ax.format:0.12345,.3f", "0.123"),
])  # fmt: skip
def test_a_helper_gives(trees: HydraComposer, written: str, value: object) -> None:
    found = trees.compose((override(written),), {}).select("x")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("written", "message"), read_refusals(__file__, "what_does_not_fit_is_named")
)
def test_what_does_not_fit_is_named(
    trees: HydraComposer, written: str, message: str
) -> None:
    with pytest.raises(CannotCompose) as caught:
        trees.compose((override(written),), {}).select("x")
    (problem,) = caught.value.problems
    assert (problem.where, problem.message) == ("x", message)


def override(written: str) -> str:
    """What sets `x` to a call of a helper."""
    return format_override("++x", f"${{{written}}}")


@pytest.mark.parametrize("name", HELPERS)
def test_every_helper_is_pure_and_in_the_documentation(name: str) -> None:
    assert name.startswith(PREFIX)
    assert name in PURE
    assert re.search(rf"`{re.escape(name)}[`:]", DOCS.read_text("utf-8"))


@pytest.fixture
def trees(tmp_path: Path) -> HydraComposer:
    write_tree(tmp_path, exp="n: 10\nlarge: true\nlist: [1, 2, 3]\n")
    return HydraComposer("exp", tmp_path)
