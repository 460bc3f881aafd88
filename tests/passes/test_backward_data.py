"""The pipeline `backward-data` on random scattered convolutions, executed before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from convir.dialects.context import read_module
from convir.passes import run
from convir.passes.convert_strided_insert_slice_to_generic.match import feeds_contraction
from convir.reference.checking.check import Checker

if TYPE_CHECKING:
    from collections.abc import Sequence

PARALLEL = "nghwf"
REDUCED = "rsc"
LOOPS = {name: f"d{number}" for number, name in enumerate(PARALLEL + REDUCED)}


@dataclass(frozen=True)
class BackwardData:
    """dX[n,h,w,g,f] += scattered dY[n, h + d r, w + d s, g, c] * W[g,f,r,s,c], in some layout."""

    stride: tuple[int, int] = (2, 2)
    taps: tuple[int, int] = (3, 3)
    source: tuple[int, int] = (3, 2)
    """P and Q."""
    offset: tuple[int, int] = (1, 1)
    tail: tuple[int, int] = (1, 0)
    dilation: int = 1
    groups: int = 2
    image: str = "npqgc"
    weights: str = "gfrsc"
    result: str = "nhwgf"
    element: str = "f32"
    fill: str = "constant"

    @property
    def sizes(self) -> dict[str, int]:
        padded = [
            max(
                offset + (size - 1) * stride + 1 + tail,
                (taps - 1) * self.dilation + 1,
            )
            for offset, size, stride, tail, taps in zip(
                self.offset, self.source, self.stride, self.tail, self.taps, strict=True
            )
        ]
        positions = [
            extent - (taps - 1) * self.dilation
            for extent, taps in zip(padded, self.taps, strict=True)
        ]
        return {
            "n": 2,
            "g": self.groups,
            "f": 3,
            "c": 4,
            "p": self.source[0],
            "q": self.source[1],
            "r": self.taps[0],
            "s": self.taps[1],
            "P": padded[0],
            "Q": padded[1],
            "h": positions[0],
            "w": positions[1],
        }

    def tensor(self, layout: str, element: str) -> str:
        sizes = "x".join(str(self.sizes[dim]) for dim in layout)
        return f"tensor<{sizes}x{element}>"

    def text(self) -> str:
        scattered = self.image.replace("p", "P").replace("q", "Q")
        source = self.tensor(self.image, self.element)
        padded = self.tensor(scattered, self.element)
        weights = self.tensor(self.weights, self.element)
        result = self.tensor(self.result, "f32")
        offsets = {"p": self.offset[0], "q": self.offset[1]}
        strides = {"p": self.stride[0], "q": self.stride[1]}
        slices = (
            [str(offsets.get(dim, 0)) for dim in self.image],
            [str(self.sizes[dim]) for dim in self.image],
            [str(strides.get(dim, 1)) for dim in self.image],
        )
        index = {
            **LOOPS,
            "P": f"{LOOPS['h']} + {self.dilation} * {LOOPS['r']}",
            "Q": f"{LOOPS['w']} + {self.dilation} * {LOOPS['s']}",
        }
        loops = ", ".join(LOOPS.values())
        maps = ", ".join(
            f"affine_map<({loops}) -> ({', '.join(index[dim] for dim in layout)})>"
            for layout in (scattered, self.weights, self.result)
        )
        kinds = ", ".join(['"parallel"'] * len(PARALLEL) + ['"reduction"'] * len(REDUCED))
        factors = ("%a", "%b")
        casts = ""
        if self.element != "f32":
            factors = ("%x", "%y")
            casts = (
                f"%x = arith.extf %a : {self.element} to f32\n"
                f"%y = arith.extf %b : {self.element} to f32"
            )
        return f"""
        func.func @main(%dy: {source}, %w: {weights}) -> {result} {{
          %zero = arith.constant 0.0 : f32
          {self.zeros(padded)}
          %scattered = tensor.insert_slice %dy into %zeros
              {"".join(f"[{', '.join(entries)}]" for entries in slices)} : {source} into {padded}
          %empty = tensor.empty() : {result}
          %init = linalg.fill ins(%zero : f32) outs(%empty : {result}) -> {result}
          %dx = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
              ins(%scattered, %w : {padded}, {weights}) outs(%init : {result}) {{
          ^bb0(%a: {self.element}, %b: {self.element}, %c: f32):
            {casts}
            %m = arith.mulf {factors[0]}, {factors[1]} : f32
            %s = arith.addf %c, %m : f32
            linalg.yield %s : f32
          }} -> {result}
          return %dx : {result}
        }}"""

    def zeros(self, padded: str) -> str:
        if self.fill == "constant":
            return f"%zeros = arith.constant dense<0.0> : {padded}"
        scalar = f"%z = arith.constant 0.0 : {self.element}"
        if self.fill == "splat":
            return f"{scalar}\n%zeros = tensor.splat %z : {padded}"
        return f"""{scalar}
          %e = tensor.empty() : {padded}
          %zeros = linalg.fill ins(%z : {self.element}) outs(%e : {padded}) -> {padded}"""


def joined(letters: Sequence[str]) -> str:
    return "".join(letters)


def pairs(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(low, high), st.integers(low, high))


convolutions = st.builds(
    BackwardData,
    stride=pairs(1, 3),
    taps=pairs(1, 3),
    source=pairs(1, 3),
    offset=pairs(0, 3),
    tail=pairs(0, 2),
    dilation=st.integers(1, 2),
    groups=st.integers(1, 2),
    image=st.permutations("npqgc").map(joined),
    weights=st.permutations("gfrsc").map(joined),
    result=st.permutations("nhwgf").map(joined),
    element=st.sampled_from(["f32", "f16", "bf16"]),
    fill=st.sampled_from(["constant", "splat", "fill"]),
)


@settings(deadline=None)
@given(convolutions)
def test_equal_in_every_element(convolution: BackwardData) -> None:
    before = read_module(convolution.text())
    checker = Checker(before)
    report = checker.check(run(before, "backward-data").module)
    assert report.checked, str(report)
    assert report.exact, str(report)
    assert report.passed, str(report)


def test_no_scatter_is_left_before_a_contraction() -> None:
    result = run(BackwardData().text(), "backward-data")
    stores = [op for op in result.module.walk() if op.name == "tensor.insert_slice"]
    assert len(stores) == 4
    assert not any(feeds_contraction(store.results[0]) for store in stores)
