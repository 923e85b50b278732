"""Every command of the cockpit, once, and the keys that a person gives them.

Bindings, footer, palette, help and docs read this table. Lower-case keys look,
upper-case keys act; the lower-case twins of acting keys stay unbound. A person's own
keys are refused with every finding at once.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from textual.keys import KEY_NAME_REPLACEMENTS

from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from autoexp_tui.model.own_commands import OwnCommand

Pane: TypeAlias = Literal[
    "stages",
    "jobs",
    "why",
    "metrics",
    "needs",
    "log",
    "events",
    "effect",
    "evidence",
    "timeline",
    "waiting",
    "grid",
    "results",
    "conditions",
    "policy",
    "tree",
    "research",
]
PANES: Final = frozenset(get_args(Pane))
_MAIN: Final = frozenset({"stages", "jobs", "why", "metrics", "needs", "log"})
_EVENTS: Final = frozenset({"events", "effect"})
_LOGS: Final = frozenset({"log", "evidence"})
_GRID: Final = frozenset({"grid", "results", "conditions"})
PARTS: Final = frozenset({"tree", "research"})
"""Parts of a session that have a mode, and a pane, of their own where it has them."""
_VERBS: Final = _MAIN | _GRID | {"timeline", "waiting"}
_SETS: Final[Mapping[str, frozenset[str]]] = {
    "ALL": _VERBS | _EVENTS | _LOGS | PARTS | {"policy"},
    "MAIN": _MAIN,
    "EVENTS": _EVENTS,
    "PARTS": PARTS,
    "LOGS": _LOGS,
    "GRID": _GRID,
    "VERBS": _VERBS,
    "TABLES": _MAIN - _LOGS - {"metrics"},
    "OWN_G": frozenset({"stages", "results"}),
    "READS": _LOGS | {"metrics", "research"},
    "LISTS": _VERBS - _LOGS - {"why", "conditions"} | PARTS | {"events"},
}
"""Panes by the names that the table has for them."""

_ACTIONS: Final[Mapping[str, str]] = {
    "move": "move({!r})",
    "move.last_stage": "move('last')",
    "pane": "app.show_pane({!r})",
    "mode": "app.show_mode({!r})",
    "replay": "app.replay({!r})",
    "plan": "app.plan({!r})",
    "log": "pane.log({!r})",
    "log.search": "log_search",
    "log.save": "pane.log_save",
    "metrics": "pane.metrics({!r})",
    "events.kind": "events_kind(1)",
    "events.kind_before": "events_kind(-1)",
    "timeline": "pane.zoom({!r})",
    "app": "app.{}",
    "pane.next": "app.focus_next",
    "pane.previous": "app.focus_previous",
    "results.sort": "pane.sort",
    "results.how": "pane.change_how",
    "results.stage": "pane.change_stage(1)",
    "results.stage_before": "pane.change_stage(-1)",
    "results.baseline": "pane.set_baseline",
    "results.heat": "pane.heat",
    "results.pair": "pane.pair",
    "results.beside": "app.compare",
    "stages.grid": "app.show_mode('grid')",
    "tree.log": "row_log",
    "research.log": "row_log",
    "rows.need": "app.show_need",
    "job.shell": "app.open_shell",
    "rows.next_job": "rows_move('down')",
    "rows.previous_job": "rows_move('up')",
}
"""Textual's actions, by id or its first part; all others are the screen's own, `pane.`
is the focused pane."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing that a person can ask for."""

    id: str
    keys: tuple[str, ...]
    """Textual's key names, the one to show first."""
    label: str
    """For the footer: a word or two."""
    help: str
    group: str
    """Its heading in the help."""
    where: frozenset[str]
    """The panes that have it."""
    action: str
    """Textual's action: the screen's own, the app's or the focused pane's."""
    foot: int = 0
    """Place in the footer, 1 first to stay; 0: never there."""

    @property
    def acts(self) -> bool:
        """Whether it changes anything outside the screen."""
        return self.group == "Act"

    @property
    def is_special(self) -> bool:
        """Whether it belongs to some panes, and is no verb of jobs, nor moves."""
        usual = self.group in ("Act", "Move", "Replay", "Cockpit")
        return (
            not (usual and self.where - PARTS)
            and len(self.where) < len(_SETS["ALL"]) - 1
        )

    def fits(self, parts: Iterable[str]) -> bool:
        """Whether it has a place in a session of these parts."""
        own = PARTS & {self.id.removeprefix("mode.")}
        own = own or (self.where if self.where <= PARTS else own)
        return not own or not own.isdisjoint(parts)

    @property
    def replay(self) -> bool:
        """Whether only a replay has it; there its keys go before all others."""
        return self.group == "Replay"


