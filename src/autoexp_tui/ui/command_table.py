"""The commands of the cockpit, in the order in which help lists them: data only.

Lower-case keys look, upper-case keys act. The lower-case twins of acting keys stay
unbound, so that a slip of the shift key does nothing.
"""

from __future__ import annotations

from typing import Final

from autoexp_tui.ui.command_kinds import (
    ABOUT_JOBS,
    CHRONICLE,
    EVERYWHERE,
    JOBS_MODE,
    LISTS,
    LOG,
    METRICS,
    ROWS,
    Command,
    Group,
    Pane,
)


def _look(
    name: str,
    keys: str,
    label: str,
    text: str,
    where: frozenset[Pane],
    *,
    group: Group = "Look",
    foot: int = 0,
) -> Command:
    return Command(
        id=name,
        keys=tuple(keys.split(",")),
        label=label,
        help=text,
        group=group,
        where=where,
        foot=foot,
    )


def _act(name: str, key: str, label: str, text: str, *, foot: int) -> Command:
    return Command(
        id=name,
        keys=(key,),
        label=label,
        help=text,
        group="Act",
        where=ABOUT_JOBS,
        acts=True,
        foot=foot,
    )


def _replay(name: str, keys: str, label: str, text: str, *, foot: int = 0) -> Command:
    return Command(
        id=name,
        keys=tuple(keys.split(",")),
        label=label,
        help=f"replay: {text}",
        group="Replay",
        where=EVERYWHERE,
        replay=True,
        foot=foot,
    )


def _move(name: str, keys: str, text: str) -> Command:
    return _look(name, keys, "", text, EVERYWHERE, group="Move")


def _pane(pane: str, key: str, title: str) -> Command:
    return _look(
        f"pane.{pane}",
        key,
        title,
        f"go to pane {key}, {title}",
        EVERYWHERE,
        group="Move",
    )


