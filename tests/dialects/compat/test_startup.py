"""What makes importing xDSL quicker changes nothing else; each test is a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

compiles_methods_apart = pytest.mark.skipif(
    sys.version_info >= (3, 13), reason="dataclasses compiles the methods of a class at once"
)

PRELUDE = """
import dataclasses, sys, types
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


def test_formats_wait_for_an_op() -> None:
    run("""
import pytest, xdsl.irdl
from xdsl.utils.exceptions import ParseError
def define(format):
    @xdsl.irdl.irdl_op_definition
    class Op(xdsl.irdl.IRDLOperation):
        name = "mine.op"
        assembly_format = format
    return Op
with pytest.raises(ParseError):
    str(define("$nobody attr-dict")())
assert str(define("attr-dict")()) == "mine.op"
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


POINT = """
module = types.ModuleType("convir.mine")
sys.modules[module.__name__] = module
def point(name, **given):
    text = f'''
@dataclass(frozen=True, **given)
class {name}:
    x: int
    y: int = 7
'''
    vars(module).update(dataclass=dataclasses.dataclass, given=given)
    exec(text, vars(module))
    return vars(module)[name]
def waits(method):
    return method.__code__.co_filename == startup.__file__
"""


def test_dataclasses_of_one_text_stay_apart() -> None:
    run(
        POINT
        + """
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
"""
    )


@compiles_methods_apart
def test_methods_take_their_place_when_they_are_called() -> None:
    run(
        POINT
        + """
for given in ({}, {"slots": True}):
    base = point("Base", **given)
    class Derived(base):
        pass
    assert waits(base.__init__) and waits(base.__eq__) and waits(base.__hash__)
    one = Derived(x=1)
    assert not waits(base.__init__) and "__init__" not in vars(Derived)
    assert base.__init__.__qualname__ == "Base.__init__"
    assert waits(base.__eq__)
    assert one == Derived(1, 7) != Derived(2)
    assert not waits(base.__eq__)
    assert hash(one) == hash(Derived(1)) and not waits(base.__hash__)
    try:
        base(z=1)
    except TypeError as error:
        assert "unexpected keyword argument 'z'" in str(error)
    else:
        raise AssertionError
"""
    )


def test_classes_of_others_are_as_ever() -> None:
    run(
        POINT
        + """
@dataclasses.dataclass(frozen=True)
class Mine:
    x: int
assert not any(map(waits, (Mine.__init__, Mine.__eq__, Mine.__hash__, Mine.__setattr__)))
"""
    )


@compiles_methods_apart
def test_nothing_waits_outside_of_the_block() -> None:
    run(
        POINT
        + """
startup._WANTED.leave()
with startup.quick_imports():
    assert waits(point("Inside").__init__)
    with startup.quick_imports():
        pass
    assert waits(point("StillInside").__init__)
assert not waits(point("Outside").__init__)
from xdsl.irdl.declarative_assembly_format import FormatProgram
from xdsl.irdl import IRDLOperation, irdl_op_definition
@irdl_op_definition
class Plain(IRDLOperation):
    name = "mine.plain"
made = FormatProgram.from_str("attr-dict", Plain.get_irdl_definition())
assert isinstance(made, FormatProgram)
"""
    )
