"""Which file systems answer: told when it changes, not at every look."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autoexp_tui.engine.mount_workers import Tended
from autoexp_tui.model import observations as seen
from autoexp_tui.model.observations import Observation


@dataclass(slots=True)
class PlaceNews:
    """Keeps what was told last of each place."""

    post: Callable[[Observation], None]
    _answering: dict[str, bool] = field(default_factory=dict)

    def tell(self, tended: Tended[Any, Any]) -> None:
        """Post what is new. The first word of a place is news, too."""
        for place in tended.heard:
            if not self._answering.get(place, False):
                self._answering[place] = True
                self.post(seen.PlaceHeard(place=place))
        for place, (silence, _) in tended.silent.items():
            if self._answering.get(place, True):
                self._answering[place] = False
                self.post(seen.PlaceHeard(place=place, silence=silence))
