"""`convert-integer-conv-to-float` on random convolutions: the same integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from byte_convs import module_of
from conv_cases import problems
from hypothesis import given, settings

from convir.dialects.conv.geometry import Direction
from convir.dialects.diagnostics import DiagnosticError
from convir.passes import run
from convir.reference.checking.check import check

if TYPE_CHECKING:
    from convir.dialects.conv.problem import ConvProblem

pytestmark = pytest.mark.fast


@settings(max_examples=25, deadline=None)
@given(problems(directions=[Direction.FPROP], dtypes=["f32"]))
def test_a_convolution_means_the_same(problem: ConvProblem) -> None:
    module = module_of(problem)
    result = run(module, "convert-integer-conv-to-float{device=cuda}")
    (remark,) = result.remarks
    assert remark.fired
    assert "xi8>" not in next(line for line in str(result.module).split("\n") if "fprop" in line)
    report = check(module, result.module)
    assert report.passed
    assert report.exact


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(DiagnosticError, match="device is host or cuda, not 'tpu'"):
        run("builtin.module {}", "convert-integer-conv-to-float{device=tpu}")
