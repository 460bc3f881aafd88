// The edges of the graph beside its nodes: each buffer from who writes it to who reads it.
const LANE = 9;
const SVG = "http://www.w3.org/2000/svg";

function drawEdges(graph, program) {
  const svg = graph.querySelector("svg");
  const calls = [...graph.querySelectorAll(".call")];
  const edges = [];
  program.tensors.forEach((tensor, number) => {
    if (tensor.writer === null) return;
    for (const reader of tensor.readers) {
      if (reader > tensor.writer) edges.push({ number, from: tensor.writer, to: reader });
    }
  });
  edges.sort((a, b) => (a.to - a.from) - (b.to - b.from) || a.from - b.from);
  // Short edges lie next to the nodes; each lane holds edges that do not overlap.
  const lanes = [];
  for (const edge of edges) {
    let lane = lanes.findIndex((used) => used.every(([from, to]) => edge.to <= from || to <= edge.from));
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push([edge.from, edge.to]);
    edge.lane = lane;
  }
  const width = Math.max(1, lanes.length) * LANE + 8;
  graph.style.setProperty("--gutter", `${width}px`);
  const top = graph.getBoundingClientRect().top;
  const middles = calls.map((call) => {
    const box = call.getBoundingClientRect();
    return { out: box.top - top + box.height * 0.65, into: box.top - top + box.height * 0.35 };
  });
  svg.setAttribute("width", width);
  svg.setAttribute("height", graph.offsetHeight);
  svg.replaceChildren(...edges.map((edge) => {
    const path = document.createElementNS(SVG, "path");
    const x = width - 6 - edge.lane * LANE;
    const [from, to] = [middles[edge.from].out, middles[edge.to].into];
    const bend = Math.min(6, Math.abs(to - from) / 2);
    const line = `M${width} ${from}H${x}q-4 0 -4 ${bend}V${to - bend}q0 ${bend} 4 ${bend}H${width - 1}`;
    path.setAttribute("d", `${line}m-4 -3l4 3l-4 3`);
    // What a pointer meets is wider than the line.
    const near = document.createElementNS(SVG, "path");
    near.setAttribute("d", line);
    near.classList.add("near");
    const both = document.createElementNS(SVG, "g");
    both.dataset.from = edge.from;
    both.dataset.to = edge.to;
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${placeOf(program.tensors[edge.number])}, from call ${edge.from} to call ${edge.to}`;
    both.append(title, path, near);
    both.addEventListener("click", () => calls[edge.to].click());
    return both;
  }));
}

function placeOf(tensor) {
  const room = tensor.space.startsWith("arena") ? `arena at ${tensor.offset.toLocaleString("en")}` : tensor.space;
  return `${tensor.name}: ${tensor.sizes}, ${quantity(tensor.bytes, "B")}, ${room}`;
}

function lightEdges(graph, number) {
  for (const edge of graph.querySelectorAll("g")) {
    edge.classList.toggle("lit", edge.dataset.from === String(number) || edge.dataset.to === String(number));
  }
}
