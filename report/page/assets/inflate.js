// RFC 1951 and 1950, for browsers without DecompressionStream.
function inflate(bytes) {
  const lengthBase = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67,
    83, 99, 115, 131, 163, 195, 227, 258];
  const distanceBase = [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513,
    769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577];
  const codeOrder = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
  const lengthBits = (code) => (code < 8 || code === 28 ? 0 : (code >> 2) - 1);
  const distanceBits = (code) => (code < 4 ? 0 : (code >> 1) - 1);
  let at = 16;  // in bits, behind the two bytes of the zlib header
  let out = new Uint8Array(bytes.length * 8);
  let size = 0;
  const bit = () => {
    const value = (bytes[at >> 3] >> (at & 7)) & 1;
    at += 1;
    return value;
  };
  const number = (count) => {
    let value = 0;
    for (let i = 0; i < count; i += 1) value |= bit() << i;
    return value;
  };
  const put = (byte) => {
    if (size === out.length) {
      const larger = new Uint8Array(out.length * 2);
      larger.set(out);
      out = larger;
    }
    out[size] = byte;
    size += 1;
  };
  // A canonical code: how many symbols of each length, and the symbols in order.
  const tree = (lengths) => {
    const counts = new Uint16Array(16);
    for (const length of lengths) counts[length] += 1;
    counts[0] = 0;
    const starts = new Uint16Array(17);
    for (let i = 1; i < 16; i += 1) starts[i + 1] = starts[i] + counts[i];
    const symbols = new Uint16Array(lengths.length);
    lengths.forEach((length, symbol) => {
      if (length) {
        symbols[starts[length]] = symbol;
        starts[length] += 1;
      }
    });
    return { counts, symbols };
  };
  const symbol = ({ counts, symbols }) => {
    let code = 0;
    let first = 0;
    let index = 0;
    for (let length = 1; length < 16; length += 1) {
      code |= bit();
      const count = counts[length];
      if (code - first < count) return symbols[index + code - first];
      index += count;
      first = (first + count) << 1;
      code <<= 1;
    }
    throw new Error("the data of this page are damaged");
  };
  const codes = (literals, distances) => {
    for (;;) {
      const found = symbol(literals);
      if (found === 256) return;
      if (found < 256) {
        put(found);
        continue;
      }
      const length = lengthBase[found - 257] + number(lengthBits(found - 257));
      const code = symbol(distances);
      const distance = distanceBase[code] + number(distanceBits(code));
      for (let i = 0; i < length; i += 1) put(out[size - distance]);
    }
  };
  const fixed = () => {
    const lengths = Array.from({ length: 288 }, (_, i) => (i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8));
    return [tree(lengths), tree(new Array(30).fill(5))];
  };
  const dynamic = () => {
    const literals = number(5) + 257;
    const distances = number(5) + 1;
    const lengths = new Array(19).fill(0);
    const given = number(4) + 4;
    for (let i = 0; i < given; i += 1) lengths[codeOrder[i]] = number(3);
    const code = tree(lengths);
    const all = [];
    while (all.length < literals + distances) {
      const found = symbol(code);
      if (found < 16) all.push(found);
      else if (found === 16) all.push(...new Array(3 + number(2)).fill(all[all.length - 1]));
      else all.push(...new Array(found === 17 ? 3 + number(3) : 11 + number(7)).fill(0));
    }
    return [tree(all.slice(0, literals)), tree(all.slice(literals))];
  };
  for (let last = 0; !last;) {
    last = bit();
    const kind = number(2);
    if (kind === 0) {
      at = (at + 7) & ~7;
      const length = number(16);
      at += 16;
      for (let i = 0; i < length; i += 1) put(number(8));
    } else {
      codes(...(kind === 1 ? fixed() : dynamic()));
    }
  }
  return out.subarray(0, size);
}

// The JSON that the page holds, compressed.
async function pageData() {
  const text = document.getElementById("data").textContent.trim();
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  let plain;
  if (typeof DecompressionStream === "function") {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    plain = new Uint8Array(await new Response(stream).arrayBuffer());
  } else {
    plain = inflate(bytes);
  }
  return JSON.parse(new TextDecoder().decode(plain));
}
