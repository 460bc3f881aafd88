from __future__ import annotations

import ctypes
import logging
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest

from convir.lowering.kernels.host.target import target
from convir.runtime.compile_error import CompileError
from convir.runtime.host import jit
from convir.runtime.host.jit import CompileOptions, compile_ir
from convir.runtime.host.object_file import undefined_symbols

if TYPE_CHECKING:
    from pathlib import Path

TARGETS = ("x86-64", "x86-64-v3", "host")
ADD = """
define i64 @add(i64 %a, i64 %b) {
  %sum = add i64 %a, %b
  ret i64 %sum
}
"""
I64_PAIR = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def conversion(source: str, result: str) -> str:
    """IR of a loop that converts an array of `source` to `result`."""
    widths = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
    instruction = "fpext" if widths[source] < widths[result] else "fptrunc"
    return f"""
define void @convert(ptr %from, ptr %to, i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from.i = getelementptr {source}, ptr %from, i64 %i
  %to.i = getelementptr {result}, ptr %to, i64 %i
  %x = load {source}, ptr %from.i
  %y = {instruction} {source} %x to {result}
  store {result} %y, ptr %to.i
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


def convert(source: str, result: str, values: np.ndarray, to: type[Any], cpu: str) -> np.ndarray:
    library = compile_ir(conversion(source, result), exports=("convert",), cpu=target(cpu))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
        library.address("convert")
    )
    out = np.empty(values.shape, to)
    run(values.ctypes.data, out.ctypes.data, values.size)
    return out


@pytest.mark.parametrize("cpu", TARGETS)
def test_runs_on_every_target(cpu: str):
    library = compile_ir(ADD, exports=("add",), cpu=target(cpu))
    assert I64_PAIR(library.address("add"))(40, 2) == 42


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize(("name", "dtype"), [("half", np.float16), ("bfloat", ml_dtypes.bfloat16)])
def test_sixteen_bits_widen_exactly(cpu: str, name: str, dtype: type[Any]):
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    got = convert(name, "float", every, np.float32, cpu)
    np.testing.assert_array_equal(got, every.astype(np.float32))


def hard_floats(dtype: type[Any]) -> np.ndarray:
    """Every value of `dtype`, the midpoints between neighbours, and both sides of those."""
    with np.errstate(all="ignore"):
        every = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
        every = np.sort(every[np.isfinite(every)])
        middle = ((every[1:].astype(np.float64) + every[:-1]) / 2).astype(np.float32)
        beside = [np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(0))]
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    specials = np.array([np.inf, -np.inf, np.nan, -0.0, 65504, 65519.99, 65520], np.float32)
    return np.concatenate([every, middle, *beside, bits, specials])


@pytest.mark.parametrize("cpu", TARGETS)
@pytest.mark.parametrize(("name", "dtype"), [("half", np.float16), ("bfloat", ml_dtypes.bfloat16)])
def test_floats_narrow_to_nearest_even(cpu: str, name: str, dtype: type[Any]):
    values = hard_floats(dtype)
    with np.errstate(all="ignore"):
        expected = values.astype(dtype)
    got = convert("float", name, values, dtype, cpu)
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))
    zero = values == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(values[zero]))


@pytest.mark.parametrize("cpu", TARGETS)
def test_doubles_narrow_in_one_rounding(cpu: str):
    floats = hard_floats(np.float16)
    values = floats[~np.isnan(floats)].astype(np.float64)
    values = np.concatenate([values * (1 + 2.0**-45), values * (1 - 2.0**-45), values])
    with np.errstate(all="ignore"):
        expected = values.astype(np.float16)
    np.testing.assert_array_equal(convert("double", "half", values, np.float16, cpu), expected)


def test_bfloat_double_is_not_rounded_twice():
    # To a float first, this is a tie that goes to even; it lies above the tie.
    values = np.array([1167360.0 * (1 + 2.0**-40)])
    got = convert("double", "bfloat", values, ml_dtypes.bfloat16, "x86-64")
    assert float(got[0]) == 1171456.0


def test_undefined_symbol_is_an_error_before_running():
    ir = "declare void @no_such_function()\n" + ADD.replace(
        "%sum =", "call void @no_such_function()\n  %sum ="
    )
    with pytest.raises(CompileError, match="no_such_function") as caught:
        compile_ir(ir, exports=("add",))
    assert caught.value.source == ir
    assert "host" in caught.value.options


def test_symbols_of_the_process_resolve():
    ir = "declare i64 @labs(i64)\ndefine i64 @add(i64 %a, i64 %b) {\n"
    ir += "  %r = call i64 @labs(i64 %a)\n  ret i64 %r\n}\n"
    library = compile_ir(ir, exports=("add",), options=CompileOptions(optimize_ir=False))
    assert I64_PAIR(library.address("add"))(-7, 0) == 7


@pytest.mark.parametrize(
    ("ir", "log"),
    [
        ("no assembly", "expected top-level entity"),
        ("define void @f() {\n  ret i32 0\n}", "value doesn't match function"),
        ("define void @f() {\n  ret void\n}", "add"),
    ],
)
def test_bad_ir_is_a_compile_error(ir: str, log: str):
    with pytest.raises(CompileError) as caught:
        compile_ir(ir, exports=("add",))
    assert log in caught.value.log


def test_undefined_symbols_of_an_object():
    code = jit.object_code(conversion("half", "float"), target("x86-64")).code
    assert undefined_symbols(code) == {"__extendhfsf2"}
    assert undefined_symbols(b"\xcf\xfa\xed\xfe a Mach-O file") == frozenset()


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_object_code_is_stored_once_per_target_and_option(cache: Path):
    for cpu in TARGETS:
        for _ in range(2):
            jit.object_code(ADD, target(cpu))
    jit.object_code(ADD, target("host"), CompileOptions(opt_level=0))
    assert len(entries(cache)) == 4


def test_stored_code_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch):
    code = jit.object_code(ADD, target())

    def never(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(jit, "_optimized", never)
    assert jit.object_code(ADD, target()) == code


@pytest.mark.parametrize("damage", [b"", b"convir object 1\n short", b"x" * 4096, None])
def test_corrupt_entry_is_compiled_again(
    cache: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
):
    code = jit.object_code(ADD, target())
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    # None: one bit flips in the middle.
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    entry.write_bytes(bytes(flipped) if damage is None else damage)
    with caplog.at_level(logging.WARNING):
        assert jit.object_code(ADD, target()) == code
    assert "corrupt" in caplog.text
    assert entry.read_bytes() == whole


def test_unusable_folder_warns_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        for level in range(3):
            compile_ir(ADD, exports=("add",), options=CompileOptions(opt_level=level))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot be used" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes where it may not")
def test_read_only_folder_warns_once(cache: Path, caplog: pytest.LogCaptureFixture):
    cache.mkdir()
    cache.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with caplog.at_level(logging.WARNING):
        compile_ir(ADD, exports=("add",))
    assert "cannot be used" in caplog.text


def test_full_disk_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with caplog.at_level(logging.WARNING):
        compile_ir(ADD, exports=("add",))
    assert entries(cache) == []
    assert "No space left" in caplog.text


RACER = """
import ctypes, sys
from convir.runtime.host.jit import compile_ir
ir = sys.stdin.read()
for number in range(20):
    library = compile_ir(ir.replace("@add", f"@add{number}"), exports=(f"add{number}",))
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    assert run(library.address(f"add{number}"))(number, 2) == number + 2
"""


def test_processes_race(cache: Path):
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for racer in racers:
        _, errors = racer.communicate(ADD, timeout=120)
        assert (racer.returncode, errors) == (0, "")
    assert len(entries(cache)) == 20


def test_unknown_target():
    with pytest.raises(ValueError, match="x86-64-v3"):
        target("pentium")


def test_code_that_many_ask_for_at_once_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    emit = jit.emit_object

    def counted(machine: Any, module: Any) -> bytes:
        made.append(1)
        return emit(machine, module)

    monkeypatch.setattr(jit, "emit_object", counted)
    ir = "define i64 @many(i64 %x) {\n  %y = add i64 %x, 41\n  ret i64 %y\n}\n"
    with ThreadPoolExecutor(4) as pool:
        codes = [pool.submit(jit.object_code, ir, target(), exports=("many",)) for _ in range(8)]
    assert len({code.result() for code in codes}) == 1
    assert made == [1]
