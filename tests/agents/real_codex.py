"""The real codex against a scripted local server: `make test-agents`.

Not a part of the suite: codex is some 400 MB. It is the `codex` on PATH, or $CODEX.
Prints a line a case, and exits with 1 when one came out otherwise than it should.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from autoexp_tui.agents.call import Answer, Request, hash_bytes
from autoexp_tui.agents.runner import run_call
from autoexp_tui.executors.wrapper import list_descendants
from autoexp_tui.isolation.kinds import probe_isolation
from autoexp_tui.isolation.port import Isolation
from autoexp_tui.isolation.profiles import make_agent_profile
from autoexp_tui.model.agents import AgentSpec, Limits, Prices

WRITE = """echo '{"ideas": 3}' > _answer.json"""
DAEMON = """setsid sh -c 'trap "" TERM; sleep 300' & """
STUBBORN = """trap "" TERM INT; sleep 300; sleep 300"""
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "ok": (WRITE,),
    "structured": (),
    "no file": (),
    "daemon": (DAEMON + WRITE,),
    "loop": ("true",) * 99,
    "stubborn": (STUBBORN,),
}
"""What the model asks to be run, one command a turn; then it says a last word."""
STATUS = {"401": 401, "429": 429, "500": 500}
WANTED = {
    "ok": "ok",
    "structured": "ok",
    "no file": "no_output",
    "daemon": "ok",
    "loop": "max_steps",
    "stubborn": "timeout",
    "hang": "timeout",
    "401": "auth_error",
    "429": "rate_limit",
    "500": "unavailable",
    "away": "unavailable",
    "no key": "auth_error",
}
CONFIG = """
model = "fake"
model_provider = "fake"
[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:{port}/{case}/v1"
env_key = "FAKE_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""
SCHEMA = {
    "type": "object",
    "properties": {"ideas": {"type": "integer"}},
    "required": ["ideas"],
    "additionalProperties": False,
}


class Server(BaseHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """No word of requests."""

    def do_POST(self) -> None:
        case = self.path.split("/")[1].replace("_", " ")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if case == "hang":
            time.sleep(30)
            return
        if status := STATUS.get(case):
            self.send_response(status)
            self.end_headers()
            message = "Incorrect API key provided" if status == 401 else "no"
            self.wfile.write(json.dumps({"error": {"message": message}}).encode())
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in build_events(case, body):
            kind = event["type"]
            self.wfile.write(f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode())


def build_events(case: str, body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """One turn of the model."""
    outputs = [one for one in body["input"] if one["type"] == "function_call_output"]
    commands = COMMANDS[case]
    yield {"type": "response.created", "response": {"id": "r"}}
    if len(outputs) < len(commands):
        item = build_tool_call(body, commands[len(outputs)], len(outputs))
    else:
        text = '{"ideas": 3}' if case == "structured" else "Done."
        content = [{"type": "output_text", "text": text}]
        item = {"type": "message", "role": "assistant", "content": content}
    yield {"type": "response.output_item.done", "item": item}
    usage = {"input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010}
    yield {"type": "response.completed", "response": {"id": "r", "usage": usage}}


def build_tool_call(body: Mapping[str, Any], text: str, at: int) -> Mapping[str, Any]:
    names = {str(tool.get("name")) for tool in body["tools"]}
    if "exec_command" in names:
        name, arguments = "exec_command", {"cmd": text}
    else:
        name = "shell_command" if "shell_command" in names else "shell"
        arguments = {"command": text}
    call = {"type": "function_call", "call_id": f"c{at}", "name": name}
    return {**call, "arguments": json.dumps(arguments)}


@contextmanager
def serve() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def call_codex(
    program: str, case: str, port: int, place: Path, isolation: Isolation | None
) -> Answer:
    home, cwd = place / "user", place / "cwd"
    (home / ".codex").mkdir(parents=True)
    cwd.mkdir()
    (place / "prompt.md").write_text("Find three ideas.")
    used = 1 if case == "away" else port
    config = CONFIG.format(port=used, case=case.replace(" ", "_"))
    (home / ".codex/config.toml").write_text(config)
    os.environ["HOME"] = str(home)
    key = {} if case == "no key" else {"FAKE_API_KEY": "x"}
    by_message = case == "structured"
    request = Request(
        role="ideas",
        agent=AgentSpec(
            backend="codex",
            command=(program,),
            limits=Limits(wall_seconds=8, steps=15, stop_seconds=1),
            env={**key, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
            prices=Prices(input=1.0, output=10.0),
            files=("~/.codex/config.toml",),
        ),
        prompt=str(place / "prompt.md"),
        prompt_sha256=hash_bytes((place / "prompt.md").read_bytes()),
        cwd=str(cwd),
        answer_file="" if by_message else "_answer.json",
        schema=SCHEMA,
    )
    if case in ("daemon", "stubborn"):
        request = replace(request, agent=replace(request.agent, sandbox="full"))
    if isolation is None:
        return run_call(place / "call", request)
    profile = make_agent_profile(
        cwd,
        place / "call",
        program=Path(program),
        readable=[Path(program).parents[1]],
        logins=[home / ".codex/config.toml"],
    )
    prefix = isolation.wrap((), replace(profile, network=(port,)))
    return run_call(place / "call", replace(request, is_isolated=True), prefix)


def main() -> int:
    program = os.environ.get("CODEX") or shutil.which("codex")
    if not program:
        print("There is no codex: npm i @openai/codex, or CODEX=/path/to/codex.")
        return 5
    wrong = 0
    with serve() as port, tempfile.TemporaryDirectory() as root:
        plain: list[tuple[str, Isolation | None]] = [(case, None) for case in WANTED]
        fenced = [("ok", one) for one in probe_isolation()]
        for number, (case, isolation) in enumerate([*plain, *fenced]):
            place, wanted = Path(root, str(number)), WANTED[case]
            answer = call_codex(program, case, port, place, isolation)
            left = list_descendants(os.getpid())
            is_wrong = answer.outcome != wanted or bool(left)
            wrong += is_wrong
            tokens = answer.usage.input_tokens if answer.usage else "?"
            fence = isolation.name if isolation else ""
            print(
                f"{'WRONG' if is_wrong else 'ok':6}{case:12}{fence:9}"
                f"{answer.outcome:13}{answer.seconds:6.2f} s {answer.steps:3} steps "
                f"{tokens:>7} tokens  {len(left)} left  {answer.why[:70]}",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
