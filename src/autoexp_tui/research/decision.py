"""What an answer would change, as numbered lines against the list and the runs as they
are now, and what is left of the lines that are to be done.

A line says all that is done by it: what no line shows is not done. Items of persons,
and items that entered the list after the agent was told of it, keep their place and
their content; a person's can only be removed by a line of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from autoexp_tui.research.state import Hypothesis, Item, Line, list_jobs
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import duration, format_number, plural

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.research.options import ResearchOptions
    from autoexp_tui.research.state import Consultation, LineOp, Research, Run

ALL: Final = "*"
"""Among granted kinds: all of them."""
TOO_LATE: Final = "the research has ended"
"""Nothing is done any more then, and nobody asked."""
_BUDGET: Final = Line("budget", "budget", "", op="budget")


class Proposal:
    """An answer beside the list and the runs as they are now."""

    def __init__(
        self,
        research: Research,
        consultation: Consultation,
        jobs: Mapping[str, JobRecord],
        t: float = 0.0,
    ) -> None:
        """`t`: now, by which the age of metrics is told."""
        self.research, self.consultation = research, consultation
        self.jobs, self.t = jobs, t
        answer = consultation.answer
        self.order: Final = answer.order if answer else None
        stated = (answer.items or ()) if answer else ()
        self.stated: Final = {one.id: one for one in stated}
        self.now: Final = {one.id: one for one in research.items}
        self.movable: Final = [n for n, one in self.now.items() if self._may_move(one)]
        """Items of agents that the answer knows, in the order of the list."""
        order = self._stated_order
        self.kept: Final = [name for name in self.movable if name in order]

    @property
    def _stated_order(self) -> tuple[str, ...]:
        return self.order or ()

    def _may_move(self, item: Item) -> bool:
        is_known = self._is_own(item) or item.id in self.consultation.listed
        return is_known and not item.is_persons

    def _is_own(self, item: Item | None) -> bool:
        """Whether a line of this answer brought it, or changed it."""
        return item is not None and item.consultation == self.consultation.id

    def _find_known(self, name: str) -> Item | None:
        run = self.research.runs.get(name)
        return run.item if run else self.now.get(name)

    # The lines

    def list_lines(self, over_budget: str = "") -> tuple[Line, ...]:
        """All of them, while nothing of the answer was applied; what is there already
        needs none. `over_budget`: what its new items would need beyond what is left,
        in words."""
        lines = [
            *self._list_items(over_budget),
            *self._list_removals(),
            *self._list_order(),
            *self._list_kills(),
            *self._list_code(),
        ]
        if any(_BUDGET.key in line.needs for line in lines):
            lines.append(replace(_BUDGET, text=over_budget))
        return self.recheck(lines)

    def _list_items(self, over_budget: str) -> Iterator[Line]:
        """New items, and those with another content."""
        listed, own = self.consultation.listed, self.consultation.id
        new = [name for name in self.stated if name not in listed]
        for name, item in self.stated.items():
            now = self.now.get(name)
            if name in listed and now is not None and now.is_persons:
                continue  # edited meanwhile
            needs = [f"experiments {one}" for one in item.depends_on if one in new]
            needs += [f"code {own}"] * (item.code_ref == own)
            needs += [_BUDGET.key] * bool(over_budget)
            behind = self._stated_order[self._stated_order.index(name) :]
            after = next((one for one in behind if one in self.kept), "")
            op: LineOp = "add" if name in new else "change"
            before = f"  before {after}" if op == "add" and after else ""
            text = ("" if op == "add" else "change ") + _describe_item(item) + before
            yield Line("experiments", name, text, op=op, needs=tuple(needs))

    def _list_removals(self) -> Iterator[Line]:
        gone = [name for name in self.now if name not in self._stated_order]
        if self.order is None or not gone:
            return
        if dropped := self._list_droppable(gone):
            yield Line("experiments", ",".join(dropped), "", op="drop")
        for name in gone:
            item = self.now[name]
            if item.is_persons and name in self.consultation.listed:
                verb = "edited" if item.consultation else "inserted"
                text = f"remove {name}, which {item.by or 'a person'} {verb}"
                yield Line("experiments", name, text, op="remove")

    def _list_droppable(self, names: Collection[str]) -> list[str]:
        """Those that are agents', and that none needs which stays."""
        gone = {name for name in self.movable if name in names}
        staying = [*self.now.values(), *self.stated.values()]
        while needed := gone.intersection(
            name for one in staying if one.id not in gone for name in one.depends_on
        ):
            gone -= needed
        return [name for name in self.movable if name in gone]

    def _list_order(self) -> Iterator[Line]:
        known = self.research.is_known
        new = [name for name in self.stated if not known(name)]
        order = [one for one in self._stated_order if one in self.kept or one in new]
        if self._is_disordered(order):
            yield Line("experiments", ",".join(order), "", op="order")

    def _is_disordered(self, order: Sequence[str]) -> bool:
        places = [order.index(name) for name in self.kept if name in order]
        return places != sorted(places)

    def _list_kills(self) -> Iterator[Line]:
        for name in self.consultation.answer.kills if self.consultation.answer else ():
            run = self.research.runs.get(name)
            shown = f": {self._describe_progress(run)}" if run else ""
            yield Line("kills", name, f"end {name}{shown}", op="kill")

    def _describe_progress(self, run: Run) -> str:
        """The step and the objective's value that a run told last, and how long ago."""
        told = [job for job in list_jobs(run, self.jobs) if job.noted]
        if not told or (noted := told[-1].noted) is None:
            return "no metric yet"
        parts, value = [f"step {noted.step}"], noted.values.get(self.research.metric)
        if value is not None:
            shown = value if isinstance(value, str) else format_number(value)
            parts.append(f"{self.research.metric} {shown}")
        age = self.t - told[-1].noted_at
        return ", ".join([*parts, *([f"{duration(age)} ago"] if age >= 1 else [])])

    def _list_code(self) -> Iterator[Line]:
        change, name = self.consultation.code, self.consultation.id
        if change is not None and name not in self.research.code_approved:
            stat = clean_line("; ".join(change.diffstat.splitlines()))
            yield Line("code", name, stat or plural(change.files, "file"), op="code")

    # What is left of them

    def recheck(self, lines: Sequence[Line]) -> tuple[Line, ...]:
        """The same lines as things are now; what was void stays so. A line is void,
        too, when one that it needs is not among them and was not applied before."""
        made, seen = list[Line](), set[str]()
        for line in lines:
            twice = "a line before is about the same" if line.key in seen else ""
            seen.add(line.key)
            void = line.void or twice or self._find_reason(line, lines)
            made.append(replace(line, text=self._format_text(line), void=void))
        while lost := dict(self._list_lacks(made)):
            made = [
                replace(line, void=lost[at]) if at in lost else line
                for at, line in enumerate(made)
            ]
        return tuple(made)

    def _format_text(self, line: Line) -> str:
        """Of a line about several items: those that are left."""
        names = line.id.split(",")
        if line.op == "drop":
            return f"drop {', '.join(self._list_droppable(names) or names)}"
        return f"order: {', '.join(names)}" if line.op == "order" else line.text

    def _list_lacks(self, lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
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
        return self._is_own(self._find_known(name))

    def _find_reason(self, line: Line, lines: Sequence[Line]) -> str:
        """Why a line cannot be done, by itself; empty: it can."""
        match line.op:
            case _ if self.research.stopped:
                return TOO_LATE
            case "add":
                return self._check_new(line) or self._check_item(line)
            case "change":
                return self._check_change(line) or self._check_item(line)
            case "drop":
                left = self._list_droppable(line.id.split(","))
                return "" if left else "none of them can be dropped"
            case "remove":
                return self._check_removal(line, lines) or self._find_asked(line)
            case "order":
                is_wrong = self._is_disordered(line.id.split(","))
                return "" if is_wrong else "the list has this order"
            case "kill":
                return self._check_kill(line) or self._find_asked(line)
            case "code" if line.id in self.research.code_approved:
                return "it is approved already"
        return ""

    def _check_new(self, line: Line) -> str:
        if self._is_applied(line.key):
            return "it was applied already"
        if line.id in self.now:
            return "another item got this name meanwhile"
        is_run = line.id in self.research.runs
        return "a run got this name meanwhile" if is_run else ""

    def _check_change(self, line: Line) -> str:
        item = self.now.get(line.id)
        if item is None:
            return self._find_gone(line)
        if item.is_persons:
            return f"{item.by or 'a person'} edited it meanwhile"
        return "it was applied already" if self._is_own(item) else ""

    def _check_item(self, line: Line) -> str:
        """What an item needs beyond other lines, and has not."""
        item, own = self.stated[line.id], self.consultation
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

    def _check_removal(self, line: Line, lines: Sequence[Line]) -> str:
        new = [self.stated[one.id] for one in lines if one.op in ("add", "change")]
        staying = [one for one in self.now.values() if one.id != line.id]
        needing = (one for one in (*staying, *new) if line.id in one.depends_on)
        other = next(needing, None)
        return self._find_gone(line) or (f"{other.id} depends on it" if other else "")

    def _find_asked(self, line: Line) -> str:
        """Whether a person is asked about it already."""
        for one in self.research.list_open("research"):
            is_before = one.number < self.consultation.number
            if is_before and line.key in {asked.key for asked in one.asked}:
                return f"{one.id} asks for it already"
        return ""

    def _find_gone(self, line: Line) -> str:
        if line.id in self.research.runs:
            return "it has started meanwhile"
        return "" if line.id in self.now else "it was removed from the list meanwhile"

    def _check_kill(self, line: Line) -> str:
        run = self.research.runs.get(line.id)
        if run is None:
            is_item = line.id in self.now
            return "it has not started" if is_item else "there is no such run"
        if run.ended:
            return f"it has ended: {run.ended.outcome}"
        if self._is_anew(run):
            return "it was started anew meanwhile"
        jobs = list_jobs(run, self.jobs)
        told = (one.attempt and one.attempt.is_told_to_end for one in jobs)
        is_ending = bool(jobs) and all(
            job.ended or is_told for job, is_told in zip(jobs, told, strict=True)
        )
        return "it is being ended already" if is_ending else ""

    def _is_anew(self, run: Run) -> bool:
        """Whether what runs is not what the agent was told of, whoever approves it: an
        attempt was ordered after another since its call was opened."""
        since = self.consultation.opened_at
        attempts = (it for job in list_jobs(run, self.jobs) for it in job.attempts)
        return any(one.number > 1 and one.ordered_at >= since for one in attempts)

    # What they come to

    def order_items(self, lines: Sequence[Line]) -> tuple[list[str] | None, list[str]]:
        """The list with these lines, which can be done, by its items' ids (None: it
        stays), and of them those that are as the answer has them."""
        named: dict[str, list[str]] = {}
        for line in lines:
            names = line.id.split(",")
            names = self._list_droppable(names) if line.op == "drop" else names
            named.setdefault(line.op, []).extend(names)
        new, order = named.get("add", []), _sort(self.kept, named.get("order", ()))
        for at in reversed(range(len(self._stated_order))):
            name, *behind = self._stated_order[at:]
            if name in new:
                after = next((one for one in behind if one in order), "")
                order.insert(order.index(after) if after else len(order), name)
        gone = {*named.get("drop", ()), *named.get("remove", ()), *self.kept}
        for at, name in enumerate(self.now):
            if name not in gone:  # it has its place, as far as the list is so long
                order.insert(at, name)
        taken = [*new, *named.get("change", ())]
        return (order if taken or order != [*self.now] else None), taken

    def merge_hypotheses(self) -> tuple[Hypothesis, ...] | None:
        """What the answer says of them, beside what runs have shown; None: nothing
        else than is known. None is confirmed by words whose last runs in a row have
        failed it."""
        known, answer = self.research.hypotheses, self.consultation.answer
        made, most = dict(known), self.research.options.falsified_after
        for one in answer.hypotheses if answer else ():
            was = known.get(one.id, Hypothesis(id=one.id))
            is_shown = one.status != "confirmed" or was.consecutive_failures < most
            made[one.id] = replace(
                was,
                description=one.description,
                status=one.status if is_shown else was.status,
                expects=one.expects,
            )
        return None if made == known else tuple(made.values())


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


def _needs_approval(
    line: Line, options: ResearchOptions, granted: frozenset[str]
) -> bool:
    """That an item of a person's goes needs one whatever the options say."""
    if granted & {line.kind, ALL}:
        return False
    return line.op == "remove" or getattr(options.approve, line.kind) == "ask"


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
