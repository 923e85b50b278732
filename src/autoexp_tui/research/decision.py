"""What an answer would change, as numbered lines against the list and the runs as they
are now, and what is left of the lines that are to be done.

A line says all that is done by it: what no line shows is not done. Items of persons,
and items that entered the list after the agent was told of it, keep their place and
their content; a person's can only be removed by a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from autoexp_tui.research.state import Hypothesis, Item, Line, list_jobs
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import format_number, plural

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.research.options import ResearchOptions
    from autoexp_tui.research.state import (
        Consultation,
        LineOp,
        Research,
        Run,
        StatedHypothesis,
    )

ALL: Final = "*"
"""Among granted kinds: all of them."""
_BUDGET: Final = Line("budget", "budget", "", op="budget")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to be done about an answer; None: that stays."""

    items: tuple[Item, ...] | None = None
    """The whole list."""
    hypotheses: tuple[Hypothesis, ...] | None = None
    """All of them."""
    reflection: str | None = None
    kills: tuple[str, ...] = ()
    """Runs that are to be ended."""
    code: bool = False
    """Whether the change of code is approved."""


def list_lines(
    research: Research,
    consultation: Consultation,
    jobs: Mapping[str, JobRecord],
    over_budget: str = "",
) -> tuple[Line, ...]:
    """The lines of an answer of which nothing was applied; what is there already needs
    none. `over_budget`: what its new items would need beyond what is left, in words."""
    merge = _Merge(research, consultation)
    lines = [
        *merge.list_items(over_budget),
        *merge.list_removals(),
        *merge.list_order(),
        *_list_kills(research, consultation, jobs),
        *_list_code(research, consultation),
    ]
    if any(_BUDGET.key in line.needs for line in lines):
        lines.append(replace(_BUDGET, text=over_budget))
    return recheck_lines(research, consultation, jobs, lines)


def recheck_lines(
    research: Research,
    consultation: Consultation,
    jobs: Mapping[str, JobRecord],
    lines: Sequence[Line],
) -> tuple[Line, ...]:
    """The same lines as things are now; what was void stays so. A line is void, too,
    when one that it needs is not among them and was not applied before."""
    checker = _Checker(_Merge(research, consultation), jobs, lines)
    made, seen = [], set[str]()
    for line in lines:
        twice = "a line before is about the same" if line.key in seen else ""
        seen.add(line.key)
        void = line.void or twice or checker.find_reason(line)
        made.append(replace(line, text=checker.format_text(line), void=void))
    while lost := dict(checker.list_lacks(made)):
        made = [
            replace(line, void=lost[at]) if at in lost else line
            for at, line in enumerate(made)
        ]
    return tuple(made)


def split_lines(
    lines: Sequence[Line], options: ResearchOptions, granted: frozenset[str]
) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """Lines that are applied at once, and lines that a person is asked about; void
    ones are in neither. `granted`: kinds that were approved beforehand. Who needs a
    line that is asked about waits for it."""
    live = [line for line in lines if not line.void]
    asked = {line.key for line in live if _needs_approval(line, options, granted)}
    while more := {line.key for line in live if asked.intersection(line.needs)} - asked:
        asked |= more
    return (
        tuple(line for line in live if line.key not in asked),
        tuple(line for line in live if line.key in asked),
    )


def build_changes(
    research: Research,
    consultation: Consultation,
    lines: Sequence[Line],
    *,
    is_first: bool,
) -> Changes:
    """What these lines come to, applied to the list as it is now; void ones, and those
    that are void by now, change nothing. `is_first`: nothing of the answer was applied
    before; what it thinks is taken over then, and not once more."""
    checked = recheck_lines(research, consultation, {}, lines)
    live = [line for line in checked if not line.void]
    items = _Merge(research, consultation).build_list(live)
    made = Changes(
        items=None if items == research.items else items,
        kills=tuple(line.id for line in live if line.op == "kill"),
        code=any(line.op == "code" for line in live),
    )
    answer = consultation.answer
    if answer is None or not is_first:
        return made
    hypotheses = _merge_hypotheses(research, answer.hypotheses)
    is_same = hypotheses == tuple(research.hypotheses.values())
    return replace(
        made,
        hypotheses=None if is_same else hypotheses,
        reflection=answer.reflection or None,
    )


