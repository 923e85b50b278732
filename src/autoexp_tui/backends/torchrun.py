"""torchrun in front of a program: its options, checked, and how nodes find each other.

On one node it is `torchrun --standalone`: nothing but the processes of one job meet
there. On several, one torchrun runs on each node, started by srun, and they meet at the
first node of the step. Which node that is is only known there: a fixed text of shell
puts it into torchrun's own variables (`PET_<OPTION>`, read by torchrun for every option
that its command line leaves out), and the words of the command are its arguments,
never part of the text.

Options and their meaning: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.backends.argument_words import joined
from autoexp_tui.backends.messages import (
    Config,
    problem,
    section,
    spelled,
    unknown_keys,
    within,
)
from autoexp_tui.executors.slurm.srun_wrapper import AROUND
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.resource_totals import gpus_of, nodes_of
from autoexp_tui.model.scalars import Scalar

KEY: Final = "torchrun"

_TEXTS: Final = (
    "rdzv_endpoint", "rdzv_id", "rdzv_conf", "role", "log_dir", "redirects", "tee",
    "local_ranks_filter", "local_addr", "master_addr", "logs_specs",
    "event_log_handler", "signals_to_handle",
)  # fmt: skip
_WHOLE: Final = {"node_rank": 0, "master_port": 1, "max_restarts": 0}
"""Options that are whole numbers, and the least of them."""
_CHOICES: Final = {
    "rdzv_backend": ("c10d", "static", "etcd", "etcd-v2"),
    "start_method": ("spawn", "fork", "forkserver"),
    "numa_binding": ("node", "socket", "exclusive", "core-complex"),
}
_FLAGS: Final = ("standalone", "no_python", "run_path")
_OURS: Final = ("srun",)
_PROCESSES: Final = ("auto", "gpu", "cpu", "xpu")
_MEETING: Final = (
    "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "master_addr",
    "master_port", "node_rank",
)  # fmt: skip
"""Options that `--standalone` would overrule."""
OPTIONS: Final = (
    *("nnodes", "nproc_per_node", "monitor_interval"),
    *_TEXTS, *_WHOLE, *_CHOICES, *_FLAGS, *_OURS,
)  # fmt: skip

ON_A_NODE: Final = """\
set -u
head=$(scontrol show hostnames "${SLURM_STEP_NODELIST:-${SLURM_JOB_NODELIST:-}}" \
2>/dev/null | head -n 1)
head=${head:-${SLURM_LAUNCH_NODE_IPADDR:-}}
if [ -z "$head" ] || [ -z "${SLURM_JOB_ID:-}" ]; then
  echo "torchrun on several nodes: this is no step of a Slurm job" >&2
  exit 64
fi
port=$((10000 + SLURM_JOB_ID % 20000))
give() {
  export "PET_$1=$2" "APPTAINERENV_PET_$1=$2" "SINGULARITYENV_PET_$1=$2"
}
give NODE_RANK "${SLURM_NODEID:-0}"
give MASTER_ADDR "$head"
give MASTER_PORT "$port"
give RDZV_ENDPOINT "$head:$port"
give RDZV_ID "$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}"
exec "$@"
"""
"""Run once a node, with the command as its arguments. The port lies below those that
kernels give away, and differs between jobs that share a node. A container gets the
variables even where it takes none of ours."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many processes there are, and where."""

    nodes: object
    """A number, or a range as text (`1:4`); None: nobody says."""
    processes: object
    """Of each node: a number, or one of `auto gpu cpu xpu`; None: nobody says."""
    on_slurm: bool

    @property
    def world(self) -> int | None:
        """All processes; None where that is only known when it runs."""
        if isinstance(self.nodes, int) and isinstance(self.processes, int):
            return self.nodes * self.processes
        return None

    @property
    def is_one_node(self) -> bool:
        """Whether it is one, for certain."""
        return self.nodes == 1

    def __str__(self) -> str:
        return f"{self.nodes} x {self.processes} processes"


def shape_of(backend: Config, config: Config) -> Shape:
    """What `torchrun` says, else what Slurm is asked for."""
    given = section(backend, KEY)
    on_slurm = "Slurm" in str(within(config, "slurm.client.class_name") or "")
    asked = _asked(config)
    nodes = given.get("nnodes")
    if nodes is None:
        nodes = _plain_number(asked.get("nodes", 1)) if on_slurm else 1
    processes = given.get("nproc_per_node")
    if processes is None:
        processes = _gpus_of_a_node(asked)
    return Shape(_plain_number(nodes), _plain_number(processes), on_slurm)


