"""The one analysis of contractions that every pass asks.

A contraction multiplies two inputs and adds the products into one result:

    out[o(loops)] += cast(lhs[a(loops)]) * cast(rhs[b(loops)])

with linear index functions `a`, `b` and `o`. Matrix products, convolutions of any rank, layout and
grouping, and their gradients are all contractions. What each loop is follows from which of the
three operands it indexes, and from nothing else:

| role  | lhs | rhs | out | matrix product  | convolution (lhs the image)              |
| ----- | --- | --- | --- | --------------- | ---------------------------------------- |
| batch | yes | yes | yes | batch           | group, or channel of a depthwise one     |
| m     | yes |     | yes | rows            | image number, output positions           |
| n     |     | yes | yes | columns         | output channel                           |
| k     | yes | yes |     | reduced         | input channel, filter offsets            |

A window is a dimension indexed by two loops, `stride * output + dilation * offset`: `output` is
the one that also indexes the result, `offset` the one that is reduced. For a backward weight
contraction that makes the filter position the `output` and the image position the `offset`:
stride and dilation trade places, as they do in the formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from xdsl.dialects.builtin import ShapedType
from xdsl.ir import BlockArgument, OpResult, SSAValue

from convir.analysis.linear import LinearIndex, linear_map
from convir.analysis.refusal import Refusal
from convir.analysis.structured import structured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.ir import Attribute, Block, Operation
    from xdsl.ir.affine import AffineMap

    from convir.analysis.structured import Structured

Index: TypeAlias = tuple[LinearIndex, ...]
"""Into each dimension of an operand."""

Role: TypeAlias = Literal["batch", "m", "n", "k"]

# (indexes lhs, indexes rhs, indexes out) -> role
_ROLES: Final[dict[tuple[bool, bool, bool], Role]] = {
    (True, True, True): "batch",
    (True, False, True): "m",
    (False, True, True): "n",
    (True, True, False): "k",
}

_ADDITIONS: Final = frozenset({"arith.addf", "arith.addi"})
_MULTIPLICATIONS: Final = frozenset({"arith.mulf", "arith.muli"})
_CASTS: Final = frozenset(
    {
        "arith.extf",
        "arith.truncf",
        "arith.extsi",
        "arith.extui",
        "arith.trunci",
        "arith.sitofp",
        "arith.uitofp",
        "arith.fptosi",
        "arith.fptoui",
    }
)
_INPUTS: Final = 2
_WINDOW_LOOPS: Final = 2


@dataclass(frozen=True)
class Operand:
    """One operand of a contraction."""

    value: SSAValue
    index: tuple[LinearIndex, ...]
    """The index into each dimension."""
    casts: tuple[Operation, ...]
    """The conversions the body applies to an element before the product, in order of application.

    Empty for the result, which is accumulated in its own type.
    """

    @property
    def loops(self) -> frozenset[int]:
        """The loops that index the operand."""
        return _loops_of(self.index)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions, `DYNAMIC_INDEX` where dynamic; () for a scalar."""
        value_type = self.value.type
        return value_type.get_shape() if isinstance(value_type, ShapedType) else ()


@dataclass(frozen=True)
class Window:
    """A dimension indexed by `stride * output + dilation * offset + constant`."""

    operand: int
    """0 if the windowed dimension is the lhs's, 1 if it is the rhs's."""
    dim: int
    output: int
    """The loop that also indexes the result: the output position of a forward convolution."""
    offset: int
    """The reduced loop: the filter offset of a forward convolution."""
    stride: int
    dilation: int
    constant: int