def _needs_approval(
    line: Line, options: ResearchOptions, granted: frozenset[str]
) -> bool:
    """That an item of a person's goes needs one whatever the options say."""
    if granted & {line.kind, ALL}:
        return False
    return line.op == "remove" or getattr(options.approve, line.kind) == "ask"


class _Merge:
    """The list of an answer beside the list as it is now."""

    def __init__(self, research: Research, consultation: Consultation) -> None:
        answer, items = consultation.answer, research.items
        self.research, self.consultation = research, consultation
        self.replaces: Final = answer is not None and answer.items is not None
        wanted = (answer.items or ()) if answer else ()
        self.wanted: Final = {one.id: one for one in wanted}
        self.now: Final = {one.id: one for one in items}
        self.movable: Final = [one.id for one in items if self._is_movable(one)]
        """Items of agents that the answer knows, in the order of the list."""
        self.kept: Final = [name for name in self.movable if name in self.wanted]

    def _is_movable(self, item: Item) -> bool:
        is_own = item.consultation == self.consultation.id
        return not item.is_persons and (is_own or item.id in self.consultation.listed)

    def list_items(self, over_budget: str) -> Iterator[Line]:
        """New items, and those with another content."""
        listed, own = self.consultation.listed, self.consultation.id
        new = [name for name in self.wanted if name not in listed]
        for at, (name, item) in enumerate(self.wanted.items()):
            now, run = self.now.get(name), self.research.runs.get(name)
            known = run.item if run else now
            is_edited = name in listed and now is not None and now.is_persons
            if is_edited or (known is not None and _is_same(known, item)):
                continue
            needs = [f"experiments {one}" for one in item.depends_on if one in new]
            needs += [f"code {own}"] * (item.code_ref == own)
            needs += [_BUDGET.key] * bool(over_budget)
            after = next((one for one in [*self.wanted][at:] if one in self.kept), "")
            op: LineOp = "add" if name in new else "change"
            before = f"  before {after}" if op == "add" and after else ""
            text = ("" if op == "add" else "change ") + _describe_item(item) + before
            yield Line("experiments", name, text, op=op, needs=tuple(needs))

    def list_removals(self) -> Iterator[Line]:
        gone = [name for name in self.now if name not in self.wanted]
        if not self.replaces or not gone:
            return
        if dropped := self.list_droppable(gone):
            yield Line("experiments", ",".join(dropped), "", op="drop")
        for name in gone:
            item = self.now[name]
            if item.is_persons and name in self.consultation.listed:
                verb = "edited" if item.consultation else "inserted"
                text = f"remove {name}, which {item.by or 'a person'} {verb}"
                yield Line("experiments", name, text, op="remove")

    def list_droppable(self, names: Collection[str]) -> list[str]:
        """Those that are agents', and that none needs which stays."""
        gone = {name for name in self.movable if name in names}
        staying = [*self.now.values(), *self.wanted.values()]
        while needed := gone.intersection(
            name for one in staying if one.id not in gone for name in one.depends_on
        ):
            gone -= needed
        return [name for name in self.movable if name in gone]

    def list_order(self) -> Iterator[Line]:
        known = self.research.is_known
        order = [one for one in self.wanted if one in self.kept or not known(one)]
        if self.is_disordered(order):
            yield Line("experiments", ",".join(order), "", op="order")

    def is_disordered(self, order: Sequence[str]) -> bool:
        places = [order.index(name) for name in self.kept if name in order]
        return places != sorted(places)

    def build_list(self, lines: Sequence[Line]) -> tuple[Item, ...]:
        """The list with these lines, which can be done."""
        named: dict[str, list[str]] = {}
        for line in lines:
            names = line.id.split(",")
            names = self.list_droppable(names) if line.op == "drop" else names
            named.setdefault(line.op, []).extend(names)
        contents, order = dict(self.now), _sort(self.kept, named.get("order", ()))
        for name in (*named.get("add", ()), *named.get("change", ())):
            contents[name] = self.wanted[name]
        for at in reversed(range(len(self.wanted))):
            name, *following = [*self.wanted][at:]
            if name in named.get("add", ()):
                after = next((one for one in following if one in order), "")
                order.insert(order.index(after) if after else len(order), name)
        gone = {*named.get("drop", ()), *named.get("remove", ()), *self.kept}
        for at, name in enumerate(self.now):
            if name not in gone:  # it has its place, as far as the list is so long
                order.insert(at, name)
        return tuple(contents[name] for name in order)


