"""What tests on a GPU share: CuPy or a skip with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from convir.runtime.cuda import toolkit


def cupy_or_skip(index: int = 0) -> Any:
    """The module `cupy`, if GPU number `index` can be used."""
    try:
        toolkit.require_gpu(index)
    except toolkit.NoGpuError as error:
        pytest.skip(str(error))
    return toolkit.cupy()
