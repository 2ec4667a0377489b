"""Runs as modules of Python, with hooks, against plain formulas."""

import pytest
import small_runs
import torch
from plain_models import layer_mechanism, plain
from small_runs import expect_close, normal, whole
from torch.nn import functional as F

import cogwheel

TRAIN = small_runs.TRAIN.replace("{layers}", "3").replace("{width}", "32")

# Each kind of attention layer, position, norm and feed-forward, in as few models as hold them.
LANGUAGE_MODELS = {
    "learned": ("consmax+polynomial", "context = 16\nfirst_softmax_layers = 1"),
    "llama": ("differential_cog+cog", 'context = 16\nform = "llama"'),
    "interleaved": ("cog*2+softmax_off_by_one", 'context = 16\nposition = "rotary"\nkey_value_heads = 2'),
    "wide": (
        "cog+differential+norm",
        'context = 16\nform = "llama"\nposition = "rotary_halves"\nhead_dim = 12\nquery_key_norm = true\nwindow = 5\nprojection_bias = true\n'
        'norm_epsilon = 1e-3\nhead_norm_epsilon = 1e-2\nrotary_scaling = "llama3"\nrotary_factor = 4\nrotary_original_context = 20',
    ),
    "alibi": ("softmax+differential+sigmoid", 'context = 16\nposition = "alibi"\nactivation = "gelu_tanh"\nkey_value_heads = 2'),
    "tied": ("differential_symmetric_norm+symmetric_sigmoid", 'context = 16\nposition = "none"'),
}


@pytest.fixture(scope="module")
def program(cogwheel_executable, tmp_path_factory):
    return small_runs.Program(cogwheel_executable, tmp_path_factory.mktemp("trained"))


@pytest.fixture(scope="module")
def vision_run(program):
    model = 'patch = 4\npooling = "mean"\ndropout = 0.1'
    return program.train("vision", TRAIN.format(task="images", data="size = 16", mechanism="cog", model=model))


def observed_by(judge):
    """Every activation of the judge's next passes, by name."""
    seen = {}

    def keep(name, value):
        seen[name] = value
        return value

    judge.at = keep
    return seen


def expect_equal(got, expected, what=""):
    """To 1e-9 of the largest finite number: the same formulas in float64."""
    assert got.shape == expected.shape, what
    expected = expected.detach()
    largest = expected[expected.isfinite()].abs().max().clamp_min(1)
    torch.testing.assert_close(got.detach(), expected, rtol=0, atol=1e-9 * float(largest), msg=lambda text: f"{what}: {text}")


@pytest.fixture(scope="module", params=LANGUAGE_MODELS)
def language_run(request, program):
    mechanism, model = LANGUAGE_MODELS[request.param]
    config = TRAIN.format(task="language_modelling", data="", mechanism=mechanism, model=model)
    return program.train(f"language-{request.param}", config, "--text", "text.txt")


def test_language_models_are_their_formulas(language_run):
    """Logits, every activation, and every gradient."""
    loaded, judge = cogwheel.LanguageModel.load(language_run).double(), plain(language_run)
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    expected = observed_by(judge)
    for tensor in judge.weights.values():
        tensor.requires_grad_()
    logits = judge(tokens)
    out, cache = loaded.run_with_cache(tokens, names=lambda name: True)
    expect_equal(loaded(tokens), logits)
    expect_equal(out, logits)
    unseen = {name for name in loaded.hook_names() if name.endswith("row_statistics")}
    assert cache.keys() - unseen == expected.keys() and list(cache) == sorted(cache, key=list(cache).index)
    for name, value in expected.items():
        expect_equal(cache[name], value, name)
    for model in (loaded, judge):
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    for name, parameter in loaded.named_parameters():
        expect_equal(parameter.grad, judge.weights[name].grad, name)


