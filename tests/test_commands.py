"""Every command and every line of Python in the documents is executed, with what it prints.

What takes minutes, a GPU or a network is checked without: its options and files exist, and a
machine without a GPU says so. What stands for something of the reader's (`in.mlir`, `net.onnx`,
`MODEL.nam`) is made first.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from documents import (
    TOOLS,
    Command,
    Python,
    blocks_of,
    inline_commands,
    matches,
    options_of,
)

from convir.frontends.sources import read_source
from convir.runtime.cuda.toolkit import NoGpuError, require_gpu

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    ROOT / "benchmarks" / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
]
EXECUTED = [path for path in DOCUMENTS if path.parent.name != "how-to"]
"""How-to pages change the sources: tests of their own execute them in a copy."""

LINE = "conv -n 2 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -F 2"
OPEN_SIZES = """
func.func @main(%x: tensor<?x8xf32>, %w: tensor<8x16xf32>) -> tensor<?x16xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x16xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x16xf32>) -> tensor<?x16xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x8xf32>, tensor<8x16xf32>)
    outs(%init : tensor<?x16xf32>) -> tensor<?x16xf32>
  return %y : tensor<?x16xf32>
}
"""
CHECKED_ONLY = re.compile(r"^(for|pytest|python (tests|benchmarks)/)|--tune|SUITE|FOLDER|…")
"""What takes minutes, or names files of the reader's."""
ON_A_GPU = re.compile(r"^convir-(bench|run) (.* )?--device cuda")


def _has_gpu() -> bool:
    try:
        require_gpu(0)
    except NoGpuError:
        return False
    return True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A working directory with the files that documents speak of."""
    for name in ("examples", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "in.mlir").write_text(str(read_source(LINE)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONVIR_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    yield tmp_path
    override = sys.modules.get("convir.pytorch.override")
    if override is not None:
        override.disable()


def _models(folder: Path) -> None:
    """`net.onnx` with an image, and `MODEL.nam` with a sound."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (the extra `onnx`)")
    soundfile: Any = pytest.importorskip("soundfile", reason="the extra `sound` is not installed")
    from nam_cases import random_model  # noqa: PLC0415
    from onnx_cases import model_of, node  # noqa: PLC0415

    relu = node("Relu", ["images"], ["scores"])
    net = model_of([relu], {"images": ("n", 3, "h", "w")}, ["scores"])
    onnx.save(net, folder / "net.onnx")
    np.save(folder / "image.npy", np.zeros((1, 3, 480, 640), np.float32))
    model = random_model(np.random.default_rng(1))
    for name in ("MODEL.nam", "model.nam"):
        (folder / name).write_text(json.dumps({**model, "sample_rate": 48000}))
    soundfile.write(folder / "in.wav", np.zeros(1000, np.float32), 48000, subtype="FLOAT")


