/* Heads: every attention map of one passage to scan, and one to read. */

function startHeads() {
  const { maps } = data, { tokens } = maps, size = tokens.length;
  const seeds = Object.keys(maps.heads);
  const shown = seed => mechanisms.filter(mechanism => maps.heads[seed][mechanism]);
  const state = { seed: seeds[0], mechanism: "", layer: 0, head: 0, query: Math.max(0, size - 2), key: 0 };
  state.mechanism = shown(state.seed).find(name => name !== results.baseline) ?? shown(state.seed)[0];
  /** The keys that a query may see: [0, end). */
  const end = query => maps.whole ? size : query + 1;
  const layersOf = () => maps.heads[state.seed][state.mechanism];
  const visible = token => ({ " ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍" })[token] ?? token;
  /** Where there is room for one letter only. */
  const letter = token => [...token].length > 1 ? "▯" : visible(token);

  const cache = new Map();
  /** Weights [query][key] of one head. */
  function weights(layer, head) {
    const id = [state.seed, state.mechanism, layer, head].join();
    if (!cache.has(id)) cache.set(id, decodeMap(layersOf()[layer][head], size, maps.whole));
    return cache.get(id);
  }

  let colours;
  /** Black or white, whichever stands out more from a colour; one of them always reaches 4.5 to 1. */
  function legibleOn(colour) {
    const [r, g, b] = colour.map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  }
  const most = Math.max(...seeds.flatMap(seed => shown(seed).map(name => maps.heads[seed][name][0].length)));
  function drawTiles() {
    const layers = layersOf(), count = layers[0].length, box = $("tiles");
    box.style.setProperty("--heads", most);
    box.replaceChildren(element("span", { class: "corner" }), ...Array.from({ length: most }, (_, h) => element("span", {}, h < count ? `H${h}` : "")));
    layers.forEach((heads, l) => {
      box.append(element("span", { class: "row" }, `L${l}`));
      for (let h = 0; h < most; h++) {
        if (h >= count) { box.append(element("span", { class: "empty" })); continue; }
        const canvas = element("canvas"), tile = element("button", { type: "button", class: "tile", "aria-label": headName(l, h), "data-layer": l, "data-head": h }, canvas);
        paintMap(canvas, weights(l, h), colours);
        tile.onclick = () => { choose(l, h); if (matchMedia("(max-width: 52rem)").matches) document.querySelector(".focus-map").scrollIntoView(); };
        box.append(tile);
      }
    });
    const negative = layers.some((heads, l) => heads.some((_, h) => weights(l, h).some(row => row.some(a => a < 0))));
    $("heads-note").textContent = [negative ? "Blue adds a value, orange subtracts it." : "All weights add.", maps.notes[state.mechanism]].filter(Boolean).join(" ");
    choose(Math.min(state.layer, layers.length - 1), Math.min(state.head, count - 1));
  }
  function choose(layer, head) {
    Object.assign(state, { layer, head });
    for (const tile of $("tiles").querySelectorAll(".tile")) {
      const on = +tile.dataset.layer === layer && +tile.dataset.head === head;
      tile.setAttribute("aria-pressed", on);
      tile.tabIndex = on ? 0 : -1;
    }
    const rows = weights(layer, head);
    const negative = mean(rows.map(row => row.reduce((sum, a) => sum + Math.max(0, -a), 0)));
    $("map-title").textContent = `${labels[state.mechanism]}: ${headName(layer, head)}`;
    $("map-facts").textContent = `first ${item} ${mean(rows.map(row => Math.abs(row[0]))).toFixed(2)} · negative ${negative.toFixed(2)} per row`;
    paintMap($("cells").firstElementChild, rows, colours);
    showCell(state.query, state.key);
  }
  function showCell(query, key) {
    key = Math.min(key, end(query) - 1);
    Object.assign(state, { query, key });
    const row = weights(state.layer, state.head)[query], total = row.reduce((sum, a) => sum + Math.abs(a), 0), part = 100 / size;
    const place = (selector, box) => Object.assign($("cells").querySelector(selector).style, Object.fromEntries(["left", "top", "width", "height"].map((k, i) => [k, box[i] * part + "%"])));
    place(".row", [0, query, end(query), 1]); place(".column", maps.whole ? [key, 0, 1, size] : [key, key, 1, size - key]); place(".cell", [key, query, 1, 1]);
    [...$("keys").children].forEach((node, j) => node.classList.toggle("on", j === key));
    [...$("queries").children].forEach((node, i) => node.classList.toggle("on", i === query));
    $("readout").replaceChildren(element("code", {}, visible(tokens[query])), ` (${query + 1}) attends to `, element("code", {}, visible(tokens[key])), ` (${key + 1}): weight `,
      element("b", {}, signed(row[key], 3)), `, ${total ? (100 * Math.abs(row[key]) / total).toFixed(0) : 0} % of the row’s |weight|`);
    [...$("sentence").children].forEach((node, j) => {
      node.className = j >= end(query) ? "later" : j === query ? "query" : "";
      node.style.background = j < end(query) ? `rgb(${colours.of(row[j])})` : "";
      node.style.color = j < end(query) ? legibleOn(colours.of(row[j])) : "";
    });
  }

  $("switch").append(...switchOf("radio", "mechanism", shown(state.seed), name => name === state.mechanism, name => { state.mechanism = name; drawTiles(); }));
  $("map-seed").append(...seeds.map(seed => element("option", { value: seed }, seed)));
  $("map-seed").parentElement.hidden = seeds.length < 2;
  $("map-seed").onchange = event => {
    state.seed = event.target.value;
    for (const input of $("switch").querySelectorAll("input")) input.disabled = !maps.heads[state.seed][input.value];
    if (!maps.heads[state.seed][state.mechanism]) state.mechanism = shown(state.seed)[0];
    $(`mechanism-${state.mechanism}`).checked = true;
    drawTiles();
  };
  for (const id of ["keys", "queries", "sentence"]) $(id).replaceChildren(...tokens.map(token => element("span", {}, id === "sentence" && token === " " ? "\u00a0" : letter(token))));

  const cells = $("cells");
  cells.onpointermove = cells.onpointerdown = event => {
    const box = cells.getBoundingClientRect();
    const cell = (value, length) => clamp(Math.floor(value / length * size), 0, size - 1);
    showCell(cell(event.clientY - box.top, box.height), cell(event.clientX - box.left, box.width));
  };
  const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const onArrow = action => event => {
    const move = arrows[event.key];
    if (!move) return;
    event.preventDefault();
    action(...move);
  };
  cells.onkeydown = onArrow((down, right) => showCell(clamp(state.query + down, 0, size - 1), clamp(state.key + right, 0, size - 1)));
  $("tiles").onkeydown = onArrow((down, right) => {
    const layers = layersOf();
    choose(clamp(state.layer + down, 0, layers.length - 1), clamp(state.head + right, 0, layers[0].length - 1));
    $("tiles").querySelector('[aria-pressed="true"]').focus();
  });
  const repaint = () => { colours = mapColours(); drawTiles(); };
  repaint();
  return { repaint };
}
