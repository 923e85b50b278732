"""A program that behaves as an agent might: `stand_in.py CASE WORD ...`, in codex's
events, or in claude's where it is called as claude is, with flags that claude knows."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

ANSWER = Path(os.environ.get("AUTOEXP_ANSWER_FILE", "_answer.json"))
TEXT = os.environ.get("ANSWER_TEXT", '{"ideas": 3}')
USAGE = {"input_tokens": 3000, "cached_input_tokens": 1000, "output_tokens": 50}


def tell(kind: str, **fields: Any) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)


def is_claude() -> bool:
    return "-p" in sys.argv


def require_flags(words: list[str]) -> None:
    """Those of Claude Code, as its documentation has them."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--output-format", choices=("text", "json", "stream-json"))
    modes = ("acceptEdits", "bypassPermissions", "default", "dontAsk", "plan")
    parser.add_argument("--permission-mode", choices=modes)
    parser.add_argument("--json-schema", type=json.loads)
    for name in ("--model", "--tools", "--setting-sources"):
        parser.add_argument(name)
    for name in ("--strict-mcp-config", "--disable-slash-commands", "--verbose", "-p"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--no-session-persistence", action="store_true")
    assert parser.parse_args(words).verbose, "stream-json with -p requires --verbose"


def tell_message(name: str, part: dict[str, Any]) -> None:
    usage = {"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 10}
    tell("assistant", message={"id": name, "content": [part], "usage": usage})


def use_tool(name: str, **fields: Any) -> None:
    if is_claude():
        call = {"type": "tool_use", "id": name, "name": "Bash", "input": fields}
        for _ in range(2):  # a message comes in several events
            tell_message(f"message {name}", call)
        done = {"type": "tool_result", "tool_use_id": name, "content": "ok"}
        tell("user", message={"role": "user", "content": [done]})
    else:
        item("command_execution", name, "started")
        item("command_execution", name, **fields)


def item(kind: str, name: str, when: str = "completed", **fields: Any) -> None:
    tell(f"item.{when}", item={"id": name, "type": kind, **fields})


def write(text: str = TEXT) -> None:
    ANSWER.write_text(text)


def say_last(**fields: Any) -> None:
    if is_claude():
        tell_message("last", {"type": "text", "text": "Done."})
        usage = {"input_tokens": 2000, "output_tokens": 50}
        usage["cache_read_input_tokens"] = 1000
        fields = {"subtype": "success", "is_error": False, "result": "Done.", **fields}
        tell("result", num_turns=1, total_cost_usd=0.25, usage=usage, **fields)
    else:
        item("agent_message", "last", text="Done.")
        tell("turn.completed", usage=USAGE)


def end_well(code: int = 0) -> None:
    say_last()
    sys.exit(code)


def fail(message: str, of_claude: str = "") -> None:
    if is_claude():
        say_last(is_error=True, result=of_claude)
    else:
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
    if is_claude():
        require_flags(sys.argv[2:])
        tell("system", subtype="init", session_id="s", tools=["Bash"])
    match case:
        case "ok":
            assert prompt == "Find three ideas.\n"
            item("error", "warning", message="unknown model")
            write()
        case "900 kB":
            assert len(prompt) == 900_000
            write()
        case "10 MB of JSON":
            write('{"reflection": "%s"}' % ("x" * 10_000_000))
        case "structured":
            say_last(structured_output={"ideas": 3})
            sys.exit(0)
        case "denied":
            say_last(permission_denials=[{"tool_name": "Bash"}])
            sys.exit(0)
        case "unknown model":
            say_last(result="There's an issue with the selected model")
            sys.exit(1)
        case "max turns":
            say_last(subtype="error_max_turns", is_error=True, result="")
            sys.exit(1)
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
            message = "unexpected status 401 Unauthorized: Incorrect API key provided"
            fail(message, "Invalid API key · Please run /login")
        case "429":
            message = "exceeded retry limit, last status: 429. Try again in 1h 2m"
            fail(message, "Claude AI usage limit reached, resets in 1h 2m")
        case "500":
            message = "We're currently experiencing high demand"
            fail(message, 'API Error: 529 {"error":{"type":"overloaded_error"}}')
        case "500 retried":
            tell("error", message="Reconnecting... 1/5 (unexpected status 500)")
            tell("system", subtype="api_retry", attempt=1, error_status=500)
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
            use_tool("1")
            hang()
        case "never ends":
            while True:
                item("reasoning", "1")
                time.sleep(0.01)
        case "never exits":
            write()
            say_last()
            signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
            hang()
        case "daemon":
            leave_daemon()
            write()
        case "16 steps of 15":
            write()
            for number in range(16):
                use_tool(str(number))
        case "15 steps of 15":
            write()
            for number in range(15):
                use_tool(str(number))
        case "long line":
            use_tool("1", output="\x1b[2J\x1b]0;x\x07" * 220_000)
            print("no JSON \x1b[31m\n[1]\n{half\n" + "{" * 100_000, flush=True)
            write()
        case "odd numbers":
            odd = '{"input_tokens": 1%s, "output_tokens": -3}' % ("0" * 400)
            print(f'{{"type": "turn.completed", "usage": {odd}}}', flush=True)
            print(f'{{"type": "result", "total_cost_usd": NaN, "usage": {odd}}}')
            write()
            sys.exit(0)
        case "odd text":
            write()
            item("agent_message", "last", text="\ud800")
            message = "last status: 429 until 2026-99-99T99:99Z"
            fail(message, message + " try again in " + "9" * 400 + " days")
        case "odd name":
            Path(os.fsdecode(b"_answer\xff.json")).touch()
        case "fills the disk":
            with open("large", "wb") as file:
                while True:
                    file.write(os.urandom(1 << 20))
                    time.sleep(0.01)
        case "no last event":
            write()
            sys.exit(0)
        case "environment":
            write(json.dumps({"ideas": 0, "env": dict(os.environ)}))
    end_well()


if __name__ == "__main__":
    run(sys.argv[1])
