/* Heads over training: one chart per layer of the statistic that is chosen. */

const statisticsOfHeads = [
  { key: "sink", name: "Sink", meaning: "Mean magnitude of the weight on the first key." },
  { key: "negative_mass", name: "Negative mass", meaning: "Σ|a| over the negative weights of a query, mean over queries." },
  { key: "entropy", name: "Entropy", meaning: "Of |a| / Σ|a|, in nats, mean over queries: low where few keys have most of the weight." },
  { key: "normalized_entropy", name: "Entropy / log n", meaning: "The entropy as a share of that of equal weights over the n keys a query sees." },
  { key: "kurtosis", name: "Kurtosis", meaning: "Of a query's weights over the keys it sees, mean over queries that see 8 or more: 3 where they are normally distributed, n where one of n has all." },
  { key: "positive_share", name: "Share a > 0", meaning: "Share of the keys with a positive weight, mean over queries." },
  { key: "sign_consistency", name: "One sign", meaning: "|P − N| / (P + N) of the numbers of positive and negative weights: 1 where all weights of a head have the same sign." },
  { key: "sum", name: "Σa", meaning: "Sum of a query's weights, mean over queries." },
  { key: "abs_sum", name: "Σ|a|", meaning: "Sum of the magnitudes of a query's weights, mean over queries." },
  { key: "value_mean", name: "E[v]", meaning: "Mean entry of the values: where it is near 0, sums of weights matter little." },
  { key: "value_bias", name: "‖E[v]‖ / rms", meaning: "Norm of the mean value over the root mean square of values: entries that are 0 on average may still have a mean." },
  { key: "output_norm", name: "E‖o‖", meaning: "Norm of a head's output, mean over queries." },
  { key: "lambda_1", name: "λ₁", meaning: "exp(q₁·k₁) of the layer: one of the learned parts of λ." },
  { key: "lambda_2", name: "λ₂", meaning: "exp(q₂·k₂) of the layer: the other." },
  { key: "lambda_init", name: "λ init", meaning: "The constant part of λ, by the depth of the layer." },
  { key: "lambda_full", name: "λ", meaning: "λ₁ − λ₂ + λ init: the share of the second map that is taken from the first." },
];

/** Of each mechanism: steps, and per statistic, layer and head the mean over seeds at each step. */
function collectDynamics() {
  const collected = {};
  for (const mechanism of mechanisms) {
    const curves = results.runs.filter(run => run.mechanism === mechanism).map(run => run.curve.filter(point => point.heads)).filter(curve => curve.length > 1);
    if (!curves.length) continue;
    const longest = curves.reduce((a, b) => a.length >= b.length ? a : b);
    const over = (key, layer, head) => longest.map((_, i) => {
      const values = curves.map(curve => curve[i]?.heads[key]?.[layer]?.[head]).filter(Number.isFinite);
      return values.length ? mean(values) : NaN;
    });
    const heads = longest[0].heads[statisticsOfHeads[0].key].map(layer => layer.length);
    collected[mechanism] = { steps: longest.map(point => point.step), heads, over, has: key => curves.some(curve => curve.some(point => point.heads[key])) };
  }
  return collected;
}

function startDynamics() {
  const collected = collectDynamics(), drawn = Object.keys(collected);
  const layers = Math.max(...drawn.map(mechanism => collected[mechanism].heads.length));
  const other = drawn.find(mechanism => mechanism !== results.baseline);
  const offered = statisticsOfHeads.filter(({ key }) => drawn.some(mechanism => collected[mechanism].has(key)));
  const state = { statistic: offered[0], shown: new Set([drawn.includes(results.baseline) ? results.baseline : drawn[0], other].filter(Boolean)) };
  const font = { family: css("--sans"), size: 12 };

  const statisticSwitch = offered.map((statistic, i) => {
    const input = element("input", { type: "radio", name: "dynamics-statistic", id: `dynamics-${statistic.key}`, value: statistic.key });
    input.checked = i === 0;
    input.onchange = () => { state.statistic = statistic; update(); };
    return element("div", {}, input, element("label", { for: input.id }, statistic.name));
  });
  $("dynamics-statistic").append(...statisticSwitch);
  $("dynamics-shown").append(...switchOf("checkbox", "dynamics-shown", drawn, name => state.shown.has(name), (name, on) => {
    state.shown[on ? "add" : "delete"](name);
    update();
  }));

  const charts = Array.from({ length: layers }, (_, layer) => {
    const canvas = element("canvas", { role: "img", "data-layer": layer });
    $("dynamics-layers").append(element("figure", { class: "panel" }, element("h3", {}, `L${layer}`), element("div", { class: "plot" }, canvas)));
    return new Chart(canvas, {
      type: "line",
      data: { datasets: [] },
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true, events: [],
        plugins: { legend: { display: false }, tooltip: { enabled: false } },
        scales: {
          x: { type: "linear", grid: { display: false, drawBorder: false }, ticks: { font, maxTicksLimit: 4, maxRotation: 0, callback: value => value.toLocaleString("en") } },
          y: { grid: { drawBorder: false, drawTicks: false }, ticks: { font, padding: 6, maxTicksLimit: 5 } },
        },
      },
    });
  });

  function update() {
    const { key, name, meaning } = state.statistic;
    $("dynamics-meaning").textContent = meaning;
    const shown = drawn.filter(mechanism => state.shown.has(mechanism));
    let low = Infinity, high = -Infinity;
    charts.forEach((chart, layer) => {
      const ends = [];
      chart.data.datasets = shown.flatMap(mechanism => {
        const { steps, heads, over, has } = collected[mechanism];
        if (!has(key)) return [];
        const lines = Array.from({ length: heads[layer] ?? 0 }, (_, head) => over(key, layer, head));
        if (!lines.length) return [];
        const middle = steps.map((_, i) => mean(lines.map(line => line[i])));
        ends.push(`${labels[mechanism]} ends at ${middle.at(-1).toPrecision(3)}`);
        for (const value of lines.flat()) if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
        const dataset = (line, thick) => ({
          data: line.map((y, i) => ({ x: steps[i], y })), borderColor: colourOf(mechanism) + (thick ? "" : "59"),
          borderWidth: thick ? 2.25 : 1, pointRadius: 0, tension: 0, clip: 4,
        });
        return [...lines.map(line => dataset(line, false)), dataset(middle, true)];
      });
      chart.canvas.setAttribute("aria-label", `${name}, layer ${layer}: ${ends.join("; ") || "no mechanism is shown"}`);
    });
    // One range for all layers, so that they can be compared.
    for (const chart of charts) {
      const { x, y } = chart.options.scales;
      y.suggestedMin = Number.isFinite(low) ? low : 0;
      y.suggestedMax = Number.isFinite(high) ? high : 1;
      for (const scale of [x, y]) Object.assign(scale.ticks, { color: css("--ink-3"), font: { ...font } });
      y.grid.color = css("--rule");
      chart.update();
    }
  }
  update();
  return { repaint: () => { font.size = document.documentElement.dataset.theme ? 9 : 12; update(); charts.forEach(chart => chart.resize()); } };
}
