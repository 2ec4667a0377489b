/* Heads: every attention map of one passage, as attention_maps.js draws them. */

function startHeads() {
  const { maps } = data, { tokens } = maps, size = tokens.length;
  const seeds = Object.keys(maps.heads);
  const shown = seed => mechanisms.filter(mechanism => maps.heads[seed][mechanism]);
  const state = { seed: seeds[0], mechanism: "", layer: 0, head: 0, query: Math.max(0, size - 2), key: 0 };
  state.mechanism = shown(state.seed).find(name => name !== results.baseline) ?? shown(state.seed)[0];
  const layersOf = () => maps.heads[state.seed][state.mechanism];
  /** Beside the map there is room for one letter: where tokens are longer, the cell that is read is marked alone. */
  const letter = token => [...token].length > 1 ? "" : visible(token);
  /** Patches of an image, "row,column", after tokens of other kinds: they are shown as they lie in it. */
  const patches = tokens.filter(token => /^\d+,\d+$/.test(token)).length, side = Math.sqrt(patches);
  const words = tokens.some(token => [...token].length > 1);

  const cache = new Map();
  function weights(layer, head) {
    const id = [state.seed, state.mechanism, layer, head].join();
    if (!cache.has(id)) cache.set(id, mapOf(layersOf()[layer][head], { size, whole: maps.whole }));
    return cache.get(id);
  }
  const rowsOf = map => tokens.map((_, query) => map.row(query));

  let colours;
  const most = Math.max(...seeds.flatMap(seed => shown(seed).map(name => maps.heads[seed][name][0].length)));
  function drawTiles() {
    const counts = layersOf().map(heads => heads.length);
    tileGrid($("tiles"), {
      counts, columns: most, choose, chosen: () => [state.layer, state.head],
      paint: (canvas, layer, head) => paintMap(canvas, weights(layer, head), colours),
    });
    const negative = counts.some((count, l) => Array.from({ length: count }).some((_, h) => rowsOf(weights(l, h)).some(row => row.some(a => a < 0))));
    $("heads-note").textContent = [negative ? "Blue adds a value, orange subtracts it." : "All weights add.", maps.notes[state.mechanism]].filter(Boolean).join(" ");
    const layer = Math.min(state.layer, counts.length - 1);
    choose(layer, Math.min(state.head, counts[layer] - 1));
  }
  function choose(layer, head) {
    Object.assign(state, { layer, head });
    markTile($("tiles"), layer, head);
    const map = weights(layer, head), rows = rowsOf(map);
    const negative = mean(rows.map(row => row.reduce((sum, a) => sum + Math.max(0, -a), 0)));
    $("map-title").textContent = `${labels[state.mechanism]}: ${headName(layer, head)}`;
    $("map-facts").textContent = `first ${item} ${mean(rows.map(row => Math.abs(row[0]))).toFixed(2)} · negative ${negative.toFixed(2)} per row`;
    paintMap($("cells").firstElementChild, map, colours);
    showCell(state.query, state.key);
  }
  function showCell(query, key) {
    const map = weights(state.layer, state.head);
    key = Math.min(key, map.end(query) - 1);
    Object.assign(state, { query, key });
    const row = map.row(query), total = row.reduce((sum, a) => sum + Math.abs(a), 0);
    markCell(map, query, key);
    $("readout").replaceChildren(element("code", {}, visible(tokens[query])), ` (${query + 1}) attends to `, element("code", {}, visible(tokens[key])), ` (${key + 1}): weight `,
      element("b", {}, signed(row[key], 3)), `, ${total ? (100 * Math.abs(row[key]) / total).toFixed(0) : 0} % of the row’s |weight|`);
    colourText($("sentence"), map, query, colours);
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
  for (const id of ["keys", "queries"]) $(id).replaceChildren(...tokens.map(token => element("span", {}, letter(token))));
  const inText = token => token === " " ? "\u00a0" : visible(token);
  $("sentence").replaceChildren(...tokens.map((token, i) => element("span", side > 1 && i >= size - patches ? { title: token } : {}, side > 1 && i >= size - patches ? "" : inText(token))));
  $("sentence").classList.toggle("words", words && !(side > 1));
  if (side > 1 && Number.isInteger(side)) {
    $("sentence").classList.add("patches");
    $("sentence").style.setProperty("--side", side);
    // Tokens before the patches stand in a line of their own.
    [...$("sentence").children].slice(0, size - patches).forEach(node => node.classList.add("before"));
  }
  mapCells($("cells"), { size: () => size, show: showCell, at: () => [state.query, state.key] });

  const repaint = () => { colours = signedColours(); drawTiles(); };
  repaint();
  return { repaint };
}
