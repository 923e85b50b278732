"""Every event that the journal may hold, by one name to import.

The table of them is `Event.kinds`. A new event is a class in the module of its subject,
and a line there.
"""
# ruff: noqa: F403

from __future__ import annotations

from autoexp_tui.events.jobs import *
from autoexp_tui.events.rules import *
from autoexp_tui.events.runs import *
from autoexp_tui.events.session import *
from autoexp_tui.model.event import Event as Event
from autoexp_tui.model.event import Recorded as Recorded
