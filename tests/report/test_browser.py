"""A report in a real browser: it draws, every link works, and nothing is on the console."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import convir

if TYPE_CHECKING:
    from convir.report.explain import Report

EXAMPLES = Path(__file__).parents[2] / "examples"
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--virtual-time-budget=20000",
    "--dump-dom",
)
DEADLINE_S = 120

DRIVER = """
<script>
window.errors = [];
addEventListener("error", (event) => errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => errors.push(String(event.reason)));
for (const kind of ["error", "warn"]) console[kind] = (...words) => errors.push(words.join(" "));
BEFORE
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
async function drive() {
  for (let i = 0; i < 200 && !document.documentElement.dataset.ready; i += 1) await wait(20);
  const found = { broken: [], unlabelled: [] };
  found.ready = Boolean(document.documentElement.dataset.ready);
  const links = [...document.querySelectorAll("main a[href], nav a[href]")];
  found.links = links.length;
  for (const link of links) {
    const target = document.getElementById(link.getAttribute("href").slice(1));
    if (!target) { found.broken.push(link.getAttribute("href")); continue; }
    link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window }));
    await wait(5);
    const closed = target.tagName === "DETAILS" && !target.open;
    const isCall = target.classList.contains("call");
    const failed = closed || (isCall && target.getAttribute("aria-pressed") !== "true");
    if (failed) found.broken.push(link.getAttribute("href"));
  }
  for (const details of document.querySelectorAll("details")) details.open = true;
  await wait(50);
  found.diffs = document.querySelectorAll(".diff .row").length;
  found.said = document.querySelectorAll(".diff .said").length;
  found.texts = [];
  for (const call of document.querySelectorAll(".call")) {
    call.click();
    for (const part of document.querySelectorAll(".detail details")) part.open = true;
    await wait(5);
    found.texts.push(document.querySelector(".detail").textContent);
    for (const link of document.querySelectorAll(".detail a[href]")) {
      if (!document.getElementById(link.getAttribute("href").slice(1))) {
        found.broken.push(link.getAttribute("href"));
      }
    }
  }
  const [first, second] = document.querySelectorAll(".call");
  if (second) {
    first.focus();
    first.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
    found.arrow = document.activeElement === second;
  }
  for (const each of document.querySelectorAll("button, svg a, section, nav, aside")) {
    const name = each.getAttribute("aria-label") || each.getAttribute("aria-labelledby");
    if (!name && !each.textContent.trim()) found.unlabelled.push(each.outerHTML.slice(0, 80));
  }
  found.edges = document.querySelectorAll(".graph > svg path").length;
  found.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  found.errors = errors;
  document.body.innerHTML = "";
  const told = { id: "found", textContent: JSON.stringify(found) };
  document.body.append(Object.assign(document.createElement("pre"), told));
}
addEventListener("load", drive);
</script>
"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")


@cache
def report_of(device: str) -> Report:
    return convir.explain(EXAMPLES / "backward_data_1x1.mlir", device=device)


def driven(report: Report, folder: Path, width: int = 1280, before: str = "") -> dict[str, Any]:
    """What a browser finds on the page of a report."""
    assert BROWSER is not None
    page = folder / "page.html"
    driver = DRIVER.replace("BEFORE", before)
    page.write_text(report.html().replace("<style>", f"{driver}<style>", 1), encoding="utf-8")
    own = (f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900")
    command = [BROWSER, *FLAGS, *own, page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=True)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
    assert found is not None, done.stderr.decode()[-2000:]
    return json.loads(unescape(found[1]))


@pytest.mark.parametrize("width", [1280, 500])
def test_every_link_works_and_the_console_is_silent(tmp_path: Path, width: int) -> None:
    found = driven(report_of("h200"), tmp_path, width)
    assert found["ready"]
    assert found["errors"] == []
    assert found["broken"] == []
    assert found["unlabelled"] == []
    assert found["links"] > len(("zeros", "scatter", "slowest", "next best"))
    assert found["diffs"] > 0
    assert found["said"] > 0
    assert found["edges"] > 0
    assert found["arrow"]
    assert not found["wide"]


def test_a_launch_shows_candidates_code_and_input(tmp_path: Path) -> None:
    found = driven(report_of("h200"), tmp_path)
    shown = found["texts"][1]
    for wanted in ("sm90_implicit_gemm", "as long", "extern", "insert_slice", "share of the roof"):
        assert wanted in shown, shown[:2000]


def test_a_browser_without_streams_reads_the_same(tmp_path: Path) -> None:
    report = report_of("host")
    found: list[dict[str, Any]] = []
    for name, before in (("with", ""), ("without", "delete window.DecompressionStream;")):
        (tmp_path / name).mkdir()
        found.append(driven(report, tmp_path / name, before=before))
    assert found[0] == found[1]
    assert found[1]["errors"] == []
