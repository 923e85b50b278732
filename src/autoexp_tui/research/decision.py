"""What an answer would change, as numbered lines against the list and the runs as they
are now, and what is left of the lines that are to be done.

A line says all that is done by it: what no line shows is not done. Items of persons,
and items that entered the list after the agent was told of it, keep their place and
their content; a person's can only be removed by a line of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from autoexp_tui.planning.overrides import read_override_key
from autoexp_tui.research.state import Consultation, Hypothesis, Item, Line, list_jobs
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import format_number, plural

if TYPE_CHECKING:
    from autoexp_tui.model.state import JobRecord
    from autoexp_tui.research.options import ResearchOptions
    from autoexp_tui.research.state import LineOp, Research, Run, StatedHypothesis

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
    """The lines of an answer; what is there already needs none. `over_budget`: what
    its new items would need beyond what is left, in words."""
    if consultation.role == "fixer":
        lines = [*_list_fix(research, consultation)]
    else:
        lines = [
            *_list_items(research, consultation, over_budget),
            *_list_removals(research, consultation),
            *_list_order(research, consultation),
            *_list_kills(research, consultation, jobs),
            *_list_code(research, consultation),
        ]
        if over_budget and any(_BUDGET.key in line.needs for line in lines):
            lines.append(replace(_BUDGET, text=over_budget))
    return recheck_lines(research, consultation, jobs, lines)


def recheck_lines(
    research: Research,
    consultation: Consultation,
    jobs: Mapping[str, JobRecord],
    lines: Sequence[Line],
) -> tuple[Line, ...]:
    """The same lines as things are now; what was void stays so. A line is void, too,
    when one that it needs is not among them and was not done before."""
    made, seen = [], set[str]()
    checker = _Checker(research, consultation, jobs, lines)
    for line in lines:
        void = "a line before is about the same" if line.key in seen else ""
        seen.add(line.key)
        void = line.void or void or checker.find_reason(line)
        made.append(replace(line, text=checker.narrow(line), void=void))
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
    has_code = any(line.op in ("code", "fix") for line in live)
    made = Changes(
        kills=tuple(line.id for line in live if line.op == "kill"),
        code=has_code and consultation.code is not None,
    )
    answer = consultation.answer
    if answer is None or consultation.role == "fixer":
        return made
    items = _build_list(research, consultation, live)
    made = replace(made, items=None if items == research.items else items)
    if not is_first:
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
    """A fix of what it may set needs none; that an item of a person's goes does."""
    if granted & {line.kind, ALL} or (line.op == "fix" and line.kind == "experiments"):
        return False
    return line.op == "remove" or getattr(options.approve, line.kind) == "ask"


# What an answer would change.


def _find_wanted(consultation: Consultation) -> Mapping[str, Item]:
    """The list of an answer, by ids; empty where the list stays."""
    answer = consultation.answer
    return {one.id: one for one in (answer.items or ())} if answer else {}


def _replaces_list(consultation: Consultation) -> bool:
    return consultation.answer is not None and consultation.answer.items is not None


def _is_agents(item: Item, consultation: Consultation) -> bool:
    """Whether an answer decides about an item of the list."""
    is_known = item.id in consultation.listed or item.consultation == consultation.id
    return is_known and not item.is_persons


def _list_items(
    research: Research, consultation: Consultation, over_budget: str
) -> Iterator[Line]:
    """New items, and those with another content."""
    wanted, free = _find_wanted(consultation), _find_free(research, consultation)
    for at, (name, item) in enumerate(wanted.items()):
        now, run = research.find_item(name), research.runs.get(name)
        known = run.item if run else now
        is_listed = name in consultation.listed
        if known and (_is_same(known, item) or (is_listed and now and now.is_persons)):
            continue
        new = [one for one in wanted if one not in consultation.listed]
        needs = [f"experiments {one}" for one in item.depends_on if one in new]
        needs += [f"code {consultation.id}"] * (item.code_ref == consultation.id)
        needs += [_BUDGET.key] * bool(over_budget)
        op: LineOp = "change" if is_listed else "add"
        text = _describe_item(item)
        after = next((one for one in list(wanted)[at:] if one in free), "")
        text = f"{text}  before {after}" if after and op == "add" else text
        text = f"change {text}" if op == "change" else text
        yield Line("experiments", name, text, op=op, needs=tuple(needs))


