"""Every reason that is ever recorded, in words: a closed table, data only.

A template is text with `{argument}` or `{argument:form}` (forms: `model.wording`).
Text in square brackets is left out when one of its arguments is missing or empty, so
every template reads well with few arguments. Each code has a short form for a column
and a sentence with facts, numbers and the next step. What jobs wait for is in
`wait_sentences`, how they are sent and end in `run_sentences`, all else is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from autoexp_tui.model.run_sentences import ENDS, SENDING
from autoexp_tui.model.wait_sentences import (
    COMMANDS_AND_LOGS,
    FILES,
    JOBS,
    LOOKING,
    TIMES_AND_COUNTS,
    VALUES,
)


@dataclass(frozen=True, slots=True)
class Phrases:
    """The two templates of a code."""

    short: str
    """For a column: at most 30 columns are shown."""
    sentence: str


_PEOPLE = {
    "asks_later": ("asks you later", "asks you once everything else holds"),
    "asks_you": (
        "waits for you",
        "waits for your approval[: {prompt}]. A shows what will be done.",
    ),
    "approved": ("approved", "approved[ by {by:who}][: {reason}]"),
    "refused": (
        "refused[: {reason}]",
        "refused[ by {by:who}][: {reason}]. R asks again.",
    ),
    "approval_refused": (
        "refused[: {reason}]",
        "the approval was refused[ by {by:who}][: {reason}]. R asks again.",
    ),
    "approval_timeout": (
        "nobody answered",
        "nobody answered the approval within {seconds:duration}. R asks again.",
    ),
    "waived": ("waived", "waived by a person[: {reason}]"),
    "held": (
        "not chosen: S submits it",
        "held: not among the chosen jobs. S submits it.",
    ),
    "planned": ("planned", "planned; S submits it"),
    "skipped_by": (
        "skipped[ by {by:who}][: {reason}]",
        "skipped[ by {by:who}][: {reason}]. R brings it back.",
    ),
    "cancelled_by": (
        "cancelled[ by {by:who}][ by {user:who}]",
        "cancelled[ by {by:who}][ by {user:who}][: {reason}]. R resubmits.",
    ),
    "user": (
        "cancelled by a person",
        "cancelled by a person[: {reason}][: {message}]. R resubmits.",
    ),
    "cancelled_outside": (
        "cancelled outside[ by {by}]",
        "cancelled outside this session[ by {by}][: {reason}]. R resubmits.",
    ),
    "well_before_the_kill": (
        "ended well first",
        "it ended well before its kill for a stall had reached it",
    ),
    "revived": ("brought back", "waits again[, brought back by {by:who}]"),
    "revived_by": ("brought back", "waits again, brought back by {by:who}"),
    "revived_with": (
        "back with {job}",
        "waits again with {job}[, brought back by {by:who}]",
    ),
    "resubmitted_by": ("resubmitted", "resubmitted by {by:who}"),
    "other_overrides": ("other overrides", "runs with other overrides: {overrides}"),
    "runtime_values": (
        "values of other jobs",
        "its parameters take what logs of other jobs have told",
    ),
    "other_resources": ("other resources", "runs with other resources from now on"),
    "does_not_compose": (
        "does not compose",
        "the overrides do not compose: {problem}. The job is as it was.",
    ),
}


_WARNINGS = {
    "plateau": (
        "{metric} is flat",
        "{metric} fell less than {percent} % in {steps} steps: {value} at step {step}",
    ),
    "divergence": (
        "{metric} rises",
        "{metric} is {value} at step {step}, more than {percent} % above its minimum "
        "{minimum}",
    ),
    "notice": ("{text}", "{text}"),
    "action_failed": (
        "{kind} failed",
        "a rule's {kind} failed[: {what}][: {problem}]",
    ),
    "rule_matched": ("{rule}", "the rule {rule} matched[: {line}]"),
    "place_silent": (
        "no answer from {place:tail}",
        "no answer from {place:path} for {since:age}: its files and logs are not "
        "known until it answers. Whoever needs them waits; all else goes on.",
    ),
    "matches_gathered": (
        "{rule} matches too often",
        "the rule {rule} matches more than a few lines a second: their matches are "
        "recorded together, and its actions run once for all of them[: {line}]",
    ),
    "log_unread": (
        "log too long to read",
        "{bytes:size} of the log of {job} were not searched by any rule: it had ended, "
        "and there was more to read than its last {tail:size}.",
    ),
    "clock_set": (
        "wall clock set {way}",
        "the wall clock was set {way} by {seconds:duration}. Nothing waits for it: "
        "cooldowns, time-outs and ages go on by the time that passes.",
    ),
    "engine_fault": (
        "engine fault",
        "the engine met a fault in {where}: {problem}. The session goes on; its log "
        "has the traceback.",
    ),
    "cannot_write": (
        "cannot write",
        "the journal cannot be written: {problem}. Nothing is sent until it can.",
    ),
    "stage_on_hold": ("stage on hold", "the stage {stage} is on hold[: {reason}]"),
}


_REFUSALS = {
    "stale": (
        "changed meanwhile",
        "nothing was done: {jobs} changed since you looked. Look again, then repeat.",
    ),
    "no_such_job": ("no such job", "nothing was done: no job named {jobs}"),
    "nothing_to_do": ("nothing to do", "nothing to {command}: no job is in that state"),
    "other_plan": (
        "planned again meanwhile",
        "nothing was submitted: the config was planned again since you looked. "
        "Look again, then repeat.",
    ),
    "other_digest": (
        "changed meanwhile",
        "nothing was done: what {job} will do changed since it asked. Look again.",
    ),
    "sender_is_job": (
        "sent by a job",
        "nothing was done: this came from a job ({by}), and only a person may decide "
        "it. Answer from a cockpit or a shell of your own.",
    ),
    "sender_unnamed": (
        "sent by nobody",
        "nothing was done: the answer does not say which process sent it. Answer "
        "with the cockpit or autoexp-sessions.",
    ),
    "sender_ended": (
        "sender has ended",
        "nothing was done: the process that sent the answer had ended before the "
        "engine could check that it is no job's. Answer again.",
    ),
    "read_only": ("read only", "nothing was done: this view is read only"),
}


def _table() -> Mapping[str, Phrases]:
    groups = (
        LOOKING,
        FILES,
        VALUES,
        JOBS,
        COMMANDS_AND_LOGS,
        TIMES_AND_COUNTS,
        _PEOPLE,
        SENDING,
        ENDS,
        _WARNINGS,
        _REFUSALS,
    )
    return MappingProxyType(
        {code: Phrases(*texts) for group in groups for code, texts in group.items()}
    )


CODES: Final = _table()
"""Code -> its phrases."""
