"""The cost model against what was measured on the machine whose rates it has."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from convir.lowering.kernels.target import named
from convir.passes.convert_strided_insert_slice_to_generic.costs import (
    Traffic,
    copy_us,
    one_pass_us,
)

pytestmark = pytest.mark.fast

COSTS = named("h200").costs


@dataclass(frozen=True)
class Measured:
    """One scatter on an H200: medians of 15 with the L2 cache flushed, in µs."""

    name: str
    result_mb: float
    source_mb: float
    run: int
    pitch: int
    shifted: int
    divided: int
    one_pass_us: float
    fill_and_copy_us: float

    @property
    def traffic(self) -> Traffic:
        return Traffic(
            result_bytes=int(self.result_mb * 1e6),
            source_bytes=int(self.source_mb * 1e6),
            run_bytes=self.run,
            pitch_bytes=self.pitch,
            shifted_dims=self.shifted,
            divided_dims=self.divided,
            filled=True,
            stored_by_producer=False,
        )


MEASURED = (
    Measured("32x52x52x1024 f16 s2", 177.21, 40.96, 2048, 4096, 2, 0, 58.1, 66.1),
    Measured("32x50x50x2048 f16 s2", 327.68, 81.92, 4096, 8192, 2, 0, 105.8, 119.0),
    Measured("32x202x202x256 f16 s2", 668.53, 163.84, 512, 1024, 2, 0, 214.1, 233.7),
    Measured("942x1452x32 bf16 s2", 87.54, 21.81, 64, 128, 2, 0, 31.0, 40.6),
    Measured("32x202x202x8 f16 s2", 20.89, 5.12, 16, 32, 2, 0, 10.7, 14.2),
    Measured("32768x52x52 f16 s2", 177.21, 40.96, 2, 4, 2, 0, 67.6, 129.2),
    Measured("32768x52x52 f32 s2", 354.42, 81.92, 4, 8, 2, 0, 114.7, 231.2),
    Measured("32768x52x52 i8 s2", 88.60, 20.48, 1, 2, 2, 0, 63.7, 84.3),
    Measured("32768x52x52 f16 s3", 177.21, 18.94, 2, 6, 0, 2, 133.5, 105.8),
    Measured("4096x27x27x27 i8 s3", 80.62, 2.99, 1, 3, 0, 3, 185.9, 37.1),
    Measured("32x104x104x64 f16 s3", 44.30, 4.73, 128, 384, 0, 2, 16.4, 18.8),
    Measured("512x32776 f32 s8", 67.13, 8.39, 4, 32, 1, 0, 24.2, 55.0),
)


@pytest.mark.parametrize("case", MEASURED, ids=lambda case: case.name)
def test_decides_as_measured(case: Measured) -> None:
    one_pass = one_pass_us(COSTS, case.traffic)
    separate = copy_us(COSTS, case.traffic)
    assert (one_pass < separate) == (case.one_pass_us < case.fill_and_copy_us)
    assert one_pass == pytest.approx(case.one_pass_us, rel=0.15)
    assert separate == pytest.approx(case.fill_and_copy_us, rel=0.4)


def test_a_live_destination_is_read_and_written_by_one_pass_only() -> None:
    live = Traffic(1 << 30, 1 << 20, 256, 2048, 2, 0, filled=False, stored_by_producer=False)
    assert copy_us(COSTS, live) < 10 < one_pass_us(COSTS, live)


def test_a_producer_stores_for_the_price_of_the_holes() -> None:
    stored = Traffic(4 << 20, 1 << 20, 256, 512, 2, 0, filled=True, stored_by_producer=True)
    assert copy_us(COSTS, stored) < 1.0