def _is_same(now: Item, item: Item) -> bool:
    """Whether an item of the list is as an answer has it."""
    return replace(item, jobs=now.jobs, consultation=now.consultation) == now


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


def _list_removals(research: Research, consultation: Consultation) -> Iterator[Line]:
    wanted = _find_wanted(consultation)
    if not _replaces_list(consultation):
        return
    gone = [one for one in research.items if one.id not in wanted]
    own = [one.id for one in gone if _is_agents(one, consultation)]
    if dropped := _find_droppable(research, consultation, own):
        yield Line("experiments", ",".join(dropped), "", op="drop")
    for one in gone:
        if one.is_persons and one.id in consultation.listed:
            verb = "edited" if one.consultation else "inserted"
            text = f"remove {one.id}, which {one.by or 'a person'} {verb}"
            yield Line("experiments", one.id, text, op="remove")


def _find_droppable(
    research: Research, consultation: Consultation, names: Collection[str]
) -> list[str]:
    """Those of the agent's items that are in the list, and that none needs which
    stays."""
    now = [one for one in research.items if _is_agents(one, consultation)]
    gone = {one.id for one in now if one.id in names}
    staying = [*research.items, *_find_wanted(consultation).values()]
    while needed := gone.intersection(
        name for one in staying if one.id not in gone for name in one.depends_on
    ):
        gone -= needed
    return [one.id for one in now if one.id in gone]


def _list_order(research: Research, consultation: Consultation) -> Iterator[Line]:
    wanted, free = _find_wanted(consultation), _find_free(research, consultation)
    order = [one for one in wanted if one in free or not research.is_known(one)]
    if _is_disordered(research, consultation, order):
        yield Line("experiments", ",".join(order), "", op="order")


def _is_disordered(
    research: Research, consultation: Consultation, order: Sequence[str]
) -> bool:
    place = {name: at for at, name in enumerate(order)}
    places = [place[one] for one in _find_free(research, consultation) if one in place]
    return places != sorted(places)


def _find_free(research: Research, consultation: Consultation) -> list[str]:
    """Items of the list that an answer may move, in the order of the list."""
    wanted = _find_wanted(consultation)
    mine = (one.id for one in research.items if _is_agents(one, consultation))
    return [name for name in mine if name in wanted]


def _list_kills(
    research: Research, consultation: Consultation, jobs: Mapping[str, JobRecord]
) -> Iterator[Line]:
    for name in consultation.answer.kills if consultation.answer else ():
        run = research.runs.get(name)
        shown = _describe_progress(research, run, jobs) if run else ""
        text = f"end {name}: {shown}" if shown else f"end {name}"
        yield Line("kills", name, text, op="kill")


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
    change = consultation.code
    if change is not None and consultation.id not in research.code_approved:
        yield Line("code", consultation.id, _describe_code(consultation), op="code")


def _describe_code(consultation: Consultation) -> str:
    change = consultation.code
    if change is None:
        return ""
    stat = clean_line(change.diffstat)
    return "  ".join(filter(None, [f"code: {plural(change.files, 'file')}", stat]))


