/* The viewer: what is shown follows from one state, which the address of the page holds. */
const { runs } = data;
const kinds = { zero: "zero", mean: "mean", flip: "flipped", patch: "patched" };
const keysOfKinds = { z: "zero", m: "mean", f: "flip", p: "patch", x: "" };
const names = {
  values: { weights: "weights", weighted: "|a|·‖v‖", scores: "scores" },
  compared: { none: "nothing", run: "the other run", text: "the second text", edits: "unchanged heads" },
  scale: { root: "square root", linear: "linear" },
};
const start = { text: "", second: "", run: 0, values: "weights", compared: "none", scale: "root", layer: 0, head: 0, query: null, key: null, edits: {}, answer: "", foil: "" };

const state = { ...start };   // what the controls say
let view = null;              // what was last answered
let shown = null;             // the state that it answers
const cell = { query: 0, key: 0 };  // that is read: the state's, or what the last token looks at most until one is chosen
let map = null, colours = null, asked = 0;

/* The address */
function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1)), initial = { ...start, ...data.initial };
  const number = (name, most) => { const value = Number.parseInt(given.get(name) ?? "", 10); return value >= 0 && value <= most ? value : initial[name]; };
  const choice = name => given.get(name) in names[name] ? given.get(name) : initial[name];
  const [, layer, head] = /^L(\d+)H(\d+)$/.exec(given.get("head") ?? "") ?? [0, initial.layer, initial.head];
  Object.assign(state, initial, {
    text: data.live ? given.get("text") ?? initial.text : initial.text, second: data.live ? given.get("second") ?? initial.second : initial.second,
    run: number("run", runs.length - 1), values: choice("values"), compared: choice("compared"), scale: choice("scale"),
    layer: +layer, head: +head, query: number("query", 1e6), key: number("key", 1e6),
    answer: given.get("answer") ?? initial.answer, foil: given.get("foil") ?? initial.foil,
    edits: data.live ? Object.fromEntries((given.get("edits") ?? "").split(",").map(edit => edit.split(":")).filter(([name, kind]) => name && kind in kinds)) : {},
  });
}
function writeAddress() {
  const given = new URLSearchParams();
  const put = (name, value, otherwise) => { if (String(value) !== String(otherwise)) given.set(name, value); };
  if (data.live) { put("text", state.text, data.initial.text ?? ""); put("second", state.second, data.initial.second ?? ""); }
  for (const name of ["run", "values", "compared", "scale", "answer", "foil"]) put(name, state[name], start[name]);
  put("head", headName(state.layer, state.head), headName(start.layer, start.head));
  if (state.key !== null) { given.set("query", state.query); given.set("key", state.key); }
  put("edits", editList().join(","), "");
  history.replaceState(null, "", "#" + given);
}

/* Questions */
const editList = () => Object.entries(state.edits).map(([name, kind]) => `${name}:${kind}`);
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const halves = () => view?.halves ?? 1;
/** Scores of a difference of two maps are those of both halves of a head. */
const nameOf = (layer, head) => halves() === 1 ? headName(layer, head) : `${headName(layer, Math.floor(head / halves()))}${"ab"[head % halves()]}`;
const editedHead = () => headName(state.layer, Math.floor(state.head / halves()));
function request(of = state) {
  return { run: of.run, text: of.text, second_text: of.second, values: of.values, compared: of.compared, edits: Object.entries(of.edits).map(([name, kind]) => `${name}:${kind}`), answer: of.answer, foil: of.foil };
}
function complain(message) {
  $("problem").hidden = !message;
  $("problem").textContent = message ?? "";
}

/**
 * What a head writes reaches later layers alone, so that the map of a changed head differs in nothing: where the chosen map is
 * empty, the head of the first layer that differs is chosen that differs most.
 */
function showDifference() {
  if (view.layers[state.layer][state.head].range > 0) return;
  const layer = view.layers.findIndex(heads => heads.some(head => head.range > 0));
  if (layer < 0) return;
  const ranges = view.layers[layer].map(head => head.range);
  Object.assign(state, { layer, head: ranges.indexOf(Math.max(...ranges)) });
}

