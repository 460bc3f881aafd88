"""Random chains of convolutions along frames: fused or not, what the reference computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.api.compile import compile as compile_module
from convir.dialects.context import read_module
from convir.passes import run
from convir.reference import evaluate, find_function

if TYPE_CHECKING:
    from xdsl.dialects.builtin import TensorType
    from xdsl.ir import Attribute

BORDER = 7
"""Frames of a window before the block."""
ACTIVATIONS = ("math.tanh", "math.exp", "math.absf")
KINDS = ("conv", "taps", "bias", "backwards", "nothing", "function", "sum", "half", "return")


@dataclass
class Graph:
    """A function on planar tensors that grows op by op."""

    frames: int
    items: int
    arguments: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    values: dict[str, int] = field(default_factory=dict[str, int])
    """Planar values of all frames, and their channels."""
    returned: dict[str, str] = field(default_factory=dict[str, str])

    def planar(self, channels: int, frames: int | None = None) -> str:
        return f"tensor<{self.items}x{channels}x{frames or self.frames}xf32>"

    def argument(self, kind: str) -> str:
        name = f"%a{len(self.arguments)}"
        self.arguments.append(f"{name}: {kind}")
        return name

    def emit(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def convolution(self, source: str, size: tuple[int, int, int, int], reach: int) -> str:
        """Groups, depth, columns and taps; the source has frames for all of them."""
        groups, depth, columns, taps = size
        channels, seen = groups * columns, self.frames + reach * (taps - 1)
        kind = self.planar(channels)
        w = f"tensor<{channels}x{depth}x{taps}xf32>"
        weights = self.argument(w)
        empty = self.emit(f"tensor.empty() : {kind}")
        zeros = self.emit(f"linalg.fill ins(%zero : f32) outs({empty} : {kind}) -> {kind}")
        x = self.planar(groups * depth, seen)
        result = self.emit(
            f"conv.fprop layouts(NCW, KCS, NCW) dilations({reach}) groups({groups}) "
            f"ins({source}, {weights} : {x}, {w}) outs({zeros} : {kind})"
        )
        self.values[result] = channels
        return result

    def remembered(self, source: str, taps: int, reach: int) -> str:
        """The frames of `source` behind those of a window, which is returned."""
        channels, room = self.values[source], BORDER + reach * (taps - 1) + self.frames
        before = room - self.frames
        window = self.argument(self.planar(channels, room))
        whole, part = self.planar(channels, room), self.planar(channels)
        sizes = f"[{self.items}, {channels}, {self.frames}] [1, 1, 1]"
        seen = self.emit(
            f"tensor.insert_slice {source} into {window}[0, 0, {before}] {sizes} : "
            f"{part} into {whole}"
        )
        self.returned[seen] = whole
        frames = reach * (taps - 1) + self.frames
        read = self.planar(channels, frames)
        return self.emit(
            f"tensor.extract_slice {seen}[0, 0, {before - reach * (taps - 1)}] "
            f"[{self.items}, {channels}, {frames}] [1, 1, 1] : {whole} to {read}"
        )

    def biased(self, source: str) -> str:
        channels = self.values[source]
        kind, column = self.planar(channels), f"tensor<{channels}xf32>"
        bias = self.argument(column)
        empty = self.emit(f"tensor.empty() : {kind}")
        maps = ", ".join(
            f"affine_map<(n, c, t) -> ({index})>" for index in ("n, c, t", "c", "n, c, t")
        )
        result = self.emit(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = "
            f'["parallel", "parallel", "parallel"]}} ins({source}, {bias} : {kind}, {column}) '
            f"outs({empty} : {kind}) {{\n  ^bb0(%l: f32, %r: f32, %o: f32):\n"
            f"    %s = arith.addf %l, %r : f32\n    linalg.yield %s : f32\n  }} -> {kind}"
        )
        self.values[result] = channels
        return result

    def backwards(self, source: str) -> str:
        """The frames of `source` in reverse, which are read inside of a region."""
        kind = self.planar(self.values[source])
        empty = self.emit(f"tensor.empty() : {kind}")
        last = self.emit(f"arith.constant {self.frames - 1} : index")
        result = self.emit(
            "linalg.generic {indexing_maps = [affine_map<(n, c, t) -> (n, c, t)>], "
            'iterator_types = ["parallel", "parallel", "parallel"]} '
            f"outs({empty} : {kind}) {{\n  ^bb0(%o: f32):\n"
            + "".join(f"    %i{d} = linalg.index {d} : index\n" for d in range(3))
            + f"    %r = arith.subi {last}, %i2 : index\n"
            f"    %s = tensor.extract {source}[%i0, %i1, %r] : {kind}\n"
            f"    linalg.yield %s : f32\n  }} -> {kind}"
        )
        self.values[result] = self.values[source]
        return result

    def nothing(self, source: str) -> str:
        """Zeros, behind no frames of `source`."""
        channels = self.values[source]
        kind = self.planar(channels)
        none = f"tensor<{self.items}x{channels}x0xf32>"
        part = self.emit(
            f"tensor.extract_slice {source}[0, 0, {self.frames}] [{self.items}, {channels}, 0] "
            f"[1, 1, 1] : {kind} to {none}"
        )
        result = self.emit(
            f"tensor.pad {part} low[0, 0, 0] high[0, 0, {self.frames}] {{\n"
            "  ^bb0(%n: index, %c: index, %t: index):\n    tensor.yield %zero : f32\n"
            f"  }} : {none} to {kind}"
        )
        self.values[result] = channels
        return result

    def text(self) -> str:
        kinds = ", ".join(self.returned.values())
        head = f"func.func @main({', '.join(self.arguments)}) -> ({kinds}) {{\n"
        body = "\n".join(["  %zero = arith.constant 0.0 : f32", *self.lines])
        return f"{head}{body}\n  return {', '.join(self.returned)} : {kinds}\n}}\n"


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Some layers, each on any value that there is."""
    graph = Graph(draw(st.sampled_from((5, 16, 40, 64))), draw(st.integers(1, 2)))
    channels = draw(st.sampled_from((1, 2, 4, 6)))
    graph.values[graph.argument(graph.planar(channels))] = channels
    for _ in range(draw(st.integers(1, 8))):
        source = draw(st.sampled_from(sorted(graph.values)))
        channels = graph.values[source]
        kind = graph.planar(channels)
        match draw(st.sampled_from(KINDS)):
            case "conv" | "taps" as which:
                groups = draw(st.sampled_from([g for g in (1, 2, 3, 6) if channels % g == 0]))
                taps = 1 if which == "conv" else draw(st.integers(2, 3))
                reach = draw(st.integers(1, 4))
                size = (groups, channels // groups, draw(st.integers(1, 4)), taps)
                seen = source if taps == 1 else graph.remembered(source, taps, reach)
                graph.convolution(seen, size, reach)
            case "bias":
                graph.biased(source)
            case "backwards":
                graph.backwards(source)
            case "nothing":
                graph.nothing(source)
            case "function":
                name = draw(st.sampled_from(ACTIVATIONS))
                small = source
                if name == "math.exp":
                    small = graph.emit(f"math.tanh {source} : {kind}")
                graph.values[graph.emit(f"{name} {small} : {kind}")] = channels
            case "sum":
                other = draw(st.sampled_from([v for v, c in graph.values.items() if c == channels]))
                op = draw(st.sampled_from(("addf", "mulf", "subf", "maximumf")))
                tamed = graph.emit(f"math.tanh {other} : {kind}") if op == "mulf" else other
                graph.values[graph.emit(f"arith.{op} {source}, {tamed} : {kind}")] = channels
            case "half" if channels % 2 == 0:
                half = channels // 2
                part = graph.emit(
                    f"tensor.extract_slice {source}[0, {draw(st.sampled_from((0, half)))}, 0] "
                    f"[{graph.items}, {half}, {graph.frames}] [1, 1, 1] : {kind} to "
                    f"{graph.planar(half)}"
                )
                graph.values[part] = half
            case _:
                graph.returned[source] = kind
    last = list(graph.values)[-1]
    graph.convolution(last, (1, graph.values[last], 2, 1), 1)
    last = list(graph.values)[-1]
    graph.returned[last] = graph.planar(graph.values[last])
    graph.returned = {v: k for v, k in graph.returned.items() if v.startswith("%v")}
    return graph


@given(graph=graphs(), seed=st.integers(0, 99))
@settings(max_examples=120, deadline=None)
def test_random_graphs(graph: Graph, seed: int) -> None:
    """As the reference computes them, within the rounding of a chain of sums in f32."""
    module = read_module(graph.text(), "graph.mlir")
    numbers = np.random.default_rng(seed)
    kinds = [
        cast("TensorType[Attribute]", kind)
        for kind in find_function(module, "main").function_type.inputs
    ]
    arguments = [numbers.uniform(-1, 1, kind.get_shape()).astype(np.float32) for kind in kinds]
    expected = evaluate(module, "main", arguments)
    compiled = compile_module(run(module, "default").module, device="host")
    given: Any = compiled(*arguments)
    results = cast("tuple[Any, ...]", given) if isinstance(given, tuple) else (given,)
    for result, wanted in zip(results, expected, strict=True):
        scale = max(1.0, float(np.abs(wanted).max()))
        assert np.abs(result - wanted).max() <= 1e-5 * scale


def test_a_layer_is_one_kernel() -> None:
    """Taps, bias, activation, 1x1 and residual, up to the window of the next layer."""
    graph = Graph(64, 1)
    x = graph.argument(graph.planar(4))
    graph.values[x] = 4
    for _ in range(2):
        seen = graph.remembered(x, 3, 2)
        z = graph.biased(graph.convolution(seen, (1, 4, 4, 3), 2))
        z = graph.emit(f"math.tanh {z} : {graph.planar(4)}")
        y = graph.convolution(z, (2, 2, 2, 1), 1)
        x = graph.emit(f"arith.addf {x}, {y} : {graph.planar(4)}")
        graph.values[x] = 4
    graph.returned[x] = graph.planar(4)
    compiled = compile_module(read_module(graph.text(), "graph.mlir"), device="host")
    assert compiled.program.summary("host").count("planar") == 2
