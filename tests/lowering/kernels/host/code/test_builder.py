"""The builder of LLVM assembly: what it emits compiles and runs."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from convir.lowering.kernels.host.code.builder import I64, PTR, Function, Module, integers, value
from convir.lowering.kernels.host.code.elements.lanes import Lanes
from convir.lowering.kernels.host.code.elements.storage import Storage
from convir.lowering.kernels.host.code.tiles import MAX_ROWS, Shape, choose
from convir.lowering.kernels.host.code.transpose import pieces, transpose
from convir.lowering.kernels.host.target import target
from convir.runtime.host.jit import compile_ir

if TYPE_CHECKING:
    from convir.lowering.bodies.contraction.spec import StorageType

TARGETS = ("x86-64", "x86-64-v3", "host")


def run(function: Function, *arguments: int, cpu: str = "host", module: Module | None = None):
    module = Module() if module is None else module
    module.add(function)
    library = compile_ir(module.text(), exports=(function.name,), cpu=target(cpu))
    kinds = (ctypes.c_int64,) * len(arguments)
    ctypes.CFUNCTYPE(None, *kinds)(library.address(function.name))(*arguments)


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("stop", [0, 1, 10])
def test_loops_carry_values(start: int, stop: int):
    f = Function("f", ((PTR, "out"), (I64, "start"), (I64, "stop")), external=True)
    with f.loop("i", f.argument("start"), f.argument("stop"), 2, carried=[value(100)]) as loop:
        loop.carry(f.add(loop.carried[0], loop.index))
    f.store(loop.results[0], f.argument("out"), 8)
    out = np.zeros(1, np.int64)
    run(f, out.ctypes.data, start, stop)
    assert out[0] == 100 + sum(range(start, stop, 2))


def test_nested_loops_and_conditions():
    f = Function("f", ((PTR, "out"),), external=True)
    with (
        f.loop("i", 0, 4, runs=True) as i,
        f.loop("j", 0, i.index) as j,
        f.when(f.compare("eq", f.rem(j.index, 2), 1)),
    ):
        place = f.add(f.mul(i.index, 4), j.index)
        f.store(i.index, f.element(f.argument("out"), place, 8), 8)
    out = np.full((4, 4), -1, np.int64)
    run(f, out.ctypes.data)
    expected = [[i if j < i and j % 2 else -1 for j in range(4)] for i in range(4)]
    np.testing.assert_array_equal(out, expected)


def test_constants_are_folded():
    f = Function("f", ((PTR, "p"), (I64, "n")))
    p, n = f.argument("p"), f.argument("n")
    assert f.add(2, 3) == value(5)
    assert f.add(n, 0) == n
    assert f.mul(n, 1) == n
    assert f.mul(n, 0) == value(0)
    assert f.div(n, 1) == n
    assert f.rem(n, 1) == value(0)
    assert f.offset(p, 0) == p
    assert f.text().count("=") == 0


def test_names_do_not_collide():
    f = Function("f", ((I64, "sum"),))
    names = {f.add(f.argument("sum"), 1).text for _ in range(3)}
    assert len(names | {"%sum"}) == 4


def test_tables_hold_integers():
    module = Module()
    table = module.table("numbers", [5, -7])
    f = Function("f", ((PTR, "out"),), external=True)
    f.store(f.load(I64, f.offset(table, 8), 8), f.argument("out"), 8)
    out = np.zeros(1, np.int64)
    run(f, out.ctypes.data, module=module)
    assert out[0] == -7
    assert integers([1, 2]).type == "<2 x i64>"


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_squares_are_transposed(cpu: str, dtype: type[np.floating]):
    lanes = Lanes("f32" if dtype is np.float32 else "f64", target(cpu))
    f = Function("f", ((PTR, "x"), (PTR, "y")), external=True)
    line = lanes.count * lanes.bytes
    loaded = [
        lanes.load(f, f.offset(f.argument("x"), row * line), lanes.count)
        for row in range(lanes.count)
    ]
    for row, stored in enumerate(transpose(f, loaded)):
        lanes.store(f, stored, f.offset(f.argument("y"), row * line), lanes.count)
    x = np.arange(lanes.count**2, dtype=dtype).reshape(lanes.count, lanes.count)
    y = np.zeros_like(x)
    run(f, x.ctypes.data, y.ctypes.data, cpu=cpu)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("stored", ["f16", "bf16", "f32"])
def test_partial_vectors_touch_nothing_else(stored: StorageType, cpu: str):
    dtype: Any = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}[stored]
    lanes = Lanes("f32", target(cpu))
    storage = Storage(lanes, stored)
    for active in range(1, lanes.count + 1):
        f = Function("f", ((PTR, "x"), (PTR, "y"), (PTR, "z")), external=True)
        loaded = storage.load(f, f.argument("x"), active)
        lanes.store(f, loaded, f.argument("y"), lanes.count)
        storage.store(f, lanes.load(f, f.argument("y"), 99), f.argument("z"), active)
        # Nothing to read past the last element: it is the last of its page, or near.
        x = np.arange(1, active + 1).astype(dtype)
        y, z = np.full(lanes.count, -1, np.float32), np.full(20, -1, dtype)
        run(f, x.ctypes.data, y.ctypes.data, z.ctypes.data, cpu=cpu)
        np.testing.assert_array_equal(y[:active], x.astype(np.float32))
        assert (y[active:] == 0).all()
        np.testing.assert_array_equal(z[:active].astype(np.float32), x.astype(np.float32))
        assert (z[active:].astype(np.float32) == -1).all()


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("stored", ["f16", "bf16"])
def test_sixteen_bits_round_to_nearest_even(stored: StorageType, cpu: str):
    dtype: Any = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[stored]
    lanes = Lanes("f32", target(cpu))
    storage = Storage(lanes, stored)
    f = Function("f", ((PTR, "x"), (PTR, "y"), (PTR, "z"), (I64, "count")), external=True)
    with f.loop("i", 0, f.argument("count"), lanes.count, runs=True) as i:
        x = f.element(f.argument("x"), i.index, 4)
        y = f.element(f.argument("y"), i.index, 2)
        storage.store(f, lanes.load(f, x, lanes.count), y, lanes.count)
        z = f.element(f.argument("z"), i.index, 4)
        lanes.store(f, storage.load(f, y, lanes.count), z, lanes.count)
    with np.errstate(all="ignore"):
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
        bits = np.random.default_rng(3).integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
        values = np.concatenate([every, np.nextafter(every, np.float32(0)), bits.view(np.float32)])
        expected = values.astype(dtype)
    narrow, wide = np.empty(values.shape, dtype), np.empty_like(values)
    run(f, values.ctypes.data, narrow.ctypes.data, wide.ctypes.data, values.size, cpu=cpu)
    np.testing.assert_array_equal(narrow.astype(np.float32), expected.astype(np.float32))
    np.testing.assert_array_equal(wide, expected.astype(np.float32))


def test_pieces_cover_a_dimension():
    assert [(p.first, p.end, p.active) for p in pieces(35, 16)] == [(0, 2, 16), (2, 3, 3)]
    assert [(p.first, p.end, p.active) for p in pieces(32, 16)] == [(0, 2, 16)]
    assert [(p.first, p.end, p.active) for p in pieces(3, 16)] == [(0, 1, 3)]


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize("out_channels", [1, 3, 16, 40, 64, 512])
@pytest.mark.parametrize("groups", [1, 32])
def test_tiles_fit_the_registers(out_channels: int, groups: int, cpu: str):
    machine = target(cpu)
    shape = Shape(((3136, (9.0,) * MAX_ROWS),), 64, out_channels, groups, fuses=True)
    tile = choose(shape, machine.lanes(32), machine)
    assert tile.registers(machine) <= machine.vector_registers
