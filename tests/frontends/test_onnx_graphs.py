"""Random graphs of operators in every float type: on the host, what onnxruntime computes.

onnxruntime computes in f32. Where the graph is of f16 or bf16, it rounds each node's result to it.
"""

from __future__ import annotations

from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx_cases import Array, model_of, node, onnxruntime_results, small_integers
from onnx_types import FLOAT_TYPES, in_type, rounding_after_each_node

from convir.api.compile import compile as convir_compile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

MAX_ELEMENTS = 20_000
TOLERANCE = 1e-4
"""Of the largest element: chains of sums in f32, in another order."""
STEPS_OFF = 2
"""How much further than when each element of each value is a step off."""


class Graph:
    """A graph that grows node by node, with the shapes that inference finds."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 99)))
        self.kind = FLOAT_TYPES[draw(st.sampled_from(sorted(FLOAT_TYPES)))]
        self.nodes: list[Any] = []
        self.constants: dict[str, Array] = {}
        spatial = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
        self.shape = (draw(st.integers(1, 2)), draw(st.sampled_from((1, 2, 3, 4, 8))), *spatial)
        self.shapes: dict[str, tuple[int, ...]] = {"x": self.shape}

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def many(self, count: int, *options: Any) -> list[Any]:
        return [self.pick(*options) for _ in range(count)]

    def constant(self, value: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def numbers(self, *shape: int) -> str:
        return self.constant(small_integers(self.rng, shape))

    def integers(self, values: Sequence[int]) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, inputs: Sequence[str], **attributes: Any) -> None:
        """Add a node, unless what it gives is empty, large, or not inferred."""
        onnx: Any = import_module("onnx")
        result = f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, [result], **attributes))
        try:
            model = onnx.shape_inference.infer_shapes(
                self.model([result]), strict_mode=True, data_prop=True
            )
        except onnx.shape_inference.InferenceError:
            self.nodes.pop()
            return
        dims = model.graph.output[0].type.tensor_type.shape.dim
        shape = tuple(dim.dim_value for dim in dims)
        if min(shape, default=1) > 0 and prod(shape) <= MAX_ELEMENTS:
            self.shapes[result] = shape
        else:
            self.nodes.pop()

    def model(self, outputs: Sequence[str]) -> Any:
        """The graph as a model whose outputs have any shape."""
        model = model_of(self.nodes, {"x": self.shape}, outputs, self.constants)
        for output in model.graph.output:
            output.type.tensor_type.ClearField("shape")
        return model

    @property
    def unused(self) -> list[str]:
        """Values that no node reads."""
        used = {name for one in self.nodes for name in one.input}
        return [name for name in self.shapes if name not in used and name != "x"]


def fits(spans: Sequence[int], sizes: Sequence[int], pads: Sequence[int]) -> bool:
    """Whether windows have a place in the padded sizes."""
    rank = len(sizes)
    padded = [size + pads[d] + pads[rank + d] for d, size in enumerate(sizes)]
    return all(span <= size for span, size in zip(spans, padded, strict=True))


def convolution(g: Graph, x: str) -> None:
    _, channels, *spatial = g.shapes[x]
    rank = len(spatial)
    groups = g.pick(1, 1, channels)
    taps = g.many(rank, 1, 2, 3)
    attributes: dict[str, Any] = {
        "group": groups,
        "strides": g.many(rank, 1, 2, 3),
        "dilations": g.many(rank, 1, 1, 2),
        "pads": g.many(2 * rank, 0, 1, 2),
    }
    columns = g.pick(1, 2, 4)
    spans = [(n - 1) * gap + 1 for n, gap in zip(taps, attributes["dilations"], strict=True)]
    if g.pick(True, False):
        if not fits(spans, spatial, attributes["pads"]):
            return
        inputs = [x, g.numbers(columns * groups, channels // groups, *taps)]
        g.add("Conv", [*inputs, g.numbers(columns * groups)], **attributes)
    else:
        g.add("ConvTranspose", [x, g.numbers(channels, columns, *taps)], **attributes)


def pool(g: Graph, x: str) -> None:
    spatial = g.shapes[x][2:]
    taps, strides = (g.many(len(spatial), 1, 2, 3) for _ in ("taps", "strides"))
    pads = 2 * [g.pick(0, 1) if size > 1 else 0 for size in taps]
    if fits(taps, spatial, pads):
        op = g.pick("MaxPool", "AveragePool")
        g.add(op, [x], kernel_shape=taps, strides=strides, pads=pads)


def resize(g: Graph, x: str) -> None:
    outer, spatial = g.shapes[x][:2], g.shapes[x][2:]
    sizes = g.integers([*outer, *(g.pick(size, 2 * size, size + 1, 3) for size in spatial)])
    attributes = {"mode": g.pick("nearest", "linear")}
    if attributes["mode"] == "nearest":
        attributes["nearest_mode"] = g.pick("floor", "ceil", "round_prefer_floor")
    mode = g.pick("half_pixel", "asymmetric", "align_corners")
    g.add("Resize", [x, "", "", sizes], coordinate_transformation_mode=mode, **attributes)


def batch_normalization(g: Graph, x: str) -> None:
    channels = g.shapes[x][1]
    variance = g.constant(1 + np.abs(small_integers(g.rng, [channels])))
    numbers = [g.numbers(channels) for _ in range(3)]
    g.add("BatchNormalization", [x, *numbers, variance])


def instance_normalization(g: Graph, x: str) -> None:
    channels = g.shapes[x][1]
    g.add("InstanceNormalization", [x, g.numbers(channels), g.numbers(channels)])


def response_normalization(g: Graph, x: str) -> None:
    if len(g.shapes[x]) != 4:  # onnxruntime takes no others.
        return
    g.add("LRN", [x], size=g.pick(1, 3, 5), alpha=0.5, beta=g.pick(0.75, 1.0), bias=2.0)


def pad(g: Graph, x: str) -> None:
    pads = [g.pick(0, 0, 1, 3, -1) for _ in range(2 * len(g.shapes[x]))]
    g.add("Pad", [x, g.integers(pads)], mode="constant")


def part(g: Graph, x: str) -> None:
    axis = g.draw(st.integers(0, len(g.shapes[x]) - 1))
    begin = g.draw(st.integers(0, g.shapes[x][axis] - 1))
    ends = [[begin], [g.pick(begin + 1, g.shapes[x][axis])], [axis], [g.pick(1, 2)]]
    g.add("Slice", [x, *map(g.integers, ends)])


def lookup(g: Graph, x: str) -> None:
    """Elements at constant indices, regular and not, from the start and from the end."""
    axis = g.draw(st.integers(0, len(g.shapes[x]) - 1))
    size = g.shapes[x][axis]
    indices = g.draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=4))
    g.add("Gather", [x, g.integers(indices)], axis=axis)


def reverse(g: Graph, x: str) -> None:
    axis = g.draw(st.integers(0, len(g.shapes[x]) - 1))
    ends = [[g.pick(-1, -2, 9)], [g.pick(-99, 0)], [axis], [g.pick(-1, -2)]]
    g.add("Slice", [x, *map(g.integers, ends)])


def expansion(g: Graph, x: str) -> None:
    sizes = [size if size > 1 else g.pick(1, 2, 3) for size in g.shapes[x]]
    g.add("Expand", [x, g.integers(sizes)])


def choice(g: Graph, x: str) -> None:
    """Where, of a constant condition, whose last dimension it has alone."""
    same = [name for name, shape in g.shapes.items() if shape == g.shapes[x]]
    condition = g.constant(g.rng.integers(0, 2, g.shapes[x][-1:]).astype(bool))
    g.add("Where", [condition, x, g.pick(*same)])


def function(g: Graph, x: str) -> None:
    functions = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "LeakyRelu", "Elu", "HardSwish")
    g.add(g.pick(*functions, "Softplus", "Selu"), [x])


def both(g: Graph, x: str) -> None:
    same = [name for name, shape in g.shapes.items() if shape == g.shapes[x]]
    others = g.many(g.pick(1, 2), *same)
    g.add(
        g.pick("Sum", "Mean", "Min") if len(others) > 1 else g.pick("Add", "Sub", "Max"),
        [x, *others],
    )


def concatenation(g: Graph, x: str) -> None:
    same = [name for name, shape in g.shapes.items() if shape == g.shapes[x]]
    g.add("Concat", [x, g.pick(*same)], axis=g.draw(st.integers(0, len(g.shapes[x]) - 1)))


def product(g: Graph, x: str) -> None:
    rows, depth = g.shapes[x][-2:]
    if len(g.shapes[x]) == 2 and g.pick(True, False):
        inputs = [x, g.numbers(3, depth)] + ([g.numbers(3)] if g.pick(True, False) else [])
        g.add("Gemm", inputs, transB=1, alpha=g.pick(1.0, 0.75), beta=g.pick(1.0, 3.0))
    elif g.pick(True, False):
        g.add("MatMul", [x, g.numbers(depth, g.pick(1, 3, 8))])
    else:
        g.add("MatMul", [g.numbers(g.pick(1, 3, 8), rows), x])


def row(g: Graph, x: str) -> None:
    """Reductions over the last axis."""
    op = g.pick("Softmax", "LogSoftmax", "LayerNormalization", "ReduceMean", "ReduceMax")
    if op == "LayerNormalization":
        g.add(op, [x, g.numbers(g.shapes[x][-1])], axis=-1)
    elif "Softmax" in op:
        g.add(op, [x], axis=-1)
    else:
        g.add(op, [x], axes=[-1], keepdims=g.pick(0, 1))


def shape(g: Graph, x: str) -> None:
    """The same elements in another shape, or in another order."""
    rank = len(g.shapes[x])
    match g.pick("Flatten", "Squeeze", "Unsqueeze", "Transpose"):
        case "Flatten":
            g.add("Reshape", [x, g.integers([-1])])
        case "Squeeze":
            ones = [axis for axis, size in enumerate(g.shapes[x]) if size == 1]
            g.add("Squeeze", [x, g.integers(ones)])
        case "Unsqueeze" if rank < 5:
            g.add("Unsqueeze", [x, g.integers([g.draw(st.integers(0, rank))])])
        case _:
            g.add("Transpose", [x], perm=g.draw(st.permutations(range(rank))))


OF_IMAGES: tuple[Callable[[Graph, str], None], ...] = (
    convolution, convolution, pool, resize, batch_normalization, instance_normalization,
    response_normalization,
)  # fmt: skip
OF_ANY: tuple[Callable[[Graph, str], None], ...] = (
    function,
    both,
    concatenation,
    part,
    pad,
    row,
    shape,
    lookup,
    reverse,
    expansion,
    choice,
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to eight nodes, each on any value that there is."""
    graph = Graph(draw)
    for _ in range(draw(st.integers(1, 8))):
        x = draw(st.sampled_from(sorted(graph.shapes)))
        rank = len(graph.shapes[x])
        kinds = (OF_IMAGES if rank in (3, 4, 5) else ()) + (OF_ANY if rank else ())
        kinds += (product,) if rank in (2, 3, 4) else ()
        if kinds:
            draw(st.sampled_from(kinds))(graph, x)
    assume(graph.nodes)
    return graph