TABLE: Final = (
    _move("move.down", "j,down", "one line down"),
    _move("move.up", "k,up", "one line up"),
    _move("move.first", "g,home", "to the first line"),
    _move("move.last", "G,end", "to the last line"),
    _move("move.half_down", "ctrl+d,pagedown", "down by half a page"),
    _move("move.half_up", "ctrl+u,pageup", "up by half a page"),
    _move("move.left", "h,left", "fold; the metric, or sorted column, before"),
    _move("move.right", "l,right", "unfold; the next metric, or sorted column"),
    _move("pane.next", "tab", "to the next pane"),
    _move("pane.previous", "shift+tab", "to the pane before"),
    _pane("stages", "1", "stages"),
    _pane("jobs", "2", "jobs"),
    _pane("why", "3", "why"),
    _pane("metrics", "4", "metrics"),
    _pane("needs", "5", "needs you"),
    _look(
        "mode.events",
        "8",
        "events",
        "every command and effect, as sent",
        EVERYWHERE,
        group="Move",
    ),
    _look(
        "mode.waiting",
        "w",
        "waiting",
        "all that waits, by reason, the longest wait first",
        EVERYWHERE - LOG,
        group="Move",
    ),
    _look(
        "pane.log",
        "0",
        "log",
        "go to pane 0, the log",
        EVERYWHERE,
        group="Move",
        foot=6,
    ),
    _look(
        "rows.need",
        "exclamation_mark",
        "next",
        "the next that needs you",
        JOBS_MODE,
        foot=2,
    ),
    _look(
        "rows.filter",
        "slash",
        "filter",
        "filter: words, lr>1e-3, stage:cooldown",
        JOBS_MODE - LOG,
        foot=3,
    ),
    _look(
        "look.open",
        "enter",
        "open",
        "open what is under the cursor",
        LISTS | METRICS,
        foot=5,
    ),
    _look("look.back", "escape", "back", "one level back", EVERYWHERE),
    _look("look.larger", "plus", "larger", "enlarge the pane", EVERYWHERE, foot=7),
    _look("look.smaller", "underscore", "", "shrink the pane again", EVERYWHERE),
    _look("rows.mark", "space", "mark", "mark, or unmark, the row", ROWS, foot=8),
    _look("rows.range", "v", "", "mark from here to where v is pressed again", ROWS),
    _look("rows.alike", "m", "", "mark all with the same cause", JOBS_MODE - LOG),
    _look(
        "rows.group",
        "b",
        "group",
        "fold equal causes into one row",
        JOBS_MODE - LOG,
        foot=9,
    ),
    _look("rows.order", "full_stop", "", "needs you first, or plan order", JOBS_MODE),
    _look(
        "events.all",
        "full_stop",
        "all",
        "every event, or what was ordered, done, ended and warned of",
        CHRONICLE,
        group="Events",
        foot=7,
    ),
    _look(
        "events.filter",
        "slash",
        "filter",
        "filter events: words, job:NAME, kind:submit,error",
        CHRONICLE,
        group="Events",
        foot=3,
    ),
    _look(
        "events.kind",
        "right_square_bracket",
        "kind",
        "events of the next kind alone: submit, cancel, state ...",
        CHRONICLE,
        group="Events",
        foot=4,
    ),
    _look(
        "events.kind_before",
        "left_square_bracket",
        "",
        "events of the kind before",
        CHRONICLE,
        group="Events",
    ),
    _look(
        "events.same_job",
        "f",
        "this job",
        "events of the job under the cursor alone, or of all",
        CHRONICLE,
        group="Events",
        foot=5,
    ),
    _look(
        "events.job",
        "o",
        "its job",
        "to the job of the event, in the table",
        CHRONICLE,
        group="Events",
        foot=6,
    ),
    _look(
        "rows.sort",
        "comma",
        "",
        "sort by a column, again: reverse, again: plan order; h l: which",
        JOBS_MODE,
    ),
    _look(
        "rows.diff", "d", "diff", "compare two marked jobs", JOBS_MODE - LOG, foot=10
    ),
    _look(
        "rows.curves",
        "c",
        "curves",
        "curves of the marked runs",
        JOBS_MODE - LOG,
        foot=11,
    ),
    _look(
        "rows.next_job",
        "right_square_bracket",
        "",
        "the next job, pane kept",
        JOBS_MODE,
    ),
    _look(
        "rows.previous_job",
        "left_square_bracket",
        "",
        "the job before, pane kept",
        JOBS_MODE,
    ),
    _look("look.copy", "y", "", "copy what is under the cursor", EVERYWHERE - METRICS),
    _look("log.follow", "f", "follow", "follow the end", LOG, group="Log", foot=2),
    _look(
        "log.search",
        "slash",
        "search",
        "search, a regular expression",
        LOG,
        group="Log",
        foot=3,
    ),
    _look("log.next", "n", "next", "the next match", LOG, group="Log"),
    _look("log.previous", "N", "", "the match before", LOG, group="Log"),
    _look(
        "log.error",
        "e",
        "error",
        "the next line that looks like an error",
        LOG,
        group="Log",
        foot=4,
    ),
    _look("log.error_before", "E", "", "the error before", LOG, group="Log"),
    _look("log.wrap", "w", "wrap", "wrap long lines", LOG, group="Log", foot=5),
    _look(
        "log.time",
        "t",
        "",
        "hide, or show, the time at line beginnings",
        LOG,
        group="Log",
    ),
    _look(
        "log.stream",
        "o",
        "out/err",
        "the other stream, where there is one",
        LOG,
        group="Log",
        foot=8,
    ),
    _look("log.save", "ctrl+s", "", "save a copy of the log here", LOG, group="Log"),
    _look(
        "metrics.scale",
        "y",
        "log y",
        "logarithmic or linear",
        METRICS,
        group="Metrics",
        foot=3,
    ),
    _act("run.submit", "S", "submit", "submit: all, the marked, one family", foot=4),
    _act("run.kill", "K", "kill", "end jobs, after a question and 5 seconds", foot=2),
    _act("run.resubmit", "R", "resubmit", "bring back jobs that ended", foot=1),
    _act("run.answer", "A", "answer", "read an approval, and answer it", foot=1),
    _act("run.skip", "X", "skip", "skip a waiting job, or waive a condition", foot=3),
    _act("run.pause", "P", "pause", "pause, or resume, submission", foot=6),
    _act("run.undo", "U", "undo", "stop a countdown", foot=0),
    _replay("replay.play", "space", "play", "play, or stand still", foot=1),
    _replay("replay.slower", "less_than_sign", "slower", "half as fast", foot=3),
    _replay(
        "replay.faster",
        "greater_than_sign",
        "faster",
        "twice as fast; beyond a million as fast as it goes",
        foot=3,
    ),
    _replay("replay.back", "left", "", "back by a commit, and stand"),
    _replay("replay.on", "right", "", "on by a commit, and stand"),
    _replay("replay.begin", "home", "", "to the beginning"),
    _replay("replay.end", "end", "", "to the end"),
    _replay("replay.jump", "t", "time", "go to a time: 14:02, +2h, -1d, 50%", foot=4),
    _look(
        "app.help",
        "question_mark",
        "keys",
        "this list",
        EVERYWHERE,
        group="Cockpit",
        foot=1,
    ),
    _look(
        "app.palette",
        "ctrl+p,colon",
        "palette",
        "find a command by its name",
        EVERYWHERE,
        group="Cockpit",
    ),
    _look(
        "app.redraw", "ctrl+l", "", "draw the screen again", EVERYWHERE, group="Cockpit"
    ),
    _look(
        "app.leave",
        "q,ctrl+q,ctrl+c",
        "leave",
        "leave; the engine goes on",
        EVERYWHERE,
        group="Cockpit",
        foot=1,
    ),
)
