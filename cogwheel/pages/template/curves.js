/* Curves: three charts that share their steps and one cursor. */

/** Moves labels apart to at least `gap`, keeps their order and stays within [low, high]. */
function spread(wanted, gap, low, high) {
  const order = wanted.map((y, i) => [y, i]).sort((a, b) => a[0] - b[0]);
  for (let k = 1; k < order.length; k++) order[k][0] = Math.max(order[k][0], order[k - 1][0] + gap);
  const shift = mean(order.map(([y]) => y)) - mean(wanted);
  let floor = low;
  for (const entry of order) { entry[0] = Math.max(entry[0] - shift, floor); floor = entry[0] + gap; }
  let roof = high;
  for (const entry of [...order].reverse()) { entry[0] = Math.min(entry[0], roof); roof = entry[0] - gap; }
  const out = [];
  for (const [y, i] of order) out[i] = y;
  return out;
}

/**
 * The points of every mechanism: mean, lowest and highest over the seeds that reached a point. Mechanisms with unequal
 * numbers of steps (equal time) are evaluated equally often, so their points meet at equal shares of their runs.
 */
function collectCurves() {
  const runs = results.runs.filter(run => run.curve.length > 1);
  const drawn = mechanisms.filter(mechanism => runs.some(run => run.mechanism === mechanism));
  const longest = mechanism => runs.filter(run => run.mechanism === mechanism).map(run => run.curve).reduce((a, b) => a.length >= b.length ? a : b);
  const steps = Object.fromEntries(drawn.map(mechanism => [mechanism, longest(mechanism).map(point => point.step)]));
  const planned = Object.fromEntries(results.mechanisms.map(plan => [plan.name, plan.steps]));
  const shared = new Set(drawn.map(mechanism => planned[mechanism])).size === 1;
  const places = mechanism => steps[mechanism].map(step => shared ? step : 100 * step / planned[mechanism]);
  const over = (mechanism, value) => steps[mechanism].map((_, i) => {
    const values = runs.filter(run => run.mechanism === mechanism).map(run => value(run, i)).filter(Number.isFinite);
    return values.length ? { mean: mean(values), low: Math.min(...values), high: Math.max(...values) } : null;
  });
  const at = (run, i, field) => run.curve[i]?.[field] ?? NaN;
  const base = run => runs.find(other => other.mechanism === data.bases[run.mechanism] && other.seed === run.seed);
  const line = value => drawn.map(mechanism => ({ mechanism, x: places(mechanism), points: over(mechanism, value) }));
  const all = drawn.map(places).reduce((a, b) => a.length >= b.length ? a : b, []);
  return {
    shared, x: all, drawn,
    lines: {
      held_out: line((run, i) => at(run, i, measure)),
      train: line((run, i) => at(run, i, "train_loss")),
      difference: line((run, i) => base(run) ? at(run, i, measure) - at(base(run), i, measure) : NaN),
    },
  };
}

