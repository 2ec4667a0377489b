"""`cogwheel view`: the server's answers against passes in Python, what it refuses, and the page in a real browser."""

import base64
import csv
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import numpy
import pytest
import torch

import cogwheel as package

pytest.importorskip("selenium.webdriver")
from page_checks import DRIVER, FAINT_TEXT, headless_browser  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

needs_browser = pytest.mark.skipif(DRIVER is None, reason="no chromedriver")

TEXT = "After Mary and John went to the park , John gave a ring to"
OTHER = "After John and Mary went to the park , Mary gave a ring to"
CONFIG = """
[task]
name = "{task}"
[model]
layers = 2
heads = {heads}
width = 32
context = {context}
mechanism = "{mechanism}"
[training]
steps = {steps}
batch = 32
learning_rate = 3e-3
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory, cogwheel_executable):
    folder = tmp_path_factory.mktemp("view")
    runs = {"softmax": ("ioi", "softmax", 2), "cog": ("ioi", "cog", 2), "differential": ("ioi", "differential", 4), "gla": ("ioi", "gla", 2),
            "numbers": ("copying", "softmax", 2)}  # fmt: skip
    for name, (task, mechanism, heads) in runs.items():
        (folder / f"{name}.toml").write_text(CONFIG.format(task=task, mechanism=mechanism, heads=heads, context=32, steps=40))
        run(cogwheel_executable, folder, "train", f"{name}.toml", "--out", name)
    text = folder / "corpus.txt"
    text.write_text("the cat sat on a mat — and the dög ran to the sea. " * 200)
    (folder / "letters.toml").write_text(CONFIG.format(task="language_modelling", mechanism="cog", heads=2, context=64, steps=20))
    run(cogwheel_executable, folder, "train", "letters.toml", "--text", text, "--out", "letters")
    return folder


def run(executable, folder, *words, status=0):
    done = subprocess.run([str(word) for word in (executable, *words)], cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"},
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == status, done.stderr
    return done


class Server:
    """A viewer on a free port."""

    def __init__(self, executable, folder, *words):
        self.process = subprocess.Popen([str(word) for word in (executable, "view", *words, "--port", "0")], cwd=folder, text=True,
                                        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.address = line.split()[0]
        self.port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/", self.address)[1])

    def ask(self, path, request, headers=None, data=None):
        """Status and answer."""
        data = json.dumps(request).encode() if data is None else data
        asked = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"} | (headers or {}))
        try:
            with urllib.request.urlopen(asked, timeout=60) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def view(self, **request):
        status, answer = self.ask("api/view", request)
        assert status == 200, answer
        return answer

    def refused(self, path="api/view", status=200, **request):
        got, answer = self.ask(path, request)
        assert got == status and list(answer) == ["error"], answer
        assert "\n" not in answer["error"]
        return answer["error"]

    def map(self, head, **request):
        """The large map as a matrix, NaN where it is hidden."""
        status, answer = self.ask("api/map", {"head": head, **request})
        assert status == 200, answer
        codes = numpy.frombuffer(base64.b64decode(answer["code"]), "<i2").astype(float)
        values = numpy.where(codes == -32768, numpy.nan, numpy.sign(codes) * (codes / 32767) ** 2 * answer["range"])
        size = int(math.isqrt(2 * len(codes)))
        matrix = numpy.zeros((size, size))
        matrix[numpy.tril_indices(size)] = values
        return matrix

    def end(self):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(20) == 0
        self.process.stdout.close()
        assert self.process.stderr.read() == ""
        self.process.stderr.close()


@pytest.fixture(scope="module")
def server(work, cogwheel_executable):
    server = Server(cogwheel_executable, work, "softmax", "cog", "--text", TEXT, "--second-text", OTHER)
    yield server
    server.end()


@pytest.fixture(scope="module")
def models(work):
    return {name: package.LanguageModel.load(work / name) for name in ("softmax", "cog", "differential", "gla")}


@pytest.fixture(scope="module")
def words(work):
    return json.loads((work / "softmax/tokenizer.json").read_text())["words"]


def tokens_of(text, words):
    """As the run reads them: a token that begins, then words after four special ones."""
    return torch.tensor([[2] + [4 + words.index(word) for word in text.split()]])


def activations(model, tokens):
    with torch.no_grad():
        return model.run_with_cache(tokens)[1]


# Maps


@pytest.mark.parametrize("values", ["weights", "weighted", "scores"])
def test_maps_are_those_of_a_pass(server, models, words, values):
    cache = activations(models["cog"], tokens_of(TEXT, words))
    for layer in range(2):
        pattern, value = cache[f"blocks.{layer}.attn.hook_pattern"][0], cache[f"blocks.{layer}.attn.hook_v"][0]
        expected = {
            "weights": pattern,
            "weighted": pattern.abs() * value.norm(dim=-1).T[:, None, :],
            "scores": cache[f"blocks.{layer}.attn.hook_attn_scores"][0].tril(),
        }[values]
        for head in range(2):
            found = server.map(f"L{layer}H{head}", run=1, text=TEXT, values=values)
            numpy.testing.assert_allclose(found, expected[head].numpy(), atol=1e-4 * float(expected.abs().max()))
    view = server.view(run=1, text=TEXT, values=values)
    assert view["tokens"] == ["<s>", *TEXT.split()]
    assert view["scale"] >= max(head["range"] for heads in view["layers"] for head in heads) - 1e-6


def test_small_maps_are_large_ones_in_8_bits(server):
    view = server.view(run=1, text=TEXT)
    for layer, heads in enumerate(view["layers"]):
        for number, head in enumerate(heads):
            large = server.map(f"L{layer}H{number}", run=1, text=TEXT)
            codes = numpy.frombuffer(base64.b64decode(head["code"]), "i1").astype(float) / 127
            rows, columns = numpy.tril_indices(view["side"])
            numpy.testing.assert_allclose(numpy.sign(codes) * codes**2 * head["range"], large[rows, columns], atol=0.01)
            negative = -numpy.minimum(large, 0).sum() / len(large)
            assert head["negative"] == pytest.approx(negative, abs=1e-4) and head["first"] == pytest.approx(abs(large[:, 0]).mean(), abs=1e-4)
            at = numpy.unravel_index(abs(large).argmax(), large.shape)
            assert abs(large[tuple(head["largest_at"])]) == pytest.approx(abs(large[at]), abs=1e-4)


def test_differences(server, models, words):
    first, other = (activations(models["softmax"], tokens_of(text, words)) for text in (TEXT, OTHER))
    cog = activations(models["cog"], tokens_of(TEXT, words))
    name = "blocks.1.attn.hook_pattern"
    for compared, subtracted in (("run", cog), ("text", other)):
        found = server.map("L1H0", text=TEXT, second_text=OTHER, compared=compared)
        numpy.testing.assert_allclose(found, (first[name] - subtracted[name])[0, 0].numpy(), atol=2e-4)
    assert len(server.view(text=TEXT, compared="run")["columns"]) == 2


def test_a_difference_of_maps_has_scores_of_both(work, cogwheel_executable, models, words):
    server = Server(cogwheel_executable, work, "differential", "gla")
    try:
        assert [len(heads) for heads in server.view(text=TEXT)["layers"]] == [2, 2]
        scores = server.view(text=TEXT, values="scores")
        assert scores["halves"] == 2 and [len(heads) for heads in scores["layers"]] == [4, 4]
        cache = activations(models["gla"], tokens_of(TEXT, words))
        numpy.testing.assert_allclose(server.map("L0H1", run=1, text=TEXT), cache["blocks.0.attn.hook_pattern"][0, 1].numpy(), atol=1e-4)
        assert "expected heads with scores in every layer, got the mechanism gla" in server.refused(run=1, text=TEXT, values="scores")
    finally:
        server.end()


# Changed heads


def independent(model, tokens, other, edits):
    """Logits after the last token with heads changed by hooks."""
    clean, patched = activations(model, tokens), activations(model, other)

    def change(name, head, kind):
        def hook(z, hook=None):
            z = z.clone()
            z[:, :, head] = {
                "zero": lambda: torch.zeros_like(z[:, :, head]),
                "mean": lambda: clean[name][:, :, head].mean(1, keepdim=True).expand_as(z[:, :, head]),
                "flip": lambda: -z[:, :, head],
                "patch": lambda: patched[name][:, :, head],
            }[kind]()
            return z

        return name, hook

    with torch.no_grad():
        return model.run_with_hooks(tokens, fwd_hooks=[change(f"blocks.{layer}.attn.hook_z", head, kind) for layer, head, kind in edits])[0, -1]


@pytest.mark.parametrize("edits", [[(0, 1, "zero")], [(1, 0, "mean")], [(0, 0, "flip")], [(1, 1, "patch")],
                                   [(0, 0, "mean"), (0, 1, "patch"), (1, 0, "flip"), (1, 1, "zero")]], ids=str)  # fmt: skip
@pytest.mark.parametrize("mechanism", ["softmax", "cog"])
def test_changed_heads_change_what_is_said(server, models, words, mechanism, edits):
    model, tokens, other = models[mechanism], tokens_of(TEXT, words), tokens_of(OTHER, words)
    changed = independent(model, tokens, other, edits)
    plain = independent(model, tokens, other, [])
    view = server.view(run=["softmax", "cog"].index(mechanism), text=TEXT, second_text=OTHER, answer="Mary", foil="John",
                       edits=[f"L{layer}H{head}:{kind}" for layer, head, kind in edits])  # fmt: skip
    assert view["columns"] == ["edited", "unchanged"]
    vocabulary = ["<pad>", "<unk>", "<s>", "</s>", *words]
    for said in view["next"]:
        token = vocabulary.index(said["token"])
        expected = [logits.softmax(-1)[token].item() for logits in (changed, plain)]
        assert said["probabilities"] == pytest.approx(expected, abs=1e-4)
    likeliest = vocabulary[changed.argmax()]
    assert view["next"][0]["token"] == likeliest
    mary, john = (4 + words.index(name) for name in ("Mary", "John"))
    differences = [(logits[mary] - logits[john]).item() for logits in (changed, plain)]
    assert view["logits"]["differences"] == pytest.approx(differences, abs=1e-4)
    assert view["logits"]["change"] == pytest.approx((differences[0] - differences[1]) / abs(differences[1]), rel=1e-2, abs=1e-3)
    assert differences[0] != pytest.approx(differences[1], abs=1e-4)


def test_maps_of_later_layers_change_with_a_head(server):
    request = {"text": TEXT, "edits": ["L0H0:zero"], "compared": "edits"}
    assert abs(server.map("L0H1", **request)).max() == 0
    assert abs(server.map("L1H0", **request)).max() > 1e-3


# Bad input


def test_refuses_other_hosts_and_origins(server):
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", ""):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            reply = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        assert reply.startswith("HTTP/1.1 403") and "Host: expected 127.0.0.1 or localhost" in reply and "<html" not in reply
    status, answer = server.ask("api/view", {"text": TEXT}, {"Origin": "http://evil.example"})
    assert status == 403 and answer["error"].startswith("Origin: expected")
    status, answer = server.ask("api/view", {"text": TEXT}, {"Content-Type": "text/plain"})
    assert status == 415 and answer["error"] == "Content-Type: expected application/json, got text/plain"
    assert server.ask("api/view", {"text": TEXT}, {"Host": f"localhost:{server.port}"})[0] == 200


def test_answers_are_sent_as_they_are(server):
    """Compressing 1,024 tokens' answers takes seconds, on the machine that reads them."""
    asked = urllib.request.Request(server.address + "api/view", json.dumps({"text": TEXT}).encode(),
                                   {"Content-Type": "application/json", "Accept-Encoding": "gzip, br"})  # fmt: skip
    with urllib.request.urlopen(asked, timeout=60) as reply:
        assert "Content-Encoding" not in reply.headers
        assert int(reply.headers["Content-Length"]) == len(reply.read()) > 1000


