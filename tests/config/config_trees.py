"""Small config trees for tests, written from text."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent


def write_tree(root: Path, **files: str) -> Path:
    """Write files named `group__choice` (or `name`) with their YAML below `root`."""
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    return root


BASE = """
defaults:
  - backend: small
  - _self_
project: {name: "run_${stage}", base_output_dir: out}
aux: {tokens: 100}
doubled: "${oc.eval:${backend.lr} * 2}"
sweep:
  type: product
  groups:
    - params: {backend.lr: [1, 2], optim.lr: [3]}
"""
SMALL = """
class_name: Null
lr: 1
iters: ${oc.eval:(${.lr} + 3) * 2}
name: small
"""
LARGE = "class_name: Null\nlr: 5\nname: large\n"