def test_every_activation_can_be_replaced(language_run):
    """Hidden keys stay hidden, whatever a patch says; derivatives flow through it."""
    loaded, judge = cogwheel.load(language_run).double(), plain(language_run)
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    shapes = {name: value.shape for name, value in loaded.run_with_cache(tokens, names=lambda name: True)[1].items()}
    visible = torch.ones(11, 11, dtype=torch.bool).tril().triu(1 - (loaded.options["window"] or 11))
    for name, shape in shapes.items():
        if name.endswith(("row_statistics", "hook_lambda")):  # can only be read
            continue
        patch = normal(*shape).double()
        if name.endswith("scale"):
            patch = patch.abs() + 0.5
        if name.endswith(("scores", "pattern", "pattern_members")):
            patch = patch * 0.3
        of_scores, of_weights = name.endswith("scores"), name.endswith(("pattern", "pattern_members"))
        patch.requires_grad_()

        def replace(value, hook, patch=patch):
            return patch

        def judged(place, value, name=name, patch=patch, of_scores=of_scores, of_weights=of_weights):
            replaced = patch.where(visible, -torch.inf if of_scores else 0.0) if of_scores or of_weights else patch
            return replaced if place == name else value

        if of_scores and layer_mechanism(judge.options, int(name.split(".")[1])) == "polynomial":
            with pytest.raises(ValueError, match="hook_attn_scores of polynomial: expected scores as they are"):
                loaded.run_with_hooks(tokens, fwd_hooks=[(name, replace)])
            continue
        judge.at = judged
        got, expected = loaded.run_with_hooks(tokens, fwd_hooks=[(name, replace)]), judge(tokens)
        expect_equal(got, expected, name)
        (gradient,), (of_judge,) = (torch.autograd.grad(out.square().sum(), patch) for out in (got, expected))
        expect_equal(gradient, of_judge, name)


def test_effective_attention_is_the_pattern(language_run):
    loaded = cogwheel.load(language_run).double()
    tokens = whole(loaded.options["vocabulary"], 2, 13)  # no multiple of the values' width
    _, cache = loaded.run_with_cache(tokens, names=lambda name: name.endswith("hook_pattern"))
    measured = loaded.effective_attention(tokens)
    assert len(measured) == len(cache) == loaded.options["layers"]
    for matrix, pattern in zip(measured, cache.values(), strict=True):
        expect_equal(matrix, pattern)
    for matrix, pattern in zip(loaded.effective_attention(tokens, by_channel=True), cache.values(), strict=True):
        expect_equal(matrix, pattern[..., None].expand_as(matrix))


def test_effective_attention_reads_states(program):
    """Layers with a state: what their own formulas of weights say, and values through it are their output."""
    config = TRAIN.format(task="language_modelling", data="", mechanism="gla+mamba+deltanet", model="context = 16")
    loaded = cogwheel.load(program.train("states", config, "--text", "text.txt")).double()
    tokens = whole(loaded.options["vocabulary"], 2, 13)
    _, cache = loaded.run_with_cache(tokens, names=lambda name: name.endswith(("hook_pattern", "hook_v", "hook_z")))
    measured = loaded.effective_attention(tokens, by_channel=True)
    for layer, matrix in enumerate(measured):
        place = f"blocks.{layer}.attn."
        z = torch.einsum("bhijc,bjhc->bihc", matrix, cache[place + "hook_v"])
        expect_equal(z, cache[place + "hook_z"], place)
        expect_equal(matrix.mean(-1), cache[place + "hook_pattern"], place)
        assert matrix.movedim(-1, 0).triu(1).count_nonzero() == 0
    for matrix, mean in zip(measured, loaded.effective_attention(tokens), strict=True):
        expect_equal(mean, matrix.mean(-1))
    spread = [float((matrix - matrix.mean(-1, keepdim=True)).abs().max()) for matrix in measured]
    assert spread[1] > 1e-4 and spread[0] < 1e-9 and spread[2] < 1e-9  # Mamba forgets each channel at its own rate


