"""PyTorch's convolutions as a peer: on the CPU oneDNN's, on a GPU cuDNN's."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.dialects.conv.geometry import Direction
from convir.reference.dtypes import BFLOAT16
from convir.runtime.bench.candidate import Candidate, Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from convir.dialects.conv.geometry import Role
    from convir.dialects.conv.problem import ConvProblem
    from convir.runtime.program import Array

_CHANNELS_LAST_RANKS = {2: "channels_last", 3: "channels_last_3d"}


def torch_candidates(
    backend: str,
    problem: ConvProblem,
    inputs: Sequence[Any],
    device: str,
    prepare: Callable[[Any], Any] | None = None,
) -> list[Candidate | Failed]:
    """PyTorch on `problem` in channels-first and, where it has one, channels-last memory.

    Args:
        backend: the name that the rows carry.
        problem: what to compute.
        inputs: the operands in the problem's layouts: NumPy arrays, or PyTorch tensors.
        device: PyTorch's name of the device.
        prepare: turns the function that computes a result into what is called; a CUDA graph of
            it, for example.
    """
    torch = import_module("torch")
    geometry = problem.geometry
    if geometry.pad_low != geometry.pad_high:
        return [Failed(backend, "-", "PyTorch has no asymmetric padding")]
    roles = problem.direction.roles
    tensors = {
        role: _canonical(torch, problem, role, array).to(device)
        for role, array in zip(roles, inputs, strict=False)
    }
    formats = [("NCHW", torch.contiguous_format)]
    if len(problem.spatial) in _CHANNELS_LAST_RANKS:
        name = _CHANNELS_LAST_RANKS[len(problem.spatial)]
        formats.append(("NHWC", getattr(torch, name)))
    return [
        _candidate(torch, backend, problem, tensors, layout, memory_format, prepare)
        for layout, memory_format in formats
    ]


def _candidate(
    torch: Any,
    backend: str,
    problem: ConvProblem,
    tensors: dict[str, Any],
    layout: str,
    memory_format: Any,
    prepare: Callable[[Any], Any] | None,
) -> Candidate | Failed:
    arranged = {
        role: tensor.contiguous(memory_format=memory_format) for role, tensor in tensors.items()
    }
    compute = _call(torch, problem, arranged)
    results: list[Any] = [None]

    try:
        with torch.no_grad():
            compute()
            if prepare is not None:
                compute = prepare(compute)
            results[0] = compute()
    except RuntimeError as error:
        return Failed(backend, layout, str(error).splitlines()[0])

    def call() -> None:
        results[0] = compute()

    def poison() -> None:
        # The next call takes its memory from what was freed last.
        results[0].fill_(float("nan"))
        results[0] = None

    def result() -> Any:
        return _to_ours(problem, results[0])

    return Candidate(backend, layout, torch.__version__, call, result, poison)


def _call(torch: Any, problem: ConvProblem, tensors: dict[str, Any]) -> Callable[[], Any]:
    geometry = problem.geometry
    spatial = (geometry.strides, geometry.pad_low, geometry.dilations)
    rank, groups = len(problem.spatial), geometry.groups
    strides, pads, dilations = (list(values) for values in spatial)
    if problem.direction is Direction.FPROP:
        x, w = tensors["input"], tensors["filter"]
        convolution = torch.ops.aten.convolution
        return lambda: convolution(x, w, None, strides, pads, dilations, False, [0] * rank, groups)
    backward = torch.ops.aten.convolution_backward
    dy = tensors["output"]
    if problem.direction is Direction.DGRAD:
        w = tensors["filter"]
        x = torch.empty(
            (problem.n, problem.c, *problem.spatial), dtype=dy.dtype, device=dy.device
        ).contiguous(memory_format=_format_of(torch, dy))
        mask, position = [True, False, False], 0
    else:
        x = tensors["input"]
        w = torch.empty(
            (problem.k, problem.c // groups, *problem.taps), dtype=dy.dtype, device=dy.device
        ).contiguous(memory_format=_format_of(torch, dy))
        mask, position = [False, True, False], 1
    return lambda: backward(
        dy, x, w, None, strides, pads, dilations, False, [0] * rank, groups, mask
    )[position]


def _format_of(torch: Any, tensor: Any) -> Any:
    name = _CHANNELS_LAST_RANKS.get(tensor.dim() - 2)
    if name is not None and tensor.is_contiguous(memory_format=getattr(torch, name)):
        return getattr(torch, name)
    return torch.contiguous_format


def _canonical(torch: Any, problem: ConvProblem, role: Role, array: Any) -> Any:
    """The operand as a tensor with the axes N C spatial, or K C spatial."""
    order = problem.axes(role)
    if isinstance(array, torch.Tensor):
        return array.permute(order)
    if array.dtype == BFLOAT16:
        raw = torch.from_numpy(np.ascontiguousarray(array).view(np.int16))
        return raw.view(torch.bfloat16).permute(order)
    return torch.from_numpy(np.ascontiguousarray(array)).permute(order)


def _to_ours(problem: ConvProblem, tensor: Any) -> Any:
    """A result as a tensor in the problem's layout."""
    order = problem.axes(problem.direction.roles[2])
    return tensor.permute([order.index(axis) for axis in range(len(order))])


def numpy_of(tensor: Any) -> Array:
    """A tensor of the CPU as an array, bf16 included."""
    torch: Any = import_module("torch")
    dense = tensor.contiguous()
    if dense.dtype == torch.bfloat16:
        return dense.view(torch.int16).numpy().view(BFLOAT16)
    return dense.numpy()
