// Elements, and lines of code with their words coloured.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const WORDS = new RegExp(
  [
    /(?<com>\/\/.*|;.*)/,
    /(?<str>"(?:[^"\\]|\\.)*")/,
    /(?<ssa>%[\w.$-]+)/,
    /(?<sym>@[\w.$-]+)/,
    /(?<ty>(?:tensor|memref|vector)<[^>]*>|\b(?:f16|bf16|f32|f64|i\d+|index|float|double|half)\b)/,
    /(?<op>\b(?:arith|builtin|conv|func|kernel|linalg|llvm|math|memref|rt|scf|tensor)\.\w+)/,
  ].map((each) => each.source).join("|"),
  "g",
);

function coloured(line) {
  const made = document.createDocumentFragment();
  let from = 0;
  for (const match of line.matchAll(WORDS)) {
    const kind = Object.keys(match.groups).find((key) => match.groups[key] !== undefined);
    made.append(line.slice(from, match.index));
    made.append(element("span", { class: kind }, match[0]));
    from = match.index + match[0].length;
  }
  made.append(line.slice(from));
  return made;
}

// A line in which some ranges are marked.
function marked(line, ranges) {
  const made = document.createDocumentFragment();
  let at = 0;
  for (const [from, to] of ranges) {
    made.append(coloured(line.slice(at, from)), element("mark", {}, coloured(line.slice(from, to))));
    at = to;
  }
  made.append(coloured(line.slice(at)));
  return made;
}

function quantity(value, unit, thousand = 1000) {
  const prefixes = ["", "k", "M", "G", "T"];
  let size = value;
  let at = 0;
  while (size >= thousand && at < prefixes.length - 1) {
    size /= thousand;
    at += 1;
  }
  const digits = at === 0 ? String(Math.round(size)) : size.toPrecision(3);
  return `${digits} ${prefixes[at]}${unit}`;
}

function microseconds(us) {
  if (us === null || us === undefined) return "not predicted";
  if (us >= 1e6) return `${(us / 1e6).toPrecision(3)} s`;
  if (us >= 1e3) return `${(us / 1e3).toPrecision(3)} ms`;
  return `${us >= 1 ? us.toPrecision(3) : us.toFixed(2)} µs`;
}

// Lines as a block to read; `here` are the numbers of lines to show first.
function codeBlock(lines, label, here = new Set()) {
  const box = element("div", { class: "code", tabindex: "0", role: "region", "aria-label": label });
  const shown = 4000;
  const add = (from, to) => {
    for (let i = from; i < to; i += 1) {
      box.append(element("div", { class: here.has(i) ? "here" : null }, coloured(lines[i]) ));
    }
  };
  add(0, Math.min(shown, lines.length));
  if (lines.length > shown) {
    const more = element("button", { class: "fold", type: "button", onclick: () => {
      more.remove();
      add(shown, lines.length);
    } }, `${lines.length - shown} lines more`);
    box.append(more);
  }
  return box;
}