/** Asks for what the state says. Where that is refused, what was shown stays, and the controls say so again. */
async function update() {
  const turn = ++asked, before = shown;
  document.querySelector("main").setAttribute("aria-busy", "true");
  const wanted = structuredClone(state);
  try {
    const answer = await source.view(request(wanted));
    if (turn !== asked) return;
    complain(null);
    view = answer;
    shown = wanted;
    state.layer = Math.min(state.layer, view.layers.length - 1);
    state.head = Math.min(state.head, view.layers[state.layer].length - 1);
    if (before && wanted.compared === "edits" && (before.compared !== "edits" || String(Object.entries(before.edits)) !== String(Object.entries(wanted.edits)))) showDifference();
    writeAddress();
    repaint();
  } catch (error) {
    if (turn !== asked) return;
    complain(error.message);
    // What was typed stays in its field; the rest, and the address, stay with what is shown.
    if (before) {
      const { run, text, second, values, compared, edits, answer, foil } = before;
      Object.assign(state, { run, text, second, values, compared, edits: { ...edits }, answer, foil });
      drawControls();
      drawNext();
    } else if (editList().length || state.compared !== "none") {
      // An address of another run: what that alone allows is left out, and the line still says so.
      Object.assign(state, { edits: {}, compared: "none" });
      await update();
      complain(error.message);
    }
  } finally {
    if (turn === asked) document.querySelector("main").setAttribute("aria-busy", "false");
  }
}

async function showMap() {
  const { layer, head } = state, of = shown;
  const answer = await source.map(request(of), layer, head).catch(error => { complain(error.message); return null; });
  if (!answer || of !== shown || layer !== state.layer || head !== state.head) return;
  map = mapOf(answer.code, { size: view.tokens.length, bits: answer.bits, range: answer.range });
  drawMap();
}

/* Controls */
function segments(box, choices, chosen, onchange) {
  const group = box.dataset.of ?? box.id, legend = box.firstElementChild, focused = box.contains(document.activeElement);
  box.replaceChildren(legend, ...choices.map(({ value, label, why }) => {
    const input = element("input", { type: "radio", name: group, id: `${group}-${value}`, value });
    input.checked = String(value) === String(chosen);
    input.disabled = Boolean(why);
    input.onchange = () => onchange(value);
    return element("span", why ? { title: why } : {}, input, element("label", { for: input.id }, label));
  }));
  if (focused) box.querySelector("input:checked")?.focus({ preventScroll: true });
}
const heldBack = change => data.live || kept.has(request({ ...state, ...change })) ? "" : "not in this file";
function drawControls() {
  const box = name => document.querySelector(`[data-of="${name}"]`);
  const pick = name => value => { state[name] = value; update(); };
  box("run").hidden = runs.length < 2;
  segments(box("run"), runs.map((run, value) => ({ value, label: run.name })), state.run, pick("run"));
  segments(box("values"), Object.entries(names.values).map(([value, label]) => ({ value, label, why: value === "scores" && !runs[state.run].scores ? "this mechanism has no scores" : heldBack({ values: value }) })), state.values, pick("values"));
  const reasons = {
    none: "", run: runs.length < 2 ? "one run is shown" : String(runs[0].heads) !== String(runs[1].heads) ? "the runs differ in their heads" : heldBack({ compared: "run" }),
    text: state.second ? heldBack({ compared: "text" }) : "there is no second text", edits: !data.live ? "not in this file" : editList().length ? "" : "no head is changed",
  };
  segments(box("compared"), Object.entries(names.compared).map(([value, label]) => ({ value, label, why: reasons[value] })), state.compared, pick("compared"));
  segments(box("scale"), Object.entries(names.scale).map(([value, label]) => ({ value, label })), state.scale, value => { state.scale = value; writeAddress(); repaint(); });
}

/* The grid and the large map */
const kindOfValues = () => ({ weights: "weight", weighted: "|a|·‖v‖", scores: "score" })[shown.values];
const titleOf = () => `${runs[shown.run].name} ${nameOf(state.layer, state.head)}`;
const minus = () => ({ none: "", run: runs.length > 1 ? ` − ${runs[1 - shown.run].name}` : "", text: " − second text", edits: " − unchanged" })[shown.compared];
const digits = () => view.scale >= 100 ? 1 : view.scale >= 10 ? 2 : 3;

