"""Mechanisms of a user's own from Python: what they compute, what is refused, and what the cache does."""

import inspect
import math
import os
import re
import subprocess
import sys

import emulated_device
import pytest
import torch
from own_mechanisms import MINE, SHARP, in_environment, workshop_of_this_process

import cogwheel
from cogwheel.bench.timing import take_turns

DEFINE_MINE = f"""
import sys, torch, cogwheel
from cogwheel.bench.timing import take_turns
cogwheel.mechanism(**{MINE!r})
query, key, value = torch.randn(3, 1, 2, 50, 16, generator=torch.Generator().manual_seed(0))
print(torch.equal(cogwheel.attention(query, key, value, 'mine'), cogwheel.attention(query, key, value, 'cog')))
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """For this process too, as long as the tests of this file run."""
    with workshop_of_this_process(tmp_path_factory.mktemp("workshop")) as made:
        yield made


@pytest.fixture(scope="module")
def mine(workshop, repository):
    """Two processes compile it at once, with an empty cache; then this one loads it from their cache."""
    before = workshop.compilations()  # whichever test of this file came first
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DEFINE_MINE], env=in_environment(workshop, repository), stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    printed = [process.communicate()[0].strip() for process in processes]
    assert printed == ["True", "True"]
    assert workshop.compilations() == before + 1
    defined = cogwheel.mechanism(**MINE)
    assert workshop.compilations() == before + 1
    return defined


@pytest.fixture(scope="module")
def sharp(workshop, repository):
    before = workshop.compilations()
    defined = cogwheel.mechanism(**SHARP)
    if workshop.compilations() == before:  # this process has it from an earlier workshop: these tests began before
        code = f"import cogwheel; cogwheel.mechanism(**{SHARP!r})"
        subprocess.run([sys.executable, "-c", code], env=in_environment(workshop, repository), check=True)
    return defined


def tensors(dtype=torch.float32, heads=4, length=130, width=32):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(2, heads, length, width, generator=generator).to(dtype).requires_grad_() for _ in range(3)]


@pytest.mark.parametrize("twice", [False, True], ids=["first", "second"])
def test_a_device_without_kernels_serves_it(sharp, twice):
    """By the steps that its module brings, in derivatives of either order."""
    of_cpu = dict(zip(("query", "key", "value"), tensors(torch.float64, length=9, width=8), strict=True))
    of_cpu["tau"] = torch.tensor([0.6, 0.9, 1.1, 1.4], dtype=torch.float64, requires_grad=True)

    def gradients(leaves):
        output = cogwheel.attention(mechanism=sharp.name, causal=True, dropout=0.3, seed=7, **leaves)
        if twice:
            output = torch.autograd.grad(output.square().sum(), leaves["query"], create_graph=True)[0]
        return torch.autograd.grad(output.sin().sum(), list(leaves.values()))

    there = {name: emulated_device.on_device(each).requires_grad_() for name, each in of_cpu.items()}
    for ours, theirs in zip(gradients(there), gradients(of_cpu), strict=True):
        torch.testing.assert_close(emulated_device.behind(ours), theirs, rtol=1e-9, atol=1e-11)
    emulated_device.forget()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_is_the_built_in_one_bit_for_bit(mine, dtype, causal):
    inputs = tensors(dtype)
    out = cogwheel.attention(*inputs, mine.name, causal=causal)
    expected = cogwheel.attention(*inputs, "cog", causal=causal)
    assert torch.equal(out, expected)
    gradient = torch.randn_like(out)
    for ours, theirs in zip(
        torch.autograd.grad(out, inputs, gradient), torch.autograd.grad(expected, inputs, gradient), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_forms_stand_over_it(mine):
    query, key, value = tensors()
    value, lam = value[:, :2], torch.full((2,), 0.4)
    out = cogwheel.attention(query, key, value, "differential_mine", lam=lam)
    assert torch.equal(out, cogwheel.attention(query, key, value, "differential_cog", lam=lam))
    names = {entry["name"]: entry for entry in cogwheel.mechanisms()}
    assert names["symmetric_mine"]["level"] == "layer"
    assert names["mine"]["formula"] == "sign(s)*exp(abs(s)) / Σ exp(abs(s))"
    assert names["mine"]["definition"] == "mine: f = sign(s)*exp(abs(s)); g = exp(abs(s))"
    assert names["cog"]["definition"] is None
    assert mine.description == names["mine"] and str(mine) == "mine"


def test_has_statistics_and_second_derivatives(mine):
    outcomes = []
    for mechanism in ("mine", "cog"):
        query, key, value = tensors(torch.float64, heads=2, length=20, width=8)
        output, statistics = cogwheel.attention_statistics(query, key, value, mechanism, causal=True)
        first = torch.autograd.grad(output.square().sum(), query, create_graph=True)[0]
        curvature = torch.autograd.grad(first.square().sum(), [query, key, value])
        tangent = torch.func.jvp(
            lambda x: cogwheel.attention(x, key, value, mechanism), (query.detach(),), (torch.ones_like(query),)  # noqa: B023
        )[1]
        slope = torch.func.grad(lambda x: cogwheel.attention_weights(x, key, mechanism).sin().sum())  # noqa: B023
        pulled = torch.func.vjp(slope, query.detach())[1](torch.ones_like(query))[0]
        assert pulled.any()
        outcomes.append([output, *statistics, first, *curvature, tangent, pulled])
    for ours, built_in in zip(*outcomes):
        torch.testing.assert_close(ours, built_in, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_works_in_weights_modifiers_and_the_drop_in(mine):
    query, key, value = tensors()
    more = {"causal": True, "alibi": torch.linspace(0.1, 0.4, 4), "dropout": 0.3, "seed": 5}
    for call in (
        lambda name: cogwheel.attention_weights(query, key, name, causal=True),
        lambda name: cogwheel.attention(query, key, value, name, **more),
        lambda name: cogwheel.scaled_dot_product_attention(query, key, value, is_causal=True, mechanism=name),
    ):
        assert torch.equal(call("mine"), call("cog"))


def test_parameters_are_arguments_with_gradients(sharp):
    query, key, value = tensors(torch.float64)
    tau = torch.tensor([0.5, 1.0, 1.5, -0.3], dtype=torch.float64, requires_grad=True)

    def dense(query, key, value, tau):
        scores = (query @ key.mT) / math.sqrt(32)
        return (scores.sign() * (tau[:, None, None] * scores.abs()).softmax(-1)) @ value

    out, expected = cogwheel.attention(query, key, value, "sharp_cog", tau=tau), dense(query, key, value, tau)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    gradient = torch.randn_like(out)
    for ours, theirs in zip(
        torch.autograd.grad(out, [query, key, value, tau], gradient),
        torch.autograd.grad(expected, [query, key, value, tau], gradient),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)
    unless_given = cogwheel.attention(query, key, value, "sharp_cog")
    torch.testing.assert_close(unless_given, dense(query, key, value, torch.ones(4)), rtol=0, atol=1e-12)
    with pytest.raises(TypeError, match="parameters of sharp_cog: expected tau, got temperature"):
        cogwheel.attention(query, key, value, "sharp_cog", temperature=tau)


def test_the_same_again_is_the_same_and_another_is_refused(mine, workshop):
    before = workshop.compilations()
    assert cogwheel.mechanism("mine", " sign(s) * exp( abs(s) )", "(exp(abs(s)))") == mine
    with pytest.raises(ValueError, match="expected a name that is not taken, got mine, which is defined already: mine: f"):
        cogwheel.mechanism("mine", "s", "abs(s)")
    with pytest.raises(ValueError, match="expected a name that is not taken, got cog, which is built in"):
        cogwheel.mechanism("cog", "s", "abs(s)")
    assert workshop.compilations() == before


@pytest.mark.parametrize(
    "definition, message",
    [
        ({"f": "exp(s", "g": "1"}, "bad: f: expected a ) for this (, got the end (column 4)\n  exp(s\n     ^"),
        ({"f": "s", "g": "abs(t)"}, "bad: g: expected s (the nearest of 2 names), got t (column 5)\n  abs(t)\n      ^"),
        ({"f": "s", "g": ""}, "bad: g: expected a formula (or g = 0 together with an n, where no sum is needed), got none"),
        ({"f": "log(s)", "g": "1"}, "bad: f at s = -7.3: expected a number, got none"),
        ({"f": "s; system(0)", "g": "1"}, "bad: f: expected an operator or the end, got ; (column 2)"),
        ({"f": "s", "g": "1", "parameters": {"scale": 1}}, "bad: parameter: expected a name of up to 40 letters, digits and _ that nothing"),
        ({"f": "s", "g": "1", "parameters": {"tau": math.nan}}, "bad: tau: expected a finite number, got nan"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_does_not_read_is_said_without_a_compiler(workshop, definition, message):
    before = workshop.compilations()
    with pytest.raises(ValueError) as refused:
        cogwheel.mechanism("bad", **definition)
    assert str(refused.value).startswith(message)
    assert workshop.compilations() == before


def arguments_of_attention():
    """The arguments of every public function that computes, and of their operators."""
    cache = cogwheel.KeyValueCache
    functions = [
        cogwheel.attention, cogwheel.attention_weights, cogwheel.attention_statistics,
        cogwheel.scaled_dot_product_attention, cache.__init__, cache.append, cache.attend, cache.crop, cache.fork,
    ]  # fmt: skip
    operators = [
        torch.ops.cogwheel.attention, torch.ops.cogwheel.attention_weights, torch.ops.cogwheel.attention_statistics,
        torch.ops.cogwheel.scaled_dot_product_attention, torch.ops.cogwheel.cache_attend,
    ]  # fmt: skip
    return sorted(
        {name for function in functions for name in inspect.signature(function).parameters}
        | {argument.name for operator in operators for argument in operator.default._schema.arguments}
        | {"lam", "shift"}  # of a form, of formulas
    )


def test_names_of_arguments_are_no_names_of_parameters(workshop):
    before = workshop.compilations()
    for name in arguments_of_attention():
        with pytest.raises(ValueError) as refused:
            cogwheel.mechanism("bad", "s", "abs(s)", parameters={name: 1.0})
        assert str(refused.value) == f"bad: parameter: expected a name of up to 40 letters, digits and _ that nothing else has, got {name}"
    assert workshop.compilations() == before


def test_no_compiler(workshop, monkeypatch):
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(RuntimeError, match=r"compiler: expected a C\+\+20 compiler .*, got none on this machine"):
        cogwheel.mechanism("uncompiled", "s", "abs(s)")
    with pytest.raises(ValueError, match="uncompiled"):
        cogwheel.attention(*tensors(), "uncompiled")


@pytest.mark.parametrize(
    "output",
    [
        "/usr/bin/ld: final link failed: No space left on device",
        "c++: fatal error: Killed signal terminated program cc1plus",
    ],
)
def test_a_compiler_that_the_world_refuses(mine, workshop, output):
    """Neither is reported as C++ that does not compile, and no file is left behind."""
    broken = workshop.folder / "broken"
    broken.write_text(f"In file included from module.cpp:3:\n{output}\n")
    try:
        with pytest.raises(RuntimeError) as refused:
            cogwheel.mechanism("refused", "s", "abs(s)")
    finally:
        broken.unlink()
    expected = f"refused: expected a compiler that works, with enough memory and space in {workshop.folder}/cache/cogwheel/mechanisms"
    assert str(refused.value) == f"{expected}, got {output}"
    assert [path for path in (workshop.folder / "cache").rglob("compiling*")] == []


def test_a_cache_that_is_no_folder(workshop, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(workshop.folder / "compiler"))
    with pytest.raises(RuntimeError, match="compiler/cogwheel/mechanisms: expected a folder that can be made, got Not a dir"):
        cogwheel.mechanism("uncached", "s", "abs(s)")


def test_a_damaged_module_is_never_loaded(mine, workshop, repository):
    """Cut in half, another in its last byte, or empty: it is compiled again, here by a compiler that fails."""
    whole = {module: module.read_bytes() for module in workshop.modules}

    def replace(module, contents):  # by another file: this process runs what it has loaded
        other = module.with_suffix(".other")
        other.write_bytes(contents)
        other.replace(module)

    (workshop.folder / "broken").write_text("broken on purpose\n")
    try:
        for damage in (lambda bytes: bytes[: len(bytes) // 2], lambda bytes: bytes[:-1] + b"!", lambda bytes: b""):
            for module, contents in whole.items():
                replace(module, damage(contents))
            done = subprocess.run(
                [sys.executable, "-c", DEFINE_MINE], env=in_environment(workshop, repository), capture_output=True, text=True
            )
            assert done.returncode == 1
            assert done.stderr.splitlines()[-1].startswith("ValueError: ") and "broken on purpose" in done.stderr
            assert all(module.read_bytes() == damage(contents) for module, contents in whole.items())
    finally:
        (workshop.folder / "broken").unlink()
        for module, contents in whole.items():
            replace(module, contents)
    assert [path for path in (workshop.folder / "cache").rglob("compiling*")] == []


def test_nothing_in_the_cache_is_loaded_unasked(mine, workshop, repository):
    ask = "import cogwheel; print([e['name'] for e in cogwheel.mechanisms() if e['definition']])"
    done = subprocess.run(
        [sys.executable, "-c", ask], env=in_environment(workshop, repository), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


HEADER = """#pragma once
#include "cogwheel/attention/mechanisms/contract.h"
#include "cogwheel/attention/mechanisms/description.h"
namespace cogwheel {
struct Drafted : NormalizedByMass {
  static constexpr Description description{
      .name = "drafted", .title = "Drafted", .family = "pairwise", .level = "operator", .parameters = "",
      .formula = "exp(s) / Σ exp(s)", .range = "weights in [0, 1]", .citation = "a test"};
  @body@
};
}  // namespace cogwheel
"""
TERMS = """template <class V> static constexpr Terms<V> terms(V s, Row<V> row) {
    const V mass = lane::exp(s);
    return {.weight = mass, .mass = mass};
  }"""
WRONG_DERIVATIVES = """
  template <class V> static constexpr Terms<V> derivatives(V s, Row<V> row) {
    return {.weight = V(2) * lane::exp(s), .mass = lane::exp(s)};
  }"""


@pytest.mark.parametrize(
    "body, message",
    [
        (TERMS.replace("lane::exp(s)", "lane::expp(s)"), "drafted.h:10: expected C++ that compiles, got 'expp' is not a "
         "member of 'cogwheel::lane'"),
        ("", "drafted.h: expected `terms(V s, Row<V> row)` for f and g, got none that can be called"),
        (TERMS + WRONG_DERIVATIVES, "drafted: derivative of f at s = -7.3: expected 0.000675539 (by finite differences), got "
         "0.00135108"),
        (TERMS + WRONG_DERIVATIVES.replace("derivatives", "slopes"), "drafted.h: expected f′ and g′ as a function "
         "`derivatives`, got one named `slopes`"),
    ],
    ids=["unknown name", "no terms", "wrong derivative", "slopes"],
)  # fmt: skip
def test_headers_that_are_wrong(workshop, tmp_path, body, message):
    header = tmp_path / "drafted.h"
    header.write_text(HEADER.replace("@body@", body))
    with pytest.raises(ValueError) as refused:
        cogwheel.load_mechanism(header)
    assert message in str(refused.value) and len(str(refused.value).splitlines()) == 1
    if "lane::expp" in body:
        assert str(refused.value).endswith("in: const V mass = lane::expp(s);")
    assert all(entry["name"] != "drafted" for entry in cogwheel.mechanisms())


def test_headers_that_are_none(workshop, tmp_path):
    with pytest.raises(RuntimeError, match="missing.h: expected a file that can be read, got No such file"):
        cogwheel.load_mechanism(tmp_path / "missing.h")
    other = tmp_path / "other.h"
    other.write_text("struct Another {};\n")
    with pytest.raises(ValueError, match="other.h: expected struct Other, named after the file, got none"):
        cogwheel.load_mechanism(other)
    other.write_text('#include "mine.h"\nstruct Other {};\n')
    with pytest.raises(ValueError, match='other.h:1: expected a mechanism in one file, .* got #include "mine.h"'):
        cogwheel.load_mechanism(other)
    with pytest.raises(ValueError, match="mechanism file: expected a header <name>.h, got mine.txt"):
        cogwheel.load_mechanism("mine.txt")


def test_the_card_says_what_cog_does(mine):
    card = cogwheel.numerics_card("mine")
    facts, of_cog = card["facts"], cogwheel.numerics_card("cog")["facts"]
    assert card["problems"] == []
    assert facts["jumps"] == "f jumps at s = 0, from -1 to 1"
    assert facts["overflow"].startswith("none at scores of ±1e4")
    assert facts["row sums"].endswith("Σ|a| 1") and facts["determinism"].startswith("the same bits")
    assert facts["plain formula"] == "agrees within 1e-12 (long double)"
    for what in ("weights seen", "fp32 error, scores of size 10", "flipped signs"):
        assert facts[what] == of_cog[what]
    with pytest.raises(ValueError, match="numerics card: expected a row map .*, got differential"):
        cogwheel.numerics_card("differential")


def test_the_tutorial_runs(sharp, workshop, repository):
    before = workshop.compilations()
    page = (repository / "docs/your-own-mechanism.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], env=in_environment(workshop, repository), capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout.startswith("torch.Size([1, 4, 256, 64]) tensor("), done.stderr
    assert workshop.compilations() == before
    functions = "exp log log1p sqrt tanh sin cos abs sign square cube sigmoid\nsoftplus"
    assert functions in page


def test_as_fast_as_the_built_in_one(mine):
    """Within a tenth, on one thread, forward and backward: the best of several rounds, since the machine may be busy."""
    query, key, value = tensors(length=512, width=64)
    gradient = torch.randn_like(value)

    def job(name):
        out = lambda: cogwheel.attention(query, key, value, name, causal=True)
        return lambda: torch.autograd.grad(out(), [query, key, value], gradient)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        ratios = []
        while len(ratios) < 5 and min(ratios, default=2) > 1.1:
            times = take_turns({name: job(name) for name in ("mine", "cog")}, seconds=1.0)
            ratios.append(times["mine"].min / times["cog"].min)
    finally:
        torch.set_num_threads(threads)
    assert min(ratios) <= 1.1, ratios
