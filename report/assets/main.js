function openTarget(report) {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let around = target; around; around = around.parentElement) {
    if (around.tagName === "DETAILS") around.open = true;
  }
  if (target.classList.contains("call")) target.click();
  target.scrollIntoView({ block: "center" });
}

function watchGraphs(report) {
  for (const graph of document.querySelectorAll(".graph")) {
    const place = Number(graph.dataset.program);
    const program = report.programs[place];
    const panel = graph.parentElement.querySelector(".detail");
    const calls = [...graph.querySelectorAll(".call")];
    calls.forEach((call, number) => {
      call.addEventListener("click", () => {
        for (const other of calls) other.setAttribute("aria-pressed", String(other === call));
        lightEdges(graph, number);
        showCall(report, place, number, panel);
      });
      call.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        const next = step && calls[number + step];
        if (!next) return;
        event.preventDefault();
        next.focus();
        next.click();
      });
    });
    const draw = () => drawEdges(graph, program);
    draw();
    new ResizeObserver(draw).observe(graph);
  }
}

async function main() {
  const report = await pageData();
  watchSteps(report);
  watchGraphs(report);
  window.addEventListener("hashchange", () => openTarget(report));
  openTarget(report);
  document.documentElement.dataset.ready = "true";
}

main();
