"""Reasons as sentences: what a recorded `Why` says to a person. A code that is not in
`CODES` is printed plainly. Arguments come from outside and are cleaned; they are never
read as templates or markup."""

from __future__ import annotations

import functools
import math
import re
import string
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.states import Cause, JobState
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import (
    UNKNOWN,
    clock_time,
    count,
    duration,
    fit,
    format_number,
    ordinal,
    size,
)

if TYPE_CHECKING:
    from autoexp_tui.model.states import Why


class Phrases(NamedTuple):
    short: str
    """For a column: at most 30 columns are shown."""
    sentence: str


_TEMPLATES: Final = """
# looking
not_looked: not looked yet
    not looked yet[: {what}]
look_failed: cannot look: {error}
    could not look[ at {what}]: {error}. It is asked again; nothing is decided by a
    failed look.
no_answer: no answer from {place:tail}
    no answer from {place:path} for {since:age}[, asked for {what:path}]. What is there
    is not known, and nothing is decided by that.
bad_condition: bad condition
    this condition cannot be judged: {problem}. X waives it.
own_failed: {what} cannot say
    {what} cannot say: {problem}. It is asked again when something changes. X waives it.
policy_failed: {what} failed
    the policy {what} failed: {problem}. It is left out until the next engine.
own_says: {text}
    {text}
ok: ready
    nothing is in the way
all_hold: all hold
    all {count} conditions hold[: {what}]
none_holds: none holds
    none of {count} alternatives can hold any more
not_so: not so
    not so, as asked: {what}
is_so: it is so
    it is so although it must not be: {what}
# files
file_missing: waits for {path:tail}
    waits for {path:path}[ of {writer}][; newest is {newest}][, {age:duration} ago][;
    expected {expected:clock}]
file_small: {path:tail} is small yet
    waits for {path:path}[ of {writer}] to reach {min_size:size}: it has {size:size}
file_there: {path:tail} is there
    {path:path} is there[, {size:size}]
text_missing: waits for text in {path:tail}
    waits for "{pattern}" in {path:path}[ of {writer}]
text_there: {path:tail} has the text
    {path:path} has "{pattern}"
files_unsure: {writer} begins anew
    {path:path} may be of an earlier attempt of {writer}, which begins anew: it is
    looked at before that is submitted
waits_for_new_file: waits for a new {path:tail}
    {path:path} is of {whose}; waits until {writer} writes it anew
file_of_earlier: {path:tail} is not of this attempt
    {path:path} is of {whose}; {writer} {state:ended} without writing it anew. X lets
    this start with it, R runs {writer} again.
doomed_file: its {writer} {state:ended}
    can never start: {path:path} will not come, its writer[ {writer}] {state:ended}[ at
    step {step}][ ({cause:cause})] and no restart is left. R retries the writer, X skips
    this.
# values
no_metadata: waits for {key}
    waits for {key}[ of {job}]: its log has shown no usable value yet
metadata_is_not: {key} is {value}
    waits until {key}[ of {job}] {op} {wanted}: it is {value}
metadata_ok: {key} is {value}
    {key}[ of {job}] is {value}
no_metric: no {name} yet
    waits for {name}[ of {job}]: none was observed yet
metric_early: {name} from step {after_step}
    judges {name}[ of {job}] from step {after_step} on; it is at step {step}
metric_is_not: {name} is {value}
    waits until {name}[ of {job}] {op} {wanted}: it is {value}[ at step {step}]
metric_ok: {name} is {value}
    {name}[ of {job}] is {value}[ at step {step}], {op} {wanted}
doomed_value: its {job} {state:ended}
    can never start: {job} {state:ended}[ at step {step}][ ({cause:cause})] and {key} is
    not as asked. R retries it, X skips this.
# jobs
upstream_held metric_held: its {job} is held
    waits for {what:path}, and {job} is held: it is not among the chosen jobs. S submits
    it.
job_waits: waits for {job}
    waits for {job}[ to be {wanted:state}][; and for {more} more]
job_ok: {job} {state:ended}
    {job} {state:ended}[ and {more} more]
upstream: its {job} {state:ended}
    can never start: {job} {state:ended}[ at step {step}][ ({cause:cause})][, it had to
    be {wanted:state}]. R retries it, X skips this.
# commands and logs
command_ok: command passed
    the command passed: {command}
command_failed: command: exit {exit}
    waits for a command to pass: it ended with exit {exit}[: {detail}][ ({command})]
command_error: command did not run
    waits for a command to pass: it could not run or ran too long[:
    {detail}][ ({command})]
log_no_files: no log yet
    waits for a log at {path:path}: there is none yet
log_no_match: not in the log yet
    waits for "{pattern}" in {path:path}[: {matched} of {files} logs have it]
log_matched: {line}
    the log says: {line}[ ({path:path})]
doomed_log: its {writer} {state:ended}
    the log of {writer} will not show "{pattern}": {writer} {state:ended}[ at step
    {step}][ ({cause:cause})][; looked in {path:path}]
log_of_earlier_run: waits for {job}'s new run
    the log of {job} is an earlier run's; its next run will judge
log_may_restart: {job} may restart
    {job} may still be restarted; its log counts once it has ended for good
# times and counts
time_until: until {at:clock}
    waits until {at:clock}[, {left:duration} more]
time_unset: waits for its clock
    counts from the start of waiting, which has not begun
time_reached: time reached
    the time is reached[ ({at:clock})]
timeout: time limit
    ended by its time limit[ after {seconds:duration}][ on {node}][: {reason}][:
    {message}]. R resubmits, with another limit if asked.
start_timeout: waited {seconds:duration}
    gave up after {seconds:duration} of waiting[ for {what}][; last seen: {seen}]. R
    makes it wait again.
attempts_left: attempt {attempts} of {max}
    {attempts} of {max} attempts made
attempts_spent: attempts spent
    all {max} attempts are made
firings_spent: fired often enough
    it has fired as often as it may ({max})
restart_limit: no restart left
    no restart is left[: {attempts} of {max} attempts made]. R resubmits.
cooling_down: again at {until:clock}
    cools down until {until:clock}
cooled_down: cooled down
    the cooldown is over
# people
asks_later: asks you later
    asks you once everything else holds
asks_you: waits for you
    waits for your approval[: {prompt}]. A shows what will be done.
approved: approved
    approved[ by {by:who}][: {reason}]
refused approval_refused: refused[: {reason}]
    the approval was refused[ by {by:who}][: {reason}]. R asks again.
approval_timeout: nobody answered
    nobody answered the approval within {seconds:duration}. R asks again.
waived: waived
    waived by a person[: {reason}]
held: not chosen: S submits it
    held: not among the chosen jobs. S submits it.
planned: planned
    planned. S submits it.
skipped_by: skipped[ by {by:who}][: {reason}]
    skipped[ by {by:who}][: {reason}]. R brings it back.
cancelled_by: cancelled[ by {by:who}][ by {user:who}]
    cancelled[ by {by:who}][ by {user:who}][: {reason}]. R resubmits.
user: cancelled by a person
    cancelled by a person[: {reason}][: {message}]. R resubmits.
cancelled_outside: cancelled outside[ by {by}]
    cancelled outside this session[ by {by}][: {reason}]. R resubmits.
well_before_the_kill: ended well first
    it ended well before its kill for a stall had reached it
revived revived_by: brought back
    waits again[, brought back by {by:who}]
revived_with: back with {job}
    waits again with {job}[, brought back by {by:who}]
asked_by: asked for
    asked for by {by:who}
no_longer_planned: no longer planned
    no longer planned: {by:who} changed the plan. S lets it run, R brings it back.
resubmitted_by: resubmitted
    resubmitted by {by:who}
other_overrides: other overrides
    runs with other overrides: {overrides}
runtime_values: values of other jobs
    its parameters take what logs of other jobs have told
other_resources: other resources
    runs with other resources from now on
does_not_compose: does not compose
    the overrides do not compose: {problem}. The job is as it was.
# sending
ready: ready
    ready
held_by_slots: waits for a slot
    ready; waits for a slot[: {limit} allows {slots} at a time][, {place:ordinal} in
    line]
held_by_look: its checkpoint is looked at
    ready; starts when its newest checkpoint has been looked at, and moved aside where
    that was asked for
held_by_join: a plan is joining
    ready; the plan that is just joining decides what becomes of it
held_by_files: begins anew: its files are looked at
    ready; starts when what others wait for has been looked at, since it begins anew
files_unseen: the files cannot be looked at
    ready; what others wait for is looked at before it starts: {problem}
paused paused_by: submissions paused
    submissions are paused[ by {by:who}][ since {at:clock}][: {reason}]. P resumes.
storm: paused: {count} quick failures
    submissions are paused: {count} quick failures in a row[ {what}][, the last of
    {job}][: {line}]. Mend what makes them fail. P resumes.
storm_node: {node} is left out
    nothing more is sent to node {node}: {count} quick failures in a row on it[, the
    last of {job}][: {line}]. Have the node looked at.
held_by_storm: paused: quick failures
    ready; submissions are paused, since jobs fail quickly[ {what}][, since {at:clock}].
    P resumes.
submitting: being sent
    being sent to the executor
disk_refuses: a disk refuses
    not sent, and tried again until the disk takes it: {message}
busy: executor is full
    the executor takes no more just now: {message}
in_doubt: in doubt: asking by name
    [{place:name} may have taken this job: ]{message}[, {at:clock}]. The queue and the
    records are asked for it by name; it is sent again only after both say no.
uncertain_effect: in doubt: {kind}
    whether the {kind} was carried out is not known[: {what}]; the engine ended in
    between, and it is not repeated
queued: queued
    queued[: {reason}][; expected {expected:clock}]
requeued: requeued
    put back into the queue[: {reason}]
rejected: refused: [{message}][{reason}]
    refused by the executor: [{message}][{reason}]. Nothing was started.
submit_error: not sent: [{message}][{reason}]
    could not be sent: [{message}][{reason}]. Nothing was started.
unreachable: controller is away
    the executor could not be reached, so nothing was sent: {message}. It is tried
    again[ in {seconds:duration}].
refused_unexplained: refused: {message}
    refused in words that autoexp does not know: {message}. It is tried again[ in
    {seconds:duration}][ ({tries} of {most})].
held_by_refusal: refused {tries} times
    held: the executor refused it {tries} times[ over {seconds:duration}] in words that
    autoexp does not know: {message}. Nothing was started. S submits it again, X skips
    it.
cancel_unconfirmed: its end is not confirmed
    the order to end it[ and others: {count} in all] is not confirmed: {message}. It may
    still run; the order is given again until it is confirmed.
stuck_in_queue: will not start
    it will not start unless somebody acts: {reason}
sent_apart: sent by itself
    sent by itself, since together with others it could not be[: {message}]
duplicate: ran elsewhere
    another submission of this attempt ran instead[: {message}]
# ends
exit_code: exit {code}[: {note}]
    ended with exit {code}[ on {node}][: {note}]
signal: [{signal}][{name}]
    ended by signal [{signal}][{name}][ on {node}][: {note}]
out_of_memory oom: out of memory
    out of memory[ on {node}][: {reason}]
node_fail: node failure
    its node failed[: {node}][ ({reason})]
preempted: preempted
    preempted[ on {node}][: {reason}]
nan: {metric} is not a number
    {metric} is {value} since step {step}[, was {last} before]
stall: no step for {seconds:duration}
    no step[ after {step}] for {seconds:duration}[; the counter stands, whatever the log
    says][; evidence: {evidence:path}]
rule_off: a rule is off
    a rule or metric is off for this session: {problem}
log_unreadable: its log cannot be read
    its log cannot be read since {since:clock}: {error}. It is read on as soon as it can
    be; until then nothing that it says has consequences.
kill_criterion: kill criterion[: {text}]
    met a kill criterion[: {text}][: {reason}]
cancel_condition: cancel condition[: {text}]
    a cancel condition holds[: {text}][: {reason}]
cancelled_by_rule: by rule {rule}
    ended by the rule {rule}[: {reason}][; the log says: {line}][; evidence:
    {evidence:path}]
finished_by_rule: done, by rule {rule}
    done, says the rule {rule}[: {reason}][; the log says: {line}]
ordered_by_rule: by rule {rule}
    ordered by the rule {rule}[; the log says: {line}]
job_is_over: its job is over
    not done: the job had ended, or was to end, before
restarted_already: it runs again anyway
    not done: another rule has ordered that it runs again
joins_spent: joined {max:count} times
    not done: the rule {rule} has let other jobs join {max:count} times for this job,
    and no MaxAttempts says that it may do so more often
own_offspring: its own job
    not done: the rule {rule} made this job, or one that it goes back to, and no
    MaxAttempts says how often it may do so
rule_is_gone: its rule is gone
    not done: the job has no such rule any more
value_refused: {key} may not stand there
    not done: {key}[ of {job}] is what a log says, and {problem}
value_in_script: log text in a script
    not run: its script would hold {value}, which a log says and a shell would read as
    more than a word. R runs it with another value.
value_never_came: {key} never came
    not done: {job} {state:ended} and its log has shown no usable {key}
restart_ordered: restart by rule {rule}
    the rule {rule} ends this run and starts it again[: {reason}][; the log says:
    {line}][; evidence: {evidence:path}]
ended_itself: ended by itself
    the run went another way before the rule could end it
retry: retry[: {reason}]
    runs again[ as attempt {attempt}][ at {at:clock}][, by the rule {rule}][:
    {reason}][; the log says: {line}]
lost: no trace left
    lost: the executor has not known it for {seconds:duration} and no exit record came.
    R runs it again.
lost_records: records changed
    lost: {what}. The job itself, or another program, did that, and nobody can tell how
    it ended. R runs it again.
records_changed: records changed
    {what}. The job itself, or another program, did that.
late_cause: {cause}, says the executor
    it ended with exit 0 and counts as completed; {executor} now says that it ended by:
    {cause}. Check its results.
rerun: runs again
    runs again[ as attempt {attempt}], from its newest checkpoint: Slurm would have done
    so, and forgot it
forgotten: forgotten: sent again
    the executor took it[ as {id}] and has not known it for {seconds:duration}; it never
    began. It is sent again.
fenced: a lost run is fenced
    nobody has seen the lost run end: should it still live, it is to end
after_the_run: after the run
    done when the run has ended
quarantine: checkpoint to blame
    {attempts} in a row went on from {path:path} and came no further
quarantine_asked: as a rule says
    a rule says that {path:path} goes aside
quarantined: {path:tail} moved aside
    the checkpoint {path:path} was moved to {target:tail}[, since {attempts} in a row
    came no further than it]; the job goes on from {before}. Move it back by hand if it
    was good.
not_quarantined: checkpoint not moved
    the checkpoint[ {path:path}] was not moved aside: {problem}. The job goes on from
    what there is.
done_before: done before
    done already[ in session {session}][, {at:clock}]: it is not run again. R runs it
    anew.
late_exit_record: ended after all
    its exit record came late: it completed
budget: budget spent
    the budget is spent[: {spent} of {limit}][: {reason}]
# warnings
plateau: {metric} is flat
    {metric} fell less than {percent} % in {steps} steps: {value} at step {step}
divergence: {metric} rises
    {metric} is {value} at step {step}, more than {percent} % above its minimum
    {minimum}
notice: {text}
    {text}
action_failed: {kind} failed
    a rule's {kind} failed[: {what}][: {problem}]
place_silent: no answer from {place:tail}
    no answer from {place:path} for {since:age}: its files and logs are not known until
    it answers. Whoever needs them waits; all else goes on.
matches_gathered: {rule} matches too often
    the rule {rule} matches more than a few lines a second: their matches are recorded
    together, and its actions run once for all of them[: {line}]
log_unread: log too long to read
    {bytes:size} of the log of {job} were not searched by any rule: it had ended, and
    there was more to read than its last {tail:size}.
metrics_left_out: more than {most} metrics
    it tells more than {most} metrics: {name} and others are left out. `metrics` of a
    file in `monitoring.metrics_files` names those that are wanted.
metrics_file_torn: a file of metrics is cut or damaged
    {path:path} is cut or damaged within its last {bytes:size}: what stood before was
    read, what follows is not.
clock_set: wall clock set {way}
    the wall clock was set {way} by {seconds:duration}. Nothing waits for it: cooldowns,
    time-outs and ages go on by the time that passes.
# warnings of a research loop
hypothesis_falsified: {name} failed {failures} times
    the hypothesis {name}[ ({what})] failed {failures:count} times in a row. Consider
    abandoning this direction.
no_gain: no gain in {rounds} rounds
    none of the last {rounds:count} rounds brought a better {metric}[: the best is still
    {value}, of {run}]. Consider a fundamentally different approach.
run_plateau: {metric} of {run} is flat
    {metric} of {run} fell less than {percent} % in {steps} steps: {value} at step
    {step}. Consider ending it early.
run_divergence: {metric} of {run} rises
    {metric} of {run} is {value} at step {step}, more than {percent} % above its minimum
    {minimum}
run_gpu_low: {run} uses its GPUs little
    the GPUs of {run} were less than 20 % busy for {seconds:duration}
run_no_metric: no metric of {run}
    {run} has told no metric in {seconds:duration}
# the gate of a tree, its ranking and its ideas
gate_passed: passed: {grade}
    passed the gate: grade {grade}[, score {score}]
eval_not_completed: did not complete
    the evaluation did not complete[: {reason}]
missing_candidate_commit: no commit
    the implementation left no commit
missing_candidate_results: no results
    the evaluation left no results
missing_parent_baseline: no baseline
    its parent has no results to compare with
candidate_results_not_there parent_baseline_not_there: {what} not there
    {path:path}, which holds {what}, is not there
candidate_results_not_in_artifacts parent_baseline_not_in_artifacts: {what} elsewhere
    {path:path}, which holds {what}, lies outside the search's directory of artifacts
candidate_results_changed parent_baseline_changed: {what} changed
    {path:path}, which holds {what}, changed since it was recorded: its checksum differs
missing_candidate_rows_used: rows not counted
    nobody counted the rows of its results
candidate_rows_used_mismatch: {used} of {expected} rows
    its results have {used} of the {expected} rows that `sweep_config_limit` asks for
incomplete_or_failed_rows: {ok} of {expected} rows ok
    only {ok} of {expected} rows are ok, and all must be[; {first}]
too_few_rows: {used} of {expected} rows
    its results have {used} rows; `gate.min_rows` asks for {expected}
ok_rate_too_low: {ok} of {used} rows ok
    {ok} of {used} rows are ok; `gate.min_ok_rate` asks for a share of {rate}[; {first}]
results_other_rows: other rows
    suspicious: its rows are not those of the baseline; row {row} is {fault}
results_outside_bounds: {metric} is {value}
    suspicious: {metric} is {value} in row {row}, outside its declared bounds
results_constant: {metric} is constant
    suspicious: {metric} is {value} in all {rows} rows, and in the baseline it is not
missing_primary_delta: no primary metric
    the primary metric cannot be compared: one side has no row that is ok
primary_regressed: {metric} is worse
    {metric} is worse than the parent's: {delta}, counted so that more is better
should_explore_false: {grade}
    not worth exploring: grade {grade}[, score {score}][: {reasons}]
noise_not_measured: noise not known
    `noise.repeats` asks for the noise of the baseline, and it is not measured
indecisive: indecisive
    indecisive: a gain of {gain} is less than {k} standard errors of {error}
promoted: rank {rank}
    promoted: rank {rank}, and the best {width} become nodes
beyond_beam: rank {rank}
    not promoted: rank {rank}, and only the best {width} become nodes
promoted_by_hand: promoted by {by:who}
    promoted by {by:who}[: {reason}]
rejected_by_hand: rejected by {by:who}
    rejected by {by:who}[: {reason}]
cannot_be_node: no commit or results
    it cannot be promoted, for it left no commit or no results ({gate})
no_rank: nothing to rank by
    not promoted: neither its score nor its primary metric can be compared with the root
idea_empty: empty
    the file of the idea is empty
idea_not_text: not text
    the file of the idea is not UTF-8 text
idea_too_long: too long
    the file of the idea has {bytes:size}; at most {most:size} are read
# a search
empty_frontier: nothing was promoted
    nothing was promoted: there is no node to expand
ideas_used_up: no new idea
    depth {depth} has no idea that was not tried before
no_ideas: no ideas
    there are no ideas: {problem}
agent_login: login refused
    an agent's login is refused, and every call would meet it: {problem}
agents_wait: agents wait until {at:clock}
    no agent is called until {at:clock}[: {problem}]
first_failure: {evaluation} failed
    {evaluation} failed, and `strict_fail_depth` asks before more is tried: {problem}
failed_alike: {number} failed alike
    the first {number} evaluations of depth {depth} ended alike: {problem}
left_out_of_beam: left out by {by:who}
    not promoted: left out by {by:who}[: {reason}]
beam_refused: refused by {by:who}
    the nodes of depth {depth} were refused by {by:who}[: {reason}]
search_refused: ended by {by:who}
    ended by {by:who}[: {reason}], for {problem}
max_depth_reached: last depth
    depths evaluated: {depths:count}, as many as there may be
max_total_idea_evals_reached: all evaluations used
    ideas evaluated: {most}, as many as there may be
no_baseline: root not measured
    the root could not be measured[: {problem}]
tree_broken: a step failed
    the search cannot go on: {problem:whole}
not_prepared: not prepared
    its jobs could not be made: {problem:whole}
not_collected: results not read
    its results could not be taken in: {problem:whole}
research_broken: a step failed
    the research cannot go on: {problem:whole}
target_reached: target reached
    the target is reached: {run} came to {value}
nothing_left: nothing left to try
    nothing left to try: the list is empty, and the agent adds nothing
runs_failed: no run succeeded
    no run succeeded: {runs} failed, the last one so: {problem}
research_stuck: nothing can begin
    no item of the list can begin, and the agent adds nothing
research_ended: ended by {by:who}
    ended by {by:who}[: {reason}]
ended_by_agent: by {consultation}
    ended by the answer {consultation}[: {reason}]
step_failed: {step} failed
    the step {step} failed: {problem}
candidate_failed: {code}
    {problem}
eval_timeout: took too long
    its steps took longer than {seconds:duration} together
ended_by_hand: ended by hand
    a person ended it
repeated_change: change known
    {evaluation} made the same change
not_measured: not measured
    it was not measured
# the list of a research, and its budgets
no_room: waits for {wanted}
    ready; waits for {wanted} (free: {have})
room_kept: room is kept for {item}
    ready; room is kept for {item}, which others have overtaken often enough
beyond_capacity: wants {wanted} of {have}
    can never start: it wants {wanted} (in all: {have})
dependency_unknown: no {name}
    can never start: it waits for {name}, and neither an item nor a run has this name
dependency_ring: waits for itself
    can never start: it waits for itself ({path})
dependency_stuck: its {name} cannot start
    can never start: it waits for {name}, which cannot either
code_unapproved: its code waits for you
    waits until the change of code of {consultation} is approved. A shows it.
code_refused: its code is not approved
    can never start: the change of code of {consultation} was not approved
budget_reached: {budget} used up
    nothing more begins: a budget is used up ({budget}: {spent} of {limit})
budget_used: {percent} % of {budget} used
    {percent} % of a budget are used ({budget}: {spent} of {limit})
budget_low: {budget}: below {percent} % left
    below {percent} % of a budget are left ({budget}: {spent} of {limit} used)
calls_spent: {budget} used up[ ({role})]
    no agent is called: a budget is used up ({budget}[ of the role {role}]: {spent} of
    {limit})
call_unaffordable: {budget} run short[ ({role})]
    no agent is called: a call uses about {wanted}, which a budget has not left
    ({budget}[ of the role {role}]: {spent} of {limit})
# refusals
stale: changed meanwhile
    nothing was done: {jobs} changed since you looked. Look again, then repeat.
no_such_job: no such job
    nothing was done: no job named {jobs}
nothing_to_do: nothing to do
    nothing to {command}: no job is in that state
other_plan: planned again meanwhile
    nothing was submitted: the config was planned again since you looked. Look again,
    then repeat.
joined_before: joined already
    nothing was done: this plan has joined the session already
not_joined: could not join
    nothing joined: {problem}
other_digest: changed meanwhile
    nothing was done: what {job} will do changed since it asked. Look again.
no_such_ask: no such question
    nothing was done: no question named {ask}
answered_before: answered already
    nothing was done: {ask} was answered before[ by {by:who}]
other_lines: changed meanwhile
    nothing was done: the lines of {ask} changed since you read them. Look again.
nothing_kept: no line is left
    nothing was done: lines are left out of an approval that keeps some. Reject {ask} as
    a whole instead.
sender_is_job: sent by a job
    nothing was done: this came from a job ({by}), and only a person may decide it.
    Answer from a cockpit or a shell of your own.
sender_unnamed: sent by nobody
    nothing was done: the answer does not say which process sent it. Answer with the
    cockpit or autoexp-sessions.
sender_ended: sender has ended
    nothing was done: the process that sent the answer had ended before the engine could
    check that it is no job's. Answer again.
"""

