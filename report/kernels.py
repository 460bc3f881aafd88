"""The kernels of a program: what each computes, by whom, and what that takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import FixedBitwidthType, TensorType

from convir.analysis.contraction import ContractionDims, contraction_dims
from convir.analysis.cost import Cost, cost_of
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured
from convir.lowering.implementations import CUDA, HOST, LOOPS, config_of
from convir.lowering.kernels.host.target import CpuTarget
from convir.report.candidates import Decision, decision_of
from convir.report.codes import Code
from convir.report.texts import origins_in

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from convir.dialects.kernel import ops as kernel
    from convir.report.roofs import Machine
    from convir.report.texts import Texts


@dataclass
class Kernel:
    """A function that launches call."""

    name: str
    operation: str
    """What it computes: `contraction 7x7, stride 2`, `pad`."""
    config: str
    element: str
    flops: int
    origins: tuple[str, ...]
    ir: list[int]
    decision: Decision
    codes: list[Code] = field(default_factory=list[Code])
    warps: dict[str, int] = field(default_factory=dict[str, int])
    """How many warps of a block are `producer` and `consumer`; empty without roles."""


def kernel_of(
    function: kernel.FuncOp, machine: Machine, constants: tuple[int, ...], texts: Texts
) -> Kernel:
    """What is known of a kernel without its code.

    Args:
        function: the kernel.
        machine: what it is for.
        constants: its arguments that are constants of the program.
        texts: takes its IR.
    """
    device = HOST if isinstance(machine, CpuTarget) else CUDA
    config = config_of(function, device) or LOOPS
    ops = list(function.body.block.ops)
    decision = decision_of(function, config, machine, constants)
    warps: dict[str, int] = {}
    if device == CUDA:
        # The host needs none of the kernel families.
        from convir.report.roles import warp_roles  # noqa: PLC0415

        warps = warp_roles(config)
    return Kernel(
        function.sym_name.data,
        operation_of(ops),
        config,
        decision.element or _element_of(ops),
        sum(map(cost_of, ops), Cost()).flops,
        origins_in(function),
        texts.of_op(function),
        decision,
        warps=warps,
    )


def operation_of(ops: list[Operation]) -> str:
    """What the ops of a kernel compute, in a few words."""
    dims = [found for op in ops if isinstance(found := contraction_dims(op), ContractionDims)]
    if dims:
        count = f"{len(dims)} contractions" if len(dims) > 1 else "contraction"
        rest = [op for op in ops if structured(op) is not None and _is_work(op)]
        behind = ops.index(dims[-1].op)
        fused = sum(1 for op in rest if ops.index(op) > behind)
        scattered = any(op.name == "tensor.insert_slice" for op in ops[behind:])
        parts = [f"{count} {_sizes(dims[0])}"]
        parts += [f"+ {fused} elementwise"] if fused else []
        parts += ["+ scatter"] if scattered else []
        return " ".join(parts)
    names = [op.name.partition(".")[2] for op in ops if _is_work(op)]
    named = [_generic(op) if op.name == "linalg.generic" else op.name for op in ops if _is_work(op)]
    shown = [name.removeprefix("linalg.").removeprefix("tensor.") for name in named]
    return ", ".join(dict.fromkeys(shown)) or ", ".join(dict.fromkeys(names)) or "nothing"


def _generic(op: Operation) -> str:
    view = structured(op)
    if view is None:
        return op.name
    kind = "reduction" if "reduction" in view.iterators else "elementwise"
    work = [each.name.partition(".")[2] for each in view.body.ops]
    named = [name for name in work if name not in ("yield", "constant")]
    return f"{kind} {'·'.join(dict.fromkeys(named))}" if named else "copy"


_FREE = ("tensor.empty", "arith.constant", "linalg.fill", "kernel.return", "kernel.yield")


def _is_work(op: Operation) -> bool:
    return op.name not in _FREE and not op.name.endswith("collapse_shape")


def _sizes(dims: ContractionDims) -> str:
    """`3x3 stride 2, M 196 N 256 K 2304`."""

    def size(loops: tuple[int, ...]) -> str:
        bounds = [dims.bounds[loop] for loop in loops]
        known = [bound for bound in bounds if bound is not None]
        return str(prod(known)) if len(known) == len(bounds) else "?"

    window = "x".join(str(dims.bounds[each.offset]) for each in dims.windows)
    strides = {each.stride for each in dims.windows} - {1}
    said = [window] if window else []
    said += [f"stride {max(strides)}"] if strides else []
    said += [f"batch {size(dims.batch)}"] if size(dims.batch) != "1" else []
    said.append(f"M {size(dims.m)} N {size(dims.n)} K {size(dims.k)}")
    return " ".join(said)


def _element_of(ops: list[Operation]) -> str:
    """The type that is multiplied, or else that of the widest result."""
    types: list[str] = []
    for op in ops:
        dims = contraction_dims(op)
        if not isinstance(dims, Refusal):
            operands = [_element(dims.lhs.value.type), _element(dims.rhs.value.type)]
            return max(operands, key=_bits)
        types += [_element(result.type) for result in op.results]
    return max(types, key=_bits, default="f32")


def _element(value_type: object) -> str:
    if not isinstance(value_type, TensorType):
        return ""
    element = cast("TensorType[FixedBitwidthType]", value_type).element_type
    return str(element)


def _bits(element: str) -> int:
    digits = "".join(filter(str.isdigit, element))
    return int(digits) if digits else 0
