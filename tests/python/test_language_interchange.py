"""Language models of transformers, which are themselves as runs here, and runs as transformers reads them."""

import json

import pytest
import small_runs
import torch
import transformers
from small_runs import TRAIN
from tensor_files import read_tensors, write_tensors

import cogwheel

# By name: the class that an export must have, the mechanism, and the model.
RUNS = {
    "llama": ("LlamaForCausalLM", "softmax", 'form = "llama"\nkey_value_heads = 2'),
    "llama-tied": (
        "LlamaForCausalLM", "softmax",
        'form = "llama"\nbias = true\ntied_head = true\nposition = "rotary_halves"\nrotary_scaling = "linear"\nrotary_factor = 2.0',
    ),
    "mistral": ("MistralForCausalLM", "softmax", 'form = "llama"\nwindow = 9\nhead_dim = 12\nkey_value_heads = 1\nnorm_epsilon = 1e-5'),
    "qwen2": ("Qwen2ForCausalLM", "softmax", 'form = "llama"\nprojection_bias = true\ntied_head = true'),
    "qwen3": (
        "Qwen3ForCausalLM", "softmax",
        'form = "llama"\nquery_key_norm = true\nhead_dim = 12\nkey_value_heads = 2\nwindow = 11\nrotary_scaling = "llama3"\nrotary_original_context = 40',
    ),
    "gpt2": ("GPT2LMHeadModel", "softmax", 'form = "gpt"'),
    "gpt2-biased": ("GPT2LMHeadModel", "softmax", 'form = "gpt"\nbias = true\nactivation = "gelu_tanh"\ntied_head = false\nhead_bias = false'),
    "diff-llama": (
        "DiffLlamaForCausalLM", "differential",
        'form = "llama"\nkey_value_heads = 2\nnorm_epsilon = 1e-5',
    ),
    "diff-llama-halves": (
        "DiffLlamaForCausalLM", "differential", 'form = "llama"\nposition = "rotary_halves"\nhead_norm_epsilon = 1e-6\ntied_head = true',
    ),
}  # fmt: skip

