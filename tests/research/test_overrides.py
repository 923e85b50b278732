"""What agents may set of a config."""

from __future__ import annotations

import re

import pytest

from autoexp_tui.research.overrides import find_overrides_problem

FREE = """
lr=3e-4; +lr=1; ++model.size=12; ~dropout; optimizer=adam; name='two words'; x=a=b
betas=[0.9, 0.95]; x={a: 1}; t=ä; backend.args.lr=1; backend.megatron.lr=1; ~backend_x
slurm.sbatch.time=01:00:00; slurm.sbatch.gpus_per_node=2; sweep.params.lr=[1, 2]
sweep.params.backend.args.lr=[1, 2]; research_x=1; sweep.groups.0.params.lr=[1]
"""
CLOSED = """
research.budgets.money=9; +research.x=1; ++research=null; ~research; /agents=x; agents=x
agents.codex.command=[sh]; ~agents.isolation; tree.approve=none; project.share=group
project/share=group; monitoring.notify.command=[sh]; monitoring=x; ui.commands=[]
monitoring.result.mode=max; backend=bash; backend.script=x; backend.class_name=Bash
backend.env.A=1; ~backend.args.lr; +environment=conda; +experiments=tree; slurm=generic
slurm.sbatch.account=x; slurm.sbatch={account: x}; slurm.launcher_cmd=x
slurm.confirm.jobs=9; ~slurm.sbatch.time; sweep.configs=[]; sweep={}; sweep.params={}
sweep.params.agents.a=[1]; sweep.params.backend.command=[x]; +start_conditions=[]
hydra.run.dir=x; x@research=y; x@_global_=y; opt@a:b=c; a[0]=1; "research"=1; =1; x
sweep.groups.0.params.monitoring.x=1; model=../../x; lr@project=x;  monitoring.x=1
x=${agents.a.env}; x=${oc.env:KEY}; x=`id`; x=a|b; x=a>b; --multirun
"""
UNCLEAN = ("x=1\ny=2", "x=\x1b[2J", "x=\u202e", "x=\ud800", "x=" + "y" * 500, "x=a;b")


@pytest.mark.parametrize("text", re.split("; |\n", FREE.strip()))
def test_an_agent_may_set(text: str) -> None:
    assert find_overrides_problem([text]) == ""


@pytest.mark.parametrize("text", [*re.split("; |\n", CLOSED.strip()), *UNCLEAN])
def test_an_agent_may_not_set(text: str) -> None:
    assert find_overrides_problem([text])
