"""`assign-layout`: the images of a graph have their channels last, and transposes at the edges.

    rewrite: %y = conv.fprop layouts(NCHW, …, NCHW) ins(%x, %w)     %t = transpose %x
             %r = generic(%y)                                   --> %y = conv.fprop layouts(NHWC, …)
             return %r                                              %r = generic(%y)
                                                                    return transpose %r

Preconditions: shapes are static; the convolutions of a component have their channels first.
Everything that is linked with a convolution's image by ops that compute as well on permuted
tensors (`analysis/layouts.py`) is permuted; where the component ends, tensors are transposed.

A component is rewritten if that moves fewer bytes than its convolutions would: a kernel whose
vectors hold channels copies an image with its channels first, and transposes its result. On
the host small convolutions along neighbouring frames need no copy (`fused_chain`).
With `layout=channels-outermost` images become CNHW: a 1x1 convolution is one matrix product for
the whole batch, with no copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from convir.analysis.layouts import CHANNELS_FIRST, HOST, components, links_of
from convir.analysis.linear import linear_map
from convir.analysis.structured import structured
from convir.dialects.conv.ops import DgradOp, FpropOp
from convir.dialects.linalg.moves import TransposeOp
from convir.dialects.stream_attributes import states_of
from convir.passes.builders.structured_rebuild import rebuilt
from convir.passes.dce import eliminate_dead_code
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device
from convir.passes.manager.quantities import bytes_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from convir.analysis.layouts import Component
    from convir.analysis.structured import Structured

_NAME: Final = "assign-layout"

LAYOUTS: Final = ("channels-last", "channels-outermost")

_SLICES = ("static_offsets", "static_sizes", "static_strides", "static_low", "static_high")
"""Properties with one number a dimension."""


def permutation_of(layout: str, rank: int) -> tuple[int, ...]:
    """Dimension i of a permuted image is dimension `result[i]` of it with its channels first."""
    spatial = range(2, rank)
    return (0, *spatial, 1) if layout == LAYOUTS[0] else (1, 0, *spatial)


@dataclass
class _Rewriter:
    """Rewrites one component of a block."""

    component: Component
    permutation: tuple[int, ...]
    position: dict[Operation, int]
    """Where the ops of the block stand; a new op stands where the one does that it replaces."""

    def __post_init__(self) -> None:
        self._inside = set(self.component.values)
        self._permuted: dict[SSAValue, SSAValue] = {}
        self._original: dict[SSAValue, SSAValue] = {}

    def rewrite(self) -> dict[SSAValue, SSAValue]:
        """Compute the component permuted, and transpose at its edges.

        Gives what stands for values that are not of the component, but of ops that read it.
        """
        replaced: dict[SSAValue, SSAValue] = {}
        rewritten: list[Operation] = []
        for op in self._ops():
            linked = [value for value in links_of(op, self._inside) if value in self._inside]
            if not linked:
                self._read_originals(op)
                continue
            new = self._moved(op, set(linked))
            Rewriter.insert_op(new, InsertPoint.before(op))
            self.position[new] = self.position[op]
            rewritten.append(op)
            for old, result in zip(op.results, new.results, strict=True):
                result.name_hint = old.name_hint
                if old in linked:
                    self._permuted[old] = result
                else:
                    old.replace_all_uses_with(result)
                    replaced[old] = result
        for op in reversed(rewritten):
            Rewriter.erase_op(op)
        return replaced

    def _ops(self) -> list[Operation]:
        """The ops of the block that compute or read a value of the component, in order."""
        ops: set[Operation] = set()
        for value in self.component.values:
            if isinstance(value.owner, Operation):
                ops.add(value.owner)
            for use in value.uses:
                op: Operation | None = use.operation
                while op is not None and op not in self.position:
                    op = op.parent_op()
                if op is not None:
                    ops.add(op)
        return sorted(ops, key=self.position.__getitem__)

    def _read_originals(self, op: Operation) -> None:
        """Let an op outside of the component read what it computes, transposed back."""
        for inner in op.walk():
            for number, operand in enumerate(inner.operands):
                if operand in self._permuted:
                    inner.operands[number] = self._restored(operand)

    def _restored(self, value: SSAValue) -> SSAValue:
        if value not in self._original:
            moved = self._permuted[value]
            back = [self.permutation.index(dim) for dim in range(len(self.permutation))]
            self._original[value] = _transposed(moved, back, InsertPoint.after(_owner(moved)))
        return self._original[value]

    def _of(self, value: SSAValue) -> SSAValue:
        """`value` permuted."""
        if value not in self._permuted:
            owner = value.owner
            point = (
                InsertPoint.at_start(owner)
                if isinstance(owner, Block)
                else InsertPoint.after(owner)
            )
            self._permuted[value] = _transposed(value, self.permutation, point)
            self._original[value] = value
        return self._permuted[value]

    def _moved(self, op: Operation, linked: set[SSAValue]) -> Operation:
        """`op` on permuted tensors."""
        operands = [self._of(value) if value in linked else value for value in op.operands]
        view = structured(op)
        if view is not None:
            return self._structured(view, operands, linked)
        properties = dict(op.properties)
        if isinstance(op, FpropOp | DgradOp):
            letters = op.input_layout.data
            moved = StringAttr("".join(letters[dim] for dim in self.permutation))
            properties |= {"input_layout": moved, "output_layout": moved}
        for name in _SLICES:
            if name in properties:
                numbers = cast("DenseArrayBase[IntegerType]", properties[name]).get_values()
                order = [numbers[dim] for dim in self.permutation]
                properties[name] = DenseArrayBase.from_list(i64, order)
        types = [self._type(result) for result in op.results]
        if "value" in properties:
            splat = cast("DenseIntOrFPElementsAttr[IntegerType]", properties["value"])
            kind = cast("TensorType[IntegerType]", types[0])
            properties["value"] = DenseIntOrFPElementsAttr(kind, splat.data)
        new = type(op).create(
            operands=operands,
            result_types=types,
            properties=properties,
            attributes=dict(op.attributes),
            regions=[region.clone() for region in op.regions],
        )
        new.location = op.location
        return new

    def _structured(
        self, view: Structured, operands: Sequence[SSAValue], linked: set[SSAValue]
    ) -> Operation:
        """Permuted operands are walked by permuted maps, and the loops follow the result."""
        moved = view.op.results[0] in linked
        loops = list(range(len(view.iterators)))
        if moved:
            forms = linear_map(view.init_maps[0]) or ()
            out = [form.bare for form in forms]
            walked = [cast("int", out[dim]) for dim in self.permutation]
            loops = [*walked, *(loop for loop in loops if loop not in walked)]
        renamed = [AffineExpr.dimension(loops.index(loop)) for loop in range(len(loops))]
        maps: list[AffineMap] = []
        for value, old in zip(view.operands, view.maps, strict=True):
            results = list(old.results)
            if value in linked:
                results = [results[dim] for dim in self.permutation]
            exprs = tuple(expr.replace_dims_and_symbols(renamed, []) for expr in results)
            maps.append(AffineMap(old.num_dims, old.num_symbols, exprs))
        if view.op.name == "linalg.fill":
            return rebuilt(view, operands)
        return rebuilt(view, operands, maps, [view.iterators[loop] for loop in loops])

    def _type(self, value: SSAValue) -> Attribute:
        if value not in self._inside:
            return value.type
        kind = cast("TensorType[Attribute]", value.type)
        return TensorType(kind.element_type, [kind.get_shape()[dim] for dim in self.permutation])


def _transposed(value: SSAValue, order: Sequence[int], point: InsertPoint) -> SSAValue:
    kind = cast("TensorType[Attribute]", value.type)
    shape = [kind.get_shape()[dim] for dim in order]
    empty = tensor.EmptyOp([], TensorType(kind.element_type, shape))
    transpose = TransposeOp.of(value, empty.tensor, order)
    if isinstance(value.owner, Operation):
        empty.location = transpose.location = value.owner.location
    Rewriter.insert_op([empty, transpose], point)
    return transpose.results[0]


def _owner(value: SSAValue) -> Operation:
    return cast("OpResult", value).op


@dataclass(frozen=True)
class AssignLayoutPass(ModulePass):
    """Puts the channels of a graph's images last, with transposes at the graph's edges."""

    name = _NAME

    layout: str = LAYOUTS[0]
    device: str = HOST
    """Whose kernels compute the convolutions."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block.

        Raises:
            PassFailedException: `layout` is none of `LAYOUTS`, or there is no such device.
        """
        check_device(self.device)
        if self.layout not in LAYOUTS:
            known = " or ".join(LAYOUTS)
            raise PassFailedException(f"layout is {known}, not '{self.layout}'")
        for function in [f for f in op.walk() if isinstance(f, func.FuncOp)]:
            if len(function.body.blocks) == 1:
                # The kernels of a stream's rows of frames are the same on every device.
                device = HOST if states_of(function) else self.device
                self._assign(function.body.block, device)
                eliminate_dead_code(function)

    def _assign(self, block: Block, device: str) -> None:
        position = {op: number for number, op in enumerate(block.ops)}
        found = components(block)
        component_of = {value: component for component in found for value in component.values}
        for component in found:
            first = component.convolutions[0]
            count = f"{len(component.convolutions)} convolutions"
            gained = component.gained(device)
            if not gained:
                remarks.refused(_NAME, first, f"kernels of {count} copy nothing as it is")
                continue
            moved = component.moved
            if moved >= gained:
                copied = bytes_text(gained)
                why = f"transposing moves {bytes_text(moved)}, the copies of {count} {copied}"
                remarks.refused(_NAME, first, why)
                continue
            entering, leaving = component.edges
            why = (
                f"{CHANNELS_FIRST[component.rank]} to {self.layout} for {count}: "
                f"{len(entering) + len(leaving)} transposes at the edges move {bytes_text(moved)} "
                f"instead of {bytes_text(gained)}"
            )
            remarks.fired(_NAME, first, why)
            permutation = permutation_of(self.layout, component.rank)
            replaced = _Rewriter(component, permutation, position).rewrite()
            others = {value: component_of[value] for value in replaced if value in component_of}
            component_of |= {replaced[value]: other for value, other in others.items()}
            for other in set(others.values()):
                other.values = [replaced.get(value, value) for value in other.values]
