"""An executable: a compiled program that takes arrays and returns arrays."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from convir.runtime.reference.dtypes import BFLOAT16

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.runtime.program import Array, Program, TensorSpec

_BFLOAT16_BITS = (np.dtype(np.int16), np.dtype(np.uint16))

_log = logging.getLogger(__name__)


class DeviceProgram(Protocol):
    """A program compiled for one device."""

    program: Program

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run once on dense arrays of the program's shapes and dtypes."""
        ...


class Executable:
    """A compiled program on the host: call it with arrays, it returns NumPy arrays.

    Arguments may be NumPy arrays or anything that speaks DLPack (PyTorch tensors, JAX arrays);
    they are read where they lie when they are dense, and copied first when they are not. bf16
    arguments may also be int16 or uint16 bit patterns. Calls from several threads may overlap.
    """

    def __init__(self, compiled: DeviceProgram) -> None:
        self._compiled = compiled

    @property
    def program(self) -> Program:
        """The program that runs, with its planned memory."""
        return self._compiled.program

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every argument."""
        return self.program.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every result."""
        return self.program.outputs

    def __call__(self, *arguments: Any, out: Any = None) -> Any:
        """Run the program once.

        Args:
            arguments: one array per input.
            out: an array, or a sequence of one per result, to write into instead of new ones:
                dense, writable, of the result's shape and dtype.

        Returns:
            The result, or a tuple of them if the program has several (or none).

        Raises:
            TypeError: an argument is no array, or has another dtype than the program's.
            ValueError: the number or the shape of the arguments differs from the program's, or
                `out` cannot be written in place.
        """
        specs = self.inputs
        if len(arguments) != len(specs):
            raise ValueError(f"the program takes {len(specs)} arrays, not {len(arguments)}")
        inputs = [
            _argument(value, spec, i)
            for i, (value, spec) in enumerate(zip(arguments, specs, strict=True))
        ]
        results = self._results(out)
        # A caller may pass an argument as `out`; what is still to be read must not be overwritten.
        private = [
            np.empty_like(result) if _shares(result, inputs, results[:i]) else result
            for i, result in enumerate(results)
        ]
        self._compiled.run(inputs, private)
        for result, computed in zip(results, private, strict=True):
            if result is not computed:
                result[...] = computed
        return results[0] if len(results) == 1 else tuple(results)

    def _results(self, out: Any) -> list[Array]:
        specs = self.outputs
        if out is None:
            return [np.empty(spec.shape, spec.dtype) for spec in specs]
        one = len(specs) == 1 and not isinstance(out, tuple | list)
        given: list[Any] = [out] if one else list(cast("Sequence[Any]", out))
        if len(given) != len(specs):
            raise ValueError(f"the program writes {len(specs)} arrays, `out` holds {len(given)}")
        return [
            _destination(value, spec, i)
            for i, (value, spec) in enumerate(zip(given, specs, strict=True))
        ]


def _argument(value: Any, spec: TensorSpec, position: int) -> Array:
    what = f"argument {position}"
    array = _typed(_as_array(value, what), spec, what)
    if array.flags.c_contiguous:
        return array
    _log.debug("%s is not dense and is copied", what)
    return np.ascontiguousarray(array)


def _destination(value: Any, spec: TensorSpec, position: int) -> Array:
    what = f"out {position}"
    array = _typed(_as_array(value, what), spec, what)
    if not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError(f"{what} must be dense and writable")
    return array


def _as_array(value: Any, what: str) -> Array:
    if isinstance(value, np.ndarray):
        return cast("Array", value)
    if not hasattr(value, "__dlpack__"):
        raise TypeError(f"{what} is a {type(value).__name__}, not an array that speaks DLPack")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:
        raise TypeError(f"{what} cannot be read by NumPy through DLPack: {error}") from error


def _typed(array: Array, spec: TensorSpec, what: str) -> Array:
    if array.shape != spec.shape:
        raise ValueError(f"{what} has shape {array.shape}, the program's is {spec.shape}")
    if array.dtype == spec.dtype:
        return array
    if spec.dtype == BFLOAT16 and array.dtype in _BFLOAT16_BITS:
        return array.view(BFLOAT16)
    raise TypeError(f"{what} holds {array.dtype.name}, the program's is {spec.dtype.name}")


def _shares(array: Array, inputs: list[Array], earlier: list[Array]) -> bool:
    return any(np.may_share_memory(array, other) for other in (*inputs, *earlier))
