"""torchrun in front of a program: its options, checked, and how nodes find each other.

On one node it is `torchrun --standalone`. On several, one torchrun runs on each node,
started by srun, and they meet at the first node of the step, which is only known there:
a fixed text of shell puts it into torchrun's own variables (`PET_<OPTION>`), and the
words of the command are its arguments, never part of the text.

Options and their meaning: https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from autoexp_tui.backends.arguments import Action, Schema, SchemaRenderer
from autoexp_tui.backends.base import (
    Config,
    check_mapping,
    find_value,
    problem,
    read_section,
)
from autoexp_tui.executors.slurm.script import AROUND
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import Scalar, count_gpus, count_nodes

KEY: Final = "torchrun"

_MEETING: Final = (
    "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "master_addr",
    "master_port", "node_rank",
)  # fmt: skip
"""Options that `--standalone` would overrule."""


def _parse_number(value: object) -> Any:
    """A number where it is one, or a text of one."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


_FORMS: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    ("nnodes nproc_per_node rdzv_endpoint rdzv_id rdzv_conf role log_dir redirects tee "
     "local_ranks_filter local_addr master_addr logs_specs event_log_handler "
     "signals_to_handle", {}),
    ("node_rank max_restarts master_port", {"type": "int"}),
    ("monitor_interval", {"type": "float"}),
    ("standalone no_python run_path srun", {"action": "true"}),
    ("rdzv_backend", {"choices": ("c10d", "static", "etcd", "etcd-v2")}),
    ("start_method", {"choices": ("spawn", "fork", "forkserver")}),
    ("numa_binding", {"choices": ("node", "socket", "exclusive", "core-complex")}),
)  # fmt: skip
"""torchrun's own options, and `srun`, which is ours."""
_ACTIONS: Final = tuple(
    Action(dest=name, options=(f"--{name}",), **form)
    for names, form in _FORMS
    for name in names.split()
)
_OPTIONS: Final = SchemaRenderer(Schema(actions=_ACTIONS, source=KEY), KEY)

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


def read_shape(backend: Config, config: Config) -> Shape:
    """What `torchrun` says, else what Slurm is asked for."""
    given = read_section(backend, KEY)
    on_slurm = "Slurm" in str(find_value(config, "slurm.client.class_name") or "")
    asked = _read_sbatch(config)
    nodes, processes = given.get("nnodes"), given.get("nproc_per_node")
    if nodes is None:
        nodes = asked.get("nodes", 1) if on_slurm else 1
    if processes is None:
        gpus, hosts = count_gpus(asked), count_nodes(asked)
        processes = gpus // hosts if gpus and gpus % hosts == 0 else None
    return Shape(_parse_number(nodes), _parse_number(processes), on_slurm)


def _read_sbatch(config: Config) -> dict[str, Scalar]:
    """What the job asks of sbatch, spelled with dashes."""
    found = find_value(config, "slurm.sbatch")
    options = found.items() if isinstance(found, Mapping) else ()
    return {
        str(key).replace("_", "-"): value
        for key, value in options
        if isinstance(value, str | int | float)
    }


def asks_for_gpus(config: Config) -> bool:
    """Whether the job asks Slurm, or this machine, for GPUs."""
    return count_gpus(_read_sbatch(config)) > 0


def check_options(backend: Config, config: Config) -> list[Problem]:
    """Everything wrong with `torchrun`, and with how it goes with Slurm."""
    if found := check_mapping(backend.get(KEY), KEY, "torchrun: {nproc_per_node: 4}"):
        return found
    given, shape = read_section(backend, KEY), read_shape(backend, config)
    if found := [*_OPTIONS.render(given).problems]:
        return found
    return [*_check_shape(given, shape, config)]


