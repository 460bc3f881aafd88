"""Random kernels: tensor ops of every kind on top of each other, with values that stay exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from random_programs.choices import drawn
from random_programs.elements import compare, convert, pointwise
from random_programs.function import RandomFunction
from random_programs.moves import (
    broadcast,
    collapse,
    concat,
    expand,
    extract_slice,
    insert_slice,
    pad,
    transpose,
)
from random_programs.nests import gather, reduce

if TYPE_CHECKING:
    from collections.abc import Callable

    from random_programs.choices import Choices

VECTOR_SIZES = (1, 2, 3, 4, 6, 8, 16)
"""Sizes of dimensions that vectors of 2 to 16 elements divide, and others between them."""
MAX_VECTOR_ELEMENTS = 512
"""Sums of so many values between -2 and 2 are exact in bf16 unless most have the same sign."""

STEPS = (
    pointwise,
    convert,
    compare,
    transpose,
    broadcast,
    extract_slice,
    insert_slice,
    pad,
    collapse,
    expand,
    concat,
    reduce,
    gather,
)


def random_kernel(choices: Choices, *, vectors: bool = False) -> RandomFunction:
    """Up to eight ops on up to three inputs, with one or two results.

    With `vectors`, its rows are long enough for accesses of 16 bytes.
    """
    k = RandomFunction(choices)
    if vectors:
        k.sizes, k.max_elements = VECTOR_SIZES, MAX_VECTOR_ELEMENTS
    for _ in range(choices.integer(1, 3)):
        k.add_input()
    for _ in range(choices.integer(1, 8)):
        value = choices.pick(k.values)
        choices.pick(STEPS)(k, value)
    k.finish()
    return k


@st.composite
def random_kernels(draw: Callable[[Any], Any], *, vectors: bool = False) -> RandomFunction:
    """As `random_kernel`, for hypothesis."""
    return random_kernel(drawn(draw), vectors=vectors)