def _list_fix(research: Research, consultation: Consultation) -> Iterator[Line]:
    """The fix, which asks when it goes beyond what it may set."""
    fix, patterns = consultation.fix, research.options.fixer.may_override
    if fix is None or not (fix.fix_applied or fix.overrides or consultation.code):
        return
    keys = map(read_override_key, fix.overrides)
    is_free = consultation.code is None and all(
        any(fnmatchcase(key, pattern) for pattern in patterns) for key in keys
    )
    parts = (fix.fix_applied, " ".join(fix.overrides), _describe_code(consultation))
    text = "  ".join([f"fix {fix.run}:", *filter(None, parts)])
    yield Line("experiments" if is_free else "code", fix.run, text, op="fix")


# Whether it still can be done.


@dataclass(frozen=True, slots=True)
class _Checker:
    """The lines of an answer against what is there now."""

    research: Research
    consultation: Consultation
    jobs: Mapping[str, JobRecord]
    lines: Sequence[Line]

    def find_reason(self, line: Line) -> str:
        """Why a line cannot be done, by itself; empty: it can."""
        match line.op:
            case "add":
                return self._find_name_taken(line.id) or self._find_lack(line)
            case "change":
                return self._find_no_change(line.id) or self._find_lack(line)
            case "drop":
                return "" if self._find_dropped(line) else "none of them can be dropped"
            case "remove":
                return self._find_no_removal(line.id)
            case "order":
                order = line.id.split(",")
                is_wrong = _is_disordered(self.research, self.consultation, order)
                return "" if is_wrong else "the list has this order"
            case "kill":
                return self._find_no_kill(line.id)
            case "code":
                if self.consultation.code is None:
                    return "the call changed no code"
                approved = line.id in self.research.code_approved
                return "it is approved already" if approved else ""
            case "fix":
                run = self.research.runs.get(line.id)
                if run is None or run.ended is None:
                    return "no run of this name has failed"
                again = run.fix_relaunch
                return f"{again} repeats it already" if again else ""
        return ""

    def narrow(self, line: Line) -> str:
        """The text of a line about several items, with those that are left."""
        if line.op == "drop":
            names = self._find_dropped(line) or line.id.split(",")
            return f"drop {', '.join(names)}"
        if line.op == "order":
            return f"order: {line.id.replace(',', ', ')}"
        return line.text

    def list_lacks(self, lines: Sequence[Line]) -> Iterator[tuple[int, str]]:
        """Lines that cannot be done because others cannot, that they need."""
        there = {one.key for one in lines if not one.void}
        for at, line in enumerate(lines):
            lacks = [one for one in line.needs if one not in there]
            lack = next((one for one in lacks if not self._is_done(one)), "")
            if lack and not line.void:
                yield at, f'it needs the line of "{lack}", which is not applied'

    def _is_done(self, key: str) -> bool:
        """Whether a line of this answer was applied before."""
        kind, _, name = key.partition(" ")
        if kind == "code":
            return name in self.research.code_approved
        run, item = self.research.runs.get(name), self.research.find_item(name)
        known = run.item if run else item
        return known is not None and known.consultation == self.consultation.id

    def _find_dropped(self, line: Line) -> list[str]:
        names = line.id.split(",")
        return _find_droppable(self.research, self.consultation, names)

    def _find_name_taken(self, name: str) -> str:
        item = self.research.find_item(name)
        if item is not None and item.consultation == self.consultation.id:
            return "it is in the list already"
        if item is not None:
            return "another item got this name meanwhile"
        if name in self.research.runs:
            return "a run got this name meanwhile"
        planned = (job.name for one in self.research.items for job in one.jobs)
        return self._find_job_taken(name, {*planned, *self.jobs})

    def _find_job_taken(self, name: str, taken: Collection[str]) -> str:
        jobs = _find_wanted(self.consultation)[name].jobs
        found = next((job.name for job in jobs if job.name in taken), "")
        return f"another job got the name {found} meanwhile" if found else ""

    def _find_no_change(self, name: str) -> str:
        item, wanted = self.research.find_item(name), _find_wanted(self.consultation)
        if gone := self._find_gone(name):
            return gone
        if item is None or item.is_persons:
            return f"{item.by if item else 'a person'} edited it meanwhile"
        if _is_same(item, wanted[name]):
            return "the item is so already"
        others = (one for one in self.research.items if one.id != name)
        planned = {job.name for one in others for job in one.jobs}
        return self._find_job_taken(name, {*planned, *self.jobs})

    def _find_gone(self, name: str) -> str:
        if name in self.research.runs:
            return "it has started meanwhile"
        is_there = self.research.find_item(name)
        return "" if is_there else "it was removed from the list meanwhile"

    def _find_lack(self, line: Line) -> str:
        """What an item needs beyond other lines, and has not."""
        item = _find_wanted(self.consultation)[line.id]
        for name in item.depends_on:
            is_line = f"experiments {name}" in line.needs
            if not is_line and not self.research.is_known(name):
                return f"it depends on {name}, which is gone"
        ref = item.code_ref
        if ref == self.consultation.id and self.consultation.code is None:
            return "the call changed no code"
        is_own = ref in ("", self.consultation.id)
        if is_own or ref in self.research.code_approved:
            return ""
        return f"the code of {ref} is not approved"

    def _find_no_removal(self, name: str) -> str:
        if gone := self._find_gone(name):
            return gone
        staying = [one for one in self.research.items if one.id != name]
        wanted = _find_wanted(self.consultation)
        new = [wanted[line.id] for line in self.lines if line.op in ("add", "change")]
        needing = (one.id for one in (*staying, *new) if name in one.depends_on)
        other = next(needing, "")
        return f"{other} depends on it" if other else ""

    def _find_no_kill(self, name: str) -> str:
        run = self.research.runs.get(name)
        if run is not None:
            return f"it has ended: {run.ended.outcome}" if run.ended else ""
        is_item = self.research.find_item(name) is not None
        return "it has not started" if is_item else "there is no such run"


