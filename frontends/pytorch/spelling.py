"""Calls of ATen operators as nodes and constants of `convir.frontends.onnx.model.Model`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import ml_dtypes
import numpy as np
import torch

from convir.frontends.onnx.model import Model, Node, Port
from convir.frontends.pytorch.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from convir.frontends.elements import Array

    Dtype: TypeAlias = torch.dtype
    Shape: TypeAlias = tuple[int, ...]

FILE = "<module>"
"""What errors call a module of PyTorch."""
OPSET = 22
"""Whose operators are spelled."""

ELEMENTS: Mapping[torch.dtype, int] = {
    torch.float32: 1,
    torch.int8: 3,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.bool: 9,
    torch.float16: 10,
    torch.float64: 11,
    torch.bfloat16: 16,
}
"""The `TensorProto.DataType` of a dtype."""
_HOLDING: Mapping[torch.dtype, tuple[torch.dtype, ...]] = {
    torch.float16: (torch.float32, torch.float64),
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
}
"""The dtypes that hold all elements of one."""
_DTYPES: Mapping[str, torch.dtype] = {str(each).partition(".")[2]: each for each in ELEMENTS}
"""By NumPy's names."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of the graph: computed by a node, or an input."""

    name: str
    shape: Shape
    dtype: Dtype

    @property
    def rank(self) -> int:
        """The number of its dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of its elements."""
        return prod(self.shape)


