"""Plans, jobs and what completed jobs leave, as JSON and back.

Apart from the records of sessions (`codec`), for planning needs none of those.
"""

from __future__ import annotations

import hashlib
import json

from autoexp_tui.model.done import DoneWork
from autoexp_tui.model.errors import JournalDamaged, Problem, ValidationFailed
from autoexp_tui.model.masking import mask_tree
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.storage.model_json import (
    NEWER,
    Unencodable,
    decode,
    encode,
    read_json,
)

PLAN_VERSION = 1
"""Of the plans that this program writes; it reads those before it."""


def encode_plan(plan: Plan) -> bytes:
    """`plan` as one line of JSON: a manifest's bytes. Equal plans, equal bytes.

    Raises:
        ValidationFailed: a value that JSON cannot hold, with the field's name.
    """
    return _encode_for_people(plan, "plan")


def decode_plan(data: bytes, where: str = "plan") -> Plan:
    """The plan of a manifest, of this version or an earlier one.

    Raises:
        JournalDamaged: it does not read; names `where` and what is wrong. `newer` when
            a later version of this program wrote it.
    """
    try:
        plan = decode(Plan, data, where)
    except JournalDamaged:
        _refuse_newer(_version_in(data), where)
        raise
    _refuse_newer(plan.version, where)
    return plan


def _refuse_newer(version: object, where: str) -> None:
    if isinstance(version, int) and version > PLAN_VERSION:
        problem = f"it has version {version}; this program knows {PLAN_VERSION}"
        raise JournalDamaged(problem, where, NEWER, newer=True)


def _version_in(data: bytes) -> object:
    """The version that a plan says it has; None: it says none."""
    try:
        tree = read_json(data)
    except ValueError:
        return None
    return tree.get("version") if isinstance(tree, dict) else None


def plan_sha(data: bytes) -> str:
    """The name under which a session keeps a plan of these bytes: 16 hex digits."""
    return hashlib.sha256(data).hexdigest()[:16]


def mask_plan(plan: Plan, data: bytes) -> bytes:
    """A plan, encoded as `data`, with its secrets masked; `data` itself without any."""
    tree = json.loads(data)
    masked = mask_tree(tree, plan.mask)
    return data if masked == tree else json.dumps(masked).encode()


def encode_job(job: JobSpec) -> bytes:
    """One job as JSON; raises as `encode_plan` does."""
    return _encode_for_people(job, job.name)


def decode_job(data: bytes, where: str = "job") -> JobSpec:
    """The job of `encode_job`; raises as `decode_plan` does."""
    return decode(JobSpec, data, where)


def encode_done(work: DoneWork) -> bytes:
    """What a completed job leaves, as JSON.

    Raises:
        Unencodable: a field holds what JSON cannot.
    """
    return encode(work)


def decode_done(data: bytes, where: str = "done.json") -> DoneWork:
    """The work of `encode_done`; raises as `decode_plan` does."""
    return decode(DoneWork, data, where)


def _encode_for_people(value: Plan | JobSpec, where: str) -> bytes:
    """A plan's values are the person's: what cannot be kept is theirs to mend."""
    try:
        return encode(value)
    except Unencodable as error:
        problem = Problem(message=str(error), where=where)
        raise ValidationFailed(
            "the plan holds a value that JSON cannot", where, problems=(problem,)
        ) from error
