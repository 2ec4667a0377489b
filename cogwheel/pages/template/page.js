/* What every page with script uses. */
const $ = id => document.getElementById(id);
const mean = values => values.reduce((a, b) => a + b, 0) / values.length;
const signed = (value, digits) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function download(name, blob) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