def _asked(config: Config) -> dict[str, Scalar]:
    """What the job asks of sbatch, spelled with dashes."""
    found = within(config, "slurm.sbatch")
    if not isinstance(found, Mapping):
        return {}
    return {
        str(key).replace("_", "-"): value
        for key, value in found.items()
        if isinstance(value, str | int | float)
    }


def asks_for_gpus(config: Config) -> bool:
    """Whether the job asks Slurm, or this machine, for GPUs."""
    return gpus_of(_asked(config)) > 0


def _gpus_of_a_node(asked: Mapping[str, Scalar]) -> int | None:
    total, nodes = gpus_of(asked), nodes_of(asked)
    return total // nodes if total and total % nodes == 0 else None


def _plain_number(value: object) -> object:
    """A number where it is one, or a text of one."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value


# ---------------------------------------------------------------------------- problems
def problems_of(backend: Config, config: Config) -> list[Problem]:
    """Everything wrong with `torchrun`, and with how it goes with Slurm."""
    value = backend.get(KEY)
    if value is not None and not isinstance(value, Mapping):
        hint = "torchrun: {nproc_per_node: 4}"
        return [problem(KEY, f"is {value!r}, not a mapping", hint)]
    given = section(backend, KEY)
    found = unknown_keys(given, OPTIONS, KEY)
    for key, item in given.items():
        if item is not None and (message := _wrong(key, item)):
            found.append(problem(f"{KEY}.{key}", message))
    if found:
        return found
    shape = shape_of(backend, config)
    return [*_about_counts(shape), *_about_nodes(shape, given, config)]


def _wrong(key: str, value: object) -> str:
    """What is wrong with one option; empty: nothing."""
    if key in _CHOICES and value not in _CHOICES[key]:
        return f"is {value!r}; it may be {', '.join(_CHOICES[key])}"
    if (key in _FLAGS or key in _OURS) and not isinstance(value, bool):
        return f"is {value!r}; it may be true or false"
    if key in _WHOLE and not _is_whole(value, _WHOLE[key]):
        return f"is {value!r}, not a whole number from {_WHOLE[key]} on"
    if key in _TEXTS and (isinstance(value, bool) or not _is_plain(value)):
        return f"is {value!r}, not text"
    if key == "monitor_interval" and not _is_positive(value):
        return f"is {value!r}, not a number of seconds above 0"
    if key == "nnodes" and not _is_nodes(value):
        return f"is {value!r}; it may be a number, or a range such as '1:4'"
    if key == "nproc_per_node" and not _is_processes(value):
        return f"is {value!r}; it may be a number, or {', '.join(_PROCESSES)}"
    return ""


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float)


def _is_whole(value: object, least: int) -> bool:
    number = _plain_number(value)
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return is_number and number >= least  # type: ignore[operator]


def _is_positive(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value > 0


def _is_nodes(value: object) -> bool:
    if not isinstance(value, str) or ":" not in value:
        return _is_whole(value, 1)
    low, _, high = value.partition(":")
    return low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high)


def _is_processes(value: object) -> bool:
    return value in _PROCESSES or _is_whole(value, 1)


def _about_counts(shape: Shape) -> Iterator[Problem]:
    if shape.processes is None:
        message = "is not said, and follows from nothing that Slurm is asked for"
        hint = "a number, one a GPU; or ask for slurm.sbatch.gpus_per_node"
        yield problem(f"{KEY}.nproc_per_node", message, hint)
    if not _is_nodes(shape.nodes):
        message = f"is not said, and slurm.sbatch.nodes is {shape.nodes!r}"
        yield problem(f"{KEY}.nnodes", message, "a number, or a range such as '2:4'")


def _about_nodes(shape: Shape, given: Config, config: Config) -> Iterator[Problem]:
    if shape.on_slurm:
        yield from _about_slurm(shape, config)
    if shape.is_one_node or not _is_nodes(shape.nodes):
        return
    if given.get("standalone"):
        yield problem(f"{KEY}.standalone", f"is for one node, not for {shape.nodes}")
    if not shape.on_slurm and given.get("node_rank") is None:
        message = f"is {shape.nodes}, and the local executor has one machine"
        hint = "nnodes: 1, or slurm=generic; node_rank if you start the others yourself"
        yield problem(f"{KEY}.nnodes", message, hint)
    if shape.on_slurm and _starts_once(given, config):
        message = "starts the command once, and not on every node"
        hint = "put srun in front of it, or leave it out: then srun is put there"
        yield Problem(message, where="slurm.launcher_cmd", hint=hint)


def _about_slurm(shape: Shape, config: Config) -> Iterator[Problem]:
    asked = _asked(config)
    nodes = _plain_number(asked.get("nodes", 1))
    if isinstance(shape.nodes, int) and isinstance(nodes, int) and nodes != shape.nodes:
        message = f"is {shape.nodes}, and slurm.sbatch.nodes is {nodes}"
        yield problem(f"{KEY}.nnodes", message, "null takes what Slurm is asked for")
    tasks = _plain_number(asked.get("ntasks-per-node", 1))
    if tasks != 1:
        message = f"is {tasks}: torchrun would be started so often on each node"
        hint = "1; torchrun starts the processes itself (gpus_per_node, cpus_per_task)"
        yield Problem(message, where="slurm.sbatch.ntasks_per_node", hint=hint)


def _starts_once(given: Config, config: Config) -> bool:
    """Whether a launcher of the config's stands in the place of srun."""
    if given.get("srun") is False:
        return False
    words = _launcher(config)
    return bool(words) and not any("srun" in word for word in words)


