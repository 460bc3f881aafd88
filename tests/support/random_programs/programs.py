"""Random modules of one function `main`, of every kind, with arguments for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamic_sizes import forget_sizes
from xdsl.dialects.func import FuncOp

from convir.dialects.context import new_context, read_module
from convir.passes.convert_conv_to_linalg.pass_ import ConvertConvToLinalgPass
from random_programs.arithmetic import choose, divide, relu, transcend
from random_programs.casts import Blur
from random_programs.contractions import contraction, scattered_contraction
from random_programs.convolutions import random_convolution
from random_programs.deep import deep
from random_programs.elements import pointwise
from random_programs.function import RandomFunction
from random_programs.graphs import random_graph
from random_programs.kernels import STEPS, random_kernel
from random_programs.loops import sample_loop
from random_programs.moves import collapse, expand, extract_slice, insert_slice, pad, transpose
from random_programs.named import named
from random_programs.nests import reduce
from random_programs.scatters import scatter

if TYPE_CHECKING:
    from collections.abc import Callable

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from random_programs.choices import Choices

CONTRACTED = ("f16", "bf16", "f32", "f32", "f64", "i8", "i16", "i32", "i64", "index")
WIDE_STEPS = (*STEPS, divide, transcend, choose, relu, scatter, contraction, named, sample_loop)


@dataclass(frozen=True)
class Program:
    """One random program."""

    kind: str
    text: str
    """A module with one function `main`."""
    arguments: tuple[Any, ...]
    """Of `main`, NumPy arrays."""


def _mixed(c: Choices) -> RandomFunction:
    """Ops of every kind on every type."""
    k = RandomFunction(c)
    for _ in range(c.integer(1, 3)):
        k.add_input()
    for _ in range(c.integer(1, 8)):
        c.pick(WIDE_STEPS)(k, c.pick(k.values))
    k.finish()
    return k


def _scattered(c: Choices) -> RandomFunction:
    """Scatters, views of them, a contraction, and ops after it."""
    k = RandomFunction(c, elements=(c.pick(CONTRACTED),), sizes=(1, 2, 3, 4), max_elements=100)
    value = k.input([c.pick(k.sizes) for _ in range(c.integer(2, 3))], k.elements[0])
    for _ in range(c.integer(1, 3)):
        c.pick(VIEWS)(k, value)
        value = k.values[-1] if k.values[-1].small else value
    scattered_contraction(k, value)
    for _ in range(c.below(4)):
        c.pick(AFTER)(k, k.values[-1])
    k.finish()
    return k


def _samples(c: Choices) -> RandomFunction:
    """Loops over samples."""
    k = RandomFunction(c, elements=(c.pick(CONTRACTED),), sizes=(1, 2, 3, 4))
    value = k.input([c.pick(k.sizes) for _ in range(c.integer(2, 3))], k.elements[0])
    for _ in range(c.integer(1, 2)):
        sample_loop(k, value)
    for _ in range(c.below(3)):
        c.pick(AFTER)(k, k.values[-1])
    k.finish()
    return k


VIEWS = (extract_slice, insert_slice, pad, collapse, expand, scatter)
AFTER = (relu, choose, pointwise, transpose, reduce, scatter)

KINDS: dict[str, tuple[Callable[[Choices], RandomFunction], int]] = {
    "scattered": (_scattered, 6),
    "mixed": (_mixed, 5),
    "kernel": (random_kernel, 1),
    "convolution": (random_convolution, 3),
    "samples": (_samples, 2),
    "deep": (deep, 1),
}
"""Each kind, and how many of twenty are of it; graphs are two."""
_TICKETS = [name for name, (_, count) in KINDS.items() for _ in range(count)] + ["graph"] * 2


def random_program(c: Choices, ctx: Context | None = None) -> Program:
    """A program of any kind; its sizes are static, open, or mixed."""
    ctx = new_context() if ctx is None else ctx
    kind = c.pick(_TICKETS)
    if kind == "graph":
        text, given = random_graph(c)
        arguments: list[Any] = list(given)
    else:
        function = KINDS[kind][0](c)
        text, arguments = function.text(), function.arguments(c.below(1 << 16))
    sizes = c.pick(("static", "static", "mixed", "mixed", "open"))
    if kind == "convolution" and c.below(2):
        module = read_module(text, "random.mlir", ctx)
        ConvertConvToLinalgPass().apply(ctx, module)
        text = str(module)
    if sizes == "static":
        return Program(kind, text, tuple(arguments))
    module = read_module(text, "random.mlir", ctx)
    if sizes == "mixed":
        Blur(c, _main(module), arguments, c.one_in(4)).apply()
    elif kind in ("graph", "convolution"):
        forget_sizes(module, c.below)
    return Program(kind, str(module), tuple(arguments))


def _main(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp))
