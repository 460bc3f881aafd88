"""convir as a backend of ONNX, in the form that `onnx.backend.test` and other tools call.

    import convir.frontends.onnx_backend as backend
    backend.prepare(model, "CPU").run([x])

`CPU` is the host, `CUDA` and `CUDA:1` are GPUs. A model is compiled for the shapes of
the first arrays, and again for others; so it is for operands that say a shape, as of Reshape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from convir.api.compile import compile as compile_module
from convir.frontends.elements import MEMORY
from convir.frontends.onnx.errors import onnx_library
from convir.frontends.onnx.importer import import_model
from convir.runtime.cuda.toolkit import NoGpuError
from convir.runtime.devices import find_device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from convir.frontends.elements import Array
    from convir.runtime.executable import Executable


_SHAPE_OPERANDS: Mapping[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "DequantizeLinear": (1, 2),
    "Dropout": (2,),
    "Expand": (1,),
    "Loop": (0, 1),
    "OneHot": (1, 2),
    "Pad": (1, 2, 3),
    "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QuantizeLinear": (1, 2),
    **{f"Reduce{kind}": (1,) for kind in ("Max", "Mean", "Min", "Prod", "Sum")},
    "Reshape": (1,),
    "Range": (0, 1, 2),
    "Resize": (2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
}
"""The inputs of operators that say what shape a result has, or what is computed."""


class ConvirRep:
    """A model that is ready to run."""

    def __init__(self, model: Any, device: str) -> None:
        self._model = model
        self._device = _device_name(device)
        given = {tensor.name for tensor in model.graph.initializer}
        self._names = [port.name for port in model.graph.input if port.name not in given]
        self._fixed = {
            node.input[position]
            for node in model.graph.node
            for position in _SHAPE_OPERANDS.get(node.op_type, ())
            if position < len(node.input) and node.input[position] in self._names
        }
        self._compiled: dict[Any, Executable] = {}

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **kwargs: Any) -> tuple[Array, ...]:
        """The outputs of the graph for `inputs`, in the graph's order or by name.

        Raises:
            OnnxError: the model is not supported.
            ValueError: an argument does not fit.
        """
        if isinstance(inputs, dict):
            arrays = [np.asarray(inputs[name]) for name in self._names]
        else:
            arrays = [np.asarray(value) for value in cast("Sequence[Any]", inputs)]
        named = dict(zip(self._names, arrays, strict=True))
        fixed = {name: array for name, array in named.items() if name in self._fixed}
        variable = [array for name, array in named.items() if name not in self._fixed]
        results = self._executable([array.shape for array in variable], fixed)(*variable)
        several = cast("tuple[Any, ...]", results if isinstance(results, tuple) else (results,))
        return tuple(
            _declared(_on_the_host(result), port)
            for result, port in zip(several, self._model.graph.output, strict=True)
        )

    def _executable(
        self, shapes: Sequence[tuple[int, ...]], fixed: Mapping[str, Array]
    ) -> Executable:
        """The model compiled for arguments of these shapes, and operands of these values."""
        key = (*shapes, *((name, array.tobytes()) for name, array in fixed.items()))
        if key not in self._compiled:
            module = import_model(self._model, shapes=shapes, values=fixed)
            self._compiled[key] = compile_module(module, device=self._device)
        return self._compiled[key]


def prepare(model: Any, device: str = "CPU", **kwargs: Any) -> ConvirRep:
    """A `ModelProto`, checked and ready to run.

    Raises:
        OnnxError: the package onnx is missing.
    """
    onnx_library("onnx.checker", MEMORY).check_model(model)
    return ConvirRep(model, device)


def run_model(model: Any, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Array, ...]:
    """Compile a `ModelProto` and run it once."""
    return prepare(model, device, **kwargs).run(inputs)


def is_compatible(model: Any, device: str = "CPU", **kwargs: Any) -> bool:
    """Whether models can be tried at all: one that is not supported says so when it runs."""
    return supports_device(device)


def supports_device(device: str) -> bool:
    """Whether there is such a device here."""
    try:
        find_device(_device_name(device))
    except (NoGpuError, ValueError):
        return False
    return True


def _device_name(device: str) -> str:
    """ONNX's name of a device as ours: `CPU` is `host`."""
    name, _, number = device.partition(":")
    kind = {"CPU": "host", "CUDA": "cuda"}.get(name, name)
    return f"{kind}:{number}" if number and kind != "host" else kind


def _declared(array: Array, port: Any) -> Array:
    """A result in the type that the model declares, which is another one for unsigned integers."""
    helper = onnx_library("onnx.helper", MEMORY)
    wanted = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
    return array.astype(wanted) if wanted.kind == "u" else array


def _on_the_host(array: Any) -> Array:
    return array.get() if hasattr(array, "get") else array