class Spelling:
    """A model as it grows."""

    def __init__(self) -> None:
        self._nodes: list[Node] = []
        self._constants: dict[str, Array] = {}
        self._shared: dict[Any, Value] = {}
        self._kept: list[Any] = []
        self._narrow: dict[str, Value] = {}
        """What a value is a cast of that loses nothing, by the value's name."""
        self.label = ""
        """What nodes are called from now on: the call that they are of."""

    def model(self, inputs: Sequence[Value], outputs: Sequence[Value]) -> Model:
        """All of it."""
        return Model(
            file=FILE,
            opset=OPSET,
            nodes=tuple(self._nodes),
            constants=self._constants,
            stored=frozenset(),
            inputs=tuple(map(_port, inputs)),
            outputs=tuple(map(_port, outputs)),
        )

    def node(
        self,
        op: str,
        inputs: Sequence[Value | None],
        shape: Sequence[int],
        dtype: Dtype | None = None,
        **attributes: Any,
    ) -> Value:
        """The result of one more node.

        Args:
            op: an operator of ONNX.
            inputs: its operands; None for one that is left out.
            shape: of the result.
            dtype: of the result; that of the first operand if None.
            attributes: of the operator.
        """
        first = inputs[0]
        found = dtype if dtype is not None else (None if first is None else first.dtype)
        assert found is not None
        return self.nodes(op, inputs, [(tuple(shape), found)], **attributes)[0]

    def nodes(
        self,
        op: str,
        inputs: Sequence[Value | None],
        results: Sequence[tuple[Shape, Dtype]],
        **attributes: Any,
    ) -> list[Value]:
        """All results of one more node, each of a shape and dtype."""
        start = len(self._nodes)
        values = [
            Value(f"v{start}_{i}" if i else f"v{start}", tuple(shape), dtype)
            for i, (shape, dtype) in enumerate(results)
        ]
        names = tuple("" if x is None else x.name for x in inputs)
        outputs = tuple(value.name for value in values)
        self._nodes.append(Node(self.label, op, "", names, outputs, attributes))
        return values

    def constant(self, array: Array, dtype: Dtype | None = None) -> Value:
        """A constant; of `dtype` where NumPy has no such type."""
        key = None
        if array.size <= 1:
            key = array.tobytes(), array.dtype.str, array.shape, dtype
            if key in self._shared:
                return self._shared[key]
        name = f"c{len(self._constants)}"
        self._constants[name] = array
        value = Value(name, array.shape, dtype or _DTYPES[array.dtype.name])
        if key is not None:
            self._shared[key] = value
        return value

    def integers(self, values: Sequence[int]) -> Value:
        """A constant list of i64."""
        return self.constant(np.asarray(values, np.int64).reshape(len(values)))

    def number(self, value: float, dtype: Dtype) -> Value:
        """A constant of no dimensions, of any dtype."""
        return self.tensor(torch.tensor(value, dtype=dtype))

    def tensor(self, tensor: torch.Tensor) -> Value:
        """A constant that is the memory of `tensor`, which is not copied.

        Raises:
            UnsupportedError: its elements are of a type that the IR does not have.
        """
        key = id(tensor)
        if key not in self._shared:
            self._shared[key] = self.constant(array_of(tensor), tensor.dtype)
            self._kept.append(tensor)
        return self._shared[key]

    def known(self, value: Value) -> Array | None:
        """The elements of a constant; None of another value."""
        return self._constants.get(value.name)

    def cast(self, value: Value, dtype: Dtype) -> Value:
        """`value` with elements of `dtype`.

        What was cast to hold more, and moved since, is what was moved, if it is cast back.

        Raises:
            UnsupportedError: the IR has no such elements.
        """
        if value.dtype == dtype:
            return value
        narrow = self._narrow.get(value.name)
        if narrow is not None and narrow.dtype == dtype:
            return narrow
        made = self.node("Cast", [value], value.shape, dtype, to=element_of(dtype))
        if dtype in _HOLDING.get(value.dtype, ()):
            self._narrow[made.name] = value
        return made

    def _moved(self, value: Value, move: Callable[[Value], Value]) -> Value:
        """`value` with its elements elsewhere: a cast of as many bytes as may be."""
        narrow = self._narrow.get(value.name)
        return move(value) if narrow is None else self.cast(move(narrow), value.dtype)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The elements of `value`, in their order."""
        if value.shape == tuple(shape):
            return value
        listed = self.integers(shape)
        return self._moved(value, lambda x: self.node("Reshape", [x, listed], shape, allowzero=1))

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """Dimension `i` of the result is dimension `order[i]` of `value`."""
        order = [axis % max(value.rank, 1) for axis in order]
        if order == sorted(order):
            return value
        shape = [value.shape[i] for i in order]
        return self._moved(value, lambda x: self.node("Transpose", [x], shape, perm=order))

    def expand(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` repeated along dimensions of size 1, and along new ones before the others."""
        if value.shape == tuple(shape):
            return value
        listed = self.integers(shape)
        return self._moved(value, lambda x: self.node("Expand", [x, listed], shape))

    def repeated(self, value: Value, counts: Sequence[int]) -> Value:
        """`value` with each element along dimension `i` `counts[i]` times."""
        if all(count == 1 for count in counts):
            return value
        shape = [size * count for size, count in zip(value.shape, counts, strict=True)]
        scales = self.constant(np.asarray(counts, np.float32))
        how: dict[str, Any] = {
            "mode": "nearest",
            "coordinate_transformation_mode": "asymmetric",
            "nearest_mode": "floor",
        }
        return self._moved(value, lambda x: self.node("Resize", [x, None, scales], shape, **how))

    def slice(self, value: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
        """Every `step`-th element from `start` up to before `end` along `axis`."""
        size = value.shape[axis]
        if (start, end, step) == (0, size, 1):
            return value
        shape = list(value.shape)
        shape[axis] = len(range(start, end, step))
        bounds = [self.integers([number]) for number in (start, end, axis, step)]
        return self._moved(value, lambda x: self.node("Slice", [x, *bounds], shape))

    def concat(self, values: Sequence[Value], axis: int) -> Value:
        """Values one after the other along `axis`."""
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        shape[axis] = sum(value.shape[axis] for value in values)
        return self.node("Concat", values, shape, axis=axis)


def element_of(dtype: Dtype) -> int:
    """The `TensorProto.DataType` of a dtype.

    Raises:
        UnsupportedError: the IR has no such elements.
    """
    if dtype not in ELEMENTS:
        raise UnsupportedError(f"elements of {dtype}")
    return ELEMENTS[dtype]


def array_of(tensor: torch.Tensor) -> Array:
    """The memory of a tensor on the host as an array; of one on a GPU, a copy.

    Raises:
        UnsupportedError: its elements are of a type that the IR does not have.
    """
    element_of(tensor.dtype)
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype == torch.bfloat16:
        bits: Array = plain.view(torch.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    return plain.numpy()


def _port(value: Value) -> Port:
    return Port(value.name, element_of(value.dtype), value.shape)