_ROWS: Final = """
[Act]
run.submit  S  VERBS  4  submit  submit: all, the marked, one family
run.kill  K  VERBS  2  kill  end jobs, after a question and 5 seconds
run.resubmit  R  VERBS  1  resubmit  bring back jobs that ended
run.answer  A  VERBS+policy  1  answer  read what asks, and answer it
run.skip  X  VERBS  3  skip  skip a waiting job, or waive a condition
run.pause  P  VERBS+PARTS  6  pause  pause, or resume, submission
run.undo  U  VERBS+PARTS  -  undo  stop a countdown
tree.approve  A  tree  1  approve
    approve the beam that asks, or promote an evaluation, with a reason
tree.reject  X  tree  2  reject  keep an evaluation out of the beam, with a reason
tree.idea  I  tree  3  idea  add an idea to a node of the present depth
tree.branch  B  tree  4  branch  add an idea to the node under the cursor
tree.end  K  tree  5  end  end an evaluation, after a question and 5 seconds
tree.retry  R  tree  6  retry  try an evaluation again that has no results
research.approve  A  research  1  approve  answer what asks; space drops a line
research.reject  X  research  2  reject
    refuse what asks, with a reason; an item: out of the list; a warning: seen
research.edit  E  research  3  edit
    edit an item of the list: overrides, config, what ends it, what it awaits or beats
research.move  M  research  4  move  move an item: front, up, down, end, to a place
research.insert  I  research  5  insert  insert an item before the row, else at the end
research.tell  T  research  6  tell  tell the agent something: each context has it
research.consult  C  research  7  consult  consult the agent now
research.end  K  research  8  end call
    end the call under way, after a question and 5 seconds
[Look]
rows.need  !  ALL  2  next  the next that needs you
rows.filter  /  MAIN-LOGS  3  filter  filter: words, lr>1e-3, stage:cooldown
look.open  enter  LISTS  5  open  open what is under the cursor
look.back  escape  ALL  -  back  one level back
look.larger  +  ALL-timeline  7  larger  enlarge the pane
look.smaller  _  ALL  -  -  shrink the pane again
rows.mark  space  jobs  8  mark  mark, or unmark, the row
rows.range  v  jobs  -  -  mark from here to where v is pressed again
rows.alike  m  MAIN-LOGS  -  -  mark all with the same cause
rows.group  b  TABLES  9  group  fold equal causes into one row
rows.order  .  MAIN  -  -  needs you first, or plan order
rows.sort  comma  MAIN  -  -
    sort by results, again: reverse, again: plan order; h l: which column
rows.columns  |  MAIN-LOGS  -  columns
    choose the columns of the table: which, in what order
rows.diff  d  MAIN-LOGS  10  diff  compare two marked jobs: overrides, config, script
rows.config  i  MAIN+GRID-LOGS  10  config
    how the job is made: overrides, config and who set each key, script
job.shell  $  VERBS  -  shell
    a shell where the job is: on its node, or here in its output directory
rows.curves  c  TABLES  11  curves
    curves of the marked runs, else of the first six rows
rows.next_job  ]  MAIN  -  -  the next job, pane kept
rows.previous_job  [  MAIN  -  -  the job before, pane kept
look.copy  y  ALL-metrics  -  -
    copy what is under the cursor; in Why the address of the run
[Move]
move.down  j,down  ALL  -  -  one line down
move.up  k,up  ALL  -  -  one line up
move.first  g,home  ALL  -  -  to the first line
move.last  G,end  ALL-OWN_G  -  -  to the last line
move.last_stage  end  OWN_G  -  -  to the last stage, or result
move.half_down  ctrl+d,pagedown  ALL  -  -  down by half a page
move.half_up  ctrl+u,pageup  ALL  -  -  up by half a page
move.left  h,left  ALL-metrics  -  -  fold; the column, or sorted column, before
move.right  l,right  ALL-metrics  -  -  unfold; the next column, or sorted column
pane.next  tab  ALL  -  -  to the next pane
pane.previous  shift+tab  ALL  -  -  to the pane before
pane.stages  1  ALL  -  stages  go to pane 1, stages
pane.jobs  2  ALL  -  jobs  go to pane 2, jobs
pane.why  3  ALL  -  why  go to pane 3, why
pane.metrics  4  ALL  -  metrics  go to pane 4, metrics
pane.needs  5  ALL  -  needs you  go to pane 5, needs you
mode.tree  6  ALL  -  tree  the search through a tree of code, where there is one
mode.research  7  ALL  -  research
    what the research agent saw, answered and plans, where there is one
mode.events  8  ALL  -  events  every command and effect, as sent
mode.timeline  9  ALL  -  time-line
    the campaign over time: what ran, waited and failed when
mode.results  e  ALL-READS  -  results
    what the runs came to, by swept values: the best first
mode.waiting  w  ALL-LOGS  -  waiting  all that waits, by reason, the longest wait first
stages.grid  G  stages  4  grid
    swept values by stages, a cell a job; holes name their filter
pane.log  0  ALL-PARTS  6  log  go to pane 0, the log
[Log]
log.follow  f  LOGS  2  follow  follow the end
log.search  /  LOGS  3  search  search, a regular expression
log.next  n  LOGS  -  next  the next match
log.previous  N  LOGS  -  -  the match before
log.error  e  LOGS  4  error  the next line that looks like an error
log.error_before  E  LOGS  -  -  the error before
log.wrap  w  LOGS  5  wrap  wrap long lines
log.time  t  LOGS  -  -  hide, or show, the time at line beginnings
log.stream  o  LOGS  -  -  where stderr is: with stdout, in this file
log.attempt_before  <  LOGS  -  -  the log of the attempt before
log.attempt_after  >  LOGS  -  -  the log of the attempt after
log.save  ctrl+s  LOGS  -  -  save a copy of the log here
[Tree]
tree.diff  d  tree  2  diff  the change of an evaluation; again: since the root
tree.log  0  tree  3  log  the log of its job
tree.transcript  o  tree  4  transcript  what its agents did and said
[Research]
research.diff  d  research  2  diff  the change of code of a call
research.log  0  research  3  log  the log of the row's job
research.transcript  o  research  4  transcript  what the agent did and said
[Metrics]
metrics.after  l  metrics  -  -  the next metric
metrics.before  h  metrics  -  -  the metric before
metrics.right  right,)  metrics  -  -
    a readout at a step; right by a cell, at the edge on to further steps
metrics.left  left,(  metrics  3  readout  a readout at a step; left by a cell
metrics.closer  z  metrics  2  closer
    half as many steps, around the readout, else before the end
metrics.wider  -  metrics  5  wider  twice as many steps
metrics.whole  f  metrics  6  all  all steps, following the newest
metrics.range  v  metrics  -  -
    the steps from the readout to where v is pressed again
metrics.on  }  metrics  -  -  half a plot on to later steps
metrics.back  {  metrics  -  -  half a plot back to earlier steps
metrics.scale  y  metrics  8  log y  logarithmic or linear values
metrics.steps  o  metrics  -  log steps  logarithmic or linear steps
metrics.smooth  e  metrics  3  smooth
    a moving average: of 0.6, 0.9, 0.97, 0.99 of what was before, or none
metrics.band  b  metrics  4  band
    one curve over seeds: the least to the most, mean and deviation, or each run
metrics.colour  c  metrics  4  colour
    letters and colours by the next parameter, or each run its own
metrics.several  n  metrics  5  several
    two, three or four metrics beside each other, or one
[Events]
events.all  .  EVENTS  7  all
    every event, or what was ordered, done, ended and warned of
events.filter  /  EVENTS  3  filter  filter events by words
events.kind  ]  EVENTS  4  kind
    events of the next kind alone: submit, cancel, state ...
events.kind_before  [  EVENTS  -  -  events of the kind before
events.same_job  f  EVENTS  5  this job
    events of the job under the cursor alone, or of all
events.job  o  EVENTS  6  its job  to the job of the event, in the table
[Results]
results.sort  comma  results  2  sort  sort by the column, again: reverse; h l: which
results.metrics  m  results  3  metrics  choose: loss, accuracy:max, loss@5000
results.how  o  results  6  how  the column's newest values, lowest or highest
results.stage  ]  results  5  stage  the results of the next stage
results.stage_before  [  results  -  -  of the stage before
results.baseline  b  results  7  baseline
    compare all rows to this one; again: to none
results.heat  G  results  4  heat map
    the best result by two parameters, or the table again
results.pair  n  results  8  pair  the heat map of the next two parameters
results.curves  c  results  9  curves
    curves of the marked runs, else of the first six rows, each over its seeds
results.beside  d  results  4  compare
    another session beside this one, in one table; again: without it
results.save  ctrl+s  results  1  save  save as CSV; again: ask how
[Time-line]
timeline.closer  +  timeline  2  closer  half as long a time; h and l move it
timeline.wider  -  timeline  3  wider  twice as long a time
timeline.whole  f  timeline  4  all  all of the campaign, following the present
[Replay]
replay.play  space  ALL  1  play  play, or stand still
replay.slower  <  ALL  3  slower  half as fast
replay.faster  >  ALL  3  faster  twice as fast; beyond a million as fast as it goes
replay.back  left  ALL  -  -  back by a commit, and stand
replay.on  right  ALL  -  -  on by a commit, and stand
replay.begin  home  ALL  -  -  to the beginning
replay.end  end  ALL  -  -  to the end
replay.jump  t  ALL  4  time  go to a time: 14:02, +2h, -1d, 50%
[Cockpit]
plan.again  ctrl+r  ALL  -  plan again
    plan again once the config was saved; over a session: add to it, with overrides
plan.changes  =  ALL  -  changes  what changed since the last plan of this config
app.help  ?  ALL  1  keys  this list
app.palette  ctrl+p,:  ALL  -  find
    find a command, job, stage, session or theme by some letters of its name
app.redraw  ctrl+l  ALL  -  -  draw the screen again
app.leave  q,ctrl+q,ctrl+c  ALL  1  leave  leave; the engine goes on
"""
"""Id, keys, panes, place in the footer, label there, help; in the order of help."""

