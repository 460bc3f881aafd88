"""If and Loop are resolved at import; what is not supported is said of all nodes at once."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import Array, model_of, node, onnxruntime_results

from convir.api.compile import compile as convir_compile
from convir.frontends.onnx.control import MAX_NODES
from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import import_model

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = pytest.mark.fast

pytest.importorskip("onnx", reason="onnx is not installed (the extra `test`)")

FLOAT, INT64, BOOL = 1, 7, 9
X = np.random.default_rng(0).integers(-4, 5, (2, 3)).astype(np.float32)


def subgraph(
    nodes: Sequence[Any],
    outputs: Sequence[str],
    inputs: Mapping[str, int] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> Any:
    """A `GraphProto`; its inputs have element types."""
    helper: Any = import_module("onnx.helper")
    numpy_helper: Any = import_module("onnx.numpy_helper")
    kinds = {"on": BOOL, "goes_on": BOOL}
    return helper.make_graph(
        list(nodes),
        "body",
        [
            helper.make_tensor_value_info(name, kind, None if kind == FLOAT else [])
            for name, kind in (inputs or {}).items()
        ],
        [helper.make_tensor_value_info(name, kinds.get(name, FLOAT), None) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )


def model(nodes: Sequence[Any], outputs: Sequence[str], **constants: Array) -> Any:
    """A model that takes `x`, whose outputs have any shape."""
    made = model_of(nodes, {"x": X.shape}, outputs, constants)
    for output in made.graph.output:
        output.type.tensor_type.ClearField("shape")
    return made


def results_of(made: Any) -> list[Array]:
    given: Any = convir_compile(made, device="host")(X)
    return list(given) if isinstance(given, tuple) else [given]  # pyright: ignore[reportUnknownArgumentType]


def check(made: Any) -> None:
    wanted = onnxruntime_results(made, {"x": X})
    for result, expected in zip(results_of(made), wanted, strict=True):
        np.testing.assert_array_equal(result, expected)


def ops_of(made: Any) -> list[str]:
    return [op.name for op in import_model(made).walk()]


THEN = subgraph([node("Relu", ["x"], ["inner"]), node("Add", ["inner", "x"], ["r"])], ["r"])
ELSE = subgraph([node("Neg", ["x"], ["inner"]), node("Mul", ["inner", "w"], ["s"])], ["s"])


@pytest.mark.parametrize("size", [2, 5])
def test_an_if_of_a_shape_is_one_branch(size: int) -> None:
    """Both branches name their values alike, and read what is around them."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["rows"]),
        node("Equal", ["rows", "wanted"], ["is_so"]),
        node("If", ["is_so"], ["z"], then_branch=THEN, else_branch=ELSE),
        node("Relu", ["z"], ["y"]),
    ]
    made = model(nodes, ["y"], zero=np.array(0), wanted=np.array(size), w=X + 1)
    check(made)
    assert ("arith.mulf" in ops_of(made)) == (size != len(X))


def test_an_if_of_what_is_computed_is_both_and_a_choice() -> None:
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Greater", ["most", "bound"], ["is_so"]),
        node("If", ["is_so"], ["y"], then_branch=THEN, else_branch=ELSE),
    ]
    for bound in (0, 100):
        check(model(nodes, ["y"], bound=np.array(bound, np.float32), w=X + 1))


def test_branches_of_two_shapes_have_no_choice() -> None:
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Greater", ["most", "bound"], ["is_so"]),
        node(
            *("If", ["is_so"], ["y"]),
            then_branch=subgraph([node("Transpose", ["x"], ["t"])], ["t"]),
            else_branch=subgraph([node("Relu", ["x"], ["r"])], ["r"]),
            name="choice",
        ),
    ]
    with pytest.raises(OnnxError, match=r"node 'choice' \(If\): its condition is computed, and "):
        import_model(model(nodes, ["y"], bound=np.array(0, np.float32)))


IMPOSSIBLE = subgraph([node("Sin", ["x"], ["t"]), node("Squeeze", ["t", "first"], ["u"])], ["u"])
"""Two rows cannot be squeezed."""


def either(branch: Any, other: Any) -> Any:
    """A model that leaves open how many rows there are, and which of two branches is run."""
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Greater", ["most", "bound"], ["is_so"]),
        node("If", ["is_so"], ["y"], then_branch=branch, else_branch=other, name="choice"),
    ]
    made = model(nodes, ["y"], bound=np.array(0, np.float32), first=np.array([0]), w=X + 1)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    return made


@pytest.mark.parametrize("is_then", [False, True])
def test_a_branch_that_nothing_can_run(is_then: bool, caplog: pytest.LogCaptureFixture) -> None:
    branches = (THEN, IMPOSSIBLE) if is_then else (IMPOSSIBLE, THEN)
    made = either(*branches)
    compiled: Any = convir_compile(made, device="host", shapes=[X.shape])
    assert f"its {'else' if is_then else 'then'} branch is chosen, it gives NaN" in caplog.text
    chosen, other = (X, X - 9) if is_then else (X - 9, X)
    (wanted,) = onnxruntime_results(made, {"x": chosen})
    np.testing.assert_array_equal(compiled(chosen), wanted)
    assert np.isnan(compiled(other)).all()
    ops = [op.name for op in import_model(made, shapes=[X.shape]).walk()]
    assert "math.sin" not in ops