def results_of(model: Any, path: Path, x: Array) -> list[Array]:
    """The outputs of our program on the host, in f64."""
    import_module("onnx").save(model, path)
    given: Any = convir_compile(path, device="host", shapes=[x.shape])(x)
    results: list[Array] = list(given) if isinstance(given, tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]
    return [result.astype(np.float64) for result in results]


def check_each_node(graph: Graph, x: Array, path: Path) -> None:
    """Each node's result, from what ours gave before it: rounded once."""
    kind = graph.kind
    names = [one.output[0] for one in graph.nodes]
    results = results_of(in_type(graph.model(names), kind.code, kind.dtype), path, x)
    values = {"x": x.astype(np.float64), **dict(zip(names, results, strict=True))}
    for one in graph.nodes:
        inputs = {name: {**values, **graph.constants}[name] for name in one.input if name}
        shapes = {
            name: array.shape for name, array in inputs.items() if name not in graph.constants
        }
        model = model_of([one], shapes, one.output, graph.constants)
        model = in_type(model, 1, kind.dtype, np.dtype(np.float32))
        feeds = {name: values[name].astype(np.float32) for name in shapes}
        (wanted,) = onnxruntime_results(model, feeds, optimized=False)
        finite = [np.abs(array[np.isfinite(array)]).max(initial=1.0) for array in inputs.values()]
        allowed = kind.rounding(wanted.astype(np.float64), float(np.prod(finite)))
        given = values[one.output[0]]
        rounded = wanted.astype(kind.dtype).astype(np.float64)
        is_equal = (given == rounded) | (np.isnan(given) & np.isnan(wanted))
        assert np.all(is_equal | (np.abs(given - wanted) <= allowed)), one


