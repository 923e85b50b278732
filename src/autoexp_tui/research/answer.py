"""Reads what agents write, strictly: an answer can do only what is said here.

What is no JSON of the schema refuses the whole answer, and nothing changes. An item
that has the form and cannot run (its name is taken, it sets what no agent may, its
criteria do not read, what it depends on is not there) is left out with the reason, and
the rest is kept; of one that is in the list already the change alone is left out.
Texts are cleaned and bounded; what is cut says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from autoexp_tui.model.errors import AutoexpError
from autoexp_tui.model.event import pick
from autoexp_tui.research.criteria import (
    CriteriaRefused,
    format_criteria,
    parse_criteria,
    parse_expectation,
)
from autoexp_tui.research.items import find_reachable
from autoexp_tui.research.overrides import find_overrides_problem
from autoexp_tui.research.ports import PlannedItems
from autoexp_tui.research.sections import cut_text
from autoexp_tui.research.state import Answer, Fix, Hypothesis, Item, Research
from autoexp_tui.text.json_schema import find_mistake, read_strictly
from autoexp_tui.text.sanitize import clean, clean_line
from autoexp_tui.text.spelling import join_some, plural

MOST_BYTES: Final = 1 << 20
MOST_TEXT_BYTES: Final = 8 << 10
"""Of the reflection, and of the reasoning."""
MOST_LINE: Final = 500
"""Characters of any other text."""
_MOST_NAMES: Final = 100
_MOST_GPUS: Final = 65_536
THIS: Final = "this"
"""As `code_ref`: the change that the same call has made."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_OUR_NAME: Final = re.compile(r"c\d+(?:_.*)?")
"""Jobs of calls are named so, and jobs of items begin with the item's name."""
_CONFIG: Final = re.compile(r"\w[\w.-]*(?:/\w[\w.-]*)*", re.ASCII)


_ITEM_TEXTS: Final = ("hypothesis", "config_ref", "baseline_run", "note", "code_ref")
_ITEM_LISTS: Final = ("overrides", "depends_on")
_ITEM_CRITERIA: Final = ("kill_criteria", "expects")
_WORK: Final = ("overrides", "config_ref", "code_ref", "gpus")
"""By which the jobs of an item are planned."""


