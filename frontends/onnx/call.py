"""One node being imported, and the graph around it: what an operator's function asks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import AnyFloat

from convir.dialects.address_space import MAX_RANK
from convir.frontends.elements import INLINE_ELEMENTS, constant, element_type_of_array
from convir.frontends.emitter import element_of, shape_of
from convir.frontends.onnx.digests import Digests
from convir.frontends.onnx.errors import MisfitError, NodeError, OnnxError
from convir.frontends.scalar_functions import converted

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from xdsl.ir import SSAValue

    from convir.frontends.elements import Array
    from convir.frontends.emitter import Emitter
    from convir.frontends.onnx.model import Model, Node
    from convir.frontends.onnx.steps import Steps

_MISSING: Any = object()

LARGEST = 2**31 - 1
"""No window, stride, padding or count is larger."""


Requantise: TypeAlias = "Callable[[Steps, int], SSAValue | None]"
"""Unsigned bytes of given steps, none below a given one; None if these steps need the reals."""


@dataclass(frozen=True)
class Dequantised:
    """What a tensor of reals is: `scale * (integers - zero)`."""

    integers: SSAValue | Array
    """Computed, or constants."""
    scale: Array
    """f32: one number, or one for each element along an axis; broadcasts with the tensor."""
    zero: Array
    """Integers of the quantised type, of the same shape."""


@dataclass
class Graph:
    """The values of a model that are known so far."""

    model: Model
    emit: Emitter
    """Where ops go."""
    constants: dict[str, Array]
    """What is known at import: the model's constants, and shapes computed from them."""
    digests: Digests = field(default_factory=lambda: Digests({}, ()))
    """Of the constants that the model's file holds."""
    values: dict[str, SSAValue] = field(default_factory=dict[str, "SSAValue"])
    taken: dict[str, Node] = field(default_factory=dict[str, "Node"])
    """A node's first output to the node behind it that its function computes too."""
    readers: dict[str, list[Node]] = field(default_factory=dict[str, "list[Node]"])
    reads: Counter[str] = field(default_factory=Counter[str])
    """How many times each value is read, by subgraphs and as an output of the graph too."""
    dequantised: dict[str, Dequantised] = field(default_factory=dict[str, "Dequantised"])
    """The tensors that are known to be quantised integers, by name."""
    held_bytes: dict[str, SSAValue] = field(default_factory=dict[str, "SSAValue"])
    """The unsigned bytes of quantised tensors, by their names and by those of their reals."""
    requantise: dict[str, Requantise] = field(default_factory=dict[str, "Requantise"])
    """How tensors of reals are quantised without becoming reals, by name."""
    inlined: int = 0
    """How many nodes of subgraphs were put in their place."""
    has_dead_ops: bool = False
    """Whether ops of a branch that nothing can run are left."""
    lost: set[str] = field(default_factory=set[str])
    """What nodes that are refused would give, and all that depends on it."""

    def __post_init__(self) -> None:
        self.place = self.emit.location
        """Of the model."""
        self.announce(self.model.nodes, [port.name for port in self.model.outputs])

    def announce(self, nodes: Sequence[Node], outputs: Sequence[str]) -> None:
        """Say what will be read, before the first of `nodes` is imported."""
        self.reads.update(outputs)
        for node in nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)
            self.reads.update(names_read(node))

    def is_known(self, name: str) -> bool:
        """Whether `name` is a constant, or computed already."""
        return name in self.values or name in self.constants

    def alias(self, name: str, of: str) -> None:
        """Call what is called `of` also `name`.

        Raises:
            OnnxError: there is no such value.
        """
        if of in self.constants:
            self.constants[name] = self.constants[of]
        elif of in self.values:
            self.values[name] = self.values[of]
        elif of in self.lost:
            self.lost.add(name)
        else:
            raise self.error(f"nothing computes '{of}'")

    def error(self, message: str) -> OnnxError:
        """An error in this model."""
        return OnnxError(self.model.file, message)

    def value(self, name: str) -> SSAValue | None:
        """The tensor called `name`; a constant becomes an op where it is first read."""
        if name not in self.values and name in self.constants:
            self.define(name, self._constant(name, self.constants[name]))
        return self.values.get(name)

    def define(self, name: str, value: SSAValue) -> None:
        """`value` is what the model calls `name`."""
        self.values[name] = value
        if value.name_hint is None:
            value.name_hint = _hint(name)

    def _constant(self, name: str, array: Array) -> SSAValue:
        key = name if name in self.model.stored else None
        element = element_type_of_array(array)
        if key is None and element is not None and _is_uniform(array):
            return self.emit.filled(array.flat[0], array.shape, element)
        try:
            digest = None if key is None else self.digests.of(key, array)
            return self.emit.insert(constant(array, self.model.file, key, digest))
        except TypeError as error:
            raise self.error(f"tensor '{name}' has {error}") from error