_SIGNS: Final[Mapping[str, str]] = {
    KEY_NAME_REPLACEMENTS.get(name, name): sign
    for sign in string.punctuation
    if (name := re.sub("[- ]", "_", unicodedata.name(sign).lower()))
}
"""Signs by Textual's names of their keys."""
_KEYS: Final = {sign: name for name, sign in _SIGNS.items()}


def display_key(key: str) -> str:
    """A key as a person reads it."""
    return "esc" if key == "escape" else _SIGNS.get(key, key)


def parse_key(text: str) -> str:
    """Textual's name of a key that is shown so."""
    return "escape" if text == "esc" else _KEYS.get(text, text)


def _read_place(text: str) -> frozenset[str]:
    """The panes of `MAIN+GRID-LOGS`: names of sets and of panes."""
    some, _, without = text.partition("-")
    found = frozenset[str]()
    for name in some.split("+"):
        found |= _SETS.get(name, {name})
    return found - _SETS.get(without, {without})


def _read_rows(text: str) -> Iterator[Command]:
    """The commands of a table; an indented line goes on with the one before it."""
    group = ""
    for row in re.sub(r"\n +", "  ", text.strip()).splitlines():
        if row.startswith("["):
            group = row.strip("[]")
            continue
        name, keys, where, foot, label, description = row.split("  ", 5)
        prefix, _, rest = name.partition(".")
        action = _ACTIONS.get(name) or _ACTIONS.get(prefix)
        if group == "Act":  # of the app, or of a screen of its own: `BoxScreen.act`
            action = "app.act({!r})"
        yield Command(
            id=name,
            keys=tuple(_KEYS.get(key, key) for key in keys.split(",")),
            label="" if label == "-" else label,
            help=f"replay: {description}" if prefix == "replay" else description,
            group=group,
            where=_read_place(where),
            action=action.format(rest) if action else name.replace(".", "_"),
            foot=0 if foot == "-" else int(foot),
        )


