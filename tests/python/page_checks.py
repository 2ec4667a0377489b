"""A browser, and what every page of ours is asked in it."""

import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

DRIVER = shutil.which("chromedriver")


def headless_browser(profile, preferences=None):
    """Chromium without a window, which logs what a page writes and asks for. ``quit()`` ends it."""
    options = webdriver.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    if preferences:
        options.add_experimental_option("prefs", preferences)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(DRIVER))


# The texts whose contrast with what lies below them is under 4.5 to 1 (WCAG AA), each with its class and contrast.
FAINT_TEXT = """
  const parse = colour => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return { r, g, b, a }; };
  const light = ({ r, g, b }) => [r, g, b].map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const paper = node => {
    for (let up = node; up; up = up.parentElement) { const colour = parse(getComputedStyle(up).backgroundColor); if (colour.a === 1) return colour; }
    return { r: 255, g: 255, b: 255 };
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.getClientRects().length || node.closest("script, noscript, option")) continue;
    const style = getComputedStyle(node), ink = parse(node.closest("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(paper(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push([walker.currentNode.data.trim().slice(0, 30), node.className?.baseVal ?? node.className, ratio.toFixed(2)]);
  }
  return found;
"""