def names_read(node: Node) -> Generator[str]:
    """What a node reads, its subgraphs included."""
    yield from node.inputs
    for subgraph in node.subgraphs:
        yield from subgraph.outputs
        for inner in subgraph.nodes:
            yield from names_read(inner)


def _is_uniform(array: Array) -> bool:
    """Whether a large array has the same bits everywhere."""
    if array.size <= INLINE_ELEMENTS:
        return False
    # Most differ within the first elements, which are read without a copy of all.
    return _are_equal(array.flat[:INLINE_ELEMENTS]) and _are_equal(np.ascontiguousarray(array))


def _are_equal(array: Array) -> bool:
    elements = array.view(np.uint8).reshape(array.size, -1)
    return bool((elements == elements[0]).all())


def _hint(name: str) -> str | None:
    """What a value is called in the text: its name with other characters as underscores."""
    hint = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_0123456789")
    return hint or None


@dataclass
class Call:
    """A node being imported: what an operator's function asks of it."""

    node: Node
    graph: Graph
    _asked: set[str] = field(default_factory=set[str])

    @property
    def emit(self) -> Emitter:
        """Where ops go."""
        return self.graph.emit

    @property
    def opset(self) -> int:
        """The version of the standard operators."""
        return self.graph.model.opset

    def error(self, message: str) -> NodeError:
        """An error that names the node."""
        return NodeError(self.graph.model.file, self.node.label, self.node.op, message)

    def misfit(self, message: str) -> MisfitError:
        """The error of inputs whose shapes the operator is not about."""
        return MisfitError(self.graph.model.file, self.node.label, self.node.op, message)

    def converted(self, value: SSAValue, element: AnyFloat) -> SSAValue:
        """A tensor of floats with elements of any float type, rounded at most once."""
        if element_of(value) == element:
            return value
        return self.emit.elementwise(
            [value], lambda body, args: converted(body, args[0], element), element
        )

    def has(self, position: int) -> bool:
        """Whether an input is given."""
        inputs = self.node.inputs
        return position < len(inputs) and bool(inputs[position])

    def input(self, position: int) -> SSAValue:
        """An input as a tensor.

        Raises:
            OnnxError: it is left out.
        """
        if not self.has(position):
            raise self.error(f"input #{position} is missing")
        value = self.graph.value(self.node.inputs[position])
        assert value is not None  # nodes that read what nothing computes are refused before
        return value

    @property
    def inputs(self) -> list[SSAValue]:
        """All inputs as tensors."""
        return [self.input(position) for position in range(len(self.node.inputs))]

    def alike(self, *positions: int) -> list[SSAValue]:
        """Inputs as tensors of one element type.

        Raises:
            OnnxError: one is left out, or of another element type.
        """
        first, *others = values = [self.input(position) for position in positions]
        for other in others:
            if element_of(other) != element_of(first):
                types = f"{element_of(first)} and of {element_of(other)}"
                raise self.error(f"its inputs are of {types}")
        return values

    def floats(self, *positions: int) -> list[SSAValue]:
        """Inputs as tensors of one float type.

        Raises:
            OnnxError: one is left out, or of another element type.
        """
        values = self.alike(*positions)
        element = element_of(values[0])
        if not isinstance(element, AnyFloat):
            raise self.error(f"is not supported on elements of type {element}")
        return values

    def shaped(self, value: SSAValue, shape: Sequence[int], what: str) -> SSAValue:
        """A tensor that must have this shape.

        Raises:
            OnnxError: it has another one.
        """
        if shape_of(value) != tuple(shape):
            raise self.misfit(f"{what} has the shape {list(shape_of(value))}, not {list(shape)}")
        return value

    def check_rank(self, value: SSAValue, least: int) -> None:
        """Refuse a tensor of fewer dimensions than the operator is about.

        Raises:
            OnnxError: it has fewer.
        """
        if len(shape_of(value)) < least:
            raise self.misfit(f"takes {least} dimensions or more, not {list(shape_of(value))}")

    def known(self, position: int, what: str) -> Array:
        """An input that must be a constant.

        Raises:
            OnnxError: it is left out, or computed.
        """
        array = self.constant(position)
        if array is None:
            raise self.error(f"{what} (input #{position}) must be a constant")
        return array

    def known_integers(self, position: int, what: str) -> list[int]:
        """An input that must be a constant list of integers.

        Raises:
            OnnxError: it is left out, computed, or something else.
        """
        return self._list(position, what, "iu", "integers")

    def known_numbers(self, position: int, what: str) -> list[float]:
        """An input that must be a constant list of numbers.

        Raises:
            OnnxError: it is left out, computed, or something else.
        """
        return self._list(position, what, "fiu", "numbers")

    def known_scalar(self, position: int, what: str) -> float:
        """An input that must be one constant number.

        Raises:
            OnnxError: it is left out, computed, or something else.
        """
        array = self.known(position, what)
        if array.size != 1 or element_type_of_array(array) is None:
            raise self.error(f"{what} (input #{position}) is not a single number")
        return array.item()

    def _list(self, position: int, what: str, kinds: str, name: str) -> list[Any]:
        array = self.known(position, what)
        if array.ndim > 1 or array.dtype.kind not in kinds:
            raise self.error(f"{what} (input #{position}) is not a list of {name}")
        return array.reshape(-1).tolist()

    def is_known(self, position: int) -> bool:
        """Whether an input is given, as a constant."""
        return self.constant(position) is not None

    def constant(self, position: int) -> Array | None:
        """An input if it is given, as a constant."""
        return self.graph.constants.get(self.node.inputs[position]) if self.has(position) else None

    def attribute(self, name: str, default: Any = _MISSING) -> Any:
        """An attribute; its default where it is not given.

        Raises:
            OnnxError: it is not given and has no default.
        """
        self._asked.add(name)
        value = self.node.attributes.get(name, default)
        if value is _MISSING:
            raise self.error(f"attribute '{name}' is missing")
        return value

    def number(self, name: str, default: float) -> float:
        """A float attribute: one of f32, as a model stores it, and so is its default."""
        return float(np.float32(self.attribute(name, default)))

    def integers(
        self, name: str, default: Sequence[int], least: int | None = None
    ) -> tuple[int, ...]:
        """An attribute that is a list of integers, of as many as `default` has.

        Raises:
            OnnxError: it has another number of them, or one is below `least` or far too large.
        """
        values = tuple(int(value) for value in self.attribute(name, default))
        if len(values) != len(default):
            raise self.error(f"'{name}' has {len(values)} values, not {len(default)}")
        if least is not None and any(value < least for value in values):
            raise self.error(f"'{name}' is {list(values)}, not all at least {least}")
        if any(abs(value) > LARGEST for value in values):
            raise self.error(f"'{name}' is {list(values)}, not all at most {LARGEST}")
        return values

    def count(self, name: str, default: Any = _MISSING) -> int:
        """An attribute that says how many there are of something.

        Raises:
            OnnxError: it is missing, or below 1.
        """
        value = int(self.attribute(name, default))
        if value < 1:
            raise self.error(f"'{name}' is {value}, not at least 1")
        if value > LARGEST:
            raise self.error(f"'{name}' is {value}, not at most {LARGEST}")
        return value

    def axis(self, axis: int, rank: int) -> int:
        """A dimension of a tensor of `rank`; a negative number counts from its end.

        Raises:
            OnnxError: it has no such dimension.
        """
        if not -rank <= axis < rank:
            raise self.misfit(f"a tensor of rank {rank} has no axis {axis}")
        return axis % rank

    def axes(self, axes: Iterable[int], rank: int) -> list[int]:
        """Dimensions of a tensor of `rank`.

        Raises:
            OnnxError: it has no such dimension, or one is named twice.
        """
        if rank > MAX_RANK:
            raise self.error(f"no tensor has {rank} dimensions")
        given = [int(axis) for axis in axes]
        found = [self.axis(axis, rank) for axis in given]
        if len(set(found)) < len(found):
            raise self.error(f"the axes {given} name one twice")
        return found

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        """An attribute that is one of a few words.

        Raises:
            OnnxError: it is another one.
        """
        value = str(self.attribute(name, default))
        if value not in choices:
            raise self.error(f"'{name}' is {value!r}; supported are {', '.join(choices)}")
        return value

    def refuse_attributes(self) -> None:
        """Raise the error of an attribute that nothing asked for."""
        for name in self.node.attributes:
            if name not in self._asked:
                raise self.error(f"attribute '{name}' is not supported")

    def follower(self, op: str, known: Sequence[int]) -> Call | None:
        """The one reader of this result, if it is an `op` whose inputs `known` are constants: all
        but its first one."""
        name = self.node.outputs[0]
        readers = self.graph.readers.get(name, [])
        if self.graph.reads[name] != 1 or len(readers) != 1:
            return None
        call = Call(readers[0], self.graph)
        if readers[0].op != op:
            return None
        return call if all(call.is_known(position) for position in known) else None

    def take(self, follower: Call) -> None:
        """This node's function computes `follower` too, in the place of its own result."""
        follower.refuse_attributes()
        self.graph.taken[self.node.outputs[0]] = follower.node