def test_listens_on_this_machine_alone(server):
    listening = pathlib.Path("/proc/net/tcp").read_text() + pathlib.Path("/proc/net/tcp6").read_text()
    own = [line.split()[1] for line in listening.splitlines() if line.split()[1].endswith(f":{server.port:04X}") and line.split()[3] == "0A"]
    assert own == [f"0100007F:{server.port:04X}"]


@pytest.mark.parametrize(
    ("request_of", "message"),
    [
        ({"text": ""}, "text: expected a token at least, got nothing"),
        ({"text": "After Mary and Zaphod"}, "text: expected words that the run knows, got Zaphod"),
        ({"text": "Mary " * 32}, "text: expected at most 32 tokens, the context of softmax, got 33"),
        ({"text": "Mary " * 100_000}, "text: expected at most 262144 bytes, got 500000"),
        ({"text": TEXT, "edits": ["L2H0:zero"]}, "head: expected L0H0 to L1H1, got L2H0"),
        ({"text": TEXT, "edits": ["L1H-1:zero"]}, "head: expected L0H0 to L1H1, got L1H-1"),
        ({"text": TEXT, "edits": ["L0H0:nought"]}, "edit: expected one of zero, mean, flip, patch, got nought"),
        ({"text": TEXT, "edits": ["L0H0:patch"], "second_text": OTHER + " Mary"},
         "second text: expected 15 tokens, as the text has (tokens are matched by place), got 16"),
        ({"text": TEXT, "edits": ["L0H0:patch"]}, "second text: expected a token at least, got nothing"),
        ({"text": TEXT, "run": 2}, "run: expected one of 2, got number 2"),
        ({"text": TEXT, "run": "cog"}, "run: expected 0 or 1, got text"),
        ({"text": 3}, "text: expected text, got number"),
        ({"txt": TEXT}, "request: expected text"),
        ({"text": TEXT, "values": "weight"}, "values: expected weights, weighted (the nearest of 3 names), got weight"),
    ],
)  # fmt: skip
def test_one_line_for_what_is_wrong(server, request_of, message):
    assert server.refused(**request_of).startswith(message)
    assert server.view(text=TEXT)["tokens"][1] == "After"


