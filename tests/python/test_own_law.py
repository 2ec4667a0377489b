"""Laws with a state of a user's own, from headers: dense float64 formulas of what they compute, and what is refused."""

import json
import math
import re
import subprocess
import sys

import pytest
import torch
from own_mechanisms import in_environment, workshop_of_this_process

import cogwheel

B, H, N, D, V = 2, 3, 21, 6, 5

HEADER = """#pragma once
#include "cogwheel/attention/mechanisms/recurrent/cosformer.h"
#include "cogwheel/attention/mechanisms/recurrent/hgrn2.h"
namespace cogwheel {{
struct {struct} {{
  static constexpr RecurrentParameter parameters[]{{{parameters}}}; {function}
  static constexpr RecurrentLaw law{{
      .name = "{name}", .title = "{struct}", {parts}
      .parameters = parameters, {of_function} .formula = "S_t of {name}", .citation = "a test"}};
}};
}}  // namespace cogwheel
"""


# A law's parts, which of them belong to its function, and the function itself.
FUNCTION = """
  static LawOutcome run(const LawCall& call) {
    LawWalk walk = call.walk();
    BODY
  }"""
LEAKY = FUNCTION.replace("BODY", "walk.key = weighted(walk.key, -expm1(walk.decay)); return call.walked(walk);")
# φ = exp, and outputs times a gate of each token.
GATED = FUNCTION.replace(
    "BODY",
    """walk.query = exp(walk.query), walk.key = exp(walk.key);
    LawOutcome outcome = call.walked(walk);
    outcome.output = weighted(outcome.output, sigmoid(call["gate"]));
    return outcome;""",
)


def header_of(folder, name, parts, parameters, of_function="", function=""):
    struct = "".join(word.capitalize() for word in name.split("_"))
    path = folder / f"{name}.h"
    path.write_text(
        HEADER.format(struct=struct, name=name, parts=parts, parameters=parameters, of_function=of_function, function=function)
    )
    return path


def law_header(folder, name, as_name=None, change=lambda parts: parts):
    parts, parameters, _, _, of_function, function = LAWS[name]
    return header_of(folder, as_name or name, change(parts), parameters, of_function, function)


def past(x):
    """Σ over the tokens after j up to t of x [..., N], [..., t, j], and −∞ above the diagonal."""
    sums = x.cumsum(-1)
    inside = torch.ones(x.shape[-1], x.shape[-1], dtype=torch.bool).tril()
    return (sums[..., :, None] - sums[..., None, :]).masked_fill(~inside, -math.inf)


def leaky(query, key, value, log_decay):
    written = 1 - log_decay.exp()
    return (query @ key.mT / D**0.5 * past(log_decay).exp() * written[..., None, :]) @ value


def turning(query, key, value, horizon, log_decay):
    distance = torch.arange(N, dtype=torch.float64)[:, None] - torch.arange(N, dtype=torch.float64)
    turned = (math.pi / (2 * float(horizon)) * distance).cos()
    weights = query.relu() @ key.relu().mT * turned * past(log_decay).exp()
    return weights @ value / weights.sum(-1, keepdim=True)


def columns(query, value, log_decay, log_value_decay):
    """k = 1 − α, and each column of the values decays too: weights [B, H, V, N, N]."""
    key = 1 - log_decay.exp()
    by_row = torch.einsum("bhtd,bhjd,bhdtj->bhtj", query, key, past(log_decay.mT).exp()) / D**0.5
    weights = by_row[:, :, None] * past(log_value_decay.mT).exp()
    return torch.einsum("bhvtj,bhjv->bhtv", weights, value)


def channel_delta(query, key, value, beta, log_decay):
    state, outputs = value.new_zeros(B, H, D, V), []
    for t in range(N):
        state = log_decay[:, :, t].exp()[..., None] * state
        error = value[:, :, t] - torch.einsum("bhdv,bhd->bhv", state, key[:, :, t])
        state = state + beta[:, :, t, None, None] * key[:, :, t, :, None] * error[..., None, :]
        outputs.append(torch.einsum("bhdv,bhd->bhv", state, query[:, :, t]) / D**0.5)
    return torch.stack(outputs, 2)


def asked(query, key, value, decay):
    """φ = elu + 1 and normalised, as the call asks."""
    query, key = (torch.nn.functional.elu(x) + 1 for x in (query, key))
    powers = past(decay.log()[None, :, None].expand(1, H, N)).exp()
    weights = query @ key.mT * powers
    return weights @ value / weights.sum(-1, keepdim=True)


