"""What a launch hands to the driver, without a GPU: a driver that reads it back."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.lowering.kernels.cuda.launch import CudaKernel, Pointer, TensorMap
from convir.runtime.cuda import launch, toolkit

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS = TensorMap(Pointer("input"), "f16", (64, 64), (128,), (64, 64), 128)
PLACES = {Pointer("input"): (0, 32), Pointer("output"): (1, 0), Pointer("workspace"): (2, 256)}


class Driver:
    """Keeps what it was asked to launch."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.encoded: list[int] = []
        self.status = 0

    def launchKernel(self, *arguments: int) -> None:  # noqa: N802
        *shape, parameters, extra = arguments
        assert extra == 0
        self.launched.append((*shape, *_values(parameters, 3)))

    def cuLaunchKernelEx(self, at: Any, function: Any, parameters: Any, extra: None) -> int:  # noqa: N802
        config = at._obj
        attribute = config.attributes[0]
        assert (config.attribute_count, attribute.id, attribute.value) == (1, 6, 1)
        shape = (function.value, *config.grid, *config.block, config.shared_bytes)
        self.launched.append((*shape, config.stream, *_values(parameters.value, 3)))
        return self.status

    def launchCooperativeKernel(self, *arguments: int) -> None:  # noqa: N802
        *shape, parameters = arguments
        self.launched.append((*shape, *_values(parameters, 3)))

    def encoder(self, tensor_map: Any) -> Any:
        def encode(address: int) -> Any:
            self.encoded.append(address)
            return np.full(128, address % 251, np.uint8)

        return encode


def _values(parameters: int, count: int) -> list[int]:
    places = (ctypes.c_uint64 * count).from_address(parameters)
    return [ctypes.c_uint64.from_address(place).value for place in places]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    fake = Driver()

    def loaded(source: str, symbol: str) -> Any:
        return SimpleNamespace(ptr=77)

    def launches() -> Driver:
        return fake

    monkeypatch.setattr(launch, "load_kernel", loaded)
    monkeypatch.setattr(launch, "Encoder", fake.encoder)
    monkeypatch.setattr(toolkit, "launches", launches)
    monkeypatch.setattr(toolkit, "driver_library", launches)
    return fake


def _kernel(**flags: bool) -> CudaKernel:
    arguments = (Pointer("output"), ROWS, Pointer("workspace"))
    return CudaKernel("", "k", (5, 6, 7), (128, 1, 1), 1024, arguments, **flags)


@pytest.mark.parametrize("flag", ["", "is_cooperative", "is_dependent"])
def test_what_a_launch_hands_over(driver: Driver, flag: str) -> None:
    loaded = launch.LoadedKernel(_kernel(**{flag: True} if flag else {}), PLACES)
    loaded.launch((1000, 2000, 3000), 9)
    byte = 1032 % 251
    of_map = int.from_bytes(bytes([byte] * 8), "little")
    assert driver.launched == [(77, 5, 6, 7, 128, 1, 1, 1024, 9, 2000, of_map, 3256)]


def test_a_programmatic_launch_that_fails(driver: Driver) -> None:
    loaded, driver.status = launch.LoadedKernel(_kernel(is_dependent=True), PLACES), 201
    with pytest.raises(RuntimeError, match=r"refuses a launch .*INVALID_CONTEXT"):
        loaded.launch((1000, 2000, 3000), 9)


def test_maps_are_encoded_once_for_an_address(driver: Driver) -> None:
    loaded = launch.LoadedKernel(_kernel(), PLACES)
    for memories in ((1000, 2000, 3000), (1000, 2000, 3000), (1000, 2048, 3000), (4096, 0, 0)):
        loaded.launch(memories, 0)
    assert driver.encoded == [1032, 4128]
    assert [launched[9] for launched in driver.launched] == [2000, 2000, 2048, 0]


def test_launches_that_overlap_have_parameters_of_their_own(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = launch.LoadedKernel(_kernel(), PLACES)
    inner: list[Sequence[int]] = [(512, 2, 3)]
    first = driver.launchKernel

    def nested(*arguments: int) -> None:
        if inner:
            loaded.launch(inner.pop(), 0)
        first(*arguments)

    monkeypatch.setattr(loaded, "_launch", nested)
    loaded.launch((256, 20, 30), 0)
    assert [launched[9] for launched in driver.launched] == [2, 20]