def test_refuses_bytes_that_are_no_request(server):
    assert server.ask("api/view", None, data=b'{"text": "\xff"}') == (400, {"error": "request: expected UTF-8, got byte 0xFF at offset 10"})
    assert server.ask("api/view", None, data=b"{")[1] == {"error": "request: expected a JSON object, got something else"}
    for part in (b"run", b"edits", b"text", b"deep"):
        status, answer = server.ask("api/view", None, data=b'{"' + part + b'":' + b"[" * 400_000 + b"]" * 400_000 + b"}")
        assert status == 200 and len(answer["error"]) < 200
    status, answer = server.ask("api/view", None, data=b'"' + b"a" * (1 << 20) + b'"')
    assert (status, answer) == (413, {"error": "request: expected at most 1048576 bytes, got more"})
    assert server.refused("api/other", 404) == "request: expected a path of this server, got POST /api/other"


def test_connections_that_say_nothing_delay_nobody(server):
    def seconds():
        silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(64)]
        try:
            begin = time.monotonic()
            assert server.ask("api/changes", {}) == (200, [])
            return time.monotonic() - begin
        finally:
            for connection in silent:
                connection.close()

    # A silent connection is closed after a second. A server that waited for one would do so every time; one that does not
    # may take as long now and then, on a machine with much to do.
    assert any(seconds() < 0.8 for _ in range(10))