def _make_object(**properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """null says nothing, as a key that is left out."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name in properties if name == "id"],
        "properties": properties,
    }


def _make_list(items: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": ["array", "null"], "items": items}


_TEXT: Final = {"type": ["string", "null"]}
_TEXTS: Final = _make_list({"type": "string"})
_ID: Final = {"type": "string"}
_HYPOTHESIS: Final = _make_object(
    id=_ID,
    description=_TEXT,
    status={**_TEXT, "enum": ["open", "confirmed", "rejected", None]},
    expects=_TEXT,
    evidence=_TEXTS,
)
_EXPERIMENT: Final = _make_object(
    id=_ID,
    gpu_requirement={"type": ["integer", "null"]},
    **dict.fromkeys((*_ITEM_TEXTS, *_ITEM_CRITERIA), _TEXT),
    **dict.fromkeys(_ITEM_LISTS, _TEXTS),
)
SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "research": _make_object(
        reflection=_TEXT,
        hypotheses=_make_list(_HYPOTHESIS),
        experiment_list=_make_list(_EXPERIMENT),
        list_unchanged={"type": ["boolean", "null"]},
        kill_runs=_TEXTS,
        reasoning=_TEXT,
    ),
    "fixer": _make_object(fix_applied=_TEXT, overrides=_TEXTS),
}
"""By role: of its answer. Of an item in the list null leaves the key as it is; an empty
answer of the fixer's gives up."""


@dataclass(eq=False)
class AnswerRefused(AutoexpError):
    """An answer that is not of its form; `where` is the path within it."""

    exit_code: ClassVar[int] = 3


def read_answer(data: bytes, research: Research, consultation: str) -> Answer:
    """What the research agent wrote, against the list and the runs as they are. Items
    that are not planned yet have no jobs. Raises AnswerRefused."""
    raw = _read_json(data, "research")
    wanted, is_unchanged = raw.get("experiment_list"), bool(raw.get("list_unchanged"))
    if wanted is not None and is_unchanged:
        problem = "is true beside an experiment_list"
        raise AnswerRefused(problem, "$.list_unchanged", "Write one of them.")
    if wanted is None and not is_unchanged:
        hint = "Write the list, an empty one to end it, or list_unchanged: true."
        raise AnswerRefused("is missing", "$.experiment_list", hint)
    reader = _Reader(research, consultation)
    items = None if wanted is None else reader.read_items(wanted)
    hypotheses = reader.read_hypotheses(raw.get("hypotheses") or [])
    kills = reader.take_some(raw.get("kill_runs") or [], "kill_runs", clean_name)
    return Answer(
        reflection=_clean_text(raw.get("reflection") or ""),
        hypotheses=hypotheses,
        order=None if items is None else tuple(one.id for one in items),
        items=None if items is None else tuple(_list_new(items, research)),
        left_out=tuple(reader.left_out),
        kills=tuple(map(clean_name, kills)),
        reasoning=_clean_text(raw.get("reasoning") or ""),
    )


def _list_new(items: Iterable[Item], research: Research) -> Iterator[Item]:
    """Those that are new or another than in the list."""
    return (one for one in items if one not in research.items)


def take_plans(answer: Answer, research: Research, planned: PlannedItems) -> Answer:
    """An answer with its items as they were planned. What does not plan is left out
    with the reason; of an item of the list the change alone."""
    if answer.order is None or answer.items is None:
        return answer
    made, problems = {one.id: one for one in planned.items}, planned.problems
    stated = (one for one in answer.items if one.id not in problems)
    reasons = (f"{name}: {reason}" for name, reason in problems.items())
    return replace(
        answer,
        order=tuple(
            name
            for name in answer.order
            if name not in problems or research.find_item(name)
        ),
        items=tuple(made.get(one.id, one) for one in stated),
        left_out=(*answer.left_out, *reasons),
    )


def read_fix(data: bytes, run: str) -> Fix:
    """What the fixer wrote about a run. A fix is done whole or not at all: an override
    that no agent may set refuses it. Raises AnswerRefused."""
    raw = _read_json(data, "fixer")
    overrides = tuple(raw.get("overrides") or ())
    if problem := find_overrides_problem(overrides):
        raise AnswerRefused(problem, "$.overrides")
    applied = clean_line(raw.get("fix_applied") or "", MOST_LINE)
    return Fix(run=run, fix_applied=applied, overrides=overrides)


def clean_name(text: str) -> str:
    return clean_line(text, 64)


def _read_json(data: bytes, role: str) -> Mapping[str, Any]:
    """An answer of the form of a role's; raises AnswerRefused."""
    if len(data) > MOST_BYTES:
        problem = f"it has {len(data):,} bytes; at most {MOST_BYTES:,} are read"
        raise AnswerRefused(problem, "$")
    try:
        value: Mapping[str, Any] = read_strictly(data)
    except ValueError as error:
        raise AnswerRefused(str(error), "$") from None
    if mistake := find_mistake(value, SCHEMAS[role]):
        where, _, problem = clean_line(mistake).partition(": ")
        raise AnswerRefused(problem, where)
    return value


def _clean_text(text: str) -> str:
    """Several lines, cut where they are long."""
    return cut_text(clean(text, keep_newlines=True).strip(), MOST_TEXT_BYTES)


@dataclass(slots=True)
class _Reader:
    research: Research
    consultation: str
    left_out: list[str] = field(default_factory=list)
    listed: Set[str] = frozenset()
    """Items that the agent was told of."""

    def __post_init__(self) -> None:
        known = self.research.consultations.get(self.consultation)
        now = (one.id for one in self.research.items)
        self.listed = frozenset(now if known is None else known.listed)

    def take_some(
        self, values: Sequence[Any], what: str, name: Callable[[Any], str]
    ) -> Sequence[Any]:
        """As many as the list may hold; the others are named."""
        most = self.research.options.max_items
        if rest := [name(one) for one in values[most:]]:
            told = f"{join_some(rest, 3)}: at most {most} are read of {what}"
            self.left_out.append(told)
        return values[:most]

    def read_hypotheses(self, raw: Sequence[Any]) -> tuple[Hypothesis, ...]:
        made: dict[str, Hypothesis] = {}
        for one in self.take_some(raw, "hypotheses", _get_name):
            name = _get_name(one)
            if problem := find_name_problem(name) or _find_twin(name, made):
                self.left_out.append(f"hypothesis {name}: {problem}")
                continue
            made[name] = self._read_hypothesis(one, name)
        return tuple(made.values())

    def _read_hypothesis(self, raw: Mapping[str, Any], name: str) -> Hypothesis:
        """What is not stated stays as it is known."""
        known = self.research.hypotheses.get(name) or Hypothesis(id=name)
        description, expects = raw.get("description"), known.expects
        if description is None:
            description = known.description
        try:
            expects = read_criteria(raw).get("expects", expects)
        except Unusable as unusable:
            self.left_out.append(f"hypothesis {name}: {unusable}")
        return Hypothesis(
            id=name,
            description=clean_line(description, MOST_LINE),
            status=raw.get("status") or known.status,
            expects=expects,
        )

    def read_items(self, raw: Sequence[Any]) -> tuple[Item, ...]:
        made: dict[str, Item] = {}
        for one in self.take_some(raw, "experiment_list", _get_name):
            name = _get_name(one)
            kept = self.research.find_item(name)
            try:
                self._require_name(one["id"], made)
                made[name] = self._read_item(one, kept)
            except Unusable as unusable:
                self.left_out.append(f"{name}: {unusable}")
                if kept is not None and name in self.listed:
                    made.setdefault(name, kept)
        while stuck := self._list_stuck(made):
            back = {name: stuck[name] for name in stuck if name in self.listed}
            for name, problem in (back or stuck).items():
                self.left_out.append(f"{name}: {problem}")
                del made[name]
                if back and (kept := self.research.find_item(name)):
                    made[name] = kept
        order = {_get_name(one): at for at, one in reversed([*enumerate(raw)])}
        return tuple(sorted(made.values(), key=lambda one: order[one.id]))

    def _require_name(self, name: str, made: Mapping[str, Item]) -> None:
        """Raises Unusable for a name that a new item cannot have, nor an item of the
        list that may have gone meanwhile."""
        problem = find_name_problem(name) or _find_twin(name, made)
        is_there, is_listed = self.research.find_item(name), name in self.listed
        if not problem and name in self.research.runs:
            problem = "it has started meanwhile" if is_listed else "a run is named so"
        elif not problem and is_there and not is_listed:
            problem = "another item got this name meanwhile"
        elif not problem and is_listed and not is_there:
            problem = "it was removed from the list meanwhile"
        if problem:
            raise Unusable(problem)

    def _read_item(self, raw: Mapping[str, Any], kept: Item | None) -> Item:
        """An item as the answer has it: of one in the list what is not stated stays,
        and a person's stays altogether. Raises Unusable."""
        if kept is not None and kept.is_persons:
            return kept
        said = {key: value for key, value in raw.items() if value is not None}
        stated = dict[str, Any](read_criteria(said))
        for key in said.keys() & {*_ITEM_TEXTS}:
            stated[key] = clean_line(said[key], MOST_LINE)
        for key in said.keys() & {*_ITEM_LISTS}:
            stated[key] = tuple(dict.fromkeys(said[key]))
        if "gpu_requirement" in said:
            stated["gpus"] = int(said["gpu_requirement"])
        if stated.get("code_ref") == THIS:
            stated["code_ref"] = self.consultation
        was = kept or Item(id=_get_name(raw), consultation=self.consultation)
        item = replace(was, **stated)
        for problem in filter(None, self._list_problems(item)):
            raise Unusable(problem)
        if item == was:
            return was
        is_same = pick(item, *_WORK) == pick(was, *_WORK)
        jobs = was.jobs if is_same else ()
        return replace(item, consultation=self.consultation, jobs=jobs)

    def _list_problems(self, item: Item) -> Iterator[str]:
        yield find_overrides_problem(item.overrides)
        if item.config_ref and not _CONFIG.fullmatch(item.config_ref):
            yield f"config_ref {item.config_ref} is no name of a config"
        if len(item.depends_on) > _MOST_NAMES:
            yield f"it depends on more than {_MOST_NAMES} others"
        gpus, research = item.gpus or 0, self.research
        most = research.gpus if research.has_gpus else _MOST_GPUS
        if not 0 <= gpus <= most:
            wanted = plural(gpus, "GPU") if gpus <= _MOST_GPUS else "more GPUs"
            yield f"it wants {wanted}; it may want 0 to {most}"
        known = research.consultations.get(item.code_ref)
        is_own = item.code_ref in ("", self.consultation)
        if not is_own and (known is None or known.code is None):
            yield f"code_ref {item.code_ref} names no change of code"

    def _list_stuck(self, made: Mapping[str, Item]) -> Mapping[str, str]:
        """Items that could never begin, with the reason, but for those that are as they
        were. Persons' items, and those that the answer does not know, stay in the list
        whether it has them or not."""
        graph = {
            one.id: one.depends_on
            for one in self.research.items
            if one.is_persons or one.id not in self.listed
        }
        graph |= {name: one.depends_on for name, one in made.items()}
        runs = self.research.runs
        can_begin = runs.keys() | find_reachable(graph, runs)
        found = {}
        for name, item in made.items():
            waits = [clean_name(one) for one in item.depends_on if one not in can_begin]
            if item == self.research.find_item(name):
                continue
            if item.baseline_run and item.baseline_run not in {*graph, *can_begin}:
                found[name] = f"baseline_run {item.baseline_run} is no run"
            elif waits:
                found[name] = _describe_wait(name, waits[0], graph)
        return found


class Unusable(Exception):
    """Why an item is left out, for people."""


def _describe_wait(name: str, other: str, graph: Mapping[str, Sequence[str]]) -> str:
    if other == name:
        return "it depends on itself"
    if other not in graph:
        return f"it depends on {other}, which is no run and no item of the list"
    return f"it depends on {other}, which can never begin"


def _get_name(raw: Mapping[str, Any]) -> str:
    return clean_name(raw["id"])


def _find_twin(name: str, made: Mapping[str, object]) -> str:
    return "it stands there twice; the first counts" if name in made else ""


def find_name_problem(name: str) -> str:
    """Why an item or a hypothesis cannot be called so; empty: it can."""
    if not _NAME.fullmatch(name):
        return (
            "that is no name: at most 64 letters, digits and _ . -, the first of "
            "them a letter or a digit"
        )
    return "names like c1 and c1_x are those of calls" * bool(_OUR_NAME.fullmatch(name))


def read_criteria(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """What ends a run and what is expected of it, as far as it is stated, in canonical
    text; raises Unusable."""
    made, key = dict[str, str](), ""
    try:
        for key in _ITEM_CRITERIA:
            if (text := raw.get(key)) is not None:
                made[key] = text and _CANONICAL[key](text)
    except CriteriaRefused as refused:
        raise Unusable(f"its {key}: {refused.line}") from None
    return made


_CANONICAL: Final[Mapping[str, Callable[[str], str]]] = {
    "kill_criteria": lambda text: format_criteria(parse_criteria(text)),
    "expects": lambda text: str(parse_expectation(text)),
}
