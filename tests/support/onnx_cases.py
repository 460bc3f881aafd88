"""Models for tests: built in-process, or from the backend suite inside the package onnx."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Array = npt.NDArray[Any]

OPSET = 17
IR_VERSION = 9


@dataclass(frozen=True)
class SuiteCase:
    """One test of ONNX's backend suite."""

    name: str
    model: Any
    data: Sequence[tuple[Sequence[Array], Sequence[Array]]]
    """Inputs and the outputs they give."""
    rtol: float
    atol: float

    @property
    def operators(self) -> set[str]:
        """The operators of its graph."""
        return {node.op_type for node in self.model.graph.node}


@cache
def suite() -> tuple[SuiteCase, ...]:
    """The node cases, made in-process, and the two sets of converted ones."""
    node: Any = import_module("onnx.backend.test.case.node")
    loader: Any = import_module("onnx.backend.test.loader")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Cases of other operators overflow on purpose.
        made = node.collect_testcases(None)
    cases = [
        SuiteCase(case.name, case.model, _as_arrays(case.data_sets), case.rtol, case.atol)
        for case in made
    ]
    for kind in ("pytorch-converted", "pytorch-operator"):
        for case in loader.load_model_tests(kind=kind):
            cases.append(_from_files(f"{kind}/{case.name}", Path(case.model_dir), case))
    return tuple(cases)


def _as_arrays(data_sets: Sequence[Any]) -> list[tuple[list[Any], list[Any]]]:
    """Inputs and outputs; some cases hold a `TensorProto` where others have an array."""
    to_array: Any = import_module("onnx.numpy_helper").to_array

    def array(value: Any) -> Any:
        return to_array(value) if hasattr(value, "data_type") else value

    return [([*map(array, given)], [*map(array, wanted)]) for given, wanted in data_sets]


def _from_files(name: str, folder: Path, case: Any) -> SuiteCase:
    onnx: Any = import_module("onnx")
    to_array: Any = import_module("onnx.numpy_helper").to_array

    def arrays(data: Path, prefix: str) -> list[Array]:
        count = len(list(data.glob(f"{prefix}_*.pb")))
        return [to_array(onnx.load_tensor(data / f"{prefix}_{i}.pb")) for i in range(count)]

    data = [
        (arrays(found, "input"), arrays(found, "output"))
        for found in sorted(folder.glob("test_data_set_*"))
    ]
    return SuiteCase(name, onnx.load(folder / "model.onnx"), data, case.rtol, case.atol)


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = OPSET,
) -> Any:
    """A model with f32 inputs of the given shapes, and outputs of the first one's rank."""
    helper: Any = import_module("onnx.helper")
    numpy_helper: Any = import_module("onnx.numpy_helper")
    rank = len(next(iter(inputs.values())))
    graph = helper.make_graph(
        list(nodes),
        "case",
        [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, 1, [None] * rank) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION
    )


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    """A `NodeProto`."""
    helper: Any = import_module("onnx.helper")
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def onnxruntime_results(
    model: Any, feeds: Mapping[str, Array], *, optimized: bool = True
) -> list[Array]:
    """What onnxruntime computes on one thread; node by node if it must not optimise the graph."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    if not optimized:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(feeds))


def small_integers(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """f32 integers of small magnitude: convolutions of them are exact."""
    return rng.integers(-4, 5, tuple(shape)).astype(np.float32)
