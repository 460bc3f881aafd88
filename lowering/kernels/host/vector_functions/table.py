"""The functions by the ops whose meaning they have, as instructions and as LLVM functions."""

from __future__ import annotations

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
    "gelu_tanh": exponential.gelu_tanh,
    "mish": exponential.mish,
    "sigmoid": exponential.sigmoid,
    "silu": exponential.silu,
    "softplus": logarithm.softplus,
}
"""Of f32 or vectors of f32; those of no op are found by `activations.py`."""


def write(f: Function, name: str, operands: Sequence[Value]) -> Value:
    """Append the instructions of a function, of operands of one type."""
    return FUNCTIONS[name](*(Term(f, operand) for operand in operands)).value


_PREFIX = "vector.function."
"""No name of the C library has a dot."""


def symbol(name: str) -> str:
    """What a function is called in LLVM assembly."""
    return _PREFIX + name


def with_definitions(ir: str) -> str:
    """LLVM assembly with the functions that it declares: of one f32 each, to be inlined.

    A loop that calls them is vectorized like one of plain arithmetic.
    """
    names = [name for name in FUNCTIONS if f'@"{symbol(name)}"' in ir]
    if not names:
        return ir
    lines = [line for line in ir.splitlines() if not line.startswith(_DECLARATION)]
    known = {_name_of(line) for line in lines if line.startswith("declare ")}
    functions = [_definition(name) for name in names]
    wanted = sorted({line for function in functions for line in function.intrinsics})
    lines += [function.text() for function in functions]
    lines += [line for line in wanted if _name_of(line) not in known]
    return "\n".join(lines) + "\n"


_DECLARATION = f'declare float @"{_PREFIX}'


def _name_of(declaration: str) -> str:
    return declaration[declaration.index("@") + 1 : declaration.index("(")].strip('"')


@cache
def _definition(name: str) -> Function:
    count = 2 if name == "math.powf" else 1
    parameters = tuple(("float", f"x{number}") for number in range(count))
    f = Function(f'"{symbol(name)}"', parameters, attributes=" alwaysinline")
    f.result = write(f, name, [f.argument(parameter) for _, parameter in parameters])
    return f
