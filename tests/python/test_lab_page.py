"""The page of an experiment in a real browser: no script, no request, nothing wider than the screen."""

import os
import subprocess

import pytest
from test_report import DRIVER, browser, open_page, requests  # noqa: F401  browser is a fixture

pytestmark = pytest.mark.skipif(DRIVER is None, reason="no chromedriver")

# Lines, points with bars, marks, expected lines; maps.
PAGES = {
    "projection": ["points=100", "dimensions=32", "draws=10", "dimensions_tried=16,32", "draws_tried=5"],
    "jacobian": ["width=6", "tokens=5", "texts=2", "batch=2", "steps=2", "text_bytes=65536"],
}


@pytest.fixture(scope="module", params=PAGES)
def page(request, cogwheel_executable, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab-page")
    command = [cogwheel_executable, "reproduce", "s2/" + request.param, "--out", "out"]
    for assignment in PAGES[request.param]:
        command += ["--set", assignment]
    subprocess.run(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, capture_output=True, timeout=120)
    return folder / "out/report.html"


def test_charts_fit_and_ask_for_nothing(page, browser):  # noqa: F811
    for width in (375, 1440):
        for theme in ("light", "dark"):
            open_page(browser, page, width, theme)
            assert [entry for entry in browser.get_log("browser") if entry["level"] != "DEBUG"] == []
            assert [url for url in requests(browser) if url != page.as_uri() and not url.startswith("data:")] == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            # The text of a chart is as large as on any screen, and within the page.
            texts = browser.execute_script(
                "return [...document.querySelectorAll('.chart text')].map(text => {"
                "const box = text.getBoundingClientRect(); return [box.left, box.right, box.height]})"
            )
            assert len(texts) > 8
            assert all(0 <= left and right <= width and 10 <= height <= 24 for left, right, height in texts), texts
            # Lines have the colour of their series, which differs from that of the paper.
            strokes = browser.execute_script(
                "return [...document.querySelectorAll('.chart polyline')].map(line => getComputedStyle(line).stroke)"
            )
            paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            assert strokes and all(stroke.startswith("rgb") and stroke != paper for stroke in strokes)
