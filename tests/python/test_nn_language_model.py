"""cogwheel.nn.LanguageModel: new models, and those of runs, as one kind of module."""

import copy
import itertools
import pickle

import pytest
import torch
from torch.nn import functional as F

import cogwheel

VOCABULARY, CONTEXT = 30, 24
PATTERNS = {
    "gpt": {"mechanism": "softmax+cog*2+differential", "form": "gpt"},
    "llama": {"mechanism": "symmetric+consmax+differential_cog", "form": "llama", "key_value_heads": 4},
    "grouped": {"mechanism": "softmax_off_by_one+sigmoid", "form": "llama", "position": "rotary_halves", "key_value_heads": 2, "bias": True},
    "wide": {
        "mechanism": "cog+gla+differential+softmax", "form": "llama", "head_dim": 12, "key_value_heads": 2, "query_key_norm": True,
        "window": 4, "projection_bias": True, "norm_epsilon": 1e-5, "head_norm_epsilon": 1e-4, "rotary_scaling": "llama3",
        "rotary_factor": 2.0, "rotary_original_context": 8,
    },
    "alibi": {"mechanism": "softmax+cog+differential+sigmoid", "position": "alibi", "activation": "gelu_tanh", "heads": 6, "width": 48},
    "states": {"mechanism": "gla+mamba2+rwkv6+deltanet", "position": "none"},
    "others": {"mechanism": "abc+mlstm+mamba+cosformer", "recurrent_layer": "plain"},
    "mixed": {"mechanism": "cog+gated_deltanet+polynomial", "first_softmax_layers": 1},
}
each_pattern = pytest.mark.parametrize("pattern", PATTERNS)


def model_of(pattern, **more):
    torch.manual_seed(0)
    options = {"layers": 4, "heads": 4, "width": 32, "vocabulary": VOCABULARY, "context": CONTEXT} | PATTERNS[pattern]
    return cogwheel.nn.LanguageModel(**options | more)


def tokens_of(*shape):
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(1))


@each_pattern
def test_has_the_bits_of_the_model_that_trains(pattern):
    model, tokens = model_of(pattern), tokens_of(2, 11)
    results = []
    for run in (model, model.run_with_hooks):  # the latter is computed by C++
        logits = run(tokens)
        results.append([logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))])
    assert all(map(torch.equal, *results))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model(tokens), model.run_with_hooks(tokens))


@each_pattern
def test_cached_and_packed_are_the_whole(pattern):
    model, tokens = model_of(pattern).double(), tokens_of(3, 11)
    whole = model(tokens)
    ends = [0, 4, 5, 11]
    if pattern not in ("states",):
        starts = torch.cat([torch.arange(end - begin) for begin, end in itertools.pairwise(ends)])[None]
    else:
        starts = None
    alone = [model(tokens[:1, begin:end]) for begin, end in itertools.pairwise(ends)]
    packed = model(tokens[:1], cu_seqlens=torch.tensor(ends), positions=starts)
    torch.testing.assert_close(packed, torch.cat(alone, 1))
    if pattern == "mixed":
        with pytest.raises(ValueError, match="cache: expected a mechanism whose rows stand alone, got polynomial"):
            model.make_cache(3)
        return
    cache = model.make_cache(3)
    parts = [model(tokens[:, begin:end], cache=cache) for begin, end in itertools.pairwise([0, 6, 7, 8])]
    torch.testing.assert_close(torch.cat(parts, 1), whole[:, :8])
    forked = cache.fork([2, 1])
    torch.testing.assert_close(model(tokens[[2, 1], 8:], cache=forked), whole[[2, 1], 8:])
    torch.testing.assert_close(model(tokens[:, 8:], cache=cache), whole[:, 8:])
    cache.crop(8)
    assert cache.lengths.tolist() == [8] * 3
    torch.testing.assert_close(model(tokens[:, 8:], cache=cache), whole[:, 8:])


def test_padding_is_seen_by_no_token():
    model, tokens, lengths = model_of("grouped"), tokens_of(2, 11), torch.tensor([5, 11])
    changed = tokens.clone()
    changed[0, 5:] = 0
    one, other = (model(each, key_lengths=lengths) for each in (tokens, changed))
    assert torch.equal(one[0, :5], other[0, :5]) and torch.equal(one[1], other[1])


