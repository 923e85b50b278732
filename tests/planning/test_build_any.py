"""Whatever is written in a sweep, planning answers with a plan or with findings."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autoexp_tui.planning.build import build_plan_outcome
from tests.sweep.fakes import FakeComposer, FakeParser, use_resolvers

CONFIG = {
    "project": {"name": "n${index}", "base_output_dir": "/out"},
    "backend": {"lr": 1e-3, "load": None},
    "aux": {"a": 1},
}
WORDS = st.sampled_from(
    [
        *(
            "{",
            "}",
            "{{",
            "}}",
            "${",
            "$",
            "\\",
            "'",
            '"',
            ".",
            "[",
            "]",
            "=",
            ",",
            " ",
        ),
        *("sibling", "all", "base", "runtime", "aux", "stage", "index", "name"),
        *("output_dir", "s0", "s1", "backend", "lr", "metadata", "a", "oc.eval:", "1"),
        *("{sibling.s0.", "{all.s1.name}", "${aux.a}", "{output_dir}", "{base.name}"),
        *("${oc.eval:'_0+1',${aux.a}}", "{sibling.s1.backend.load}", "{backend.load}"),
    ]
)
TEXTS = st.lists(WORDS, max_size=5).map("".join)
VALUES = st.one_of(
    TEXTS,
    st.none(),
    st.floats(allow_nan=False),
    st.lists(TEXTS, max_size=2),
    st.dictionaries(st.sampled_from(["x", "y z", "a"]), TEXTS, max_size=2),
)
CONDITIONS = st.lists(
    st.one_of(
        TEXTS,
        st.fixed_dictionaries({"class_name": st.just("FileExists"), "path": VALUES}),
        st.fixed_dictionaries({"class_name": st.just("Metadata"), "key": TEXTS}),
        st.fixed_dictionaries(
            {"class_name": st.just("Not"), "condition": st.just({"class_name": TEXTS})}
        ),
    ),
    max_size=2,
)
POINTS = st.fixed_dictionaries(
    {},
    optional={
        "stage": st.sampled_from(["s0", "s1", "s.2"]),
        "backend.lr": VALUES,
        "backend.load": VALUES,
        "++new": VALUES,
        "aux": st.dictionaries(st.sampled_from(["a", "b"]), VALUES, max_size=2),
        "aux.c": VALUES,
        "project.name": TEXTS,
        "start_conditions": CONDITIONS,
        "cancel_conditions": CONDITIONS,
        "start_condition_cmd": TEXTS,
        "_meta": st.dictionaries(st.sampled_from(["stage", "parent_stage"]), TEXTS),
    },
)
SWEEPS = st.fixed_dictionaries(
    {"configs": st.lists(POINTS, max_size=3)},
    optional={"filter": st.one_of(TEXTS, st.just("${backend.lr} is not None"))},
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SWEEPS)
def test_every_sweep_makes_a_plan_or_findings(sweep: dict[str, Any]) -> None:
    use_resolvers()
    found = build_plan_outcome(
        composer=FakeComposer(CONFIG, sweep), parser=FakeParser()
    )
    assert (found.plan is None) == bool(found.errors)
    assert all(error.message for error in found.errors)
