"""Digests of a model's constants, which a thread computes while the model is imported."""

from __future__ import annotations

import numpy as np
import pytest

from convir.dialects.conv.constant import digest_of
from convir.frontends.onnx.digests import LARGE_BYTES, Digests

pytestmark = pytest.mark.fast

LARGE = np.arange(LARGE_BYTES // 4, dtype=np.float32).reshape(2, -1)


def test_large_constants_of_the_file_are_digested() -> None:
    turned = LARGE.T
    digests = Digests({"w": LARGE, "turned": turned, "computed": LARGE}, {"w", "turned"})
    assert digests.of("w", LARGE) == digest_of(LARGE.tobytes())
    assert digests.of("turned", turned) == digest_of(turned.tobytes())
    assert digests.of("computed", LARGE) is None
    assert digests.of("unknown", LARGE) is None


def test_small_ones_and_what_has_another_value_now_are_not() -> None:
    small = LARGE[:1, :8]
    digests = Digests({"w": LARGE, "small": small}, {"w", "small"})
    assert digests.of("small", small) is None
    assert digests.of("w", LARGE + 1) is None