def test_says_what_is_wrong_with_names_beside_the_rest(server, work, cogwheel_executable):
    problem = lambda **names: server.view(text=TEXT, **names)["logits"]["problem"]  # noqa: E731
    assert problem(answer="Mary John", foil="John") == 'answer: expected one token, got 2: "Mary", "John"'
    assert problem(answer="Mary", foil="Mary") == "foil: expected another token than the answer, or the difference is 0, got Mary"
    assert problem(answer="Mary") == "foil: expected a token at least, got nothing"
    letters = Server(cogwheel_executable, work, "letters")
    try:
        view = letters.view(text="the cat", answer="cat", foil="d")
        assert view["logits"]["problem"] == 'answer: expected one token, got 3: "c", "a", "t"' and view["tokens"] == list("the cat")
        assert letters.refused(text="the €").startswith("text: expected") and "'€' (U+20AC)" in letters.refused(text="the €")
    finally:
        letters.end()


def test_runs_that_cannot_be_viewed(work, cogwheel_executable):
    def message(*words, status=1):
        errors = run(cogwheel_executable, work, "view", *words, status=status).stderr
        assert errors.count("\n") == 1 and errors.startswith("cogwheel: ")
        return errors.removeprefix("cogwheel: ").strip()

    assert message("nowhere") == "nowhere: expected the folder of a run, got no config.toml in it"
    assert message("numbers") == "numbers: expected a run that reads text, got one of the task copying, without tokenizer.json"
    assert re.fullmatch(r"letters: expected the tokenizer of softmax \(words, \d+ tokens\), got character, \d+ tokens", message("softmax", "letters"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert message("softmax", "--port", port) == f"--port: expected a free port (0 takes any), got {port}, which is in use"
    assert message("softmax", "--port", "65536", status=2).startswith("--port: expected at most 65535")
    assert "--export: expected a place of its own" in message("softmax", "--text", TEXT, "--export", "softmax/config.toml", status=2)
    assert message("softmax", "--text", "Zaphod", status=2) == "--text: expected words that the run knows, got Zaphod"


def test_a_checkpoint_that_changes_is_told(work, cogwheel_executable):
    shutil.copytree(work / "softmax", work / "changing")
    shutil.copy(work / "softmax/checkpoint.safetensors", work / "changing/early.safetensors")
    server = Server(cogwheel_executable, work, "changing", "changing/early.safetensors")
    try:
        before = server.view(text=TEXT)
        assert server.ask("api/changes", {})[1] == []
        (work / "changing/checkpoint.safetensors").touch()
        assert server.ask("api/changes", {})[1] == []  # the same contents
        shutil.copy(work / "cog/checkpoint.safetensors", work / "changing/checkpoint.safetensors")
        (line,) = server.ask("api/changes", {})[1]
        assert re.fullmatch(r"changing: expected the checkpoint that was loaded \([0-9a-f]{12}\), got [0-9a-f]{12} on disk by now", line)
        after = server.view(text=TEXT)
        assert [head["code"] for heads in after["layers"] for head in heads] == [head["code"] for heads in before["layers"] for head in heads]
    finally:
        server.end()


# The page


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    saved = tmp_path_factory.mktemp("saved")
    downloads = {"download.default_directory": str(saved), "profile.default_content_setting_values.automatic_downloads": 1}
    driver = headless_browser(tmp_path_factory.mktemp("profile"), downloads)
    driver.saved = saved
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def exported(work, cogwheel_executable):
    run(cogwheel_executable, work, "view", "softmax", "cog", "--text", TEXT, "--second-text", OTHER, "--export", "heads.html")
    return (work / "heads.html").as_uri()


def open_page(browser, url, width=1440, theme="light"):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [{"name": "prefers-color-scheme", "value": theme}]})
    browser.get("about:blank")  # an address that differs behind # alone would not be loaded
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(url)
    wait(browser, lambda: text(browser, "#map-title"))


