"""What jobs wait for, or waited for, in words; what they mean: `model.sentences`."""

from __future__ import annotations

LOOKING = {
    "not_looked": ("not looked yet", "not looked yet[: {what}]"),
    "look_failed": (
        "cannot look: {error}",
        "could not look[ at {what}]: {error}. It is asked again; nothing is decided "
        "by a failed look.",
    ),
    "no_answer": (
        "no answer from {place:tail}",
        "no answer from {place:path} for {since:age}[, asked for {what:path}]. What is "
        "there is not known, and nothing is decided by that.",
    ),
    "bad_condition": (
        "bad condition",
        "this condition cannot be judged: {problem}. X waives it.",
    ),
    "own_failed": (
        "{what} cannot say",
        "{what} cannot say: {problem}. It is asked again when something changes; X "
        "waives it.",
    ),
    "own_says": ("{text}", "{text}"),
    "ok": ("ready", "nothing is in the way"),
    "all_hold": ("all hold", "all {count} conditions hold[: {what}]"),
    "none_holds": ("none holds", "none of {count} alternatives can hold any more"),
    "not_so": ("not so", "not so, as asked: {what}"),
    "is_so": ("it is so", "it is so although it must not be: {what}"),
}


FILES = {
    "file_missing": (
        "waits for {path:tail}",
        "waits for {path:path}[ of {writer}][; newest is {newest}][, {age:duration} "
        "ago][; expected {expected:clock}]",
    ),
    "file_small": (
        "{path:tail} is small yet",
        "waits for {path:path}[ of {writer}] to reach {min_size:size}: it has "
        "{size:size}",
    ),
    "file_there": ("{path:tail} is there", "{path:path} is there[, {size:size}]"),
    "text_missing": (
        "waits for text in {path:tail}",
        'waits for "{pattern}" in {path:path}[ of {writer}]',
    ),
    "text_there": ("{path:tail} has the text", '{path:path} has "{pattern}"'),
    "files_unsure": (
        "{writer} begins anew",
        "{path:path} may be of an earlier attempt of {writer}, which begins anew: it "
        "is looked at before that is submitted",
    ),
    "waits_for_new_file": (
        "waits for a new {path:tail}",
        "{path:path} is of {whose}; waits until {writer} writes it anew",
    ),
    "file_of_earlier": (
        "{path:tail} is not of this attempt",
        "{path:path} is of {whose}; {writer} {state:ended} without writing it anew. X "
        "lets this start with it, R runs {writer} again.",
    ),
    "doomed_file": (
        "its {writer} {state:ended}",
        "can never start: {path:path} will not come, its writer[ {writer}] "
        "{state:ended}[ at step {step}][ ({cause:cause})] and no restart is left. "
        "R retries the writer, X skips this.",
    ),
}


VALUES = {
    "no_metadata": (
        "waits for {key}",
        "waits for {key}[ of {job}]: its log has shown no usable value yet",
    ),
    "metadata_is_not": (
        "{key} is {value}",
        "waits until {key}[ of {job}] {op} {wanted}: it is {value}",
    ),
    "metadata_ok": ("{key} is {value}", "{key}[ of {job}] is {value}"),
    "no_metric": (
        "no {name} yet",
        "waits for {name}[ of {job}]: none was observed yet",
    ),
    "metric_early": (
        "{name} from step {after_step}",
        "judges {name}[ of {job}] from step {after_step} on; it is at step {step}",
    ),
    "metric_is_not": (
        "{name} is {value}",
        "waits until {name}[ of {job}] {op} {wanted}: it is {value}[ at step {step}]",
    ),
    "metric_ok": (
        "{name} is {value}",
        "{name}[ of {job}] is {value}[ at step {step}], {op} {wanted}",
    ),
    "doomed_value": (
        "its {job} {state:ended}",
        "can never start: {job} {state:ended}[ at step {step}][ ({cause:cause})] and "
        "{key} is not as asked. R retries it, X skips this.",
    ),
}


_HELD = (
    "its {job} is held",
    "waits for {what:path}, and {job} is held: it is not among the chosen jobs. S "
    "submits it.",
)


JOBS = {
    "upstream_held": _HELD,
    "metric_held": _HELD,
    "job_waits": (
        "waits for {job}",
        "waits for {job}[ to be {wanted:state}][; and for {more} more]",
    ),
    "job_ended_otherwise": (
        "{job} {state:ended}",
        "{job} {state:ended}[ at step {step}][ ({cause:cause})], "
        "it had to be {wanted:state}",
    ),
    "job_ok": ("{job} {state:ended}", "{job} {state:ended}[ and {more} more]"),
    "upstream": (
        "its {job} {state:ended}",
        "can never start: {job} {state:ended}[ at step {step}][ ({cause:cause})]"
        "[, it had to be {wanted:state}]. R retries it, X skips this.",
    ),
}


COMMANDS_AND_LOGS = {
    "command_ok": ("command passed", "the command passed: {command}"),
    "command_failed": (
        "command: exit {exit}",
        "waits for a command to pass: it ended with exit {exit}[: {detail}][ "
        "({command})]",
    ),
    "command_error": (
        "command did not run",
        "waits for a command to pass: it could not run or ran too long[: {detail}][ "
        "({command})]",
    ),
    "log_no_files": ("no log yet", "waits for a log at {path:path}: there is none yet"),
    "log_no_match": (
        "not in the log yet",
        'waits for "{pattern}" in {path:path}[: {matched} of {files} logs have it]',
    ),
    "log_matched": ("{line}", "the log says: {line}[ ({path:path})]"),
    "doomed_log": (
        "its {writer} {state:ended}",
        'the log of {writer} will not show "{pattern}": {writer} {state:ended}[ at '
        "step {step}][ ({cause:cause})][; looked in {path:path}]",
    ),
    "log_of_earlier_run": (
        "waits for {job}'s new run",
        "the log of {job} is an earlier run's; its next run will judge",
    ),
    "log_may_restart": (
        "{job} may restart",
        "{job} may still be restarted; its log counts once it has ended for good",
    ),
}


TIMES_AND_COUNTS = {
    "time_until": (
        "until {at:clock}",
        "waits until {at:clock}[, {left:duration} more]",
    ),
    "time_unset": (
        "waits for its clock",
        "counts from the start of waiting, which has not begun",
    ),
    "time_reached": ("time reached", "the time is reached[ ({at:clock})]"),
    "timeout": (
        "time limit",
        "ended by its time limit[ after {seconds:duration}][ on {node}][: {reason}]"
        "[: {message}]. R resubmits, with another limit if asked.",
    ),
    "start_timeout": (
        "waited {seconds:duration}",
        "gave up after {seconds:duration} of waiting[ for {what}][; last seen: {seen}]"
        ". R makes it wait again.",
    ),
    "attempts_left": (
        "attempt {attempts} of {max}",
        "{attempts} of {max} attempts made",
    ),
    "attempts_spent": ("attempts spent", "all {max} attempts are made"),
    "firings_spent": ("fired often enough", "it has fired as often as it may ({max})"),
    "restart_limit": (
        "no restart left",
        "no restart is left[: {attempts} of {max} attempts made]. R resubmits.",
    ),
    "cooling_down": ("again at {until:clock}", "cools down until {until:clock}"),
    "cooled_down": ("cooled down", "the cooldown is over"),
}
