/* Attention maps: their code, their colours and how they are painted, the same wherever a map is shown. */

/** Heads are named as L9H4, layer and head counted from 0. */
const headName = (layer, head) => `L${layer}H${head}`;

/** Weights [query][key] from a code: sign(c)·c² of c in [−1, 1], row by row; of a causal map each query's keys so far. */
function decodeMap(code, tokens, whole) {
  const codes = Int8Array.from(atob(code), c => c.charCodeAt(0));
  let next = 0;
  return Array.from({ length: tokens }, (_, i) => Array.from({ length: whole ? tokens : i + 1 }, () => { const c = codes[next++] / 127; return Math.sign(c) * c * c; }));
}

/** Of the theme: weight → [r, g, b] on a square-root scale from −1 to 1, and that of a key which is hidden. */
function mapColours() {
  const property = name => getComputedStyle(document.documentElement).getPropertyValue(name);
  const rgb = hex => { const h = hex.trim().slice(1); return (h.length === 3 ? [...h].map(c => c + c) : h.match(/../g)).map(c => parseInt(c, 16)); };
  const stops = property("--diverging").split(",").map(rgb);
  return {
    masked: rgb(property("--masked")),
    of: weight => {
      const t = (Math.sign(weight) * Math.sqrt(Math.min(1, Math.abs(weight))) + 1) / 2 * (stops.length - 1);
      const k = Math.min(stops.length - 2, Math.floor(t));
      return stops[k].map((c, i) => Math.round(c + (stops[k + 1][i] - c) * (t - k)));
    },
  };
}

/** One pixel a weight; rows may be shorter than the map is wide, which hides the rest. */
function paintMap(canvas, rows, colours) {
  const size = rows.length;
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d"), image = context.createImageData(size, size);
  for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) image.data.set([...(j < rows[i].length ? colours.of(rows[i][j]) : colours.masked), 255], 4 * (i * size + j));
  context.putImageData(image, 0, 0);
}
