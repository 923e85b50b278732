"""Ends the making of a job: all of its config resolved, and what runs made of it.

What is wrong in one section of a config hides nothing of another, and a value that
cannot be had hides nothing but what needs it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.specs import Resources
from autoexp_tui.planning.conditions import FAULTS, problems_of
from autoexp_tui.planning.fingerprint import CanonicalWriter, fingerprint
from autoexp_tui.planning.job_builder_state import Draft, Refused
from autoexp_tui.planning.job_places import paths_of
from autoexp_tui.planning.partial_config import (
    concern_one,
    resolved_where_possible,
    unresolved,
)
from autoexp_tui.planning.ports import ConfigView, SpecParser
from autoexp_tui.planning.watching import CLOSED, SessionWide, last_step

MOST_FAILED: Final = 20
"""Jobs with faults whose configs are looked at for more."""
_Step = TypeVar("_Step")

Record = Callable[[int, ConfigView, Mapping[str, object]], None]
"""Told of each job: its index, its config as composed, the same resolved."""


@dataclass(frozen=True, slots=True)
class _Settled:
    """The closed sections of a config, and what follows from them."""

    closed: Mapping[str, object]
    monitoring: Monitoring
    resources: Resources
    without_effect: tuple[Problem, ...]


class JobEnding:
    """Ends jobs of one plan; what their configs share is checked once."""

    def __init__(
        self,
        parser: SpecParser,
        session: SessionWide,
        warn: Callable[[Problem], None],
        record: Record | None = None,
    ) -> None:
        """`session`: what the config says without any point; `warn` keeps a warning."""
        self._parser = parser
        self._session = session
        self._warn = warn
        self._record = record
        self._checked: deque[_Settled] = deque(maxlen=16)
        self._canonical = CanonicalWriter()
        self._looked = 0
        """Jobs with faults whose configs were looked at for more."""

    def end(self, draft: Draft, view: ConfigView) -> None:
        """Resolve everything, and make the command of it.

        Raises:
            Refused: with every finding.
        """
        name = draft.identity.name
        try:
            config = view.to_dict()
        except FAULTS as error:
            told = problems_of(error, "", name)
            raise Refused((*told, *self._besides(told, draft, view, ()))) from None
        settled = self._made(config, draft)
        draft.fingerprint = fingerprint(
            config, draft.launch.command, paths_of(config), self._canonical
        )
        draft.monitoring = settled.monitoring
        draft.progress_total = last_step(view, settled.monitoring.progress.total)
        for warning in (*settled.without_effect, *draft.launch.warnings):
            self._warn(replace(warning, job=name))
        if self._record is not None:
            self._record(draft.point.index, view, config)

    def _made(self, config: Mapping[str, object], draft: Draft) -> _Settled:
        """What follows from a config; the launch and the resources go to the draft.

        Raises:
            Refused: with what is wrong in all of its sections.
        """
        problems: list[Problem] = []

        def asked(step: Callable[[], _Step]) -> _Step | None:
            try:
                return step()
            except Refused as refused:
                problems.extend(refused.problems)
            except FAULTS as error:
                problems.extend(problems_of(error, "", draft.identity.name))
            return None

        settled = asked(lambda: self._settled(config, draft))
        launch = asked(lambda: self._parser.launch(config))
        if settled is None or launch is None:
            raise Refused(tuple(problems))
        draft.launch, draft.resources = launch, settled.resources
        return settled

    def faults(
        self, draft: Draft, view: ConfigView, doubtful: Collection[str]
    ) -> Sequence[Problem]:
        """What is wrong with a config whatever the values of the `doubtful` keys."""
        told: tuple[Problem, ...] = ()
        try:
            view.to_dict()
        except FAULTS as error:
            told = problems_of(error, "", draft.identity.name)
            if doubtful:  # what has no place may well be of one of them
                told = tuple(one for one in told if one.where)
        return [*_apart(told, doubtful), *self._besides(told, draft, view, doubtful)]

    def _besides(
        self,
        told: Sequence[Problem],
        draft: Draft,
        view: ConfigView,
        doubtful: Collection[str],
    ) -> Sequence[Problem]:
        """What else is wrong in a config some of whose values cannot be had.

        That is wrong where they are left out and where they are some text: what is not
        follows from them alone.
        """
        self._looked += 1
        if self._looked > MOST_FAILED:
            return ()
        known = {
            *doubtful,
            *unresolved(view),
            *(one.where.partition("[")[0] for one in told),
        }
        left_out = self._refused(view, draft, as_written=False)
        there = set(self._refused(view, draft, as_written=True)) if left_out else ()
        return _apart([one for one in left_out if one in there], known)

    def _refused(
        self, view: ConfigView, draft: Draft, *, as_written: bool
    ) -> Sequence[Problem]:
        try:
            self._made(resolved_where_possible(view, as_written=as_written), draft)
        except Refused as refused:
            return refused.problems
        except FAULTS:
            return ()
        return ()

    def _settled(self, config: Mapping[str, object], draft: Draft) -> _Settled:
        """The closed sections, checked once for each content that they have."""
        closed = {key: config.get(key) for key in CLOSED}
        for settled in self._checked:
            if settled.closed == closed:
                return settled
        problems = self._parser.check(config)
        if problems:
            name = draft.identity.name
            raise Refused(tuple(replace(p, job=p.job or name) for p in problems))
        settled = _Settled(
            closed,
            self._session.own(self._parser.monitoring(config)),
            self._parser.resources(config),
            tuple(self._session.without_effect(closed, draft.point.parameters)),
        )
        self._checked.append(settled)
        return settled


def _apart(problems: Iterable[Problem], keys: Collection[str]) -> list[Problem]:
    """The problems that concern none of these keys."""
    return [
        problem
        for problem in problems
        if not any(concern_one(problem.where, key) for key in keys)
    ]
