"""An executable: a compiled program that takes arrays and returns arrays."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, cast

from convir.runtime.arrays.border import ArrayBorder
from convir.runtime.arrays.torch_tensors import is_tensor, tensor_of
from convir.runtime.named_arguments import in_order
from convir.runtime.program import signature_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from convir.runtime.cuda.graph import CudaGraph
    from convir.runtime.prepared_call import PreparedCall
    from convir.runtime.program import Array, Program, TensorSpec


_SEQUENCES = frozenset({list, tuple})


class DeviceProgram(Protocol):
    """A program compiled for one device."""

    @property
    def program(self) -> Program:
        """What it was compiled from."""
        ...

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every argument."""
        ...

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every result."""
        ...

    arrays: Any
    """The array module of the device: `numpy` or `cupy`."""

    index: int
    """Which GPU; 0 on the host."""

    @property
    def function(self) -> str:
        """The name of what it computes."""
        ...

    @property
    def device(self) -> str:
        """What users call where it runs: `host`, `cuda:0`."""
        ...

    def scope(self, stream: Any = None) -> AbstractContextManager[None]:
        """A context for `run`: the device is current, and `stream` if it is not None."""
        ...

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Run once on dense arrays of the program's shapes and dtypes."""
        ...

    def run_apart(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> set[int]:
        """Run once, as `run`, unless outputs share memory with an input or another output; which
        those are."""
        ...

    def capture(self, calls: int) -> CudaGraph:
        """The program, so many times in a row, as a CUDA graph."""
        ...

    def prepare(self) -> PreparedCall:
        """The program as calls by addresses alone."""
        ...


class Executable:
    """A compiled program: call it with arrays, it returns arrays of its device.

    On the host those are NumPy's, on a GPU CuPy's; where an argument is a PyTorch tensor, they are
    PyTorch tensors of the same memory. Arguments may be any of these, or anything that speaks
    DLPack (JAX arrays); they are read where they lie when they are dense,
    and copied first when they are not. Arguments on the host are copied to a program's GPU, those
    on another GPU are refused, and so is what has no memory of its values: tensors that require
    grad, are sparse or traced, masked arrays. bf16 is `torch.bfloat16` in PyTorch and
    `ml_dtypes.bfloat16` in NumPy and CuPy; arguments may also be int16 or uint16 bit
    patterns. Calls from several threads may overlap.

    On the host a program keeps the memory of its last dropped result for the next one.

    A call on a GPU only enqueues: everything, reading the arguments and allocating the results
    included, happens in the order of one stream. As with CuPy's own functions, whoever uses
    the results on another stream, or frees the arguments on one, must order the two.
    """

    def __init__(self, compiled: DeviceProgram) -> None:
        self._compiled = compiled
        self._inputs, self._outputs = compiled.inputs, compiled.outputs
        self._scopeless = isinstance(compiled.scope(), nullcontext)
        self._border = ArrayBorder(compiled.arrays, compiled.index)
        self._new_results = [self._border.results(spec) for spec in self._outputs]

    def __repr__(self) -> str:
        ends = signature_text(self.inputs, self.outputs)
        return f"<{type(self).__name__} @{self.function} on {self.device}: {ends}>"

    @property
    def function(self) -> str:
        """The name of the function that it computes."""
        return self._compiled.function

    @property
    def device(self) -> str:
        """Where it runs: `host`, or `cuda:0`."""
        return self._compiled.device

    @property
    def program(self) -> Program:
        """The program that runs, with its planned memory."""
        return self._compiled.program

    @property
    def loaded(self) -> DeviceProgram:
        """The program on its device, without the borders that calls go through."""
        return self._compiled

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape, dtype and name of every argument."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape, dtype and name of every result."""
        return self._outputs

    def empty(self, spec: TensorSpec) -> Any:
        """A new array on the program's device, for an input or a result."""
        with self._compiled.scope():
            return self._border.empty(spec)

    def graph(self, calls: int = 1) -> CudaGraph:
        """The program as a CUDA graph: one launch a call, on buffers that the graph owns.

        Args:
            calls: how often a replay runs the program, on the same buffers.

        Raises:
            ValueError: the program runs on the host, or `calls` is not positive.
            GpuMemoryError: the graph's buffers do not fit on the GPU.
        """
        return self._compiled.capture(calls)

    def prepare(self) -> PreparedCall:
        """The program as calls by addresses alone, for callers that keep the memory themselves.

        Raises:
            ValueError: the program keeps states between calls, which belong to streams.
        """
        return self._compiled.prepare()

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Run the program once.

        Args:
            arguments: one array per input.
            named: the inputs behind those, by their names: `f(x, mask=m)`; `f(**{"input.1": x})`.
            out: an array, or a sequence of one per result, to write into instead of new ones:
                dense, writable, of the result's shape and dtype.
            stream: what the call is enqueued on, on a GPU: a CuPy or PyTorch stream, or the
                address of one as DLPack writes it; CuPy's current stream if None.

        Returns:
            The result, or a tuple of them if the program has several (or none): `out`'s arrays
            where they are given, else PyTorch tensors if an argument is one, else arrays of the
            device.

        Raises:
            TypeError: an argument is not an array of plain memory, or has another dtype than the
                program's; an input is given twice, not at all, or by a name that none has.
            ValueError: the number or the shape of the arguments differs from the program's, or
                `out` cannot be written in place; an array or the stream belongs to another GPU.
            GpuMemoryError: results or temporaries do not fit on the GPU.
        """
        if named:
            arguments = tuple(in_order(arguments, named, self._inputs))
        if stream is None and self._scopeless:
            return self._run(arguments, out)
        with self._compiled.scope(stream):
            return self._run(arguments, out)

    def _run(self, arguments: Sequence[Any], out: Any) -> Any:
        specs, border = self._inputs, self._border
        if len(arguments) != len(specs):
            raise ValueError(f"the program takes {len(specs)} arrays, not {len(arguments)}")
        inputs = arguments
        if not all(map(border.is_ready, inputs, specs)):
            inputs = [
                value if border.is_ready(value, spec) else border.argument(value, spec, i)
                for i, (value, spec) in enumerate(zip(inputs, specs, strict=True))
            ]
        if out is None:
            results = [new_result() for new_result in self._new_results]
            self._compiled.run(inputs, results)
        else:
            is_held = type(out) in _SEQUENCES and len(out) == 1
            one = out[0] if is_held else out
            is_one = len(self._outputs) == 1 and border.is_ready(one, self._outputs[0])
            results = [one] if is_one and one.flags.writeable else self._destinations(out)
            shared = self._compiled.run_apart(inputs, results)
            if shared:
                self._run_into(inputs, results, shared)
        if out is None and inputs is not arguments and any(map(is_tensor, arguments)):
            results = [tensor_of(result) for result in results]
        return results[0] if len(results) == 1 else tuple(results)

    def _run_into(self, inputs: Sequence[Array], results: list[Array], shared: set[int]) -> None:
        """Run into a caller's arrays of which those `shared` are arguments, or overlap.

        What is still to be read must not be overwritten.
        """
        private = list(results)
        for i in shared:
            private[i] = self._new_results[i]()
        self._compiled.run(inputs, private)
        for result, computed in zip(results, private, strict=True):
            if result is not computed:
                result[...] = computed

    def _destinations(self, out: Any) -> list[Array]:
        specs = self._outputs
        one = len(specs) == 1 and not isinstance(out, (tuple, list))
        given: list[Any] = [out] if one else list(cast("Sequence[Any]", out))
        if len(given) != len(specs):
            raise ValueError(f"the program writes {len(specs)} arrays, `out` holds {len(given)}")
        return [
            self._border.destination(value, spec, i)
            for i, (value, spec) in enumerate(zip(given, specs, strict=True))
        ]
