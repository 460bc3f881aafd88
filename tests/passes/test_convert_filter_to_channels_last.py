"""Convolutions before and after a transposition of their filter, in every layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.dialects.context import read_module
from convir.passes import run
from convir.reference import evaluate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp

PASS = "convert-filter-to-channels-last"

SIZES = {"n": 2, "p": 4, "q": 3, "g": 3, "f": 5, "r": 3, "s": 2, "c": 4}
LOOPS = {name: f"d{number}" for number, name in enumerate(SIZES)}
PARALLEL = "npqgf"


@dataclass(frozen=True)
class Layouts:
    """The order of the dimensions of each operand, outermost first."""

    image: str = "nhwgc"
    weights: str = "gcrsf"
    result: str = "npqgf"
    stride: int = 1
    dilation: int = 1
    weights_first: bool = False
    element: str = "f32"

    @property
    def index(self) -> dict[str, str]:
        return {
            **LOOPS,
            "h": f"{self.stride} * {LOOPS['p']} + {self.dilation} * {LOOPS['r']}",
            "w": f"{self.stride} * {LOOPS['q']} + {self.dilation} * {LOOPS['s']}",
        }

    @property
    def sizes(self) -> dict[str, int]:
        return {
            **SIZES,
            "h": (SIZES["p"] - 1) * self.stride + (SIZES["r"] - 1) * self.dilation + 1,
            "w": (SIZES["q"] - 1) * self.stride + (SIZES["s"] - 1) * self.dilation + 1,
        }

    def shape(self, layout: str) -> tuple[int, ...]:
        return tuple(self.sizes[dim] for dim in layout)

    def tensor(self, layout: str, element: str) -> str:
        return f"tensor<{'x'.join(map(str, self.shape(layout)))}x{element}>"

    def text(self) -> str:
        x, w = self.tensor(self.image, self.element), self.tensor(self.weights, self.element)
        y = self.tensor(self.result, "f32")
        operands = [("%x", x, self.image), ("%w", w, self.weights)]
        if self.weights_first:
            operands.reverse()
        loops = ", ".join(LOOPS.values())
        maps = ", ".join(
            f"affine_map<({loops}) -> ({', '.join(self.index[dim] for dim in layout)})>"
            for layout in (operands[0][2], operands[1][2], self.result)
        )
        kinds = ", ".join('"parallel"' if name in PARALLEL else '"reduction"' for name in SIZES)
        cast = (
            ""
            if self.element == "f32"
            else (
                f"%a = arith.extf %a0 : {self.element} to f32\n"
                f"%b = arith.extf %b0 : {self.element} to f32\n"
            )
        )
        a, b = ("%a", "%b") if cast else ("%a0", "%b0")
        return f"""
        func.func @main(%x: {x}, %w: {w}, %y: {y}) -> {y} {{
          %r = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
              ins({operands[0][0]}, {operands[1][0]} : {operands[0][1]}, {operands[1][1]})
              outs(%y : {y}) {{
          ^bb0(%a0: {self.element}, %b0: {self.element}, %c: f32):
            {cast}
            %m = arith.mulf {a}, {b} : f32
            %s = arith.addf %c, %m : f32
            linalg.yield %s : f32
          }} -> {y}
          return %r : {y}
        }}"""

    def arguments(self) -> list[npt.NDArray[Any]]:
        rng = np.random.default_rng(0)
        dtype = np.dtype(np.float16 if self.element == "f16" else np.float32)
        return [
            rng.integers(-3, 4, self.shape(self.image)).astype(dtype),
            rng.integers(-3, 4, self.shape(self.weights)).astype(dtype),
            rng.integers(-3, 4, self.shape(self.result)).astype(np.float32),
        ]


def op_names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk()]


def permutations(letters: str) -> st.SearchStrategy[str]:
    return st.permutations(letters).map(_joined)


def _joined(letters: Sequence[str]) -> str:
    return "".join(letters)


layouts = st.builds(
    Layouts,
    image=permutations("nhwgc") | permutations("nhwg").map(lambda outer: outer + "c"),
    weights=permutations("gcrsf"),
    result=permutations("npqgf"),
    stride=st.integers(1, 2),
    dilation=st.integers(1, 2),
    weights_first=st.booleans(),
    element=st.sampled_from(["f32", "f16"]),
)


@settings(deadline=None)
@given(layouts, st.sampled_from(["fhwc", "hwfc"]))
def test_equal_in_every_element(case: Layouts, target: str) -> None:
    text, args = case.text(), case.arguments()
    after = run(text, f"{PASS}{{filter-layout={target}}}").module
    (expected,) = evaluate(read_module(text), "main", args)
    (actual,) = evaluate(after, "main", args)
    np.testing.assert_array_equal(actual, expected, strict=True)
    pays = case.image.endswith("c") and not case.weights.endswith("c")
    assert ("linalg.transpose" in op_names(after)) == pays


def test_idempotent() -> None:
    once = run(Layouts().text(), PASS).module
    twice = run(once, PASS)
    assert op_names(twice.module) == op_names(once)
    assert not any(remark.fired for remark in twice.remarks)