SIZES = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 96}
GROUPED = SIZES | {"num_key_value_heads": 2}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e3, "factor": 4.0, "low_freq_factor": 0.5, "high_freq_factor": 3.0, "original_max_position_embeddings": 32}
GPT2 = {"vocab_size": 61, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96}
# Made by transformers of a configuration: its class without "ForCausalLM", and its keys.
FOREIGN = {
    "llama": ("Llama", GROUPED | {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "llama-biased": ("Llama", SIZES | {"attention_bias": True, "mlp_bias": True, "head_dim": 16, "rms_norm_eps": 1e-5}),
    "mistral": ("Mistral", GROUPED | {"sliding_window": 7, "head_dim": 12, "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}}),
    "mistral-without": ("Mistral", GROUPED | {"sliding_window": None}),
    "qwen2": ("Qwen2", GROUPED),
    "qwen2-windowed": ("Qwen2", GROUPED | {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}),
    "qwen3": ("Qwen3", GROUPED | {"head_dim": 24}),
    "gpt2": ("GPT2", GPT2 | {"activation_function": "gelu_new", "n_inner": 40}),
    "gpt2-untied": ("GPT2", GPT2 | {"activation_function": "gelu", "tie_word_embeddings": False}),
    "diff-llama": ("DiffLlama", GROUPED | {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4}),
}


@pytest.fixture(scope="module")
def program(cogwheel_executable, tmp_path_factory):
    made = small_runs.Program(cogwheel_executable, tmp_path_factory.mktemp("language"))
    (made.work / "text.txt").write_text("".join(f"The quick brown fox {n} jumps over {n * n} lazy dogs. " for n in range(400)))
    return made


def model_in(folder, **options):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, **options).eval()


def logits_of(model, tokens):
    with torch.no_grad():
        found = model(tokens)
    return found.logits if hasattr(found, "logits") else found


def expect_same_logits(one, other, tokens):
    found, expected = logits_of(one, tokens), logits_of(other, tokens)
    assert expected.std() > 1e-3
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * max(1.0, float(expected.abs().max())))


def weights_of(run):
    return {name.removeprefix("model."): tensor for name, tensor in read_tensors(run / "checkpoint.safetensors").items() if name.startswith("model.")}


def exported_weights(folder):
    return {name: tensor for file in sorted(folder.glob("*.safetensors")) for name, tensor in read_tensors(file).items()}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_is_itself_in_transformers_and_back(program, kind):
    architecture, mechanism, model = RUNS[kind]
    config = TRAIN.format(task="language_modelling", data="", mechanism=mechanism, layers=2, model="context = 96\n" + model, width=32)
    run = program.train(kind, config, "--text", "text.txt", "--set", "data.tokenizer=bpe", "--set", "data.vocabulary=300")
    there, back = program.work / f"{kind}-there", program.work / f"{kind}-back"
    assert architecture in program("export", run, "--out", there).stdout
    loaded, theirs = cogwheel.load(run), model_in(there)
    assert type(theirs).__name__ == architecture
    tokens = torch.randint(loaded.options["vocabulary"], (2, 90), generator=torch.Generator().manual_seed(0))
    # A row of the embedding may have been added, for a token that ends texts.
    expect_same_logits(loaded, lambda given: logits_of(theirs, given)[..., : loaded.options["vocabulary"]], tokens)

    prompt = "The quick brown"
    sampled = json.loads(program("sample", run, "--prompt", prompt, "--length", 64, "--temperature", 0, "--json").stdout)
    tokenizer = transformers.AutoTokenizer.from_pretrained(there)
    ids = tokenizer(prompt, return_tensors="pt", add_special_tokens=False).input_ids
    assert ids[0].tolist() == loaded.tokens(prompt).tolist()
    generated = theirs.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=64, eos_token_id=None, pad_token_id=0)[0]
    assert tokenizer.decode(generated) == prompt + sampled["text"].removeprefix(prompt)

    said = program("import", there, "--text", "text.txt", "--out", back).stdout
    assert architecture in said and "a run of the task language_modelling" in said
    expect_same_logits(cogwheel.load(back), theirs, tokens)
    ours, again = weights_of(run), weights_of(back)
    reordered = loaded.options["position"] == "rotary"
    for name, tensor in ours.items():
        if tensor.shape != again[name].shape:  # with the added row
            assert torch.equal(again[name][: len(tensor)], tensor)
        elif "head_norm" not in name and "attention.output" not in name and not (reordered and ("query" in name or "key" in name)):
            assert torch.equal(again[name], tensor), name
    # What only was permuted comes back bit for bit.
    program("export", back, "--out", program.work / f"{kind}-again")
    first, second = (exported_weights(program.work / f"{kind}-{place}") for place in ("there", "again"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert "held-out" in program("evaluate", back).stdout


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_model_of_transformers_is_itself_here_and_back(program, kind):
    name, keys = FOREIGN[kind]
    torch.manual_seed(1)
    theirs = transformers.AutoModelForCausalLM.from_config(getattr(transformers, name + "Config")(**keys)).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():  # gains and biases too
            parameter += 0.1 * torch.randn_like(parameter)
    there, run, back = (program.work / f"foreign-{kind}-{place}" for place in ("there", "run", "back"))
    theirs.save_pretrained(there, max_shard_size="30KB")
    assert len(list(there.glob("model-*.safetensors"))) > 1
    done = program("import", there, "--out", run)
    assert "the folder has no tokenizer" in done.stdout + done.stderr
    tokens = torch.randint(61, (2, 90), generator=torch.Generator().manual_seed(0))
    expect_same_logits(cogwheel.load(run), theirs, tokens)
    ids = tokens[:1, :8]
    generated = theirs.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=64, eos_token_id=None, pad_token_id=0)[0, 8:]
    ours = cogwheel.load(run).generate(ids[0], length=64, temperature=0.0, end_token=-1)[0].tokens
    assert ours.tolist()[-64:] == generated.tolist()
    program("export", run, "--out", back)
    again = model_in(back)
    assert type(again).__name__ == ("LlamaForCausalLM" if kind == "mistral-without" else type(theirs).__name__)
    for key, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor), key


def test_what_no_architecture_has_goes_out_with_code_and_is_refused_by_name(program):
    for name, mechanism, model, wanted, said in (
        ("cog", "cog", 'form = "llama"', "LlamaForCausalLM", "model.mechanism of layer 0: expected softmax, as in every LlamaForCausalLM, got cog"),
        ("alibi", "softmax", 'form = "llama"\nposition = "alibi"', "LlamaForCausalLM", "model.position: expected rotary or rotary_halves"),
        ("wide", "softmax", "key_value_heads = 2", "GPT2LMHeadModel", "model.key_value_heads: expected 0, as in every GPT2LMHeadModel, got 2"),
    ):
        config = TRAIN.format(task="language_modelling", data="", mechanism=mechanism, layers=1, model="context = 16\n" + model, width=32)
        run = program.train(f"refused-{name}", config, "--text", "text.txt")
        done = program("export", run, "--as", wanted, "--out", program.work / "never", fails=True)
        assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
        assert not (program.work / "never").exists()
        done = program("export", run, "--out", program.work / f"own_{name}")
        assert said in done.stdout + done.stderr
        assert type(model_in(program.work / f"own_{name}", trust_remote_code=True)).__name__ == "CogwheelForCausalLM"


def test_an_architecture_of_another_form_is_refused_by_the_key_and_an_unknown_one_as_wrong_usage(program):
    config = TRAIN.format(task="language_modelling", data="", mechanism="softmax", layers=1, model='context = 16\nform = "llama"', width=32)
    run = program.train("of-llamas-form", config, "--text", "text.txt")
    done = program("export", run, "--as", "GPT2LMHeadModel", "--out", program.work / "never", fails=True)
    assert "model.norm: expected layer, as in every GPT2LMHeadModel, got rms" in done.stderr
    done = program("export", run, "--as", "GPT3", "--out", program.work / "never", fails=True)
    assert done.returncode == 2 and "export: --as: expected" in done.stderr
    query_normed = program.train("of-qwens-form", config.replace("form =", "query_key_norm = true\nform ="), "--text", "text.txt")
    done = program("export", query_normed, "--as", "CogwheelForCausalLM", "--out", program.work / "asked")
    assert "expected false" not in done.stdout + done.stderr  # no key stood in the way of Qwen3ForCausalLM


@pytest.fixture(scope="module")
def whole_folder(program):
    torch.manual_seed(2)
    folder = program.work / "whole"
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4}}, "rope_parameters.rope_type: expected one of default, linear, llama3"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling: expected the same as rope_parameters, got others"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, "rope_parameters.low_freq_factor: expected a number"),
        ({"hidden_act": "relu"}, 'hidden_act: expected "silu"'),
        ({"mlp_bias": True}, "mlp_bias: expected the same as attention_bias, got true"),
        ({"quantization_config": {"bits": 4}}, "expected keys whose meaning is known here"),
        ({"num_key_value_heads": 3}, "key_value_heads: expected a divisor of the heads (4), got 3"),
        ({"architectures": ["MambaForCausalLM"]}, "architectures: expected"),
        ({"vocab_size": 60}, "model.embed_tokens.weight of shape [60, 32]"),
    ],
)
def test_bad_configurations_are_refused_by_the_key(program, whole_folder, changes, said):
    folder = program.work / "changed"
    folder.mkdir(exist_ok=True)
    for file in whole_folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | changes))
    done = program("import", folder, "--out", program.work / "never", fails=True)
    assert said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (program.work / "never").exists()


