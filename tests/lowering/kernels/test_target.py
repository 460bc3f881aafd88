from __future__ import annotations

import pytest

from convir.lowering.kernels.target import DEFAULT_TARGET, Target, named, names, target_of


@pytest.mark.parametrize("name", names())
def test_a_file_is_a_target_that_parses_from_its_text(name: str) -> None:
    target = named(name)
    assert Target.parse(str(target)) == target
    assert hash(Target.parse(str(target))) == hash(target)


def test_the_default_is_first() -> None:
    assert named(names()[0]) == DEFAULT_TARGET


def test_sizes_are_the_drivers_and_rates_those_of_a_gpu_alike() -> None:
    half = target_of("sm_80", 54, 166912, "A slice")
    a100 = named("a100")
    assert (half.multiprocessors, half.name) == (54, "A slice")
    assert half.dram_read == a100.dram_read
    assert not half.is_hopper
    assert half.tensor_rate("bf16") == a100.mma_rate["bf16"]


def test_an_architecture_without_a_file_has_the_rates_of_the_default() -> None:
    assert Target.parse("sm_70:80:98304").clock_mhz == DEFAULT_TARGET.clock_mhz


@pytest.mark.parametrize("text", ["gtx", "sm_90a:132", "sm_90a:many:232448"])
def test_texts_that_are_no_target(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a GPU|invalid literal"):
        Target.parse(text)