function startCurves() {
  const lowerIsBetter = results.task.measures[0].lower_is_better;
  const { shared, x: steps, drawn, lines } = collectCurves();
  const stepText = value => shared ? `step ${value.toLocaleString("en")}` : `${Math.round(value)} % of the run`;
  // The first quarter falls so steeply that it would flatten the rest.
  const quarter = steps.findIndex(step => step >= steps.at(-1) / 4);
  const first = steps.length - quarter >= 4 ? quarter : 0;
  if (first > 0) $("left-out").textContent = shared ? `The first ${steps[first].toLocaleString("en")} steps are left out.` : "The first quarter is left out.";

  const state = { index: steps.length - 1, shown: new Set(drawn) };
  if (drawn.length > 4) {
    const direction = lowerIsBetter ? 1 : -1;
    const rank = Object.fromEntries(results.summary.map(row => [row.mechanism, Number.isFinite(row.mean) ? direction * row.mean : Infinity]));
    const best = drawn.filter(name => name !== data.bases[name]).sort((a, b) => rank[a] - rank[b]);
    state.shown = new Set([results.baseline, ...best.slice(0, 3)]);
    $("shown").hidden = false;
    $("shown").append(...switchOf("checkbox", "shown", drawn, name => state.shown.has(name), (name, on) => {
      state.shown[on ? "add" : "delete"](name);
      charts.forEach(chart => { fill(chart); chart.update(); });
    }));
  }

  const valueText = (panel, mechanism, point) => !point ? "–" : panel !== "difference" ? point.mean.toFixed(3)
    : mechanism === data.bases[mechanism] ? "0" : signed(point.mean, 3);
  /** As many decimals for every tick as the finest needs. */
  const tickText = panel => (value, _, ticks) => {
    const decimals = Math.max(...ticks.map(tick => (String(+tick.value.toFixed(6)).split(".")[1] ?? "").length));
    return panel !== "difference" ? value.toFixed(decimals) : value === 0 ? "0" : signed(value, decimals);
  };
  const font = { family: css("--sans"), size: 12 };
  const setFontSize = () => { font.size = document.documentElement.dataset.theme ? 9 : 12; };  // a forced theme means paper

  /** The range between the lowest and the highest seed. */
  const band = {
    id: "band",
    beforeDatasetsDraw(chart) {
      const { ctx, scales, chartArea } = chart;
      ctx.save();
      ctx.beginPath();
      ctx.rect(chartArea.left, chartArea.top - 2, chartArea.width, chartArea.height + 4);
      ctx.clip();
      ctx.globalAlpha = 0.2;
      for (const { line, borderColor } of chart.data.datasets) {
        const points = line.points.map((point, i) => point && [scales.x.getPixelForValue(line.x[i]), point]).slice(first).filter(Boolean);
        if (points.length < 2 || points.every(([, point]) => point.low === point.high)) continue;
        ctx.fillStyle = borderColor;
        ctx.beginPath();
        for (const [px, point] of points) ctx.lineTo(px, scales.y.getPixelForValue(point.high));
        for (const [px, point] of points.reverse()) ctx.lineTo(px, scales.y.getPixelForValue(point.low));
        ctx.fill();
      }
      ctx.restore();
    },
  };
  /** A name at the end of each line, with the value under the cursor. */
  const endLabels = {
    id: "endLabels",
    afterDatasetsDraw(chart) {
      const { ctx, scales, chartArea } = chart;
      const ends = chart.data.datasets.map(({ line, borderColor }) => {
        const last = line.points.findLastIndex(Boolean);
        return last < first ? null : { line, borderColor, x: scales.x.getPixelForValue(line.x[last]), y: scales.y.getPixelForValue(line.points[last].mean) };
      }).filter(Boolean);
      if (!ends.length) return;
      const places = spread(ends.map(end => end.y), font.size + 5, chartArea.top + 4, chartArea.bottom - 4);
      ctx.save();
      ctx.textBaseline = "middle";
      ends.forEach(({ line, borderColor, x, y }, k) => {
        ctx.strokeStyle = ctx.fillStyle = borderColor;
        ctx.globalAlpha = 0.5;
        ctx.beginPath();
        ctx.moveTo(x + 4, y);
        ctx.lineTo(chartArea.right + 12, places[k]);
        ctx.stroke();
        ctx.globalAlpha = 1;
        const name = labels[line.mechanism] + " ";
        ctx.font = `600 ${font.size}px ${font.family}`;
        ctx.fillText(name, chartArea.right + 16, places[k]);
        const left = chartArea.right + 16 + ctx.measureText(name).width;
        ctx.font = `${font.size}px ${font.family}`;
        ctx.fillText(valueText(chart.panel, line.mechanism, line.points[state.index]), left, places[k]);
      });
      ctx.restore();
    },
  };
  const cursor = {
    id: "cursor",
    afterDatasetsDraw(chart) {
      const { ctx, scales, chartArea } = chart;
      const px = scales.x.getPixelForValue(steps[state.index]);
      ctx.save();
      ctx.strokeStyle = css("--ink-3");
      ctx.setLineDash([2, 3]);
      ctx.beginPath();
      ctx.moveTo(px, chartArea.top);
      ctx.lineTo(px, chartArea.bottom);
      ctx.stroke();
      ctx.setLineDash([]);
      for (const { line, borderColor } of chart.data.datasets) {
        const point = line.points[state.index];
        if (!point) continue;
        ctx.beginPath();
        ctx.arc(scales.x.getPixelForValue(line.x[state.index]), scales.y.getPixelForValue(point.mean), 3.5, 0, 2 * Math.PI);
        ctx.fillStyle = borderColor;
        ctx.strokeStyle = css("--paper");
        ctx.lineWidth = 1.5;
        ctx.fill();
        ctx.stroke();
      }
      ctx.restore();
    },
  };

  function fill(chart) {
    const shown = lines[chart.panel].filter(line => state.shown.has(line.mechanism));
    chart.data.datasets = shown.map(line => ({
      line, borderColor: colourOf(line.mechanism), borderWidth: 1.75, pointRadius: 0, tension: 0, spanGaps: false, clip: 4,
      data: line.points.map((point, i) => ({ x: line.x[i], y: point ? point.mean : NaN })).slice(first),
    }));
    // A diverging loss may leave the chart at the top.
    const points = shown.flatMap(line => line.points.slice(first).filter(Boolean));
    const falls = chart.panel === "train" || (chart.panel === "held_out" && lowerIsBetter);
    const start = falls ? 1.25 * Math.max(...lines[chart.panel].map(line => line.points.find(Boolean)?.mean ?? 0)) : Infinity;
    const { y, x } = chart.options.scales;
    y.suggestedMin = Math.min(...points.map(point => point.low), ...(chart.panel === "difference" ? [0] : []));
    y.suggestedMax = Math.min(start, Math.max(...points.map(point => point.high), ...(chart.panel === "difference" ? [0] : [])));
    if (Number.isFinite(start) && Math.max(...points.map(point => point.high)) > start) y.max = start;
    for (const scale of [x, y]) Object.assign(scale.ticks, { color: css("--ink-3"), font: { ...font } });
    y.grid.color = context => context.tick?.value === 0 ? css("--rule-strong") : css("--rule");
    const ends = shown.map(line => `${labels[line.mechanism]} ends at ${valueText(chart.panel, line.mechanism, line.points.findLast(Boolean))}`);
    chart.canvas.setAttribute("aria-label", ends.join("; "));
    chart.canvas.getContext("2d").font = `600 ${font.size}px ${font.family}`;
    const widest = Math.max(0, ...shown.map(line => chart.canvas.getContext("2d").measureText(`${labels[line.mechanism]} −0.000`).width));
    chart.options.layout.padding.right = widest + 20;
  }

  const charts = [...document.querySelectorAll("[data-panel]")].map(canvas => {
    const { panel } = canvas.dataset;
    const chart = new Chart(canvas, {
      type: "line",
      data: { datasets: [] },
      plugins: [band, cursor, endLabels],
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, parsing: false, normalized: true, events: [],
        layout: { padding: { top: 8, right: 120 } },
        plugins: { legend: { display: false }, tooltip: { enabled: false } },
        scales: {
          x: { type: "linear", min: steps[first], max: steps.at(-1), grid: { display: false, drawBorder: false },
            ticks: { font, maxTicksLimit: 5, maxRotation: 0, includeBounds: false, callback: value => shared ? value.toLocaleString("en") : `${value} %` } },
          y: { grid: { drawBorder: false, drawTicks: false },
            ticks: { font, padding: 6, maxTicksLimit: 7, callback: tickText(panel) } },
        },
      },
    });
    chart.panel = panel;
    fill(chart);
    chart.update();
    const point = event => {
      const value = chart.scales.x.getValueForPixel(event.clientX - canvas.getBoundingClientRect().left);
      const nearest = steps.map((step, i) => [Math.abs(step - value), i]).slice(first).sort((a, b) => a[0] - b[0])[0][1];
      show(nearest);
    };
    canvas.onpointermove = canvas.onpointerdown = point;
    canvas.onpointerleave = event => { if (event.pointerType === "mouse") show(steps.length - 1); };
    return chart;
  });

  function show(index) {
    state.index = index;
    $("step").value = index;
    $("step").setAttribute("aria-valuetext", stepText(steps[index]));
    $("step-value").textContent = `values at ${stepText(steps[index])}`;
    charts.forEach(chart => chart.draw());
  }
  Object.assign($("step"), { min: first, max: steps.length - 1, step: 1, oninput: event => show(+event.target.value) });
  show(state.index);
  return { repaint: () => { setFontSize(); charts.forEach(chart => { fill(chart); chart.resize(); chart.update(); }); } };
}
