"""What makes importing xDSL quicker changes nothing else; each test is a process of its own."""

from __future__ import annotations

import subprocess
import sys

PRELUDE = """
import dataclasses, sys
from convir.dialects.compat import startup
startup.install()
"""


def run(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRELUDE + text], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_formats_are_read_and_printed() -> None:
    run("""
from convir.dialects.context import read_module
text = '''func.func @f(%a: f32, %m: memref<2xf32>) -> f32 {
  %0 = arith.negf %a : f32
  %c0 = arith.constant 0 : index
  memref.store %0, %m[%c0] : memref<2xf32>
  func.return %0 : f32
}'''
once = str(read_module(text))
assert "arith.negf %a : f32" in once
assert str(read_module(once)) == once
""")


def test_math_is_loaded_when_it_is_used() -> None:
    run("""
import xdsl.dialects.linalg
def loaded():
    return "ExpOp" in object.__getattribute__(sys.modules["xdsl.dialects.math"], "__dict__")
assert not loaded()
from convir.dialects.context import read_module
read_module("func.func @f(%a: f32) -> f32 { %0 = math.exp %a : f32 return %0 : f32 }")
assert loaded()
""")


def test_dataclasses_of_one_text_stay_apart() -> None:
    run("""
def point(name):
    fields = [("x", int), ("y", int, dataclasses.field(default=7))]
    return dataclasses.make_dataclass(name, fields, frozen=True)
first, second = point("First"), point("Second")
assert repr(first(1)) == "First(x=1, y=7)" and repr(second(2)) == "Second(x=2, y=7)"
assert first(1) == first(1) != second(1)
assert repr(first(3)) == "First(x=3, y=7)"
def refused(change):
    try:
        change(first(1))
    except dataclasses.FrozenInstanceError as error:
        return str(error)
assert refused(lambda point: setattr(point, "x", 2)) == "cannot assign to field 'x'"
assert refused(lambda point: delattr(point, "y")) == "cannot delete field 'y'"
""")
