"""A graph of ATen calls, whatever PyTorch made it: inputs, known tensors, calls, outputs."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import torch
from torch import fx
from torch._ops import OpOverload

from convir.frontends.onnx.errors import OnnxError
from convir.frontends.onnx.importer import module_of_model
from convir.frontends.pytorch.call import AtenCall
from convir.frontends.pytorch.errors import UnsupportedError
from convir.frontends.pytorch.ops import OPERATORS
from convir.frontends.pytorch.spelling import Spelling, Value, element_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from convir.frontends.onnx.model import Model
    from convir.frontends.pytorch.spelling import Dtype, Shape

_tree: Any = import_module("torch.utils._pytree")

_FLOATS = frozenset(
    element_of(each) for each in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
)
_RANDOM = (torch.Tag.nondeterministic_seeded,)


@dataclass(frozen=True)
class TensorPlace:
    """A tensor at the border of a program: how PyTorch sees it, and how its memory lies."""

    shape: Shape
    strides: tuple[int, ...]
    dtype: Dtype
    order: tuple[int, ...]
    """Its dimensions, the one with the largest stride first: permuted so it is dense."""

    @property
    def dense_shape(self) -> Shape:
        """Of the tensor permuted so."""
        return tuple(self.shape[axis] for axis in self.order)

    @property
    def dense_strides(self) -> tuple[int, ...]:
        """Of a tensor of this shape without gaps, whose dimensions lie in this order."""
        strides = [0] * len(self.shape)
        step = 1
        for axis in reversed(self.order):
            strides[axis] = step
            step *= max(self.shape[axis], 1)
        return tuple(strides)

    @property
    def is_dense(self) -> bool:
        """Whether PyTorch's strides are those, but where there is one element."""
        return all(
            size <= 1 or stride == dense
            for size, stride, dense in zip(
                self.shape, self.strides, self.dense_strides, strict=True
            )
        )


@dataclass(frozen=True)
class AtenProgram:
    """A graph as a model of ONNX's operators, and what its callers hold."""

    model: Model
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]


def place_of(tensor: torch.Tensor, what: str, *, dense: bool = True) -> TensorPlace:
    """How a tensor lies; dense in its logical order where `dense` is false.

    Raises:
        UnsupportedError: it has sizes that are open, elements that the IR has no type for, or
            memory between its elements.
    """
    element_of(tensor.dtype)
    shape = _integers(tensor.shape, what)
    strides = _integers(tensor.stride(), what)
    order = tuple(range(len(shape)))
    if dense:
        order = tuple(sorted(order, key=lambda axis: (-strides[axis], shape[axis] != 1, axis)))
        if not tensor.is_contiguous() and not tensor.permute(order).is_contiguous():
            raise UnsupportedError(f"{what} is not dense")
        if tensor.is_contiguous():
            order = tuple(range(len(shape)))
    return TensorPlace(shape, strides, tensor.dtype, order)


def _integers(sizes: Sequence[Any], what: str) -> tuple[int, ...]:
    if not all(isinstance(size, int) for size in sizes):
        raise UnsupportedError(f"{what} has open sizes")
    return tuple(int(size) for size in sizes)


def read_graph(
    graph: fx.Graph,
    known: Mapping[str, torch.Tensor],
    *,
    keeps_layouts: bool = True,
) -> AtenProgram:
    """A functional graph of ATen calls.

    Args:
        graph: whose nodes have what they give as fake tensors in `meta["val"]`.
        known: tensors that are constants, by the names of placeholders and `get_attr` nodes.
        keeps_layouts: whether inputs and outputs lie as PyTorch's tensors do, such as channels
            last; or all are dense in their logical order.

    Raises:
        UnsupportedError: something in it has no spelling; the text names the calls.
    """
    return _Reader(known, keeps_layouts=keeps_layouts).program(graph)


def refusal(node: fx.Node) -> str | None:
    """Why a call has no spelling, read alone; None if it has one."""
    try:
        model = _Reader({}, keeps_layouts=True).alone(node)
    except UnsupportedError as error:
        return str(error)
    ports = (*model.inputs, *model.outputs)
    if all(port.element in _FLOATS and port.shape and 0 not in port.shape for port in ports):
        return None
    try:  # Many an operator that is spelled is one of floats alone, or wants elements.
        module_of_model(model)
    except OnnxError as error:
        message = error.diagnostics[0].message
        return message.partition("): ")[2] or message
    return None


