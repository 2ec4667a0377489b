/* Galleries: every head of a model at once, as maps and as bars of the last query's row. */
function paintGalleries() {
  const colours = signedColours(), rule = css("--rule");
  for (const canvas of document.querySelectorAll("canvas[data-map]")) {
    const size = +canvas.dataset.tokens, map = mapOf(canvas.dataset.map, { size, whole: canvas.dataset.whole === "1" });
    paintMap(canvas, map, colours);
    const bars = canvas.nextElementSibling, row = map.row(size - 1), height = 48;
    bars.width = size * 3;
    bars.height = height;
    const context = bars.getContext("2d"), scale = Math.max(...row.map(Math.abs), 1e-6);
    context.fillStyle = rule;
    context.fillRect(0, height / 2, bars.width, 1);
    row.forEach((weight, j) => {
      const length = Math.abs(weight) / scale * height / 2;
      context.fillStyle = `rgb(${colours(Math.sign(weight) * 0.36)})`;
      context.fillRect(3 * j, weight > 0 ? height / 2 - length : height / 2, 2, length);
    });
  }
}
paintGalleries();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintGalleries);