COMMANDS: Final[Mapping[str, Command]] = {
    command.id: command for command in _read_rows(_ROWS)
}
"""By id, in the order in which help lists them."""

HELP_GROUPS: Final = tuple(dict.fromkeys(one.group for one in COMMANDS.values()))
FORBIDDEN_KEYS: Final = frozenset({"ctrl+a", "ctrl+b", "ctrl+z"})
"""screen's and tmux's prefixes, and the key that would stop the engine."""


class Keymap:
    """The commands with a person's own keys, and commands of their own."""

    def __init__(
        self,
        own_keys: Mapping[str, tuple[str, ...]] | None = None,
        own: Iterable[OwnCommand] = (),
    ) -> None:
        self._own_keys = own_keys or {}
        self.own: Mapping[str, OwnCommand] = {
            f"own.{at}": one for at, one in enumerate(own, 1)
        }
        """The commands that a person added, by id."""
        made = {name: _make_command(name, one) for name, one in self.own.items()}
        self.commands: Mapping[str, Command] = {**COMMANDS, **made}
        """By id."""
        self._keys = {
            name: self._own_keys.get(name, one.keys)
            for name, one in self.commands.items()
        }

    def add(self, own: Sequence[OwnCommand], where: str) -> Keymap:
        """The same with further commands of one's own; raises UsageError with every key
        that another command has, or that is none."""
        made = Keymap(self._own_keys, (*self.own.values(), *own))
        keys = {name: made.keys(name) for name in made.own if name not in self.own}
        _require_sound(keys, made, where)
        return made

    def __iter__(self) -> Iterator[Command]:
        return iter(self.commands.values())

    def keys(self, command_id: str) -> tuple[str, ...]:
        """The keys of a command, as Textual names them."""
        return self._keys[command_id]

    def key(self, command_id: str) -> str:
        """The command's first key as a person reads it: `!`, `ctrl+d`, `K`."""
        return next(map(display_key, self._keys[command_id]), "")

    def at(
        self, pane: Pane, *, replay: bool = False, parts: Iterable[str] = ()
    ) -> Sequence[Command]:
        """The commands of a pane that a key reaches; a replay's own hide others.
        `parts`: those that the session has; the pane's own is there."""
        known = {pane, *parts}
        here = [one for one in self if pane in one.where and one.fits(known)]
        own = [command for command in here if command.replay and replay]
        taken = {key for command in own for key in self.keys(command.id)}
        rest = (
            command
            for command in here
            if not command.replay and not taken.issuperset(self.keys(command.id))
        )
        return (*own, *rest)

    def find(
        self, key: str, pane: Pane, *, replay: bool = False, parts: Iterable[str] = ()
    ) -> Command | None:
        here = self.at(pane, replay=replay, parts=parts)
        return next((one for one in here if key in self.keys(one.id)), None)