@each_pattern
def test_is_a_module_of_pytorch(pattern):
    model, tokens = model_of(pattern), tokens_of(2, 11)
    expected = model(tokens)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(tokens), expected)
        other.run_with_hooks(tokens, fwd_hooks=[("hook_logits", lambda *_: None)])
    other = model_of(pattern)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(tokens), expected)
    assert torch.equal(torch.func.functional_call(other, dict(model.named_parameters()), (tokens,)), expected)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    for shape in ((2, 11), (2, 17), (1, 5)):
        assert torch.equal(compiled(tokens_of(*shape)), model(tokens_of(*shape)))
    assert torch.equal(torch.export.export(model, (tokens,), strict=False).module()(tokens), expected)
    with torch.device("meta"):
        assert model_of(pattern)(tokens.to("meta")).shape == expected.shape
    assert model.bfloat16()(tokens).dtype == torch.bfloat16


def test_loaded_models_are_the_same_kind(small_runs):
    loaded = cogwheel.load(small_runs("mixed"))
    assert type(loaded) is cogwheel.nn.LanguageModel is cogwheel.LanguageModel
    new = cogwheel.nn.LanguageModel(**loaded.options)
    assert new.options == loaded.options and repr(new) == repr(loaded)
    new.load_state_dict(loaded.state_dict())
    tokens = tokens_of(2, 9) % loaded.options["vocabulary"]
    assert torch.equal(new(tokens), loaded(tokens))
    assert loaded.tokens("the").tolist() == pickle.loads(pickle.dumps(loaded)).tokens("the").tolist()
    with pytest.raises(ValueError, match="expected one of a run, which has a tokenizer, got a new one"):
        new.tokens("the")


def test_learns_with_dropout():
    model, tokens = model_of("gpt", dropout=0.2), tokens_of(8, 16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    losses = []
    for _ in range(30):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    assert not torch.equal(model(tokens), model(tokens))
    model.eval()
    assert torch.equal(model(tokens), model.run_with_hooks(tokens))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda model: model(tokens_of(2, 25)), "tokens: expected .batch, up to 24., got .2, 25."),
        (lambda model: model(tokens_of(2)), "tokens: expected .batch, tokens., got .2."),
        (lambda model: model(tokens_of(1, 2).int()), "tokens: expected int64, got torch.int32"),
        (lambda model: model(torch.full((1, 2), 30)), "tokens: expected numbers of rows that the model has"),
        (lambda model: model(tokens_of(1, 2), cache=cogwheel.nn.ModelCache([])), "cache: expected 4 layers, got 0"),
        (lambda model: model.run_with_hooks(tokens_of(1, 2), cache=model.make_cache(1)), "hooks: expected a pass without cache"),
        (lambda model: cogwheel.nn.LanguageModel(4, 4, 30, 9), "model.*heads: expected a divisor of the width .30., got 4"),
        (lambda model: cogwheel.nn.LanguageModel(4, 4, 32, 9, "cog+cogg"), "model.mechanism.*cogg"),
        (lambda model: cogwheel.nn.LanguageModel(4, 4, 32, 9, positions="none"), "model.positions"),
    ],
)
def test_bad_input_gets_a_line(call, message):
    with pytest.raises(ValueError, match=message) as raised:
        call(model_of("gpt"))
    assert "\n" not in str(raised.value)


def test_a_refused_pass_leaves_every_layer_of_the_cache():
    model = cogwheel.nn.LanguageModel(3, 2, 16, 11, "gla+cog+softmax", context=16).eval()
    tokens, cache = torch.randint(11, (2, 5)), model.make_cache(2)
    model(tokens, cache=cache)
    with pytest.raises(ValueError):
        model(tokens[:, :2], cache=cache, key_lengths=torch.tensor([1, 2]))
    assert [layer.lengths.tolist() for layer in cache.layers] == [[5, 5]] * 3
    with pytest.raises(ValueError, match="^language model: cache: expected one of 2 texts, got one of 3$"):
        model(tokens, cache=model.make_cache(3))
    more = torch.randint(11, (2, 1))
    torch.testing.assert_close(model(more, cache=cache)[:, 0], model(torch.cat([tokens, more], 1))[:, -1], rtol=1e-4, atol=1e-5)
