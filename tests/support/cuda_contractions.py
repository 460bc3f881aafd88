"""Kernels of convolution problems, for tests of CUDA templates: what selection would see."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import ModuleOp

from convir.analysis.refusal import Refusal
from convir.dialects.context import new_context
from convir.dialects.kernel import ops as kernel
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line
from convir.lowering.kernels.cuda.problem import ContractionProblem, read_problem
from convir.lowering.kernels.target import DEFAULT_TARGET, Target
from convir.lowering.regions.form_kernel_regions import FormKernelRegionsPass
from convir.lowering.regions.fuse_epilogue import FuseEpiloguePass
from convir.lowering.regions.outline_kernels import outlined
from convir.passes import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from convir.dialects.conv.problem import ConvProblem
    from convir.lowering.bodies.contraction.spec import Contraction
    from convir.lowering.kernels.cuda.epilogue import Epilogue

Config = TypeVar("Config")


def kernels_of(problem: ConvProblem) -> list[kernel.FuncOp]:
    """The kernels that a convolution becomes."""
    module = run(ModuleOp([function_of("main", problem)]), "backward-data").module
    return kernels_in(module)


def kernels_in(module: ModuleOp) -> list[kernel.FuncOp]:
    """The kernels that the functions of a module become."""
    return [outlined(region, "k")[0] for region in regions_in(module)]


def regions_in(module: ModuleOp) -> list[kernel.RegionOp]:
    """The regions that will be kernels, which are formed in the module."""
    FuseEpiloguePass().apply(new_context(), module)
    FormKernelRegionsPass().apply(new_context(), module)
    return [op for op in module.walk() if isinstance(op, kernel.RegionOp)]


def contractions_of(problem: ConvProblem) -> list[ContractionProblem]:
    """Those of a problem's kernels that templates may compute."""
    found = [read_problem(callee) for callee in kernels_of(problem)]
    return [one for one in found if not isinstance(one, Refusal)]


def contraction_of_line(text: str) -> ContractionProblem:
    """The contraction of a MIOpenDriver line with one problem."""
    (problem,) = parse_line(text).problems.values()
    (found,) = contractions_of(problem)
    return found


def refusal_of_line(
    kernels: Callable[[Contraction, Epilogue, Config, Target], object], text: str, config: Config
) -> str:
    """Why a template, which has these `kernels`, computes no line with one problem as `config`."""
    return _reason(kernels, contraction_of_line(text), config)


def refusal_of_text(
    kernels: Callable[[Contraction, Epilogue, Config, Target], object],
    found: ContractionProblem,
    parse: Callable[[str], Config],
    text: str,
) -> str:
    """Why a text is not a config, or why a template does not compute `found` as that config."""
    try:
        config = parse(text)
    except ValueError as error:
        return str(error)
    return _reason(kernels, found, config)


def _reason(
    kernels: Callable[[Contraction, Epilogue, Config, Target], object],
    found: ContractionProblem,
    config: Config,
) -> str:
    refused = kernels(found.contraction, found.epilogue, config, DEFAULT_TARGET)
    assert isinstance(refused, Refusal)
    return refused.reason
