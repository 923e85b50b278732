"""Megatron-LM, started by torchrun: `MegatronTorchrun` and `MegatronFsdp`.

`backend.megatron` holds Megatron's own arguments by their destinations (`lr`,
`train_iters`), `backend.torchrun` torchrun's options; `megatron.aux` is for the config
alone and never reaches the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from autoexp_tui.backends import megatron_rules as rules
from autoexp_tui.backends import torchrun
from autoexp_tui.backends.argument_check import Checker
from autoexp_tui.backends.argument_flags import flags, problems_of_flags
from autoexp_tui.backends.messages import (
    Config,
    each_text,
    one_of,
    problem,
    section,
)
from autoexp_tui.backends.schemas import Schemas
from autoexp_tui.model.errors import Problem

_AUX: Final = "aux"
_CONNECTIONS: Final = "CUDA_DEVICE_MAX_CONNECTIONS"
_SWITCHES: Final[Mapping[str, str]] = {
    "megatron": "use_megatron_fsdp",
    "torch": "use_torch_fsdp2",
    "custom": "use_custom_fsdp",
}
"""Of `fsdp`: the argument that turns each kind on; `custom` is the older name."""


class MegatronTorchrun:
    """`torchrun ... SCRIPT --arguments`, with tensor, pipeline, data parallelism."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._bare: tuple[object, object, dict[str, object]] | None = None

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Everything wrong with the script, torchrun, and Megatron's arguments."""
        found = [
            *one_of(backend, ("script", "module")),
            *each_text(backend, ("script", "module", "python")),
            *torchrun.problems_of(backend, config),
        ]
        wrong = problems_of_flags(self._of(backend), rules.KEY)
        checker, refused = self._schemas.of(backend, rules.KEY)
        known: Sequence[Problem] = ()
        if checker is not None:
            known = checker.besides(self._of(backend), wrong)
        found += (*wrong, *refused)
        # The rules ask how many processes there are, which torchrun's options say.
        asked = () if found else self._rules(backend, config, checker)
        return [*found, *known, *asked]

    def command(self, backend: Config, config: Config) -> Sequence[str]:
        """torchrun, the program, and the arguments as Megatron takes them."""
        module = backend.get("module")
        program = ("-m", str(module)) if module else (str(backend["script"]),)
        return (*torchrun.command(backend, config), *program, *self._words(backend))

    def outside(self, backend: Config, config: Config) -> Sequence[str]:
        """On several nodes, what starts torchrun on each of them."""
        return torchrun.outside(backend, config)

    def environment(self, backend: Config, config: Config) -> Mapping[str, str]:
        """What Megatron needs: kernels that begin in the order they are launched.

        Overlapped all-to-alls of experts need the opposite, many connections.
        """
        overlaps = section(backend, rules.KEY).get("overlap_moe_expert_parallel_comm")
        return {_CONNECTIONS: "32" if overlaps else "1"}

    # ................................................................... inside
    def _of(self, backend: Config) -> object:
        """`megatron` without `aux`, or whatever stands in its place."""
        value = backend.get(rules.KEY)
        return self._arguments(backend) if isinstance(value, Mapping) else value

    def _arguments(self, backend: Config) -> Mapping[str, object]:
        """Megatron's arguments; the same mapping for the same section."""
        given = section(backend, rules.KEY)
        switches = self._switches(backend)
        if self._bare and self._bare[0] is given and self._bare[1] == switches:
            return self._bare[2]
        bare = {key: value for key, value in given.items() if key != _AUX}
        bare |= switches
        self._bare = (given, switches, bare)
        return bare

    def _switches(self, backend: Config) -> Mapping[str, object]:
        """Arguments that the back end itself adds."""
        return {}

    def _words(self, backend: Config) -> Sequence[str]:
        args = self._arguments(backend)
        checker, _ = self._schemas.of(backend, rules.KEY)
        if checker is not None:
            return checker.rendered(args).words
        refusals, spellings = rules.REFUSALS, rules.SPELLINGS
        return flags(args, dashes=True, refusals=refusals, spellings=spellings)

    def _rules(
        self, backend: Config, config: Config, checker: Checker | None
    ) -> Iterator[Problem]:
        shape = torchrun.shape_of(backend, config)
        known = rules.DEFAULTS if checker is None else checker.schema.defaults
        args = rules.Arguments(self._arguments(backend), known, shape.world, str(shape))
        yield from rules.common(args)
        yield from self._own_rules(args, backend)

    def _own_rules(self, args: rules.Arguments, backend: Config) -> Iterator[Problem]:
        yield from rules.plain(args)
        given = section(backend, "env").get(_CONNECTIONS)
        parallel = ("tensor_model_parallel_size", "context_parallel_size")
        is_cut = any((args.number(key) or 1) > 1 for key in parallel)
        overlaps = args.is_on("overlap_moe_expert_parallel_comm")
        if given is not None and str(given) != "1" and is_cut and not overlaps:
            message = f"is {given}; tensor and context parallelism need 1"
            hint = "leave it out: it is set to 1 (GPUs from Blackwell on do without)"
            yield problem(f"env.{_CONNECTIONS}", message, hint)


class MegatronFsdp(MegatronTorchrun):
    """The same with parameters sharded over the data-parallel processes.

    `fsdp` says by which implementation: `megatron` (the default), `torch` (FSDP2), or
    `custom`, which is what releases before 0.13 call Megatron's own.
    """

    def problems(self, backend: Config, config: Config) -> Sequence[Problem]:
        """Also what is wrong with `fsdp`."""
        kind = backend.get("fsdp")
        if kind is None or (isinstance(kind, str) and kind in _SWITCHES):
            return super().problems(backend, config)
        message = f"is {kind!r}; it may be {', '.join(_SWITCHES)}"
        return (problem("fsdp", message), *self._whatever_kind(backend, config))

    def _whatever_kind(self, backend: Config, config: Config) -> Sequence[Problem]:
        """What is wrong whichever kind is meant."""
        first, *others = (
            super(MegatronFsdp, self).problems({**backend, "fsdp": kind}, config)
            for kind in _SWITCHES
        )
        return [one for one in first if all(one in other for other in others)]

    def environment(self, backend: Config, config: Config) -> Mapping[str, str]:
        """What FSDP needs: streams that do not wait for each other.

        8 is CUDA's own default; it is set because 1 may come from a login shell.
        """
        return {_CONNECTIONS: "8"}

    def _switches(self, backend: Config) -> Mapping[str, object]:
        return {_SWITCHES[_kind(backend)]: True}

    def _own_rules(self, args: rules.Arguments, backend: Config) -> Iterator[Problem]:
        kind = _kind(backend)
        if kind == "megatron":
            yield from rules.megatron_fsdp(args)
        elif kind == "torch":
            yield from rules.torch_fsdp2(args)
        given = section(backend, "env").get(_CONNECTIONS)
        if given is not None and str(given) == "1":
            message = "is 1, which FSDP refuses"
            yield problem(
                f"env.{_CONNECTIONS}", message, "leave it out: it is set to 8"
            )


def _kind(backend: Config) -> str:
    return str(backend.get("fsdp") or "megatron")
