"""All jobs of a plan, each made after those it reads.

A job that asks for another one is put aside until that one is made: no graph has to be
known beforehand, and a ring shows itself by coming back to a job that is put aside.
Composed configs are large, so only the latest are held; an older one that is asked for
is composed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from autoexp_tui.model.errors import Problem
from autoexp_tui.planning.dag import format_rings
from autoexp_tui.planning.job_builder import JobBuilder
from autoexp_tui.planning.job_config import Record, SessionWide
from autoexp_tui.planning.job_state import Draft, Needs, Refused
from autoexp_tui.planning.ports import Composer, ConfigView, SpecParser
from autoexp_tui.planning.references import DroppedJob, Identity, World
from autoexp_tui.sweep.expand import Expansion
from autoexp_tui.sweep.families import Families, UnusableJob, label_point
from autoexp_tui.sweep.points import DeferredFilter

_HELD_VIEWS: Final = 64
_MOST_FAILED: Final = 20
"""Jobs with faults after which no more are composed."""


class Resolution:
    """Makes the jobs of an expanded sweep; findings are gathered."""

    def __init__(
        self,
        expansion: Expansion,
        composer: Composer,
        parser: SpecParser,
        *,
        metadata_keys: Collection[str],
        session: SessionWide,
        record: Record | None = None,
    ) -> None:
        """See `JobBuilder`; `metadata_keys`: what log rules extract."""
        self.families = Families(expansion.points, expansion.removed)
        self.drafts: dict[int, Draft] = {}
        self.dropped: dict[int, DeferredFilter] = {}
        """Position -> the filter that dropped it after composing."""
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._failed: set[int] = set()
        self._rings: dict[tuple[str, ...], list[list[str]]] = {}
        """What reads the second job of a ring, and the stages of it -> such rings."""
        self._views: OrderedDict[int, ConfigView] = OrderedDict()
        self._postponed: list[tuple[Draft, ConfigView]] = []
        self._composer = composer
        world = World(self.families, metadata_keys, self._find_job, self.warnings)
        self._builder = JobBuilder(world, composer, parser, session, record)

    def resolve(self) -> Sequence[Draft]:
        """Make every job; those without faults, in order of index."""
        for at in range(len(self.families.points)):
            self._ensure(at)
        for draft, view in self._postponed:
            self._finish(draft, view)
        for (key, *_), rings in self._rings.items():
            message = format_rings("references go in a ring", rings)
            hint = "one of these references has to go; a value written twice will do"
            if len(rings[0]) == 1:
                message = "refers to itself"
                hint = "`{all.STAGE...}` of its own stage means this job too"
            where, job = key or "sweep", rings[0][0]
            self.problems.append(Problem(message, where, job, hint))
        return [self.drafts[at] for at in sorted(self.drafts)]

    def _find_job(self, at: int) -> tuple[Identity, Callable[[], ConfigView]]:
        if at in self.drafts:
            draft = self.drafts[at]
            return draft.identity, partial(self._find_view, draft)
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

    def _ensure(self, at: int) -> None:
        aside = [at]
        keys: dict[int, str] = {}
        """Job -> with which key it reads the one put aside after it."""
        while aside:
            top = aside[-1]
            try:
                if not any(
                    top in of for of in (self.drafts, self.dropped, self._failed)
                ):
                    self._make(top)
            except Needs as needs:
                keys[top] = needs.key
                if needs.at not in aside:
                    aside.append(needs.at)
                    continue
                ring = aside[aside.index(needs.at) :]
                points = [self.families.points[one] for one in ring]
                names = list(map(label_point, points))
                stages = (p.stage or n for p, n in zip(points, names, strict=True))
                self._rings.setdefault((keys[ring[0]], *stages), []).append(names)
                self._failed.update(ring)
                del aside[-len(ring) :]
            else:
                aside.pop()

    def _make(self, at: int) -> None:
        if len(self._failed) >= _MOST_FAILED:
            self._composer.stop_composing()
        try:
            draft, view = self._builder.build(at)
        except DroppedJob as dropped:
            self.dropped[at] = dropped.mark
            self.problems += dropped.faults
            return
        except (Refused, UnusableJob) as error:
            self._add_failed(at, error)
            return
        self.drafts[at] = draft
        self.problems += draft.faults
        self._hold(at, view)
        try:
            self._finish(draft, view)
        except Needs:  # its conditions name jobs that come later
            self._postponed.append((draft, view))

    def _finish(self, draft: Draft, view: ConfigView) -> None:
        try:
            self._builder.finish(draft, view)
        except (Refused, UnusableJob) as error:
            self._add_failed(draft.at, error)

    def _add_failed(self, at: int, error: Refused | UnusableJob) -> None:
        """Keep what is wrong with a job; of one that needs another, that tells it."""
        self._failed.add(at)
        label = label_point(self.families.points[at])
        found = error.problems if isinstance(error, Refused) else ()
        self.problems += (replace(one, job=one.job or label) for one in found)
