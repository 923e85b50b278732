"""Rules of a simulated campaign that reach beyond the run that triggers them.

What its logs and ends say lets jobs join the session, which are under the same rules:
an action must not feed itself. Some runs are ended as done, and some restarts are
decided only when a file has been looked for.
"""

from __future__ import annotations

from dataclasses import replace

from autoexp_tui.actions.new_job import NewJob, RunAutoexp
from autoexp_tui.actions.restart import Restart
from autoexp_tui.actions.stop import Finish
from autoexp_tui.conditions.kinds import Cooldown, FileExists, JobStateIs, MaxAttempts
from autoexp_tui.model.rules import LogEvent, Monitoring, StateEvent

_BRING = RunAutoexp(
    config_ref="further", overrides=("project.name={name}_{attempt}_b",), mode="now"
)
_RECOVER = RunAutoexp(
    config_ref="recover",
    overrides=("project.name={name}_r", "after={name}"),
    conditions=(MaxAttempts(max_attempts=2), Cooldown(cooldown_seconds=5.0)),
)
_WHEN_SAVED = Restart(
    conditions=(
        MaxAttempts(max_attempts=4),
        FileExists(path="{output_dir}/done_80.txt", timeout_seconds=30.0),
    )
)
_FOLLOW = NewJob(
    command=("list", "{name}"),
    start_conditions=(JobStateIs(jobs=("{name}",), state="COMPLETED"),),
)


def reacting(rules: Monitoring) -> Monitoring:
    """`rules`, and those that bring further work."""
    saved = "saved checkpoint 80"
    return replace(
        rules,
        log_events=(
            *rules.log_events,
            LogEvent(
                name="bring",
                pattern=saved,
                stages=("train", "source", "further"),
                actions=(_BRING,),
            ),
            LogEvent(
                name="early",
                pattern=saved,
                stages=("probe", "seeker"),
                actions=(Finish(reason="enough"),),
            ),
        ),
        state_events=(
            *rules.state_events,
            StateEvent(
                name="follow",
                state="success",
                stages=("eval", "lone", "recover"),
                actions=(_FOLLOW,),
            ),
            StateEvent(
                name="kept",
                state="crash",
                stages=("train", "source", "stable"),
                actions=(_WHEN_SAVED,),
            ),
            StateEvent(
                name="recover",
                state="crash",
                stages=("side", "lone", "reader", "recover"),
                actions=(_RECOVER,),
            ),
        ),
    )
