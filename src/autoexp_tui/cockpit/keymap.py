"""Every command of the cockpit, once, and the keys that a person gives them.

Bindings, footer, palette, help and docs read this table. Lower-case keys look,
upper-case keys act; the lower-case twins of acting keys stay unbound. A person's own
keys are refused with every finding at once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from autoexp_tui.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

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
    "conditions",
]
Panes: TypeAlias = frozenset[Pane]

_JOBS: Final[Panes] = frozenset({"stages", "jobs", "why", "metrics", "needs", "log"})
_EVENTS: Final[Panes] = frozenset({"events", "effect"})
_LOGS: Final[Panes] = frozenset({"log", "evidence"})
_VERBS: Final[Panes] = _JOBS | {"timeline", "waiting", "grid", "conditions"}
_LISTS: Final[Panes] = frozenset(
    {"stages", "jobs", "needs", "events", "timeline", "waiting", "grid"}
)
_GRID: Final[Panes] = frozenset({"grid", "conditions"})
EVERYWHERE: Final[Panes] = _VERBS | _EVENTS | _LOGS
_PLACES: Final[Mapping[str, Panes]] = MappingProxyType(
    {
        "all": EVERYWHERE,
        "all-stages": EVERYWHERE - {"stages"},
        "all-log": EVERYWHERE - _LOGS,
        "all-timeline": EVERYWHERE - {"timeline"},
        "all-metrics": EVERYWHERE - {"metrics"},
        "stages": frozenset({"stages"}),
        "table": frozenset({"jobs"}),
        "jobs": _JOBS,
        "jobs-log": _JOBS - _LOGS,
        "jobs+grid-log": (_JOBS | _GRID) - _LOGS,
        "lists+metrics": _LISTS | {"metrics"},
        "timeline": frozenset({"timeline"}),
        "events": _EVENTS,
        "log": _LOGS,
        "metrics": frozenset({"metrics"}),
        "verbs": _VERBS,
    }
)
"""The panes that have a command, by the third word of its row."""

_GROUPS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "run": "Act",
        "look": "Look",
        "rows": "Look",
        "move": "Move",
        "pane": "Move",
        "mode": "Move",
        "stages": "Move",
        "log": "Log",
        "metrics": "Metrics",
        "events": "Events",
        "timeline": "Time-line",
        "replay": "Replay",
        "plan": "Cockpit",
        "app": "Cockpit",
    }
)
"""The help's group of a command, by the first part of its id, in the help's order."""

_ACTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "move": "move({!r})",
        "pane": "app.show_pane({!r})",
        "mode": "app.show_mode({!r})",
        "run": "app.act({!r})",
        "replay": "app.replay({!r})",
        "plan": "app.plan({!r})",
        "log": "pane.log({!r})",
        "log.search": "log_search",
        "log.save": "pane.log_save",
        "metrics": "pane.{}",
        "timeline": "pane.zoom({!r})",
        "app": "app.{}",
        "pane.next": "app.focus_next",
        "pane.previous": "app.focus_previous",
        "stages.grid": "app.show_mode('grid')",
        "rows.need": "app.show_need",
        "rows.next_job": "rows_move('down')",
        "rows.previous_job": "rows_move('up')",
        "rows.curves": "app.show_pane('metrics')",
    }
)
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
    where: Panes
    action: str
    """Textual's action: the screen's own, the app's or the focused pane's."""
    foot: int = 0
    """Place in the footer, 1 first to stay; 0: never there."""

    @property
    def acts(self) -> bool:
        """Whether it changes anything outside the screen."""
        return self.group == "Act"

    @property
    def replay(self) -> bool:
        """Whether only a replay has it; there its keys go before all others."""
        return self.group == "Replay"


_ROWS: Final = """
move.down  j,down  all  -  -  one line down
move.up  k,up  all  -  -  one line up
move.first  g,home  all  -  -  to the first line
move.last  G,end  all-stages  -  -  to the last line
move.last_stage  end  stages  -  -  to the last stage
move.half_down  ctrl+d,pagedown  all  -  -  down by half a page
move.half_up  ctrl+u,pageup  all  -  -  up by half a page
move.left  h,left  all  -  -  fold; the metric, or sorted column, before
move.right  l,right  all  -  -  unfold; the next metric, or sorted column
pane.next  tab  all  -  -  to the next pane
pane.previous  shift+tab  all  -  -  to the pane before
pane.stages  1  all  -  stages  go to pane 1, stages
pane.jobs  2  all  -  jobs  go to pane 2, jobs
pane.why  3  all  -  why  go to pane 3, why
pane.metrics  4  all  -  metrics  go to pane 4, metrics
pane.needs  5  all  -  needs you  go to pane 5, needs you
mode.events  8  all  -  events  every command and effect, as sent
mode.timeline  9  all  -  time-line
    the campaign over time: what ran, waited and failed when
