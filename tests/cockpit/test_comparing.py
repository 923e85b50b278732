"""Several sessions in one table of results and in one plot of curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autoexp_tui.cockpit.context import LeaveWay
from autoexp_tui.engine.handle import EngineHandle
from autoexp_tui.model.errors import JournalDamaged
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.state import Attempt
from tests.cockpit.seat import cockpit
from tests.cockpit.sweeps import swept
from tests.cockpit.views import brief
from tests.support.scripted_handle import ScriptedHandle

BAD = "h\x1b[31m\n"


def session(name: str, *rates: float, ran: bool = False) -> Snapshot:
    """A sweep of that session, over one seed; one that `ran` has logs, no curves."""
    shown = swept(rates, seeds=1)
    engine = replace(shown.engine, role="viewer", directory=f"/state/{name}")
    lives = filter(None, shown.live)
    told = [replace(one, metrics={"loss": 2.0 + n}) for n, one in enumerate(lives)]
    if ran:
        told = [replace(one, curves={}) for one in told]
    attempt = Attempt(number=1, token="t", ordered_at=1.0, began_at=2.0)
    jobs = tuple(replace(one, attempts=(attempt,)) for one in shown.jobs)
    known: dict[str, Any] = {"session": name, "jobs": jobs if ran else shown.jobs}
    return replace(shown, engine=engine, live=tuple(told), **known)


OWN = session("k7f2", 1e-3, 3e-3)


class Others:
    """Sessions that may be looked at, and what was asked of them."""

    def __init__(self, **found: Snapshot) -> None:
        self.found = found
        self.handles: dict[str, ScriptedHandle] = {}
        self.read: list[tuple[str, Sequence[str]]] = []
        self.options: dict[str, Any] = {
            "view_session": self.view,
            "read_curves": self.read_curves,
            "list_sessions": lambda: [brief(id=name) for name in (*found, "k7f2")],
        }

    def view(self, name: str) -> EngineHandle:
        if name not in self.found:
            raise JournalDamaged("line 3 is of a newer version", name, "use that")
        return self.handles.setdefault(name, ScriptedHandle(self.found[name]))

    def read_curves(self, directory: str, names: Sequence[str]) -> Mapping[str, Live]:
        self.read.append((directory, names))
        return {names[0]: swept((1e-3,), 1).live[0] or Live()}


async def test_a_session_is_compared_by_four_keys_and_leaves_by_the_same() -> None:
    others = Others(m4q1=session("m4q1", 1e-3, 1e-2))
    async with cockpit(OWN, **others.options) as seat:
        await seat.see("e", results="2 rows of 2 jobs  |!session")
        await seat.see("d", dialog="session   m4q1|!k7f2")
        await seat.see(
            "enter", results="4 rows of 4 jobs of 2 sessions|m4q1       1e-2"
        )
        await seat.see("d", dialog="m4q1 dense300m, compared: take it away")
        await seat.see("enter", results="2 rows of 2 jobs  |!m4q1")
        assert others.handles["m4q1"].closed


async def test_verbs_do_nothing_to_a_row_of_another_session() -> None:
    others = Others(m4q1=session("m4q1", 1e-3, 3e-3))  # with the very same names
    async with cockpit(OWN, beside=("m4q1",), **others.options) as seat:
        await seat.see(results="of 2 sessions")
        await seat.see("G escape j", conditions="session=m4q1 lr=1e-3")
        await seat.see("K", footer="nothing here can be ended")
        await seat.see("enter", footer="`autoexp-tui --session m4q1` opens it")
        assert not seat.handle.sent
        assert not others.handles["m4q1"].sent


async def test_curves_of_several_sessions_are_told_apart_and_read_where_none_are() -> (
    None
):
    others = Others(m4q1=session("m4q1", 1e-3, ran=True), n5r3=session("n5r3", 2e-3))
    async with cockpit(OWN, beside=("m4q1", "n5r3"), **others.options) as seat:
        await seat.see(results="of 3 sessions")
        await seat.see("c", metrics="m4q1 train lr=1e-3|k7f2 train lr=1e-3|n5r3 train")
        assert others.read == [("/state/m4q1", ["lr0.001_s0"])]
        await seat.see("c", metrics="by session| a | b | c ")
        await seat.see("c", metrics="by lr")
        await seat.see("escape", results="of 3 sessions")  # where one was
        await seat.press("escape")  # and to the list, whence it came
        assert seat.left == [LeaveWay.BACK]
        assert all(one.closed for one in others.handles.values())


async def test_what_cannot_be_compared_is_said_beside_the_others() -> None:
    other = session("m4q1", 1e-3)
    jobs = tuple(replace(one, spec=replace(one.spec, stage="x")) for one in other.jobs)
    assert other.plan is not None
    plan = replace(other.plan, jobs=tuple(one.spec for one in jobs))
    odd = replace(other, jobs=jobs, plan=plan)
    others = Others(**{"m4q1": odd, BAD: session(BAD, 5e-3)})
    beside = ("gone", "m4q1", BAD)
    async with cockpit(OWN, (200, 60), beside=beside, **others.options) as seat:
        said = "gone is left out|newer version|session m4q1: no job of stage train"
        await seat.see(
            results="3 sessions, 1 left out|h          5e-3", conditions=said
        )
        assert "\x1b" not in seat.everything


async def test_what_the_others_say_anew_is_shown() -> None:
    others = Others(m4q1=session("m4q1", 1e-2))
    async with cockpit(OWN, beside=("m4q1",), **others.options) as seat:
        await seat.see(results="2.0000")
        live = (replace(others.found["m4q1"].live[0] or Live(), metrics={"loss": 1.5}),)
        others.handles["m4q1"].push(replace(others.found["m4q1"], live=live))
        seat.app.update_every_second()
        await seat.see(results="1.5000")
