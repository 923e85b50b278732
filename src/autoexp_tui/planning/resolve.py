"""All jobs of a plan, each made after those it reads.

A job that asks for another one is put aside until that one is made: no graph has to be
known beforehand, and a ring shows itself by coming back to a job that is put aside.
Composed configs are large, so only the latest are held; an older one that is asked for
is composed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.wording import plural
from autoexp_tui.planning.dag import format_ring
from autoexp_tui.planning.job_builder import JobBuilder
from autoexp_tui.planning.job_config import Record, SessionWide
from autoexp_tui.planning.job_state import MOST_FAILED, Draft, Needs, Refused
from autoexp_tui.planning.ports import Composer, ConfigView, SpecParser
from autoexp_tui.planning.references import (
    DroppedJob,
    Identity,
    read_accessor,
)
from autoexp_tui.sweep.expand import Expansion
from autoexp_tui.sweep.families import Families, UnusableJob, label_point
from autoexp_tui.sweep.filters import Place, list_places
from autoexp_tui.sweep.points import DeferredFilter

_HELD_VIEWS: Final = 64


@dataclass(slots=True)
class _AlikeRings:
    """The first of several rings that are alike."""

    at: int
    """Where it stands among the problems."""
    problem: Problem
    more: int = 0


class Resolution:
    """Makes the jobs of an expanded sweep; findings are gathered."""

    def __init__(
        self,
        expansion: Expansion,
        composer: Composer,
        parser: SpecParser,
        *,
        metadata_keys: Collection[str] = (),
        session: SessionWide | None = None,
        record: Record | None = None,
    ) -> None:
        """See `JobBuilder`; `metadata_keys`: what log rules extract."""
        self.families = Families(expansion.points, expansion.removed, expansion.doubted)
        self.doubted = set(expansion.doubted)
        """Positions of jobs that a filter which cannot be read may be meant to take."""
        self.metadata_keys = metadata_keys
        self.drafts: dict[int, Draft] = {}
        self.dropped: dict[int, DeferredFilter] = {}
        """Position -> the filter that dropped it after composing."""
        self.problems: list[Problem] = []
        self.in_doubt: list[Problem] = []
        """What is wrong with jobs of `doubted`."""
        self.warnings: list[Problem] = []
        self._failed: set[int] = set()
        self._rings: dict[tuple[object, ...], _AlikeRings] = {}
        self._views: OrderedDict[int, ConfigView] = OrderedDict()
        self._read: dict[tuple[int, str], object] = {}
        self._postponed: list[tuple[Draft, ConfigView]] = []
        self._composer = composer
        session = session or SessionWide()
        self._builder = JobBuilder(self, composer, parser, session, record)

    def resolve(self) -> Sequence[Draft]:
        """Make every job; those without faults, in order of index."""
        for at in range(len(self.families.points)):
            self._ensure(at)
        for draft, view in self._postponed:
            self._finish(draft, view)
        return [self.drafts[at] for at in sorted(self.drafts)]

    # ------------------------------------------------------------ as jobs see it
    @cached_property
    def known(self) -> Collection[Place]:
        """The keys that filters may name."""
        return dict.fromkeys(
            list_places(point.parameters for point in self.families.points)
        )

    def warn(self, problem: Problem) -> None:
        """Keep a warning."""
        self.warnings.append(problem)

    def identity(self, at: int) -> Identity:
        """The names of a job.

        Raises:
            DroppedJob: a filter dropped it.
            Needs, UnusableJob: it is not made yet, or cannot be.
        """
        return self._find_draft(at).identity

    def read(self, at: int, accessor: str) -> object:
        """One thing of a job; raises like `identity`, and `read_accessor`."""
        draft = self._find_draft(at)
        if (at, accessor) not in self._read:
            self._read[at, accessor] = read_accessor(
                draft.identity,
                lambda: self._find_view(draft),
                self.metadata_keys,
                accessor,
            )
        return self._read[at, accessor]

    def _find_draft(self, at: int) -> Draft:
        if at in self.drafts:
            return self.drafts[at]
        if at in self.dropped:
            raise DroppedJob(self.dropped[at])
        raise UnusableJob if at in self._failed else Needs(at)

    def _find_view(self, draft: Draft) -> ConfigView:
        if draft.at not in self._views:
            self._hold(draft.at, self._builder.recompose(draft))
        self._views.move_to_end(draft.at)
        return self._views[draft.at]

    def _hold(self, at: int, view: ConfigView) -> None:
        self._views[at] = view
        if len(self._views) > _HELD_VIEWS:
            self._views.popitem(last=False)

    # -------------------------------------------------------------------- order
    def _ensure(self, at: int) -> None:
        """Make a job, and before it all that it reads."""
        aside = [at]
        keys: dict[int, str] = {}
        while aside:
            top = aside[-1]
            try:
                if not self._is_settled(top):
                    self._make(top)
            except Needs as needs:
                keys[top] = needs.key
                if needs.at not in aside:
                    aside.append(needs.at)
                    continue
                ring = aside[aside.index(needs.at) :]
                self._refuse_ring(ring, keys[ring[0]])
                del aside[aside.index(needs.at) :]
                continue
            aside.pop()

    def _is_settled(self, at: int) -> bool:
        return at in self.drafts or at in self.dropped or at in self._failed

    def _refuse_ring(self, ring: Sequence[int], key: str) -> None:
        """`key`: with which the first job of the ring reads the second."""
        points = [self.families.points[at] for at in ring]
        names = list(map(label_point, points))
        message = f"references go in a ring: {format_ring(names)}"
        hint = "one of these references has to go; a value written twice will do"
        if len(ring) == 1:
            message = "refers to itself"
            hint = "`{all.STAGE...}` of its own stage means this job too"
        is_doubted = not self.doubted.isdisjoint(ring)
        told = self.in_doubt if is_doubted else self.problems
        problem = Problem(message, key or "sweep", names[0], hint)
        stages = tuple(p.stage or name for p, name in zip(points, names, strict=True))
        self._add_ring((problem.where, stages, is_doubted), problem, told)
        self._failed.update(ring)
        for at in ring:
            self._add_failed(at, self._builder.check_in_ring(at))

    def _add_ring(
        self, shape: tuple[object, ...], problem: Problem, told: list[Problem]
    ) -> None:
        """Rings of the same shape are told as the first of them, and counted."""
        if shape not in self._rings:
            self._rings[shape] = _AlikeRings(len(told), problem)
            told.append(problem)
            return
        first = self._rings[shape]
        first.more += 1
        more = f" (and {plural(first.more, 'more ring')} of these stages)"
        message = f"{first.problem.message}{more}"
        told[first.at] = replace(first.problem, message=message)

    def _make(self, at: int) -> None:
        if len(self._failed) >= MOST_FAILED:
            self._composer.stop_composing()
        try:
            draft, view = self._builder.build(at)
        except DroppedJob as dropped:
            self.dropped[at] = dropped.mark
            self.problems += dropped.faults
            return
        except Refused as refused:
            self._add_failed(at, refused.problems)
            return
        self.drafts[at] = draft
        if draft.faults:
            self.problems += draft.faults
            self.doubted.add(at)
        self._hold(at, view)
        try:
            self._finish(draft, view)
        except Needs:  # its conditions name jobs that come later
            self._postponed.append((draft, view))

    def _finish(self, draft: Draft, view: ConfigView) -> None:
        try:
            self._builder.finish(draft, view)
        except Refused as refused:
            self._add_failed(draft.at, refused.problems)
        except UnusableJob:
            self._failed.add(draft.at)

    def _add_failed(self, at: int, found: Sequence[Problem]) -> None:
        self._failed.add(at)
        label = label_point(self.families.points[at])
        problems = self.in_doubt if at in self.doubted else self.problems
        problems += (replace(one, job=one.job or label) for one in found)