_ENTRY: Final = re.compile(r"^([\w ]+): (.+)\n((?: .+\n)+)", re.MULTILINE)

CODES: Final[Mapping[str, Phrases]] = {
    code: Phrases(short, " ".join(sentence.split()))
    for codes, short, sentence in _ENTRY.findall(_TEMPLATES)
    for code in codes.split()
}


Arg: TypeAlias = str | int | float

SHORT_COLUMNS: Final = 30
_ARG_LIMIT: Final = 240
_LONG: Final = 4096
"""Of a path, and of a problem with its next step."""

CAUSES: Final[Mapping[str, str]] = {
    **{cause: cause.replace("_", " ") for cause in Cause},
    Cause.TIMEOUT: "time limit",
    Cause.NODE_FAIL: "node failure",
    Cause.NAN: "loss not a number",
    Cause.STALL: "no step",
    Cause.START_TIMEOUT: "waited too long",
    Cause.UPSTREAM: "what it needs ended",
    Cause.USER: "cancelled by a person",
    Cause.REJECTED: "refused by the executor",
    Cause.SUBMIT_ERROR: "could not be sent",
    Cause.DUPLICATE: "ran elsewhere",
    Cause.LOST: "no trace left",
    Cause.BUDGET: "budget spent",
}
STATES: Final[Mapping[str, str]] = {
    **{state: state.lower() for state in JobState},
    JobState.SUBMITTING: "being sent",
    JobState.SUBMIT_UNKNOWN: "in doubt",
}
_DONE_TO_IT: Final = frozenset({JobState.CANCELLED, JobState.SKIPPED, JobState.LOST})