def expected(graph: Graph, x: Array) -> tuple[list[Array], list[float]]:
    """The outputs that nothing reads, and how far from them a result may be."""
    kind = graph.kind
    model = graph.model(graph.unused)
    feeds = {"x": x.astype(np.float32)}
    if not kind.is_narrow:
        outputs = onnxruntime_results(model, feeds)
        return outputs, [TOLERANCE * max(1.0, float(np.abs(array).max())) for array in outputs]
    rounding, *off = (
        onnxruntime_results(
            rounding_after_each_node(model, kind, graph.shapes, seed), feeds, optimized=False
        )
        for seed in (None, 1, 2)
    )
    assume(all(np.isfinite(array).all() for array in rounding))
    return rounding, [
        STEPS_OFF * max(float(np.abs(one[i] - array).max()) for one in off)
        + 2 * kind.half_ulp * float(np.abs(array).max())
        for i, array in enumerate(rounding)
    ]


@settings(max_examples=80, deadline=None)
@given(graph=graphs())
def test_random_graphs(graph: Graph, tmp_path_factory: Any) -> None:
    kind = graph.kind
    path: Path = tmp_path_factory.mktemp("graphs") / "graph.onnx"
    x = small_integers(graph.rng, graph.shape).astype(kind.dtype)
    if kind.is_narrow:
        check_each_node(graph, x, path)
    wanted, allowed = expected(graph, x)
    results = results_of(in_type(graph.model(graph.unused), kind.code, kind.dtype), path, x)
    for result, outputs, atol in zip(results, wanted, allowed, strict=True):
        assert result.shape == outputs.shape
        np.testing.assert_allclose(result, outputs, rtol=0, atol=atol)