function drawGrid() {
  $("heads-title").textContent = `All heads${minus()}`;
  const focused = $("tiles").contains(document.activeElement);
  tileGrid($("tiles"), {
    counts: view.layers.map(heads => heads.length), name: nameOf, choose, chosen: () => [state.layer, state.head],
    label: (l, h) => [nameOf(l, h), kinds[shown.edits[headName(l, Math.floor(h / halves()))]]].filter(Boolean).join(", "),
    paint: (canvas, l, h) => { const { code, range } = view.layers[l][h]; paintMap(canvas, mapOf(code, { size: view.side, range }), colours); },
  });
  for (const tile of $("tiles").querySelectorAll(".tile")) {
    const kind = shown.edits[headName(+tile.dataset.layer, Math.floor(tile.dataset.head / halves()))];
    if (kind) tile.dataset.edit = { zero: "0", mean: "x̄", flip: "±", patch: "⇄" }[kind];
    tile.title = tile.getAttribute("aria-label");
  }
  markTile($("tiles"), state.layer, state.head);
  if (focused) $("tiles").querySelector('[aria-pressed="true"]').focus({ preventScroll: true });
  const bar = Array.from({ length: 41 }, (_, i) => (i - 20) / 20).map(t => `rgb(${colours(t * view.scale)})`);
  $("colour-bar").style.background = `linear-gradient(to right, ${bar})`;
  $("ticks").replaceChildren(...[-1, -0.5, 0, 0.5, 1].map(t => element("span", { style: `left:${50 + 50 * t}%` }, t === 0 ? "0" : signed(t * view.scale, view.scale === 1 ? 1 : digits() - 1).replace(/\.0+$/, ""))));
}
function choose(layer, head) {
  Object.assign(state, { layer, head });
  markTile($("tiles"), layer, head);
  writeAddress();
  drawNext();
  showMap();
}
/** Names beside the map where each has room; else the line above says which tokens a cell joins. */
function drawNames() {
  const size = view.tokens.length, room = $("matrix").clientWidth / (size + 5), named = room >= 10;
  $("matrix").classList.toggle("named", named);
  for (const id of ["keys", "queries"]) $(id).replaceChildren(...(named ? view.tokens.map((token, i) => element("span", {}, visible(id === "keys" && view.second_tokens && view.second_tokens[i] !== token ? `${token}/${view.second_tokens[i]}` : token))) : []));
  $("sentence").replaceChildren(...view.tokens.map(token => element("span", {}, token === " " ? "\u00a0" : visible(token))));
  $("lines").style.setProperty("--rows", `${size * lineRow}px`);
  $("sentence").classList.toggle("letters", view.tokens.every(token => [...token].length === 1));
}
function drawMap() {
  const rows = view.tokens.map((_, i) => map.row(i)), numbers = row => row.reduce((sum, a) => sum + (Number.isNaN(a) ? 0 : Math.max(0, -a)), 0);
  $("map-title").textContent = titleOf() + minus();
  const nothing = shown.compared === "edits" && !view.layers.some(heads => heads.some(head => head.range > 0));
  $("map-facts").textContent = nothing ? "no map differs: what a head writes reaches later layers alone" : `first token ${mean(rows.map(row => Math.abs(row[0]) || 0)).toFixed(digits() - 1)} · negative ${mean(rows.map(numbers)).toFixed(digits() - 1)} per row · largest ${shortNumber(view.layers[state.layer][state.head].range)}`;
  paintMap($("cells").firstElementChild, map, colours);
  const query = Math.min(state.query ?? map.size - 1, map.size - 1), row = map.row(query);
  readCell(query, Math.min(state.key ?? row.reduce((best, value, key) => Math.abs(value) > Math.abs(row[best]) ? key : best, 0), query));
}
function showCell(query, key) {
  if (!map) return;
  key = Math.min(key, query);
  if (query === state.query && key === state.key) return;
  Object.assign(state, { query, key });
  readCell(query, key);
  clearTimeout(showCell.later);
  showCell.later = setTimeout(writeAddress, 200);
}
function readCell(query, key) {
  Object.assign(cell, { query, key });
  const row = map.row(query), value = row[key], total = row.reduce((sum, a) => sum + Math.abs(a || 0), 0);
  const token = i => element("code", {}, visible(view.tokens[i]));
  markCell(map, query, key);
  $("readout").replaceChildren(token(query), ` (${query}) attends to `, token(key), ` (${key}): ${kindOfValues()}${shown.compared === "none" ? "" : " difference"} `,
    ...(Number.isNaN(value) ? ["hidden"] : [element("b", {}, signed(value, digits())), ...(shown.values === "weights" && shown.compared === "none" && total ? [`, ${(100 * Math.abs(value) / total).toFixed(0)} % of the row’s |weight|`] : [])]));
  colourText($("sentence"), map, query, colours);
  drawLinks();
}