def format_cause_of_end(cause: Cause, state: JobState) -> str:
    """What ended a job, in a few words; `state`: the one that it ended in."""
    skipped = (cause, state) == (Cause.USER, JobState.SKIPPED)
    return "skipped by a person" if skipped else CAUSES[cause]


_SAYS_IT_ITSELF: Final = frozenset({"cancel_condition", "cancelled_by_rule"})


def format_reason(
    why: Why, cause: Cause | None, now: float, *, keys: bool = True
) -> str:
    """Why a job is where it is; a cancel condition is named, for its fact alone does
    not tell that it ended the job."""
    words = sentence(why, now, keys=keys)
    if cause is not Cause.CANCEL_CONDITION or why.code in _SAYS_IT_ITSELF:
        return words
    return f"{CAUSES[cause]}: {words}"


_KEYS: Final = re.compile(r"\. [A-Z] [a-z].*\.", re.DOTALL)
"""What a template says last of the cockpit's keys."""


def sentence(why: Why, now: float, *, keys: bool = True) -> str:
    """The whole reason; `keys`: whether a cockpit's keys may be the next step."""
    phrases = CODES.get(why.code)
    if phrases is None:
        return _plain(why)
    template = phrases.sentence
    if not keys and (found := _KEYS.search(template)) and found.end() == len(template):
        template = template[: found.start()]
    return mask_text(_render(template, dict(why.args), now))