def _prepared(document: Path, folder: Path) -> dict[str, Any]:
    """What a document takes for granted: its files, and the names of its Python."""
    text = document.read_text(encoding="utf-8")
    if ".onnx" in text or ".nam" in text:
        _models(folder)
    if "convir.pytorch" in text:
        torch: Any = pytest.importorskip("torch", reason="the extra `torch` is not installed")
        # As in a reader's process: no graph that another test has compiled is taken again.
        torch.compiler.reset()
    if document.name == "bind-sizes.md":
        (folder / "in.mlir").write_text(OPEN_SIZES)
    for example in re.findall(r"^```mlir\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        (folder / "example.mlir").write_text(example)
    x, w = np.ones((1, 3, 480, 640), np.float32), np.ones((8, 8, 3, 3), np.float32)
    names: dict[str, Any] = {"text": str(read_source(LINE)), "x": x, "w": w, "stream": None}
    if document.name == "nam.md":
        names["x"] = np.zeros(100, np.float32)
    return names


@pytest.mark.parametrize("document", EXECUTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_says_is_executed(document: Path, folder: Path) -> None:
    blocks = list(blocks_of(document.read_text(encoding="utf-8")))
    if not blocks:
        return
    names = _prepared(document, folder)
    for block in blocks:
        where = f"{document.relative_to(ROOT)}:{block.line}"
        if isinstance(block, Command):
            _run_command(block, where)
        elif not _run_python(block, names, where):
            return


def _run_command(command: Command, where: str) -> None:
    text = command.text.partition("  #")[0]
    if text.startswith("make "):
        assert f"\n{text.split()[1]}:" in (ROOT / "Makefile").read_text(), where
    elif text.startswith("pip "):
        _check_extras(text, where)
    elif CHECKED_ONLY.search(text):
        _check_options(text, where)
    elif ON_A_GPU.search(" ".join(text.split())):
        _check_options(text, where)
        if not _has_gpu():
            ran = _shell(text)
            assert ran.returncode == 2, f"{where}: {ran.stderr}"
            assert "NVIDIA" in ran.stderr or "CuPy" in ran.stderr, f"{where}: {ran.stderr}"
    else:
        ran = _shell(text)
        assert ran.returncode == 0, f"{where}: {ran.stderr}"
        if command.output is not None:
            printed = ran.stderr + ran.stdout
            assert matches(command.output, printed), f"{where} prints\n{printed}"


def _shell(text: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", text],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / ".link")},
        check=False,
    )


def _run_python(block: Python, names: dict[str, Any], where: str) -> bool:
    """Execute a block; False if the rest of the document needs a GPU that is not there."""
    printed = io.StringIO()
    names.setdefault("convir", __import__("convir"))
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(block.text, where, "exec"), names)
    except NoGpuError:
        assert "cuda" in block.text, where
        return False
    lines = printed.getvalue().splitlines()
    if block.output:
        assert len(lines) == len(block.output), f"{where}: {lines}"
        for expected, line in zip(block.output, lines, strict=True):
            assert matches(expected, line), f"{where}: {line}"
    return True


def _check_extras(text: str, where: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extras in re.findall(r"\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), where


def _check_options(text: str, where: str) -> None:
    """The scripts, suites and options of a command exist."""
    flat = text.replace("\\\n", " ")
    for part in re.split(r"[|\n;]", flat):
        words = part.split()
        tools = [word for word in words if word in (*TOOLS, "python", "pytest")]
        if not tools:
            continue
        script = next((word for word in words if word.endswith(".py")), None)
        for path in (word for word in words if word.startswith(("tests/", "benchmarks/suites/"))):
            is_one = not re.search(r"SUITE|\$", path)
            assert not is_one or (ROOT / path.partition("::")[0]).exists(), f"{where}: {path}"
        if tools[0] == "pytest":
            continue
        tool = script if tools[0] == "python" else tools[0]
        if tool is None and "-m" in words:
            tool = f"python -m {words[words.index('-m') + 1]}"
        known = _known_options(tool)
        for option in options_of(part):
            assert option in known, f"{where}: {option} is not an option of {tool or tools[0]}"


@cache
def _known_options(tool: str | None) -> frozenset[str]:
    if tool is None:
        return frozenset()
    if tool.endswith(".py"):
        return frozenset(re.findall(r"\"(--[a-z][\w-]*)\"", (ROOT / tool).read_text()))
    ran = _shell(f"{tool} --help")
    assert ran.returncode == 0, ran.stderr
    return frozenset(re.findall(r"--[a-z][\w-]*", ran.stdout))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_in_the_prose_have_options_that_there_are(document: Path) -> None:
    for command in inline_commands(document.read_text(encoding="utf-8")):
        _check_options(command, f"{document.relative_to(ROOT)}: {command}")


USAGE: Mapping[str, str] = {
    "convir-bench": "cli/bench.py",
    "convir-import": "cli/import_.py",
    "convir-opt": "cli/opt.py",
    "convir-run": "cli/run.py",
}


@pytest.mark.parametrize("tool", USAGE)
def test_help_names_every_option_that_a_usage_shows(tool: str) -> None:
    """The usage in a tool's own text, and the examples of its help, are of options it has."""
    known = _known_options(tool)
    usage = (ROOT / USAGE[tool]).read_text().split('"""')[1]
    lines = [line for line in usage.splitlines() if line.strip().startswith(tool)]
    named = {option for line in lines for option in re.findall(r"--[a-z][\w-]*", line)}
    assert named <= known
