"""`fuse-frames`: convolutions along frames, and what lies between them, become one kernel.

    rewrite: %1 = convolution %seen, %w; %2 = tanh(%1 + …); %3 = convolution1x1 %2; %4 = %x + %3
             %5 = insert_slice %4 into %window
             --> %5 = kernel.region configs {host = "planar"} { … kernel.yield %5 }

An op that computes each frame from the same frame of what it reads joins what computes that. One
that reads other frames needs all of them: a kernel ends where a convolution of several taps
begins, and every op belongs to the level that counts such borders. Within a level, what is joined
by reading is one kernel. An op that reads arguments alone goes where it is first read.

Where a tensor has been inserted into another one, a later level reads it there: it is not written
twice. A group is left as it is, with a remark, if `planar` kernels do not compute it; a function of
which they compute no group is not touched.

Preconditions: a group holds a convolution along frames, and the device's `planar` kernels compute
all of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from xdsl.dialects import func, tensor
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from convir.analysis.dependence import operands_of
from convir.analysis.refusal import Refusal
from convir.dialects.kernel import ops as kernel
from convir.dialects.stream_attributes import states_of
from convir.lowering.bodies.planar.elementwise import elementwise
from convir.lowering.bodies.planar.read import read_planar
from convir.lowering.bodies.planar.rows import frame_convolution, splits_channels, static_slice
from convir.lowering.implementations import HOST, PLANAR, attach_config
from convir.lowering.regions.op_groups import ALIASES, Groups, is_compute, unwrap, wrap
from convir.lowering.regions.outline_kernels import outlined
from convir.passes.manager import remarks
from convir.passes.manager.option_checks import check_device

if TYPE_CHECKING:
    from collections.abc import Iterable

    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp

    from convir.lowering.bodies.planar.rows import FrameConvolution


def fuse_frames(block: Block, device: str = HOST) -> bool:
    """Wrap the chains of `block` that compute frame by frame in kernel regions for a device.

    Whether there are any; if there are none, ops may stand in another order than before.
    """
    ops = [op for op in block.ops if op is not block.last_op]
    found = {op: frame_convolution(op) for op in ops}
    convolutions = {op for op, is_one in found.items() if not isinstance(is_one, Refusal)}
    links = {op: _frame_links(op, convolution) for op, convolution in found.items()}
    levels = _Levels(links)
    levels.assign(ops)
    _read_insertions(levels)
    ordered = sorted((op for op in block.ops if op is not block.last_op), key=levels.of)
    _reorder(block, ordered)
    groups = Groups({op: i for i, op in enumerate(ordered) if is_compute(op)})
    for op in ordered:
        for value in levels.links[op]:
            source = _maker(_unreshaped(value))
            if source is not None and levels.of(source) == levels.of(op):
                groups.merge(op, source)
    order = {op: i for i, op in enumerate(ordered)}
    fired = False
    for members in groups.members():
        first = next((op for op in members if op in convolutions), None)
        if first is not None:
            fired |= _wrap(members, first, order, device)
    return fired


def _has_convolution(block: Block) -> bool:
    """Whether an op of `block` is a convolution along frames."""
    return any(not isinstance(frame_convolution(op), Refusal) for op in block.ops)


@dataclass
class _Levels:
    """How many borders lie before each op."""

    links: dict[Operation, tuple[SSAValue, ...]]
    """Of each op the operands of which it reads the frame that it computes."""
    _level: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def of(self, op: Operation) -> int:
        """The level of `op`."""
        return self._level.get(op, 0)

    def put(self, op: Operation, like: Operation, links: tuple[SSAValue, ...]) -> None:
        """Add an op to the level of another."""
        self._level[op] = self.of(like)
        self.links[op] = links

    def assign(self, ops: list[Operation]) -> None:
        """Find the level of every op of a block."""
        given, waiting = set[Operation](), set[Operation]()
        for op in ops:
            edges = [
                (maker, value not in self.links[op] and maker not in given)
                for value in operands_of(op)
                if (maker := _maker(value)) is not None and maker in self.links
            ]
            self._level[op] = max((self.of(maker) + border for maker, border in edges), default=0)
            if all(maker in given for maker, _ in edges) and _computes_nothing(op):
                given.add(op)
            if all(not border and maker in waiting for maker, border in edges):
                waiting.add(op)
        # What is computed from arguments and constants alone waits for its first reader.
        for op in reversed(ops):
            limits = [
                self.of(reader) - (value not in self.links[reader] and op not in given)
                for value in op.results
                for reader in self._readers(value)
            ]
            if op in waiting:
                self._level[op] = max(self.of(op), min(limits, default=0))

    def _readers(self, value: SSAValue) -> Iterable[Operation]:
        """The ops of the block that read `value`, also inside of their regions."""
        for use in value.uses:
            reader: Operation | None = use.operation
            while reader is not None and reader not in self.links:
                reader = reader.parent_op()
            if reader is not None:
                yield reader


def _computes_nothing(op: Operation) -> bool:
    """Whether `op` is no more than a place in memory, or a constant."""
    return op.name in ALIASES or not is_compute(op) or op.name == "tensor.extract_slice"


def _maker(value: SSAValue) -> Operation | None:
    return value.op if isinstance(value, OpResult) else None


def _unreshaped(value: SSAValue) -> SSAValue:
    """`value` before its channels were split or merged."""
    while isinstance(value, OpResult) and splits_channels(value.op):
        value = value.op.operands[0]
    return value


def _frame_links(op: Operation, convolution: FrameConvolution | Refusal) -> tuple[SSAValue, ...]:
    """The operands of which `op`, this convolution or none, reads the frame that it computes."""
    if splits_channels(op):
        return (op.operands[0],)
    view = static_slice(op)
    if view is not None and view.kind == "insert_slice":
        return (view.source,) if isinstance(view.dest, BlockArgument) else ()
    if view is not None:
        return (view.source,) if view.covers(2) else ()
    if not isinstance(convolution, Refusal):
        is_there = convolution.reads_one_frame or _is_elsewhere(
            _maker(_unreshaped(convolution.image))
        )
        return (convolution.image,) if is_there else ()
    taken = elementwise(op)
    return () if isinstance(taken, Refusal) else taken.aligned


def _is_elsewhere(op: Operation | None) -> bool:
    """Whether `op` only says where other frames lie: what reads them needs no border behind it."""
    view = static_slice(op) if op is not None else None
    return view is not None and view.kind == "extract_slice" and not view.covers(2)


def _read_insertions(levels: _Levels) -> None:
    """Let later levels read a tensor where it has been inserted."""
    for op in list(levels.links):
        view = static_slice(op)
        if view is None or view.kind != "insert_slice" or not isinstance(view.dest, BlockArgument):
            continue
        places: dict[Operation, list[int]] = {}
        for use in view.source.uses:
            places.setdefault(use.operation, []).append(use.index)
        for reader, numbers in places.items():
            if reader not in levels.links or levels.of(reader) <= levels.of(op):
                continue
            offsets, sizes = (
                cast("tuple[int, ...]", given) for given in (view.offsets, view.mixed_sizes)
            )
            part = tensor.ExtractSliceOp.from_static_parameters(
                view.result, offsets, sizes, (1,) * len(sizes)
            )
            part.location = reader.location
            Rewriter.insert_op(part, InsertPoint.before(reader))
            for number in numbers:
                reader.operands[number] = part.result
            levels.links[reader] = tuple(
                part.result if value is view.source else value for value in levels.links[reader]
            )
            levels.put(part, reader, ())


def _reorder(block: Block, ordered: list[Operation]) -> None:
    last = block.last_op
    assert last is not None
    if ordered == [op for op in block.ops if op is not last]:
        return
    for op in ordered:
        op.detach()
        block.insert_op_before(op, last)


def _wrap(
    members: list[Operation], first: Operation, order: dict[Operation, int], device: str
) -> bool:
    """Make a kernel region of `members` for a device if planar kernels compute it; it is called
    what their convolution `first` is. Whether they do."""
    location = first.location
    wrap(members, order)
    region = members[-1].parent_op()
    if not isinstance(region, kernel.RegionOp) or members[0].parent_op() is not region:
        return False
    found = read_planar(outlined(region, "candidate")[0])
    if isinstance(found, Refusal):
        unwrap(region)
        remarks.refused(FuseFramesPass.name, first, found.reason)
        return False
    stages = len(found.program.stages)
    region.location = location
    attach_config(region, device, PLANAR)
    remarks.fired(
        FuseFramesPass.name, region, f"{len(members)} ops are {stages} stages of one kernel"
    )
    return True


@dataclass(frozen=True)
class FuseFramesPass(ModulePass):
    """Put chains of convolutions along frames into one kernel region each."""

    name = "fuse-frames"

    device: str = HOST
    """Whose kernels they become. A GPU's are for the few frames of a stream's block: elsewhere its
    templates are faster."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Run on every function with one block.

        Raises:
            PassFailedException: there is no such device.
        """
        check_device(self.device)
        for function in list(op.walk()):
            if not isinstance(function, func.FuncOp) or len(function.body.blocks) != 1:
                continue
            if self.device != HOST and not states_of(function):
                continue
            if not _has_convolution(function.body.block):
                continue
            candidate = function.clone()
            if fuse_frames(candidate.body.block, self.device):
                Rewriter.insert_op(candidate, InsertPoint.before(function))
                Rewriter.erase_op(function)
