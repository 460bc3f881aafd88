const isWide = matchMedia("(min-width: 52.01rem)");

// In a notebook the page is the text of a frame: its address is the notebook's, and stays.
const isFramed = location.protocol === "about:";

function openTarget(hash) {
  const target = document.getElementById(decodeURIComponent(hash.slice(1)));
  if (!target) return;
  for (let around = target; around; around = around.parentElement) {
    if (around.tagName === "DETAILS") around.open = true;
  }
  if (target.classList.contains("call")) target.click();
  target.scrollIntoView({ block: target.tagName === "SECTION" ? "start" : "center" });
  const focused = target.tagName === "DETAILS" ? target.firstElementChild : target;
  focused.focus({ preventScroll: true });
}

// The address becomes that of a launch, to be sent to someone, once it stays chosen: browsers take
// few changes in a row, such as those of an arrow key that is held.
let waiting = 0;
function address(wanted) {
  clearTimeout(waiting);
  if (isFramed || location.hash === wanted) return;
  waiting = setTimeout(() => history.replaceState(null, "", wanted), 400);
}

function watchGraphs(report) {
  for (const graph of document.querySelectorAll(".graph")) {
    const place = Number(graph.dataset.program);
    const program = report.programs[place];
    const panel = graph.parentElement.querySelector(".detail");
    const calls = [...graph.querySelectorAll(".call")];
    const hold = rove(calls, (call) => call.click());
    const choose = (number) => {
      calls.forEach((call, i) => call.setAttribute("aria-pressed", String(i === number)));
      hold(number);
      lightEdges(graph, number);
      showCall(report, place, number, panel);
    };
    calls.forEach((call, number) => {
      call.addEventListener("click", () => {
        choose(number);
        address(`#${call.id}`);
      });
      call.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowRight" || panel.classList.contains("empty")) return;
        event.preventDefault();
        panel.focus();
      });
    });
    panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") leave(panel);
    });
    graph.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !isWide.matches) panel.classList.add("empty");
    });
    const draw = () => drawEdges(graph, program);
    draw();
    new ResizeObserver(draw).observe(graph);
    if (isWide.matches && calls.length) choose(slowestOf(program));
  }
}

function slowestOf(program) {
  const times = program.nodes.map((node) => node.measured || node.us || 0);
  return times.indexOf(Math.max(...times));
}

// Back from what is known of a launch to the launch.
function leave(panel) {
  if (!isWide.matches) panel.classList.add("empty");
  panel.parentElement.querySelector('.call[aria-pressed="true"]').focus();
}

async function main() {
  const report = await pageData();
  watchSteps(report);
  watchGraphs(report);
  document.querySelectorAll(".picture").forEach(watchPicture);
  window.addEventListener("hashchange", () => openTarget(location.hash));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    const hash = link && link.getAttribute("href");
    // A link to where the page is already changes no address.
    if (!link || (!isFramed && hash !== location.hash)) return;
    event.preventDefault();
    openTarget(hash);
  });
  openTarget(location.hash);
  document.documentElement.dataset.ready = "true";
}

main();