def gated(query, key, value, gate):
    query, key = (x.exp() for x in (query, key))
    weights = (query @ key.mT).tril()
    return torch.sigmoid(gate)[..., None] * (weights @ value / weights.sum(-1, keepdim=True))


# name: parts of the law, its parameters, the formula, the options of a call; parts of its function, and the function.
LAWS = {
    "leaky": (
        ".transition = Transition::per_token,", '{"log_decay", "BHN", Values::at_most_0}', leaky, {}, ".run = run,", LEAKY
    ),
    "turning": (
        ".transition = Transition::per_token, .features = Features::own, .normalizer = Normalizer::always,",
        '{"horizon", "", Values::above_0}, {"log_decay", "BHN", Values::at_most_0}', turning, {},
        ".run = Cosformer::run, .state = Cosformer::state,", "",
    ),
    "columns": (
        ".transition = Transition::per_channel,",
        '{"log_decay", "BHND", Values::at_most_0}, {"log_value_decay", "BHNV", Values::at_most_0}', columns, {},
        ".has_key = false, .run = Hgrn2::run,", "",
    ),
    "gated": (
        ".features = Features::own, .normalizer = Normalizer::always,", '{"gate", "BHN"}', gated, {}, ".run = run,", GATED
    ),
    "channel_delta": (
        ".transition = Transition::per_channel, .walks = Walks::delta,",
        '{"beta", "BHN", Values::from_0_to_2}, {"log_decay", "BHND", Values::at_most_0}', channel_delta, {}, "", "",
    ),
    "asked": (
        ".transition = Transition::constant, .features = Features::asked, .normalizer = Normalizer::asked,",
        '{"decay", "H", Values::above_0_to_1}, {"projection", "HDR", Values::any, false}', asked,
        {"feature_map": "elu_plus_one", "normalize": True}, "", "",
    ),
}  # fmt: skip


