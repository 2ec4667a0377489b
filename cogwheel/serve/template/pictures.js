/* What is shown, as files: pictures in the colours of the page, tables with the numbers. */
const csvCell = value => /[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
const csvOf = rows => new Blob([rows.map(row => row.map(csvCell).join(",") + "\n").join("")], { type: "text/csv" });
const shortNumber = value => Number.isNaN(value) ? "" : String(+value.toPrecision(6));

function pictureOf(width, height, draw) {
  const canvas = element("canvas"), scale = 2;
  canvas.width = width * scale; canvas.height = height * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = css("--paper");
  context.fillRect(0, 0, width, height);
  context.imageSmoothingEnabled = false;
  draw(context);
  return new Promise(resolve => canvas.toBlob(resolve, "image/png"));
}

function caption(context, text, x, y, width) {
  context.fillStyle = css("--ink");
  context.font = `600 15px ${css("--sans")}`;
  context.textAlign = "left"; context.textBaseline = "alphabetic";
  context.fillText(text, x, y, width);
}

/** Every tile in its place, with the names of layers and heads. */
function gridPicture(title, tiles) {
  const counts = [...tiles.querySelectorAll(".tile")].map(tile => [+tile.dataset.layer, +tile.dataset.head, tile.firstElementChild]);
  const rows = 1 + Math.max(...counts.map(([l]) => l)), columns = 1 + Math.max(...counts.map(([, h]) => h)), gap = 4;
  const side = clamp(Math.floor(1000 / columns), 64, 220), width = 44 + columns * (side + gap), height = 60 + rows * (side + gap);
  return pictureOf(width, height, context => {
    caption(context, title, 8, 22, width - 16);
    context.font = `12px ${css("--sans")}`;
    context.fillStyle = css("--ink-2");
    for (const [l, h, canvas] of counts) {
      const x = 36 + h * (side + gap), y = 52 + l * (side + gap);
      if (l === 0) { context.textAlign = "center"; context.fillText(`H${h}`, x + side / 2, 44); }
      if (h === 0) { context.textAlign = "right"; context.fillText(`L${l}`, 30, y + side / 2 + 4); }
      context.drawImage(canvas, x, y, side, side);
      context.strokeStyle = css("--rule");
      context.strokeRect(x, y, side, side);
    }
  });
}

/** The large map, with the names of tokens where they can be read. */
function mapPicture(title, map, tokens, keyTokens, canvas) {
  const { size } = map, cell = size > 600 ? 1 : Math.max(1, Math.floor(720 / size)), named = cell >= 11;
  const margin = named ? 110 : 16, side = size * cell, width = side + margin + 16;
  return pictureOf(width, side + margin + 34, context => {
    caption(context, title, 12, 24, width - 24);
    const top = margin + 18;
    context.drawImage(canvas, margin, top, side, side);
    context.strokeStyle = css("--rule-strong");
    context.strokeRect(margin, top, side, side);
    if (!named) return;
    context.fillStyle = css("--ink-2");
    context.font = `${Math.min(13, cell - 1)}px ${css("--mono")}`;
    context.textBaseline = "middle";
    tokens.forEach((token, i) => {
      context.textAlign = "right";
      context.fillText(visible(token).slice(0, 14), margin - 6, top + (i + 0.5) * cell);
      context.save();
      context.translate(margin + (i + 0.5) * cell, top - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(visible(keyTokens[i]).slice(0, 11), 0, 0);
      context.restore();
    });
  });
}

function linesPicture(title, what) {
  // 16,000 pixels are the most that browsers draw.
  const width = 420, height = Math.min(7900, what.tokens.length * lineRow);
  return pictureOf(width, height + 36, context => {
    caption(context, title, 12, 24, width - 24);
    context.translate(0, 36);
    drawLines(context, { ...what, top: 0, width, height });
  });
}

const gridTable = (view, name) => csvOf([["head", "layer", "number", "largest magnitude", "at query", "at key", "mean at first key", "negative per row"],
  ...view.layers.flatMap((heads, l) => heads.map((head, h) => [name(l, h), l, h, shortNumber(head.range), ...head.largest_at, shortNumber(head.first), shortNumber(head.negative)]))]);

const mapTable = (map, tokens, kind, queries = tokens.map((_, i) => i)) => csvOf([["query", "query token", "key", "key token", kind],
  ...queries.flatMap(i => Array.from(map.row(i), (value, j) => [i, tokens[i], j, tokens[j], shortNumber(value)]))]);
