"""Every event that the journal may hold; the table of them is `Event.kinds`."""
# ruff: noqa: F403

from __future__ import annotations

from autoexp_tui.events.asks import *
from autoexp_tui.events.jobs import *
from autoexp_tui.events.rules import *
from autoexp_tui.events.runs import *
from autoexp_tui.events.session import *
from autoexp_tui.model.event import Event as Event
from autoexp_tui.model.event import Recorded as Recorded