mode.waiting  w  all-log  -  waiting  all that waits, by reason, the longest wait first
stages.grid  G  stages  4  grid
    swept values by stages, a cell a job; holes name their filter
pane.log  0  all  6  log  go to pane 0, the log
rows.need  exclamation_mark  all  2  next  the next that needs you
rows.filter  slash  jobs-log  3  filter  filter: words, lr>1e-3, stage:cooldown
look.open  enter  lists+metrics  5  open  open what is under the cursor
look.back  escape  all  -  back  one level back
look.larger  plus  all-timeline  7  larger  enlarge the pane
look.smaller  underscore  all  -  -  shrink the pane again
timeline.closer  plus  timeline  2  closer  half as long a time; h and l move it
timeline.wider  minus  timeline  3  wider  twice as long a time
timeline.whole  f  timeline  4  all  all of the campaign, following the present
rows.mark  space  table  8  mark  mark, or unmark, the row
rows.range  v  table  -  -  mark from here to where v is pressed again
rows.alike  m  jobs-log  -  -  mark all with the same cause
rows.group  b  jobs-log  9  group  fold equal causes into one row
rows.order  full_stop  jobs  -  -  needs you first, or plan order
events.all  full_stop  events  7  all
    every event, or what was ordered, done, ended and warned of
events.filter  slash  events  3  filter
    filter events by words
events.kind  right_square_bracket  events  4  kind
    events of the next kind alone: submit, cancel, state ...
events.kind_before  left_square_bracket  events  -  -  events of the kind before
events.same_job  f  events  5  this job
    events of the job under the cursor alone, or of all
events.job  o  events  6  its job  to the job of the event, in the table
rows.sort  comma  jobs  -  -
    sort by a column, again: reverse, again: plan order; h l: which
rows.diff  d  jobs-log  10  diff  compare two marked jobs: overrides, config, script
rows.config  i  jobs+grid-log  10  config
    how the job is made: overrides, config and who set each key, script
rows.curves  c  jobs-log  11  curves  curves of the marked runs
rows.next_job  right_square_bracket  jobs  -  -  the next job, pane kept
rows.previous_job  left_square_bracket  jobs  -  -  the job before, pane kept
look.copy  y  all-metrics  -  -  copy what is under the cursor
log.follow  f  log  2  follow  follow the end
log.search  slash  log  3  search  search, a regular expression
log.next  n  log  -  next  the next match
log.previous  N  log  -  -  the match before
log.error  e  log  4  error  the next line that looks like an error
log.error_before  E  log  -  -  the error before
log.wrap  w  log  5  wrap  wrap long lines
log.time  t  log  -  -  hide, or show, the time at line beginnings
log.stream  o  log  -  -  where stderr is: with stdout, in this file
log.attempt_before  less_than_sign  log  -  -  the log of the attempt before
log.attempt_after  greater_than_sign  log  -  -  the log of the attempt after
log.save  ctrl+s  log  -  -  save a copy of the log here
metrics.scale  y  metrics  3  log y  logarithmic or linear
run.submit  S  verbs  4  submit  submit: all, the marked, one family
run.kill  K  verbs  2  kill  end jobs, after a question and 5 seconds
run.resubmit  R  verbs  1  resubmit  bring back jobs that ended
run.answer  A  verbs  1  answer  read an approval, and answer it
run.skip  X  verbs  3  skip  skip a waiting job, or waive a condition
run.pause  P  verbs  6  pause  pause, or resume, submission
run.undo  U  verbs  -  undo  stop a countdown
replay.play  space  all  1  play  play, or stand still
replay.slower  less_than_sign  all  3  slower  half as fast
replay.faster  greater_than_sign  all  3  faster
    twice as fast; beyond a million as fast as it goes
