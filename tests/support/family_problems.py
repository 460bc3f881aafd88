"""What each kernel family is asked: the lines that it is made for, and their adversarial variants.

A family's lines are in `tests/lowering/kernels/cuda/FAMILY/problems.txt`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from cuda_contractions import regions_in
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation

from convir.analysis.refusal import Refusal
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line, strip_comment
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.registry import FAMILIES
from convir.lowering.regions.op_groups import ALIASES
from convir.lowering.regions.outline_kernels import outlined
from convir.passes import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xdsl.ir import SSAValue

    from convir.dialects.conv.problem import ConvProblem
    from convir.lowering.kernels.protocol import KernelFamily

KERNELS = "convir.lowering.kernels.cuda"
FOLDERS = Path(__file__).parents[1] / "lowering" / "kernels" / "cuda"
PROBLEMS = "problems.txt"

ROWS = {"-H", "-y", "-p", "-u", "-l"}
"""The options of a line that one spatial axis has no use for."""
DEPTH = {"--in_d": 5, "--fil_d": 3, "--pad_d": 1, "--conv_stride_d": 1, "--dilation_d": 1}
LAYOUTS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
"""Channels last and first, by spatial axes."""

# By name the options that differ from the line's own, and the command if that does.
VARIANTS: Mapping[str, Mapping[str, int | str]] = {
    "as-it-is": {},
    "tails": {"-n": 3, "-H": 13, "-W": 11},
    "one-tap": {"-y": 1, "-x": 1, "-p": 0, "-q": 0, "-l": 1, "-j": 1},
    "even-filter": {"-y": 4, "-x": 2, "-p": 1, "-q": 1},
    "padding-beyond-the-filter": {"-n": 2, "-H": 8, "-W": 9, "-y": 3, "-x": 3, "-p": 3, "-q": 4},
    "stride-2": {"-u": 2, "-v": 2},
    "uneven-strides": {"-y": 3, "-x": 2, "-u": 3, "-v": 2},
    "zero-filled-outputs": {"-y": 1, "-x": 1, "-p": 0, "-q": 0, "-u": 2, "-v": 3},
    "dilated": {"-p": 2, "-q": 3, "-l": 2, "-j": 3},
    "one-pixel": {"-n": 70, "-H": 1, "-W": 1, "-y": 3, "-x": 3, "-p": 1, "-q": 1},
    "small-images": {"-n": 70, "-H": 2, "-W": 3, "-y": 3, "-x": 3, "-p": 1, "-q": 1},
    "wide": {"-n": 1, "-H": 3, "-W": 300},
    "uneven-channels": {"-c": 40, "-k": 72, "-g": 1},
    "depthwise": {"-c": 40, "-k": 40, "-g": 40},
    "fprop": {"-F": 1},
    "dgrad": {"-F": 2},
    "wgrad": {"-F": 4},
    "bf16": {"command": "convbfp16"},
    "f32": {"command": "conv"},
    "f64": {"command": "convfp64"},
    "channels-first": {"layouts": "first first first"},
    "an-input-of-planes": {"layouts": "first last last"},
    "1-D": {"--spatial_dim": 1},
    "3-D": {"--spatial_dim": 3},
    "3-D-one-slice-at-a-time": {"--spatial_dim": 3, "--fil_d": 1, "--pad_d": 0},
}
LIMIT = 1 << 31
"""Elements that a 32-bit index does not reach."""


@dataclass(frozen=True)
class Reading:
    """A program of one kernel, as families see it."""

    problem: ContractionProblem
    arguments: tuple[int, ...]
    """For each input of the kernel, which argument of the program it is."""


def module_of(problem: ConvProblem) -> ModuleOp:
    """A program of one convolution."""
    return ModuleOp([function_of("main", problem)])


def reading_of(module: ModuleOp) -> Reading | Refusal:
    """The only kernel of a program, or why families see none."""
    regions = regions_in(run(module, "backward-data").module)
    if len(regions) != 1:
        return Refusal(f"it is {len(regions)} kernels")
    callee, captures = outlined(regions[0], "k")
    found = read_problem(callee)
    if isinstance(found, Refusal):
        return found
    sources = [_reshaped(value) for value in captures]
    if not all(isinstance(value, BlockArgument) for value in sources):
        return Refusal("its kernel reads what an op computes")
    return Reading(found, tuple(v.index for v in sources if isinstance(v, BlockArgument)))


def _reshaped(value: SSAValue) -> SSAValue:
    """What lies in the memory of `value`, before its reshapes."""
    while isinstance(value.owner, Operation) and value.owner.name in ALIASES:
        value = value.owner.operands[0]
    return value


@cache
def folders() -> Mapping[str, KernelFamily]:
    """The families of the registry, by the folders that they lie in."""
    found: dict[str, KernelFamily] = {}
    for family in FAMILIES:
        for folder in sorted(path.name for path in FOLDERS.iterdir() if path.is_dir()):
            try:
                module = import_module(f"{KERNELS}.{folder}.family")
            except ModuleNotFoundError:
                continue
            if type(family).__module__ == module.__name__:
                found[folder] = family
            elif any(value is family for value in vars(module).values()):
                found.setdefault(folder, family)
    return found


def lines_of(folder: str, *, adversarial: bool = True) -> list[str]:
    """The lines that a family is made for, and odder ones behind them; each says its layouts."""
    text = (FOLDERS / folder / PROBLEMS).read_text(encoding="utf-8")
    text = text if adversarial else text.partition("# Adversarial")[0]
    return [line for line in map(strip_comment, text.splitlines()) if line.strip()]


def problem_of(line: str) -> ConvProblem:
    """The problem of a line that has one."""
    (problem,) = parse_line(line).problems.values()
    return problem


def variant(line: str, name: str) -> ConvProblem | None:
    """A variant of a line's problem; None if there is no such one, or it is the line itself."""
    changes = VARIANTS[name]
    command, *words = line.split()
    options: dict[str, int | str] = dict(zip(words[::2], words[1::2], strict=True))
    rank = int(options.get("--spatial_dim", 2))
    if "--spatial_dim" in changes and rank != len(LAYOUTS) - 1:
        return None  # lines of images become lines and volumes
    options |= {key: value for key, value in changes.items() if key.startswith("-")}
    rank = int(options.get("--spatial_dim", 2))
    if rank == len(LAYOUTS):
        options = {**DEPTH, **options}
    if rank == 1:
        options = {key: value for key, value in options.items() if key not in ROWS}
    if "layouts" in changes or "--spatial_dim" in changes:
        words = str(changes.get("layouts", "last last last")).split()
        for which, word in zip(("in", "fil", "out"), words, strict=True):
            options[f"--{which}_layout"] = LAYOUTS[rank][word == "first"]
    command = str(changes.get("command", command))
    text = " ".join([command, *(f"{key} {value}" for key, value in options.items())])
    if changes and text.split() == line.split():
        return None
    try:
        problem = problem_of(text)
    except ValueError:
        return None  # the window does not fit
    return problem if prod(problem.output_spatial) else None


def beyond(problem: ConvProblem) -> ConvProblem:
    """The same with so many images that a tensor has more than 2^31 elements."""
    one, two = replace(problem, n=1).shapes, replace(problem, n=2).shapes
    image = max(prod(shape) for shape, other in zip(one, two, strict=True) if shape != other)
    return replace(problem, n=LIMIT // image + 3)