def test_patterns_of_states_stay_causal(program):
    config = TRAIN.format(task="language_modelling", data="", mechanism="gla+cog", model="context = 16")
    loaded = cogwheel.load(program.train("causal-patches", config, "--text", "text.txt")).double()
    tokens = whole(loaded.options["vocabulary"], 1, 9)
    other = tokens.clone()
    other[0, -1] = (other[0, -1] + 1) % loaded.options["vocabulary"]
    for layer in range(2):
        hooks = [(f"blocks.{layer}.attn.hook_pattern", lambda value, hook: torch.ones_like(value))]
        one, two = (loaded.run_with_hooks(given, fwd_hooks=hooks) for given in (tokens, other))
        assert torch.equal(one[:, :-1], two[:, :-1]) and not torch.equal(one[:, -1], two[:, -1])


def test_hooks_refuse_what_they_cannot_use(language_run):
    loaded = cogwheel.load(language_run)
    tokens, name = whole(loaded.options["vocabulary"], 1, 5), "blocks.0.attn.hook_z"
    refused = lambda message, **hooks: pytest.raises(ValueError, match=f"{name}: expected {message}")  # noqa: E731

    def poison(value, hook):
        value.detach().fill_(torch.nan)

    with refused("numbers, got NaN"):
        loaded.run_with_hooks(tokens, fwd_hooks=[(name, poison)])
    with torch.no_grad(), refused("numbers, got NaN"):
        loaded.run_with_hooks(tokens, fwd_hooks=[(name, lambda value, hook: value.fill_(torch.nan))])
    with refused("a tensor or None from a hook, got int"):
        loaded.run_with_hooks(tokens, fwd_hooks=[(name, lambda value, hook: 3)])
    for message, hook in (
        ("a gradient or None from a hook, got int", lambda gradient, hook: 3),
        (r"a gradient torch.float32 \[.*, got torch.float32 \[", lambda gradient, hook: gradient[:, :1]),
        ("a gradient of numbers, got NaN", lambda gradient, hook: gradient * torch.nan),
    ):
        out = loaded.run_with_hooks(tokens, bwd_hooks=[(name, hook)])
        with refused(message):
            out.sum().backward()
    with torch.no_grad(), pytest.raises(ValueError, match="bwd_hooks: expected a pass with gradients"):
        loaded.run_with_hooks(tokens, bwd_hooks=[(name, lambda gradient, hook: None)])


def test_hooks_see_gradients(language_run):
    loaded = cogwheel.load(language_run).double()
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    name, seen = "blocks.1.hook_resid_mid", []
    out, cache = loaded.run_with_cache(tokens, names=name)
    (expected,) = torch.autograd.grad(out.square().sum(), cache[name])
    out = loaded.run_with_hooks(tokens, bwd_hooks=[(name, lambda gradient, hook: seen.append((hook.layer(), gradient)))])
    out.square().sum().backward()
    assert seen[0][0] == 1 and torch.equal(seen[0][1], expected)
    # What a hook returns is the gradient from there on: nothing before it learns.
    loaded.zero_grad()
    out = loaded.run_with_hooks(tokens, bwd_hooks=[(name, lambda gradient, hook: torch.zeros_like(gradient))])
    out.square().sum().backward()
    before, after = (loaded.get_parameter(f"layers.{layer}.feed_forward.out.weight").grad for layer in (0, 1))
    assert before.count_nonzero() == 0 and after.count_nonzero() > 0


