"""The hooks of softmax models against TransformerLens on the same weights, where it is installed."""

import subprocess

import pytest
import torch

import cogwheel

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
bridge = pytest.importorskip("transformer_lens.model_bridge", reason="transformer_lens is not installed")

CONFIG = """
[model]
mechanism = "softmax"
layers = 3
heads = 4
width = 32
context = 16
{model}
[training]
steps = 20
batch = 4
learning_rate = 0.02
curve_tokens = 16
"""
FORMS = {
    "gpt": 'form = "gpt"',
    "llama": 'form = "llama"\nposition = "rotary_halves"',
    "grouped": 'form = "llama"\nposition = "rotary_halves"\nkey_value_heads = 2',
}


def as_gpt2(model):
    options, weights = model.options, dict(model.named_parameters())
    config = transformers.GPT2Config(
        vocab_size=options["vocabulary"], n_positions=options["context"], n_embd=32, n_layer=3, n_head=4,
        activation_function="gelu", resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    names = {"transformer.wte.weight": "token_embedding", "transformer.wpe.weight": "position_embedding",
             "transformer.ln_f.weight": "final_norm.weight"}  # fmt: skip
    for layer in range(3):
        for there, here in {"ln_1": "attention_norm", "ln_2": "feed_forward_norm", "attn.c_attn": "attention.query_key_value",
                            "attn.c_proj": "attention.output", "mlp.c_fc": "feed_forward.up",
                            "mlp.c_proj": "feed_forward.out"}.items():  # fmt: skip
            names[f"transformer.h.{layer}.{there}.weight"] = f"layers.{layer}.{here}.weight"
    state = {there: weights[here].T if ".c_" in there else weights[here] for there, here in names.items()}
    return transformers.GPT2LMHeadModel(config), state


def as_llama(model):
    options, weights = model.options, dict(model.named_parameters())
    shared = options["key_value_heads"] or 4
    config = transformers.LlamaConfig(
        vocab_size=options["vocabulary"], max_position_embeddings=options["context"], hidden_size=32,
        num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=shared, rms_norm_eps=1e-6,
        intermediate_size=weights["layers.0.feed_forward.out.weight"].shape[1], tie_word_embeddings=False,
    )  # fmt: skip
    state = {"model.embed_tokens.weight": weights["token_embedding"], "model.norm.weight": weights["final_norm.weight"],
             "lm_head.weight": weights["head.weight"]}  # fmt: skip
    for layer in range(3):
        here, there = f"layers.{layer}.", f"model.layers.{layer}."
        query, key, value = weights[here + "attention.query_key_value.weight"].split([32, 8 * shared, 8 * shared])
        gate, up = weights[here + "feed_forward.up.weight"].chunk(2)
        state |= {
            there + "self_attn.q_proj.weight": query, there + "self_attn.k_proj.weight": key,
            there + "self_attn.v_proj.weight": value, there + "self_attn.o_proj.weight": weights[here + "attention.output.weight"],
            there + "mlp.gate_proj.weight": gate, there + "mlp.up_proj.weight": up,
            there + "mlp.down_proj.weight": weights[here + "feed_forward.out.weight"],
            there + "input_layernorm.weight": weights[here + "attention_norm.weight"],
            there + "post_attention_layernorm.weight": weights[here + "feed_forward_norm.weight"],
        }  # fmt: skip
    return transformers.LlamaForCausalLM(config), state


@pytest.fixture(scope="module", params=FORMS)
def pair(request, cogwheel_executable, tmp_path_factory):
    """Ours, and TransformerLens' over the same weights."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 60)
    (folder / "run.toml").write_text(CONFIG.format(model=FORMS[request.param]))
    command = [cogwheel_executable, "train", "run.toml", "--text", "text.txt", "--out", "run"]
    subprocess.run([str(word) for word in command], cwd=folder, check=True, capture_output=True)
    ours = cogwheel.LanguageModel.load(folder / "run")
    foreign, state = (as_gpt2 if request.param == "gpt" else as_llama)(ours)
    with torch.no_grad():
        for name, tensor in foreign.named_parameters():
            if name in state:
                tensor.copy_(state[name])
            else:
                assert name.endswith("bias"), name
                tensor.zero_()
    foreign.eval()
    foreign.config._attn_implementation = "eager"
    foreign.config.save_pretrained(folder / "config")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0}, unk_token="a"))  # they want one
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, bos_token="a", eos_token="a", pad_token="a")
    tokenizer.save_pretrained(folder / "config")
    theirs = bridge.TransformerBridge.boot_transformers(str(folder / "config"), hf_model=foreign)
    theirs.set_use_attn_result(True)
    return ours, theirs


def tokens_of(ours):
    return torch.randint(ours.options["vocabulary"], (2, 11), generator=torch.Generator().manual_seed(1))


def test_activations_are_theirs(pair):
    ours, theirs = pair
    tokens = tokens_of(ours)
    with torch.no_grad():
        logits, cache = ours.run_with_cache(tokens, names=lambda name: True)
        expected, foreign = theirs.run_with_cache(tokens)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)
    common = [name for name in cache if name in foreign.keys()]
    for layer in range(3):
        for name in ("hook_resid_pre", "ln1.hook_scale", "attn.hook_q", "attn.hook_pattern", "attn.hook_z", "mlp.hook_post"):
            assert f"blocks.{layer}.{name}" in common
    for name in common:
        got, wanted = cache[name], foreign[name]
        assert got.shape == wanted.shape, name
        hidden = wanted < -1e30  # theirs is the least finite number
        assert torch.equal(hidden, got == -torch.inf), name
        torch.testing.assert_close(got.where(~hidden, 0), wanted.where(~hidden, 0), rtol=0, atol=1e-5, msg=name)


def test_patches_have_their_effect(pair):
    """Activation patching from another text, head by head and place by place."""
    ours, theirs = pair
    tokens = tokens_of(ours)
    other = tokens.flip(0)
    with torch.no_grad():
        _, cache = ours.run_with_cache(other)
        for name in (f"blocks.{layer}.{place}" for layer in range(3) for place in ("hook_resid_pre", "attn.hook_z", "hook_mlp_out")):

            def patch(value, hook, source=cache[name]):
                return torch.cat([value[:, :5], source[:, 5:]], 1)

            got = ours.run_with_hooks(tokens, fwd_hooks=[(name, patch)])
            expected = theirs.run_with_hooks(tokens, fwd_hooks=[(name, patch)])
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-4, msg=name)
            assert (got - ours(tokens)).abs().max() > 1e-3
