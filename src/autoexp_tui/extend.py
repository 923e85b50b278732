"""What authors of own conditions, actions, effects, events, policies, back ends and
executors import; it stays where it is.

A kind is a class in a package of one's own, named by an entry point of the group
`autoexp_tui.kinds`: `condition.disk_free = "my_package.disk_free:DiskFree"`, likewise
`action.`, `effect.`, `command.` and `policy.` with the kind's name, and `event.` with
the name of the class. A program that brings its own adds it to the table itself:
`Condition.kinds.add("disk_free", "my_package.disk_free:DiskFree")`, before anything is
read. Names that are stored in journals stay for ever.
"""

from __future__ import annotations

from autoexp_tui.actions.orders import Firing as Firing
from autoexp_tui.actions.orders import ask_person as ask_person
from autoexp_tui.actions.orders import emit_order as emit_order
from autoexp_tui.backends.base import Backend as Backend
from autoexp_tui.backends.base import Places as Places
from autoexp_tui.conditions.custom_conditions import says as says
from autoexp_tui.effects.effects import Answer as Answer
from autoexp_tui.effects.effects import Outside as Outside
from autoexp_tui.effects.effects import OutsideEffect as OutsideEffect
from autoexp_tui.effects.effects import Settlement as Settlement
from autoexp_tui.engine.executor_port import Executor as Executor
from autoexp_tui.engine.executor_port import Submission as Submission
from autoexp_tui.engine.executor_port import Task as Task
from autoexp_tui.model.commands import Command as Command
from autoexp_tui.model.commands import Order as Order
from autoexp_tui.model.condition import Condition as Condition
from autoexp_tui.model.condition import EvalContext as EvalContext
from autoexp_tui.model.condition import NameJobs as NameJobs
from autoexp_tui.model.condition import read_fact as read_fact
from autoexp_tui.model.condition import say_fail as say_fail
from autoexp_tui.model.condition import say_pass as say_pass
from autoexp_tui.model.condition import say_wait as say_wait
from autoexp_tui.model.decision_context import DecisionContext as DecisionContext
from autoexp_tui.model.effect import Effect as Effect
from autoexp_tui.model.event import Event as Event
from autoexp_tui.model.event import Headline as Headline
from autoexp_tui.model.event import Recorded as Recorded
from autoexp_tui.model.event import update as update
from autoexp_tui.model.facts import CommandKey as CommandKey
from autoexp_tui.model.facts import Fact as Fact
from autoexp_tui.model.facts import FactKey as FactKey
from autoexp_tui.model.facts import Facts as Facts
from autoexp_tui.model.facts import FileStat as FileStat
from autoexp_tui.model.facts import FileText as FileText
from autoexp_tui.model.facts import GlobKey as GlobKey
from autoexp_tui.model.facts import JobKey as JobKey
from autoexp_tui.model.facts import MetadataKey as MetadataKey
from autoexp_tui.model.facts import MetricKey as MetricKey
from autoexp_tui.model.facts import Moment as Moment
from autoexp_tui.model.facts import StatKey as StatKey
from autoexp_tui.model.facts import TextKey as TextKey
from autoexp_tui.model.policy import End as End
from autoexp_tui.model.policy import Policy as Policy
from autoexp_tui.model.rules import Action as Action
from autoexp_tui.model.snapshot import Snapshot as Snapshot
from autoexp_tui.model.specs import JobSpec as JobSpec
from autoexp_tui.model.state import Ask as Ask
from autoexp_tui.model.state import SessionState as SessionState
from autoexp_tui.model.states import Result as Result
from autoexp_tui.model.states import Topic as Topic
from autoexp_tui.model.states import Verdict as Verdict
from autoexp_tui.model.states import Why as Why
from autoexp_tui.model.states import why as why
