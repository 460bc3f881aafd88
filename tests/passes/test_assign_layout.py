"""Graphs of convolutions and what stands around them, before and after their layout is assigned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from convir.dialects.context import read_module
from convir.passes import run
from convir.reference import evaluate, find_function

MAP = "affine_map<(n, c, h, w) -> (n, c, h, w)>"
PARALLEL = ", ".join(['"parallel"'] * 4)
Step = tuple[str, int]


@dataclass
class Graph:
    """The text of a function on images N C H W, step by step."""

    n: int
    shape: tuple[int, int, int]
    arguments: list[str] = field(default_factory=list[str])
    lines: list[str] = field(default_factory=list[str])
    values: list[tuple[str, tuple[int, int, int]]] = field(
        default_factory=list[tuple[str, tuple[int, int, int]]]
    )

    def __post_init__(self) -> None:
        self.lines.append("%zero = arith.constant 0.0 : f32")
        self.values.append((self.argument(self.kind(self.shape)), self.shape))

    def kind(self, shape: tuple[int, ...]) -> str:
        return f"tensor<{self.n}x{'x'.join(map(str, shape))}xf32>"

    def argument(self, kind: str) -> str:
        self.arguments.append(f"%a{len(self.arguments)}: {kind}")
        return f"%a{len(self.arguments) - 1}"

    def name(self) -> str:
        return f"%v{len(self.lines)}"

    def add(self, text: str, shape: tuple[int, int, int]) -> None:
        name = self.name()
        self.lines.append(f"{name} = {text}")
        self.values.append((name, shape))

    def constant(self, kind: str, number: float = 0.0) -> str:
        name = self.name()
        self.lines.append(f"{name} = arith.constant dense<{number}> : {kind}")
        return name

    def step(self, step: Step) -> None:
        op, number = step
        value, shape = self.values[-1]
        c, h, w = shape
        kind = self.kind(shape)
        match op:
            case "conv":
                k, taps, stride = (4, 3, 5)[number % 3], (1, 3)[number % 2], 1 + (number % 5 == 0)
                pad = taps // 2
                sizes = [(size + 2 * pad - taps) // stride + 1 for size in (h, w)]
                out = (k, *sizes)
                filter_kind = f"tensor<{k}x{c}x{taps}x{taps}xf32>"
                weights, init = self.argument(filter_kind), self.constant(self.kind(out))
                self.add(
                    f"conv.fprop layouts(NCHW, KCRS, NCHW) strides({stride}, {stride}) "
                    f"padding({pad}, {pad}) ins({value}, {weights} : {kind}, {filter_kind}) "
                    f"outs({init} : {self.kind(out)})",
                    (out[0], out[1], out[2]),
                )
            case "transposed":
                out = (3, 2 * h, 2 * w)
                filter_kind = f"tensor<{c}x3x2x2xf32>"
                weights, init = self.argument(filter_kind), self.constant(self.kind(out))
                self.add(
                    "conv.dgrad layouts(NCHW, KCRS, NCHW) strides(2, 2) "
                    f"ins({value}, {weights} : {kind}, {filter_kind}) "
                    f"outs({init} : {self.kind(out)})",
                    out,
                )
            case "bias":
                bias = self.argument(f"tensor<{c}xf32>")
                self._generic(
                    value, bias, f"tensor<{c}xf32>", "affine_map<(n, c, h, w) -> (c)>", shape
                )
            case "relu":
                self.add(f"arith.maximumf {value}, {self.constant(kind)} : {kind}", shape)
            case "gate":
                other = self.argument(f"tensor<{self.n}x{c}x1x1xf32>")
                indexing = "affine_map<(n, c, h, w) -> (n, c, 0, 0)>"
                self._generic(value, other, f"tensor<{self.n}x{c}x1x1xf32>", indexing, shape)
            case "groups":
                self._less_group_sums(value, 2 - c % 2, shape)
            case "residual":
                same = [name for name, known in self.values if known == shape]
                self.add(f"arith.addf {value}, {same[number % len(same)]} : {kind}", shape)
            case "pad":
                out = (c, h + 1, w + 2)
                body = (
                    "^bb0(%i: index, %j: index, %k: index, %l: index):\n tensor.yield %zero : f32"
                )
                self.add(
                    f"tensor.pad {value} low[0, 0, 0, 2] high[0, 0, 1, 0] {{\n{body}\n}} : "
                    f"{kind} to {self.kind(out)}",
                    out,
                )
            case "slice":
                out = (c, h, -(-w // 2))
                numbers = f"[0, 0, 0, 0] [{self.n}, {c}, {h}, {out[2]}] [1, 1, 1, 2]"
                self.add(f"tensor.extract_slice {value}{numbers} : {kind} to {self.kind(out)}", out)
            case "joined":
                axis = (0, 0, 1, 2)[number % 4]
                others = [
                    (name, known)
                    for name, known in self.values
                    if all(known[i] == shape[i] for i in range(3) if i != axis)
                ]
                other, known = others[number % len(others)]
                sizes = [shape[i] + known[i] if i == axis else shape[i] for i in range(3)]
                out = (sizes[0], sizes[1], sizes[2])
                self.add(
                    f"tensor.concat dim({axis + 1}) {value}, {other} : "
                    f"({kind}, {self.kind(known)}) -> {self.kind(out)}",
                    out,
                )
            case _:
                out = (2 * c, h, w)
                into = self.constant(self.kind(out), 1.0)
                numbers = f"[0, {c}, 0, 0] [{self.n}, {c}, {h}, {w}] [1, 1, 1, 1]"
                self.add(
                    f"tensor.insert_slice {value} into {into}{numbers} : "
                    f"{kind} into {self.kind(out)}",
                    out,
                )

    def _generic(
        self, value: str, other: str, other_kind: str, indexing: str, shape: tuple[int, int, int]
    ) -> None:
        kind, name = self.kind(shape), self.name()[1:]
        init = self.constant(kind)
        self.add(
            f"linalg.generic {{indexing_maps = [{MAP}, {indexing}, {MAP}], "
            f"iterator_types = [{PARALLEL}]}} ins({value}, {other} : {kind}, {other_kind}) "
            f"outs({init} : {kind}) {{\n^bb0(%x{name}: f32, %y{name}: f32, %z{name}: f32):\n"
            f"%s{name} = arith.addf %x{name}, %y{name} : f32\nlinalg.yield %s{name} : f32\n"
            f"}} -> {kind}",
            shape,
        )

    def _less_group_sums(self, value: str, groups: int, shape: tuple[int, int, int]) -> None:
        """Each channel less what all elements of its group of channels come to."""
        c, h, w = shape
        apart = f"tensor<{self.n}x{groups}x{c // groups}x{h}x{w}xf32>"
        sums, split = f"tensor<{self.n}x{groups}xf32>", "[[0], [1, 2], [3], [4]]"
        whole = "affine_map<(n, g, c, h, w) -> (n, g, c, h, w)>"
        part = "affine_map<(n, g, c, h, w) -> (n, g)>"
        at = f"%g{len(self.lines)}"
        sizes = ", ".join(map(str, (self.n, groups, c // groups, h, w)))
        every = ", ".join(['"parallel"'] * 5)
        reduced = ", ".join(['"parallel"'] * 2 + ['"reduction"'] * 3)
        self.lines.append(f"""{at} = tensor.expand_shape {value} {split} output_shape [{sizes}]
            : {self.kind(shape)} into {apart}
          {at}_0 = arith.constant dense<0.0> : {sums}
          {at}_1 = linalg.generic {{indexing_maps = [{whole}, {part}],
            iterator_types = [{reduced}]}} ins({at} : {apart}) outs({at}_0 : {sums}) {{
          ^bb0(%x: f32, %t: f32):
            %s = arith.addf %t, %x : f32
            linalg.yield %s : f32
          }} -> {sums}
          {at}_2 = tensor.empty() : {apart}
          {at}_3 = linalg.generic {{indexing_maps = [{whole}, {part}, {whole}],
            iterator_types = [{every}]}} ins({at}, {at}_1 : {apart}, {sums})
            outs({at}_2 : {apart}) {{
          ^bb0(%x: f32, %t: f32, %o: f32):
            %s = arith.subf %x, %t : f32
            linalg.yield %s : f32
          }} -> {apart}""")
        self.add(f"tensor.collapse_shape {at}_3 {split} : {apart} into {self.kind(shape)}", shape)

    def text(self, returned: list[int]) -> str:
        picked = [self.values[number % len(self.values)] for number in returned]
        names = ", ".join(name for name, _ in picked)
        kinds = ", ".join(self.kind(shape) for _, shape in picked)
        body = "\n  ".join(self.lines)
        return (
            f"func.func @main({', '.join(self.arguments)}) -> ({kinds}) {{\n  {body}\n"
            f"  func.return {names} : {kinds}\n}}\n"
        )


OPS = (
    "conv",
    "conv",
    "conv",
    "transposed",
    "bias",
    "relu",
    "gate",
    "groups",
    "residual",
    "pad",
    "slice",
    "joined",
    "concat",
)


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 2),
    steps=st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 9)), min_size=1, max_size=8),
    returned=st.lists(st.integers(0, 20), max_size=1),
    layout=st.sampled_from(("channels-last", "channels-outermost")),
)
def test_graphs_compute_the_same(
    n: int, steps: list[Step], returned: list[int], layout: str
) -> None:
    graph = Graph(n, (2, 4, 5))
    for step in steps:
        graph.step(step)
    text = graph.text([len(graph.values) - 1, *returned])
    module = read_module(text)
    rng = np.random.default_rng(3)
    arrays = [
        np.asarray(rng.integers(-2, 3, cast("Any", kind).get_shape()), np.float32)
        for kind in find_function(module, "main").function_type.inputs
    ]
    expected = evaluate(module, "main", arrays)
    assigned = run(text, f"assign-layout{{layout={layout}}}").module
    for result, wanted in zip(evaluate(assigned, "main", arrays), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_a_network_is_transposed_at_its_edges_only() -> None:
    """Nothing inside of a chain of every op is transposed."""
    graph = Graph(1, (4, 8, 8))
    for number, op in enumerate(OPS * 2):
        graph.step((op, 2 * number + 1))
    assigned = str(run(graph.text([-1]), "assign-layout").module)
    images = 2 * OPS.count("gate") + 2  # the arguments of gates, the input, the result
    assert assigned.count("linalg.transpose") == images
    assert "layouts(NCHW" not in assigned
