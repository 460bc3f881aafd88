"""`inline` stops before a function is too large, counting every op of it."""

from __future__ import annotations

import pytest

from convir.passes import inline, run

pytestmark = pytest.mark.fast

TEXT = """
func.func @f(%x: f32) -> f32 {
  %0 = func.call @g(%x) : (f32) -> f32
  %1 = func.call @g(%0) : (f32) -> f32
  func.return %1 : f32
}
func.func @g(%x: f32) -> f32 {
  %0 = arith.negf %x : f32
  %1 = arith.addf %0, %x : f32
  func.return %1 : f32
}
"""
OPS_OF_F, OPS_OF_G = 4, 4
"""With the function itself."""


@pytest.mark.parametrize("inlined", range(3))
def test_calls_are_inlined_while_there_is_room(
    inlined: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (0, OPS_OF_G - 1):
        most = OPS_OF_F + inlined * OPS_OF_G + room
        monkeypatch.setattr(inline, "MAX_OPS", most)
        result = run(TEXT, "inline")
        fired = [remark for remark in result.remarks if remark.fired]
        assert len(fired) == inlined
        assert str(result.module).count("func.call") == 2 - inlined
        refused = {remark.reason for remark in result.remarks if not remark.fired}
        assert refused == ({f"@f would have more than {most} ops"} if inlined < 2 else set())
