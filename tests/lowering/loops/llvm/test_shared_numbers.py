"""Modules that differ in numbers become one, which computes what each of them did."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from convir.lowering.loops.llvm.shared_numbers import families, merge, parse, without_numbers
from convir.runtime.host.jit import compile_ir

MODULE = """
@table = internal constant [3 x i64] [i64 1, i64 {a}, i64 5]
@room = internal global [{room} x i8] zeroinitializer, align 64

define internal i64 @inner(i64 %x) {{
entry:
  %room.at = ptrtoint ptr @room to i64
  %none = sub i64 %room.at, %room.at
  %at = getelementptr i8, ptr @table, i64 8
  %a = load i64, ptr %at, align 8
  %scaled = mul nsw i64 %x, {b}
  %sum = add i64 %scaled, %a
  %third = udiv i64 %sum, {divisor}
  %all = add i64 %third, %none
  ret i64 %all
}}

define internal i64 @same(i64 %x) {{
  %y = add i64 %x, 7
  ret i64 %y
}}

define void @{entry}(ptr %args, i64 %begin, i64 %end, i64 %worker) {{
entry:
  %out = load ptr, ptr %args, align 8
  br label %loop
loop:
  %i = phi i64 [ {first}, %entry ], [ %next, %loop ]
  %y = call i64 @inner(i64 %i)
  %z = call i64 @same(i64 %y)
  %to = getelementptr i64, ptr %out, i64 %i
  store i64 %z, ptr %to, align 8
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 12
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def module(entry: str, a: int, b: int, first: int = 0, divisor: int = 3, room: int = 64) -> str:
    return MODULE.format(entry=entry, a=a, b=b, first=first, divisor=divisor, room=room)


@pytest.mark.fast
def test_modules_that_may_be_merged_are_equal_without_their_numbers() -> None:
    some = module("f", 1, 2), module("g", -3, 40, 5, 7, 128)
    assert without_numbers(some[0], ["f"]) == without_numbers(some[1], ["g"])
    longer = some[0].replace("[3 x i64] [i64 1,", "[4 x i64] [i64 8, i64 1,")
    assert without_numbers(longer, ["f"]) == without_numbers(some[0], ["f"])
    other = some[0].replace("%y = add", "%y = sub")
    assert without_numbers(other, ["f"]) != without_numbers(some[0], ["f"])


def expected(a: int, b: int, first: int = 0) -> list[int]:
    return [(i * b + a) // 3 + 7 if i >= first else -1 for i in range(12)]


def test_a_merged_module_computes_what_each_did():
    given = [("f", 4, 10, 0), ("g", 9, 100, 2), ("h", 4, 7, 11)]
    modules = [
        parse(module(name, a, b, first, room=64 * (1 + first))) for name, a, b, first in given
    ]
    assert families(modules) == [[0, 1, 2]]
    merged = merge(modules, {modules[0].symbols["f"]: 1})
    assert [list(entries) for entries in merged.entries] == [["f"], ["g"], ["h"]]
    (name,) = {entry for entries in merged.entries for entry in entries.values()}
    library = compile_ir(merged.ir, exports=(name,))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(library.address(name))
    for (_, a, b, first), numbers in zip(given, merged.numbers, strict=True):
        out, values = np.full(12, -1), np.array(numbers, np.int64)
        args = (ctypes.c_int64 * 2)(out.ctypes.data, values.ctypes.data)
        function(ctypes.addressof(args), 0, 1, 0)
        assert out.tolist() == expected(a, b, first)


def test_a_function_that_needs_no_number_is_as_it_was():
    modules = [parse(module("f", a, 5)) for a in (1, 2)]
    text = merge(modules, {modules[0].symbols["f"]: 1}).ir
    same = modules[0].symbols["same"]
    assert f"define internal i64 {same}(i64 %x)" in text
    assert f"call i64 {same}(i64 %y)" in text


def test_equal_numbers_stay_constants():
    modules = [parse(module("f", a, 5)) for a in (1, 2)]
    assert "mul nsw i64 %x, 5" in merge(modules, {modules[0].symbols["f"]: 1}).ir


def test_divisors_tell_families_apart():
    modules = [parse(module("f", a, 5, divisor=d)) for a, d in ((1, 3), (2, 4), (3, 3))]
    assert families(modules) == [[0, 2], [1]]


@pytest.mark.parametrize(
    "line",
    [
        "%v = alloca [64 x i8], align {}",
        "%v = load i64, ptr %args, align {}",
        "%v = getelementptr [{} x i8], ptr %args, i64 0",
        "%v = insertelement <64 x i64> poison, i64 0, i64 {}",
        "%v = add <2 x i64> zeroinitializer, <i64 0, i64 {}>",
        "%v = shl i64 %begin, {}",
        "%v = add i32 1, {}",
        "call void @llvm.prefetch(ptr %args, i32 0, i32 {}, i32 1)",
    ],
)
def test_what_has_to_be_a_constant_tells_families_apart(line: str):
    text = "define void @f(ptr %args, i64 %begin) {{\nentry:\n  {}\n  ret void\n}}\n"
    modules = [parse(text.format(line.format(number))) for number in (1, 2)]
    assert families(modules) == [[0], [1]]


def test_a_module_that_takes_the_address_of_a_function_stays_alone():
    text = """define internal void @g(i64 %x) {{
  ret void
}}
define void @f(ptr %args, i64 %begin) {{
  %x = add i64 %begin, {}
  store ptr @g, ptr %args, align 8
  ret void
}}
"""
    modules = [parse(text.format(number)) for number in (1, 2)]
    assert families(modules) == [[0], [1]]


def test_other_instructions_are_other_families():
    modules = [parse(module("f", 1, 2)), parse(module("f", 1, 2).replace("mul nsw", "mul"))]
    assert families(modules) == [[0], [1]]


TABLE = """
@table = internal constant [{count} x i64] [{elements}]

define void @f(ptr %args, i64 %begin, i64 %end, i64 %worker) {{
entry:
  %out = load ptr, ptr %args, align 8
  %at = getelementptr i8, ptr @table, i64 {last}
  %value = load i64, ptr %at, align 8
  %sum = add i64 %value, {more}
  store i64 %sum, ptr %out, align 8
  ret void
}}
"""


def tabled(elements: list[int], more: int) -> str:
    text = ", ".join(f"i64 {element}" for element in elements)
    last = 8 * (len(elements) - 1)
    return TABLE.format(count=len(elements), elements=text, last=last, more=more)


def test_tables_of_any_length_lie_behind_the_numbers():
    given = [([1, 2, 3], 10), ([4, 5], 20), ([6, 7, 8, 9], 30)]
    modules = [parse(tabled(elements, more)) for elements, more in given]
    assert families(modules) == [[0, 1, 2]]
    merged = merge(modules[:2], {modules[0].symbols["f"]: 1})
    assert [merged.numbers_of(each) for each in modules[:2]] == list(merged.numbers)
    last = merged.numbers_of(modules[2])
    assert last is not None
    (name,) = set(merged.entries[0].values())
    library = compile_ir(merged.ir, exports=(name,))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(library.address(name))
    for (elements, more), numbers in zip(given, (*merged.numbers, last), strict=True):
        out, values = np.zeros(1, np.int64), np.array(numbers, np.int64)
        args = (ctypes.c_int64 * 2)(out.ctypes.data, values.ctypes.data)
        function(ctypes.addressof(args), 0, 1, 0)
        assert out.tolist() == [elements[-1] + more]


@pytest.mark.parametrize(
    "other",
    [
        module("f", 4, 10, divisor=5),  # a constant of both
        module("f", 4, 10, first=1),  # equal in both
        module("f", 4, 10, room=128),  # more memory than there is
        module("g", 4, 10),
        tabled([1, 2, 3], 10),
    ],
)
def test_what_differs_in_more_has_no_numbers(other: str):
    modules = [parse(module("f", a, b, room=room)) for a, b, room in ((1, 5, 64), (2, 6, 32))]
    merged = merge(modules, {modules[0].symbols["f"]: 1})
    assert merged.numbers_of(parse(module("f", 9, 8, room=48))) is not None
    assert merged.numbers_of(parse(other)) is None


def test_numbers_that_were_one_stay_one():
    first, second, other = (
        parse(module("f", a, b, first=first)) for a, b, first in ((3, 3, 3), (4, 4, 4), (5, 6, 5))
    )
    merged = merge([first, second], {first.symbols["f"]: 1})
    assert merged.numbers_of(other) is None
