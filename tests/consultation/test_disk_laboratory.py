"""What the research loop asks of the disk, over a real repository and real calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autoexp_tui.consultation.call import main
from autoexp_tui.consultation.requests import CALLED, CallRequest
from autoexp_tui.evaluation.requests import load_record
from autoexp_tui.isolation.kinds import Landlock, probe_isolation
from autoexp_tui.model.agents import AgentSpec, Outcome
from autoexp_tui.model.errors import AutoexpError, UsageError
from autoexp_tui.model.state import JobRecord
from autoexp_tui.model.states import JobState
from autoexp_tui.research.jobs import REQUEST, build_item_jobs
from autoexp_tui.research.ports import PlanRequest
from autoexp_tui.research.state import Consultation, Item, Research, Run, RunEnd
from tests.consultation.one_call import write_agent
from tests.consultation.one_research import OneResearch
from tests.worktrees.conftest import call_git

C1 = Consultation(id="c1", opened_at=900.0)
WRITE = "open('train.py', 'w').write('rate = 2\\n')"


def list_items(*items: dict[str, Any]) -> dict[str, Any]:
    return {"reflection": "Less.", "experiment_list": [*items]}


def test_it_is_opened_in_a_clean_repository_with_what_its_options_leave_open(
    tmp_path: Path,
) -> None:
    one = OneResearch(tmp_path, AgentSpec(backend="codex", command=("no-such",)))
    base = one.make_repository()
    opened, notes = one.laboratory.open(one.laboratory.options)
    assert (opened.metric, opened.mode, opened.gpus) == ("loss", "min", 0)
    assert (opened.base_commit, opened.python) == (base, sys.executable)
    assert notes == ["agents.a: its program is not there"]
    assert (one.directory / ".gitignore").read_text() == "*\n"
    inside = one.laboratory
    inside = replace(inside, plan=replace(inside.plan, base_output_dir="outputs"))
    inside.open(inside.options)
    assert (one.top / "outputs/s1/.gitignore").read_text() == "*\n"
    one.options = {"gpus": 2, "objective": {"metric": "acc", "mode": "max"}}
    opened = one.open()
    assert (opened.metric, opened.mode, opened.gpus) == ("acc", "max", 2)
    (one.top / "new.py").touch()
    with pytest.raises(AutoexpError, match="research cannot begin") as refused:
        one.open()
    assert "research.link_paths" in str(refused.value)


@pytest.mark.parametrize("where", ["command", "option", "module"])
def test_an_agent_whose_script_isolation_hides_is_refused_before_its_first_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(
        "autoexp_tui.consultation.disk_laboratory.choose_isolation",
        lambda wanted: Landlock(3),
    )
    script = tmp_path / "tools/agent.py"
    script.parent.mkdir()
    script.touch()
    words = {"command": str(script), "option": f"--script={script}"}
    agent = AgentSpec(
        backend="command",
        command=(sys.executable, words.get(where, "-magent")),
        env={"PYTHONPATH": str(script.parent)} if where == "module" else {},
    )
    one = OneResearch(tmp_path, agent, isolation="prefer", options={"repository": ""})
    one.top.mkdir(parents=True)
    with pytest.raises(UsageError, match=rf"hides {script.parent}.* from it") as told:
        one.open()
    assert "Name it in agents.a.files" in str(told.value)
    one.agent = replace(agent, files=(str(script.parent),))
    assert one.open()


def test_a_script_that_is_here_and_not_where_the_agent_works_is_told_of(
    tmp_path: Path,
) -> None:
    agent = AgentSpec(backend="command", command=(sys.executable, "train.py"))
    one = OneResearch(tmp_path, agent, options={"repository": ""})
    one.make_repository()
    _, (note,) = one.laboratory.open(one.laboratory.options)
    assert note.startswith("agents.a: train.py is looked for in its own directory")


def test_an_answer_is_read_and_its_items_are_planned_or_left_out(
    tmp_path: Path,
) -> None:
    items: list[dict[str, Any]] = [
        {"id": "r1", "overrides": ["lr=0.1"]},
        {"id": "r2", "config_ref": "x"},
    ]
    items += [{"id": "r3", "overrides": ["lr=wrong"]}, {"id": "r4", "code_ref": "this"}]
    one = OneResearch(tmp_path, write_agent(answer=list_items(*items)))
    result = one.call(one.begin(), C1)
    assert (result.outcome, result.problem, result.code) == (Outcome.OK, "", None)
    answer = result.answer
    assert answer is not None
    assert answer.items is not None
    assert [(i.id, i.jobs[0].name) for i in answer.items] == [
        ("r1", "r1_train"),
        ("r2", "r2_train"),
    ]
    assert answer.left_out == (
        "r4: the call left no change of code",
        "r3: overrides: lr=wrong: wrong is no number",
    )
    assert one.find_home(C1).is_dir()
    prompt = (one.find_home(C1) / "prompt.md").read_text()
    assert "Less loss." in prompt
    state = json.loads((one.directory / "experiment_state.json").read_bytes())
    assert state["goal"] == "Less loss."


def test_of_an_item_of_the_list_a_change_that_does_not_plan_is_left_out(
    tmp_path: Path,
) -> None:
    change = list_items({"id": "r1", "overrides": ["lr=wrong"]})
    one = OneResearch(tmp_path, write_agent(answer=change))
    research = one.begin()
    research.items = (Item(id="r1", overrides=("lr=0.1",), consultation="c0"),)
    answer = one.call(research, replace(C1, listed=("r1",))).answer
    assert answer is not None
    assert (answer.order, answer.items) == (("r1",), ())
    assert answer.left_out == ("r1: overrides: lr=wrong: wrong is no number",)


def test_a_call_is_written_again_after_a_kill_and_read_as_often_as_wanted(
    tmp_path: Path,
) -> None:
    one = OneResearch(tmp_path, write_agent(answer=list_items({"id": "r1"})))
    research = one.begin()
    research.consultations["c1"] = C1
    first = one.laboratory.write_call(C1, one.view(research))
    result = one.call(research, C1)
    assert load_record(CallRequest, one.find_home(C1) / REQUEST).prompt_sha256 == first
    view = one.view(research)
    assert one.laboratory.read_call(C1, view) == result
    assert not (one.directory / "call/1").exists()
    one.laboratory.write_call(C1, view)
    main([str(one.find_home(C1) / REQUEST)])
    (one.find_home(C1) / CALLED).unlink()  # the job died before it was written
    assert one.laboratory.read_call(C1, view) == result


def test_an_answer_that_is_refused_changes_nothing(tmp_path: Path) -> None:
    answer = {"kill_runs": ["r1"]}
    one = OneResearch(tmp_path, write_agent(WRITE, answer=answer))
    research = one.begin()
    result = one.call(research, C1)
    assert (result.outcome, result.answer, result.code) == ("bad_output", None, None)
    assert "experiment_list: is missing" in result.problem
    home = one.find_home(C1)
    (home / "files/_research_output.json").write_text("{}")
    with pytest.raises(AutoexpError, match="not what it was"):
        one.laboratory.read_call(C1, one.view(research))


def test_a_request_that_its_agent_changed_misleads_nobody(tmp_path: Path) -> None:
    edit = "for name in ('../../calls/c1_research/call.json', '../../../plan.json'): "
    edit += "open(name, 'w').write('{')"
    commit = "os.system('git -C ../../../../user/repo -c user.name=a -c user.email=a '"
    commit += "'commit -q --allow-empty -m x')"
    one = OneResearch(tmp_path, write_agent(edit, commit, answer=list_items()))
    result = one.call(one.begin(), C1)
    assert (result.outcome, result.answer) == (Outcome.BAD_OUTPUT, None)
    request, plan = one.find_home(C1) / REQUEST, one.directory.parent / "plan.json"
    assert result.problem.endswith(f": {plan}, {request}, HEAD of {one.top}")
    assert not (one.directory / "call/1").exists()


@pytest.mark.parametrize("approved", ["", "ann"])
def test_items_run_the_code_of_their_call_isolated_until_a_person_approves_it(
    tmp_path: Path, approved: str
) -> None:
    script = "import os; open(os.environ['OUT'] + '/seen', 'w').write(os.getcwd())"
    edit = f"open('train.py', 'w').write({script!r})"
    answer = list_items({"id": "r1", "code_ref": "this"})
    one = OneResearch(tmp_path, write_agent(edit, answer=answer), isolation="prefer")
    research = one.begin()
    result = one.call(research, C1)
    assert result.answer is not None
    assert result.answer.items is not None
    assert result.code is not None
    [item] = result.answer.items
    [planned] = item.jobs
    assert planned.cwd == str(one.directory / "wt/1")
    decided = replace(C1, code=result.code)
    one.laboratory.keep_code(decided)
    one.laboratory.keep_code(decided)
    branch = call_git(one.top, "rev-parse", "research/s1/c1").strip()
    assert branch == result.code.commit
    assert call_git(one.top, "status", "--porcelain") == ""
    research.consultations["c1"] = decided
    research.code_approved = {"c1": approved}
    output = item.jobs[0].output_dir
    item = replace(item, jobs=(replace(planned, env={"OUT": output}),))
    [job] = build_item_jobs(research, item)
    assert ("autoexp_tui.consultation.fenced" in job.command) == (not approved)
    Path(output).mkdir(parents=True)
    env = {**os.environ, **job.env}
    done = subprocess.run(job.command, cwd=job.cwd, env=env, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert Path(output, "seen").read_text() == job.cwd


def test_code_that_is_refused_leaves_out_the_items_that_need_it(tmp_path: Path) -> None:
    answer = list_items({"id": "r1"}, {"id": "r2", "code_ref": "this"})
    agent = write_agent("open('tests/x.py', 'w')", answer=answer)
    one = OneResearch(tmp_path, agent, options={"protected_paths": ["tests"]})
    result = one.call(one.begin(), C1)
    assert result.outcome is Outcome.OK
    assert result.problem == "its code is refused: a protected path changed: tests/x.py"
    assert result.answer is not None
    assert result.answer.items is not None
    assert [item.id for item in result.answer.items] == ["r1"]
    assert result.answer.left_out == (f"r2: {result.problem}",)


def test_a_fix_is_the_runs_item_again_with_its_overrides(tmp_path: Path) -> None:
    fix = {"fix_applied": "halved the batch", "overrides": ["batch_size=32"]}
    one = OneResearch(tmp_path, write_agent(answer=fix))
    research = one.begin()
    add_failed_run(one, research)
    fixer = Consultation(id="c2", role="fixer", run="r1")
    result = one.call(research, fixer)
    assert result.answer is not None
    (fixed,) = result.answer.items or ()
    assert (fixed.id, fixed.fixes) == ("r1_fix1", "r1")
    assert fixed.overrides == ("lr=1", "batch_size=32")
    assert fixed.jobs[0].name == "r1_fix1_train"
    prompt = (one.find_home(fixer) / "prompt.md").read_text()
    assert "CUDA out of memory" in prompt
    request = load_record(CallRequest, one.find_home(fixer) / REQUEST)
    assert request.agents["a"].limits.steps == 15
    one.agent = write_agent(answer={"overrides": ["lr=wrong"]})
    failed = one.call(research, replace(fixer, id="c3"))
    assert (failed.outcome, failed.answer) == (Outcome.OK, None)
    assert failed.problem == (
        "the fix does not plan: overrides: lr=wrong: wrong is no number"
    )
    one.agent = write_agent(answer={"fix_applied": ""})
    assert one.call(research, replace(fixer, id="c4")).answer is None


def add_failed_run(one: OneResearch, research: Research) -> None:
    item = Item(id="r1", overrides=("lr=1",), consultation="c1")
    request = PlanRequest(items=(item,))
    [item] = one.laboratory.plan_items(request).items
    [spec] = item.jobs
    log = Path(spec.log_path_current)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 1_000_000 + b"\nCUDA out of memory\n")
    one.jobs[spec.name] = JobRecord(spec=spec, state=JobState.FAILED)
    ended = RunEnd(outcome="failed", at=950.0, mechanical="oom")
    research.runs["r1"] = Run(id="r1", item=item, jobs=(spec.name,), ended=ended)


@pytest.mark.parametrize("kind", probe_isolation(), ids=lambda one: one.name)
def test_an_isolated_agent_reads_logs_of_runs_and_the_state_file_as_it_is_now(
    tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "autoexp_tui.consultation.call.choose_isolation", lambda wanted: kind
    )
    one = OneResearch(tmp_path, write_agent(), isolation="prefer")
    research = one.begin()
    add_failed_run(one, research)
    log = one.jobs["r1_train"].spec.log_path_current
    state = one.directory / "experiment_state.json"
    lines = [f"log, state = {log!r}, {str(state)!r}", "import time"]
    lines += ["assert 'CUDA out of memory' in open(log).read()"]
    lines += ["begun = os.stat(state).st_ino", "open('begun', 'w')"]
    lines += ["while os.stat(state).st_ino == begun: time.sleep(0.01)"]
    lines += ["open(state).read()", "os.remove('begun')"]
    one.agent = write_agent(*lines, answer=list_items())
    one.laboratory.write_call(C1, one.view(research))
    research.consultations["c1"] = C1
    home = one.find_home(C1)
    statuses, pause = list[int](), threading.Event()
    caller = threading.Thread(
        target=lambda: statuses.append(main([str(home / REQUEST)]))
    )
    caller.start()
    while caller.is_alive() and not (one.directory / "call/1/begun").exists():
        pause.wait(0.01)
    one.laboratory.write_state(one.view(research))
    caller.join()
    assert statuses == [0]
