"""cogwheel.nn: layers of every mechanism against formulas in float64 and against the layers of C++; packed, padded, grouped and cached as
whole; and as modules of PyTorch."""

import copy
import itertools
import pickle

import plain_layers
import pytest
import torch
from torch import nn

import cogwheel

WIDTH, HEADS, TOKENS, CONTEXT = 48, 4, 11, 32
KNOWN = {each["name"]: each for each in cogwheel.mechanisms() if each["definition"] is None}
RECURRENT = [name for name, each in KNOWN.items() if each["family"] == "recurrent"]
DENSE = [name for name, each in KNOWN.items() if each["level"] == "dense"]
PAIRWISE = [name for name, each in KNOWN.items() if each["family"] == "pairwise"]
TIED = [name for name in PAIRWISE if KNOWN[name]["level"] == "layer"]
# A map with and without a sign, scalars that are learned, each form, and one that reads cosines.
FEW = ["softmax", "cog", "softmax_off_by_one", "consmax", "centered", "differential_cog", "symmetric", "differential_symmetric_cog", "norm"]


def made(kind, *args, seed=0, **options):
    """A layer in float64 whose parameters all matter."""
    torch.manual_seed(seed)
    layer = kind(WIDTH, HEADS, *args, **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer.double()


def attention(mechanism, **options):
    layer = made(cogwheel.nn.Attention, mechanism, **options)
    layer.depth = options.get("depth", 0)  # for the formula
    return layer


def inputs(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def weights_of(layer):
    return dict(layer.named_parameters())


def expect_equal(layer, found, expected, leaves, tolerance=1e-9):
    """Outputs, and the gradients of leaves and of all parameters."""
    factor = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    everything = [*leaves, *layer.parameters()]
    gradients = [
        torch.autograd.grad((output * factor).sum(), everything, retain_graph=True, allow_unused=True)
        for output in (found, expected)
    ]
    names = [*("x memory".split()[: len(leaves)]), *weights_of(layer)]
    for name, one, other in zip(["output", *names], [found, *gradients[0]], [expected, *gradients[1]], strict=True):
        one, other = (torch.zeros(()) if each is None else each for each in (one, other))
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, msg=lambda text: f"{name}: {text}")  # noqa: B023


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mechanism", PAIRWISE + DENSE)
@pytest.mark.diagonal("mechanism", "causal")
def test_attention_is_its_formula(mechanism, causal):
    layer = attention(mechanism, causal=causal, depth=2)
    x = inputs(2, TOKENS, WIDTH)
    expect_equal(layer, layer(x), plain_layers.attention(weights_of(layer), x, layer)[0], [x], 1e-8)


@pytest.mark.parametrize("mechanism", PAIRWISE + DENSE + RECURRENT)
def test_is_the_layer_of_cpp_bit_for_bit(mechanism):
    kinds = [("paper",), ("plain",)] if mechanism in RECURRENT else [()]
    for (*layer_kind,) in kinds:
        if mechanism in RECURRENT:
            layer = made(cogwheel.nn.RecurrentAttention, mechanism, layer=layer_kind[0], context=CONTEXT, depth=1, layers=3).float()
        else:
            turned = cogwheel.nn.Rotary(WIDTH // HEADS, CONTEXT)
            layer = attention(mechanism, causal=True, rotary=turned, depth=1).float()
        x = inputs(2, TOKENS, WIDTH).detach().float().requires_grad_()
        leaves = [x, *layer.parameters()]
        passes = layer(x), layer.run_with_hooks(x)  # the latter is computed by C++
        found, expected = ([each, *torch.autograd.grad(each.square().sum(), leaves)] for each in passes)
        assert all(map(torch.equal, found, expected))
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(layer(x), layer.run_with_hooks(x))


OPTIONS = {
    "grouped": {"key_value_heads": 2},
    "window": {"causal": True, "window": 4},
    "turned": {"causal": True, "rotary": cogwheel.nn.Rotary(WIDTH // HEADS, CONTEXT, 500.0)},
    "turned halves": {"rotary": cogwheel.nn.Rotary(WIDTH // HEADS, CONTEXT, halves=True)},
    "without biases": {"bias": False},
    "wide heads": {"head_dim": 16, "key_value_heads": 2, "causal": True, "rotary": cogwheel.nn.Rotary(16, CONTEXT, scaling="linear", factor=2)},
    "narrow heads": {"head_dim": 8},
    "normed": {"query_key_norm": True, "norm_epsilon": 1e-3, "rotary": cogwheel.nn.Rotary(WIDTH // HEADS, CONTEXT)},
    "scaled": {"rotary": cogwheel.nn.Rotary(WIDTH // HEADS, CONTEXT, 100.0, scaling="llama3", factor=4, low_frequency=0.5, original_context=60)},
    "alibi": {"causal": True, "alibi": True, "window": 6},
    "head norm": {"head_norm_epsilon": 1e-2},
    **{score: {"score": score} for score in ("general", "cosine", "additive", "concat")},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mechanism", FEW)
@pytest.mark.diagonal("mechanism", "options")
def test_options_are_in_the_formula(mechanism, options):
    refused = mechanism in TIED and options in ("grouped", "wide heads") or mechanism == "norm" and options in ("general", "additive", "concat", "alibi")
    if refused:
        with pytest.raises(ValueError, match="key_value_heads|score|alibi"):
            attention(mechanism, **OPTIONS[options])
        return
    layer = attention(mechanism, **OPTIONS[options])
    x = inputs(2, TOKENS, WIDTH)
    expect_equal(layer, layer(x), plain_layers.attention(weights_of(layer), x, layer)[0], [x], 1e-8)
    assert torch.equal(layer.run_with_hooks(x), layer(x))


@pytest.mark.parametrize("mechanism", ["softmax", "cog", "differential", "consmax"])
def test_memory_lengths_biases_positions_and_weights(mechanism):
    layer = attention(mechanism, key_value_heads=2)
    weights = weights_of(layer)
    x, memory, lengths = inputs(2, TOKENS, WIDTH), inputs(2, 7, WIDTH, seed=5), torch.tensor([3, 7])
    expected = plain_layers.attention(weights, x, layer, memory=memory, lengths=lengths)
    found = layer(x, memory, key_lengths=lengths, need_weights=True)
    expect_equal(layer, found[0], expected[0], [x, memory])
    torch.testing.assert_close(found[1], expected[1])
    torch.testing.assert_close(layer.run_with_hooks(x, memory, key_lengths=lengths), found[0], rtol=1e-12, atol=1e-12)
    lengths = torch.tensor([11, 4])
    expect_equal(layer, layer(x, key_lengths=lengths), plain_layers.attention(weights, x, layer, lengths=lengths)[0], [x])
    bias = inputs(1, 1, TOKENS, TOKENS).detach().masked_fill(torch.rand(TOKENS, TOKENS).triu(1) > 0.5, -torch.inf)
    expect_equal(layer, layer(x, bias=bias), plain_layers.attention(weights, x, layer, bias=bias)[0], [x])
    turned = attention(mechanism, rotary=cogwheel.nn.Rotary(WIDTH // HEADS, CONTEXT))
    positions = torch.randint(CONTEXT, (2, TOKENS))
    expected = plain_layers.attention(weights_of(turned), x, turned, positions=positions)[0]
    expect_equal(turned, turned(x, positions=positions), expected, [x])


@pytest.mark.parametrize("layer", ["paper", "plain"])
@pytest.mark.parametrize("mechanism", RECURRENT)
def test_recurrent_attention_is_its_formula(mechanism, layer):
    made_layer = made(cogwheel.nn.RecurrentAttention, mechanism, layer=layer, depth=1, layers=3, context=CONTEXT)
    x = inputs(2, TOKENS, WIDTH)
    expected = plain_layers.recurrent(weights_of(made_layer), x, made_layer, layer == "paper", 1, 3, CONTEXT)
    expect_equal(made_layer, made_layer(x), expected, [x], 1e-8)


def layers_of_every_kind():
    for mechanism in FEW + ["polynomial"]:
        yield mechanism, lambda mechanism=mechanism: attention(mechanism, causal=True, rotary=cogwheel.nn.Rotary(WIDTH // HEADS, CONTEXT))
    for mechanism in RECURRENT:
        yield mechanism, lambda mechanism=mechanism: made(cogwheel.nn.RecurrentAttention, mechanism, context=CONTEXT)
    yield "block", lambda: made(cogwheel.nn.Block, "cog", causal=True)
    yield "block after", lambda: made(cogwheel.nn.Block, "gla", norm="rms", norm_place="after", activation="swiglu")


EVERY_KIND = dict(layers_of_every_kind())
each_kind = pytest.mark.parametrize("kind", EVERY_KIND)


@each_kind
def test_packed_is_each_sequence_alone(kind):
    layer, x = EVERY_KIND[kind](), inputs(1, TOKENS, WIDTH)
    ends = [0, 1, 3, 3, 8, TOKENS]
    if kind == "polynomial":
        pytest.skip("rotations of a packed sequence need positions, which the others have in common")
    starts = torch.cat([torch.arange(end - begin) for begin, end in itertools.pairwise(ends)])
    positions = {} if kind in RECURRENT else {"positions": starts[None]}
    alone = [layer(x[:, begin:end]) for begin, end in itertools.pairwise(ends) if begin < end]
    expect_equal(layer, layer(x, cu_seqlens=torch.tensor(ends), **positions), torch.cat(alone, 1), [x])


@each_kind
def test_cached_is_the_whole(kind):
    layer, x = EVERY_KIND[kind](), inputs(3, TOKENS, WIDTH).detach()
    if kind == "polynomial":
        with pytest.raises(ValueError, match="cache: expected a mechanism whose rows stand alone, got polynomial"):
            layer.make_cache(3, TOKENS)
        return
    whole, cache = layer(x), layer.make_cache(3, TOKENS)
    parts = [layer(x[:, begin:end], cache=cache) for begin, end in itertools.pairwise([0, 1, 2, 4, 9])]
    torch.testing.assert_close(torch.cat(parts, 1), whole[:, :9])
    forked = cache.fork([2, 0])
    torch.testing.assert_close(layer(x[[2, 0], 9:], cache=forked), whole[[2, 0], 9:])
    torch.testing.assert_close(layer(x[:, 9:], cache=cache), whole[:, 9:])  # of which the fork took nothing
    cache.crop(9)  # before the last pass, which any layer can undo
    torch.testing.assert_close(layer(x[:, 9:], cache=cache), whole[:, 9:])
    cache.crop(torch.tensor([0, 11, 0]))
    assert cache.lengths.tolist() == [0, 11, 0]


def test_a_cache_of_a_memory_is_made_once():
    layer = attention("cog")
    x, memory, lengths = inputs(2, TOKENS, WIDTH).detach(), inputs(2, 7, WIDTH, seed=5).detach(), torch.tensor([3, 7])
    whole, cache = layer(x, memory, key_lengths=lengths), layer.make_cache(2, of_memory=True)
    with pytest.raises(ValueError, match="memory: expected .* in the first pass with this cache, got none"):
        layer(x, cache=cache)
    torch.testing.assert_close(layer(x[:, :4], memory, key_lengths=lengths, cache=cache), whole[:, :4])
    torch.testing.assert_close(layer(x[:, 4:], cache=cache), whole[:, 4:])
    torch.testing.assert_close(layer(x[[1]], cache=cache.fork([1])), whole[[1]])
    block = made(cogwheel.nn.Block, "softmax", causal=True, memory=True)
    whole, cache = block(x, memory, memory_lengths=lengths), block.make_cache(2, TOKENS)
    torch.testing.assert_close(block.run_with_hooks(x, memory, memory_lengths=lengths), whole)
    first = block(x[:, :4], memory, memory_lengths=lengths, cache=cache)
    torch.testing.assert_close(torch.cat([first, block(x[:, 4:], cache=cache)], 1), whole)


@each_kind
def test_is_a_module_of_pytorch(kind):
    """Copies, pickles, functional_call, one graph, the meta device, and what is exported."""
    layer, x = EVERY_KIND[kind]().float(), inputs(2, TOKENS, WIDTH).detach().float()
    expected = layer(x)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), expected) and type(other) is type(layer)
        with torch.no_grad():
            next(other.parameters()).add_(1)
        assert torch.equal(layer(x), expected)
    twice = {name: 2 * tensor.detach() for name, tensor in layer.named_parameters()}
    other = copy.deepcopy(layer)
    other.load_state_dict(layer.state_dict())
    with torch.no_grad():
        for name, tensor in other.named_parameters():
            tensor.copy_(twice[name])
    assert torch.equal(torch.func.functional_call(layer, twice, (x,)), other(x))
    assert torch.equal(torch.func.functional_call(layer, twice, (x,)), torch.func.functional_call(other, {}, (x,)))
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), expected)
    longer = torch.cat([x, x], 1)
    assert torch.equal(compiled(longer), layer(longer))  # of other sizes
    exported = torch.export.export(layer, (x,), strict=False)
    assert torch.equal(exported.module()(x), expected)
    nowhere = copy.deepcopy(layer).to("meta")
    assert nowhere(torch.empty(2, TOKENS, WIDTH, device="meta")).shape == expected.shape
    assert all(parameter.dtype == torch.float32 for parameter in layer.parameters())
    assert layer.to(torch.bfloat16)(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.slow
def test_compiled_code_has_the_numbers():
    for kind in ("cog", "gated_deltanet", "block"):
        layer, x = EVERY_KIND[kind]().float(), inputs(2, TOKENS, WIDTH).detach().float()
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x), layer(x), rtol=1e-5, atol=1e-5)


def test_new_layers_follow_the_seed_and_learn():
    for kind, options in ((cogwheel.nn.Attention, {}), (cogwheel.nn.RecurrentAttention, {}), (cogwheel.nn.Block, {"causal": True})):
        states = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            states.append(kind(WIDTH, HEADS, **options).state_dict())
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
        assert not all(torch.equal(states[0][name], states[2][name]) for name in states[0])
        layer = kind(WIDTH, HEADS, **options)
        layer(torch.randn(2, 5, WIDTH)).square().sum().backward()
        assert all(parameter.grad is not None for parameter in layer.parameters())
    with torch.device("meta"):
        assert all(parameter.is_meta for parameter in cogwheel.nn.Block(WIDTH, HEADS, "rwkv6").parameters())


def test_dropout_is_of_weights_in_training():
    torch.manual_seed(0)
    layer = cogwheel.nn.Attention(WIDTH, HEADS, "cog", dropout=0.5)
    x = torch.randn(2, TOKENS, WIDTH)
    torch.manual_seed(3)
    dropped = layer(x)
    torch.manual_seed(3)
    out, weights = layer(x, need_weights=True)
    assert torch.equal(out, dropped) and 0.3 < (weights == 0).float().mean() < 0.7
    torch.manual_seed(3)
    assert torch.equal(layer.run_with_hooks(x), dropped)
    layer.eval()
    assert torch.equal(layer(x), layer(x)) and not torch.equal(layer(x), dropped)
    block = cogwheel.nn.Block(WIDTH, HEADS, dropout=0.5)
    assert not torch.equal(block(x), block(x)) and torch.equal(block.eval()(x), block(x))


@pytest.mark.parametrize("bias", [True, False])
def test_takes_the_weights_of_multihead_attention(bias):
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, dropout=0.1, batch_first=True).eval()
    ours, x = cogwheel.nn.from_multihead_attention(theirs), torch.randn(2, TOKENS, WIDTH)
    expected = theirs(x, x, x, average_attn_weights=False)
    for found, wanted in zip(ours(x, need_weights=True), expected, strict=True):
        torch.testing.assert_close(found, wanted)
    memory = torch.randn(2, 5, WIDTH)
    torch.testing.assert_close(ours(x, memory), theirs(x, memory, memory)[0])
    assert ours.dropout == 0.1 and not ours.training
    assert cogwheel.nn.from_multihead_attention(theirs, "cog", causal=True).mechanism == "cog"
    for wrong, message in (
        (nn.MultiheadAttention(WIDTH, HEADS, kdim=8), "a module without kdim and vdim, got one with"),
        (nn.MultiheadAttention(WIDTH, HEADS, add_bias_kv=True), "a module without add_bias_kv, got one with"),
        (nn.MultiheadAttention(WIDTH, HEADS, add_zero_attn=True), "a module without add_zero_attn, got one with"),
    ):
        with pytest.raises(ValueError, match=message):
            cogwheel.nn.from_multihead_attention(wrong)
    with pytest.raises(ValueError, match="mechanism: expected one with keys of its own, got symmetric"):
        cogwheel.nn.from_multihead_attention(theirs, "symmetric")


def test_hooks_in_a_model_of_ones_own():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = cogwheel.nn.Attention(WIDTH, HEADS, "cog", causal=True)
            self.between = nn.Linear(WIDTH, WIDTH)
            self.rest = nn.ModuleList([cogwheel.nn.RecurrentAttention(WIDTH, HEADS, "gla"), cogwheel.nn.Block(WIDTH, HEADS, "differential")])

        def forward(self, x, scale=1.0):
            x = self.between(self.first(x)).relu()
            for layer in self.rest:
                x = x + scale * layer(x)
            return x

    torch.manual_seed(0)
    model, x = Own(), torch.randn(2, TOKENS, WIDTH)
    expected = model(x, scale=0.5)
    names = cogwheel.nn.hook_names(model)
    assert {"first.hook_pattern", "rest.0.hook_z", "rest.1.attn.hook_pattern_members", "rest.1.hook_resid_pre"} <= set(names)
    out, cache = cogwheel.nn.run_with_cache(model, x, scale=0.5)
    assert torch.equal(out, expected) and set(cache) < set(names)
    weights = model.first(x, need_weights=True)[1]
    assert torch.equal(cache["first.hook_pattern"], weights)
    assert cache["rest.0.hook_pattern"].shape == (2, HEADS, TOKENS, TOKENS)
    seen = []
    zeroed = cogwheel.nn.run_with_hooks(
        model, x, scale=0.5,
        fwd_hooks=[("first.hook_z", lambda value, point: torch.zeros_like(value)), (lambda name: name.endswith("hook_q"), lambda value, point: seen.append(point.name))],
        bwd_hooks=[("rest.1.attn.hook_pattern", lambda gradient, point: seen.append(gradient.shape))],
    )  # fmt: skip
    assert not torch.equal(zeroed, expected) and seen == ["first.hook_q", "rest.0.hook_q", "rest.1.attn.hook_q"]
    zeroed.sum().backward()
    assert seen[-1] == (2, HEADS // 2, TOKENS, TOKENS)
    assert torch.equal(model(x, scale=0.5), expected), "nothing stays"
    assert torch.equal(model.first.run_with_cache(x)[1]["hook_pattern"], weights)
    with pytest.raises(ValueError, match="expected a name of hook_names.module., got first.hook_zz"):
        cogwheel.nn.run_with_hooks(model, x, fwd_hooks=[("first.hook_zz", lambda *_: None)])
    with pytest.raises(ValueError, match="a module with layers of cogwheel.nn inside, got Linear without any"):
        cogwheel.nn.hook_names(model.between)
    model.first.output = nn.Identity()
    with pytest.raises(ValueError, match="the layer's own modules, got Identity in the place of output$"):
        cogwheel.nn.run_with_cache(model, x)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: cogwheel.nn.Attention(50, 4), "heads: expected a divisor of the width .50., got 4"),
        (lambda: cogwheel.nn.Attention(48, 4, "gla"), "mechanism of an attention layer: expected one without a state, got gla"),
        (lambda: cogwheel.nn.RecurrentAttention(48, 4, "cog"), "mechanism of a recurrent layer: expected one with a state, got cog"),
        (lambda: cogwheel.nn.Attention(48, 4, "cogg"), "mechanism: expected .*cog.*, got cogg"),
        (lambda: cogwheel.nn.Attention(48, 3, "differential"), "heads: expected an even number for differential, got 3"),
        (lambda: cogwheel.nn.Attention(48, 4, key_value_heads=3), "key_value_heads: expected a divisor"),
        (lambda: cogwheel.nn.Attention(48, 4, window=3), "window: expected causal attention beside it, got causal=False"),
        (lambda: cogwheel.nn.Attention(48, 4, causal=True, window=0), "window: expected at least 1, got 0"),
        (lambda: cogwheel.nn.Attention(48, 4, dropout=1.0), "dropout: expected 0 to below 1, got 1.0"),
        (lambda: cogwheel.nn.Attention(48, 4, score="cosines"), "score: expected .*cosine.*, got cosines"),
        (lambda: cogwheel.nn.RecurrentAttention(48, 4, layer="papers"), "layer: expected paper or plain, got papers"),
        (lambda: cogwheel.nn.RecurrentAttention(48, 4, "gla", negative=True), "option: expected .*negative_eigenvalues.*, got negative"),
        (lambda: cogwheel.nn.Block(48, 4, activation="relu"), "activation: expected .*gelu.*, got relu"),
        (lambda: cogwheel.nn.Block(48, 4, norm="batch"), "norm: expected one of layer, rms, got batch"),
        (lambda: cogwheel.nn.Rotary(7, 4), "rotary: head_dim: expected an even number, got 7"),
        (lambda: cogwheel.nn.Attention(48, 4)(torch.zeros(2, 3, 40)), "x: expected .batch, tokens, 48., got .2, 3, 40."),
        (lambda: cogwheel.nn.Attention(48, 4)(torch.zeros(3, 48)), "x: expected .batch, tokens, 48., got .3, 48."),
        (lambda: cogwheel.nn.Attention(48, 4, "symmetric")(torch.zeros(1, 3, 48), torch.zeros(1, 3, 48)), "memory: expected none for symmetric"),
        (lambda: cogwheel.nn.Attention(48, 4).make_cache(1, 4), "cache: expected causal attention, got attention to later tokens too"),
        (lambda: cogwheel.nn.Block(48, 4)(torch.zeros(1, 3, 48), torch.zeros(1, 3, 48)), "memory: expected none, for the block has no memory, got one"),
        (lambda: cogwheel.nn.Block(48, 4, memory=True)(torch.zeros(1, 3, 48)), "memory: expected one, got none"),
        (
            lambda: cogwheel.nn.Attention(48, 4, device="meta")(torch.empty(1, 30_000, 48, device="meta"), need_weights=True),
            "need_weights: expected up to 2147483647 weights, got 3600000000",
        ),
        (
            lambda: cogwheel.nn.Attention(48, 4).run_with_hooks(torch.zeros(1, 3, 48), bias=torch.zeros(3, 3)),
            "hooks: expected a pass without bias, got one with",
        ),
    ],
)  # fmt: skip
def test_bad_input_gets_a_line(make, message):
    with pytest.raises(ValueError, match=message) as raised:
        make()
    assert "\n" not in str(raised.value)


@pytest.mark.alone
def test_a_call_costs_little_beside_its_operators():
    """A layer written by hand over the same operators, and ours; µs of one thread, the best of several rounds that take turns."""
    import time

    torch.set_num_threads(1)
    plain = torch.ops.cogwheel.attention.plain
    ours, x = cogwheel.nn.Attention(64, 4, "cog", causal=True), torch.randn(1, 16, 64)

    class ByHand(nn.Module):
        def __init__(self):
            super().__init__()
            self.projection, self.output = ours.query_key_value, ours.output

        def forward(self, x):
            parts = self.projection(x).split_with_sizes((64, 64, 64), -1)
            heads = [part.view(1, 16, 4, 16).transpose(1, 2) for part in parts]
            return self.output(plain(*heads, "cog", True).transpose(1, 2).flatten(2))

    by_hand, least = ByHand(), {}
    with torch.no_grad():
        assert torch.equal(by_hand(x), ours(x))
        for _ in range(30):
            for name, layer in (("by hand", by_hand), ("ours", ours)):
                begin = time.perf_counter()
                for _ in range(300):
                    layer(x)
                least[name] = min(least.get(name, 1.0), (time.perf_counter() - begin) / 300)
            if 1e6 * (least["ours"] - least["by hand"]) <= 20:
                break
    print({name: f"{1e6 * time:.1f} µs" for name, time in least.items()})
    assert least["ours"] <= 1.6 * least["by hand"], least


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def test_hooks_are_refused_where_the_pass_of_cpp_would_not_see_a_module():
    """An adapter, a subclass, a hook of torch.nn, on the layer or within it."""
    layer, x = attention("cog", causal=True), inputs(2, TOKENS, WIDTH)
    block = made(cogwheel.nn.Block, "cog", causal=True)
    for module, place, got in ((layer, layer.output, "a hook"), (block, block.attention, "a hook"), (layer, layer, "a hook of its own")):
        for register in (place.register_forward_hook, place.register_forward_pre_hook):
            handle = register(lambda *_: None)
            with pytest.raises(ValueError, match="hooks"):
                module.run_with_cache(x)
            handle.remove()
        assert torch.equal(module.run_with_cache(x)[0], module(x)), got
    layer.output = Doubled(WIDTH, WIDTH, dtype=torch.float64)
    with pytest.raises(ValueError, match="^hooks: expected the layer's own modules, got Doubled in the place of output$"):
        layer.run_with_hooks(x)


def test_a_memory_has_no_rotary_places():
    layer = attention("cog", rotary=cogwheel.nn.Rotary(WIDTH // HEADS, CONTEXT))
    x, memory = inputs(2, TOKENS, WIDTH), inputs(2, 7, WIDTH, seed=5)
    output, cache = layer.run_with_cache(x, memory)
    torch.testing.assert_close(output, layer(x, memory), rtol=1e-12, atol=1e-12)
    assert "hook_rot_q" not in cache and "hook_pattern" in cache and "hook_rot_q" in layer.run_with_cache(x)[1]


def test_a_refused_call_leaves_the_cache():
    layer, x = attention("cog", causal=True), inputs(2, TOKENS, WIDTH).detach()
    cache = layer.make_cache(2, CONTEXT)
    layer(x, cache=cache)
    bad = {"key_lengths": torch.tensor([3, 4])}, {"cu_seqlens": torch.tensor([0, 2])}, {"bias": torch.zeros(9, 9, dtype=torch.float64)}
    for options in bad:
        with pytest.raises(ValueError):
            layer(x[:, :2], cache=cache, **options)
        assert cache.lengths.tolist() == [TOKENS, TOKENS]
    for entries in (1, 3):
        other = layer.make_cache(entries, CONTEXT)
        with pytest.raises(ValueError, match=f"^attention: cache: expected one of 2 texts, got one of {entries}$"):
            layer(x, cache=other)
    memory = inputs(2, 7, WIDTH).detach()
    with pytest.raises(ValueError, match="^attention: cache: expected that of make_cache.batch, of_memory=True. beside a memory, got a KeyValueCache$"):
        layer(x, memory, cache=cache)
    kept = layer.make_cache(2, of_memory=True)
    layer(x, memory, cache=kept)
    with pytest.raises(ValueError, match="^attention: memory: expected it once, .*$"):
        layer(x, memory, cache=kept)


@pytest.mark.parametrize("mechanism", RECURRENT)
def test_caches_of_states_that_do_not_fit(mechanism):
    layer, x = made(cogwheel.nn.RecurrentAttention, mechanism, context=CONTEXT), inputs(2, TOKENS, WIDTH).detach()
    with pytest.raises(ValueError, match="^recurrent attention: cache: expected one of 2 texts, got one of 3$"):
        layer(x, cache=layer.make_cache(3))
    cache = layer.make_cache(2)
    whole = layer(x)
    parts = [layer(part, cache=cache) for part in x.split([4, TOKENS - 4], 1)]
    assert layer(x[:, :0], cache=cache).shape == (2, 0, WIDTH) and cache.lengths.tolist() == [TOKENS, TOKENS]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-9, atol=1e-9)
    for ends in ([0, 2, 12], [1, TOKENS], [0, 5, 4, TOKENS]):
        with pytest.raises(ValueError, match="cu_seqlens"):
            layer(x[:1], cu_seqlens=torch.tensor(ends))


@pytest.mark.parametrize("mechanism", ["cog", "differential"])
def test_no_texts_and_no_tokens(mechanism):
    layer = attention(mechanism, causal=True)
    for batch, tokens in ((0, TOKENS), (2, 0)):
        assert layer(torch.zeros(batch, tokens, WIDTH, dtype=torch.float64)).shape == (batch, tokens, WIDTH)


def test_a_cache_under_autocast():
    layer, x = attention("cog", causal=True).float(), inputs(2, TOKENS, WIDTH).detach().float()
    before = layer.make_cache(2, CONTEXT)
    with torch.autocast("cpu", torch.bfloat16):
        within = layer.make_cache(2, CONTEXT)
        whole = layer(x)
        for cache, dtype in ((before, torch.float32), (within, torch.bfloat16)):
            assert cache.dtype == dtype
            steps = torch.cat([layer(part, cache=cache) for part in x.split(1, 1)], 1)
            assert (steps - whole).norm() < 0.05 * whole.norm()


def test_arguments_that_do_not_fit():
    refusals = {
        "rotary: expected positions for head_dim 12, got them for 8": lambda: cogwheel.nn.Attention(WIDTH, HEADS, rotary=cogwheel.nn.Rotary(8, 4)),
        "rotary: positions: expected at least 1, got 0": lambda: cogwheel.nn.Rotary(8, 0),
        "rotary: expected none for mamba, whose state says what came before, got one": lambda: cogwheel.nn.Block(
            WIDTH, HEADS, "mamba", rotary=cogwheel.nn.Rotary(WIDTH // HEADS, 4)
        ),
        "rotary: expected a cogwheel.nn.Rotary or None, got a bool": lambda: cogwheel.nn.Attention(WIDTH, HEADS, rotary=True),
        r"attention: x: expected \[batch, tokens, 48\], got a list": lambda: cogwheel.nn.Attention(WIDTH, HEADS)([1.0]),
        r"recurrent attention: x: expected \[batch, tokens, 48\], got a list": lambda: cogwheel.nn.RecurrentAttention(WIDTH, HEADS)([1.0]),
        "from_multihead_attention: module: expected a torch.nn.MultiheadAttention, got a Linear": lambda: cogwheel.nn.from_multihead_attention(
            nn.Linear(2, 2)
        ),
        "dropout: expected 0 to below 1, got 2.0": lambda: cogwheel.nn.Block(WIDTH, HEADS, dropout=2.0),
        "block: memory_lengths: expected none, for the block has no memory, got some": lambda: cogwheel.nn.Block(WIDTH, HEADS)(
            torch.zeros(1, 2, WIDTH), memory_lengths=torch.tensor([1])
        ),
    }
    for message, call in refusals.items():
        with pytest.raises(ValueError, match=f"^{message}$"):
            call()