@dataclass(frozen=True)
class ContractionDims:
    """What every loop and every operand dimension of one contraction is."""

    view: Structured
    lhs: Operand
    rhs: Operand
    out: Operand
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    windows: tuple[Window, ...]
    """In the order of the operands and their dimensions. Their loops also have a role above."""
    product_casts: tuple[Operation, ...]
    """Conversions of the product before it is added, in order."""
    multiply_type: Attribute
    """The type the product is computed in."""
    accumulate_type: Attribute
    """The type the sum is kept in, which is the result's element type."""

    @property
    def op(self) -> Operation:
        """The op that was analysed."""
        return self.view.op

    @property
    def inputs(self) -> tuple[Operand, Operand]:
        """The lhs and the rhs."""
        return (self.lhs, self.rhs)

    @property
    def bounds(self) -> tuple[int | None, ...]:
        """The trip count of each loop, None where dynamic."""
        return self.view.bounds

    @property
    def flops(self) -> int | None:
        """Two per multiply-add: twice the product of the trip counts; None if one is dynamic."""
        bounds = [bound for bound in self.bounds if bound is not None]
        return 2 * prod(bounds) if len(bounds) == len(self.bounds) else None

    def role(self, loop: int) -> Role:
        """The role of `loop`."""
        return _ROLES[loop in self.lhs.loops, loop in self.rhs.loops, loop in self.out.loops]

    def is_unit(self, loop: int) -> bool:
        """True if `loop` runs once, so that its index is always 0."""
        return self.bounds[loop] == 1

    def windows_of(self, operand: int) -> tuple[Window, ...]:
        """The windows of the lhs (0) or the rhs (1)."""
        return tuple(window for window in self.windows if window.operand == operand)


def contraction_dims(op: Operation | None) -> ContractionDims | Refusal:
    """What the loops of `op` are, or why it is not a contraction.

    Accepts a named or generic op with two inputs, one result whose dimensions are distinct loops,
    and a body that adds the product of the two inputs to the result. Products and sums may be
    written in either order, and elements may be converted before the product and the product
    before the sum; anything else in the body is refused.
    """
    view = structured(op)
    if view is None:
        return Refusal("it is not a linalg structured op")
    if len(view.inputs) != _INPUTS or len(view.inits) != 1:
        return Refusal(f"it has {len(view.inputs)} inputs and {len(view.inits)} inits, not 2 and 1")
    body = _multiply_add(view.body)
    if isinstance(body, Refusal):
        return body
    loops = view.once(_loops)
    if isinstance(loops, Refusal):
        return loops
    lhs, rhs, out = loops.index
    return ContractionDims(
        view=view,
        lhs=Operand(view.inputs[0], lhs, body.casts[0]),
        rhs=Operand(view.inputs[1], rhs, body.casts[1]),
        out=Operand(view.inits[0], out, ()),
        batch=loops.batch,
        m=loops.m,
        n=loops.n,
        k=loops.k,
        windows=loops.windows,
        product_casts=body.product_casts,
        multiply_type=body.multiply_type,
        accumulate_type=view.body.args[-1].type,
    )


@dataclass(frozen=True)
class _Loops:
    """What the loops of a contraction are."""

    index: tuple[Index, Index, Index]
    """Into the lhs, the rhs and the result."""
    batch: tuple[int, ...]
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    windows: tuple[Window, ...]


def _loops(maps: Sequence[AffineMap], iterators: Sequence[str]) -> _Loops | Refusal:
    lhs, rhs, out = (linear_map(indexing_map) for indexing_map in maps)
    if lhs is None or rhs is None or out is None:
        return Refusal("an indexing map is not linear in the loops")
    roles = _roles(iterators, lhs, rhs, out)
    if isinstance(roles, Refusal):
        return roles
    windows = _windows(iterators, (lhs, rhs))
    if isinstance(windows, Refusal):
        return windows
    batch, m, n, k = (_having(roles, role) for role in ("batch", "m", "n", "k"))
    return _Loops((lhs, rhs, out), batch, m, n, k, windows)


@dataclass(frozen=True)
class _MultiplyAdd:
    casts: tuple[tuple[Operation, ...], tuple[Operation, ...]]
    product_casts: tuple[Operation, ...]
    multiply_type: Attribute


