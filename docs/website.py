"""The documents as a site: `python docs/website.py FOLDER`.

Documents are laid out as they lie in the repository, with the files that they link to, so that
links stay as they are. Beside them are what a build makes: a page of each result file of
`convir-bench`, and two reports of compilations.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import convir
from convir.cli.reports.bench_html import page_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / "docs" / "mkdocs.yml"
API = Path("api")
"""Where the reference of modules lies among the pages."""

_LINK = re.compile(r"\]\(([^)\s#]+)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_GUIDES = (
    "python",
    "pytorch",
    "onnx",
    "nam",
    "conv",
    "gpu",
    "report",
    "trace",
    "bench",
    "tuning",
    "checking",
    "caches",
    "reading",
)
"""Pages of docs/ for users, in order."""
_ROW = {"suite", "line", "us", "flops", "bytes", "floor_us", "failure"}
"""What rows of `convir-bench` have."""
REPORTS = {
    "strided-dgrad-h200": ("examples/backward_data_1x1.mlir", "h200"),
    "grouped-dgrad-cpu": ("examples/backward_data_3x3_grouped.mlir", "cpu"),
}
"""What reports are made of, and the device, which no build needs to have."""


def documents() -> list[Path]:
    """Every document of the site, relative to the root."""
    found = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("lowering/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("examples/*.md"),
    ]
    return sorted(path.relative_to(ROOT) for path in found)


def copy_documents(folder: Path) -> None:
    """Copy every document, and every file that one links to."""
    wanted = dict.fromkeys(documents())
    for document in documents():
        for link in _LINK.findall((ROOT / document).read_text(encoding="utf-8")):
            target = (ROOT / document.parent / link).resolve()
            if target.is_file():
                wanted[target.relative_to(ROOT)] = None
    for path in wanted:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)


def write_benchmarks(folder: Path) -> None:
    """Write a page with plots of each result file of `convir-bench`, and a list of them."""
    (folder / "benchmarks" / "pages").mkdir(parents=True)
    lines = ["# Measurements", ""]
    lines += [
        "Each page has plots and every row of a run; [README.md](README.md) has the commands."
    ]
    lines += ["", "| run | device | rows |", "| --- | --- | --- |"]
    for path in sorted((ROOT / "benchmarks" / "results").glob("*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        if not _has_plots(report):
            continue
        (folder / "benchmarks" / "pages" / f"{path.stem}.html").write_text(
            page_of(report), encoding="utf-8"
        )
        told = report["environment"]
        device = told.get("gpu") or told.get("cpu") or told.get("device")
        lines.append(
            f"| [{path.stem}](pages/{path.stem}.html) | {device} | {len(report['rows'])} |"
        )
    (folder / "benchmarks" / "measurements.md").write_text("\n".join(lines) + "\n")


def _has_plots(report: Mapping[str, Any]) -> bool:
    """Whether a result file has rooflines, and rows as `convir-bench` writes them."""
    rows = cast("list[Mapping[str, Any]]", report.get("rows", []))
    ceilings = cast("Mapping[str, Mapping[str, float]]", report.get("ceilings", {}))
    return (
        bool(rows)
        and all(row.keys() >= _ROW and row["flops"] for row in rows)
        and all({"gflops", "gbytes"} <= ceiling.keys() for ceiling in ceilings.values())
    )


def write_reports(folder: Path) -> None:
    """Write the reports, and a page that leads to them."""
    (folder / "reports").mkdir()
    lines = ["# Reports", "", "Made when this site was built ([how](../docs/report.md))."]
    for name, (source, device) in REPORTS.items():
        report = convir.explain(ROOT / source, device=device)
        report.save(folder / "reports" / f"{name}.html")
        lines += ["", f"## {source} for {device}", "", f"[Open the report]({name}.html)"]
        for each in report.answers:
            lines += ["", f"**{each.question}** {each.text}"]
    (folder / "reports" / "index.md").write_text("\n".join(lines) + "\n")


def navigation(pages: Path) -> list[Any]:
    """The pages of the site in a folder, in order, as mkdocs has them."""
    reference = API / "index.html"
    api = [{"API": str(reference)}] if (pages / reference).exists() else []
    in_folder = {
        name: sorted(path.relative_to(ROOT) for path in (ROOT / "docs" / name).glob("*.md"))
        for name in ("how-to", "passes", "kernels")
    }
    families = [path for path in documents() if path.parts[0] == "lowering"]
    return [
        {"Home": "README.md"},
        {"Tour": "docs/tour.md"},
        {"Guides": _entries(Path("docs", f"{name}.md") for name in _GUIDES)},
        {"How to": _entries([*in_folder["how-to"], Path("CONTRIBUTING.md")])},
        {
            "Reference": [
                {"Passes": _entries(_index_first(in_folder["passes"]))},
                {"Kernels": _entries(_index_first(in_folder["kernels"]))},
                {"Kernel families": _entries(families)},
                {"Glossary": "docs/glossary.md"},
                *api,
                {"Changelog": "CHANGELOG.md"},
            ]
        },
        {
            "Benchmarks": [
                {"Measurements": "benchmarks/measurements.md"},
                {"Commands and results": "benchmarks/README.md"},
                {"Examples": "examples/README.md"},
            ]
        },
        {"Reports": "reports/index.md"},
    ]


def _index_first(paths: Iterable[Path]) -> list[Path]:
    return sorted(paths, key=lambda path: (path.stem != "index", path))


def _entries(paths: Iterable[Path]) -> list[dict[str, str]]:
    return [{_title(path): str(path)} for path in paths]


def _title(path: Path) -> str:
    """The title of a document; of a kernel family what it is called."""
    found = _TITLE.search((ROOT / path).read_text(encoding="utf-8"))
    title = path.stem if found is None else found[1].replace("`", "")
    return title.partition(":")[0] if path.parts[0] == "lowering" else title


def write_reference(folder: Path) -> None:
    """Write the reference of every module."""
    script = ROOT / "docs" / "reference.py"
    subprocess.run([sys.executable, str(script), str(folder / API)], check=True)


def build(pages: Path, site: Path) -> int:
    """Make a site of what lies in a folder; returns the exit status of the generator."""
    with TemporaryDirectory() as temporary:
        settings = Path(temporary) / "mkdocs.yml"
        added = {"INHERIT": str(SETTINGS), "docs_dir": str(pages), "nav": navigation(pages)}
        settings.write_text(json.dumps(added), encoding="utf-8")  # JSON is YAML.
        # With `--quiet` warnings would not count as errors.
        command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
        command += ["--config-file", str(settings), "--site-dir", str(site.resolve())]
        quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
        done = subprocess.run(command, env=quiet, check=False, capture_output=True, text=True)
        told = (done.stdout + done.stderr).splitlines()
        sys.stderr.writelines(f"{line}\n" for line in told if not line.startswith("INFO"))
        return done.returncode


def main(site: Path) -> int:
    """Build the whole site into a folder; returns the exit status of the generator."""
    if find_spec("mkdocs") is None:
        sys.exit("mkdocs is not installed: pip install '.[docs]'")
    with TemporaryDirectory() as temporary:
        pages = Path(temporary)
        for write in (copy_documents, write_benchmarks, write_reports, write_reference):
            write(pages)
        return build(pages, site)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
