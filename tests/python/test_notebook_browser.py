"""The HTML of notebooks in a real browser, among a notebook's own styles, as wide as a phone, a notebook beside its folders, and a desk, in both schemes."""

import json

import pytest

import cogwheel

pytest.importorskip("selenium.webdriver")
from page_checks import DRIVER, FAINT_TEXT, headless_browser  # noqa: E402
from test_notebook_output import HOSTILE, TOKENS, statistics, weights  # noqa: E402

pytestmark = pytest.mark.skipif(DRIVER is None, reason="no chromedriver")

# As JupyterLab has them: rules of its own for whatever stands in an output.
NOTEBOOK = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>notebook</title><style>
body {{ margin: 0; font: 14px sans-serif; background: {paper}; color: {ink}; }}
.output table {{ table-layout: fixed; font-size: 12px; margin: 0 auto; }}
.output td, .output th, .output tr {{ padding: .5em; text-align: right; max-width: none; vertical-align: middle; }}
.output tbody tr:nth-child(odd) {{ background: #eef; }}
.output dt {{ float: left; display: block; width: 2em; font-weight: bold; }} .output dd {{ margin-left: 3em; }}
.output code {{ background: #ddd; color: #222; }}
</style></head><body {attributes}><h2 id="own">Own</h2><table id="table"><tr><td>1</td></tr></table>{outputs}</body></html>"""
SCHEMES = {  # attributes of the body, the scheme of the system, and whether outputs are dark
    "jupyter-light": ('data-jp-theme-light="true"', "dark", False),
    "jupyter-dark": ('data-jp-theme-light="false"', "light", True),
    "vscode-dark": ('class="vscode-dark" data-vscode-theme-kind="vscode-dark"', "light", True),
    "silent-light": ("", "light", False),
    "silent-dark": ("", "dark", True),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    made = headless_browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.quit()


@pytest.fixture(scope="module")
def outputs(small_comparison):
    heads = cogwheel.show_attention(weights(), TOKENS)
    shown = [cogwheel.results(small_comparison), statistics(), cogwheel.mechanisms()["cog"], heads, heads, cogwheel.show_attention(weights(2, 5), HOSTILE)]
    return "".join(f'<div class="output">{each._repr_html_()}</div>' for each in shown)


@pytest.fixture
def opened(browser, outputs, tmp_path):
    def open_notebook(scheme, width):
        attributes, system, dark = SCHEMES[scheme]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": system}]})
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
        page = tmp_path / "notebook.html"
        page.write_text(NOTEBOOK.format(attributes=attributes, outputs=outputs, paper="#111" if dark else "#fff", ink="#eee" if dark else "#222"))
        browser.get_log("browser"), browser.get_log("performance")
        browser.get(page.as_uri())
        return browser

    return open_notebook


LOOKS = """
  const of = (node, name) => getComputedStyle(node)[name], all = [...document.querySelectorAll(".cogwheel")];
  const largest = canvas => { const at = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data; return new Set(Array.from({ length: at.length / 4 }, (_, i) => at.slice(4 * i, 4 * i + 3).join())).size; };
  return { papers: [...new Set(all.map(node => of(node, "backgroundColor")))], width: document.documentElement.scrollWidth, title: document.title,
    colours: [...document.querySelectorAll(".cogwheel canvas")].map(largest), undrawn: document.querySelectorAll(".undrawn").length,
    own: [of(document.getElementById("own"), "fontSize"), of(document.querySelector("#table td"), "textAlign")],
    rows: [...new Set([...document.querySelectorAll(".cogwheel tbody tr")].map(node => of(node, "backgroundColor")))],
    facts: [...document.querySelectorAll(".cogwheel dt")].map(node => of(node, "float") + of(node, "fontWeight")) };
"""


@pytest.mark.parametrize("width", [375, 833, 1440])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.diagonal
def test_looks_as_the_report_does(opened, scheme, width):
    browser = opened(scheme, width)
    looks = browser.execute_script(LOOKS)
    assert looks["papers"] == ["rgb(20, 23, 26)" if SCHEMES[scheme][2] else "rgb(255, 255, 255)"]
    assert looks["width"] <= width and looks["title"] == "notebook"
    # Maps are painted: 4 small ones and a large one, twice, then 2 and one.
    assert len(looks["colours"]) == 13 and min(looks["colours"]) > 4 and looks["undrawn"] == 0
    assert looks["own"] == ["21px", "start"]  # of the notebook, untouched
    assert looks["rows"] == ["rgba(0, 0, 0, 0)"] and set(looks["facts"]) == {"none400"}
    assert browser.execute_script(FAINT_TEXT) == []
    assert browser.get_log("browser") == []
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [each["params"]["request"]["url"] for each in asked if each["method"] == "Network.requestWillBeSent"]
    assert urls and all(url.startswith("file:") and url.endswith("notebook.html") or url.startswith("data:") for url in urls)


HEADS = "const root = document.querySelectorAll('.focus-map')[arguments[0]].closest('.cogwheel'), part = name => root.querySelector(`[data-part=\"${name}\"]`);"


def test_heads_are_read_by_keys_and_clicks(opened):
    browser = opened("jupyter-light", 1440)
    maps = weights()[0]

    def said(output):
        return browser.execute_script(HEADS + "return [part('map-title').textContent, part('readout').textContent]", output)

    def read(head, query, key):
        total = maps[head, query].abs().sum()
        weight = f"{maps[head, query, key]:+.3f}".replace("-", "−")
        share = round(float(100 * maps[head, query, key].abs() / total))
        return [f"L0H{head}", f"{TOKENS[query]} ({query + 1}) attends to {TOKENS[key]} ({key + 1}): {weight}, {share} % of the row’s |weight|"]

    key = int(maps[0, -1].abs().argmax())
    assert said(0) == said(1) == read(0, 11, key)
    browser.execute_script(HEADS + "root.querySelectorAll('.tile')[2].click()", 0)
    assert said(0) == read(2, 11, key) and said(1) == read(0, 11, key)  # the same output beside it is another
    press = HEADS + "part('cells').dispatchEvent(new KeyboardEvent('keydown', { key: arguments[1], bubbles: true }))"
    browser.execute_script(press, 0, "ArrowUp")
    browser.execute_script(press, 0, "ArrowLeft")
    assert said(0) == read(2, 10, max(0, min(key, 10) - 1))


def test_a_change_of_scheme_repaints(opened):
    browser = opened("jupyter-light", 1440)
    pixel = HEADS + "return [...root.querySelector('.cells canvas').getContext('2d').getImageData(11, 0, 1, 1).data].slice(0, 3)"
    light = browser.execute_script(pixel, 0)
    browser.execute_script("document.body.dataset.jpThemeLight = 'false'")
    browser.execute_async_script("setTimeout(arguments[0], 50)")
    dark = browser.execute_script(pixel, 0)
    assert sum(light) > 700 and sum(dark) < 150
