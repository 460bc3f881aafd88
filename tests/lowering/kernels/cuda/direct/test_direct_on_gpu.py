"""Direct convolution templates on a GPU: tails, holes, odd windows and poisoned memory."""

from __future__ import annotations

import numpy as np
import pytest
from conv_lines import NHWC
from gpu import cupy_or_skip
from xdsl.dialects.builtin import ModuleOp

from convir.api.compile import compile as convir_compile
from convir.frontends.conv_module import function_of
from convir.frontends.miopen import parse_line

pytestmark = pytest.mark.gpu


def test_what_lies_beside_a_window_does_not_reach_its_output() -> None:
    cupy = cupy_or_skip()
    line = f"convfp16 -n 1 -c 3 -H 8 -W 16 -k 32 -y 7 -x 7 -p 3 -q 3 -u 2 -v 2 -F 1 {NHWC}"
    (problem,) = parse_line(line).problems.values()
    x, w = (cupy.ones(shape, "f2") for shape in problem.shapes[:2])
    x[0, :, 9] = cupy.inf
    executable = convir_compile(ModuleOp([function_of("main", problem)]), device="cuda")
    y = cupy.asnumpy(executable(x, w))
    reached = [column for column in range(8) if np.isinf(y[0, :, column]).all()]
    assert reached == [3, 4, 5, 6]
    assert np.isfinite(np.delete(y, reached, axis=2)).all()
