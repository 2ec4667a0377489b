"""report.html in a real browser, at desktop and at phone width, in both themes."""

import json
import os
import random
import re
import subprocess

import pytest

pytest.importorskip("selenium.webdriver")
from page_checks import DRIVER, FAINT_TEXT, headless_browser  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

pytestmark = pytest.mark.skipif(DRIVER is None, reason="no chromedriver")

WORDS = "the cat sat on a mat and the dog ran to the big red house while birds sing of the <b>sea</b>".split()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, cogwheel_executable):
    """A whole comparison: four mechanisms, two seeds, learning rates searched."""
    work = tmp_path_factory.mktemp("report")
    draw = random.Random(1)
    (work / "a <b> text.txt").write_text("\n".join(" ".join(draw.choice(WORDS) for _ in range(8)) for _ in range(300)))
    subprocess.run(
        [cogwheel_executable, "compare", "--preset", "tiny", "--text", "a <b> text.txt", "--seeds", "2", "--steps", "60",
         "--tune", "2", "--out", "out"],
        cwd=work, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True, timeout=180,
    )
    return work / "out"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    driver = headless_browser(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


def open_page(browser, path, width, theme="light"):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia",
                            {"media": "", "features": [{"name": "prefers-color-scheme", "value": theme}]})
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what an earlier page left
    browser.get(path.as_uri())


def requests(browser):
    urls = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            urls.append(message["params"]["request"]["url"])
    return urls


@pytest.fixture(params=[1280, 375], ids=["desktop", "phone"])
def page(request, browser, folder):
    open_page(browser, folder / "report.html", request.param)
    browser.page_width = request.param
    return browser


def test_renders_without_errors_requests_or_overflow(page, folder):
    assert [entry for entry in page.get_log("browser") if entry["level"] != "DEBUG"] == []
    own = (folder / "report.html").as_uri()
    assert [url for url in requests(page) if url != own and not url.startswith("data:")] == []
    # Against the width asked for: a phone's viewport grows with content that is too wide.
    assert page.execute_script("return document.documentElement.scrollWidth") <= page.page_width
    outside = page.execute_script("""
      const clipped = node => { for (let up = node; up; up = up.parentElement) if (getComputedStyle(up).overflowX !== "visible" && up !== document.body) return true; return false; };
      return [...document.querySelectorAll("main *, header *")].filter(node => {
        const box = node.getBoundingClientRect();
        return box.width > 0 && (box.right > arguments[0] + 1 || box.left < -1) && !clipped(node);
      }).map(node => node.outerHTML.slice(0, 80));""", page.page_width)
    assert outside == []


def test_charts_and_maps_are_drawn(page):
    colours = page.execute_script("""
      return [...document.querySelectorAll("canvas")].map(canvas => {
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
        for (let i = 0; i < pixels.length; i += 4) if (pixels[i + 3] > 200) seen.add((pixels[i] << 16) + (pixels[i + 1] << 8) + pixels[i + 2]);
        return [canvas.dataset.panel ?? (canvas.dataset.layer ? "layer" : "map"), seen.size];
      });""")
    panels = [name for name, _ in colours]
    assert panels.count("map") == 2 * 2 + 1  # a tile per layer and head, and the large map
    assert {"held_out", "difference", "train"} <= set(panels)
    assert panels.count("layer") == 2
    assert all(count >= 3 for _, count in colours), colours


def test_a_measure_that_rises_stays_within_its_chart(browser, folder):
    html = (folder / "report.html").read_text()
    begin, text, end = re.search(r"(<script[^>]*application/json[^>]*>)(.*?)(</script>)", html, re.DOTALL).groups()
    data = json.loads(text)
    data["results"]["task"]["measures"][0]["lower_is_better"] = False
    for run in data["results"]["runs"]:
        for place, point in enumerate(run["curve"]):
            point["held_out_loss"] = (place + 1) / 10
    (folder / "rising.html").write_text(html.replace(begin + text + end, begin + json.dumps(data).replace("<", "\\u003c") + end))
    open_page(browser, folder / "rising.html", 1280)
    charts = browser.execute_script("""
      return ["held_out", "train"].map(name => Chart.getChart(document.querySelector(`[data-panel=${name}]`))).map(
        chart => [chart.scales.y.max, Math.max(...chart.data.datasets.flatMap(set => set.data.map(point => point.y)))]);""")
    for top, largest in charts:
        assert top >= largest > 0


