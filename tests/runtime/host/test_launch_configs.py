"""The configs of a launch stand for those of its callee."""

from __future__ import annotations

import pytest

from convir.dialects.context import read_module
from convir.lowering.implementations import CUDA, HOST, config_of
from convir.runtime.program import Launch
from convir.runtime.read_program import read_program

pytestmark = pytest.mark.fast

TEXT = """
kernel.func @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {configs = {cuda = "a"}} {
  kernel.return %x : tensor<4xf32>
}
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {rt.program} {
  rt.launch @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>)
  rt.launch @k ins(%x : memref<4xf32>) outs(%y : memref<4xf32>) {configs = {host = "c", cuda = "b"}}
  func.return
}
"""


def test_a_launch_without_configs_has_its_callees() -> None:
    plain, chosen = read_program(read_module(TEXT)).calls
    assert isinstance(plain, Launch)
    assert isinstance(chosen, Launch)
    assert config_of(plain.kernel, CUDA) == "a"
    assert (config_of(chosen.kernel, CUDA), config_of(chosen.kernel, HOST)) == ("b", "c")
