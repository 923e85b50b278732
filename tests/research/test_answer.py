"""What agents write is read strictly: what is not of the form changes nothing, and what
cannot run is left out with its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from autoexp_tui.model.specs import JobSpec
from autoexp_tui.research.answer import (
    MOST_BYTES,
    MOST_TEXT_BYTES,
    SCHEMAS,
    AnswerRefused,
    read_answer,
    read_fix,
    take_plans,
)
from autoexp_tui.research.options import ResearchOptions
from autoexp_tui.research.ports import PlannedItems
from autoexp_tui.research.state import (
    Answer,
    CodeChange,
    Consultation,
    Hypothesis,
    Item,
    Research,
    Run,
)

LISTED = ("r1", "r2", "r3", "r4")


def make_research(*items: Item, **options: object) -> Research:
    """r1 runs; the agent's r2 and r3 and a person's r4 are in the list, and the
    consultation c5 was told so."""
    made = Research(ResearchOptions(**options))  # type: ignore[arg-type]
    made.items = (
        Item(id="r2", overrides=("lr=1",), consultation="c1", kill_criteria="loss > 9"),
        Item(id="r3", overrides=("lr=2",), consultation="c1"),
        Item(id="r4", note="mine", by="bob"),
        *items,
    )
    made.runs["r1"] = Run(id="r1", item=Item(id="r1", consultation="c1"), jobs=())
    made.consultations["c5"] = Consultation(id="c5", listed=LISTED)
    return made


def read(research: Research | None = None, **answer: object) -> Answer:
    answer = {"list_unchanged": True, **answer}
    if "experiment_list" in answer:
        del answer["list_unchanged"]
    return read_answer(json.dumps(answer).encode(), research or make_research(), "c5")


def read_one(research: Research | None = None, **item: object) -> Answer:
    return read(research, experiment_list=[{"id": "r9", **item}])


def find_ids(answer: Answer) -> list[str]:
    return [*(answer.order or ())]


def test_the_answer_of_the_specification_is_read() -> None:
    made = read(
        reflection="Smaller\nis better",
        hypotheses=[{"id": "h1", "description": "small lr", "expects": "loss<2"}],
        experiment_list=[
            {
                "id": "r9",
                "hypothesis": "h1",
                "overrides": ["++lr=0.003", "backend.args.steps=5"],
                "gpu_requirement": 2,
                "depends_on": ["r1", "r8"],
                "kill_criteria": "loss>4.0 after step 1000 OR time > 120 min",
                "code_ref": "this",
            },
            {"id": "r8", "config_ref": "experiments/small"},
        ],
        kill_runs=["r1", "r77"],
        reasoning="because",
    )
    first, second = made.items or ()
    assert (first.overrides, first.gpus) == (("++lr=0.003", "backend.args.steps=5"), 2)
    assert first.kill_criteria == "loss > 4 after step 1000 or time > 2 h"
    assert (first.code_ref, first.consultation, first.by) == ("c5", "c5", "")
    assert (second.id, second.config_ref) == ("r8", "experiments/small")
    assert made.hypotheses[0].expects == "loss < 2"
    assert (made.kills, made.left_out) == (("r1", "r77"), ())
    assert (made.reflection, made.reasoning) == ("Smaller\nis better", "because")


def test_a_list_that_is_to_stay_is_no_empty_list() -> None:
    made = take_plans(read(), make_research(), PlannedItems(()))
    assert (made.order, made.items) == (None, None)
    made = take_plans(read(experiment_list=[]), make_research(), PlannedItems(()))
    assert (made.order, made.items) == ((), ())


def list_keywords(schema: Mapping[str, Any]) -> set[str]:
    below = [*schema.get("properties", {}).values(), schema.get("items", {})]
    return set(schema).union(*map(list_keywords, filter(None, below)))


@pytest.mark.parametrize("role", SCHEMAS)
def test_all_of_a_schema_is_checked(role: str) -> None:
    checked = {"type", "enum", "properties", "required", "items"}
    assert list_keywords(SCHEMAS[role]) <= checked | {"additionalProperties"}


DEEP = b'{"reasoning": ' + b"[" * 200_000
GOOD = b'"list_unchanged": true'


@pytest.mark.parametrize(
    ("data", "where", "problem"),
    [
        (b"", "$", "no JSON"),
        (b'{"reflection": "half', "$", "no JSON"),
        (b"\xff\xfe{}", "$", "no JSON"),
        (b'{"list_unchanged": NaN}', "$", "NaN"),
        (b'{"list_unchanged": -Infinity}', "$", "Infinity"),
        (b'{"experiment_list": [{"id": "r9", "gpu_requirement": 1e999}]}', "0]", "inf"),
        (b'{"kill_runs": [' + b"9" * 5000 + b"]}", "$", "no JSON"),
        (DEEP, "$", "nested too deeply"),
        (b'{"reasoning": ' + b"[" * 300 + b"]" * 300 + b"}", "$.reasoning", "type"),
        (b" " * 10 * MOST_BYTES, "$", "bytes"),
        (b"[]", "$", "object"),
        (b"{%s, %s}" % (GOOD, GOOD), "$", "twice"),
        (b'{%s, "more": 1}' % GOOD, "$.more", "no key"),
        (b'{%s, "\\u001b[2Jx": 1}' % GOOD, "$.x", "no key"),
        (b'{%s, "reflection": 3}' % GOOD, "$.reflection", "not of type"),
        (b'{%s, "kill_runs": "r1"}' % GOOD, "$.kill_runs", "not of type"),
        (b'{"experiment_list": [{"note": "x"}]}', "$.experiment_list[0].id", "missing"),
        (b'{"experiment_list": [{"id": "r9", "overrides": "a=1"}]}', "overrides", "of"),
        (b'{"experiment_list": [{"id": "r9", "gpu_requirement": 1.5}]}', "gpu", "1.5"),
        (b'{"experiment_list": [{"id": "r9", "by": "bob"}]}', ".by", "no key"),
        (b'{%s, "hypotheses": [{"id": "h", "status": "so"}]}' % GOOD, "status", "so"),
        (b'{%s, "experiment_list": []}' % GOOD, "$.list_unchanged", "beside"),
        (b"{}", "$.experiment_list", "missing"),
        (b'{"list_unchanged": false}', "$.experiment_list", "missing"),
    ],
    ids=lambda text: str(text[:20]),
)
def test_what_is_not_of_the_form_is_refused_whole(
    data: bytes, where: str, problem: str
) -> None:
    with pytest.raises(AnswerRefused) as refused:
        read_answer(data, make_research(), "c5")
    assert where in refused.value.where
    assert problem in refused.value.problem
    assert len(refused.value.line) < 500
    assert refused.value.line.isprintable()


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"id": "../x"}, "no name"),
        ({"id": "x" * 65}, "no name"),
        ({"id": "_x"}, "no name"),
        ({"id": "r\u0435 9"}, "no name"),
        ({"id": "c12_research"}, "those of calls"),
        ({"id": "c5"}, "those of calls"),
        ({"id": "r1"}, "has started meanwhile"),
        ({"id": "r7"}, "a run is named so"),
        ({"id": "r6"}, "got this name meanwhile"),
        ({"overrides": ["lr 3"]}, "not KEY=VALUE"),
        ({"overrides": ["agents.a.command=[rm]"]}, "no agent may set"),
        ({"overrides": [f"a{n}={'x' * 400}" for n in range(9)]}, "more than 2000"),
        ({"config_ref": "../../etc/passwd"}, "no name of a config"),
        ({"config_ref": "/etc/x"}, "no name of a config"),
        ({"config_ref": "x/../../evil"}, "no name of a config"),
        ({"config_ref": ".x"}, "no name of a config"),
        ({"kill_criteria": "when loss is bad"}, "kill_criteria"),
        ({"expects": "loss < 2 or time > 2 h"}, "expects"),
        ({"gpu_requirement": -1}, "0 to 8"),
        ({"gpu_requirement": 10**30}, "0 to 8"),
        ({"depends_on": ["r9"]}, "depends on itself"),
        ({"depends_on": ["r99"]}, "no run and no item"),
        ({"depends_on": ["r3"]}, "no run and no item"),
        ({"depends_on": [str(n) for n in range(500)]}, "more than 100"),
        ({"baseline_run": "r99"}, "no run"),
        ({"code_ref": "c1"}, "no change of code"),
    ],
)
def test_an_item_that_cannot_run_is_left_out_with_its_reason(
    item: dict[str, object], reason: str
) -> None:
    research = make_research(Item(id="r6", by="ann"))
    research.runs["r7"] = Run(id="r7", item=Item(id="r7"), jobs=())
    research.gpus, research.has_gpus = 8, True
    made = read(research, experiment_list=[{"id": "r9", **item}, {"id": "r8"}])
    assert find_ids(made) == ["r8"]
    (told,) = made.left_out
    assert reason in told
    assert told.isprintable()


def test_a_ring_is_left_out_and_who_waits_for_it() -> None:
    made = read(
        experiment_list=[
            {"id": "a", "depends_on": ["b"]},
            {"id": "b", "depends_on": ["a"]},
            {"id": "d", "depends_on": ["b"]},
            {"id": "e", "depends_on": ["f", "r4"]},
            {"id": "f", "depends_on": ["r1"]},
        ]
    )
    assert find_ids(made) == ["e", "f"]
    assert len(made.left_out) == 3


def test_of_two_items_of_one_name_the_first_counts() -> None:
    made = read(experiment_list=[{"id": "a", "note": "1"}, {"id": "a", "note": "2"}])
    assert [one.note for one in made.items or ()] == ["1"]
    assert made.left_out == ("a: it stands there twice; the first counts",)


def test_an_item_of_the_list_keeps_what_is_not_stated() -> None:
    research = make_research()
    made = read(research, experiment_list=[{"id": "r3", "note": None}, {"id": "r2"}])
    assert (made.order, made.items) == (("r3", "r2"), ())


def test_an_item_with_other_work_is_planned_anew() -> None:
    research = make_research()
    job = JobSpec(name="r2_a", index=0, command=("true",), output_dir="o", log_dir="l")
    research.items = (replace(research.items[0], jobs=(job,)), *research.items[1:])
    noted, changed, wider = (
        read(research, experiment_list=[{"id": "r2", **one}]).items or ()
        for one in ({"note": "x"}, {"overrides": ["lr=5"]}, {"gpu_requirement": 2})
    )
    assert (noted[0].jobs, noted[0].kill_criteria) == ((job,), "loss > 9")
    assert (changed[0].jobs, changed[0].consultation) == ((), "c5")
    assert (wider[0].jobs, wider[0].gpus) == ((), 2)


def test_of_an_item_of_the_list_a_bad_change_alone_is_left_out() -> None:
    research = make_research()
    for bad in ({"overrides": ["hydra.x=1"]}, {"depends_on": ["r99"]}):
        made = read(research, experiment_list=[{"id": "r2", **bad}])
        assert (made.order, made.items) == (("r2",), ())
        assert len(made.left_out) == 1
    stuck = {"id": "r2", "depends_on": ["r99"]}
    made = read(experiment_list=[stuck, {"id": "r9", "depends_on": ["r2"]}])
    assert find_ids(made) == ["r2", "r9"]


def test_an_answer_changes_no_content_of_a_persons_item() -> None:
    research = make_research()
    made = read(research, experiment_list=[{"id": "r4", "overrides": ["lr=5"]}])
    assert (made.order, made.items) == (("r4",), ())


def test_an_item_that_a_person_removed_does_not_come_back() -> None:
    research = make_research()
    research.items = research.items[1:]
    made = read(research, experiment_list=[{"id": "r2"}])
    assert made.order == ()
    assert made.left_out == ("r2: it was removed from the list meanwhile",)


def test_what_is_too_much_is_left_out_and_named() -> None:
    many = [{"id": f"x{n}"} for n in range(10_000)]
    made = read(make_research(max_items=3), experiment_list=many)
    assert find_ids(made) == ["x0", "x1", "x2"]
    assert made.left_out == (
        "x3, x4, x5 and 9994 more: at most 3 are read of experiment_list",
    )
    assert len(read(experiment_list=many).items or ()) == 100


def test_texts_are_cleaned_and_cut() -> None:
    made = read(
        reflection="\x1b[2Ja\nb\u202e" + "é" * 90_000,
        reasoning="\ud800x",
        hypotheses=[
            {"id": "h", "description": "x\x1b]0;y\x07" * 900, "evidence": ["\n"]}
        ],
        kill_runs=["\x1b[31mr1", "y" * 900],
        experiment_list=[{"id": "r9", "note": "n\r\n" * 900, "hypothesis": "a\tb"}],
    )
    assert made.reflection.startswith("a\nbé")
    assert made.reflection.endswith("… (cut)")
    assert len(made.reflection.encode()) <= MOST_TEXT_BYTES
    assert made.reasoning == "\ufffdx"
    assert [len(name) for name in made.kills] == [2, 64]
    (item,) = made.items or ()
    texts = (item.note, item.hypothesis, made.hypotheses[0].description)
    assert all(text.isprintable() and len(text) <= 500 for text in texts)


def test_what_is_not_said_of_a_hypothesis_stays_as_it_is_known() -> None:
    research = make_research()
    research.hypotheses["h1"] = Hypothesis(
        id="h1", description="d", status="rejected", expects="loss < 2"
    )
    made = read(research, hypotheses=[{"id": "h1"}, {"id": "h2", "expects": "bad"}])
    first, second = made.hypotheses
    assert (first.description, first.status) == ("d", "rejected")
    assert (first.expects, second.expects) == ("loss < 2", "")
    assert made.left_out[0].startswith("hypothesis h2: its expects: ")


def test_an_item_may_depend_on_one_that_entered_meanwhile() -> None:
    research = make_research(Item(id="r6", consultation="c4", fixes="r1"))
    assert find_ids(read_one(research, depends_on=["r6"])) == ["r9"]


def test_code_of_an_earlier_call_may_be_named() -> None:
    research = make_research()
    change = CodeChange(commit="f", base="b", sha256="s", files=1)
    research.consultations["c2"] = Consultation(id="c2", code=change)
    assert find_ids(read_one(research, code_ref="c2")) == ["r9"]


def test_a_fix_is_read_whole_or_not_at_all() -> None:
    data = b'{"fix_applied": "halved\\nit", "overrides": ["batch=4"]}'
    made = read_fix(data, "r1")
    assert (made.run, made.fix_applied) == ("r1", "halved it")
    assert made.overrides == ("batch=4",)
    assert read_fix(b"{}", "r1").overrides == ()
    with pytest.raises(AnswerRefused) as refused:
        read_fix(b'{"overrides": ["batch=4", "slurm=x"]}', "r1")
    assert refused.value.where == "$.overrides"
