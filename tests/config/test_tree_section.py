from __future__ import annotations

from typing import Any

import pytest

from autoexp_tui.config.policy_sections import TREE
from autoexp_tui.config.settings import HouseParser
from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.ports import SpecRefused
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.tree.options import (
    GateOptions,
    Measurement,
    Metric,
    TreeOptions,
    read_options,
)
from tests.planning.composed import planned
from tests.support.refusals import read_refusals

GIVEN: dict[str, Any] = {
    "beam_width": 3,
    "metrics": ["ratio", {"name": "seconds", "direction": "min", "risk": True,
                          "bounds": [0, None]}],
    "evaluate": {"command": ["python", "measure.py"]},
    "gate": {"tolerance": 0},
    "link_paths": ["data"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("tree", "where", "message", "hint"),
    read_refusals(__file__, "a_bad_option_of_a_search_says_what_is_wrong"),
)
def test_a_bad_option_of_a_search_says_what_is_wrong(
    tree: object, where: str, message: str, hint: str
) -> None:
    with pytest.raises(SpecRefused) as refused:
        TREE.parse(tree, "tree")
    assert refused.value.problems == (Problem(message, where=where, hint=hint),)


def test_a_plan_carries_the_options_of_its_search_and_its_jobs_do_not() -> None:
    sweep = {"configs": [{"stage": "a"}]}
    plain, plan = planned(sweep), planned(sweep, tree=GIVEN)
    (warning,) = planned({"configs": [{"stage": "a", "++tree.beam_width": 2}]}).warnings
    assert warning.message.endswith("it is one for the whole session")
    assert plain.tree == {}
    assert [job.fingerprint for job in plan.jobs] == [
        job.fingerprint for job in plain.jobs
    ]
    assert decode_plan(encode_plan(plan)) == plan
    assert read_options(plan.tree) == TreeOptions(
        beam_width=3,
        metrics=(Metric(name="ratio"), Metric(name="seconds", direction="min",
                                              risk=True, bounds=(0.0, None))),
        evaluate=Measurement(command=("python", "measure.py")),
        gate=GateOptions(tolerance=0.0),
        link_paths=("data",),
    )  # fmt: skip


def test_a_manifest_without_a_search_reads_as_it_did() -> None:
    plan = planned({"configs": [{"stage": "a"}]})
    data = encode_plan(plan).replace(b'"tree":{},', b"")
    assert b'"tree"' not in data
    assert decode_plan(data) == plan


def test_an_empty_section_is_a_search_with_the_defaults() -> None:
    assert read_options(HouseParser("/w").tree({"tree": {}})) == TreeOptions()
    assert HouseParser("/w").tree({}) == HouseParser("/w").tree({"tree": None}) == {}
