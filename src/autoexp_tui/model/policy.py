"""What a policy is: a search or a loop of its own over the one engine. It brings events
that change its part of the state, commands that say how they are handled, and a pane.
It is asked after the jobs are settled, until nothing changes. Replay never runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from autoexp_tui.model.kinds import KindTable
from autoexp_tui.model.resubmission import is_open

if TYPE_CHECKING:
    from autoexp_tui.model.decision_context import DecisionContext
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.model.state import SessionState, Warned

FAILED = "policy_failed"
"""The code of the warning that a policy raised an error."""
Found = TypeVar("Found")


class End(NamedTuple):
    """How a run without a screen ends, by a policy."""

    code: int
    """The exit code."""
    reason: str
    """A sentence."""


def list_ask_names() -> frozenset[str]:
    """The names that any policy has for its questions."""
    kinds = map(Policy.kinds.find, Policy.kinds)
    return frozenset(name for kind in kinds if kind for name in kind.asks)


class Policy:
    """One policy; without state of its own, for that is in the session."""

    kinds: ClassVar[KindTable[Policy]] = KindTable(
        "policy",
        {
            "tree.decide": "tree:TreePolicy",
            "research.decide": "research:ResearchPolicy",
        },
    )
    title: ClassVar[str] = ""
    asks: ClassVar[tuple[str, ...]] = ()
    """What `--approve` may name: its questions, or what stands before a `/` there."""

    def decide(self, context: DecisionContext) -> float | None:
        """Emit what follows; when (lived) to be asked again, None: on news."""
        return None

    def is_open(self, part: Any) -> str:
        """What may still let jobs join, in words (`depth 2 of 3`); empty: nothing, the
        session ends with its jobs."""
        return ""

    def find_exit(self, part: Any) -> End | None:
        """What a run without a screen ends with once nothing moves any more; None: what
        the jobs say. While the policy is open, it ends so only where nobody is waited
        for."""
        return None

    def list_lines(self, snapshot: Snapshot) -> Sequence[str]:
        return ()


def find_policy(name: str) -> Policy | None:
    """The policy of a part of the state; None: it is not installed or not usable."""
    kind = Policy.kinds.find(name)
    try:
        return None if kind is None else kind()
    except Exception:  # noqa: BLE001 - their constructor may raise anything
        return None


def list_open_ends(parts: Mapping[str, Any]) -> tuple[str, ...]:
    """What may still add jobs to a session, by its policies."""
    return tuple(filter(None, _ask(parts, lambda one, part: str(one.is_open(part)))))


def has_work_left(state: SessionState) -> bool:
    """Whether a session may still change by itself: its jobs, or what adds to them."""
    is_left = is_open([*state.jobs.values()], state.pending.values(), state.asks)
    if not (state.jobs or state.pending) and find_end(state.parts) is not None:
        is_left = False  # a policy ended before it had any job
    return is_left or bool(list_open_ends(state.parts))


def find_end(parts: Mapping[str, Any]) -> End | None:
    """What the first policy that has a word on it says of a run without a screen."""

    def ask(policy: Policy, part: Any) -> End | None:
        end = policy.find_exit(part)
        return None if end is None else End(*end)

    return next(filter(None, _ask(parts, ask)), None)


def find_failed_policies(warnings: Iterable[Warned], name: str = "") -> list[Warned]:
    """The warnings that a policy raised, and is asked no more; `name`: of that one."""
    failed = (one for one in warnings if one.why.code == FAILED)
    return [one for one in failed if name in ("", one.why.arg("what"))]


def _ask(
    parts: Mapping[str, Any], call: Callable[[Policy, Any], Found]
) -> Iterator[Found]:
    for name, part in parts.items():
        if policy := find_policy(name):
            try:
                yield call(policy, part)
            except Exception:  # noqa: BLE001 - told where it decides, and left out
                continue
