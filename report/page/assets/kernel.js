// One launch: what it takes, why it was chosen, its IR, its code, and where it came from.
function row(...cells) {
  return element("tr", {}, ...cells.map(([text, kind]) => element("td", { class: kind || null }, text)));
}

function factsOf(report, node, kernel) {
  const facts = [
    ["config", kernel ? kernel.config : node.kind],
    ["warps of a block", kernel ? rolesOf(kernel) : null],
    ["predicted", microseconds(node.us)],
    ["measured", node.measured === null ? null : microseconds(node.measured)],
    ["floor", `${microseconds(node.floor)}, bound by ${node.bound}`],
    ["share of the roofline", shareOf(node)],
    ["arithmetic", quantity(node.flops, "FLOP")],
    ["memory", quantity(node.bytes, "B")],
    ["comes from", node.origins.slice(0, 8).join(", ") || null],
  ];
  const list = element("dl", { class: "facts" });
  for (const [key, value] of facts) {
    if (value !== null) list.append(element("dt", {}, key), element("dd", {}, value));
  }
  return list;
}

function rolesOf(kernel) {
  const roles = Object.entries(kernel.warps).map(([role, count]) => `${count} ${role}${count > 1 ? "s" : ""}`);
  return roles.join(", ") || null;
}

function shareOf(node) {
  const us = node.measured === null ? node.us : node.measured;
  if (us === null || !us) return null;
  return `${(100 * node.floor / us).toFixed(0)} %${node.measured === null ? " as predicted" : ""}`;
}

function candidatesOf(kernel) {
  const decision = kernel.decision;
  const box = element("div", {});
  const own = decision.us;
  if (decision.candidates.length) {
    const table = element("table", {}, element("caption", { class: "quiet" },
      `${decision.considered} configs were compared; by predicted time`));
    table.append(element("tr", {}, ...["config", "predicted", "why"].map((name, i) => element(
      "th", { class: i === 1 ? null : "text", scope: "col" }, name))));
    for (const each of decision.candidates) {
      const times = own ? each.us / own : null;
      const lost = each.refusal ? `not legal: ${each.refusal}`
        : times === null ? "" : times < 1 ? `${times.toFixed(2)}×: a record, or a part of the kernel, decided`
          : `${times.toFixed(times < 10 ? 2 : 0)}× as long`;
      const line = row([each.config, "text mono"], [microseconds(each.us)], [each.chosen ? "chosen" : lost, each.refusal ? "text" : "text short"]);
      if (each.chosen) line.classList.add("chosen");
      table.append(line);
    }
    box.append(element("div", { class: "scroll" }, table));
  } else {
    box.append(element("p", {}, "Nothing predicts this kernel: generated loops are what is left."));
  }
  if (decision.refused.length) {
    box.append(element("p", {}, "Families that do not compute it:"));
    box.append(element("ul", { class: "remarks" }, ...decision.refused.map((each) => element("li", {}, each))));
  }
  return box;
}

function buffersOf(program, place, node) {
  const list = element("ul", { class: "remarks" });
  const link = (number) => element("a", { href: `#call-${place}-${number}` }, `call ${number}`);
  const add = (verb, numbers) => {
    for (const number of numbers) {
      const tensor = program.tensors[number];
      const item = element("li", {}, `${verb} ${placeOf(tensor)}`);
      if (verb === "reads" && tensor.writer !== null) item.append(", from ", link(tensor.writer));
      if (verb === "writes" && tensor.readers.length) {
        item.append(", for ");
        tensor.readers.forEach((reader, i) => item.append(i ? ", " : "", link(reader)));
      }
      list.append(item);
    }
  };
  add("reads", node.reads);
  add("writes", node.writes);
  add("works in", node.workspace);
  return list;
}

function part(title, content, open = false) {
  const details = element("details", {}, element("summary", {}, title));
  details.open = open;
  const fill = () => {
    if (details.open && details.children.length === 1) details.append(content());
  };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

function inputOf(report, node) {
  const text = report.modules[0] || [];
  const wanted = new Set(node.origins);
  const here = new Set();
  text.forEach((number, i) => {
    if (wanted.has(report.origins[report.originOfLine[number]])) here.add(i);
  });
  const shown = new Set();
  for (const at of here) for (let k = at - 2; k <= at + 4; k += 1) if (k >= 0 && k < text.length) shown.add(k);
  const order = [...shown].sort((a, b) => a - b);
  const lines = order.map((i) => report.lines[text[i]]);
  return codeBlock(lines, "the input", new Set(order.flatMap((i, at) => (here.has(i) ? [at] : []))));
}

function showCall(report, place, number, panel) {
  const program = report.programs[place];
  const node = program.nodes[number];
  const kernel = node.kernel === null ? null : report.kernels[node.kernel];
  const close = element("button", { class: "closer", type: "button", onclick: () => leave(panel) }, "Close");
  panel.classList.remove("empty");
  panel.scrollTop = 0;
  panel.replaceChildren(close, element("h3", {}, `call ${number}: ${kernel ? kernel.operation : node.kind}`));
  panel.append(factsOf(report, node, kernel), buffersOf(program, place, node));
  if (!kernel) return;
  panel.append(part("Candidates, and why they lost", () => candidatesOf(kernel), true));
  panel.append(part("IR of the kernel", () => codeBlock(linesOf(report, kernel.ir), "IR of the kernel")));
  for (const code of kernel.codes) {
    panel.append(part(code.language, () => codeBlock(linesOf(report, code.text), code.language)));
  }
  if (node.origins.length) panel.append(part("The input that it comes from", () => inputOf(report, node)));
}