class _Reader:
    """Reads one graph."""

    def __init__(self, known: Mapping[str, torch.Tensor], *, keeps_layouts: bool) -> None:
        self._spell = Spelling()
        self._known = known
        self._keeps_layouts = keeps_layouts
        self._values: dict[fx.Node, Any] = {}
        """A `Value`, a tensor that is known, or a list of these."""
        self._lost: set[fx.Node] = set()
        """Calls that have no spelling, and all that depends on them."""

    def program(self, graph: fx.Graph) -> AtenProgram:
        """All of it.

        Raises:
            UnsupportedError: a call has no spelling.
        """
        inputs: list[Value] = []
        places: list[TensorPlace] = []
        refused: dict[str, list[str]] = {}
        outputs: Sequence[Any] = ()
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                if node.name in self._known:
                    self._values[node] = self._known[node.name]
                elif node.op == "placeholder":
                    self._input(node, inputs, places)
                else:
                    raise UnsupportedError(f"'{node.name}' is no known tensor")
            elif node.op == "output":
                given = node.args[0]
                outputs = cast("Sequence[Any]", given if _is_list(given) else [given])
            elif node.users:  # Else it only checks something.
                self._try_call(node, refused)
        if refused:
            raise UnsupportedError(
                "; ".join(f"{', '.join(names)}: {reason}" for reason, names in refused.items())
            )
        ends = [self._output(node) for node in outputs]
        model = self._spell.model(inputs, [value for value, _ in ends])
        return AtenProgram(model, tuple(places), tuple(place for _, place in ends))

    def alone(self, node: fx.Node) -> Model:
        """One call, and what it reads as inputs.

        Raises:
            UnsupportedError: it has no spelling.
        """
        for each in node.all_input_nodes:
            self._invent(each)
        self.call(node)
        for user in node.users:
            if user.target is operator.getitem and user.users:
                self.call(user)
        inputs, outputs = (
            [leaf for each in nodes for leaf in _values_in(self._values[each])]
            for nodes in (node.all_input_nodes, [node])
        )
        return self._spell.model(inputs, outputs)

    def _invent(self, node: fx.Node) -> None:
        """Take what a node gives as inputs."""
        found = node.meta.get("val")
        if isinstance(found, torch.Tensor):
            self._values[node] = self._invented(node.name, found)
        elif isinstance(found, list | tuple):
            each = cast("Sequence[Any]", found)
            self._values[node] = [
                self._invented(f"{node.name}_{i}", x) if isinstance(x, torch.Tensor) else None
                for i, x in enumerate(each)
            ]
        else:
            raise UnsupportedError("sizes that are open")

    def _invented(self, name: str, tensor: torch.Tensor) -> Value:
        place = place_of(tensor, "an operand", dense=False)
        return Value(name, place.shape, place.dtype)

    def _place(self, node: fx.Node, what: str) -> TensorPlace:
        """How what a node gives lies; in its logical order where there are gaps."""
        tensor = node.meta["val"]
        if self._keeps_layouts:
            try:
                return place_of(tensor, what)
            except UnsupportedError:
                pass
        return place_of(tensor, what, dense=False)

    def _input(self, node: fx.Node, inputs: list[Value], places: list[TensorPlace]) -> None:
        tensor = node.meta["val"]
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedError("sizes that are open")
        place = self._place(node, "an input")
        value = Value(node.name, place.dense_shape, place.dtype)
        inputs.append(value)
        places.append(place)
        self._spell.label = node.name
        back = sorted(range(value.rank), key=lambda i: place.order[i])
        self._values[node] = self._spell.transpose(value, back)

    def _output(self, node: Any) -> tuple[Value, TensorPlace]:
        if not isinstance(node, fx.Node):
            raise UnsupportedError("a result that is no tensor")
        value = self._spelled(self._values[node])
        if not isinstance(value, Value):
            raise UnsupportedError("a result that is no tensor")
        place = self._place(node, f"the result '{node.name}'")
        self._spell.label = node.name
        turned = self._spell.transpose(value, place.order)
        # A value of its own: not an input, a constant, or another output's.
        return self._spell.node("Identity", [turned], turned.shape), place

    def _try_call(self, node: fx.Node, refused: dict[str, list[str]]) -> None:
        """Spell a call, or remember why not; what reads its result is not tried then."""
        if not self._lost.isdisjoint(node.all_input_nodes):
            self._lost.add(node)
            return
        try:
            self.call(node)
        except UnsupportedError as error:
            refused.setdefault(str(error), []).append(node.name)
            self._lost.add(node)

    def call(self, node: fx.Node) -> None:
        """Spell one call.

        Raises:
            UnsupportedError: it has no spelling.
        """
        target = cast("Any", node.target)
        if target is operator.getitem:
            listed, index = cast("tuple[fx.Node, int]", node.args)
            found = self._values[listed]
            if found[index] is None:
                raise UnsupportedError(f"result {index} of {listed.target}")
            self._values[node] = found[index]
            return
        if target is torch.ops.aten.as_strided.default:
            self._values[node] = self._strided(node)
            return
        if not isinstance(target, OpOverload):
            raise UnsupportedError(f"{target} is no ATen operator")
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._values.__getitem__)
        if self._is_known(target, args, kwargs):
            self._values[node] = target(*args, **kwargs)
            return
        self._spell.label = node.name
        self._values[node] = self._call(node, target, args, kwargs)

    def _strided(self, node: fx.Node) -> Any:
        """Other strides of the same elements: their dimensions in another order.

        Raises:
            UnsupportedError: they are something else.
        """
        source = cast("fx.Node", node.args[0])
        given, made = source.meta["val"], node.meta["val"]
        whole = given.numel() == made.numel() and given.storage_offset() == made.storage_offset()
        axes = {
            (size, stride): axis
            for axis, (size, stride) in enumerate(zip(given.shape, given.stride(), strict=True))
            if size != 1
        }
        wanted = [
            (size, stride)
            for size, stride in zip(made.shape, made.stride(), strict=True)
            if size != 1
        ]
        if not whole or len(wanted) != len(axes) or not set(wanted) <= set(axes):
            raise UnsupportedError("strides that are no order of its dimensions")
        value = self._spelled(self._values[source])
        ones = [axis for axis in range(value.rank) if value.shape[axis] == 1]
        self._spell.label = node.name
        value = self._spell.transpose(value, [axes[each] for each in wanted] + ones)
        return self._spell.reshape(value, _integers(made.shape, "a result"))

    def _is_known(self, target: Any, args: Any, kwargs: Any) -> bool:
        """Whether a call computes with what is known alone."""
        leaves: list[Any] = _tree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, Value) for leaf in leaves):
            return False
        if any(isinstance(leaf, torch.SymInt | torch.SymFloat | fx.Node) for leaf in leaves):
            raise UnsupportedError("sizes that are open")
        return not any(tag in target.tags for tag in _RANDOM)

    def _call(self, node: fx.Node, target: Any, args: Any, kwargs: Any) -> Any:
        name = str(target)
        function: Callable[[AtenCall], Any] | None = OPERATORS.get(name)
        if function is None:
            raise UnsupportedError(f"the operator {name} is not supported")
        found = node.meta.get("val")
        listed: Sequence[Any] = found if _is_list(found) else [found]
        results = tuple(map(_result, listed))
        arguments = _by_name(target, self._spelled(args), self._spelled(kwargs))
        made = function(AtenCall(self._spell, name, arguments, results))
        if not _is_list(found):
            made = made[0] if _is_list(made) else made
            _check(made, results[0], name)
            return made
        for each, result in zip(made, results, strict=True):
            if each is not None:
                _check(each, result, name)
        return list(made)

    def _spelled(self, given: Any) -> Any:
        """`given` with tensors that are known as constants."""

        def spelled(leaf: Any) -> Any:
            return self._spell.tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf

        return _tree.tree_map(spelled, given)


def _values_in(tree: Any) -> list[Value]:
    return [leaf for leaf in _tree.tree_leaves(tree) if isinstance(leaf, Value)]


def _check(made: Value, result: tuple[Shape, Dtype] | None, name: str) -> None:
    assert result is not None
    assert (made.shape, made.dtype) == result, f"{name}: {made.shape} {made.dtype}, not {result}"


def _is_list(found: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(found, list | tuple)


def _result(found: Any) -> tuple[Shape, Dtype] | None:
    if not isinstance(found, torch.Tensor):
        return None
    return _integers(found.shape, "a result"), found.dtype


def _by_name(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of its schema, defaults included."""
    found: dict[str, Any] = {}
    for position, argument in enumerate(target._schema.arguments):
        if position < len(args):
            found[argument.name] = args[position]
        elif argument.name in kwargs:
            found[argument.name] = kwargs[argument.name]
        else:
            found[argument.name] = argument.default_value
    return found