def _is_same(now: Item, item: Item) -> bool:
    """Whether an item of the list is as an answer has it."""
    return replace(item, jobs=now.jobs, consultation=now.consultation) == now


def _sort(names: Sequence[str], order: Sequence[str]) -> list[str]:
    """Those that `order` has, in its order, at the places that they take together."""
    ordered = iter([name for name in order if name in names])
    return [next(ordered) if name in order else name for name in names]


def _describe_item(item: Item) -> str:
    gpus = item.wanted_gpus
    parts = [
        item.id,
        " ".join(item.overrides),
        item.config_ref and f"config {item.config_ref}",
        plural(gpus, "GPU") if gpus else "",
        item.hypothesis and f"tests {item.hypothesis}",
        item.depends_on and f"after {', '.join(item.depends_on)}",
        item.kill_criteria and f"kill: {item.kill_criteria}",
        item.expects and f"expects {item.expects}",
        item.baseline_run and f"to beat {item.baseline_run}",
        item.code_ref and f"code of {item.code_ref}",
        item.note,
    ]
    return "  ".join(clean_line(part, 4096) for part in parts if part)


def _list_kills(
    research: Research, consultation: Consultation, jobs: Mapping[str, JobRecord]
) -> Iterator[Line]:
    for name in consultation.answer.kills if consultation.answer else ():
        run = research.runs.get(name)
        shown = _describe_progress(research, run, jobs) if run else ""
        text = f"end {name}: {shown}" if shown else f"end {name}"
        restarts = _count_restarts(run, jobs) if run else 0
        yield Line("kills", name, text, op="kill", restarts=restarts)


def _count_restarts(run: Run, jobs: Mapping[str, JobRecord]) -> int:
    return sum(max(0, len(job.attempts) - 1) for job in list_jobs(run, jobs))


def _describe_progress(
    research: Research, run: Run, jobs: Mapping[str, JobRecord]
) -> str:
    """The step and the objective's value that a run told last."""
    told = [job.noted for job in list_jobs(run, jobs) if job.noted]
    if not told:
        return "no metric yet"
    value = told[-1].values.get(research.metric)
    if value is None:
        return f"step {told[-1].step}"
    shown = value if isinstance(value, str) else format_number(value)
    return f"step {told[-1].step}, {research.metric} {shown}"


def _list_code(research: Research, consultation: Consultation) -> Iterator[Line]:
    change, name = consultation.code, consultation.id
    if change is not None and name not in research.code_approved:
        stat = clean_line("; ".join(change.diffstat.splitlines()))
        yield Line("code", name, stat or plural(change.files, "file"), op="code")