def imported_options(program, folder, name):
    program("import", folder, "--out", program.work / name)
    return cogwheel.load(program.work / name).options


def with_keys(program, model, name, changes):
    """A folder of the model whose config.json has `changes`; of what is None, nothing."""
    folder = program.work / name
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return folder


def test_what_a_configuration_leaves_out_is_as_transformers_has_it(program):
    for name in ("Llama", "DiffLlama"):
        config = getattr(transformers, name + "Config")(**GROUPED)
        model = transformers.AutoModelForCausalLM.from_config(config)
        folder = with_keys(program, model, f"bare-{name}", {"rms_norm_eps": None})
        assert (imported_options(program, folder, f"of-bare-{name}")["norm_epsilon"] or 1e-6) == config.rms_norm_eps
    model = transformers.MistralForCausalLM(transformers.MistralConfig(**SIZES | {"num_key_value_heads": 4}))
    folder = with_keys(program, model, "null-heads", {})
    (folder / "config.json").write_text(json.dumps(json.loads((folder / "config.json").read_text()) | {"num_key_value_heads": None}))
    assert imported_options(program, folder, "of-null-heads")["key_value_heads"] == 0


def test_keys_of_published_files_that_say_nothing_are_read(program):
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED))
    beside = {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {}, "use_mrope": False, "unsloth_fixed": True}
    imported_options(program, with_keys(program, model, "published", beside), "of-published")
    done = program("import", with_keys(program, model, "interleaved", {"rope_interleaved": True}), "--out", program.work / "never", fails=True)
    assert "rope_interleaved: expected false" in done.stderr


def test_layers_of_mistral_are_all_of_the_kind_that_its_window_says(program):
    model = transformers.MistralForCausalLM(transformers.MistralConfig(**GROUPED | {"sliding_window": 5}))
    folder = with_keys(program, model, "full-layers", {"layer_types": ["full_attention"] * 2})
    done = program("import", folder, "--out", program.work / "never", fails=True)
    assert "layer_types: expected sliding_attention in every layer" in done.stderr


def test_configurations_of_transformers_4_say_the_same(program, whole_folder):
    folder = program.work / "older"
    folder.mkdir()
    config = json.loads((whole_folder / "config.json").read_text())
    del config["rope_parameters"]
    config |= {"rope_theta": 5e3, "rope_scaling": {key: value for key, value in LLAMA3.items() if key != "rope_theta"}}
    (folder / "config.json").write_text(json.dumps(config))
    tensors = exported_weights(whole_folder)
    write_tensors(tensors | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}, folder / "model.safetensors")
    program("import", folder, "--out", program.work / "of-older")
    theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED | {"rope_parameters": LLAMA3})).eval()
    theirs.load_state_dict(tensors)
    tokens = torch.randint(61, (2, 90), generator=torch.Generator().manual_seed(0))
    expect_same_logits(cogwheel.load(program.work / "of-older"), theirs, tokens)