def _check_shape(given: Config, shape: Shape, config: Config) -> Iterator[Problem]:
    """How many processes there are, and on how many nodes."""
    asked = _read_sbatch(config)
    nodes = _parse_number(asked.get("nodes", 1))
    tasks = _parse_number(asked.get("ntasks-per-node", 1))
    if shape.processes is None:
        message = "is not said, and follows from nothing that Slurm is asked for"
        hint = "a number, one a GPU; or ask for slurm.sbatch.gpus_per_node"
        yield problem(f"{KEY}.nproc_per_node", message, hint)
    if shape.on_slurm and tasks != 1:
        message = f"is {tasks}: torchrun would be started so often on each node"
        hint = "1; torchrun starts the processes itself (gpus_per_node, cpus_per_task)"
        yield Problem(message, where="slurm.sbatch.ntasks_per_node", hint=hint)
    if given.get("nnodes") is None and not isinstance(shape.nodes, int):
        message = f"is not said, and slurm.sbatch.nodes is {shape.nodes!r}"
        yield problem(f"{KEY}.nnodes", message, "a number, or a range such as '2:4'")
        return
    counts = isinstance(shape.nodes, int) and isinstance(nodes, int)
    if shape.on_slurm and counts and nodes != shape.nodes:
        message = f"is {shape.nodes}, and slurm.sbatch.nodes is {nodes}"
        yield problem(f"{KEY}.nnodes", message, "null takes what Slurm is asked for")
    if shape.nodes == 1:
        return
    if not shape.on_slurm and given.get("node_rank") is None:
        message = f"is {shape.nodes}, and the local executor has one machine"
        hint = "nnodes: 1, or slurm=generic; node_rank if you start the others yourself"
        yield problem(f"{KEY}.nnodes", message, hint)
    words = _read_launcher(config)
    starts_once = bool(words) and not any("srun" in word for word in words)
    if shape.on_slurm and starts_once and given.get("srun") is not False:
        message = "starts the command once, and not on every node"
        hint = "put srun in front of it, or leave it out: then srun is put there"
        yield Problem(message, where="slurm.launcher_cmd", hint=hint)


def _read_launcher(config: Config) -> list[str]:
    """The words that the executor puts in front of every command."""
    found: list[list[str]] = []
    for key in ("slurm.launcher_cmd", "slurm.srun_opts"):
        value: Any = find_value(config, key) or ""
        words = [] if isinstance(value, str) else [*map(str, value)]
        with suppress(ValueError):  # told where the executor is set up
            words = words or shlex.split(value)
        found.append(words)
    words, options = found
    return [*words, "srun", *options] if options else words


def outside(backend: Config, config: Config) -> tuple[str, ...]:
    """What stands in front of everything, a container too; empty on one node. Without a
    launcher, srun starts a task a node, whose processes share what is there."""
    shape = read_shape(backend, config)
    if shape.nodes == 1 or not shape.on_slurm:
        return ()
    starter: tuple[str, ...] = ()
    is_ours = read_section(backend, KEY).get("srun", True) is not False
    if is_ours and not _read_launcher(config):
        nodes = _parse_number(_read_sbatch(config).get("nodes", 1))
        count = (f"--nodes={nodes}", f"--ntasks={nodes}")
        starter = (*AROUND, "srun", *(count if isinstance(nodes, int) else ()))
        starter += ("--ntasks-per-node=1", "--cpu-bind=none", "--kill-on-bad-exit=1")
    return (*starter, "sh", "-c", ON_A_NODE, "torchrun-on-a-node")


def command(backend: Config, config: Config) -> tuple[str, ...]:
    """torchrun with its options: releases before 2.0 know none but with underscores."""
    given = {k: v for k, v in read_section(backend, KEY).items() if v is not None}
    shape = read_shape(backend, config)
    python = backend.get("python")
    words = [str(python), "-m", "torch.distributed.run"] if python else ["torchrun"]
    chosen: dict[str, object] = {}
    if shape.nodes != 1:
        is_static = given.get("master_addr") and not given.get("rdzv_endpoint")
        chosen["rdzv_backend"] = "static" if is_static else "c10d"
    elif given.keys().isdisjoint(_MEETING):
        chosen["standalone"] = True
    counts = {"nnodes": shape.nodes, "nproc_per_node": shape.processes}
    options = counts | chosen | given | counts | {"srun": None}
    return (*words, *_OPTIONS.render(options).words)
