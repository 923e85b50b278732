"""Which keys of Hydra's own mean something to a plan."""

from __future__ import annotations

from typing import Final

from autoexp_tui.model.errors import Problem

_REFUSED: Final = {
    "sweeper": "put the values to try into `sweep`: sweep.params.KEY=[1,2]",
    "launcher": "choose where jobs run by the group `slurm`: slurm=generic",
}
_EFFECTIVE: Final = frozenset({"searchpath"})


def check_hydra_key(key: str, where: str) -> tuple[Problem, bool] | None:
    """The finding of a `hydra...` key, and whether it is an error; None for others."""
    head, _, rest = key.replace("/", ".").partition(".")
    name = rest.partition(".")[0].partition("@")[0]
    if head != "hydra" or not name or name in _EFFECTIVE:
        return None
    if name in _REFUSED:
        message = f"Hydra's {name} is not used: jobs are swept and submitted from here"
        return Problem(message, where=where, hint=_REFUSED[name]), True
    hint = "take it out; of `hydra`, only `hydra.searchpath` is read"
    return Problem("has no effect here", where=where, hint=hint), False
