"""`python -m convir.pytorch [OPTIONS] SCRIPT ARGS…`: a script as it is, its convolutions here."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from convir.pytorch.override import enable
from convir.pytorch.settings import WORKSPACE_BYTES


def main() -> None:
    """Enable, and run the script as `python SCRIPT ARGS…` does."""
    parser = argparse.ArgumentParser(
        prog="python -m convir.pytorch", description="Run a script on convir's convolutions."
    )
    parser.add_argument("--prefer", choices=("faster", "convir"), default="faster")
    parser.add_argument("--wait", action="store_true", help="compile at the first call of a shape")
    parser.add_argument(
        "--measure", action="store_true", help="time both kernels of a shape, and keep the faster"
    )
    parser.add_argument("--workspace-bytes", type=int, default=WORKSPACE_BYTES)
    parser.add_argument(
        "--census",
        nargs="?",
        const="",
        metavar="FILE.json",
        help="say at the end who ran what: printed (--census=), or written as JSON",
    )
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is a module")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    given = parser.parse_args()
    enable(
        prefer=given.prefer,
        wait=given.wait,
        workspace_bytes=given.workspace_bytes,
        measure=True if given.measure else None,
        census=False if given.census is None else given.census or True,
    )
    sys.argv = [given.script, *given.arguments]
    if given.is_module:
        sys.path.insert(0, "")
        runpy.run_module(given.script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(given.script).resolve().parent))
        runpy.run_path(given.script, run_name="__main__")


if __name__ == "__main__":
    main()