def wait(browser, condition):
    WebDriverWait(browser, 20, 0.02).until(lambda _: condition())


def idle(browser):
    wait(browser, lambda: browser.execute_script("return document.querySelector('main').getAttribute('aria-busy')") == "false")


def find(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def text(browser, selector):
    return find(browser, selector).text


def press(browser, selector):
    """A click, wherever the page is scrolled to."""
    browser.execute_script("arguments[0].click()", find(browser, selector))


def pick(browser, choice):
    """Presses one of the buttons that are drawn as segments."""
    press(browser, f"#{choice}")
    idle(browser)


def address(browser):
    """What the address of the page holds, decoded by the page itself."""
    return browser.execute_script("return Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")


@needs_browser
@pytest.mark.parametrize("kind", ["served", "exported"])
@pytest.mark.parametrize("width", [1440, 375])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_renders_at_any_width_in_both_themes(browser, server, exported, kind, width, theme):
    url = server.address if kind == "served" else exported
    open_page(browser, url, width, theme)
    assert browser.get_log("browser") == []
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = {entry["params"]["request"]["url"] for entry in asked if entry["method"] == "Network.requestWillBeSent"}
    assert all(other.startswith(url) or other.startswith("data:") for other in urls), urls
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    colours = browser.execute_script("""
      return [...document.querySelectorAll("canvas")].map(canvas => {
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(Array.from({ length: pixels.length / 4 }, (_, i) => pixels.slice(4 * i, 4 * i + 3).join())).size; });""")
    assert len(colours) == 2 * 2 + 2 and min(colours) > 3
    assert browser.execute_script(FAINT_TEXT) == []
    unnamed = browser.execute_script("""
      return [...document.querySelectorAll("button, input, textarea, [tabindex='0']")].filter(node => node.getClientRects().length &&
        !(node.textContent.trim() || node.ariaLabel || node.getAttribute("aria-labelledby") || node.labels?.length)).map(node => node.outerHTML);""")
    assert unnamed == []


@needs_browser
def test_says_which_token_looks_at_which(browser, server):
    open_page(browser, server.address)
    names = ["<s>", *TEXT.split()]
    matrix = server.map("L0H0", text=TEXT)
    assert f"to (14) attends to {names[matrix[14].argmax()]} ({matrix[14].argmax()}): weight +{matrix[14].max():.3f}" in text(browser, "#readout")
    # From the map to the tokens, and from tokens to the map.
    for token in (3, 9):
        browser.execute_script("arguments[0].dispatchEvent(new PointerEvent('pointerover', { bubbles: true }))", find(browser, f"#sentence span:nth-child({token + 1})"))
        assert text(browser, "#readout").startswith(f"{names[token]} ({token}) attends to")
        assert find(browser, "#queries .on").text == names[token]
    find(browser, "#cells").send_keys(Keys.ARROW_DOWN)
    assert find(browser, "#sentence .query").text == find(browser, "#queries .on").text == names[10]
    find(browser, "#lines").send_keys(Keys.ARROW_UP)
    assert text(browser, "#readout").startswith(f"{names[9]} (9) attends to")
    wait(browser, lambda: address(browser).get("query") == "9")


@needs_browser
def test_a_head_is_changed_by_key_and_by_click(browser, server, models, words):
    open_page(browser, server.address)
    for name, value in (("answer", "Mary"), ("foil", "John")):
        find(browser, f"#{name}").send_keys(value)
    find(browser, "#foil").send_keys(Keys.ENTER)
    wait(browser, lambda: "Mary over John" in text(browser, "#difference"))
    tile = find(browser, '[aria-label="L0H0"]')
    tile.send_keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.get_attribute("aria-label") == "L1H1"
    tokens, other = tokens_of(TEXT, words), tokens_of(OTHER, words)
    mary, john = (4 + words.index(name) for name in ("Mary", "John"))
    for key, kind in (("z", "zero"), ("m", "mean"), ("f", "flip"), ("p", "patch")):
        browser.switch_to.active_element.send_keys(key)
        wait(browser, lambda kind=kind: address(browser).get("edits") == f"L1H1:{kind}")
        idle(browser)
        logits = independent(models["softmax"], tokens, other, [(1, 1, kind)])
        shown = text(browser, "#difference").replace("−", "-")
        assert float(re.match(r"edited ([-+][\d.]+)", shown)[1]) == pytest.approx((logits[mary] - logits[john]).item(), abs=6e-4)
    assert find(browser, "#tiles [aria-pressed=true]").get_attribute("aria-label") == "L1H1, patched"
    assert text(browser, "#edits li").startswith("L1H1 patched")
    pick(browser, "compared-edits")
    assert text(browser, "#map-title") == "softmax L1H1 − unchanged"
    find(browser, "#edits button").send_keys(Keys.ENTER)
    idle(browser)
    assert "edits" not in address(browser) and text(browser, "#map-title") == "softmax L1H1"
    assert browser.get_log("browser") == []


@needs_browser
def test_the_address_holds_what_is_shown(browser, server):
    open_page(browser, server.address)
    pick(browser, "run-1")
    pick(browser, "values-weighted")
    pick(browser, "compared-text")
    pick(browser, "edit-flip")
    press(browser, '[aria-label="L1H0"]')
    find(browser, "#cells").send_keys(Keys.ARROW_UP)
    wait(browser, lambda: "query" in address(browser))
    url, seen = browser.current_url, [text(browser, each) for each in ("#map-title", "#readout", "#said", "#edits")]
    assert seen[0] == "cog L1H0 − second text"
    open_page(browser, url)
    idle(browser)
    wait(browser, lambda: text(browser, "#map-title") == seen[0])
    assert [text(browser, each) for each in ("#map-title", "#readout", "#said", "#edits")] == seen


@needs_browser
def test_nothing_is_lost_by_what_is_wrong(browser, server):
    open_page(browser, server.address)
    before = text(browser, "#said"), text(browser, "#map-title")
    box = find(browser, "#text")
    box.clear()
    box.send_keys("After Mary and Zaphod", Keys.CONTROL, Keys.ENTER)
    wait(browser, lambda: text(browser, "#problem") == "text: expected words that the run knows, got Zaphod")
    assert (text(browser, "#said"), text(browser, "#map-title")) == before and box.get_attribute("value") == "After Mary and Zaphod"
    box.clear()
    box.send_keys("After Mary and John", Keys.CONTROL, Keys.ENTER)
    wait(browser, lambda: find(browser, "#problem").get_attribute("hidden"))
    idle(browser)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#sentence span")) == 5
    pick(browser, "compared-text")
    assert "second text: expected 5 tokens" in text(browser, "#problem")
    # What was refused is neither asked again nor kept in the address.
    box.clear()
    box.send_keys("After Mary and Zaphod", Keys.CONTROL, Keys.ENTER)
    wait(browser, lambda: "Zaphod" in text(browser, "#problem"))
    pick(browser, "scale-linear")
    pick(browser, "values-scores")
    assert find(browser, "#problem").get_attribute("hidden") and "Zaphod" not in address(browser).get("text", "")
    assert find(browser, "#values-scores").is_selected() and len(browser.find_elements(By.CSS_SELECTOR, "#sentence span")) == 5
    assert find(browser, "#compared-none").is_selected()
    # The page tells what was refused, so that the console need not.
    assert browser.get_log("browser") == []


@needs_browser
def test_an_address_of_another_run_shows_what_it_can(browser, server):
    browser.get("about:blank")
    browser.get(server.address + "#edits=L9H9:zero,L0H1:flip&compared=edits&head=L1H1&text=After+Mary+and+John")
    wait(browser, lambda: "L9H9" in text(browser, "#problem") and text(browser, "#map-title").endswith("L1H1"))
    idle(browser)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#sentence span")) == 5
    assert "edits" not in address(browser) and find(browser, "#compared-none").is_selected()
    pick(browser, "edit-zero")
    assert find(browser, "#problem").get_attribute("hidden") and address(browser)["edits"] == "L1H1:zero"
    assert browser.get_log("browser") == []


@needs_browser
def test_a_changed_head_is_compared_where_maps_differ(browser, server):
    open_page(browser, server.address + "#head=L0H1")
    pick(browser, "edit-zero")
    pick(browser, "compared-edits")
    # L0H1 itself looks where it looked: the first map that differs is in the next layer.
    layers = server.view(text=TEXT, compared="edits", edits=["L0H1:zero"])["layers"]
    assert all(head["range"] == 0 for head in layers[0])
    most = max(range(2), key=lambda head: layers[1][head]["range"])
    wait(browser, lambda: text(browser, "#map-title") == f"softmax L1H{most} − unchanged")
    assert layers[1][most]["range"] > 0 and address(browser)["head"] == f"L1H{most}"
    press(browser, '[aria-label="L0H1, zero"]')  # who asks for the empty map sees it
    wait(browser, lambda: text(browser, "#map-title") == "softmax L0H1 − unchanged")
    press(browser, "#edits button")
    idle(browser)
    press(browser, '[aria-label="L1H0"]')
    pick(browser, "edit-flip")
    pick(browser, "compared-edits")
    wait(browser, lambda: "no map differs" in text(browser, "#map-facts"))
    assert text(browser, "#map-title") == "softmax L1H0 − unchanged"


@needs_browser
def test_on_a_phone_the_map_lies_below_the_tiles(browser, server):
    open_page(browser, server.address, 375)
    tops = browser.execute_script("return ['.heads', '.reader', '.next', '.links'].map(part => document.querySelector(part).getBoundingClientRect().top)")
    assert tops == sorted(tops)
    # A bar begins at the left of its cell.
    assert "to right" in browser.execute_script("return getComputedStyle(document.querySelector('#said td')).backgroundImage")


@needs_browser
def test_a_file_shows_the_same_without_a_server(browser, server, exported):
    def shown():
        rows = browser.find_elements(By.CSS_SELECTOR, "#said tbody tr")
        return [text(browser, "#map-title"), text(browser, "#readout"), [row.text for row in rows],
                browser.execute_script("return [...document.querySelectorAll('canvas')].slice(0, 5).map(canvas => canvas.toDataURL())")]  # fmt: skip

    def walk(url):
        open_page(browser, url)
        seen = [shown()]
        for choice in ("values-scores", "compared-run", "values-weights", "run-1", "compared-text", "scale-linear"):
            before = text(browser, "#map-title"), text(browser, "#readout")
            pick(browser, choice)
            if choice != "scale-linear":
                wait(browser, lambda before=before: (text(browser, "#map-title"), text(browser, "#readout")) != before)
            seen.append(shown())
        return seen

    of_file = walk(exported)
    assert of_file == walk(server.address)
    open_page(browser, exported)
    assert "what needs the model is left out" in text(browser, "#offline")
    assert find(browser, "#text").get_attribute("readonly") and not find(browser, "#edit-zero").is_enabled()
    browser.switch_to.active_element.send_keys("z")
    assert "edits" not in address(browser)
    assert browser.get_log("browser") == []


@needs_browser
def test_pictures_and_tables_are_saved(browser, server):
    open_page(browser, server.address)
    for kind in ("grid.png", "grid.csv", "map.png", "map.csv", "lines.png", "lines.csv"):
        press(browser, f'[data-save="{kind}"]')
        name = f"softmax-{'heads' if kind.startswith('grid') else 'L0H0'}-weights-{kind}"
        wait(browser, lambda name=name: (browser.saved / name).is_file())
        if kind.endswith(".png"):
            content = (browser.saved / name).read_bytes()
            assert content.startswith(b"\x89PNG") and min(int.from_bytes(content[at : at + 4], "big") for at in (16, 20)) > 300
    table = list(csv.DictReader((browser.saved / "softmax-L0H0-weights-map.csv").open(newline="")))
    matrix = server.map("L0H0", text=TEXT)
    assert len(table) == 15 * 16 // 2
    for row in table:
        assert float(row["weights"]) == pytest.approx(matrix[int(row["query"]), int(row["key"])], abs=1e-5)
    assert (table[-1]["query token"], table[0]["key token"]) == ("to", "<s>")
    assert len(list(csv.DictReader((browser.saved / "softmax-heads-weights-grid.csv").open(newline="")))) == 4
