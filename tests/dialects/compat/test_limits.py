"""Inputs of extreme size: huge splats cost nothing, depth and length are plain errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from convir.api.compile import compile
from convir.dialects.context import read_module
from convir.dialects.diagnostics import DiagnosticError

MAX_RESIDENT_BYTES = 150 * 10**6

READ_AND_PRINT = """
import re, sys
from convir.dialects.context import read_module
text = "func.func @f() {\\n  %0 = arith.constant " + sys.argv[1] + "\\n  func.return\\n}"
assert "dense<" in str(read_module(text))
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) * 1024)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the kernel reports no peak of memory"
)
@pytest.mark.parametrize(
    "splat",
    [
        "dense<0.0> : tensor<512x1024x1024xf32>",
        'dense<"0x0000C07F"> : tensor<512x1024x1024xf32>',
        "dense<true> : tensor<2000000000xi1>",
        "dense<7> : tensor<9223372036854775807xi64>",
    ],
)
def test_a_splat_of_gigabytes_is_read_and_printed_in_little_memory(splat: str):
    done = subprocess.run(
        [sys.executable, "-c", READ_AND_PRINT, splat], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < MAX_RESIDENT_BYTES


@pytest.mark.parametrize(
    "text",
    [
        "!a = tensor<-4xf32>",
        "!a = tensor<9223372036854775808xf32>",
        "!a = memref<2x-1xf32>",
        "#a = dense<[1, 2]> : tensor<3xi32>",
        "#a = dense<[[1, 2], [3]]> : tensor<2x2xi32>",
        "#a = dense<[1.0]> : tensor<1000000000000xf32>",
        '#a = dense<"0x0000"> : tensor<4xf32>',
        "#a = dense<300> : tensor<4xi8>",
    ],
)
def test_sizes_and_literals_that_do_not_match_are_one_error(text: str):
    with pytest.raises(DiagnosticError, match=r"^in\.mlir:1:\d+: error: [^\n]+$"):
        read_module(text, "in.mlir")


@pytest.mark.parametrize("sizes", ["9223372036854775807x9223372036854775807", "2x" * 69 + "2"])
def test_a_tensor_that_no_memory_holds_is_one_error_of_a_device(sizes: str):
    text = "func.func @main(%x: {0}) -> {0} {{ func.return %x : {0} }}"
    with pytest.raises(DiagnosticError, match="which no address space holds"):
        compile(text.format(f"tensor<{sizes}xf32>"), device="host")


DEPTH = 20_000


@pytest.mark.parametrize(
    "text",
    [
        '"builtin.module"() ({' * DEPTH,
        "module {" * DEPTH,
        "#a = " + "[" * DEPTH,
        "#a = " + "{x = " * DEPTH,
        "!a = " + "tuple<" * DEPTH,
        "!a = " + "(" * DEPTH,
        "#a = dense<" + "[" * DEPTH,
        "#a = affine_map<(d0) -> (" + "(" * DEPTH + "d0",
        "#a = affine_map<(d0) -> (" + "-" * DEPTH + "d0",
        "#a = loc(" + "callsite(" * DEPTH,
        "#a = #builtin.x<" + "<" * DEPTH,
        '"' + "a" * DEPTH,
        '"' + "\\" * DEPTH,
        "%" * DEPTH,
        "#a = " + "9" * DEPTH,
        "#a = 0x" + "F" * DEPTH + " : f32",
        "#a = dense<1> : tensor<" + "1x" * DEPTH,
        "#a = dense<1> : tensor<" + "9" * DEPTH + "xi32>",
        "!a = vector<" + "1x" * DEPTH,
        "!a = i" + "9" * DEPTH,
        "a" * 5 * DEPTH,
        "// " + "a" * DEPTH + "\nx",
        " " * DEPTH + "x",
        "\x00" * DEPTH,
    ],
    ids=lambda text: text[:24],
)
def test_depth_and_length_are_one_error(text: str):
    with pytest.raises(DiagnosticError) as caught:
        read_module(text, "in.mlir")
    message = str(caught.value)
    assert message.startswith("in.mlir:")
    assert "\n" not in message
    assert len(message) < 1000
