"""Models are compiled once, whatever the process, and again when one of their files changes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from onnx_cases import model_of, node

from convir.api.compile import compile as convir_compile
from convir.dialects.diagnostics import DiagnosticError
from convir.frontends.onnx import importer
from convir.runtime.cache import program_cache

if TYPE_CHECKING:
    from pathlib import Path

onnx = pytest.importorskip("onnx", reason="onnx is not installed (the extra `onnx`)")

X = np.random.default_rng(3).integers(-3, 4, (2, 3, 5, 6)).astype(np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv(program_cache.SWITCH_VARIABLE, raising=False)
    monkeypatch.setattr(program_cache, "INLINE_BYTES", 0)
    return tmp_path / "cache" / "programs"


def entries(cache: Path) -> list[Path]:
    """The files of programs and of their constants."""
    folders = cache, cache.parent / "weights"
    return [file for folder in folders for file in folder.rglob("*") if file.is_file()]


def save(path: Path, seed: int = 0, *, external: bool = False) -> np.ndarray:
    """A convolution for any batch and height; returns its result for `X`."""
    w = np.random.default_rng(seed).integers(-3, 4, (4, 3, 3, 3)).astype(np.float32)
    model = model_of(
        [node("Conv", ["x", "w"], ["y"])], {"x": ("batch", 3, "height", 6)}, ["y"], {"w": w}
    )
    if external:
        location = f"{path.stem}.bin"
        (path.parent / location).unlink(missing_ok=True)
        onnx.save(model, path, save_as_external_data=True, location=location, size_threshold=0)
    else:
        onnx.save(model, path)
    windows = np.lib.stride_tricks.sliding_window_view(X, (3, 3), axis=(2, 3))
    return np.einsum("nchwrs,kcrs->nkhw", windows, w)


def host(path: Path, shape: tuple[int, ...] = X.shape) -> Any:
    return convir_compile(path, device="host", shapes=[shape])


def never(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: Any, **__: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr("convir.api.build.Build", build)


@pytest.mark.parametrize("external", [False, True])
def test_a_model_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external: bool
) -> None:
    path = tmp_path / "net.onnx"
    expected = save(path, external=external)
    np.testing.assert_array_equal(host(path)(X), expected)
    never(monkeypatch)
    np.testing.assert_array_equal(host(path)(X), expected)
    with pytest.raises(AssertionError, match="compiled again"):
        host(path, (1, 3, 5, 6))


def test_the_same_model_elsewhere_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    expected = [save(path) for path in paths]
    host(paths[0])
    never(monkeypatch)
    np.testing.assert_array_equal(host(paths[1])(X), expected[1])


@pytest.mark.parametrize("external", [False, True])
def test_another_model_in_its_place_is_compiled(tmp_path: Path, external: bool) -> None:
    path = tmp_path / "net.onnx"
    for seed in range(3):
        expected = save(path, seed, external=external)
        np.testing.assert_array_equal(host(path)(X), expected)


def test_shapes_share_their_constants(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "net.onnx"
    save(path)
    counts: list[int] = []
    for batch in (2, 1):
        host(path, (batch, *X.shape[1:]))
        counts.append(len(entries(cache)))
    # The names of its files, a program, its constants; then the other program.
    assert counts == [3, 4]


def test_constants_that_are_gone_are_compiled_again(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / "net.onnx"
    expected = save(path)
    host(path)
    for entry in entries(cache):
        entry.unlink()
        np.testing.assert_array_equal(host(path)(X), expected)
        assert entry.exists()


def test_a_model_that_is_written_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.onnx"
    save(path)
    read = importer.import_model

    def read_and_write(*arguments: Any, **options: Any) -> Any:
        module = read(*arguments, **options)
        save(path, 1)
        return module

    monkeypatch.setattr(importer, "import_model", read_and_write)
    with pytest.raises(DiagnosticError, match="was written while it was compiled"):
        host(path)


def test_a_model_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.onnx"
    expected = save(path)
    parsed: list[object] = []
    parse = onnx.load

    def counted(*arguments: Any, **options: Any) -> Any:
        parsed.append(arguments)
        return parse(*arguments, **options)

    monkeypatch.setattr(onnx, "load", counted)
    np.testing.assert_array_equal(host(path)(X), expected)
    assert len(parsed) == 1


def test_a_warm_process_imports_neither_compiler_nor_onnx(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    expected = save(path)
    host(path)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", expected)
    script = f"""
import sys, numpy, convir
x, y = (numpy.load(f"{tmp_path}/{{name}}.npy") for name in "xy")
assert (convir.compile({str(path)!r}, device="host", shapes=[x.shape])(x) == y).all()
print([name for name in sys.modules if name.split(".")[0] in ("xdsl", "onnx")])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
