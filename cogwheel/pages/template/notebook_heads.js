/* Heads in the output of a notebook. `root` is the element of the output, and `$` and `css` are of it. */

function showHeads({ tokens, whole, range, layers, facts }) {
  const size = tokens.length, words = tokens.some(token => [...token].length > 1);
  const counts = layers.map(heads => heads.length), single = counts.length === 1 && counts[0] === 1;
  const maps = layers.map(heads => heads.map(({ code, range }) => mapOf(code, { size, whole, bits: 16, range })));
  const last = [...maps[0][0].row(size - 1)].map(a => Math.abs(a) || 0);
  const state = { layer: 0, head: 0, query: size - 1, key: last.indexOf(Math.max(...last)) };
  let colours;

  function choose(layer, head) {
    Object.assign(state, { layer, head });
    markTile($("tiles"), layer, head);
    $("map-title").textContent = single ? "" : headName(layer, head);
    $("map-facts").textContent = facts[layer][head];
    paintMap($("cells").firstElementChild, maps[layer][head], colours);
    showCell(state.query, state.key);
  }
  function showCell(query, key) {
    const map = maps[state.layer][state.head];
    key = Math.min(key, map.end(query) - 1);
    Object.assign(state, { query, key });
    const row = map.row(query), seen = row.filter(a => !Number.isNaN(a)), total = seen.reduce((sum, a) => sum + Math.abs(a), 0);
    markCell(map, query, key);
    const weight = Number.isNaN(row[key]) ? ["hidden"] : [element("b", {}, signed(row[key], 3)), `, ${total ? (100 * Math.abs(row[key]) / total).toFixed(0) : 0} % of the row’s |weight|`];
    $("readout").replaceChildren(element("code", {}, visible(tokens[query])), ` (${query + 1}) attends to `, element("code", {}, visible(tokens[key])), ` (${key + 1}): `, ...weight);
    colourText($("sentence"), map, query, colours);
  }
  function repaint() {
    colours = signedColours(range);
    tileGrid($("tiles"), { counts, choose, chosen: () => [state.layer, state.head], paint: (canvas, l, h) => paintMap(canvas, maps[l][h], colours) });
    choose(state.layer, state.head);
  }

  const inText = token => token === " " ? "\u00a0" : visible(token);
  $("sentence").replaceChildren(...tokens.map(token => element("span", {}, inText(token))));
  $("sentence").classList.toggle("words", words);
  // Beside the map there is room for names of some tokens, or for letters of more.
  const named = size <= 32 && words, lettered = !words && size <= 80;
  $("matrix").classList.toggle("named", named);
  $("matrix").classList.toggle("unnamed", !named && !lettered);
  for (const place of ["keys", "queries"]) $(place).replaceChildren(...tokens.map(token => element("span", {}, named || lettered ? visible(token) : "")));
  $("note").textContent = maps.flat().some(map => tokens.some((_, query) => map.row(query).some(a => a < 0))) ? "Blue adds a value, orange subtracts it." : "All weights add.";
  const tick = value => value === 0 ? "0" : (value < 0 ? "−" : "") + +Math.abs(value).toPrecision(2);
  $("ticks").replaceChildren(...[-1, -0.25, 0, 0.25, 1].map((share, i) => element("span", { style: `left:${25 * i}%` }, tick(share * range))));
  mapCells($("cells"), { size: () => size, show: showCell, at: () => [state.query, state.key] });
  $("gallery").classList.toggle("single", single);
  $("gallery").hidden = false;
  $("undrawn").remove();
  repaint();

  // A notebook may change its scheme, and take an output away.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const changed = () => { if (root.isConnected) repaint(); else { dark.removeEventListener("change", changed); watch.disconnect(); } };
  const watch = new MutationObserver(changed), attributes = ["class", "data-theme", "theme", "data-jp-theme-light", "data-vscode-theme-kind"];
  for (const node of [document.documentElement, document.body]) watch.observe(node, { attributes: true, attributeFilter: attributes });
  dark.addEventListener("change", changed);
}