def short(why: Why, cells: int = SHORT_COLUMNS) -> str:
    """The reason in at most `cells` columns, without times relative to the present."""
    phrases = CODES.get(why.code)
    if phrases is None:
        return fit(_plain(why), cells)
    return fit(mask_text(_render(phrases.short, dict(why.args), None)), cells)


def wakes(pid: int) -> str:
    """What lets a process go on that Ctrl-Z or SIGSTOP stopped."""
    return f"`fg` in its terminal, or `kill -CONT {pid}`"


def _plain(why: Why) -> str:
    code = clean(why.code, limit=_ARG_LIMIT)
    args = ", ".join(f"{clean(name)}={_text(arg)}" for name, arg in why.args)
    return f"{code} ({args})" if args else code


_CLOSING: Final = ("?", "!", ".", "…")
_PARSE: Final = functools.cache(lambda span: tuple(string.Formatter().parse(span)))


def _render(template: str, args: Mapping[str, Arg], now: float | None) -> str:
    done = ""
    for at, span in enumerate(re.split(r"[\[\]]", template)):
        pieces, is_optional = _PARSE(span), at % 2
        names = (name for _, name, _, _ in pieces if name)
        if is_optional and any(args.get(name, "") == "" for name in names):
            continue
        for text, name, form, _ in pieces:
            # A full stop is left out after an argument that ends so.
            done += text[1:] if done.endswith(_CLOSING) and text[:1] == "." else text
            if name:
                value = args.get(name, "")
                done += UNKNOWN if value == "" else _FORMS[form or ""](value, now)
    return done


