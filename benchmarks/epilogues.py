"""Configs of 1x1 convolutions with the epilogues of networks, beside their predictions.

    python benchmarks/epilogues.py [--json FILE] [--configs N] [--rounds N]
    python benchmarks/epilogues.py --compile    # on a machine without a GPU: fills the cache
    python benchmarks/epilogues.py --times FILE    # what today's predictions cost by such a file

f16, channels last, 32 images: bias and an activation, or a residual beside them. Times are of
replays of a CUDA graph of four calls in a row, as a network has them: what lies in the L2 cache
stays there. A row has the configs that are predicted to be the fastest, in µs; printed is what the
first of them costs over the fastest.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from dependent_launches import replay_us
from torch import nn

from convir.api.sources import source_of
from convir.dialects.rt import ops as rt
from convir.lowering.kernels.registry import family_of
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.selection.kernel_candidates import Candidates
from convir.lowering.selection.tune import tunable
from convir.passes import run
from convir.runtime.cuda.planner import launch_plan
from convir.runtime.cuda.toolchain.compile import compile_cubins
from convir.runtime.devices import find_device
from convir.runtime.executable import Executable
from convir.runtime.program import Launch
from convir.runtime.read_program import read_program

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from convir.lowering.selection.tune import Tunable, TunableKernel
    from convir.runtime.program import Program

Case: TypeAlias = tuple[str, bool, int, int, int]
"""Activation, whether there is a residual, channels, filters, height and width."""
IMAGES = 32
CALLS = 4
"""Of a replay."""
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "silu": nn.functional.silu,
    "gelu": nn.functional.gelu,
    "none": lambda y: y,
}
CASES: tuple[Case, ...] = (
    *(("relu", True, c, k, h) for c, k, h in ((64, 256, 56), (128, 512, 28), (256, 1024, 14))),
    *(("relu", True, c, k, h) for c, k, h in ((512, 2048, 7), (64, 64, 56), (256, 256, 28))),
    *(("none", True, c, k, h) for c, k, h in ((144, 24, 56), (192, 32, 28), (384, 64, 14))),
    *(("none", True, c, k, h) for c, k, h in ((576, 96, 14), (384, 96, 56), (1536, 384, 14))),
    *(("silu", False, c, k, h) for c, k, h in ((16, 96, 112), (24, 144, 56), (80, 480, 14))),
    *(("silu", False, c, k, h) for c, k, h in ((112, 672, 14), (192, 1152, 7), (64, 256, 56))),
    *(("gelu", False, c, k, h) for c, k, h in ((96, 384, 56), (192, 768, 28), (384, 1536, 14))),
    *(("relu", False, c, k, h) for c, k, h in ((64, 256, 56), (128, 512, 28), (96, 384, 56))),
)

_cuda: Any = torch.cuda


class Convolution(nn.Module):
    """A 1x1 convolution of tensors whose channels are last, and what follows it."""

    def __init__(self, channels: int, filters: int, activation: str) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, filters, 1)
        self.activation = FUNCTIONS[activation]

    def forward(self, x: Tensor, *residual: Tensor) -> Tensor:
        """Compute y, of the residual's shape."""
        y = self.convolution(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return self.activation(y + residual[0] if residual else y)


@dataclass(frozen=True)
class Row:
    """A convolution, and what its configs take, by predicted time."""

    activation: str
    residual: bool
    channels: int
    filters: int
    size: int
    us: dict[str, float]

    @property
    def case(self) -> Case:
        """What is computed."""
        return self.activation, self.residual, self.channels, self.filters, self.size

    @property
    def chosen(self) -> str:
        """The config that is predicted to be the fastest."""
        return next(iter(self.us))

    @property
    def fastest(self) -> str:
        """The config that is."""
        return min(self.us, key=self.us.__getitem__)

    @property
    def cost(self) -> float:
        """How many times as long the chosen config takes as the fastest."""
        return self.us[self.chosen] / self.us[self.fastest]


def kernel_of(
    activation: str, residual: bool, channels: int, filters: int, size: int
) -> tuple[Tunable, TunableKernel]:
    """The kernel of a case."""
    model: Any = Convolution(channels, filters, activation).half().eval()
    sizes = (channels, filters) if residual else (channels,)
    inputs = tuple(torch.zeros(IMAGES, size, size, n).half() for n in sizes)
    source = source_of(model, (), 1.0, None, inputs)
    module = tunable(run(source.read(), "default").module, DEFAULT_TARGET)
    return module, module.kernels[0]


def programs_of(module: Tunable, kernel: TunableKernel, most: int) -> Iterator[tuple[str, Program]]:
    """The configs that are predicted to be the fastest, and those of further families."""
    assert isinstance(kernel.candidates, Candidates)
    for config in kernel.candidates.likely(most):
        lowered: Any = module.lowered(kernel, config)
        functions = [op for op in lowered.walk() if rt.PROGRAM_ATTR in op.attributes]
        yield config, read_program(lowered, functions[0].sym_name.data)


def sources_of(program: Program) -> list[str]:
    """The CUDA C++ of its launches."""
    launches = [call for call in program.calls if isinstance(call, Launch)]
    plans = [launch_plan(call, DEFAULT_TARGET) for call in launches]
    return [kernel.source for plan in plans for kernel in plan.kernels]


def measured(programs: dict[str, Program], rounds: int) -> dict[str, float]:
    """Medians, in turns."""
    device: Any = find_device("cuda")
    made = {name: Executable(device.load(program)) for name, program in programs.items()}
    graphs = {name: executable.graph(CALLS) for name, executable in made.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(rounds):
        for name, graph in graphs.items():
            times[name].append(replay_us(graph) / CALLS)
    return {name: round(median(each), 2) for name, each in times.items()}


def ranked(row: Row) -> Row:
    """The same times by what is predicted today."""
    candidates = kernel_of(*row.case)[1].candidates
    assert isinstance(candidates, Candidates)

    def predicted(config: str) -> float:
        family = family_of(config)
        assert family is not None
        return family.predict(candidates.problem.problem, family.parse(config), DEFAULT_TARGET)

    return replace(row, us={config: row.us[config] for config in sorted(row.us, key=predicted)})


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--configs", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--compile", action="store_true", help="compile, and measure nothing")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--times", type=Path, help="a file that --json wrote")
    given = parser.parse_args()
    rows: list[Row] = []
    if given.times is not None:
        rows = [ranked(Row(**each)) for each in json.loads(given.times.read_text())["rows"]]
        for row in rows:
            print(f"{row.case} {row.cost:.3f}: {row.chosen}, fastest {row.fastest}")
    for case in CASES if given.times is None else ():
        programs = dict(programs_of(*kernel_of(*case), given.configs))
        compile_cubins([x for each in programs.values() for x in sources_of(each)], "sm_90a")
        if given.compile:
            continue
        row = Row(*case, measured(programs, given.rounds))
        rows.append(row)
        print(f"{case} {row.cost:.3f}: {row.chosen}, fastest {row.fastest}", flush=True)
        if given.json is not None:
            gpu: Any = _cuda.get_device_properties(0)
            where = {"gpu": gpu.name, "torch": torch.__version__}
            found = {"environment": where, "rows": [asdict(each) for each in rows]}
            given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if rows:
        mean = exp(sum(log(row.cost) for row in rows) / len(rows))
        print(f"a choice costs {mean - 1:.1%}, at most {max(row.cost for row in rows) - 1:.1%}")


if __name__ == "__main__":
    main()
