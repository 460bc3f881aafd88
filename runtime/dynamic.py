"""An executable whose sizes are bound at the call: compiled once for each set of shapes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

from convir.runtime.arrays.border import plain
from convir.runtime.executable import Executable
from convir.runtime.named_arguments import in_order
from convir.runtime.program import DYNAMIC_SIZE
from convir.runtime.specialisations import Specialisations

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from convir.runtime.cache.program_entry import Signature
    from convir.runtime.cuda.graph import CudaGraph
    from convir.runtime.program import Program, TensorSpec

Shapes: TypeAlias = tuple[tuple[int, ...], ...]
"""The shape of every argument."""

CAPACITY = 32
"""How many specialisations an executable keeps unless told otherwise. Each holds its program, its
machine code, the arenas of its last calls and the memory of a result."""

_log = logging.getLogger(__name__)


class DynamicExecutable(Executable):
    """A program with sizes that its arguments give: call it as any other.

    The first call with a set of shapes compiles for them, the next ones run what that made. The
    least recently used specialisation is dropped where there are more than the capacity. Calls
    from several threads may overlap; one set of shapes is compiled once, whoever comes first.
    """

    def __init__(
        self,
        signature: Signature,
        device: str,
        specialise: Callable[[Shapes], Executable],
        capacity: int = CAPACITY,
    ) -> None:
        """Wrap `specialise`, which compiles for the shapes of the arguments.

        Args:
            signature: shape and dtype of every argument and result, -1 for sizes that calls bind.
            device: what users call where it runs.
            specialise: compiles for one set of shapes; may raise, which the call then does.
            capacity: keep at most so many specialisations.

        Raises:
            ValueError: `capacity` is not positive.
        """
        self._inputs, self._outputs = signature.inputs, signature.outputs
        self._function, self._device = signature.function, device
        self._cache = Specialisations(self._specialise, capacity)
        self._compile = specialise

    @property
    def function(self) -> str:
        """The name of the function that it computes."""
        return self._function

    @property
    def device(self) -> str:
        """Where it runs: `host`, or `cuda:0`."""
        return self._device

    @property
    def program(self) -> Program:
        """There is none before the sizes are bound: `specialised` has one."""
        self._refuse("has no program")

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every argument, -1 where a call binds the size."""
        return self._inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Shape and dtype of every result, -1 where the arguments' shapes give the size."""
        return self._outputs

    @property
    def capacity(self) -> int:
        """How many specialisations are kept."""
        return self._cache.capacity

    @property
    def specialisations(self) -> tuple[Shapes, ...]:
        """The sets of shapes that are compiled, the least recently used first."""
        return self._cache.keys()

    def clear(self) -> None:
        """Forget every specialisation."""
        self._cache.clear()

    def specialised(self, *shapes: Sequence[int]) -> Executable:
        """The executable for arguments of these shapes, compiled if it is not there.

        Raises:
            ValueError: the shapes are not as many as the arguments, or do not fit them.
            DiagnosticError: the sizes contradict each other; located at the op.
        """
        return self._cache[tuple(tuple(map(int, shape)) for shape in shapes)]

    def empty(self, spec: TensorSpec) -> Any:
        """Arrays have sizes: only a specialisation makes them."""
        self._refuse("cannot make arrays")

    def graph(self, calls: int = 1) -> CudaGraph:
        """A graph has buffers of its own: only a specialisation has one."""
        del calls
        self._refuse("has no graph")

    def __call__(self, *arguments: Any, out: Any = None, stream: Any = None, **named: Any) -> Any:
        """Run the program once, compiled for the shapes of `arguments` if that is not done yet.

        Args and Returns: as of any `Executable`.

        Raises:
            TypeError: an argument is not an array, or has another dtype than the program's.
            ValueError: the number or the shape of the arguments does not fit the program's, or
                `out` cannot be written in place.
            DiagnosticError: the sizes contradict each other; located at the op.
        """
        if named:
            arguments = tuple(in_order(arguments, named, self._inputs))
        shapes = tuple([_shape_of(value, i) for i, value in enumerate(arguments)])
        return self._cache[shapes](*arguments, out=out, stream=stream)

    def _specialise(self, shapes: Shapes) -> Executable:
        if len(shapes) != len(self._inputs):
            raise ValueError(f"the program takes {len(self._inputs)} arrays, not {len(shapes)}")
        for i, (shape, spec) in enumerate(zip(shapes, self._inputs, strict=True)):
            if not _fits(shape, spec):
                raise ValueError(f"argument {i} has shape {shape}, the program's is {spec}")
        _log.info("compiling for the shapes %s", ", ".join(map(str, shapes)))
        return self._compile(shapes)

    def _refuse(self, what: str) -> NoReturn:
        shapes = ", ".join(map(str, self._inputs))
        raise ValueError(f"a program of dynamic sizes ({shapes}) {what}: call `specialised` first")


def _shape_of(value: Any, position: int) -> tuple[int, ...]:
    shape: Any = getattr(plain(value, f"argument {position}"), "shape", None)
    if shape is not None:
        return tuple(map(int, shape))
    if isinstance(value, int | float):
        return ()
    raise TypeError(f"argument {position} is a {type(value).__name__}, not an array with a shape")


def _fits(shape: Sequence[int], spec: TensorSpec) -> bool:
    return len(shape) == len(spec.shape) and all(
        declared in (DYNAMIC_SIZE, size) for size, declared in zip(shape, spec.shape, strict=True)
    )
