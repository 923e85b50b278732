"""A program that behaves as an agent might: `stand_in.py CASE`, in codex's events."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

ANSWER = Path("_answer.json")
USAGE = {"input_tokens": 3000, "cached_input_tokens": 1000, "output_tokens": 50}


def tell(kind: str, **fields: Any) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)


def item(kind: str, name: str, when: str = "completed", **fields: Any) -> None:
    tell(f"item.{when}", item={"id": name, "type": kind, **fields})


def write(text: str = '{"ideas": 3}') -> None:
    ANSWER.write_text(text)


def end_well(code: int = 0) -> None:
    item("agent_message", "last", text="Done.")
    tell("turn.completed", usage=USAGE)
    sys.exit(code)


def fail(message: str) -> None:
    tell("error", message="Reconnecting... 1/5")
    tell("turn.failed", error={"message": message})
    sys.exit(1)


def hang() -> None:
    time.sleep(60)


def leave_daemon() -> None:
    """A grandchild in a session of its own that ignores TERM and holds our output."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            Path("daemon.pid").write_text(str(os.getpid()))
            hang()
        os._exit(0)
    while not Path("daemon.pid").exists():
        time.sleep(0.001)


def leave_session() -> None:
    """What codex writes while it works, cut short by its end."""
    place = Path.home() / ".codex/sessions/2026/01/02"
    place.mkdir(parents=True)
    info = {"total_token_usage": {**USAGE, "input_tokens": 136000}}
    line = json.dumps({"payload": {"type": "token_count", "info": info}})
    early = line.replace("136000", "4000")
    (place / "rollout-1.jsonl").write_text(f"{early}\n{line}\n{line[:40]}")


def run(case: str) -> None:
    prompt = sys.stdin.read()
    match case:
        case "ok":
            assert prompt == "Find three ideas.\n"
            item("error", "warning", message="unknown model")
            write()
        case "half JSON":
            write('{"ideas": ')
        case "wrong schema":
            write('{"ideas": "many"}')
        case "link out":
            ANSWER.symlink_to("/etc/hostname")
        case "rc 3 with the file":
            write()
            end_well(3)
        case "401":
            fail("unexpected status 401 Unauthorized: Incorrect API key provided")
        case "429":
            fail("exceeded retry limit, last status: 429. Try again in 1h 2m")
        case "500":
            fail("We're currently experiencing high demand")
        case "500 retried":
            tell("error", message="Reconnecting... 1/5 (unexpected status 500)")
            write()
        case "hang before the first event":
            hang()
        case "waits for the network":
            tell("error", message="Reconnecting... (error sending request)")
            hang()
        case "killed":
            leave_session()
            for number in range(16):
                item("command_execution", str(number), "started")
            hang()
        case "hang midway":
            item("command_execution", "1", "started")
            hang()
        case "never ends":
            while True:
                item("reasoning", "1")
                time.sleep(0.01)
        case "never exits":
            write()
            item("agent_message", "last", text="Done.")
            tell("turn.completed", usage=USAGE)
            signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
            hang()
        case "daemon":
            leave_daemon()
            write()
        case "16 steps of 15":
            write()
            for number in range(16):
                item("command_execution", str(number), "started")
                item("command_execution", str(number))
        case "15 steps of 15":
            write()
            for number in range(15):
                item("command_execution", str(number))
        case "long line":
            item("command_execution", "1", output="\x1b[2J\x1b]0;x\x07" * 220_000)
            print("no JSON \x1b[31m\n[1]\n{half\n" + "{" * 100_000, flush=True)
            write()
        case "no last event":
            write()
            sys.exit(0)
        case "environment":
            write(json.dumps({"ideas": 0, "env": dict(os.environ)}))
    end_well()


if __name__ == "__main__":
    run(sys.argv[1])
