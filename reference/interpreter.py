"""Walks the IR: one frame of values per function, one handler per operation name.

A handler takes the operation, its operands as arrays and the frame, and returns its results.
Inside the body of a structured op every operand is an array over the loops (`Frame.loops`), of
which axes may be 1: handlers of scalar ops are NumPy functions that broadcast, so the same ones
serve scalars, tensors and bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.traits import IsTerminator

from convir.dialects.address_space import check_addressable
from convir.reference.dtypes import Array, DType, FloatFormat, dtype_of, element_type_of
from convir.reference.errors import EvaluationError
from convir.reference.limits import DEFAULT_MAX_STEPS, memory_bytes

if TYPE_CHECKING:
    from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

    from convir.reference.loops import LoopRange

DEFAULT_WORKSPACE_BYTES = 256 << 20
"""What one op may take besides its operands and results, in bytes."""

_UNWRITTEN = frozenset(
    {
        *("arith.constant", "conv.constant", "tensor.empty", "tensor.splat"),
        *("linalg.broadcast", "linalg.fill"),
        *("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice"),
    }
)
"""Ops whose results may be one element broadcast, or views: they take no memory."""


class Observer(Protocol):
    """Follows an evaluation, at the ops that are not in the body of a structured op."""

    def observe(self, op: Operation, results: Sequence[Array], frame: Frame) -> None:
        """`op` has given `results`; its operands are still in `frame`."""
        ...

    def bind(self, values: Sequence[SSAValue], sources: Sequence[SSAValue]) -> None:
        """`values` (a region's arguments, or an op's results) now hold what `sources` hold."""
        ...


@dataclass
class Frame:
    """The values in scope: of one function, or of one body over a range of its loops."""

    interpreter: Interpreter
    values: dict[SSAValue, Array] = field(default_factory=dict["SSAValue", Array])
    loops: LoopRange | None = None
    """The loops that the arrays range over, in the body of a structured op."""
    parent: Frame | None = None
    """Where the values that a body captures are."""

    def get(self, op: Operation, value: SSAValue) -> Array:
        """The array that `value` holds.

        Raises:
            EvaluationError: it holds none, so `op` reads what was never computed.
        """
        frame: Frame | None = self
        while frame is not None:
            array = frame.values.get(value)
            if array is not None:
                return array
            frame = frame.parent
        raise EvaluationError(op, "reads a value that was not computed")

    def dtype(self, op: Operation, value: SSAValue) -> DType:
        """The dtype of the elements of `value`.

        Raises:
            EvaluationError: the reference has no dtype for its type.
        """
        return self.interpreter.dtype(op, value)


Handler = Callable[["Operation", tuple[Array, ...], Frame], tuple[Array, ...]]


class Handlers(dict[str, Handler]):
    """How operations are evaluated, by name; `linalg.*` is any op of a dialect without its own."""

    def handles(self, *names: str) -> Callable[[Handler], Handler]:
        """Register the decorated function as the handler of the operations called `names`."""

        def register(handler: Handler) -> Handler:
            self.update(dict.fromkeys(names, handler))
            return handler

        return register

    def of(self, op: Operation) -> Handler:
        """The handler of `op`: that of its name, else that of its dialect.

        Raises:
            EvaluationError: there is none.
        """
        handler = self.get(op.name) or self.get(f"{op.name.partition('.')[0]}.*")
        if handler is None:
            raise EvaluationError(op, "is not an operation that the reference can evaluate")
        return handler


class Interpreter:
    """Evaluates functions; `functions` are those that a call may name, of any dialect."""

    def __init__(
        self,
        functions: Mapping[str, Operation],
        handlers: Handlers,
        *,
        float_format: FloatFormat,
        workspace_bytes: int,
        observer: Observer | None = None,
        max_steps: int = DEFAULT_MAX_STEPS,
    ):
        self.functions = functions
        self.handlers = handlers
        self.float_format = float_format
        self.workspace_bytes = workspace_bytes
        self.observer = observer
        self._max_steps = max_steps
        self._steps = 0
        self._last_uses: dict[Block, dict[Operation, tuple[SSAValue, ...]]] = {}

    def require_steps(self, op: Operation, count: int) -> None:
        """Refuse `op` if `count` steps are more than may still be done.

        Raises:
            EvaluationError: they are.
        """
        if self._steps + count > self._max_steps:
            steps = "a step" if count == 1 else f"{count} steps"
            limit = f"the limit of {self._max_steps} (convir-run --max-steps=N)"
            raise EvaluationError(op, f"takes {steps}, past {limit}")

    def dtype(self, op: Operation, value: SSAValue) -> DType:
        """The dtype of the elements of `value`, an operand or result of `op`.

        Raises:
            EvaluationError: the reference has no dtype for its type.
        """
        element_type = element_type_of(value.type)
        dtype = dtype_of(element_type, self.float_format)
        if dtype is None:
            raise EvaluationError(op, f"has the type {value.type}, which has no NumPy dtype")
        return dtype

    def call(self, op: Operation, body: Region, arguments: Sequence[Array]) -> tuple[Array, ...]:
        """Run a function's body in a frame of its own; `op` is the function or the call."""
        if not body.blocks:
            raise EvaluationError(op, "calls a function without a body")
        return self.enter(op, body.blocks[0], arguments, op.operands, Frame(self))

    def enter(
        self,
        op: Operation,
        block: Block,
        arguments: Sequence[Array],
        sources: Sequence[SSAValue],
        frame: Frame,
    ) -> tuple[Array, ...]:
        """Run a block of `op` on `arguments`, which `sources` hold; what its terminator yields.

        Raises:
            EvaluationError: so many blocks were run that this one is past the limit.
        """
        self.require_steps(op, 1)
        self._steps += 1
        self.assign(op, block.args, arguments, frame)
        if self.observer is not None and frame.loops is None:
            self.observer.bind(block.args, sources)
        return self.run_block(block, frame)

    def leave(self, op: Operation, sources: Sequence[SSAValue], frame: Frame) -> None:
        """The results of `op` are what `sources`, the operands of a terminator, hold."""
        if self.observer is not None and frame.loops is None:
            self.observer.bind(op.results, sources)

    def run_block(self, block: Block, frame: Frame) -> tuple[Array, ...]:
        """Run the ops of `block`, whose arguments are in `frame`; what its terminator yields.

        A value is dropped after its last use, so that memory holds only what is live.
        """
        last_uses = self._block_last_uses(block)
        for op in block.ops:
            if op.has_trait(IsTerminator):
                return tuple(frame.get(op, operand) for operand in op.operands)
            self.run_op(op, frame)
            for value in last_uses.get(op, ()):
                frame.values.pop(value, None)
        return ()

    def run_op(self, op: Operation, frame: Frame) -> None:
        """Evaluate `op` into `frame`.

        Raises:
            EvaluationError: there is no handler for `op`, it has no meaning for its operands, or
                its results do not fit into memory.
        """
        handler = self.handlers.of(op)
        operands = tuple(frame.get(op, operand) for operand in op.operands)
        for result in op.results:
            self._require_memory(op, result.type)
        try:
            results = handler(op, operands, frame)
        except MemoryError as error:
            raise EvaluationError(op, f"takes more memory than there is: {error}") from error
        self.assign(op, op.results, results, frame)
        if self.observer is not None and frame.loops is None:
            self.observer.observe(op, results, frame)

    def _require_memory(self, op: Operation, result: Attribute) -> None:
        """Refuse a result of static shape before memory is spent on it."""
        if not isinstance(result, TensorType):
            return
        tensor_type = cast("TensorType[Attribute]", result)
        shape = tensor_type.get_shape()
        if DYNAMIC_INDEX in shape:
            return
        try:
            check_addressable(shape)
        except ValueError:
            raise EvaluationError(op, f"gives {result}, which no address space holds") from None
        dtype = dtype_of(tensor_type.element_type, self.float_format)
        if dtype is not None and op.name not in _UNWRITTEN:
            require_memory(op, prod(shape) * dtype.itemsize)

    def assign(
        self, op: Operation, values: Sequence[SSAValue], arrays: Sequence[Array], frame: Frame
    ) -> None:
        """Bind `values` to `arrays` in `frame`, checking the shapes that the types promise."""
        for value, array in zip(values, arrays, strict=True):
            if not has_shape(value.type, array.shape):
                raise EvaluationError(op, f"gives a tensor of {array.shape} where {value.type} is")
            frame.values[value] = array

    def _block_last_uses(self, block: Block) -> dict[Operation, tuple[SSAValue, ...]]:
        if block in self._last_uses:
            return self._last_uses[block]
        seen: set[SSAValue] = set()
        last_uses: dict[Operation, tuple[SSAValue, ...]] = {}
        local = {*block.args, *(result for op in block.ops for result in op.results)}
        for op in reversed(tuple(block.ops)):
            used = {operand for inner in op.walk() for operand in inner.operands}
            used.update(result for result in op.results if not result.uses)
            last_uses[op] = tuple((used & local) - seen)
            seen |= used
        self._last_uses[block] = last_uses
        return last_uses


def require_memory(op: Operation, size: int) -> None:
    """Refuse an array of `size` bytes, which `op` needs, where there is not so much memory.

    Raises:
        EvaluationError: there is not.
    """
    if size > memory_bytes():
        raise EvaluationError(op, f"takes {size} bytes, more than the {memory_bytes()} of memory")


def has_shape(declared: Attribute, shape: Sequence[int]) -> bool:
    """Whether a tensor of type `declared` may have `shape`; other types have none to check."""
    if not isinstance(declared, TensorType):
        return True
    sizes = cast("TensorType[Attribute]", declared).get_shape()
    return len(sizes) == len(shape) and all(
        size in (DYNAMIC_INDEX, actual) for size, actual in zip(sizes, shape, strict=True)
    )


def uniform(op: Operation, values: Array, what: str) -> int:
    """The one integer that `values` holds, which may be broadcast over loops.

    Raises:
        EvaluationError: it differs between elements, so that `op` cannot be run whole.
    """
    flat = np.asarray(values).reshape(-1)
    if flat.size == 0 or not bool(np.all(flat == flat[0])):
        raise EvaluationError(op, f"has a {what} that differs between loop iterations")
    return int(flat[0])
