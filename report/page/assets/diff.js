// Which lines of two texts are the same: Myers, "An O(ND) difference algorithm" (1986).
const MOST_EDITS = 2500;

function sameLines(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  const room = Math.min(a.length, b.length) - start;
  while (end < room && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const pairs = [];
  for (let i = 0; i < start; i += 1) pairs.push([i, i]);
  const inner = middle(a.slice(start, a.length - end), b.slice(start, b.length - end));
  for (const [i, j] of inner) pairs.push([i + start, j + start]);
  for (let i = end; i > 0; i -= 1) pairs.push([a.length - i, b.length - i]);
  return pairs;
}

function middle(a, b) {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const offset = most + 1;
  const reach = new Int32Array(2 * most + 3);
  const trace = [];
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(reach.slice(offset - edits - 1, offset + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reach[offset + k - 1] < reach[offset + k + 1]);
      let x = down ? reach[offset + k + 1] : reach[offset + k - 1] + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x += 1;
        y += 1;
      }
      reach[offset + k] = x;
      if (x >= a.length && y >= b.length) return walkBack(trace, a, b);
    }
  }
  return [];
}

function walkBack(trace, a, b) {
  const pairs = [];
  let x = a.length;
  let y = b.length;
  for (let edits = trace.length - 1; edits >= 0; edits -= 1) {
    const reach = (k) => trace[edits][k + edits + 1];
    const k = x - y;
    const down = k === -edits || (k !== edits && reach(k - 1) < reach(k + 1));
    const before = edits === 0 ? 0 : down ? k + 1 : k - 1;
    const fromX = edits === 0 ? 0 : reach(before);
    const fromY = edits === 0 ? 0 : fromX - before;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      pairs.push([x, y]);
    }
    x = fromX;
    y = fromY;
  }
  return pairs.reverse();
}

function operationIn(line) {
  const found = line.match(/\b[a-z_]+\.[a-z_]+\b/);
  return found ? found[0] : line;
}

// Rows of a side-by-side view: [number on the left or null, number on the right or null, same].
function diffRows(a, b) {
  const rows = [];
  let i = 0;
  let j = 0;
  // Lines that changed stand beside each other where they hold the same operation.
  const gap = (toI, toJ) => {
    const [left, right] = [a.slice(i, toI).map(operationIn), b.slice(j, toJ).map(operationIn)];
    const [fromI, fromJ] = [i, j];
    for (const [x, y] of [...sameLines(left, right), [left.length, right.length]]) {
      for (; i < fromI + x; i += 1) rows.push([i, null, false]);
      for (; j < fromJ + y; j += 1) rows.push([null, j, false]);
      if (i < toI && j < toJ) {
        rows.push([i, j, false]);
        i += 1;
        j += 1;
      }
    }
  };
  for (const [x, y] of sameLines(a, b)) {
    gap(x, y);
    rows.push([x, y, true]);
    i = x + 1;
    j = y + 1;
  }
  gap(a.length, b.length);
  return rows;
}

const wordsOf = (line) => line.match(/[%@!]?[\w.$-]+|\s+|./g) || [];

// The ranges of two lines that they do not share, word by word.
function differing(left, right) {
  const [a, b] = [wordsOf(left), wordsOf(right)];
  const pairs = sameLines(a.map(unnumbered), b.map(unnumbered));
  const shared = [new Set(pairs.map(([i]) => i)), new Set(pairs.map(([, j]) => j))];
  return { left: rangesOf(a, shared[0]), right: rangesOf(b, shared[1]) };
}

function rangesOf(words, shared) {
  const ranges = [];
  let at = 0;
  words.forEach((word, number) => {
    const last = ranges[ranges.length - 1];
    if (!shared.has(number)) {
      if (last && last[1] === at) last[1] += word.length;
      else ranges.push([at, at + word.length]);
    }
    at += word.length;
  });
  return ranges;
}