def inputs_of(name, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    sizes = {"B": B, "H": H, "N": N, "D": D, "V": V}
    drawn = lambda axes: torch.randn([sizes[axis] for axis in axes], generator=generator, dtype=torch.float64)
    kinds = {"log_decay": lambda x: -x.abs(), "log_value_decay": lambda x: -x.abs(), "beta": torch.sigmoid, "decay": torch.sigmoid}
    entry = next(entry for entry in cogwheel.mechanisms() if entry["name"] == name)
    tensors = {each: drawn("BHNV" if each == "value" else "BHND") for each in entry["inputs"]}
    if name == "turning":  # no total near 0
        tensors |= {each: tensors[each].abs() + 0.25 for each in ("query", "key")}
    if name == "channel_delta":
        tensors["key"] = torch.nn.functional.normalize(tensors["key"], dim=-1)
    for each, axes in entry["parameter_axes"].items():
        if each == "horizon":
            tensors[each] = 2.0 * N
        elif each != "projection":
            tensors[each] = kinds.get(each, lambda x: x)(drawn(axes))
    return {
        each: x.float().to(dtype).requires_grad_() if isinstance(x, torch.Tensor) else x for each, x in tensors.items()
    }


def call(function, tensors, name, **more):
    rest = dict(tensors)
    taken = [rest.pop(each, None) for each in ("query", "key", "value")]
    return function(*taken, name, **rest, **LAWS[name][3], **more)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    with workshop_of_this_process(tmp_path_factory.mktemp("workshop")) as made:
        yield made


@pytest.fixture(scope="module")
def laws(workshop, repository):
    paths = {name: law_header(workshop.folder, name) for name in LAWS}
    page = (repository / "docs/your-own-mechanism.md").read_text()
    (documented,) = re.findall(r"^```cpp\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    include = '#include "cogwheel/attention/mechanisms/recurrent_call.h"'
    paths["leaky"].write_text(f"#pragma once\n{include}\nnamespace cogwheel {{\n{documented}}}\n")
    return {name: cogwheel.load_mechanism(path) for name, path in paths.items()}


@pytest.mark.parametrize("name", LAWS)
def test_is_its_dense_formula(laws, name):
    """Outputs, weights, gradients of every tensor, in two parts, and in float32."""
    formula, own = LAWS[name][2], inputs_of(name)
    expected = formula(**own)
    leaves = [x for x in own.values() if isinstance(x, torch.Tensor)]
    gradient = torch.randn(expected.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    expected_gradients = torch.autograd.grad(expected, leaves, gradient)

    out, state = call(cogwheel.recurrent, own, name, return_state=True)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-11)
    for ours, theirs in zip(torch.autograd.grad(out, leaves, gradient), expected_gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)

    part = lambda begin, end: {
        each: x[:, :, begin:end] if isinstance(x, torch.Tensor) and x.dim() > 2 else x for each, x in own.items()
    }
    first, between = call(cogwheel.recurrent, part(0, 8), name, return_state=True)
    second, last = call(cogwheel.recurrent, part(8, N), name, initial_state=between, return_state=True)
    torch.testing.assert_close(torch.cat([first, second], 2), expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(last, state, rtol=1e-9, atol=1e-11)

    arguments = {each: x for each, x in own.items() if each != "value"}
    taken = [arguments.pop(each, None) for each in ("query", "key")]
    weights = cogwheel.recurrent_weights(*taken, name, **arguments, **LAWS[name][3])
    value = own["value"]
    summed = torch.einsum("bhvtj,bhjv->bhtv", weights, value) if weights.dim() == 5 else weights @ value
    assert weights.shape == ((B, H, V, N, N) if name == "columns" else (B, H, N, N))
    torch.testing.assert_close(summed, expected, rtol=1e-9, atol=1e-11)

    single = call(cogwheel.recurrent, inputs_of(name, torch.float32), name)
    assert (single - expected).abs().max() <= 5e-5 * expected.abs().max()


def test_is_in_the_catalogue_and_decodes(laws):
    entry = laws["columns"].description
    assert [entry[key] for key in ("family", "level", "inputs", "form", "member")] == [
        "recurrent", "operator", ["query", "value"], None, None
    ]  # fmt: skip
    assert entry["parameters"] == ["log_decay", "log_value_decay"] and entry["definition"].startswith("columns.h sha256:")
    assert laws["asked"].description["parameters"] == ["decay", "projection", "feature_map", "normalize"]

    own = inputs_of("leaky")
    whole = call(cogwheel.recurrent, own, "leaky")
    cache = cogwheel.RecurrentCache("leaky", B, H, D, V, dtype=torch.float64)
    parts = [
        cache.attend(*(own[each][:, :, begin:end] for each in ("query", "key", "value")), log_decay=own["log_decay"][:, :, begin:end])
        for begin, end in ((0, 13), (13, 14), (14, N))
    ]
    torch.testing.assert_close(torch.cat(parts, 2), whole, rtol=1e-9, atol=1e-11)


def test_bad_input_names_it_as_any_other(laws):
    own = inputs_of("leaky")
    with pytest.raises(ValueError, match=r"recurrent: log_decay: expected a tensor \(leaky requires it\), got nothing"):
        cogwheel.recurrent(own["query"], own["key"], own["value"], "leaky")
    with pytest.raises(ValueError, match="recurrent: log_decay: expected values of at most 0, got"):
        call(cogwheel.recurrent, own | {"log_decay": -own["log_decay"]}, "leaky")
    with pytest.raises(ValueError, match="recurrent: mechanism: expected leaky"):
        cogwheel.recurrent(own["query"], own["key"], own["value"], "leeky")
    with pytest.raises(ValueError, match="causal: expected True for columns, got False"):
        call(cogwheel.recurrent, inputs_of("columns"), "columns", causal=False)
    with pytest.raises(ValueError, match=r"expected a mechanism of attention \(cogwheel.recurrent takes this one\), got leaky"):
        cogwheel.attention(own["query"], own["key"], own["value"], "leaky")


def test_compiled_once_and_read_from_the_cache_after(laws, workshop, repository):
    before = workshop.compilations()
    assert cogwheel.load_mechanism(workshop.folder / "leaky.h") == laws["leaky"]
    code = f"import cogwheel; print(cogwheel.load_mechanism({str(workshop.folder / 'leaky.h')!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=in_environment(workshop, repository), capture_output=True, text=True, check=True
    )
    assert done.stdout == "leaky\n" and workshop.compilations() == before
    other = workshop.folder / "other"
    other.mkdir()
    changed = law_header(other, "leaky", change=lambda parts: parts.replace("per_token", "constant"))
    with pytest.raises(ValueError, match="expected a name that is not taken, got leaky, which is defined already: leaky.h sha"):
        cogwheel.load_mechanism(changed)


@pytest.mark.parametrize(
    "change, message",
    [
        (("per_token", "constant"), "drafted: decay: expected to be listed among the parameters, as the law reads it, got nothing"),
        (("BHN", "BHX"), "drafted: log_decay: axes: expected BHN, got BHX"),
        (('.name = "drafted"', '.name = "other"'), "drafted.h: expected a law.name equal to the file's name, drafted, got other"),
        (("RecurrentLaw law", "RecurrentLaw a_law"), "drafted.h: expected `static constexpr RecurrentLaw law`, got none"),
        (("walk.decay)", 'call["gate"])'), "drafted: a law's function: expected one of its parameters, got gate"),
        (("per_token", "per_tocken"), "drafted.h:12: expected C++ that compiles, got 'per_tocken' is not a member of"),
    ],
    ids=["transition", "axes", "name", "no law", "no parameter", "unknown word"],
)  # fmt: skip
def test_headers_that_are_wrong(workshop, tmp_path, change, message):
    path = law_header(tmp_path, "leaky", "drafted")
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    with pytest.raises(ValueError) as refused:
        cogwheel.load_mechanism(path)
    assert message in str(refused.value) and len(str(refused.value).splitlines()) == 1
    assert all(entry["name"] != "drafted" for entry in cogwheel.mechanisms())


def test_card(laws):
    card = cogwheel.numerics_card("leaky")
    assert card["problems"] == []
    facts = card["facts"]
    assert facts["takes"] == "query, key, value; log_decay [B, H, N], at_most_0"
    assert facts["size"] == "4096 numbers for a head of 64 after any number of tokens"
    assert facts["cut in two"].startswith("the whole within ") and facts["weights · v"].startswith("the output within ")
    assert facts["derivatives"] == "agree with finite differences, of every tensor"
    assert facts["determinism"].startswith("the same bits") and "2048 tokens" in facts["fp32 error, gradients"]
    assert cogwheel.numerics_card("gla")["facts"]["takes"] == "query, key, value; log_decay [B, H, N, D], at_most_0"


TRAINING = """
[data]
text = ["text.txt"]
[model]
mechanism = "my_law+softmax"
context = 32
layers = 2
heads = 2
width = 32
[training]
steps = 4
batch = 2
checkpoint_every = 2
"""


def test_on_the_command_line(workshop, cogwheel_in):
    """Written, checked, trained, resumed, sampled, compared, timed."""
    run = cogwheel_in(workshop.folder, **workshop.environment)

    def ran(*words):
        done = run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert ran("mechanism", "new", "my_law", "--family", "recurrent") == "./my_law.h\n"
    assert run("mechanism", "new", "a_law", "--family", "stateful").stderr == (
        "cogwheel: --family: expected pairwise or recurrent, got stateful\n"
    )
    assert "got gla, which is built in" in run("mechanism", "new", "gla", "--family", "recurrent").stderr
    own = ("--mechanism-file", "my_law.h")
    card = ran("mechanism", "check", *own)
    assert card.startswith("my_law\n") and "log_decay [B, H, N], at_most_0" in card
    assert ran("mechanism", "card", "deltanet").startswith("deltanet\n")

    (workshop.folder / "text.txt").write_text("a state keeps what it has read, and forgets some of it\n" * 400)
    (workshop.folder / "own.toml").write_text(TRAINING)
    ran("train", "own.toml", "--out", "trained", *own)
    needs = "expected my_law, which needs --mechanism-file my_law.h (SHA-256 "
    for words in (("sample", "trained"), ("resume", "trained")):
        refused = run(*words)
        assert refused.returncode == 2 and needs in refused.stderr and refused.stderr.count("\n") == 1
    assert ran("resume", "trained", *own) == "trained has made all of its 4 steps\n"
    ran("sample", "trained", "--length", 8, *own)

    ran(
        "compare", *own, "--attention", "softmax,my_law", "--preset", "tiny", "--text", "text.txt",
        "--seeds", 1, "--steps", 4, "--out", "compared",
    )  # fmt: skip
    results = json.loads((workshop.folder / "compared/results.json").read_text())
    plan = next(plan for plan in results["mechanisms"] if plan["name"] == "my_law")
    assert plan["formula"] == "S_t = α_t S_{t-1} + (1 - α_t) k_t v_tᵀ" and plan["definition"].startswith("my_law.h sha256:")
    assert "--mechanism-file my_law.h" in results["command"]
    assert needs in run("compare", "--resume", "compared").stderr
    ran("compare", "--resume", "compared", *own)

    printed = ran(
        "bench", "attention", *own, "--mechanisms", "gla", "my_law", "--lengths", "64", "--heads", 2, "--seconds", 0.05, "--no-eager"
    )  # fmt: skip
    assert "  my_law " in printed