/* Lines */
const whatLines = () => ({ map, tokens: view.tokens, query: cell.query, key: cell.key, scale: view.scale, all: view.tokens.length <= 80 });
function drawLinks() {
  const box = $("lines"), canvas = box.querySelector("canvas"), dots = devicePixelRatio || 1;
  const width = box.clientWidth, height = box.clientHeight;
  if (!width) return;
  Object.assign(canvas, { width: width * dots, height: height * dots });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.scale(dots, dots);
  drawLines(context, { ...whatLines(), top: box.scrollTop, width, height });
}
function followQuery() {
  const box = $("lines"), y = cell.query * lineRow;
  if (y < box.scrollTop || y + lineRow > box.scrollTop + box.clientHeight) box.scrollTop = y - box.clientHeight / 2;
}

/* Next tokens and changed heads */
function edit(kind) {
  if (!data.live || !view) return;
  const name = editedHead();
  if (kind) state.edits = { ...state.edits, [name]: kind };
  else state.edits = Object.fromEntries(Object.entries(state.edits).filter(([head]) => head !== name));
  if (!editList().length && state.compared === "edits") state.compared = "none";
  drawNext();
  update();
}
function drawNext() {
  const name = editedHead(), choices = { "": "as it is", zero: "zero", mean: "mean", flip: "flip sign", patch: "patch" };
  $("edit-title").textContent = `Head ${name}`;
  segments($("edit"), Object.entries(choices).map(([value, label]) => ({ value, label, why: !data.live ? "a file has no model to run" : value === "patch" && !state.second ? "there is no second text" : "" })), state.edits[name] ?? "", edit);
  $("edits").replaceChildren(...Object.entries(state.edits).map(([head, kind]) => {
    const remove = element("button", { type: "button", "aria-label": `Restore ${head}` }, "×");
    remove.onclick = () => { const { [head]: _, ...others } = state.edits; state.edits = others; if (!editList().length && state.compared === "edits") state.compared = "none"; drawNext(); update(); };
    return element("li", {}, `${head} ${kinds[kind]} `, remove);
  }));
  if (!view) return;
  const percent = p => p >= 0.9995 ? "100 %" : p >= 0.001 ? `${(100 * p).toFixed(1)} %` : "< 0.1 %";
  const table = $("said");
  table.tHead.replaceChildren(element("tr", {}, element("th", { scope: "col" }, "token"), ...view.columns.map(title => element("th", { scope: "col", class: "right" }, title))));
  table.tBodies[0].replaceChildren(...view.next.map(({ token, probabilities }) => element("tr", {}, element("th", { scope: "row" }, element("code", {}, visible(token))),
    ...probabilities.map(p => element("td", { class: "right num", style: `--share:${p}` }, percent(p))))));
  const difference = $("difference"), { logits } = view;
  difference.classList.toggle("problem", Boolean(logits?.problem));
  difference.replaceChildren();
  if (!logits) return;
  if (logits.differences) difference.append(...view.columns.flatMap((title, i) => [i ? " · " : "", view.columns.length > 1 ? `${title} ` : `${logits.answer} over ${logits.foil}: `, element("b", {}, signed(logits.differences[i], 3))]));
  if (logits.change !== undefined) difference.append(` · ${signed(100 * logits.change, 1)} %`);
  if (logits.problem) difference.append((logits.differences ? " · " : "") + logits.problem);
}

/* All of it */
function repaint() {
  const run = runs[shown.run];
  $("of-run").textContent = runs.map(each => each.name).join(" and ");
  $("run-facts").textContent = `${run.mechanism} · ${counted(run.heads.length, "layer")}, ${new Set(run.heads).size === 1 ? `${counted(run.heads[0], "head")} each` : `${run.heads.reduce((a, b) => a + b)} heads`} · ${view.tokens.length} of ${run.context} tokens · checkpoint ${run.sha256.slice(0, 12)}`;
  colours = signedColours(view.scale, state.scale === "root");
  drawControls();
  drawNames();
  drawGrid();
  drawNext();
  showMap();
}

function startPointers() {
  const size = () => view.tokens.length;
  mapCells($("cells"), { size, show: (query, key) => { showCell(query, key); followQuery(); }, at: () => [cell.query, cell.key] });
  const place = node => [...node.parentElement.children].indexOf(node);
  const over = (id, action) => { $(id).onpointerover = event => { const node = event.target.closest("span"); if (node && map) action(place(node)); }; };
  over("queries", query => { showCell(query, cell.key); followQuery(); });
  over("keys", key => showCell(Math.max(key, cell.query), key));
  over("sentence", query => { showCell(query, cell.key); followQuery(); });
  const lines = $("lines");
  lines.onpointermove = lines.onpointerdown = event => {
    if (!map) return;
    const box = lines.getBoundingClientRect(), token = clamp(Math.floor((event.clientY - box.top + lines.scrollTop) / lineRow), 0, size() - 1);
    if (event.clientX - box.left < box.width / 2) showCell(token, cell.key);
    else showCell(Math.max(token, cell.query), token);
  };
  lines.onscroll = () => { if (map) drawLinks(); };
  lines.onkeydown = onArrow((down, right) => { if (map) { showCell(clamp(cell.query + down, 0, size() - 1), Math.max(0, cell.key + right)); followQuery(); } });
}

