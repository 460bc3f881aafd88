// What a pass changed, side by side, with what it said at the lines that it spoke of.
const CONTEXT = 3;

// Numbers of values differ from print to print: lines that differ in them alone are the same.
const unnumbered = (line) => line.replace(/%\d+\b/g, "%").replace(/\^bb\d+/g, "^bb");

function linesOf(report, numbers) {
  return numbers.map((number) => report.lines[number]);
}

// The remarks of a step by the line of `text` where each stands; those without a place are left.
function placedRemarks(report, text, remarks) {
  const placed = new Map();
  for (const remark of remarks) {
    if (!remark.origin) continue;
    const line = text.findIndex(
      (number) => report.origins[report.originOfLine[number]] === remark.origin
        && report.lines[number].includes(remark.op),
    );
    if (line < 0) continue;
    placed.set(line, [...(placed.get(line) || []), remark]);
  }
  return placed;
}

function remarkText(remark) {
  const verb = remark.fired ? remark.verb : `not ${remark.verb}`;
  return `${remark.fired ? "✓" : "✗"} ${remark.op} ${verb}: ${remark.reason.replaceAll(" -> ", " → ")}`;
}

function showStep(report, number, into) {
  const step = report.steps[number];
  const before = report.modules[step.before];
  const after = report.modules[step.after];
  const left = linesOf(report, before);
  const right = linesOf(report, after);
  const rows = diffRows(left.map(unnumbered), right.map(unnumbered));
  const placed = placedRemarks(report, before, step.remarks);
  const interesting = rows.map(([i, , same]) => !same || (i !== null && placed.has(i)));
  const near = interesting.map((_, at) => {
    for (let k = at - CONTEXT; k <= at + CONTEXT; k += 1) if (interesting[k]) return true;
    return false;
  });
  const box = element("div", { class: "diff", role: "group", "aria-label": `IR before and after ${step.name}` });
  const add = (at, target) => {
    const [i, j, same] = rows[at];
    const change = i !== null && j !== null && !same ? differing(left[i], right[j]) : null;
    const cell = (line, kind, ranges) => element(
      "div",
      { class: line === null ? null : kind },
      line === null ? "" : change ? marked(line, ranges) : coloured(line),
    );
    const row = element("div", { class: "row" },
      cell(i === null ? null : left[i], same ? "same" : "removed", change && change.left),
      cell(j === null ? null : right[j], same ? "same" : "added", change && change.right));
    target.append(row);
    for (const remark of (i !== null && placed.get(i)) || []) {
      target.append(element("div", { class: "said" }, remarkText(remark)));
    }
  };
  for (let at = 0; at < rows.length;) {
    if (near[at]) {
      add(at, box);
      at += 1;
      continue;
    }
    const from = at;
    while (at < rows.length && !near[at]) at += 1;
    const to = at;
    const fold = element("button", { class: "fold", type: "button", onclick: () => {
      const rest = document.createDocumentFragment();
      for (let k = from; k < to; k += 1) add(k, rest);
      fold.replaceWith(rest);
    } }, `${to - from} unchanged lines`);
    box.append(fold);
  }
  into.replaceChildren(box);
}

function watchSteps(report) {
  for (const details of document.querySelectorAll("details[data-step]")) {
    const show = () => {
      const into = details.querySelector(".ir");
      if (details.open && into && !into.hasChildNodes()) showStep(report, Number(details.dataset.step), into);
    };
    details.addEventListener("toggle", show);
    show();
  }
}
