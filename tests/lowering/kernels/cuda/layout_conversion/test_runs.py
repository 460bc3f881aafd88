"""Copies of planes that begin anywhere, compiled for a CPU and run: every element, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from emulated_cuda import aligned, emulate, missing

from convir.lowering.kernels.cuda.launch import KernelPlan, Pointer, Scalar
from convir.lowering.kernels.cuda.layout_conversion.copies import Copy, copy_launches

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    from convir.lowering.bodies.contraction.spec import StorageType

REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")

POISON = 0x7EEE
GUARD = 16
"""Elements behind the last one, which nothing writes."""
IMAGES = ((2, 64 * 49), (49, 1)), 64, 49
ROWS = ((3, 16 * 333), (333, 1)), 16, 333
ONE = ((333, 1),), 24, 333
VOLUMES = ((2, 8 * 5 * 143), (5, 143), (7, 13), (13, 1)), 8, 5 * 143
APART = ((2, 8 * 204), (4, 51), (25, 1)), 8, 204


def elements_of(copy: Copy) -> npt.NDArray[np.int64]:
    """The element of the planes for each of the copy, in the copy's order."""
    places = np.zeros((), np.int64)
    for size, stride in (*copy.pixels, (copy.channels, copy.stride)):
        places = places[..., None] + np.arange(size) * stride
    return places.reshape(-1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the code is compiled once for all offsets."""
    return tmp_path_factory.mktemp("runs")


@pytest.mark.parametrize("behind", [0, 1, 3])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("f16", IMAGES), ("f16", ONE), ("f16", APART), ("f32", VOLUMES), ("f32", ROWS)],
)
def test_every_element_and_no_other(
    shape: tuple[tuple[tuple[int, int], ...], int, int],
    dtype: StorageType,
    back: bool,
    behind: int,
    folder: Path,
) -> None:
    """Planes begin `behind` elements after a multiple of 16 bytes."""
    copy = Copy("c" if back else "a", dtype, *shape, back=back)
    assert copy.cuts_runs
    places, storage = elements_of(copy), np.uint16 if dtype == "f16" else np.uint32
    values = np.random.default_rng(0).integers(0, POISON, places.size).astype(storage)
    planes = np.full(int(places.max()) + 1 + GUARD, POISON, storage)
    planes[places] = values
    channels = np.full(places.size + GUARD, POISON, storage)
    channels[: places.size] = values
    read, expected = (channels, planes) if back else (planes, channels)
    offsets = (0, behind) if back else (behind, 0)
    read = aligned(read, offsets[0] * read.itemsize)
    written = aligned(np.full_like(expected, POISON), offsets[1] * read.itemsize)
    (kernel,) = copy_launches([(copy, Pointer("workspace"))], back=back)
    numbers = (each for each in kernel.arguments if isinstance(each, Scalar))
    kernel = replace(kernel, arguments=(Pointer("input"), Pointer("output"), *numbers))
    emulate(KernelPlan((kernel,)), [read], [written], folder)
    np.testing.assert_array_equal(written, expected)