# What the lines come to.


def _build_list(
    research: Research, consultation: Consultation, lines: Sequence[Line]
) -> tuple[Item, ...]:
    """The list with these lines, which can be done."""
    wanted, now = _find_wanted(consultation), research.items
    named = {op: [one.id for one in lines if one.op == op] for op in _OPS}
    contents = {one.id: one for one in now}
    for name in (*named["add"], *named["change"]):
        contents[name] = _keep_plan(wanted[name], contents.get(name))
    gone = set(named["remove"])
    for names in named["drop"]:
        gone |= set(_find_droppable(research, consultation, names.split(",")))
    free = _find_free(research, consultation)
    fixed = [
        (at, one.id)
        for at, one in enumerate(now)
        if one.id not in free and one.id not in gone
    ]
    for names in named["order"]:
        free = _sort_free(free, names.split(","))
    order = _insert_new(free, named["add"], list(wanted))
    for at, name in fixed:  # each at its place, as far as the list is so long
        order.insert(at, name)
    return tuple(contents[name] for name in order)


_OPS: Final = ("add", "change", "drop", "remove", "order")


def _keep_plan(item: Item, now: Item | None) -> Item:
    """An item of an answer with what only the list knows of it."""
    if now is None:
        return item
    return replace(item, fixes=now.fixes, jobs=item.jobs or now.jobs)


def _sort_free(names: Sequence[str], order: Sequence[str]) -> list[str]:
    """Those that `order` has, in its order, at the places that they take together."""
    place = {name: at for at, name in enumerate(order)}
    ordered = iter(sorted(place.keys() & set(names), key=place.__getitem__))
    return [next(ordered) if one in place else one for one in names]


def _insert_new(
    names: Sequence[str], new: Collection[str], order: Sequence[str]
) -> list[str]:
    """`new` put before what follows them in `order`, or at the end."""
    made = list(names)
    for at in reversed(range(len(order))):
        if order[at] in new:
            after = next((one for one in order[at + 1 :] if one in made), "")
            made.insert(made.index(after) if after else len(made), order[at])
    return made


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
