"""Random graphs: themes of steps that simplify together, and arguments that show what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import strategies as st

from random_programs.choices import drawn
from random_programs.graph import UNKNOWN_INDICES, Graph, Shape, tensor
from random_programs.graph_hidden import through_dynamic
from random_programs.graph_steps import (
    arithmetic,
    collapse,
    copy,
    elementwise,
    expand,
    extract,
    extract_slice,
    from_elements,
    insert_slice,
    pad,
    reduce_rows,
    refill,
    rounding,
    transpose,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from random_programs.choices import Choices


THEMES: tuple[tuple[Callable[[Graph], None], ...], ...] = (
    (extract_slice, insert_slice),
    (extract_slice, insert_slice, pad),
    (collapse, expand),
    (transpose, copy),
    (pad, refill),
    (elementwise, reduce_rows),
    (through_dynamic, through_dynamic, extract_slice, collapse),
    (extract, from_elements, arithmetic, rounding),
)
"""Steps that simplify together, so that often several of one theme follow each other."""


def random_graph(choices: Choices, max_steps: int = 8) -> tuple[str, tuple[np.ndarray, ...]]:
    """The text of a module with one function `main`, and arguments for it."""
    graph = Graph(choices)
    graph.new_tensor(graph.shape())
    theme = THEMES[0]
    for _ in range(1 + graph.below(max_steps)):
        if graph.below(3) == 0:
            theme = THEMES[graph.below(len(THEMES))]
        theme[graph.below(len(theme))](graph)
    results = graph.tensors[-3:]
    kinds = ", ".join(tensor(shape) for _, shape in results)
    constants = [f"  %c{i} = arith.constant {i} : index\n" for i in range(UNKNOWN_INDICES)]
    parameters = ["%x: f32"]
    parameters += [f"%n{i}: index" for i in range(UNKNOWN_INDICES)]
    parameters += [f"{name}: {tensor(shape)}" for name, shape in graph.arguments]
    text = (
        f"func.func @main({', '.join(parameters)}) -> ({kinds}) {{\n{''.join(constants)}"
        + "\n".join(graph.lines)
        + f"\n  return {', '.join(name for name, _ in results)} : {kinds}\n}}\n"
    )
    return text, arguments(graph, choices.below(1 << 16))


@st.composite
def functions(draw: Callable[..., int], max_steps: int = 8) -> tuple[str, tuple[np.ndarray, ...]]:
    """As `random_graph`, for hypothesis."""
    return random_graph(drawn(draw), max_steps)


def arguments(graph: Graph, seed: int) -> tuple[np.ndarray, ...]:
    """Numbers that show a wrong sign of zero, a lost infinity or NaN, and a missing rounding."""
    rng = np.random.default_rng(seed)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 2049.0, 1 / 3], np.float32)

    def numbers(shape: Shape) -> np.ndarray:
        return rng.choice(special, size=shape).astype(np.float32)

    indices = [np.array(i, np.int64) for i in range(UNKNOWN_INDICES)]
    return (numbers(()), *indices, *(numbers(shape) for _, shape in graph.arguments))