def _make_command(name: str, own: OwnCommand) -> Command:
    return Command(
        id=name,
        keys=(_KEYS.get(own.key, own.key),),
        label=own.label,
        help=f"{own.label}: {' '.join(own.command)}"[:80],
        group="Your own",
        where=frozenset(own.where) or _VERBS,
        action=f"app.run_own({name!r})",
        foot=12,
    )


def find_move(key: str) -> str:
    """How a key moves where no person's keymap rules: `down`, `half_up`, `last`."""
    moves = (one for one in COMMANDS.values() if one.id.startswith("move."))
    return next((one.id.split(".")[1] for one in moves if key in one.keys), "")


_KEY: Final = re.compile(
    r"(ctrl\+|alt\+|shift\+)*(?:\w|f1?\d|escape|enter|tab|space|backspace|delete|insert"
    r"|home|end|pageup|pagedown|up|down|left|right)"
)
"""Textual's name of a key that is no sign."""


def read_toml(path: Path) -> Mapping[str, object]:
    """What a TOML file of a person's own says; raises UsageError."""
    try:
        return parse_toml(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(error.strerror or str(error), str(path)) from error


def parse_toml(data: bytes, where: str) -> Mapping[str, object]:
    """What a TOML text says; raises UsageError."""
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not TOML: {error}", where) from error


def load_keymap(path: Path) -> Keymap:
    """The command table with the keys of a TOML file; raises UsageError."""
    content = read_toml(path)
    table = content.get("keys", {})
    if not isinstance(table, dict) or set(content) - {"keys"}:
        raise UsageError("expected one table, [keys]", str(path))
    return build_keymap(table, str(path))


def build_keymap(table: Mapping[str, object], where: str = "ui.keys") -> Keymap:
    """The command table with the keys of `{id: key | [keys]}`; raises UsageError."""
    from autoexp_tui.text.did_you_mean import did_you_mean  # a first paint needs none

    own: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, value in table.items():
        if name not in COMMANDS:
            hint = did_you_mean(name, COMMANDS, "ids")
            problems.append(f"no command {name!r}; {hint}")
            continue
        listed = value if isinstance(value, list) else [value]
        own[name] = tuple(_KEYS.get(str(key), str(key)) for key in listed)
    keymap = Keymap(own)
    _require_sound(own, keymap, where, problems)
    return keymap


def _require_sound(
    own: Mapping[str, tuple[str, ...]],
    keymap: Keymap,
    where: str,
    problems: Sequence[str] = (),
) -> None:
    """Raise UsageError with these problems, and those of keys of one's own."""
    found = [*problems, *_check_keys(own), *_find_clashes(own, keymap)]
    if found:
        hint = "the help (?) lists ids and keys; nothing bound"
        raise UsageError("; ".join(found), where, hint)


def _check_keys(own: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """Keys that are none, or that others need."""
    for name, keys in own.items():
        for key in keys:
            if key not in _SIGNS and not _KEY.fullmatch(key):
                yield f"{name}: no key {key!r}"
            elif key in FORBIDDEN_KEYS:
                yield f"{name}: {key} must stay free"


def has_clash(first: Command, second: Command) -> bool:
    alike = first.replay == second.replay  # a replay's keys go before all others
    return first.id != second.id and alike and bool(first.where & second.where)


def _find_clashes(own: Mapping[str, tuple[str, ...]], keymap: Keymap) -> Iterable[str]:
    """Keys of two commands; lower-case twins of acting keys, which stay unbound."""
    acting = [(key, one) for one in keymap if one.acts for key in keymap.keys(one.id)]
    for name, keys in own.items():
        usual = COMMANDS[name].keys if name in COMMANDS else ()
        for key in set(keys).difference(usual):
            where, upper = keymap.commands[name].where, key.upper()
            near = (
                one.id for twin, one in acting if twin == upper and one.where & where
            )
            if len(key) == 1 and key.islower() and (verb := next(near, "")):
                yield f"{name}: {key} is one slip from {upper} ({verb})"
        for other in keymap:
            shared = set(keys) & set(keymap.keys(other.id))
            if shared and has_clash(keymap.commands[name], other):
                names = ", ".join(sorted(map(display_key, shared)))
                acts = " (it acts)" if other.acts else ""
                yield f"{name}: {names} is {other.id}'s{acts}"
