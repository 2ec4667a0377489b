"""The results of `bench attention` as a page (throughput and memory over the length, as in Fig. 7 of Lv et al. (2024)) and as bars."""

import html
import json
from pathlib import Path

CHART_JS = Path("/usr/share/javascript/chart.js/chart.min.js")
COLORS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f", "#bcbd22", "#e377c2"]


def page(results: dict) -> str:
    """One file without links. Raises FileNotFoundError, naming the package, where Chart.js is not installed."""
    if not CHART_JS.is_file():
        raise FileNotFoundError(f"bench: chart: expected {CHART_JS} (Debian package libjs-chart.js), got none")
    rows = results["results"]
    names = list(dict.fromkeys(row["name"] for row in rows))
    lengths = sorted({row["case"]["length"] for row in rows})
    case = rows[0]["case"]

    def series(value: str, factor: float) -> list[dict]:
        found = []
        for index, name in enumerate(names):
            by_length = {row["case"]["length"]: row[value] for row in rows if row["name"] == name}
            points = [by_length.get(length) for length in lengths]
            if any(point is not None for point in points):
                data = [None if point is None else point * factor for point in points]
                color = COLORS[index % len(COLORS)]
                found.append({"label": name, "data": data, "borderColor": color, "backgroundColor": color})
        return found

    charts = [("Throughput, GF/s", series("gflops", 1.0)), ("Memory beyond the inputs, MB", series("peak_memory_bytes", 1e-6))]
    charts = [(title, found) for title, found in charts if found]
    machine = results["machine"]
    table = "".join(
        f"<tr><td>{row['case']['length']}</td><td>{html.escape(row['name'])}</td><td>{1e3 * row['least_seconds']:.2f}</td>"
        f"<td>{row['ratio']:.2f}</td><td>{row['gflops']:.0f}</td><td>{row['share_of_peak']:.0%}</td></tr>"
        for row in rows
    )
    data = json.dumps([{"title": title, "labels": lengths, "series": found} for title, found in charts]).replace("<", "\\u003c")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Cogwheel: attention benchmark</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .2rem .8rem; text-align: right; }}
td:nth-child(2), th:nth-child(2) {{ text-align: left; }} .scroll {{ overflow-x: auto; }}
</style></head><body>
<h1>Attention, {"forward and backward" if case["backward"] else "forward"}, {case["dtype"]}</h1>
<p>Batch {case["batch"]}, {case["heads"]} heads of {case["head_dim"]}, {"causal" if case["causal"] else "full"}.
{html.escape(str(machine.get("device_name", machine["processor"])))}, {machine["threads"]} threads, torch {html.escape(str(machine["torch"]))}.
All implementations took turns in one process, with an allocator that keeps its pages; times are minima.</p>
{"".join(f'<h2>{title}</h2><canvas id="chart{index}"></canvas>' for index, (title, _) in enumerate(charts))}
<h2>Numbers</h2><div class="scroll"><table>
<tr><th>tokens</th><th></th><th>ms</th><th>over {html.escape(rows[0]["name"])}</th><th>GF/s</th><th>of peak</th></tr>{table}</table></div>
<script>{CHART_JS.read_text(encoding="utf-8")}</script>
<script>
{data}.forEach((chart, index) => new Chart(document.getElementById("chart" + index), {{
  type: "line",
  data: {{ labels: chart.labels, datasets: chart.series }},
  options: {{ animation: false, scales: {{
    x: {{ title: {{ display: true, text: "tokens" }} }},
    y: {{ beginAtZero: true, title: {{ display: true, text: chart.title }} }} }} }},
}}));
</script></body></html>
"""


def bars(results: dict) -> str:
    """An SVG that stands by itself: the least times over those of torch's fused softmax, in groups by length."""
    rows = results["results"]
    names = list(dict.fromkeys(row["name"] for row in rows))
    lengths = sorted({row["case"]["length"] for row in rows})
    case, machine = rows[0]["case"], results["machine"]
    most = 2.5  # of what is drawn; longer bars end in their number
    bar, left, top, wide = 14, 118, 58, 560
    lines, y = [], top
    for length in lengths:
        of_length = {row["name"]: row["ratio"] for row in rows if row["case"]["length"] == length}
        lines.append(f'<text x="{left - 12}" y="{y + 11}" text-anchor="end">{length:,} tokens</text>')
        for name in names:
            if name not in of_length:
                continue
            ratio = of_length[name]
            width = wide * min(ratio, most) / most
            color = COLORS[names.index(name) % len(COLORS)]
            lines.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar - 3}" fill="{color}"/>')
            lines.append(f'<text x="{left + width + 6:.1f}" y="{y + 10}" class="number">{ratio:.2f}</text>')
            y += bar
        y += 10
    one = left + wide / most
    lines.append(f'<line x1="{one:.1f}" y1="{top - 6}" x2="{one:.1f}" y2="{y - 6}" class="one"/>')
    legend, x = [], left
    for name in names:
        legend.append(f'<rect x="{x}" y="30" width="11" height="11" fill="{COLORS[names.index(name) % len(COLORS)]}"/>')
        shown = name if " " in name else f"Cogwheel {name}"  # peers say whose they are
        legend.append(f'<text x="{x + 16}" y="40">{html.escape(shown)}</text>')
        x += 34 + 7 * len(shown)
    base = rows[0]["name"]
    title = (f'Time over that of {"torch’s fused softmax" if base == "torch softmax" else base}, {"forward and backward" if case["backward"] else "forward"}, '
             f'{"causal" if case["causal"] else "full"}, {case["heads"]} heads of {case["head_dim"]}, {case["dtype"]}, '
             f'{machine["threads"]} threads: shorter is faster')  # fmt: skip
    style = ("text{font:12px system-ui,sans-serif;fill:#1f2328}.number{font-size:10px}.one{stroke:#1f2328;stroke-dasharray:3 3}"
             "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.one{stroke:#e6edf3}}")  # fmt: skip
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {y + 8}" role="img" aria-label="{html.escape(title)}">'
            f'<style>{style}</style><text x="12" y="18">{html.escape(title)}</text>{"".join(legend)}{"".join(lines)}</svg>\n')  # fmt: skip
