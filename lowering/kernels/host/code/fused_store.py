"""An epilogue between the accumulators of a tile and their store: which elements of its operands
belong to which lanes.

An operand either lies as the result does (a residual), so that its element is as far from its
beginning as the result's is, or does not depend on the position (a bias), so that it has one
element a channel, or one for all. Where groups share their rows (products of one matrix with many),
it may have one element a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from convir.lowering.kernels.host.code.builder import I64, LINE_BYTES, POINTER_BYTES, PTR, Value
from convir.lowering.kernels.host.code.elements.storage import storage_of
from convir.lowering.kernels.host.code.scalar_steps import ScalarSteps, unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convir.lowering.bodies.contraction.fused import EpilogueOperand, FusedEpilogue
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.host.code.builder import Function, Operand
    from convir.lowering.kernels.host.code.elements.lanes import Lanes
    from convir.lowering.kernels.host.code.elements.storage import Storage

EpilogueBuffer = Literal["epilogue0", "epilogue1", "epilogue2", "epilogue3"]
"""The further operands of an epilogue."""

EPILOGUE_BUFFERS: tuple[EpilogueBuffer, ...] = ("epilogue0", "epilogue1", "epilogue2", "epilogue3")


def refusal(spec: Contraction, epilogue: FusedEpilogue) -> str | None:
    """Why the kernels of this device do not store through an epilogue; None if they do."""
    if spec.result != "C":
        return "the gradient of the weights has no epilogue here"
    if len(epilogue.operands) > len(EPILOGUE_BUFFERS):
        return f"its epilogue reads more than {len(EPILOGUE_BUFFERS)} operands"
    if any(not phase.taps for phase in spec.phases) and not epilogue.zero_fills_are_zero_sums:
        return "its epilogue treats holes as no sum"
    for operand in epilogue.operands:
        if operand.follows_result:
            if operand.type != epilogue.stored:
                return f"its epilogue adds {operand.type} to a result of {epilogue.stored}"
            continue
        if reads_rows(operand) and not _finds_rows(spec, operand):
            return "its epilogue reads an operand at some of the result's positions"
        if len({phase.offset for phase in operand.phases}) != 1:
            return "its epilogue reads different elements in each phase"
        if (
            spec.groups > 1
            and spec.out_channels > 1
            and (operand.group_stride != spec.out_channels * operand.out_channel_stride)
        ):
            return "its epilogue reads an operand by groups"
        if spec.c.stride == 1 and channel_stride(spec, operand) not in (0, 1):
            return "its epilogue reads channels that are not contiguous"
    return unsupported(epilogue)


def reads_rows(operand: EpilogueOperand) -> bool:
    """Whether an operand has elements of its own for some output pixels, and does not lie as the
    result does."""
    return not operand.follows_result and any(any(x.axis_strides) for x in operand.phases)


def _finds_rows(spec: Contraction, operand: EpilogueOperand) -> bool:
    """Whether where a row of the result begins says which of the operand's elements is its own."""
    (phase, *others) = spec.phases
    if not spec.shares_rows or others or len(phase.axes) != 1 or phase.out_offset:
        return False
    (axis,) = phase.axes
    is_direct = (spec.c.stride, spec.c.type) == (1, spec.element)
    is_repeated = spec.c.group_stride % (axis.size * axis.out_stride) == 0
    is_of_rows = operand.out_channel_stride == operand.group_stride == 0
    return is_direct and is_repeated and is_of_rows and spec.out_channels <= axis.out_stride


def channel_stride(spec: Contraction, operand: EpilogueOperand) -> int:
    """Elements of an operand that does not follow the result between adjacent channels."""
    return operand.out_channel_stride if spec.out_channels > 1 else operand.group_stride


