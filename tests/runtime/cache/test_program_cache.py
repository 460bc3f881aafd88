"""Whole programs on disk: found by their text, checked, bounded, and never in the way."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from convir.api import compile as api
from convir.api.compile import compile as convir_compile
from convir.runtime.cache import fingerprint, object_cache, program_cache
from convir.runtime.cache.object_cache import STORES_BETWEEN_LOOKS, ObjectCache
from convir.runtime.cache.program_entry import ModelFiles, encode
from convir.runtime.dynamic import DynamicExecutable

if TYPE_CHECKING:
    from pathlib import Path

SUM = """
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %y : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func @twice(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = arith.addf %x, %x : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
"""
CONVOLUTION = """
func.func @main(%x: tensor<2x6x6x4xf32>) -> tensor<2x4x4x3xf32> {
  %w = arith.constant dense<"WEIGHTS"> : tensor<3x3x3x4xf32>
  %zeros = arith.constant dense<0.0> : tensor<2x4x4x3xf32>
  %y = conv.fprop layouts(NHWC, KRSC, NHWC) ins(%x, %w : tensor<2x6x6x4xf32>, tensor<3x3x3x4xf32>)
         outs(%zeros : tensor<2x4x4x3xf32>)
  return %y : tensor<2x4x4x3xf32>
}
"""
WEIGHTS = np.random.default_rng(1).integers(-3, 4, (3, 3, 3, 4)).astype(np.float32)
CONSTANT = CONVOLUTION.replace("WEIGHTS", f"0x{WEIGHTS.tobytes().hex()}")
X = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    return tmp_path / "cache" / "programs"


def entries(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def host(text: str | Path = SUM, **options: Any) -> Any:
    return convir_compile(text, device="host", **options)


def never(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing is compiled."""

    def refuse(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr("convir.api.build.Build.program", refuse)


def test_a_program_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = host()
    assert len(entries(cache)) == 1
    never(monkeypatch)
    second = host()
    np.testing.assert_array_equal(second(X, X), first(X, X))
    assert second.inputs == first.inputs
    assert second.outputs == first.outputs


def test_files_and_texts_are_one(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host()
    never(monkeypatch)
    file = tmp_path / "sum.mlir"
    file.write_text(SUM)
    np.testing.assert_array_equal(host(file)(X, X), 2 * X)
    np.testing.assert_array_equal(host(str(file), threads=1)(X, X), 2 * X)


def test_whatever_the_result_depends_on_is_in_the_key(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: list[dict[str, Any]] = [
        {},
        {"function": "twice"},
        {"pipeline": ""},
        {"workspace_bytes": 1 << 20},
        {"text": SUM.replace("addf", "mulf")},
    ]
    for options in questions:
        host(**options)
    assert len(entries(cache)) == 5
    monkeypatch.setattr(program_cache, "compiler_fingerprint", lambda: "another compiler")
    host()
    assert len(entries(cache)) == 6
    np.testing.assert_array_equal(host(function="twice")(X), 2 * X)
    np.testing.assert_array_equal(host(SUM.replace("addf", "mulf"))(X, X), X * X)


def test_modules_are_found_by_their_text(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from convir.dialects.context import read_module  # noqa: PLC0415

    x = np.ones((2, 6, 6, 4), np.float32)
    expected = convir_compile(read_module(CONSTANT), device="host")(x)
    other = read_module(CONVOLUTION.replace("WEIGHTS", f"0x{(-WEIGHTS).tobytes().hex()}"))
    np.testing.assert_array_equal(convir_compile(other, device="host")(x), -expected)
    assert len(entries(cache)) == 2
    never(monkeypatch)
    again = convir_compile(read_module(CONSTANT), device="host")
    np.testing.assert_array_equal(again(x), expected)


def test_a_module_is_what_it_was_when_it_was_compiled() -> None:
    from xdsl.dialects import arith  # noqa: PLC0415
    from xdsl.rewriter import Rewriter  # noqa: PLC0415

    from convir.dialects.context import read_module  # noqa: PLC0415

    for _ in range(2):
        module = read_module(SUM.replace("4x8", "?x8"))
        executable = convir_compile(module, device="host")
        add = next(op for op in module.walk() if isinstance(op, arith.AddfOp))
        Rewriter.replace_op(add, arith.MulfOp(add.lhs, add.rhs))
        np.testing.assert_array_equal(executable(X, X), 2 * X)


def test_modules_with_large_constants_or_resources_are_not_printed(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from convir.api import module_text  # noqa: PLC0415
    from convir.dialects.context import read_module  # noqa: PLC0415

    elsewhere = CONVOLUTION.replace('dense<"WEIGHTS">', "dense_resource<weights>")
    assert module_text.text_of(read_module(elsewhere)) is None
    assert module_text.text_of(read_module(CONSTANT)) is not None
    monkeypatch.setattr(module_text, "MAX_PRINTED_BYTES", 16)
    assert module_text.text_of(read_module(CONSTANT)) is None
    convir_compile(read_module(CONSTANT), device="host")
    assert entries(cache) == []


def test_passes_are_run_every_time(cache: Path) -> None:
    from convir.passes.canonicalize.pass_ import CanonicalizePass  # noqa: PLC0415

    host(pipeline=(CanonicalizePass(),))
    assert entries(cache) == []


def test_packed_constants_come_back(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, 6, 6, 4)).astype(np.float32)
    expected = host(CONSTANT)(x)
    never(monkeypatch)
    np.testing.assert_array_equal(host(CONSTANT)(x), expected)


def test_large_constants_are_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_cache, "MAX_CONSTANT_BYTES", 16)
    host(CONSTANT)
    assert entries(cache) == []


def test_dynamic_sizes_are_found_by_their_shapes(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SUM.replace("4x8", "?x8")
    host(text)(X, X)
    never(monkeypatch)
    executable = host(text)
    assert isinstance(executable, DynamicExecutable)
    np.testing.assert_array_equal(executable(X, X), 2 * X)
    with pytest.raises(AssertionError, match="compiled again"):
        executable(X[:2], X[:2])


def test_the_program_is_lowered_when_somebody_looks(cache: Path) -> None:
    expected = host().program.summary("host")
    kept = host()
    assert kept.program.summary("host") == expected
    assert kept.program is kept.program


def test_a_warm_process_imports_no_compiler(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "sum.mlir"
    file.write_text(SUM)
    host(file)
    script = f"""
import sys, numpy, convir
x = numpy.ones((4, 8), numpy.float32)
assert (convir.compile({str(file)!r}, device="host")(x, x) == 2).all()
print([name for name in sys.modules if name.split(".")[0] == "xdsl"])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "stranger", "unreadable"])
def test_damaged_entries_are_compiled_again(
    cache: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    host()
    (entry,) = entries(cache)
    whole = entry.read_bytes()
    key = entry.parent.name + entry.stem
    match damage:
        case "truncated":
            entry.write_bytes(whole[: len(whole) // 2])
        case "flipped":
            entry.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
        case "empty":
            entry.write_bytes(b"")
        case "stranger":
            ObjectCache(cache).store(key, encode(ModelFiles(("a",))))
        case _:
            ObjectCache(cache).store(key, b"no entry")
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(host()(X, X), 2 * X)
    assert bool(caplog.records) == (damage != "stranger")
    assert entry.read_bytes()[: len(whole) // 2] == whole[: len(whole) // 2]


def test_an_unusable_folder_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            np.testing.assert_array_equal(host()(X, X), 2 * X)
    told = [r.getMessage() for r in caplog.records if str(tmp_path / "file/programs") in r.message]
    assert len(told) == 1
    assert "cannot be used, going on in memory" in told[0]


def test_a_full_disk_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(host()(X, X), 2 * X)
    assert entries(cache) == []
    assert "No space left" in caplog.text


def test_the_switch_turns_it_off(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(program_cache.SWITCH_VARIABLE, "0")
    host()
    assert entries(cache) == []


def test_a_compiler_that_is_no_files_is_not_cached(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def zipped() -> str:
        raise FileNotFoundError("in an archive")

    monkeypatch.setattr(program_cache, "compiler_fingerprint", zipped)
    np.testing.assert_array_equal(host()(X, X), 2 * X)
    assert entries(cache) == []


def test_a_mistake_is_not_kept(cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(Exception, match="no-such-pass"):
            host(pipeline="no-such-pass")
        with pytest.raises(Exception, match="no function @nobody"):
            host(function="nobody")
    assert entries(cache) == []


RACER = """
import sys, numpy, convir
x = numpy.ones((4, 8), numpy.float32)
text = sys.stdin.read()
for number in range(5):
    executable = convir.compile(text + f"// {number}", device="host")
    assert (executable(x, x) == 2).all()
"""


def test_processes_race(cache: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for racer in racers:
        _, errors = racer.communicate(SUM, timeout=120)
        assert (racer.returncode, errors) == (0, "")
    assert len(entries(cache)) == 5


def test_a_changed_file_is_another_compiler(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "pass.py"
    seen: list[list[str]] = []
    for text in ("one", "other", "longer still"):
        file.write_text(text)
        os.utime(file, ns=(0, len(seen)))
        seen.append(fingerprint._files(str(tmp_path)))  # pyright: ignore[reportPrivateUsage]
    (tmp_path / "notes.txt").write_text("no source")
    assert fingerprint._files(str(tmp_path)) == seen[-1]  # pyright: ignore[reportPrivateUsage]
    times = file.stat()
    file.write_text("shorter than")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    seen.append(fingerprint._files(str(tmp_path)))  # pyright: ignore[reportPrivateUsage]
    assert len({tuple(lines) for lines in seen}) == 4
    assert api.__name__ == "convir.api.compile"


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    stored = ObjectCache(tmp_path, limit_bytes=10_000)
    keys = [f"{number:064x}" for number in range(10)]
    for age, key in enumerate(keys):
        stored.store(key, bytes(2_000))
        os.utime(stored.path(key), (age, age))
    assert stored.load(keys[0]) is not None
    stored.prune()
    left = [key for key in keys if stored.path(key).exists()]
    assert left == [keys[0], *keys[-2:]]
    stored.prune()
    assert [key for key in keys if stored.path(key).exists()] == left


def test_entries_of_another_version_lie_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stored, key = ObjectCache(tmp_path), "0" * 64
    first = tmp_path / key[:2] / key[2:]  # as entries once were named
    for version in (2, 3):
        monkeypatch.setattr(object_cache, "_VERSION", version)
        monkeypatch.setattr(object_cache, "_MAGIC", (b"convir object %d\n" % version).ljust(32))
        assert stored.load(key) is None
        stored.store(key, b"of version %d" % version)
        if version == 2:
            first.write_bytes(stored.path(key).read_bytes())
    assert stored.load(key) == b"of version 3"
    monkeypatch.undo()
    assert stored.load(key) == b"of version 3"
    assert not caplog.records
    assert len([*tmp_path.glob("*/*")]) == 3


def test_stores_look_at_the_size_now_and_then(tmp_path: Path) -> None:
    stored = ObjectCache(tmp_path, limit_bytes=1_000)
    for number in range(STORES_BETWEEN_LOOKS + 1):
        stored.store(f"{number:064x}", bytes(100))
    assert len(entries(tmp_path)) < STORES_BETWEEN_LOOKS