def test_branches_that_are_refused() -> None:
    integers = subgraph([node("Cast", ["x"], ["i"], to=INT64)], ["i"])
    unknown = subgraph([node("Det", ["x"], ["d"], name="det")], ["d"])
    for other in (IMPOSSIBLE, integers):
        with pytest.raises(OnnxError, match=r"\(Squeeze\): axes \[0\] of \[2, 3\] are not all"):
            import_model(either(IMPOSSIBLE, other), shapes=[X.shape])
    with pytest.raises(
        OnnxError, match=r"^[^\n]*'det' \(Det\): the operator Det is not supported$"
    ):
        import_model(either(THEN, unknown), shapes=[X.shape])
    with pytest.raises(OnnxError, match=r"Squeeze.*\n.*'det' \(Det\)"):
        import_model(either(IMPOSSIBLE, unknown), shapes=[X.shape])


STEP = subgraph(
    [
        node("Cast", ["number"], ["number_f"], to=FLOAT),
        node("Mul", ["state", "w"], ["product"]),
        node("Add", ["product", "number_f"], ["next"]),
        node("ReduceSum", ["next"], ["row"], keepdims=0),
        node("Less", ["number", "last"], ["on_"]),
        node("Identity", ["on_"], ["on"]),
    ],
    ["on", "next", "row", "number_f"],
    {"number": INT64, "going": BOOL, "state": FLOAT},
    {"last": np.array(2)},
)


@pytest.mark.parametrize(
    "operands",
    [["trips", ""], ["trips", "yes"], ["", "yes"], ["one", "yes"]],
    ids=["a count", "both", "a condition", "one trip"],
)
def test_a_loop_is_its_trips(operands: list[str]) -> None:
    nodes = [node("Loop", [*operands, "x"], ["y", "rows", "numbers"], body=STEP)]
    constants = {"trips": np.array(6), "one": np.array(1), "yes": np.array(True), "w": X / 4}
    made = model(nodes, ["y", "rows", "numbers"], **constants)
    (_, rows, _) = results = results_of(made)
    if not operands[1]:  # What the body says of going on is ignored; onnxruntime heeds it.
        assert len(rows) == 6
        return
    wanted = onnxruntime_results(made, {"x": X})
    assert len(rows) == {"trips": 3, "one": 1, "": 3}[operands[0]]
    for result, expected in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_loops_in_loops_and_branches() -> None:
    inner = subgraph(
        [node("Identity", ["still"], ["on"]), node("Add", ["state", "outer"], ["total"])],
        ["on", "total"],
        {"count": INT64, "still": BOOL, "state": FLOAT},
    )
    branch = subgraph([node("Loop", ["two", "", "outer"], ["sum"], body=inner)], ["sum"])
    other = subgraph([node("Neg", ["outer"], ["minus"])], ["minus"])
    body = subgraph(
        [
            node("Equal", ["number", "one"], ["is_one"]),
            node("If", ["is_one"], ["next"], then_branch=branch, else_branch=other),
            node("Identity", ["going"], ["goes_on"]),
        ],
        ["goes_on", "next"],
        {"number": INT64, "going": BOOL, "outer": FLOAT},
    )
    nodes = [node("Loop", ["three", "", "x"], ["y"], body=body)]
    counts = {"one": np.array(1), "two": np.array(2), "three": np.array(3)}
    check(model(nodes, ["y"], **counts))


def test_loops_that_the_model_does_not_bound() -> None:
    body = subgraph(
        [node("Identity", ["going"], ["on"]), node("Neg", ["state"], ["next"])],
        ["on", "next"],
        {"number": INT64, "going": BOOL, "state": FLOAT},
    )
    nodes = [node("Loop", ["", "yes", "x"], ["y"], body=body, name="forever")]
    with pytest.raises(OnnxError, match=rf"'forever' \(Loop\): .* more than {MAX_NODES} nodes"):
        import_model(model(nodes, ["y"], yes=np.array(True)))
    body = subgraph(
        [
            node("ReduceMax", ["state"], ["most"], keepdims=0),
            node("Cast", ["most"], ["on"], to=BOOL),
            node("Neg", ["state"], ["next"]),
        ],
        ["on", "next"],
        {"number": INT64, "going": BOOL, "state": FLOAT},
    )
    nodes = [node("Loop", ["", "yes", "x"], ["y"], body=body, name="until")]
    with pytest.raises(OnnxError, match=r"'until' \(Loop\): whether it goes on after trip 0 must"):
        import_model(model(nodes, ["y"], yes=np.array(True)))


def test_all_that_is_not_supported_is_said_at_once() -> None:
    branch = subgraph([node("SequenceEmpty", [], ["t"], name="text")], ["t"])
    nodes = [
        node("Det", ["x"], ["d"], name="d0"),
        node("Relu", ["d"], ["r"], name="fine"),
        node("Det", ["r"], ["e"], name="d1"),
        node("Relu", ["x"], ["y1"], name="fine too"),
        node("Softmax", ["y1"], ["s"], axis=7, name="wrong"),
        node("Mystery", ["e", "s"], ["m"], name="m0", domain="other"),
        node("If", ["m"], ["y"], then_branch=branch, else_branch=branch, name="choice"),
    ]
    with pytest.raises(OnnxError) as error:
        import_model(model(nodes, ["y"]))
    lines = [line.removeprefix("<model>:0:0: error: ") for line in str(error.value).splitlines()]
    assert lines == [
        "nodes 'd0', 'd1' (Det): the operator Det is not supported",
        "node 'wrong' (Softmax): a tensor of rank 2 has no axis 7",
        "node 'm0' (Mystery): the operator Mystery of domain 'other' is not supported",
        "node 'text' (SequenceEmpty): the operator SequenceEmpty is not supported",
    ]
