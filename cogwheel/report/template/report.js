/* Data: everything below only reads it. */
const data = JSON.parse(document.getElementById("data").textContent);
const { results, labels, series, item, measure } = data;
const mechanisms = results.mechanisms.map(plan => plan.name);

const $ = id => document.getElementById(id);
const mean = values => values.reduce((a, b) => a + b, 0) / values.length;
const signed = (value, digits) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colourOf = mechanism => css(series[mechanism]);

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** A group of radio buttons or checkboxes, one per mechanism, in the mechanism's colour. */
function switchOf(type, group, choices, checked, onchange) {
  return choices.map(mechanism => {
    const input = element("input", { type, name: group, id: `${group}-${mechanism}`, value: mechanism });
    input.checked = checked(mechanism);
    input.onchange = () => onchange(mechanism, input.checked);
    return element("div", { style: `--series:var(${series[mechanism]})` }, input, element("label", { for: input.id }, labels[mechanism]));
  });
}

function startReproduction() {
  $("copy").onclick = async () => {
    try { await navigator.clipboard.writeText(results.command); $("status").textContent = "Command copied"; $("copy").textContent = "Copied"; }
    catch { getSelection().selectAllChildren($("command")); $("copy").textContent = "Selected"; }
    setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
  };
  const contents = { csv: () => data.downloads.csv, tex: () => data.downloads.tex, json: () => JSON.stringify(results, null, 2) + "\n" };
  for (const button of document.querySelectorAll("[data-download]")) button.onclick = () => {
    const kind = button.dataset.download, url = URL.createObjectURL(new Blob([contents[kind]()], { type: "text/plain" }));
    element("a", { href: url, download: "results." + kind }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
}

function startReport() {
  startReproduction();
  const parts = [];
  if ($("curves")) parts.push(startCurves());
  if ($("dynamics")) parts.push(startDynamics());
  if ($("heads")) parts.push(startHeads());
  const repaint = () => parts.forEach(part => part.repaint());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; repaint(); });
  addEventListener("afterprint", () => { delete document.documentElement.dataset.theme; repaint(); });
}