def _launcher(config: Config) -> list[str]:
    """The words that the executor puts in front of every command."""
    words: list[str] = []
    for key, first in (("launcher_cmd", ""), ("srun_opts", "srun")):
        value = within(config, f"slurm.{key}")
        if isinstance(value, list | tuple):
            found = [str(word) for word in value]
        else:
            found = _split(str(value or ""))
        words += [first, *found] if found and first else found
    return words


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # told where the executor is set up
        return []


# ------------------------------------------------------------------------------- words
def outside(backend: Config, config: Config) -> tuple[str, ...]:
    """What stands in front of everything, a container too; empty on one node.

    Without a launcher in the config it is srun that starts one task a node. It keeps to
    no processor: the processes of a node share what the job has there.
    """
    given = section(backend, KEY)
    shape = shape_of(backend, config)
    if shape.is_one_node or not shape.on_slurm:
        return ()
    starter: tuple[str, ...] = ()
    if given.get("srun", True) is not False and not _launcher(config):
        starter = (*AROUND, "srun", *_placed(config))
        starter += ("--cpu-bind=none", "--kill-on-bad-exit=1")
    return (*starter, "sh", "-c", ON_A_NODE, "torchrun-on-a-node")


def _placed(config: Config) -> Sequence[str]:
    nodes = _plain_number(_asked(config).get("nodes", 1))
    counted = (f"--nodes={nodes}", f"--ntasks={nodes}")
    return (*(counted if isinstance(nodes, int) else ()), "--ntasks-per-node=1")


def command(backend: Config, config: Config) -> tuple[str, ...]:
    """torchrun with its options; the program follows.

    Underscores in its options: releases before 2.0 know no others.
    """
    given = section(backend, KEY)
    shape = shape_of(backend, config)
    python = backend.get("python")
    words = [str(python), "-m", "torch.distributed.run"] if python else ["torchrun"]
    chosen: dict[str, object] = {
        "nnodes": shape.nodes,
        "nproc_per_node": shape.processes,
    }
    meets = any(given.get(key) is not None for key in _MEETING)
    if shape.is_one_node and not meets:
        chosen["standalone"] = given.get("standalone", True)
    elif not shape.is_one_node:
        is_static = given.get("master_addr") and not given.get("rdzv_endpoint")
        chosen["rdzv_backend"] = "static" if is_static else "c10d"
    fixed = {"nnodes", "nproc_per_node", *_OURS}
    chosen |= {k: v for k, v in given.items() if v is not None and k not in fixed}
    for key, value in chosen.items():
        words += _option(key, value)
    return tuple(words)


def _option(key: str, value: object) -> Sequence[str]:
    if key in _FLAGS:
        return [f"--{key}"] if value else []
    return joined(f"--{key}", spelled(value))