replay.back  left  all  -  -  back by a commit, and stand
replay.on  right  all  -  -  on by a commit, and stand
replay.begin  home  all  -  -  to the beginning
replay.end  end  all  -  -  to the end
replay.jump  t  all  4  time  go to a time: 14:02, +2h, -1d, 50%
plan.again  ctrl+r  all  -  plan again
    plan again once the config was saved, while nothing is submitted
plan.changes  equals_sign  all  -  changes
    what changed since the last plan of this config
app.help  question_mark  all  1  keys  this list
app.palette  ctrl+p,colon  all  -  palette  find a command by its name
app.redraw  ctrl+l  all  -  -  draw the screen again
app.leave  q,ctrl+q,ctrl+c  all  1  leave  leave; the engine goes on
"""
"""Id, keys, place, place in the footer, label there, help; in the order of help."""


def _read_rows(text: str) -> Iterator[Command]:
    """The commands of a table; an indented line goes on with the one before it."""
    for row in re.sub(r"\n +", "  ", text.strip()).splitlines():
        name, keys, where, foot, label, description = row.split("  ", 5)
        prefix, _, rest = name.partition(".")
        action = _ACTIONS.get(name) or _ACTIONS.get(prefix)
        yield Command(
            id=name,
            keys=tuple(keys.split(",")),
            label="" if label == "-" else label,
            help=f"replay: {description}" if prefix == "replay" else description,
            group=_GROUPS[prefix],
            where=_PLACES[where],
            action=action.format(rest) if action else name.replace(".", "_"),
            foot=0 if foot == "-" else int(foot),
        )


COMMANDS: Final[Mapping[str, Command]] = MappingProxyType(
    {command.id: command for command in _read_rows(_ROWS)}
)
"""By id, in the order in which help lists them."""

HELP_GROUPS: Final = tuple(dict.fromkeys(_GROUPS.values()))
FORBIDDEN_KEYS: Final = frozenset({"ctrl+a", "ctrl+b", "ctrl+z"})
"""screen's and tmux's prefixes, and the key that would stop the engine."""


class Keymap:
    """The commands with a person's own keys."""

    def __init__(self, own_keys: Mapping[str, tuple[str, ...]] | None = None) -> None:
        own = own_keys or {}
        self._keys = {name: own.get(name, one.keys) for name, one in COMMANDS.items()}

    def __iter__(self) -> Iterator[Command]:
        return iter(COMMANDS.values())

    def keys(self, command_id: str) -> tuple[str, ...]:
        """The keys of a command, as Textual names them."""
        return self._keys[command_id]

    def key(self, command_id: str) -> str:
        """The command's first key as a person reads it: `!`, `ctrl+d`, `K`."""
        keys = self._keys[command_id]
        return display_key(keys[0]) if keys else ""

    def at(self, pane: Pane, *, replay: bool = False) -> Sequence[Command]:
        """The commands of a pane that a key reaches; a replay's own hide others."""
        here = [command for command in self if pane in command.where]
        own = [command for command in here if command.replay and replay]
        taken = {key for command in own for key in self.keys(command.id)}
        rest = (
            command
            for command in here
            if not command.replay and not taken.issuperset(self.keys(command.id))
        )
        return (*own, *rest)

    def find(self, key: str, pane: Pane, *, replay: bool = False) -> Command | None:
        """The command that has `key` in a pane."""
        here = self.at(pane, replay=replay)
        return next((one for one in here if key in self.keys(one.id)), None)


def find_move(key: str) -> str:
    """How a key moves where no person's keymap rules: `down`, `half_up`, `last`."""
    moves = (one for one in COMMANDS.values() if one.id.startswith("move."))
    return next((one.id.split(".")[1] for one in moves if key in one.keys), "")


_SIGNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "exclamation_mark": "!",
        "question_mark": "?",
        "slash": "/",
        "full_stop": ".",
        "comma": ",",
        "colon": ":",
        "plus": "+",
        "underscore": "_",
        "left_square_bracket": "[",
        "right_square_bracket": "]",
        "escape": "esc",
        "minus": "-",
        "semicolon": ";",
        "equals_sign": "=",
        "less_than_sign": "<",
        "greater_than_sign": ">",
    }
)


