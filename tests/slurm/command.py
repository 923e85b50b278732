"""The cluster as a command, for a shell and for trying things by hand.

    eval "$(python -m tests.slurm.cluster up)"
    python -m tests.slurm.cluster node-stop n2 --with-steps
    python -m tests.slurm.cluster down

It says what the library does, and adds nothing to it.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import fields
from pathlib import Path

from tests.slurm.cluster import Cluster
from tests.slurm.daemons import ClusterError
from tests.slurm.settings import Settings


def main() -> None:
    """Runs one verb; ends the process with a message when it fails."""
    given = _parser().parse_args()
    try:
        _do(given)
    except FileNotFoundError:
        sys.exit(f"no cluster in {given.home}")
    except ClusterError as error:
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.slurm.cluster", description="A throw-away Slurm cluster."
    )
    parser.add_argument(
        "--home",
        type=Path,
        default=Path(f"/tmp/autoexp-slurm-{os.geteuid()}"),
        help="directory of the cluster, short (%(default)s)",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    _add_up(verbs.add_parser("up", help="start; print what a shell needs"))
    down = verbs.add_parser("down", help="end everything it started")
    down.add_argument("--keep-files", action="store_true", help="leave the logs")
    verbs.add_parser("status", help="what runs; exit code 1 unless all does")
    verbs.add_parser("clear", help="restart what was stopped, cancel all jobs")
    _add_faults(verbs)
    return parser


def _add_up(parser: argparse.ArgumentParser) -> None:
    for field in fields(Settings):
        option = "--" + field.name.replace("_", "-")
        if isinstance(field.default, bool):
            parser.add_argument(
                option, action=argparse.BooleanOptionalAction, default=field.default
            )
        else:
            parser.add_argument(option, type=type(field.default), default=field.default)


def _add_faults(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for verb in ("node-stop", "node-start"):
        verbs.add_parser(verb).add_argument("name")
    verbs.choices["node-stop"].add_argument("--with-steps", action="store_true")
    for verb in ("ctld-stop", "ctld-restart", "dbd-stop"):
        verbs.add_parser(verb).add_argument("--hard", action="store_true")
    for verb in ("ctld-start", "dbd-start"):
        verbs.add_parser(verb)
    verbs.add_parser("expire").add_argument("job")


def _do(given: argparse.Namespace) -> None:
    if given.verb == "up":
        _up(given)
        return
    cluster = Cluster.at(given.home)
    match given.verb:
        case "down":
            cluster.down(keep_files=given.keep_files)
        case "status":
            _show(cluster.status())
        case "node-stop":
            cluster.node_stop(given.name, with_steps=given.with_steps)
        case "node-start":
            cluster.node_start(given.name)
        case "expire":
            cluster.expire(given.job)
        case "ctld-stop" | "ctld-restart" | "dbd-stop":
            getattr(cluster, given.verb.replace("-", "_"))(hard=given.hard)
        case verb:
            getattr(cluster, verb.replace("-", "_"))()


def _up(given: argparse.Namespace) -> None:
    chosen = {f.name: getattr(given, f.name) for f in fields(Settings)}
    cluster = Cluster(Settings(**chosen), given.home)
    cluster.up(owned=False)
    for name in ("SLURM_CONF", "PATH", "TZ"):
        print(f"export {name}={shlex.quote(cluster.env[name])}")


def _show(status: dict[str, bool]) -> None:
    for name, runs in status.items():
        print(name, "runs" if runs else "ended")
    sys.exit(0 if status and all(status.values()) else 1)
