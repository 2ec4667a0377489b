/* Attention maps, as the report and the viewer draw them: a grid of small ones to scan, a large one to read. */

/** Heads are counted from 0. */
const headName = (layer, head) => `L${layer}H${head}`;
const visible = token => ({ " ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍" })[token] ?? token.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");

/**
 * Codes in base64, of 8 bits or of 16 (little endian): c stands for sign(c) · (c / 127)² · range, or 32767 for 127; −128 and −32768
 * for a hidden key. They are the lower triangle or the whole square, row by row; NaN is hidden.
 */
function mapOf(code, { size, whole = false, bits = 8, range = 1 }) {
  const text = atob(code), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const codes = bits === 8 ? new Int8Array(bytes.buffer) : new Int16Array(bytes.buffer), most = bits === 8 ? 127 : 32767;
  const values = Float32Array.from(codes, c => c < -most ? NaN : Math.sign(c) * (c / most) ** 2 * range);
  /** The keys that a query may see: [0, end). */
  const end = query => whole ? size : query + 1;
  const start = query => whole ? query * size : query * (query + 1) / 2;
  return { size, whole, end, row: query => values.subarray(start(query), start(query) + end(query)) };
}

/** The colours of the page for numbers up to ±scale: a table, and the colour of one number. */
function signedColours(scale = 1, root = true) {
  const rgb = hex => { const h = hex.trim().slice(1); return (h.length === 3 ? [...h].map(c => c + c) : h.match(/../g)).map(c => parseInt(c, 16)); };
  const stops = css("--diverging").split(",").map(rgb), masked = rgb(css("--masked")), half = 512;
  const table = Array.from({ length: 2 * half + 1 }, (_, i) => {
    const t = i / (2 * half) * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(t));
    return stops[k].map((c, j) => Math.round(c + (stops[k + 1][j] - c) * (t - k)));
  });
  return value => {
    if (Number.isNaN(value)) return masked;
    const share = Math.min(1, Math.abs(value) / scale);
    return table[Math.round(half + Math.sign(value) * (root ? Math.sqrt(share) : share) * half)];
  };
}

/** Black or white, whichever stands out more from a colour; one of them always reaches 4.5 to 1. */
function legibleOn(colour) {
  const [r, g, b] = colour.map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

function paintMap(canvas, map, colours) {
  const { size } = map, context = canvas.getContext("2d");
  canvas.width = canvas.height = size;
  const image = context.createImageData(size, size), pixels = image.data;
  for (let i = 0; i < size; i++) {
    const row = map.row(i);
    for (let j = 0; j < size; j++) {
      const [r, g, b] = colours(j < row.length ? row[j] : NaN), at = 4 * (i * size + j);
      pixels[at] = r; pixels[at + 1] = g; pixels[at + 2] = b; pixels[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const onArrow = action => event => {
  const move = arrows[event.key];
  if (!move || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  action(...move);
};

/**
 * A button for each head, in rows of layers; one is chosen, and arrow keys move to others. `counts` has the heads of each layer,
 * `columns` the most of any grid that takes this place.
 */
function tileGrid(box, { counts, columns = Math.max(...counts), paint, choose, chosen, name = headName, label = name }) {
  box.style.setProperty("--heads", columns);
  box.replaceChildren(element("span", { class: "corner" }), ...Array.from({ length: columns }, (_, h) => element("span", {}, h < Math.max(...counts) ? name(0, h).slice(2) : "")));
  counts.forEach((count, l) => {
    box.append(element("span", { class: "row" }, `L${l}`));
    for (let h = 0; h < columns; h++) {
      if (h >= count) { box.append(element("span", { class: "empty" })); continue; }
      const canvas = element("canvas"), tile = element("button", { type: "button", class: "tile", "aria-label": label(l, h), "data-layer": l, "data-head": h }, canvas);
      paint(canvas, l, h);
      tile.onclick = () => { choose(l, h); if (matchMedia("(max-width: 52rem)").matches) $("cells").closest(".focus-map").scrollIntoView(); };
      box.append(tile);
    }
  });
  box.onkeydown = onArrow((down, right) => {
    const [l, h] = chosen(), layer = clamp(l + down, 0, counts.length - 1);
    choose(layer, clamp(h + right, 0, counts[layer] - 1));
    box.querySelector('[aria-pressed="true"]').focus();
  });
}

function markTile(box, layer, head) {
  for (const tile of box.querySelectorAll(".tile")) {
    const on = +tile.dataset.layer === layer && +tile.dataset.head === head;
    tile.setAttribute("aria-pressed", on);
    tile.tabIndex = on ? 0 : -1;
  }
}

/** The large map's cells, which pointer and arrow keys walk through. `at` gives the cell that is shown. */
function mapCells(cells, { size, show, at }) {
  cells.onpointermove = cells.onpointerdown = event => {
    const box = cells.getBoundingClientRect();
    const cell = (value, length) => clamp(Math.floor(value / length * size()), 0, size() - 1);
    show(cell(event.clientY - box.top, box.height), cell(event.clientX - box.left, box.width));
  };
  cells.onkeydown = onArrow((down, right) => { const [query, key] = at(); show(clamp(query + down, 0, size() - 1), clamp(key + right, 0, size() - 1)); });
}

/** Frames the row, the column and the cell of a query and a key, and marks their names beside the map. */
function markCell(map, query, key) {
  const { size, whole, end } = map, part = 100 / size;
  const place = (selector, box) => Object.assign($("cells").querySelector(selector).style, Object.fromEntries(["left", "top", "width", "height"].map((k, i) => [k, box[i] * part + "%"])));
  place(".row", [0, query, end(query), 1]); place(".column", whole ? [key, 0, 1, size] : [key, key, 1, size - key]); place(".cell", [key, query, 1, 1]);
  const mark = (box, on) => { box.querySelector(".on")?.classList.remove("on"); box.children[on]?.classList.add("on"); };
  mark($("keys"), key); mark($("queries"), query);
}

/** The text, each token in the colour of what the query makes of it. */
function colourText(box, map, query, colours) {
  const row = map.row(query);
  [...box.children].forEach((node, j) => {
    const colour = j < row.length ? colours(row[j]) : null;
    node.classList.toggle("later", colour === null);
    node.classList.toggle("query", j === query);
    node.style.background = colour ? `rgb(${colour})` : "";
    node.style.color = colour ? legibleOn(colour) : "";
  });
}
