"""How jobs are sent and how they end, in words; what they mean: `model.sentences`."""

from __future__ import annotations

SENDING = {
    "ready": ("ready", "ready"),
    "held_by_slots": (
        "waits for a slot",
        "ready; waits for a slot[: {limit} allows {slots} at a time]"
        "[, {place:ordinal} in line]",
    ),
    "held_by_look": (
        "its checkpoint is looked at",
        "ready; starts when its newest checkpoint has been looked at, and moved aside "
        "where that was asked for",
    ),
    "held_by_files": (
        "begins anew: its files are looked at",
        "ready; starts when what others wait for has been looked at, since it begins "
        "anew",
    ),
    "files_unseen": (
        "the files cannot be looked at",
        "ready; what others wait for is looked at before it starts: {problem}",
    ),
    "paused": (
        "submissions paused",
        "submissions are paused[ by {by:who}][ since {at:clock}][: {reason}]. "
        "P resumes.",
    ),
    "paused_by": (
        "paused by {by:who}",
        "submissions are paused by {by:who}[ since {at:clock}]. P resumes.",
    ),
    "storm": (
        "paused: {count} quick failures",
        "submissions are paused: {count} quick failures in a row[ {what}][, the last "
        "of {job}][: {line}]. Mend what makes them fail, then P resumes.",
    ),
    "storm_node": (
        "{node} is left out",
        "nothing more is sent to node {node}: {count} quick failures in a row on it[, "
        "the last of {job}][: {line}]. Have the node looked at.",
    ),
    "held_by_storm": (
        "paused: quick failures",
        "ready; submissions are paused, since jobs fail quickly[ {what}][, "
        "since {at:clock}]. P resumes.",
    ),
    "submitting": ("being sent", "being sent to the executor"),
    "disk_refuses": (
        "a disk refuses",
        "not sent, and tried again until the disk takes it: {message}",
    ),
    "busy": ("executor is full", "the executor takes no more just now: {message}"),
    "in_doubt": (
        "in doubt: asking by name",
        "[{place:name} may have taken this job: ]{message}[, {at:clock}]. The queue "
        "and the records are asked for it by name; it is sent again only after both "
        "say no.",
    ),
    "uncertain_effect": (
        "in doubt: {kind}",
        "whether the {kind} was carried out is not known[: {what}]; the engine ended "
        "in between, and it is not repeated",
    ),
    "queued": ("queued", "queued[: {reason}][; expected {expected:clock}]"),
    "requeued": ("requeued", "put back into the queue[: {reason}]"),
    "rejected": (
        "refused: [{message}][{reason}]",
        "refused by the executor: [{message}][{reason}]. Nothing was started.",
    ),
    "submit_error": (
        "not sent: [{message}][{reason}]",
        "could not be sent: [{message}][{reason}]. Nothing was started.",
    ),
    "unreachable": (
        "controller is away",
        "the executor could not be reached, so nothing was sent: {message}. It is "
        "tried again[ in {seconds:duration}].",
    ),
    "refused_unexplained": (
        "refused: {message}",
        "refused in words that autoexp does not know: {message}. It is tried again"
        "[ in {seconds:duration}][ ({tries} of {most})].",
    ),
    "held_by_refusal": (
        "refused {tries} times",
        "held: the executor refused it {tries} times[ over {seconds:duration}] in "
        "words that autoexp does not know: {message}. Nothing was started. S submits "
        "it again, X skips it.",
    ),
    "cancel_unconfirmed": (
        "its end is not confirmed",
        "the order to end it[ and others: {count} in all] is not confirmed: {message}. "
        "It may still run; the order is given again until it is confirmed.",
    ),
    "stuck_in_queue": (
        "will not start",
        "it will not start unless somebody acts: {reason}",
    ),
    "sent_apart": (
        "sent by itself",
        "sent by itself, since together with others it could not be[: {message}]",
    ),
    "duplicate": (
        "ran elsewhere",
        "another submission of this attempt ran instead[: {message}]",
    ),
}


