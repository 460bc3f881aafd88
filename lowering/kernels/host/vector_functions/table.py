"""The functions by the ops whose meaning they have, as instructions and as LLVM functions."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from convir.lowering.kernels.host.code.builder import Function, Value
from convir.lowering.kernels.host.vector_functions import (
    error_function,
    exponential,
    logarithm,
    trigonometry,
)
from convir.lowering.kernels.host.vector_functions.term import Term

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from convir.lowering.kernels.host.target import CpuTarget

FUNCTIONS: Mapping[str, Callable[..., Term]] = {
    "math.cos": trigonometry.cos,
    "math.erf": error_function.erf,
    "math.exp": exponential.exp,
    "math.log": logarithm.log,
    "math.log1p": logarithm.log1p,
    "math.powf": logarithm.power,
    "math.sin": trigonometry.sin,
    "math.tanh": exponential.tanh,
    "gelu": error_function.gelu,
    "gelu_to_bf16": error_function.gelu_to_bf16,
    "gelu_tanh": exponential.gelu_tanh,
    "mish": exponential.mish,
    "sigmoid": exponential.sigmoid,
    "silu": exponential.silu,
    "softplus": logarithm.softplus,
}
"""Of f32 or vectors of f32; those of no op are found by `activations.py`."""


_BY_SCALING: Mapping[str, Callable[..., Term]] = {"math.exp": exponential.exp_by_scaling}
"""Of `FUNCTIONS`, on CPUs with vectors of 512 bits."""
_SCALING_BITS = 512
_UNFUSED: Mapping[str, Callable[..., Term]] = {"math.tanh": exponential.tanh_by_magnitude}
"""Of `FUNCTIONS`, on CPUs without fused multiply-adds."""


def write(f: Function, name: str, operands: Sequence[Value], cpu: CpuTarget) -> Value:
    """Append the instructions of a function, of operands of one type."""
    function = FUNCTIONS[name]
    if cpu.vector_bits == _SCALING_BITS:
        function = _BY_SCALING.get(name, function)
    if not cpu.fma:
        function = _UNFUSED.get(name, function)
    return function(*(Term(f, operand) for operand in operands)).value


def write_exp_of_negative(f: Function, operand: Value, cpu: CpuTarget) -> Value:
    """Append the instructions of e to the power of an f32 that is not positive."""
    if cpu.vector_bits == _SCALING_BITS:
        return exponential.exp_of_negative_by_scaling(Term(f, operand)).value
    return exponential.exp_of_negative(Term(f, operand)).value


_PREFIX = "vector.function."
"""No name of the C library has a dot."""


def symbol(name: str) -> str:
    """What a function is called in LLVM assembly."""
    return _PREFIX + name


def with_definitions(ir: str, cpu: CpuTarget) -> str:
    """LLVM assembly with the functions that it declares: of one f32 each, to be inlined.

    A loop that calls them is vectorized like one of plain arithmetic.
    """
    names = [name for name in FUNCTIONS if f'@"{symbol(name)}"' in ir]
    if not names:
        return ir
    lines = [line for line in ir.splitlines() if not line.startswith(_DECLARATION)]
    known = {_name_of(line) for line in lines if line.startswith("declare ")}
    lines = _interleaved(lines, _TURNS_OF if cpu.vector_bits == _SCALING_BITS else {})
    functions = [_definition(name, cpu) for name in names]
    wanted = sorted({line for function in functions for line in function.intrinsics})
    lines += [function.text() for function in functions]
    lines += [line for line in wanted if _name_of(line) not in known]
    return "\n".join(lines) + "\n"


def _interleaved(lines: list[str], turns_of: Mapping[str, int]) -> list[str]:
    """The lines, with a hint about the loops whose body, one block, calls a function.

    The steps of a function wait for one another. LLVM sees no reason to take turns with those of
    other vectors; a processor looks too few instructions ahead to find all of them on its own.
    """
    bounds: dict[str, int] = {}
    label, turns = "", 0
    found: dict[str, int] = {}
    for line in lines:
        if line.endswith(":"):
            label, turns = line[:-1], 0
        if (call := _CALL.search(line)) is not None and not line.startswith("define"):
            wanted = turns_of.get(call["name"], _TURNS)
            turns = min(turns or wanted, wanted)
        if (bound := _BOUND.search(line)) is not None:
            bounds[label] = int(bound["bound"])
        back = _BRANCH.fullmatch(line)
        if back is not None and turns > 1 and _is_whole(bounds.get(back["label"], 1), turns):
            found[back["node"]] = turns
        if line.startswith("define"):
            bounds.clear()
    hinted: list[str] = []
    for line in lines:
        node = line.partition(" = distinct ")[0]
        hinted.append(f"{line[:-1]}, {_hint(found[node])}}}" if node in found else line)
    hints = [
        f'{_hint(turns)} = !{{!"llvm.loop.interleave.count", i32 {turns}}}'
        for turns in sorted(set(found.values()))
    ]
    return [*hinted, *hints]


def _is_whole(count: int, turns: int) -> bool:
    """Whether of so many iterations none, or next to none, are left over."""
    return count % (turns * _LANES) == 0 or count >= _MANY


def _hint(turns: int) -> str:
    """The node of a hint among an assembly's metadata."""
    return f"!{1000 + turns}"


_CALL = re.compile(rf'@"{re.escape(_PREFIX)}(?P<name>[^"]+)"')
_BRANCH = re.compile(r' *br label %"?(?P<label>[^",]+)"?, !llvm.loop (?P<node>!\d+)')
_BOUND = re.compile(r"= icmp slt i64 \S+, (?P<bound>\d+)$")
_TURNS = 4
"""Vectors of which the steps alternate: of functions that divide, which waits longest."""
_TURNS_OF = {
    **dict.fromkeys(("math.exp", "math.log", "math.log1p"), 2),
    **dict.fromkeys(("math.erf", "math.sin", "math.cos", "math.powf"), 1),
}
"""Of others with vectors of 512 bits: fewer where constants need registers, or steps do not wait
for each other."""
_LANES = 16
"""How long vectors are at most."""
_MANY = 1 << 12
"""Iterations of which some may be left over."""
_DECLARATION = f'declare float @"{_PREFIX}'


def _name_of(declaration: str) -> str:
    return declaration[declaration.index("@") + 1 : declaration.index("(")].strip('"')


@cache
def _definition(name: str, cpu: CpuTarget) -> Function:
    count = 2 if name == "math.powf" else 1
    parameters = tuple(("float", f"x{number}") for number in range(count))
    f = Function(f'"{symbol(name)}"', parameters, attributes=" alwaysinline")
    f.result = write(f, name, [f.argument(parameter) for _, parameter in parameters], cpu)
    return f
