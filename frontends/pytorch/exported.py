"""Modules and exported programs of PyTorch as graphs of calls that have a spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch

from convir.frontends.pytorch.errors import UnsupportedError
from convir.frontends.pytorch.ops import OPERATORS
from convir.frontends.pytorch.program import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.frontends.pytorch.program import AtenProgram


def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of the operators that have no spelling here."""
    table: dict[Any, Callable[..., Any]] = dict(cast("Any", torch.export).default_decompositions())
    return {op: rule for op, rule in table.items() if str(op) not in OPERATORS}


def exported(
    source: torch.nn.Module | torch.export.ExportedProgram, example_inputs: Sequence[Any] | None
) -> torch.export.ExportedProgram:
    """The program of a module for these inputs.

    Raises:
        TypeError: a module comes without example inputs, an exported program with them.
        UnsupportedError: PyTorch cannot export it.
    """
    if isinstance(source, torch.export.ExportedProgram):
        if example_inputs is not None:
            raise TypeError("an ExportedProgram has its example inputs itself")
        return source
    if example_inputs is None:
        raise TypeError("a torch.nn.Module needs example_inputs: a tuple of its arguments")
    try:
        with torch.no_grad():
            return torch.export.export(source, tuple(example_inputs))
    except Exception as error:
        raise UnsupportedError(f"torch.export: {error}") from error


def read_exported(program: torch.export.ExportedProgram) -> AtenProgram:
    """The program as a model; its parameters and buffers are the model's constants.

    Raises:
        UnsupportedError: it changes its inputs or buffers, or something has no spelling.
    """
    with torch.no_grad():
        plain: torch.export.ExportedProgram = cast("Any", program).run_decompositions(
            decompositions()
        )
    signature = plain.graph_signature
    changed = {*signature.buffers_to_mutate, *signature.user_inputs_to_mutate}
    if changed:
        raise UnsupportedError(f"it writes to {', '.join(sorted(changed))}: call .eval() first")
    known: dict[str, torch.Tensor] = {}
    states: dict[str, Any] = {**plain.state_dict, **plain.constants}
    for table in (
        signature.inputs_to_parameters,
        signature.inputs_to_buffers,
        signature.inputs_to_lifted_tensor_constants,
    ):
        known |= {placeholder: states[name] for placeholder, name in table.items()}
    return read_graph(plain.graph, known, keeps_layouts=False)
