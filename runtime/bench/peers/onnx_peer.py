"""onnxruntime's Conv and ConvTranspose as a peer on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from convir.dialects.conv.geometry import Direction
from convir.runtime.bench.candidate import Candidate, Failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.dialects.conv.problem import ConvProblem
    from convir.runtime.program import Array

BACKEND = "onnxruntime"
OPSET = 17
_ELEMENTS = {"f16": 10, "f32": 1, "f64": 11}
"""`TensorProto.DataType` of the element types that onnxruntime convolves."""


def onnxruntime_candidates(
    problem: ConvProblem, inputs: Sequence[Array], threads: int
) -> list[Candidate | Failed]:
    """onnxruntime on `problem`: Conv, or ConvTranspose for backward data; always channels first.

    The filter is an initializer of the model, as exported models have it: onnxruntime rearranges
    it for the processor when the session is made.

    Raises:
        ImportError: onnx or onnxruntime is not installed.
    """
    if problem.direction is Direction.WGRAD:
        return [Failed(BACKEND, "NCHW", "onnxruntime has no backward weight")]
    if problem.dtype not in _ELEMENTS:
        reason = f"onnxruntime does not convolve {problem.dtype}"
        return [Failed(BACKEND, "NCHW", reason, "constant")]
    roles = problem.direction.roles
    image, weights = (
        np.ascontiguousarray(array.transpose(problem.axes(role)))
        for role, array in zip(roles, inputs, strict=False)
    )
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    try:
        model = _model(problem, weights).SerializeToString()
        session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return [Failed(BACKEND, "NCHW", str(error).splitlines()[0], "constant")]
    results: list[Any] = [None]

    def call() -> None:
        results[0] = session.run(None, {"x": image})[0]

    call()
    order = problem.axes(roles[2])
    back = [order.index(axis) for axis in range(len(order))]
    return [
        Candidate(
            BACKEND,
            "NCHW",
            runtime.__version__,
            call,
            lambda: results[0].transpose(back),
            # The session allocates its results itself.
            lambda: None,
            "constant",
        )
    ]


def _model(problem: ConvProblem, weights: Array) -> Any:
    helper: Any = import_module("onnx.helper")
    numpy_helper: Any = import_module("onnx.numpy_helper")
    geometry = problem.geometry
    transposed = problem.direction is Direction.DGRAD
    attributes: dict[str, Any] = {
        "strides": list(geometry.strides),
        "dilations": list(geometry.dilations),
        "pads": [*geometry.pad_low, *geometry.pad_high],
        "group": geometry.groups,
    }
    if transposed:
        sizes = zip(problem.windows, problem.spatial, problem.output_spatial, strict=True)
        attributes["output_padding"] = [h - w.smallest_input(p) for w, h, p in sizes]
    element = _ELEMENTS[problem.dtype]
    shapes = {
        "input": (problem.n, problem.c, *problem.spatial),
        "output": (problem.n, problem.k, *problem.output_spatial),
    }
    lhs, result = (shapes[role] for role in problem.direction.roles if role in shapes)
    node = helper.make_node(
        "ConvTranspose" if transposed else "Conv", ["x", "w"], ["y"], **attributes
    )
    graph = helper.make_graph(
        [node],
        "convolution",
        [helper.make_tensor_value_info("x", element, lhs)],
        [helper.make_tensor_value_info("y", element, result)],
        [numpy_helper.from_array(weights, "w")],
    )
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=9)