@dataclass(frozen=True, slots=True)
class _Checker:
    """Lines against what is there now."""

    merge: _Merge
    jobs: Mapping[str, JobRecord]
    lines: Sequence[Line]

    @property
    def research(self) -> Research:
        return self.merge.research

    def find_reason(self, line: Line) -> str:
        """Why a line cannot be done, by itself; empty: it can."""
        find: Mapping[LineOp, Callable[[Line], str]] = {
            "add": self._check_new,
            "change": self._check_change,
            "drop": self._check_drop,
            "remove": self._check_removal,
            "order": self._check_order,
            "kill": self._check_kill,
            "code": self._check_code,
        }
        return find[line.op](line) if line.op in find else ""

    def format_text(self, line: Line) -> str:
        """Of a line about several items: those that are left."""
        if line.op == "drop":
            names = self.merge.list_droppable(line.id.split(","))
            return f"drop {', '.join(names or line.id.split(','))}"
        if line.op == "order":
            return f"order: {', '.join(line.id.split(','))}"
        return line.text

    def list_lacks(self, lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
        """Lines that cannot be done because others cannot, that they need."""
        there = {one.key for one in lines if not one.void}
        for at, line in enumerate(lines):
            lacks = [one for one in line.needs if one not in there]
            lack = next((one for one in lacks if not self._is_applied(one)), "")
            if lack and not line.void:
                yield at, f'it needs the line of "{lack}", which is not applied'

    def _is_applied(self, key: str) -> bool:
        """Whether a line of this answer was applied before."""
        kind, _, name = key.partition(" ")
        if kind == "code":
            return name in self.research.code_approved
        run, item = self.research.runs.get(name), self.merge.now.get(name)
        known = run.item if run else item
        return known is not None and known.consultation == self.merge.consultation.id

    def _check_new(self, line: Line) -> str:
        if self._is_applied(line.key):
            return "it was applied already"
        if line.id in self.merge.now:
            return "another item got this name meanwhile"
        if line.id in self.research.runs:
            return "a run got this name meanwhile"
        return self._check_item(line)

    def _check_change(self, line: Line) -> str:
        item = self.merge.now.get(line.id)
        if item is None:
            return self._find_gone(line)
        if item.is_persons:
            return f"{item.by or 'a person'} edited it meanwhile"
        if _is_same(item, self.merge.wanted[line.id]):
            return "it was applied already"
        return self._check_item(line)

    def _check_item(self, line: Line) -> str:
        """What an item needs beyond other lines, and has not."""
        item, own = self.merge.wanted[line.id], self.merge.consultation
        others = (one for one in self.research.items if one.id != item.id)
        taken = {*self.jobs, *(job.name for one in others for job in one.jobs)}
        for job in item.jobs:
            if job.name in taken:
                return f"another job got the name {job.name} meanwhile"
        for name in item.depends_on:
            is_line = f"experiments {name}" in line.needs
            if not is_line and not self.research.is_known(name):
                return f"it depends on {name}, which is gone"
        if item.code_ref == own.id:
            return "" if own.code else "the call changed no code"
        is_approved = item.code_ref in ("", *self.research.code_approved)
        return "" if is_approved else f"the code of {item.code_ref} is not approved"

    def _check_drop(self, line: Line) -> str:
        left = self.merge.list_droppable(line.id.split(","))
        return "" if left else "none of them can be dropped"

    def _check_removal(self, line: Line) -> str:
        merge, changed = self.merge, ("add", "change")
        new = [merge.wanted[one.id] for one in self.lines if one.op in changed]
        staying = [one for one in merge.now.values() if one.id != line.id]
        needing = (one for one in (*staying, *new) if line.id in one.depends_on)
        other = next(needing, None)
        lack = f"{other.id} depends on it" if other else ""
        return self._find_gone(line) or lack or self._find_asked(line)

    def _find_asked(self, line: Line) -> str:
        """Whether a person is asked about it already."""
        known, mine = self.research.list_open("research"), self.merge.consultation
        for one in known:
            if one.number < mine.number and line.key in {at.key for at in one.asked}:
                return f"{one.id} asks for it already"
        return ""

    def _find_gone(self, line: Line) -> str:
        if line.id in self.research.runs:
            return "it has started meanwhile"
        is_there = line.id in self.merge.now
        return "" if is_there else "it was removed from the list meanwhile"

    def _check_order(self, line: Line) -> str:
        is_wrong = self.merge.is_disordered(line.id.split(","))
        return "" if is_wrong else "the list has this order"

    def _check_kill(self, line: Line) -> str:
        run = self.research.runs.get(line.id)
        if run is not None and run.ended:
            return f"it has ended: {run.ended.outcome}"
        if run is not None:
            if _count_restarts(run, self.jobs) > line.restarts:
                return "it was started anew meanwhile"
            return self._find_asked(line)
        is_item = line.id in self.merge.now
        return "it has not started" if is_item else "there is no such run"

    def _check_code(self, line: Line) -> str:
        approved = line.id in self.research.code_approved
        return "it is approved already" if approved else ""


def _merge_hypotheses(
    research: Research, stated: Sequence[StatedHypothesis]
) -> tuple[Hypothesis, ...]:
    """What an answer says of them, beside what runs have shown. None is confirmed by
    words whose last runs in a row have failed it."""
    made = dict(research.hypotheses)
    for one in stated:
        known = made.get(one.id, Hypothesis(id=one.id))
        failures, most = known.consecutive_failures, research.options.falsified_after
        is_shown = one.status != "confirmed" or failures < most
        made[one.id] = replace(
            known,
            description=one.description,
            status=one.status if is_shown else known.status,
            expects=one.expects,
        )
    return tuple(made.values())
