/* Lines between tokens: queries at the left, keys at the right. Only what can be seen of a long text is drawn. */
const lineRow = 22;

/** Draws the rows from `top` on, `height` pixels of them; the chosen query's lines stand out. */
function drawLines(context, { map, tokens, otherTokens, query, key, scale, top, width, height, all }) {
  const size = tokens.length, column = Math.min(130, width * 0.34), left = column, right = width - column;
  const [ink, faint, paper, blue, orange] = ["--ink", "--ink-3", "--paper", "--positive", "--negative"].map(css);
  context.fillStyle = paper;
  context.fillRect(0, 0, width, height);
  const y = token => (token + 0.5) * lineRow - top;
  const line = (from, to, value, alpha) => {
    context.strokeStyle = value < 0 ? orange : blue;
    context.globalAlpha = alpha;
    context.lineWidth = 0.75 + 4 * Math.abs(value) / scale;
    context.beginPath();
    context.moveTo(left + 6, y(from));
    context.bezierCurveTo((left + right) / 2, y(from), (left + right) / 2, y(to), right - 6, y(to));
    context.stroke();
  };
  const least = scale / 100;
  if (all) for (let q = 0; q < size; q++) if (q !== query) map.row(q).forEach((value, k) => { if (Math.abs(value) >= 3 * least) line(q, k, value, 0.05 + 0.3 * Math.sqrt(Math.abs(value) / scale)); });
  map.row(query).forEach((value, k) => { if (Math.abs(value) >= least) line(query, k, value, 0.35 + 0.65 * Math.sqrt(Math.min(1, Math.abs(value) / scale))); });
  context.globalAlpha = 1;
  context.textBaseline = "middle";
  const text = (token, from, width) => {
    let shown = visible(token);
    if (context.measureText(shown).width > width) {
      while (shown.length > 1 && context.measureText(shown + "…").width > width) shown = shown.slice(0, -1);
      shown += "…";
    }
    return shown;
  };
  const first = Math.max(0, Math.floor(top / lineRow)), last = Math.min(size - 1, Math.ceil((top + height) / lineRow));
  for (let token = first; token <= last; token++) {
    const font = on => `${on ? "700" : "400"} 13px ${css("--mono")}`;
    context.font = font(token === query);
    context.textAlign = "right";
    context.fillStyle = token === query ? ink : faint;
    context.fillText(text(tokens[token], left, column - 8), left, y(token));
    context.font = font(token === key);
    context.textAlign = "left";
    context.fillStyle = token > query && !map.whole ? faint : ink;
    context.fillText(text(tokens[token], right, column - 8), right, y(token));
  }
}
