"""A report in a real browser: it draws, every link works, and nothing is on the console."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import convir
from convir.runtime.bench.peers.made_networks import resnet50_v1_5

if TYPE_CHECKING:
    from collections.abc import Callable

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
WIDE = 1280
"""Pixels."""
SIZE = 'style="width:1200px;height:700px"'
"""Of a frame."""

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
  found.chosen = document.querySelectorAll('.call[aria-pressed="true"]').length;
  const links = [...document.querySelectorAll("main a[href], nav a[href]")];
  found.links = links.length;
  const visited = new Set();
  for (const link of links) {
    const target = document.getElementById(link.getAttribute("href").slice(1));
    if (!target) { found.broken.push(link.getAttribute("href")); continue; }
    if (visited.has(target)) continue;  // Browsers take 200 navigations in half a minute.
    visited.add(target);
    link.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true, view: window }));
    await wait(5);
    const closed = target.tagName === "DETAILS" && !target.open;
    const isCall = target.classList.contains("call");
    found.hidden = found.hidden || !target.getClientRects().length;
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
  const calls = [...document.querySelectorAll(".call")];
  const panel = document.querySelector(".detail");
  const press = (key) => {
    const focused = document.activeElement;
    focused.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    return document.activeElement;
  };
  calls[0].focus();
  found.keys = {
    down: press("ArrowDown") === calls[1],
    end: press("End") === calls[calls.length - 1],
    home: press("Home") === calls[0],
    chosen: calls[0].getAttribute("aria-pressed") === "true",
    into: press("ArrowRight") === panel,
    back: press("Escape") === calls[0],
  };
  const stops = [".graph .call", ".memory a", ".roofline a"];
  found.stops = stops.map((each) => document.querySelectorAll(`${each}[tabindex="0"]`).length);
  const mark = document.querySelector(".memory a");
  mark.focus();
  const caption = document.querySelector(".picture figcaption").textContent;
  found.caption = caption === mark.getAttribute("aria-label");
  const headings = [...document.querySelectorAll("h1, h2, h3")].map((each) => +each.tagName[1]);
  found.skipped = headings.some((level, i) => level > (i ? headings[i - 1] : 0) + 1);
  found.fetched = performance.getEntriesByType("resource").map((each) => each.name);
  for (const each of document.querySelectorAll("button, svg a, section, nav, aside")) {
    const name = each.getAttribute("aria-label") || each.getAttribute("aria-labelledby");
    if (!name && !each.textContent.trim()) found.unlabelled.push(each.outerHTML.slice(0, 80));
  }
  found.edges = document.querySelectorAll(".graph > svg path").length;
  found.wide = document.documentElement.scrollWidth > document.documentElement.clientWidth;
  found.errors = errors;
  const told = Object.assign(document.createElement("pre"), { id: "found" });
  told.textContent = JSON.stringify(found);
  parent.document.body.replaceChildren(told);  // The page itself, or a notebook around it.
}
addEventListener("load", drive);
</script>
"""

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")


@cache
def report_of(device: str) -> Report:
    return convir.explain(EXAMPLES / "backward_data_1x1.mlir", device=device)


def driven(
    report: Report,
    folder: Path,
    width: int = WIDE,
    before: str = "",
    around: Callable[[str], str] = str,
) -> dict[str, Any]:
    """What a browser finds on the page of a report, with what stands `around` it."""
    assert BROWSER is not None
    page = folder / "page.html"
    driver = DRIVER.replace("BEFORE", before)
    text = report.html().replace("<style>", f"{driver}<style>", 1)
    page.write_text(around(text), encoding="utf-8")
    own = (f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900")
    command = [BROWSER, *FLAGS, *own, page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=DEADLINE_S, check=True)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout.decode(), re.DOTALL)
    assert found is not None, done.stderr.decode()[-2000:]
    return json.loads(unescape(found[1]))


@pytest.mark.parametrize("width", [WIDE, 500])
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
    assert not found["hidden"]
    assert not found["wide"]
    assert not found["skipped"]
    # Where there is room, what is known of the slowest launch is there from the start.
    assert found["chosen"] == (1 if width == WIDE else 0)


def test_it_is_used_by_keyboard_alone(tmp_path: Path) -> None:
    found = driven(report_of("h200"), tmp_path)
    assert all(found["keys"].values()), found["keys"]
    assert found["stops"] == [1, 1, 1]
    assert found["caption"]


@pytest.mark.parametrize("device", ["cpu", "h200"])
def test_a_network_is_whole(device: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed: pip install 'convir[onnx]'")
    report = convir.explain(resnet50_v1_5(), device=device, shapes=[(1, 3, 224, 224)])
    found = driven(report, tmp_path)
    assert found["ready"]
    assert found["errors"] == []
    assert found["broken"] == []
    assert not found["wide"]
    assert found["fetched"] == []
    assert len(found["texts"]) == len(report.data["programs"][0]["nodes"])
    assert all("The input that it comes from" in text for text in found["texts"])


def in_a_notebook(page: str) -> str:
    return f'<meta charset="utf-8"/><body><iframe {SIZE} srcdoc="{escape(page)}"></iframe></body>'


def test_links_work_in_a_notebook(tmp_path: Path) -> None:
    """The address of a frame's text is that of what is around it."""
    found = driven(report_of("host"), tmp_path, around=in_a_notebook)
    assert found["errors"] == []
    assert found["broken"] == []
    assert found["diffs"] > 0
    assert all(found["keys"].values()), found["keys"]


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
