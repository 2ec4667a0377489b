/* Data: everything below only reads it. */
const data = JSON.parse(document.getElementById("data").textContent);
const { results, labels, series, item, measure } = data;
const mechanisms = results.mechanisms.map(plan => plan.name);

const colourOf = mechanism => css(series[mechanism]);

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
    const kind = button.dataset.download;
    download("results." + kind, new Blob([contents[kind]()], { type: "text/plain" }));
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
