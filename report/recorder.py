"""What each pass did to a module: recorded while a pipeline runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.dialects.func import FuncOp

from convir.analysis.cost import Cost, cost_of, size_in_bytes
from convir.dialects.conv.geometry import ROLES
from convir.dialects.conv.ops import ConvOp
from convir.dialects.kernel import ops as kernel
from convir.lowering.buffers.chunk_batch import ChunkedLowering
from convir.lowering.buffers.convert_to_rt import ConvertToRtPass
from convir.lowering.regions.outline_kernels import OutlineKernelsPass
from convir.passes.manager.fixpoint import are_the_same, parts_of
from convir.passes.manager.pass_manager import Timing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from convir.dialects.diagnostics import Diagnostic
    from convir.passes.manager.remarks import Remark
    from convir.report.texts import Texts

_MILLISECONDS = 1e3
_MULTIPLY_ADD = 2


@dataclass
class Step:
    """One run of one pass."""

    name: str
    """The pass with its options."""
    changed: bool = False
    ms: float = 0.0
    before: int = 0
    """The number of the text that it found."""
    after: int = 0
    """The number of the text that it left."""
    flops: tuple[int, int] = (0, 0)
    """Of the functions, before and after."""
    bytes: tuple[int, int] = (0, 0)
    ops: tuple[int, int] = (0, 0)
    remarks: list[Remark] = field(default_factory=list["Remark"])
    checks: list[Diagnostic] = field(default_factory=list["Diagnostic"])


@dataclass
class Recorder:
    """Records every pass; an `Instrument`, which stands before one that checks.

    Costs are those of functions on tensors: programs of calls do not change what is computed.
    """

    texts: Texts
    steps: list[Step] = field(default_factory=list[Step])
    modules: list[list[int]] = field(default_factory=list[list[int]])
    """The texts of the module: as it was read, and after each change."""
    outlined: ModuleOp | None = None
    """A copy of the module whose kernels are outlined, those of libraries too."""
    _remarks: Sequence[Remark] = ()
    """All remarks so far; passes append to it."""
    _timing: Timing = field(default_factory=Timing)
    _said: int = 0
    """So many of these remarks belong to steps."""
    _seconds: float = 0.0
    """What all passes took before the one that runs."""
    _parts: list[object] = field(default_factory=list[object])
    _cost: Cost = field(default_factory=Cost)
    _ops: int = 0

    def listen(self, remarks: Sequence[Remark], timing: Timing) -> None:
        """Take remarks and times from where the passes that follow leave them."""
        self._remarks, self._timing, self._said = remarks, timing, 0

    def start(self, module: ModuleOp) -> None:
        """Record the module as it was read."""
        self.modules.append(self.texts.of_op(module))
        self._cost, self._ops = _cost_of(module), _count(module)

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Remember what the pass starts from."""
        self._parts = parts_of(module)
        self._seconds = _pass_seconds(self._timing)
        self.steps.append(Step(_spelled(module_pass)))

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """Record what the pass made of it, and said."""
        step = self.steps[-1]
        step.ms = (_pass_seconds(self._timing) - self._seconds) * _MILLISECONDS
        step.remarks = list(self._remarks[self._said :])
        self._said = len(self._remarks)
        step.before = step.after = len(self.modules) - 1
        cost, ops = self._cost, self._ops
        step.flops, step.bytes = (cost.flops, cost.flops), (cost.bytes, cost.bytes)
        step.ops = (ops, ops)
        if isinstance(module_pass, OutlineKernelsPass):
            self.outlined = module.clone()
        if are_the_same(self._parts, parts_of(module)):
            return
        text = self.texts.of_op(module)
        if text == self.modules[-1]:
            return
        step.changed, step.after = True, len(self.modules)
        self.modules.append(text)
        if not isinstance(module_pass, ConvertToRtPass) and _has_tensors(module):
            cost = _cost_of(module)
        ops = _count(module)
        step.flops = (self._cost.flops, cost.flops)
        step.bytes = (self._cost.bytes, cost.bytes)
        step.ops = (self._ops, ops)
        self._cost, self._ops = cost, ops

    def checked(self, found: Diagnostic) -> None:
        """Record what a check said of the last pass."""
        self.steps[-1].checks.append(found)


def _pass_seconds(timing: Timing) -> float:
    return sum(took for phase, took in timing.seconds.items() if phase.startswith("pass "))


def _has_tensors(module: ModuleOp) -> bool:
    """Whether kernels stand in their functions, and not beside them."""
    return not any(isinstance(op, kernel.FuncOp) for op in module.ops)


def _cost_of(module: ModuleOp) -> Cost:
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    convolutions = (op for each in functions for op in each.walk() if isinstance(op, ConvOp))
    return sum((*map(cost_of, functions), *map(_formula, convolutions)), Cost())


def _formula(op: ConvOp) -> Cost:
    """The formula of a convolution: each output pixel meets all taps, and no zero of a stride."""
    types = op.types
    filters = types["filter"].get_shape()
    outputs = types["output"].get_shape()
    if DYNAMIC_INDEX in (*filters, *outputs):
        return Cost()
    channels = filters[op.geometry.layouts[ROLES.index("filter")].letters.index("K")]
    moved = sum(map(size_in_bytes, types.values()))
    return Cost(_MULTIPLY_ADD * prod(outputs) * prod(filters) // max(1, channels), moved)


def _count(module: ModuleOp) -> int:
    return sum(1 for _ in module.walk())


def _spelled(module_pass: ModulePass) -> str:
    if isinstance(module_pass, ChunkedLowering):
        return module_pass.name  # its options are passes
    return str(module_pass.pipeline_pass_spec())