def test_says_what_the_results_say(page, folder):
    results = json.loads((folder / "results.json").read_text())
    text = page.find_element("css selector", ".verdict").text
    assert text == results["verdict"]
    rows = page.find_elements("css selector", ".results tbody tr")
    assert len(rows) == 4
    for row, summary in zip(rows, results["summary"]):
        assert f"{summary['mean']:.4f}" in row.text
    assert page.execute_script("return document.documentElement.lang") == "en"
    assert page.find_element("css selector", "time").get_attribute("datetime") == results["created"]
    assert "a <b> text.txt" in page.find_element("css selector", ".facts").text
    assert len(page.find_elements("css selector", ".samples figure")) == 4
    assert results["data"]["sha256"] in page.find_element("css selector", ".versions").text


def test_heads_over_training_show_what_was_measured(page, folder):
    results = json.loads((folder / "results.json").read_text())
    labels = lambda: [  # noqa: E731
        canvas.get_attribute("aria-label") for canvas in page.find_elements("css selector", "#dynamics canvas")
    ]
    for label in page.find_elements("css selector", "#dynamics-shown label"):
        if not page.find_element("id", label.get_attribute("for")).is_selected():
            page.execute_script("arguments[0].click()", label)
    seen = set()
    keys = list(dict.fromkeys(key for run in results["runs"] for key in run["curve"][-1]["heads"]))
    assert {"kurtosis", "positive_share", "value_bias", "lambda_full"} <= set(keys) and len(keys) == 16
    for key in keys:
        page.execute_script("document.getElementById(arguments[0]).click()", f"dynamics-{key}")
        for layer, label in enumerate(labels()):
            for mechanism, title in (("softmax", "Softmax"), ("cog", "Cog"), ("differential", "Differential")):
                runs = [run["curve"][-1]["heads"] for run in results["runs"] if run["mechanism"] == mechanism]
                if all(key not in heads for heads in runs):
                    assert title + " ends" not in label and key.startswith("lambda")
                    continue
                last = [heads[key][layer] for heads in runs]
                heads = [sum(seeds) / len(seeds) for seeds in zip(*last)]
                shown = float(re.search(rf"{title} ends at ([-+.e\d]+)", label).group(1))
                assert shown == pytest.approx(sum(heads) / len(heads), rel=1e-2, abs=1e-9)
        seen.add(tuple(labels()))
    assert len(seen) == len(keys)
    negative = [point["heads"]["negative_mass"] for run in results["runs"] if run["mechanism"] == "softmax" for point in run["curve"]]
    assert all(head == 0 for layers in negative for layer in layers for head in layer)
    page.execute_script("document.getElementById('dynamics-negative_mass').click()")
    assert page.get_log("browser") == []


def test_maps_by_keyboard(page):
    body = page.switch_to.active_element
    tiles = page.find_element("css selector", "#tiles")
    first = tiles.find_element("css selector", '[aria-pressed="true"]')
    assert first.get_attribute("aria-label") == "L0H0"
    first.send_keys(Keys.ARROW_DOWN)
    assert page.switch_to.active_element.get_attribute("aria-label") == "L1H0"
    assert page.find_element("css selector", "#map-title").text.endswith(": L1H0")
    assert page.switch_to.active_element != body
    # Only the chosen tile is a stop of the tab key.
    assert len(tiles.find_elements("css selector", '[tabindex="0"]')) == 1

    cells = page.find_element("css selector", "#cells")
    before = page.find_element("css selector", "#readout").text
    cells.send_keys(Keys.ARROW_UP)
    after = page.find_element("css selector", "#readout").text
    assert before != after and "attends to" in after

    step = page.find_element("css selector", "#step")
    last = page.find_element("css selector", "#step-value").text
    step.send_keys(Keys.ARROW_LEFT)
    assert page.find_element("css selector", "#step-value").text != last


def test_every_mechanism_can_be_shown(page):
    titles = []
    for label in page.find_elements("css selector", "#switch label"):
        page.execute_script("arguments[0].click()", label)
        titles.append(page.find_element("css selector", "#map-title").text.split(":")[0])
    assert titles == ["Softmax", "Cog", "Differential", "Symmetric"]
    page.execute_script("const seed = document.getElementById('map-seed'); seed.value = '2'; seed.dispatchEvent(new Event('change'))")
    assert page.get_log("browser") == []


@pytest.mark.parametrize("width", [1280, 375])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_stands_out(browser, folder, width, theme):
    open_page(browser, folder / "report.html", width, theme)
    faint = browser.execute_script(FAINT_TEXT)
    assert faint == []
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if theme == "light" else "rgb(20, 23, 26)")


def test_table_reads_without_javascript(browser, folder):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        open_page(browser, folder / "report.html", 1280)
        assert "Clearly" in browser.page_source or "Cannot be told apart" in browser.page_source
        assert browser.get_log("browser") == []
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_prints_in_light_colours(browser, folder):
    open_page(browser, folder / "report.html", 1280, "dark")
    assert len(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]) > 50_000
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.dataset.theme") is None
