"""What a policy is: a search or a loop of its own over the one engine. It brings events
that change its part of the state, commands that say how they are handled, and a pane.
It is asked after the jobs are settled, until nothing changes. Replay never runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from autoexp_tui.model.kinds import KindTable

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.snapshot import Snapshot


def find_policy(name: str) -> Policy | None:
    """The policy of a part of the state; None: it is not installed or not usable."""
    kind = Policy.kinds.find(name)
    try:
        return None if kind is None else kind()
    except Exception:  # noqa: BLE001 - their constructor may raise anything
        return None


class Policy:
    """One policy; without state of its own, for that is in the session."""

    kinds: ClassVar[KindTable[Policy]] = KindTable("policy", {})
    title: ClassVar[str] = ""

    def decide(self, context: DecisionContext) -> float | None:
        """Emit what follows; when (lived) to be asked again, None: on news."""
        return None

    def is_open(self, part: Any) -> bool:
        """Whether it may still let jobs join."""
        return False

    def list_lines(self, snapshot: Snapshot) -> Sequence[str]:
        return ()
