"""docs/how-to/add-a-kernel-family.md, executed: its files beside a copy of the package's names.

The copy is made of links, but for the folders that the new one lies below and the registry, so that
what the page says to write is all that differs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from gpu import cupy_or_skip, nvrtc_or_skip
from how_to import ROOT, link, output_of

PAGE = (ROOT / "docs" / "how-to" / "add-a-kernel-family.md").read_text(encoding="utf-8")
FILE = re.compile(r"`(channel_scale/[^`]+)`(?:(?!```).)*?```(\w+)\n(.*?)```", re.DOTALL)
KERNELS = Path("lowering") / "kernels"
REGISTRY, FAMILIES = KERNELS / "registry.py", KERNELS / "cuda"
ENTRIES = "FAMILIES: tuple[KernelFamily, ...] = (\n"
FIRST_IMPORT = "from convir.lowering.kernels.cuda."
COMPARED = """
from family_problems import beyond, module_of, problem_of, reading_of
from convir.lowering.kernels.registry import FAMILIES
from convir.lowering.kernels.target import DEFAULT_TARGET
from convir.runtime.cuda.toolchain.compile import compile_cubin

problem = reading_of(module_of(problem_of(LINE))).problem
predicted = {}
for family in FAMILIES:
    configs = family.candidates(problem, DEFAULT_TARGET)
    for config in configs if isinstance(configs, tuple) else ():
        assert family.parse(str(config)) == config
        predicted[str(config)] = family.predict(problem, config, DEFAULT_TARGET)
print(min(predicted, key=predicted.get))
(toy,) = (family for family in FAMILIES if family.name == "channel-scale")
(kernel,) = toy.launch(problem, toy.parse("channel-scale threads=256"), DEFAULT_TARGET).kernels
assert compile_cubin(kernel.source, DEFAULT_TARGET.arch)
other = reading_of(module_of(problem_of(LINE.replace("-n 32", "-n 5")))).problem
(smaller,) = toy.launch(other, toy.parse("channel-scale threads=256"), DEFAULT_TARGET).kernels
assert smaller.source == kernel.source and smaller.arguments != kernel.arguments
large = reading_of(module_of(beyond(problem_of(LINE)))).problem
assert toy.refusal(large, toy.parse("channel-scale threads=512"), DEFAULT_TARGET) is None
"""


def block(language: str) -> str:
    """The page's only block of code in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def commands() -> list[str]:
    """Those of the last section, each with the lines that continue it."""
    return [f"convir-{each}".strip() for each in re.split(r"^convir-", block("sh"), flags=re.M)[1:]]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package `convir` to which the page has been added."""
    folder = tmp_path_factory.mktemp("page")
    link(ROOT, folder / "convir", [FAMILIES / "channel_scale", REGISTRY])
    files = FILE.findall(PAGE)
    names = [Path(name).name for name, _, _ in files]
    assert sorted(names) == ["__init__.py", "family.py", "kernel.cuh", "problem.py"]
    for name, _, text in files:
        path = folder / "convir" / FAMILIES / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    imported, entry = block("registry").splitlines()
    text = (ROOT / REGISTRY).read_text(encoding="utf-8")
    text = text.replace(FIRST_IMPORT, f"{imported}\n{FIRST_IMPORT}", 1)
    text = text.replace(ENTRIES, f"{ENTRIES}{entry}\n", 1)
    registry = folder / "convir" / REGISTRY
    registry.write_text(text, encoding="utf-8")
    return folder


def seen_by(command: list[str], package: Path) -> str:
    """What a command writes that sees the package."""
    return output_of(command, package, [package, ROOT / "tests" / "support"])


def test_it_is_selected_by_its_prediction_and_compiles(package: Path) -> None:
    nvrtc_or_skip()
    imported, selected, printed, _ = commands()
    seen_by(["bash", "-c", imported], package)
    (quoted,) = re.findall(r'"(.*?)"', imported, re.DOTALL)
    line = " ".join(quoted.replace("\\\n", " ").split())
    program = f"LINE = {line!r}\n{COMPARED}"
    assert seen_by([sys.executable, "-c", program], package) == "channel-scale threads=256\n"
    assert '"channel-scale threads=256"' in seen_by(["bash", "-c", selected], package)
    seen_by(["bash", "-c", printed], package)
    assert '#include "channel_scale/kernel.cuh"' in (package / "scale.cu").read_text()


@pytest.mark.gpu
def test_it_computes_what_the_program_says(package: Path) -> None:
    cupy_or_skip()
    imported, _, _, checked = commands()
    seen_by(["bash", "-c", f"{imported}\n{checked}"], package)