def test_gradients_written_in_place_are_returned_ones(language_run):
    """They reach no other gradient, though a sum gives one tensor to all its terms; NaN is refused."""
    loaded = cogwheel.load(language_run).double()
    tokens = whole(loaded.options["vocabulary"], 2, 11)

    def written(gradient, factor):
        gradient.mul_(factor)

    def gradients(hook, name):
        loaded.zero_grad()
        loaded.run_with_hooks(tokens, bwd_hooks=[(name, hook)]).sum().backward()
        return [parameter.grad for parameter in loaded.parameters()]

    for name in ("hook_embed", *(f"blocks.1.{place}" for place in ("hook_resid_mid", "hook_attn_out", "hook_mlp_out", "attn.hook_z"))):
        returned = gradients(lambda gradient, hook: gradient * 0.5, name)
        in_place = gradients(lambda gradient, hook: written(gradient, 0.5), name)
        for one, two in zip(returned, in_place, strict=True):
            assert torch.equal(one, two), name
    with pytest.raises(ValueError, match="hook_embed: expected a gradient of numbers, got NaN"):
        gradients(lambda gradient, hook: written(gradient, torch.nan), "hook_embed")


def test_hooks_refuse_what_cannot_be(language_run):
    loaded = cogwheel.load(language_run)
    tokens = whole(loaded.options["vocabulary"], 2, 11)
    name = "blocks.0.attn.hook_z"
    whole_output = loaded(tokens)

    def run(hook, at=name):
        return loaded.run_with_hooks(tokens, fwd_hooks=[(at, hook)])

    with pytest.raises(ValueError, match=r"hook: expected .*blocks.0.attn.hook_z.* \(the nearest of \d+ names\), got blocks.0.attn.hook_zz"):
        run(None, "blocks.0.attn.hook_zz")
    with pytest.raises(ValueError, match=r"hook_z: expected a tensor of shape \[2, 11, \d, \d+\], got \[1, 11,"):
        run(lambda value, hook: value[:1])
    with pytest.raises(ValueError, match="hook_z: expected numbers, got NaN"):
        run(lambda value, hook: value * float("nan"))
    with pytest.raises(ValueError, match="hook_z: expected Float on cpu, got Double on cpu"):
        run(lambda value, hook: value.double())
    with pytest.raises(KeyError, match="mine"):
        run(lambda value, hook: {}["mine"])
    with pytest.raises(ValueError, match="hook_embed: expected a pass whose numbers hooks can compare, got one within torch.func.vmap"):
        torch.func.vmap(lambda each: loaded.run_with_cache(each[None])[0])(tokens)
    assert torch.equal(loaded(tokens), whole_output)


def test_vision_transformers_are_their_formulas(vision_run):
    images, judge = normal(2, 3, 16, 16).double(), plain(vision_run)
    expected = observed_by(judge)
    out, cache = cogwheel.VisionTransformer.load(vision_run).double().run_with_cache(images)
    expect_equal(out, judge(images))
    for name in cache:
        expect_equal(cache[name], expected[name], name)


@pytest.mark.parametrize(("mechanism", "condition"), [("cog", "class"), ("differential", "none")])
def test_u_vits_are_their_formulas(program, mechanism, condition):
    """With averaged weights."""
    data = f'size = 16\ncondition = "{condition}"'
    config = TRAIN.format(task="diffusion", data=data, mechanism=mechanism, model="patch = 4") + "ema = 0.5\n"
    run = program.train(f"u-vit-{condition}", config)
    inputs = [normal(2, 3, 16, 16).double(), torch.tensor([3.5, 900.0])]
    if condition == "class":
        inputs.append(torch.tensor([1, 4]))
    judge = plain(run)
    expected = observed_by(judge)
    out, cache = cogwheel.load(run).double().run_with_cache(*inputs)
    expect_equal(out, judge(*inputs))
    for name in cache:
        expect_equal(cache[name], expected[name], name)


def test_refuses_what_it_cannot_compute(program):
    config = TRAIN.format(task="language_modelling", data="", mechanism="gla+softmax", model="context = 16")
    run = program.train("recurrent", config, "--text", "text.txt")
    checkpoint = run / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    with pytest.raises(ValueError, match="expected a whole safetensors file"):
        cogwheel.load(run)
    with pytest.raises(FileNotFoundError):
        cogwheel.load(program.work / "nowhere")