@dataclass(frozen=True)
class FusedStore:
    """Computes what is stored for accumulators in registers."""

    lanes: Lanes
    spec: Contraction
    epilogue: FusedEpilogue

    @property
    def parameters(self) -> tuple[tuple[str, str], ...]:
        """Of functions that store: for each operand where its first channel is, or how many bytes
        it lies behind the result; and where the result begins, if one has elements of rows."""
        operands = self.epilogue.operands
        own = tuple(
            (I64, f"e{i}") if operand.follows_result else (PTR, f"e{i}")
            for i, operand in enumerate(operands)
        )
        return (*own, (I64, "first.result")) if any(map(reads_rows, operands)) else own

    def arguments(self, f: Function) -> list[Value]:
        """The values of `parameters` in a function that has them."""
        return [f.argument(name) for _, name in self.parameters]

    def of_launch(self, f: Function, c: Value) -> list[Value]:
        """The arguments in the function of a kernel, whose result is at `c`: its operands come
        behind A, B and C."""
        addresses = [
            f.load(PTR, f.offset(f.argument("args"), POINTER_BYTES * i), POINTER_BYTES, "e")
            for i in range(3, 3 + len(self.epilogue.operands))
        ]
        base = f.emit(I64, "c.address", f"ptrtoint {c} to i64")
        found: list[Value] = []
        for operand, address in zip(self.epilogue.operands, addresses, strict=True):
            if operand.follows_result:
                place = f.emit(I64, "e.address", f"ptrtoint {address} to i64")
                found.append(f.sub(place, base, "behind"))
            else:
                start = operand.phases[0].offset * storage_of(self.lanes, operand.type).bytes
                found.append(f.offset(address, start))
        return [*found, base] if any(map(reads_rows, self.epilogue.operands)) else found

    def moved(self, f: Function, arguments: Sequence[Value], channel: Operand) -> list[Value]:
        """The arguments for the channels from number `channel` on."""
        operands = self.epilogue.operands
        moved = [
            argument
            if operand.follows_result
            else f.element(argument, channel, self._stride_bytes(operand), "e.moved")
            for operand, argument in zip(operands, arguments, strict=False)
        ]
        return [*moved, *arguments[len(operands) :]]

    def behind(
        self, f: Function, place: Value, spill_row: Value | None = None
    ) -> list[Value | None]:
        """For operands that follow the result, or have elements of rows: where theirs for the row
        at `place` are.

        A row that nobody reads, `spill_row`, has none: it stands for its own.
        """
        found: list[Value | None] = []
        for operand, argument in zip(self.epilogue.operands, self.arguments(f), strict=False):
            if not operand.follows_result and not reads_rows(operand):
                found.append(None)
                continue
            if operand.follows_result:
                own = f.offset(place, argument)
            else:
                own = self._of_row(f, operand, argument, place)
            if spill_row is not None:
                is_spilled = f.emit("i1", "spilled", f"icmp eq {place}, {spill_row.text}")
                own = f.select(is_spilled, spill_row, own, "behind")
            found.append(own)
        return found

    def _of_row(self, f: Function, operand: EpilogueOperand, first: Value, place: Value) -> Value:
        """The address of a row's one element; all groups have the same rows."""
        (axis,) = self.spec.phases[0].axes
        (stride,) = operand.phases[0].axis_strides
        begin = f.emit(I64, "row.address", f"ptrtoint {place} to i64")
        apart = f.sub(begin, f.argument("first.result"), "apart")
        line_bytes = axis.out_stride * storage_of(self.lanes, self.spec.c.type).bytes
        row = f.rem(f.div(apart, line_bytes), axis.size, "row.number")
        return f.element(first, row, stride * storage_of(self.lanes, operand.type).bytes)

    def ask_beside(self, f: Function, place: Value, out_channels: int) -> None:
        """Ask for the elements of operands that follow the result, `out_channels` from where the
        result is at `place`."""
        nbytes = out_channels * self.storage.bytes
        for operand, argument in zip(self.epilogue.operands, self.arguments(f), strict=False):
            if operand.follows_result:
                for at in range(0, nbytes, LINE_BYTES):
                    f.prefetch(f.offset(f.offset(place, argument), at))

    def along(self, f: Function, behind: Sequence[Value | None], offset: int) -> list[Value | None]:
        """Where the operands' elements for the result `offset` bytes on in the same row are."""
        return [
            place if place is None or reads_rows(operand) else f.offset(place, offset)
            for operand, place in zip(self.epilogue.operands, behind, strict=True)
        ]

    def of_channels(
        self,
        f: Function,
        total: Value,
        column: Operand,
        active: int,
        behind: Sequence[Value | None],
    ) -> Value:
        """What is stored for the accumulators of adjacent channels at one position.

        Args:
            f: has `parameters`.
            total: a vector, or a scalar if `active` is 0.
            column: the number of its first channel, counted from that of the arguments.
            active: lanes that hold channels.
            behind: the address of that channel's element, for operands that follow the result; of
                the row's, for those that have elements of rows.
        """
        elements: list[Value] = []
        arguments = self.arguments(f)[: len(behind)]
        for operand, argument, place in zip(self.epilogue.operands, arguments, behind, strict=True):
            storage = storage_of(self.lanes, operand.type)
            address = place or f.element(argument, column, self._stride_bytes(operand))
            is_one = not operand.follows_result and not channel_stride(self.spec, operand)
            elements.append(_loaded(f, storage, address, total, 0 if is_one else active))
        return self._steps.write(f, total, elements)

    def of_positions(
        self, f: Function, total: Value, column: Operand, active: int, place: Value
    ) -> Value:
        """What is stored at `place` for the accumulators of adjacent output pixels of one channel.

        Args:
            f: has `parameters`.
            total: a vector, or a scalar if `active` is 0.
            column: the number of the channel, counted from that of the arguments.
            active: lanes that hold output pixels.
            place: the address of the first result.
        """
        elements: list[Value] = []
        for operand, argument in zip(self.epilogue.operands, self.arguments(f), strict=True):
            storage = storage_of(self.lanes, operand.type)
            if operand.follows_result:
                elements.append(_loaded(f, storage, f.offset(place, argument), total, active))
            else:
                address = f.element(argument, column, self._stride_bytes(operand))
                elements.append(_loaded(f, storage, address, total, 0))
        return self._steps.write(f, total, elements)

    @property
    def storage(self) -> Storage:
        """How what it gives is written."""
        return storage_of(self.lanes, self.epilogue.stored, is_rounded=self._steps.is_rounded)

    @cached_property
    def _steps(self) -> ScalarSteps:
        return ScalarSteps(self.lanes, self.epilogue)

    def _stride_bytes(self, operand: EpilogueOperand) -> int:
        size = storage_of(self.lanes, operand.type).bytes
        return channel_stride(self.spec, operand) * size


def _loaded(f: Function, storage: Storage, address: Value, like: Value, active: int) -> Value:
    """Elements in the shape of `like`: `active` neighbours; one in all lanes if `active` is 0."""
    if not like.type.startswith("<"):
        return storage.load_scalar(f, address)
    lanes = int(like.type[1:].split(" x ")[0])
    if active == 0:
        return f.splat(storage.load_scalar(f, address), lanes)
    loaded = storage.load_raw(f, address, active)
    if lanes < storage.lanes.count:
        loaded = f.shuffle(loaded, loaded, range(lanes), "loaded")
    return storage.widen(f, loaded)