def _text(value: Arg, now: float | None = None, limit: int = _ARG_LIMIT) -> str:
    if isinstance(value, str):
        return clean(value, limit=limit)
    return format_number(value)


def _state(value: Arg, now: float | None) -> str:
    return STATES.get(str(value), _text(value).lower())


def _numeric(spell: Callable[[float], str]) -> Callable[[Arg, float | None], str]:
    return lambda value, _now: _text(value) if isinstance(value, str) else spell(value)


def _clock(value: Arg, now: float | None) -> str:
    return _text(value) if isinstance(value, str) else clock_time(value, now)


def _age(value: Arg, now: float | None) -> str:
    """How long ago a moment was; where nobody says what time it is, the moment."""
    if isinstance(value, str) or now is None:
        return _clock(value, now)
    return duration(now - value)


_WHO: Final = {"person": "a person", "cockpit": "a person", "script": "a script"}
_FORMS: Final[Mapping[str, Callable[[Arg, float | None], str]]] = {
    "": _text,
    **dict.fromkeys(("path", "whole"), lambda value, now: _text(value, now, _LONG)),
    # Enough to know a path by.
    "tail": lambda value, now: "/".join(_text(value).rstrip("/").split("/")[-2:]),
    "state": _state,
    # A verb after a job's name.
    "ended": lambda value, now: (
        f"{'was ' if value in _DONE_TO_IT else ''}{_state(value, now)}"
    ),
    "cause": lambda value, now: CAUSES.get(str(value), _text(value).replace("_", " ")),
    # What is no role is a name or a flag, as it is.
    "who": lambda value, now: _WHO.get(str(value), _text(value)),
    "name": lambda value, now: _text(value)[:1].upper() + _text(value)[1:],
    "clock": _clock,
    "age": _age,
    "duration": _numeric(duration),
    "size": _numeric(size),
    "count": _numeric(count),
    "ordinal": _numeric(
        lambda value: ordinal(int(value)) if math.isfinite(value) else UNKNOWN
    ),
}
