"""Programs that once broke a pass or a device: each file of `programs/` is compiled and compared.

A file holds a function `main`, and in comments at its top

    // shapes: 3x4, scalar      the shape of each argument, where types leave sizes open
    // elements: all            the text is one for every element type: ELEMENT, ZERO, ADD, MUL
    // contradicts: …           what is wrong with these shapes, which only a call can tell
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from gpu import nvrtc_or_skip
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline

from convir.api.compile import compile as convir_compile
from convir.dialects.context import new_context, read_module
from convir.dialects.diagnostics import DiagnosticError
from convir.lowering.kernel_code import cuda_plans
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.lowering.pipeline import lowering_passes
from convir.passes import run
from convir.passes.bind_sizes.pass_ import BindSizesPass, parse_shape
from convir.passes.bind_sizes.size_rules import spelled
from convir.passes.inline import InlinePass
from convir.passes.manager.registry import CONVIR_PASSES
from convir.passes.pipelines import PIPELINES
from convir.reference.checking.check import Checker
from convir.reference.checking.inputs import random_arguments
from convir.reference.exactness.facts import EXACT
from convir.runtime.cuda.toolchain.compile import compile_cubin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Attribute

    from convir.reference.dtypes import Array

INTEGERS = ("i1", "i8", "i16", "i32", "i64", "index")
FLOATS = ("f16", "bf16", "f32", "f64")
"""Every element type there is."""

FORCED = ("decompose-strided-dgrad", "convert-strided-insert-slice-to-generic")
"""Passes that also run where their costs say that they do not pay."""
REWRITES = (
    *(name for name in CONVIR_PASSES if name not in ("bind-sizes", "convert-conv-to-linalg")),
    *(f"{name}{{force=true}}" for name in FORCED),
    *PIPELINES,
)


@dataclass(frozen=True)
class Case:
    """One program, for one element type."""

    text: str
    shapes: tuple[tuple[int, ...], ...] | None
    contradiction: str | None
    """What a call is told; None if it computes."""

    @property
    def module(self) -> ModuleOp:
        return read_module(self.text)

    def arguments(self) -> tuple[Array, ...]:
        """Small integers: every sum of products is exact."""
        main = next(op for op in self.module.ops if isinstance(op, FuncOp) and is_main(op))
        declared: list[Attribute] = list(main.function_type.inputs)
        if self.shapes is not None:
            tensors = [cast("TensorType[Attribute]", one) for one in declared]
            declared = [
                TensorType(tensor.element_type, shape)
                for tensor, shape in zip(tensors, self.shapes, strict=True)
            ]
        return random_arguments(declared, seed=1)


def is_main(function: FuncOp) -> bool:
    return function.sym_name.data == "main"


def cases() -> Iterator[tuple[str, Case]]:
    for path in sorted((Path(__file__).parent / "programs").glob("*.mlir")):
        text = path.read_text()
        spelling = re.search(r"^// shapes: (.+)$", text, re.MULTILINE)
        shapes = spelling and tuple(map(parse_shape, spelling[1].split(", ")))
        contradiction = re.search(r"^// contradicts: (.+)$", text, re.MULTILINE)
        if "// elements: all" not in text:
            yield path.stem, Case(text, shapes, contradiction and contradiction[1])
            continue
        for element in (*INTEGERS, *FLOATS):
            zero, kind = ("0.0", "f") if element in FLOATS else ("0", "i")
            named = text.replace("ELEMENT", element).replace("ZERO", zero)
            named = named.replace("arith.ADD", f"arith.add{kind}")
            yield f"{path.stem}-{element}", Case(named.replace("MUL", f"mul{kind}"), shapes, None)


CASES = dict(cases())


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_there_are_programs() -> None:
    assert len(CASES) > 60


@pytest.mark.parametrize("pipeline", ["default", ""])
def test_the_host_agrees(case: Case, pipeline: str) -> None:
    arguments = case.arguments()
    executable = convir_compile(case.text, pipeline=pipeline, device="host")
    if case.contradiction is not None:
        with pytest.raises(DiagnosticError, match=re.escape(case.contradiction)) as caught:
            executable(*arguments)
        assert caught.value.diagnostics[0].line > 0
        return
    checker = Checker(case.module, "main", arguments=arguments)
    returned: Any = executable(*arguments)
    results = returned if len(executable.outputs) > 1 else (returned,)
    arrays = [np.asarray(result) for result in results]
    report = checker.check_results("main", arrays, (EXACT,) * len(arrays))
    assert report.passed, report


def test_passes_keep_what_it_means(case: Case) -> None:
    checker = Checker(case.module, "main", arguments=case.arguments())
    for rewrite in REWRITES:
        report = checker.check(run(case.module, rewrite).module)
        assert report.passed or case.contradiction, f"{rewrite}: {report}"


def test_cuda_code_compiles(case: Case) -> None:
    nvrtc_or_skip()
    if case.contradiction is not None:
        pytest.skip("no sizes fit")
    shapes = tuple(spelled(array.shape) for array in case.arguments())
    bound = run(case.module, (InlinePass(), BindSizesPass(shapes), *PIPELINES["default"])).module
    PassPipeline(lowering_passes("cuda")).apply(new_context(), bound)
    for _, plan in cuda_plans(bound, DEFAULT_TARGET):
        for launch in plan.kernels:
            assert compile_cubin(launch.source, "sm_90a")