def _multiply_add(block: Block) -> _MultiplyAdd | Refusal:
    """Recognise `yield acc + casts(casts(lhs) * casts(rhs))`, with either order of operands."""
    lhs, rhs, accumulator = block.args
    terminator = block.last_op
    if terminator is None or len(terminator.operands) != 1:
        return Refusal("the body does not yield one value")
    addition = _owner_in(block, terminator.operands[0])
    if addition is None:
        return Refusal("the body yields a value it does not compute")
    if addition.name not in _ADDITIONS:
        return Refusal(f"the body yields {addition.name}, not a sum")
    if accumulator not in addition.operands:
        return Refusal("the body does not add to the result's own element")
    addend = addition.operands[1 if addition.operands[0] is accumulator else 0]
    product_casts, product_value = _strip_casts(block, addend)
    product = _owner_in(block, product_value)
    if product is None:
        return Refusal("the body adds a value that is not a product")
    if product.name not in _MULTIPLICATIONS:
        return Refusal(f"the body adds {product.name}, not a product")
    casts: dict[SSAValue, tuple[Operation, ...]] = {}
    for factor in product.operands:
        factor_casts, root = _strip_casts(block, factor)
        if root not in (lhs, rhs):
            return Refusal(f"the body multiplies {_describe(block, root)}")
        if root in casts:
            return Refusal("the body multiplies an input by itself")
        casts[root] = factor_casts
    recognised = {addition, product, terminator, *product_casts, *casts[lhs], *casts[rhs]}
    for op in block.ops:
        if op not in recognised:
            return Refusal(f"the body also computes {op.name}")
    return _MultiplyAdd((casts[lhs], casts[rhs]), product_casts, product.results[0].type)


def _strip_casts(block: Block, value: SSAValue) -> tuple[tuple[Operation, ...], SSAValue]:
    """The conversions that end in `value`, in order of application, and what they convert."""
    casts: list[Operation] = []
    owner = _owner_in(block, value)
    while owner is not None and owner.name in _CASTS:
        casts.append(owner)
        value = owner.operands[0]
        owner = _owner_in(block, value)
    return tuple(reversed(casts)), value


def _owner_in(block: Block, value: SSAValue) -> Operation | None:
    """The op of the body that defines `value`; None for arguments and values from outside."""
    if isinstance(value, OpResult) and value.op.parent is block:
        return value.op
    return None


def _describe(block: Block, factor: SSAValue) -> str:
    owner = _owner_in(block, factor)
    if owner is not None:
        return f"the result of {owner.name}, not an input"
    if isinstance(factor, BlockArgument) and factor is block.args[-1]:
        return "the result's own element"
    return "a value from outside it"


def _loops_of(index: Index) -> frozenset[int]:
    return frozenset([loop for form in index for loop, _ in form.terms])


def _roles(iterators: Sequence[str], lhs: Index, rhs: Index, out: Index) -> list[Role] | Refusal:
    bare = [form.bare for form in out]
    if None in bare or len(set(bare)) != len(bare):
        return Refusal("the result's dimensions are not distinct loops")
    of_lhs, of_rhs, of_out = map(_loops_of, (lhs, rhs, out))
    roles: list[Role] = []
    for loop, iterator in enumerate(iterators):
        in_lhs, in_rhs, in_out = loop in of_lhs, loop in of_rhs, loop in of_out
        if in_out != (iterator == "parallel"):
            indexes = "indexes" if in_out else "does not index"
            return Refusal(f"loop d{loop} is {iterator} and {indexes} the result")
        role = _ROLES.get((in_lhs, in_rhs, in_out))
        if role is None:
            where = "no input" if not in_lhs and not in_rhs else "one input only"
            return Refusal(f"loop d{loop} is {iterator} and indexes {where}")
        roles.append(role)
    return roles


def _having(roles: list[Role], wanted: Role) -> tuple[int, ...]:
    return tuple(loop for loop, role in enumerate(roles) if role == wanted)


def _windows(iterators: Sequence[str], inputs: tuple[Index, Index]) -> tuple[Window, ...] | Refusal:
    windows: list[Window] = []
    for position, forms in enumerate(inputs):
        for dim, index in enumerate(forms):
            if len(index.terms) <= 1:
                continue
            where = f"dimension {dim} of input {position}"
            if len(index.terms) != _WINDOW_LOOPS:
                return Refusal(f"{where} is indexed by {len(index.terms)} loops")
            parallel = [loop for loop in index.loops if iterators[loop] == "parallel"]
            reduced = [loop for loop in index.loops if loop not in parallel]
            if len(parallel) != 1:
                kind = "reduced" if not parallel else "parallel"
                return Refusal(f"both loops that index {where} are {kind}")
            windows.append(
                Window(
                    operand=position,
                    dim=dim,
                    output=parallel[0],
                    offset=reduced[0],
                    stride=index.coefficient(parallel[0]),
                    dilation=index.coefficient(reduced[0]),
                    constant=index.constant,
                )
            )
    return tuple(windows)
