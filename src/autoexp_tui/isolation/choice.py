"""Which isolation a command gets: the strongest that works here, never a weaker one in
silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from autoexp_tui.isolation.bubblewrap import probe_bubblewrap
from autoexp_tui.isolation.container import Container
from autoexp_tui.isolation.landlock import probe_landlock
from autoexp_tui.isolation.launching import NoIsolation
from autoexp_tui.isolation.port import FILES, Isolation
from autoexp_tui.model.errors import UsageError

Wanted: TypeAlias = Literal["require", "prefer", "none"]
"""`require`: refuse where files cannot be fenced. `prefer`: the strongest that there
is, which may be none, and that is told. `none`: none."""

REMEDY: Final = (
    "Install bubblewrap (apt-get install bubblewrap; it needs user namespaces: "
    "sysctl user.max_user_namespaces), or use a kernel from 6.2 with Landlock"
)


def probe_isolation() -> Iterator[Isolation]:
    """What works on this machine, the strongest first; `none` is not among them."""
    for found in (probe_bubblewrap(), probe_landlock()):
        if found is not None:
            yield found


def choose_isolation(
    wanted: Wanted,
    found: Sequence[Isolation] | None = None,
    *,
    in_container: bool = False,
) -> Isolation:
    """The isolation for a command, which runs `in_container` when it is an `apptainer
    exec`. `found`: what works here; None: it is probed. Raises UsageError when it is
    required and there is none."""
    if wanted == "none":
        return NoIsolation()
    if in_container:
        candidates: Sequence[Isolation] = (Container(),)
    else:
        candidates = tuple(probe_isolation()) if found is None else found
    chosen = max(candidates, key=lambda one: len(one.promises), default=NoIsolation())
    if wanted == "require" and not chosen.promises >= FILES:
        raise _explain_lack(chosen)
    return chosen


def _explain_lack(chosen: Isolation) -> UsageError:
    here = f"the best here is {chosen.summarize()}"
    return UsageError(
        f"isolation is required, and none that fences files works here ({here})",
        "agents.isolation=require",
        f"{REMEDY}; or agents.isolation=prefer runs all the same, and says what is "
        "not promised.",
    )
