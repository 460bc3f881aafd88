"""Weights are those that a file holds when it is opened, however it came to hold them."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import model_of, node

from convir.api.compile import compile as convir_compile
from convir.dialects.conv.constant import BlobAttr, digest_of
from convir.dialects.diagnostics import DiagnosticError
from convir.reference.blobs import BlobError, read_blob
from convir.runtime.cache import digest, program_cache
from convir.runtime.cache.digest import PIECE_BYTES, digest_of_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[Path, bytes], None]

onnx = pytest.importorskip("onnx", reason="onnx is not installed (the extra `onnx`)")

SHAPE = (4, 3, 1, 1)
X = np.random.default_rng(3).integers(-3, 4, (1, 3, 2, 2)).astype(np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    return tmp_path / "cache"


def times_of(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_atime_ns, found.st_mtime_ns


def in_place(path: Path, content: bytes) -> None:
    times = times_of(path)
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=times)


def truncated(path: Path, content: bytes) -> None:
    times = times_of(path)
    path.write_bytes(content)
    os.utime(path, ns=times)


def mapped(path: Path, content: bytes) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:] = content


def renamed(path: Path, content: bytes) -> None:
    times = times_of(path)
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=times)
    other.replace(path)


def unlinked(path: Path, content: bytes) -> None:
    """What is made next often gets the same inode."""
    times = times_of(path)
    path.unlink()
    path.write_bytes(content)
    os.utime(path, ns=times)


def linked(path: Path, content: bytes) -> None:
    times = times_of(path)
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=times)
    path.unlink()
    path.symlink_to(other)


def hard_linked(path: Path, content: bytes) -> None:
    """Written by another name."""
    other = path.with_name("other")
    other.unlink(missing_ok=True)
    other.hardlink_to(path)
    in_place(other, content)


def copied(path: Path, content: bytes) -> None:
    """As `cp -p` and `rsync -t --inplace` do."""
    other = path.with_name("other")
    other.write_bytes(content)
    os.utime(other, ns=times_of(path))
    if shutil.which("cp") is None:
        pytest.skip("there is no cp")
    subprocess.run(["cp", "-p", str(other), str(path)], check=True)


CHANGES = (in_place, truncated, mapped, renamed, unlinked, linked, hard_linked, copied)


def model(path: Path, seed: int, *, external: bool) -> np.ndarray:
    """A model whose weights come from `seed`; returns its result."""
    w = np.random.default_rng(seed).integers(-3, 4, SHAPE).astype(np.float32)
    made = model_of([node("Conv", ["x", "w"], ["y"])], {"x": X.shape}, ["y"], {"w": w})
    if external:
        location = f"{path.stem}.bin"
        (path.parent / location).unlink(missing_ok=True)
        onnx.save(made, path, save_as_external_data=True, location=location, size_threshold=0)
    else:
        onnx.save(made, path)
    return np.einsum("nchw,kc->nkhw", X, w[:, :, 0, 0])


@pytest.mark.parametrize(
    ("change", "external"),
    [
        *((change, False) for change in CHANGES),
        # The package onnx refuses links to external data.
        *((change, True) for change in CHANGES if change not in (linked, hard_linked)),
    ],
)
def test_a_model_that_changed_is_read_again(
    tmp_path: Path, change: Change, *, external: bool
) -> None:
    contents: list[tuple[bytes, np.ndarray]] = []
    for seed in range(3):
        path = tmp_path / "made.onnx"
        y = model(path, seed, external=external)
        contents.append(((path.with_suffix(".bin") if external else path).read_bytes(), y))
    used = tmp_path / "used"
    used.mkdir()
    shutil.copy(tmp_path / "made.onnx", used)
    path = used / "made.onnx"
    file = path.with_suffix(".bin") if external else path
    file.write_bytes(contents[0][0])
    for number in (0, 1, 2, 1, 0):
        content, expected = contents[number]
        change(file, content)
        compiled: Any = convir_compile(path, device="host", shapes=[X.shape])
        np.testing.assert_array_equal(compiled(X), expected)


W = [np.arange(6, dtype=np.float32).reshape(2, 3) + seed for seed in range(2)]


def text(file: str, seed: int) -> str:
    return f"""
      func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
        %w = conv.constant #conv.blob<"{file}", "w", "{digest_of(W[seed].tobytes())}">
               : tensor<2x3xf32>
        %y = arith.addf %x, %w : tensor<2x3xf32>
        return %y : tensor<2x3xf32>
      }}"""


def save(path: Path, seed: int) -> None:
    np.savez(path, w=W[seed])


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("spelling", ["weights.npz", "{folder}/weights.npz", r"w\65ights.npz"])
def test_a_text_is_compiled_with_the_weights_that_it_names(
    tmp_path: Path, change: Change, spelling: str
) -> None:
    """Also where it was compiled before: then with the old ones, and now they are gone."""
    contents: list[bytes] = []
    for seed in range(2):
        save(tmp_path / "weights.npz", seed)
        contents.append((tmp_path / "weights.npz").read_bytes())
    assert len(contents[0]) == len(contents[1])
    file = tmp_path / "text.mlir"
    named = spelling.format(folder=tmp_path)
    x = np.zeros((2, 3), np.float32)
    for number in (1, 0, 1):
        change(tmp_path / "weights.npz", contents[number])
        file.write_text(text(named, number))
        for _ in range(2):
            compiled: Any = convir_compile(file, device="host")
            np.testing.assert_array_equal(compiled(x), W[number])
        file.write_text(text(named, 1 - number))
        with pytest.raises(DiagnosticError, match="has changed"):
            convir_compile(file, device="host")


@pytest.mark.parametrize("change", CHANGES)
def test_constants_are_those_that_a_file_holds(tmp_path: Path, change: Change) -> None:
    """What was read of the file before is no reason to refuse, or to believe, anything."""
    contents: list[bytes] = []
    for seed in range(2):
        save(tmp_path / "weights.npz", seed)
        contents.append((tmp_path / "weights.npz").read_bytes())
    blobs = [
        BlobAttr(str(tmp_path / "weights.npz"), "w", digest_of(w.tobytes()).lower()) for w in W
    ]
    for number in (1, 0, 1, 0):
        change(tmp_path / "weights.npz", contents[number])
        found = read_blob(blobs[number], (2, 3), np.dtype(np.float32))
        np.testing.assert_array_equal(found, W[number])
    with pytest.raises(BlobError, match="has changed"):
        read_blob(blobs[1], (2, 3), np.dtype(np.float32))


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + bytes(60)])
@pytest.mark.parametrize("suffix", [".npz", ".onnx", ".nam"])
def test_files_of_another_kind_are_refused(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"weights{suffix}"
    path.write_bytes(content)
    blob = BlobAttr(str(path), "w", digest_of(b""))
    with pytest.raises(BlobError, match=r"cannot be read|does not exist"):
        read_blob(blob, (2, 3), np.dtype(np.float32))


def test_a_sound_model_that_is_written_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from convir.api.sources import nam_source  # noqa: PLC0415
    from convir.frontends.nam import importer  # noqa: PLC0415

    path = tmp_path / "model.nam"
    path.write_text(json.dumps({"version": 1}))
    source = nam_source(path, 4, 4, 1.0)
    path.write_text(json.dumps({"version": 2}))

    def imported(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(importer, "import_nam", imported)
    with pytest.raises(DiagnosticError, match="was written while it was compiled"):
        source.read()


def test_digests_say_every_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    monkeypatch.setattr(digest, "PIECE_BYTES", 1 << 10)
    rng = np.random.default_rng(0)
    for size in (0, 1, (1 << 10) - 1, 1 << 10, (1 << 10) + 1, 9 << 10, (9 << 10) + 5):
        content = rng.bytes(size)
        path.write_bytes(content)
        whole = digest_of_file(path)
        assert whole == digest.digest_of(content).hex()
        for cores in (1, 3):
            monkeypatch.setattr(digest, "available_cores", lambda cores=cores: cores)
            assert digest_of_file(path) == whole
        seen = {whole}
        for position in {0, size // 2, size - 1} if size else ():
            other = bytearray(content)
            other[position] ^= 1
            path.write_bytes(other)
            seen.add(digest_of_file(path))
        path.write_bytes(content + b"\0")
        seen.add(digest_of_file(path))
        assert len(seen) == 2 + len({0, size // 2, size - 1} if size else ())
    assert PIECE_BYTES > 1 << 10