ENDS = {
    "exit_code": (
        "exit {code}[: {note}]",
        "ended with exit {code}[ on {node}][: {note}]",
    ),
    "signal": (
        "[{signal}][{name}]",
        "ended by signal [{signal}][{name}][ on {node}][: {note}]",
    ),
    "timeout_limit": ("time limit", "ended by its time limit[ of {seconds:duration}]"),
    "out_of_memory": ("out of memory", "out of memory[ on {node}][: {reason}]"),
    "oom": ("out of memory", "out of memory[ on {node}][: {reason}]"),
    "node_fail": ("node failure", "its node failed[: {node}][ ({reason})]"),
    "preempted": ("preempted", "preempted[ on {node}][: {reason}]"),
    "nan": (
        "{metric} is not a number",
        "{metric} is {value} since step {step}[, was {last} before]",
    ),
    "stall": (
        "no step for {seconds:duration}",
        "no step[ after {step}] for "
        "{seconds:duration}[; the counter stands, whatever the log says]"
        "[; evidence: {evidence:path}]",
    ),
    "rule_off": (
        "a rule is off",
        "a rule or metric is off for this session: {problem}",
    ),
    "log_unreadable": (
        "its log cannot be read",
        "its log cannot be read since {since:clock}: {error}. It is read on as soon as "
        "it can be; until then nothing that it says has consequences.",
    ),
    "stopped_moving": (
        "no step for {seconds:duration}",
        "no step[ after {step}] for {seconds:duration}",
    ),
    "kill_criterion": (
        "kill criterion[: {text}]",
        "met a kill criterion[: {text}][: {reason}]",
    ),
    "cancel_condition": (
        "cancel condition[: {text}]",
        "a cancel condition holds[: {text}][: {reason}]",
    ),
    "cancelled_by_rule": (
        "by rule {rule}",
        "ended by the rule {rule}[: {reason}][; the log says: {line}]"
        "[; evidence: {evidence:path}]",
    ),
    "finished_by_rule": (
        "done, by rule {rule}",
        "done, says the rule {rule}[: {reason}][; the log says: {line}]",
    ),
    "ordered_by_rule": (
        "by rule {rule}",
        "ordered by the rule {rule}[; the log says: {line}]",
    ),
    "job_is_over": (
        "its job is over",
        "not done: the job had ended, or was to end, before",
    ),
    "restarted_already": (
        "it runs again anyway",
        "not done: another rule has ordered that it runs again",
    ),
    "joins_spent": (
        "joined {max:count} times",
        "not done: the rule {rule} has let other jobs join {max:count} times for this "
        "job, and no MaxAttempts says that it may do so more often",
    ),
    "own_offspring": (
        "its own job",
        "not done: the rule {rule} made this job, or one that it goes back to, and no "
        "MaxAttempts says how often it may do so",
    ),
    "rule_is_gone": ("its rule is gone", "not done: the job has no such rule any more"),
    "value_refused": (
        "{key} may not stand there",
        "not done: {key}[ of {job}] is what a log says, and {problem}",
    ),
    "value_in_script": (
        "log text in a script",
        "not run: its script would hold {value}, which a log says and a shell would "
        "read as more than a word. R runs it with another value.",
    ),
    "value_never_came": (
        "{key} never came",
        "not done: {job} {state:ended} and its log has shown no usable {key}",
    ),
    "restart_ordered": (
        "restart by rule {rule}",
        "the rule {rule} ends this run and starts it again[: {reason}][; the log "
        "says: {line}][; evidence: {evidence:path}]",
    ),
    "ended_itself": (
        "ended by itself",
        "the run went another way before the rule could end it",
    ),
    "retry": (
        "retry[: {reason}]",
        "runs again[ as attempt {attempt}][ at {at:clock}][, by the rule {rule}]"
        "[: {reason}][; the log says: {line}]",
    ),
    "lost": (
        "no trace left",
        "lost: the executor has not known it for {seconds:duration} and no exit "
        "record came. R runs it again.",
    ),
    "lost_records": (
        "records changed",
        "lost: {what}. The job itself, or another program, did that, and nobody can "
        "tell how it ended. R runs it again.",
    ),
    "records_changed": (
        "records changed",
        "{what}. The job itself, or another program, did that.",
    ),
    "late_cause": (
        "{cause}, says the executor",
        "it ended with exit 0 and counts as completed; {executor} now says that it "
        "ended by: {cause}. Check its results.",
    ),
    "rerun": (
        "runs again",
        "runs again[ as attempt {attempt}], from its newest checkpoint: Slurm would "
        "have done so, and forgot it",
    ),
    "forgotten": (
        "forgotten: sent again",
        "the executor took it[ as {id}] and has not known it for {seconds:duration}; "
        "it never began. It is sent again.",
    ),
    "fenced": (
        "a lost run is fenced",
        "nobody has seen the lost run end: should it still live, it is to end",
    ),
    "after_the_run": ("after the run", "done when the run has ended"),
    "quarantine": (
        "checkpoint to blame",
        "{attempts} in a row went on from {path:path} and came no further",
    ),
    "quarantine_asked": ("as a rule says", "a rule says that {path:path} goes aside"),
    "quarantined": (
        "{path:tail} moved aside",
        "the checkpoint {path:path} was moved to {target:tail}[, since {attempts} "
        "in a row came no further than it]; the job goes on from {before}. Move it "
        "back by hand if it was good.",
    ),
    "not_quarantined": (
        "checkpoint not moved",
        "the checkpoint[ {path:path}] was not moved aside: {problem}. The job goes on "
        "from what there is.",
    ),
    "done_before": (
        "done before",
        "done already[ in session {session}][, {at:clock}]: it is not run again. R "
        "runs it anew.",
    ),
    "late_exit_record": ("ended after all", "its exit record came late: it completed"),
    "budget": ("budget spent", "the budget is spent[: {spent} of {limit}][: {reason}]"),
}