def display_key(key: str) -> str:
    """A key as a person reads it."""
    return _SIGNS.get(key, key)


def format_keys(keymap: Keymap) -> str:
    """The table for the documentation, in Markdown: id, keys, what it does."""
    lines = ["| id | keys | what it does |", "|---|---|---|"]
    for command in keymap:
        keys = " ".join(f"`{display_key(key)}`" for key in keymap.keys(command.id))
        lines.append(f"| `{command.id}` | {keys} | {command.help} |")
    return "\n".join(lines) + "\n"


_NAMED: Final = frozenset(
    {
        "escape", "enter", "tab", "space", "backspace", "delete", "insert",
        "home", "end", "pageup", "pagedown", "up", "down", "left", "right",
        *(f"f{number}" for number in range(1, 13)),
    }
)  # fmt: skip
_MODIFIERS: Final = ("ctrl+", "alt+", "shift+")


def load_keymap(path: Path) -> Keymap:
    """The command table with the keys of a TOML file; raises UsageError."""
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(error.strerror or str(error), str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"not TOML: {error}", str(path)) from error
    table = content.get("keys", {})
    if not isinstance(table, dict) or set(content) - {"keys"}:
        raise UsageError("expected one table, [keys]", str(path))
    return build_keymap(table, str(path))


def build_keymap(table: Mapping[str, object], where: str = "ui.keys") -> Keymap:
    """The command table with the keys of `{id: key | [keys]}`; raises UsageError."""
    import difflib

    own: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, value in table.items():
        if name not in COMMANDS:
            near = difflib.get_close_matches(name, COMMANDS, 1)
            meant = f", did you mean {near[0]!r}?" if near else ""
            problems.append(f"no command {name!r}{meant}")
            continue
        keys = []
        for entry in value if isinstance(value, list) else [value]:
            key = _read_key(entry) if isinstance(entry, str) else None
            if key is None:
                problems.append(f"{name}: no key {entry!r}")
            elif key in FORBIDDEN_KEYS:
                problems.append(f"{name}: {key} must stay free")
            else:
                keys.append(key)
        own[name] = tuple(keys)
    problems += _find_clashes(own, Keymap(own))
    if problems:
        raise UsageError(
            "; ".join(problems), where, "the help (?) lists ids and keys; nothing bound"
        )
    return Keymap(own)


def _read_key(text: str) -> str | None:
    """Textual's name of a key; None when there is no such key."""
    if len(text) == 1 and text.isprintable():
        from textual.keys import KEY_NAME_REPLACEMENTS

        if text.isalnum():
            return text
        name = unicodedata.name(text, text).lower()
        key = name.replace("-", "_").replace(" ", "_")
        return KEY_NAME_REPLACEMENTS.get(key, key)
    base = text
    while base.startswith(_MODIFIERS):
        base = base.split("+", 1)[1]
    named = base in _NAMED or (len(base) == 1 and base.isalnum() and base != text)
    return text if named or display_key(text) != text else None


def has_clash(first: Command, second: Command) -> bool:
    """Whether two commands may not share a key."""
    alike = first.replay == second.replay  # a replay's keys go before all others
    return first.id != second.id and alike and bool(first.where & second.where)


def _find_clashes(own: Mapping[str, tuple[str, ...]], keymap: Keymap) -> Iterable[str]:
    """Keys of two commands; lower-case twins of acting keys, which stay unbound."""
    acting = {key: one.id for one in keymap if one.acts for key in keymap.keys(one.id)}
    for name, keys in own.items():
        for key in set(keys).difference(COMMANDS[name].keys):
            if len(key) == 1 and key.islower() and (twin := key.upper()) in acting:
                yield f"{name}: {key} is one slip from {twin} ({acting[twin]})"
        for other in keymap:
            shared = set(keymap.keys(name)) & set(keymap.keys(other.id))
            is_told = other.id in own and other.id < name
            if shared and has_clash(COMMANDS[name], other) and not is_told:
                names = ", ".join(sorted(display_key(key) for key in shared))
                acts = " (it acts)" if other.acts else ""
                yield f"{name}: {names} is {other.id}'s{acts}"