function startKeyboard() {
  addEventListener("keydown", event => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { $("ask").requestSubmit(); return; }
    if (!view || event.altKey || event.ctrlKey || event.metaKey || event.target.matches("textarea, input:not([type=radio])")) return;
    const key = event.key.toLowerCase();
    if (key in keysOfKinds) { if (key !== "p" || state.second) edit(keysOfKinds[key]); else complain("patch: expected a second text to patch from, got none"); }
    else if (key === "l") { state.scale = state.scale === "root" ? "linear" : "root"; writeAddress(); repaint(); }
    else if (key === "[" || key === "]") {
      const open = [...document.querySelectorAll('[name="values"]:enabled')].map(input => input.value);
      state.values = open[(open.indexOf(state.values) + (key === "]" ? 1 : open.length - 1)) % open.length];
      update();
    }
  });
}

function startSaving() {
  const pictures = {
    "grid.png": () => gridPicture(`${runs[shown.run].name}${minus()}: ${names.values[shown.values]}`, $("tiles")),
    "grid.csv": () => gridTable(view, nameOf),
    "map.png": () => mapPicture(`${titleOf()}${minus()}: ${names.values[shown.values]}`, map, view.tokens, view.second_tokens ?? view.tokens, $("cells").firstElementChild),
    "map.csv": () => mapTable(map, view.tokens, names.values[shown.values]),
    "lines.png": () => linesPicture(`${titleOf()}${minus()}: ${names.values[shown.values]}`, whatLines()),
    "lines.csv": () => mapTable(map, view.tokens, names.values[shown.values], view.tokens.length <= 80 ? undefined : [cell.query]),
  };
  for (const button of document.querySelectorAll("[data-save]")) button.onclick = async () => {
    if (!map) return;
    const kind = button.dataset.save, name = kind.startsWith("grid") ? "heads" : nameOf(state.layer, state.head);
    download(`${runs[shown.run].name}-${name}-${shown.values}-${kind}`.replace(/[^\w.-]+/g, "-"), await pictures[kind]());
  };
}

/** A checkpoint that changes on disk is told; what was loaded stays. */
async function watchCheckpoints() {
  const lines = await source.changes().catch(() => null);
  if (lines === null) return;
  $("changed").hidden = !lines.length;
  $("changed").textContent = lines.map(line => `${line}. What is shown stays that of the one loaded; start the viewer again for the other.`).join(" ");
}

function startViewer() {
  readAddress();
  for (const [id, name] of [["text", "text"], ["second-text", "second"], ["answer", "answer"], ["foil", "foil"]]) {
    $(id).value = state[name];
    $(id).readOnly = !data.live;
  }
  document.body.classList.toggle("file", !data.live);
  $("offline").hidden = data.live;
  $("ask").onsubmit = event => {
    event.preventDefault();
    if (!data.live) return;
    Object.assign(state, { text: $("text").value, second: $("second-text").value });
    if (!state.second && state.compared === "text") state.compared = "none";
    update();
  };
  $("second-text").onchange = () => { state.second = $("second-text").value; drawControls(); drawNext(); };
  $("names").onsubmit = event => { event.preventDefault(); Object.assign(state, { answer: $("answer").value, foil: $("foil").value }); update(); };
  startPointers();
  startKeyboard();
  startSaving();
  drawControls();
  $("of-run").textContent = runs.map(each => each.name).join(" and ");
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (view) repaint(); });
  addEventListener("hashchange", () => { readAddress(); $("text").value = state.text; $("second-text").value = state.second; update(); });
  new ResizeObserver(() => { if (map) { drawNames(); markCell(map, cell.query, cell.key); colourText($("sentence"), map, cell.query, colours); drawLinks(); } }).observe($("workbench"));
  if (state.text) update(); else $("text").focus();
  if (data.live) { watchCheckpoints(); setInterval(() => { if (!document.hidden) watchCheckpoints(); }, 5000); }
}
