"""cogwheel.huggingface: mechanisms inside models of transformers, against dense formulas registered beside them."""

import contextlib
import copy
import pathlib
import pickle
import re

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import reference  # noqa: E402
import transformers_models as small  # noqa: E402

import cogwheel  # noqa: E402
import cogwheel.huggingface  # noqa: E402
from cogwheel.huggingface.mechanisms import attention_modules  # noqa: E402

# Maps with and without a sign, a normaliser, an exponent; one with a sink, one that subtracts.
MECHANISMS = ["softmax", "cog", "softmax_off_by_one", "sigmoid", "relu", "centered"]
small.register_formulas(MECHANISMS)
NAMES = cogwheel.huggingface.register()
KNOWN = {each["name"]: each for each in cogwheel.mechanisms() if each["definition"] is None}


@pytest.fixture(autouse=True)
def no_accelerator(monkeypatch):
    """Whatever device another test of this process has emulated: the loader of Trainer would pin memory for it."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)


def expect_equal(found, expected, given, name, masks=None):
    """Logits of what is no padding, and the gradients of all parameters. ``masks``: of an implementation that both have."""
    counted = small.counted(name, given)[..., None]
    logits = [found(**given).logits.where(counted, 0.0)]
    with small.whole_masks(masks) if masks else contextlib.nullcontext():
        logits.append(expected(**given).logits.where(counted, 0.0))
    torch.testing.assert_close(*logits, rtol=1e-9, atol=1e-9)
    factor = torch.randn(logits[0].shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    parameters = [dict(each.named_parameters()) for each in (found, expected)]
    assert list(parameters[0]) == list(parameters[1])
    gradients = [
        torch.autograd.grad((one * factor).sum(), [each for each in of.values() if each.requires_grad], allow_unused=True)
        for one, of in zip(logits, parameters, strict=True)
    ]
    names = [path for path, each in parameters[0].items() if each.requires_grad]
    for path, one, other in zip(names, *gradients, strict=True):
        assert (one is None) == (other is None), path
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-8, msg=lambda text: f"{path}: {text}")  # noqa: B023


def has_sinks(name):
    return name == "GptOss"


@pytest.mark.diagonal("name", "padding")
@pytest.mark.parametrize("padding", [None, "left", "right"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", small.ARCHITECTURES)
def test_logits_and_gradients_are_those_of_the_formula(name, mechanism, padding):
    given = small.inputs(name, padding)
    if has_sinks(name) and mechanism != "softmax_off_by_one":
        with pytest.raises(ValueError, match=f"^huggingface: attention of {mechanism}: expected a model without sinks .*, got one whose layers learn them$"):
            small.model(name, f"cogwheel_{mechanism}")(**given)
        return
    expect_equal(*(small.model(name, f"{of}_{mechanism}") for of in ("cogwheel", "formula")), given, name)


def logits_in_steps(model, ids, mask, cache, steps):
    """Of a model with a cache, which gets so many tokens at a time."""
    found, at = [], 0
    for count in steps:
        more = {} if mask is None else {"attention_mask": mask[:, : at + count]}
        found.append(model(input_ids=ids[:, at : at + count], past_key_values=cache, use_cache=True, **more).logits)
        at += count
    return torch.cat(found, 1)


@pytest.mark.diagonal("name", "cache")
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padding", [None, "left"])
@pytest.mark.parametrize(
    "name, mechanism", [(name, each) for name in small.DECODERS for each in MECHANISMS if not has_sinks(name) or each == "softmax_off_by_one"]
)
def test_cached_passes_are_the_whole_one(name, mechanism, padding, cache):
    model = small.model(name, f"cogwheel_{mechanism}")
    given = small.inputs(name, padding)
    ids, mask = given["input_ids"], given.get("attention_mask")
    kept = transformers.StaticCache(config=model.config, max_cache_len=20) if cache == "static" else transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        whole, stepped = model(**given).logits, logits_in_steps(model, ids, mask, kept, [6, 3, 1, 1, 1, 1])
    counted = small.counted(name, given)
    torch.testing.assert_close(stepped[counted], whole[counted], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", [*small.ENCODER_DECODERS, "Llama", "Mistral"])
def test_generates_as_the_formula(name):
    given = small.inputs(name, None if name == "Whisper" else "left")
    if name in small.ENCODER_DECODERS:
        given = {key: each for key, each in given.items() if not key.startswith("decoder")}
    texts = []
    for implementation in ("cogwheel_cog", "formula_cog"):
        model = small.model(name, implementation)
        texts.append(model.generate(**given, max_new_tokens=8, do_sample=False))
    assert torch.equal(*texts)


def test_documents_that_are_packed_are_those_alone():
    model = small.model("Mistral", "cogwheel_cog")
    ids = small.inputs("Mistral")["input_ids"][:1]
    positions = torch.cat([torch.arange(5), torch.arange(1), torch.arange(7)])[None]
    with torch.no_grad():
        together = model(input_ids=ids, position_ids=positions, use_cache=False).logits
        alone = [model(input_ids=part, use_cache=False).logits for part in ids.split([5, 1, 7], 1)]
    torch.testing.assert_close(together, torch.cat(alone, 1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["Llama", "Bert", "T5", "Gemma2"])
def test_weights_that_are_asked_for(name):
    given = small.inputs(name, "right")
    found, expected = (small.model(name, f"{of}_cog")(**given, output_attentions=True) for of in ("cogwheel", "formula"))
    key = "decoder_attentions" if name == "T5" else "attentions"
    assert len(found[key]) == small.LAYERS
    for one, other in zip(found[key], expected[key], strict=True):
        torch.testing.assert_close(one[0], other[0], rtol=1e-9, atol=1e-12)


def test_masks_of_four_dimensions_and_dropout():
    model = small.model("Llama", "cogwheel_cog")
    ids = small.inputs("Llama")["input_ids"]
    seen = torch.ones(13, 13, dtype=torch.bool).tril()
    seen[7:, 2] = False
    least = torch.zeros(13, 13, dtype=torch.float64).masked_fill(~seen, torch.finfo(torch.float64).min)
    expected = small.model("Llama", "formula_cog")(input_ids=ids, attention_mask=seen[None, None].expand(2, 1, -1, -1)).logits
    for mask in (seen, least):
        found = model(input_ids=ids, attention_mask=mask[None, None].expand(2, 1, -1, -1)).logits
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)

    dropping = small.model("Llama", "cogwheel_cog", attention_dropout=0.4).train()
    torch.manual_seed(4)
    first, second = dropping(input_ids=ids).logits, dropping(input_ids=ids).logits
    torch.manual_seed(4)
    assert torch.equal(dropping(input_ids=ids).logits, first) and not torch.equal(first, second)


def test_every_pairwise_mechanism_is_registered():
    pairwise = {f"cogwheel_{name}" for name, each in KNOWN.items() if each["family"] == "pairwise"}
    assert pairwise < set(NAMES) and "cogwheel" in NAMES and "cogwheel_gla" not in NAMES
    given = small.inputs("Llama")
    for name, each in KNOWN.items():
        if each["family"] != "pairwise" or each["level"] != "operator" or name == "norm":
            continue
        if set(each["parameters"]) - set(each["optional_parameters"]):
            with pytest.raises(ValueError, match=f"^huggingface: attention of {name}: expected modules that have .* gives them.*, got none$"):
                small.model("Llama", f"cogwheel_{name}")
        else:
            assert small.model("Llama", f"cogwheel_{name}")(**given).logits.isfinite().all()


@pytest.mark.parametrize(
    "mechanism, message",
    [
        ("symmetric", "expected one whose rows stand alone, got symmetric, which reads its keys from its queries"),
        ("matrix_exponential", "expected one whose rows stand alone, got matrix_exponential, which is a function of the whole score matrix"),
    ],
)
def test_mechanisms_that_modules_cannot_have(mechanism, message):
    with pytest.raises(ValueError, match=f"^huggingface: mechanism: {message} .cogwheel.nn.Attention has a layer of it.$"):
        small.model("Llama", f"cogwheel_{mechanism}")
    with pytest.raises(ValueError, match=f"^huggingface: mechanism: {message} .*$"):
        cogwheel.huggingface.convert(small.model("Llama", "sdpa"), f"softmax+{mechanism}")


def refused(call, message):
    with pytest.raises(ValueError, match=f"^{message}$") as error:
        call()
    assert "\n" not in str(error.value)


def test_bad_input_gets_one_line():
    convert = cogwheel.huggingface.convert
    refused(lambda: convert(nn.Linear(3, 3), "cog"), "huggingface: model: expected a model of transformers, got a Linear")
    refused(lambda: convert(small.model("Llama", "sdpa"), "gla"), "huggingface: mechanism: expected one of attention, got gla, with a state .*")
    refused(lambda: convert(small.model("Llama", "sdpa"), "cogg"), ".*mechanism: expected .*cog.*, got cogg")
    refused(lambda: small.model("Bloom", "cogwheel_cog"), "huggingface: attn_implementation: expected one that Bloom.* has .*, got 'cogwheel_cog'")
    refused(lambda: small.model("Falcon", "cogwheel_cog"), "huggingface: attn_implementation: expected one that Falcon.* has .*, got 'cogwheel_cog'")
    refused(lambda: convert(small.model("Llama", "sdpa"), 3), "huggingface: mechanism: expected a name or a pattern, got a int")
    refused(lambda: small.model("Llama", "sdpa").set_attn_implementation("cogwheel_symmetric"), "huggingface: mechanism: expected one whose rows stand alone, .*")
    refused(lambda: small.model("Llama", "cogwheel")(**small.inputs("Llama")), "huggingface: attn_implementation: expected 'cogwheel' of a model that .*, got a LlamaAttention without a mechanism")
    refused(lambda: convert(small.model("Bloom", "eager"), "cog"), "huggingface: model: expected one whose attention goes through AttentionInterface, got Bloom.*")
    refused(lambda: convert(small.model("T5", "sdpa"), "norm")(**small.inputs("T5")), "huggingface: attention of norm: expected a model without position_bias .*, got one with")
    refused(lambda: convert(small.model("Gemma2", "eager"), "norm")(**small.inputs("Gemma2")), "huggingface: attention of norm: expected a model without softcap .*, got one with")
    three = small.model("Llama", "sdpa", num_attention_heads=3, num_key_value_heads=3, hidden_size=24, head_dim=8)
    refused(lambda: convert(three, "differential"), ".*heads: expected .*, got 3")
    unchanged = small.model("Llama", "sdpa")
    refused(lambda: convert(unchanged, "cog+symmetric"), ".*")
    assert unchanged.config._attn_implementation == "sdpa" and not any(hasattr(each, "cogwheel") for each in unchanged.modules())


def test_what_a_model_passes_beside_is_refused_if_it_says_what_is_seen():
    """As indices of chosen keys, which DeepSeek-V3.2 passes to every function but those of transformers."""
    function = transformers.AttentionInterface()["cogwheel_cog"]
    query = torch.randn(1, 4, 5, 8, dtype=torch.float64)
    module = nn.Linear(1, 1)
    plain = function(module, query, query, query, None, position_ids=torch.arange(5), sliding_window=3, indices=None)[0]
    assert plain.shape == (1, 5, 4, 8)
    for name in ("indices", "block_indices", "sinks", "anything"):
        refused(
            lambda: function(module, query, query, query, None, **{name: torch.zeros(1)}),  # noqa: B023
            f"huggingface: attention of cog: expected a model whose attention has no {name}, got Linear, which has",
        )
    kept = function(module, query[:, :, -2:], query, query, None)[0]  # of a model that keeps its last queries alone
    torch.testing.assert_close(kept, plain[:, -2:])


def test_models_that_share_a_configuration_are_converted_apart(tmp_path):
    config, given = small.configuration("Llama"), small.inputs("Llama")
    first, second, third = (transformers.LlamaForCausalLM(config).eval() for _ in range(3))
    plain = second(**given).logits
    cogwheel.huggingface.convert(first, "cog")
    assert torch.equal(second(**given).logits, plain) and not hasattr(config, "cogwheel_attention")
    cogwheel.huggingface.convert(third, "consmax+softmax")
    first.save_pretrained(tmp_path)
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert [layer.self_attn.cogwheel.mechanism for layer in again.model.layers] == ["cog", "cog"]


def test_a_part_of_a_converted_model_is_converted(tmp_path):
    """With a configuration of its own."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.CLIPConfig(
        text_config=sizes | {"vocab_size": 61, "max_position_embeddings": 16}, vision_config=sizes | {"image_size": 8, "patch_size": 4}, projection_dim=16
    )
    whole = cogwheel.huggingface.convert(transformers.CLIPModel(config).eval(), "consmax")
    drawn_parameters(whole)
    whole.save_pretrained(tmp_path)
    images = torch.randn(2, 3, 8, 8)
    part = copy.deepcopy(transformers.CLIPVisionModel.from_pretrained(tmp_path))
    assert len(learned(part)) == 4
    found, expected = part(pixel_values=images).pooler_output, whole.vision_model(pixel_values=images).pooler_output
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_shapes_without_numbers():
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM._from_config(small.configuration("Llama"), attn_implementation="cogwheel_cog")
        assert model(input_ids=torch.zeros(2, 5, dtype=torch.long)).logits.shape == (2, 5, small.VOCABULARY)


# Patterns with parameters of every kind, and architectures whose modules name their sizes otherwise.
CONVERTED = {
    "sinks": ("Llama", "softmax+softmax_off_by_one"),
    "scalars": ("Qwen3", "consmax+sigmoid"),
    "differences": ("Mistral", "differential_cog+differential_sigmoid"),
    "gpt2": ("GPT2", "differential+softmax_off_by_one"),
    "bert": ("Bert", "consmax+differential"),
    "t5": ("T5", "softmax_off_by_one+cog"),
    "whisper": ("Whisper", "differential+consmax"),
    "neox": ("GPTNeoX", "differential+sigmoid"),
    "modernbert": ("ModernBert", "differential+consmax"),
    "a cosine": ("Llama", "norm+cog"),
    "sinks that the model has": ("GptOss", "softmax_off_by_one"),
}


def drawn_parameters(model, seed=5):
    """What the mechanisms learn, drawn so that all of it matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for path, each in model.named_parameters():
            if ".cogwheel." in path:
                each.add_(0.1 * torch.randn(each.shape, generator=generator, dtype=each.dtype))


def formula_of(own, mechanism):
    """A dense formula with the parameters of a module of a converted model."""

    def forward(module, query, key, value, mask, **options):
        learned, heads = dict(own.named_parameters()), query.shape[1]
        parameters = {name: learned.get(name) for name in KNOWN[mechanism]["parameters"] if name != "lam"}  # no layer learns sigmoid's shift
        if KNOWN[mechanism]["score"] == "cosine":
            query, key = (nn.functional.normalize(each, dim=-1) for each in (query, key))
            options["scaling"] = 1.0
        if not mechanism.startswith("differential"):
            return small.formula(mechanism, module, query, key, value, mask, parameters=parameters, **options)
        # Eq. 1 of Ye et al. (2024): two adjacent heads are one, whose value is twice as wide; heads of a pair of keys lie side by side.
        lam = (own.lambda_query1 * own.lambda_key1).sum().exp() - (own.lambda_query2 * own.lambda_key2).sum().exp() + own.lambda_init
        pairs = heads // 2
        query, key, value = (each.unflatten(1, (-1, 2)) for each in (query, key, value))
        key, value = (each.repeat_interleave(pairs // each.shape[1], 1) for each in (key, value))
        scores = (query @ key.mT * options["scaling"]).transpose(1, 2)  # [B, 2, pairs, N, M]
        weights = reference.TABLE[mechanism].weights(scores, small.visible_in(mask, scores), parameters | {"lam": lam.expand(pairs)})
        out = (weights @ torch.cat([value[:, :, 0], value[:, :, 1]], -1)).transpose(1, 2)
        normed = out * (out.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * own.head_norm * (1 - own.lambda_init)
        return normed, weights

    return forward


class Formula(nn.Module):
    def __init__(self, own):
        super().__init__()
        for name, each in own.named_parameters():
            self.register_parameter(name, each)
        self._formula = formula_of(own, own.mechanism)

    def forward(self, module, query, key, value, mask, **options):
        return self._formula(module, query, key, value, mask, **options)


def with_formulas(model):
    """The same parameters, with formulas in the place of mechanisms."""
    made = copy.deepcopy(model)
    for modules in attention_modules(made).values():
        for each in modules:
            each.cogwheel = Formula(each.cogwheel)
    return made


@pytest.mark.parametrize("case", CONVERTED)
def test_converted_models_are_those_of_the_formula(case):
    name, pattern = CONVERTED[case]
    converted = cogwheel.huggingface.convert(small.model(name, "eager"), pattern)
    drawn_parameters(converted)
    assert bool(learned(converted)) == (case not in ("a cosine", "sinks that the model has"))
    expect_equal(converted, with_formulas(converted), small.inputs(name, None if name == "Whisper" else "right"), name, masks="cogwheel")


def losses_of(model, folder, **more):
    """Of ten steps of Trainer."""
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    ids = torch.randint(3, small.VOCABULARY, (40, 13), generator=torch.Generator().manual_seed(7))
    arguments = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=10, per_device_train_batch_size=4, logging_steps=1, report_to=[], save_strategy="no", seed=3,
        learning_rate=1e-2, disable_tqdm=True, use_cpu=True, **more,
    )  # fmt: skip
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in ids])
    trainer.train()
    return [step["loss"] for step in trainer.state.log_history if "loss" in step]


def loaded(model, folder):
    model.save_pretrained(folder)
    return transformers.AutoModelForCausalLM.from_pretrained(folder)


def learned(model):
    return {path: each.detach().clone() for path, each in model.named_parameters() if ".cogwheel." in path}


def test_a_converted_model_survives_being_saved(tmp_path):
    converted = cogwheel.huggingface.convert(small.model("Llama", "sdpa").float(), "differential+softmax_off_by_one")
    drawn_parameters(converted)
    # Of a second generation. A copy, because the bits of PyTorch's products depend on where weights lie.
    again = copy.deepcopy(loaded(loaded(converted, tmp_path / "first"), tmp_path / "second"))
    given = small.inputs("Llama")
    assert torch.equal(again(**given).logits, converted.eval()(**given).logits)
    assert repr(again.model.layers[1].self_attn.cogwheel) == "Mechanism('softmax_off_by_one')"
    before = learned(converted)
    first, second = losses_of(converted, tmp_path / "a"), losses_of(again, tmp_path / "b")
    assert first == second and len(first) == 10
    after = learned(converted)
    assert len(after) == 6 and all(not torch.equal(after[path], before[path]) for path in after)
    refused(
        lambda: transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "first", attn_implementation="sdpa"),
        "huggingface: attn_implementation: expected 'cogwheel', for the model was converted to differential.*, got 'sdpa'",
    )


def test_a_plain_checkpoint_is_loaded_into_mechanisms(tmp_path):
    """What the file lacks has its initial values, whatever the memory held."""
    small.model("Llama", "sdpa").float().save_pretrained(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    config.cogwheel_attention = "consmax+differential"
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, config=config, attn_implementation="cogwheel")
    first, second = (layer.self_attn.cogwheel for layer in loaded.model.layers)
    fresh = cogwheel.nn.Attention(small.WIDTH, small.HEADS, "consmax")
    assert torch.equal(first.beta, fresh.beta) and torch.equal(first.gamma, fresh.gamma)
    assert torch.equal(second.head_norm, torch.ones(2 * small.WIDTH // small.HEADS)) and 0 < second.lambda_query1.std() < 0.3
    assert torch.equal(loaded.model.layers[0].self_attn.q_proj.weight, small.model("Llama", "sdpa").float().model.layers[0].self_attn.q_proj.weight)


def test_without_cogwheel_a_converted_model_is_refused(tmp_path, monkeypatch):
    """Instead of being loaded as another one: Cog has no parameters that would be missed."""
    cogwheel.huggingface.convert(small.model("Llama", "sdpa"), "cog").save_pretrained(tmp_path)
    monkeypatch.delitem(transformers.AttentionInterface._global_mapping, "cogwheel")
    with pytest.raises(ValueError, match='attn_implementation="cogwheel"` is not supported'):
        transformers.AutoModelForCausalLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["T5", "Whisper", "Bert", "GPT2", "Gemma3"])
def test_every_kind_of_model_is_saved(name, tmp_path):
    converted = cogwheel.huggingface.convert(small.model(name, "eager").float(), "consmax+softmax_off_by_one")
    drawn_parameters(converted)
    converted.save_pretrained(tmp_path)
    given = {key: each.float() if each.is_floating_point() else each for key, each in small.inputs(name).items()}
    again = copy.deepcopy(type(converted).from_pretrained(tmp_path))
    assert torch.equal(again(**given).logits, converted(**given).logits)


def test_lora_trains_what_mechanisms_learn(tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")

    def base():
        return cogwheel.huggingface.convert(small.model("Llama", "sdpa").float(), "softmax_off_by_one+cog")

    options = peft.LoraConfig(target_modules=["q_proj", "v_proj"], modules_to_save=["cogwheel"], r=4, task_type="CAUSAL_LM")
    adapted = peft.get_peft_model(base(), options)
    trained = [path for path, each in adapted.named_parameters() if each.requires_grad]
    assert any(path.endswith("cogwheel.modules_to_save.default.sink") for path in trained) and len(trained) == 9
    losses_of(adapted, tmp_path / "run")
    adapted.save_pretrained(tmp_path / "adapter")
    again = peft.PeftModel.from_pretrained(base(), tmp_path / "adapter")
    given = small.inputs("Llama")
    assert torch.equal(again.eval()(**given).logits, adapted.eval()(**given).logits)
    assert adapted.base_model.model.model.layers[0].self_attn.cogwheel.modules_to_save["default"].sink.abs().max() > 0


@pytest.mark.parametrize("name, pattern", [("Llama", "differential+softmax_off_by_one"), ("Mistral", "cog")])
def test_a_converted_model_is_one_graph(name, pattern):
    converted = cogwheel.huggingface.convert(small.model(name, "eager"), pattern)
    drawn_parameters(converted)
    compiled = torch.compile(converted, fullgraph=True, backend="aot_eager")
    for padding in (None, "left"):
        given = small.inputs(name, padding) | {"use_cache": False}
        results = []
        for each in (compiled, converted):
            logits = each(**given).logits[small.counted(name, given)]
            results.append([logits, *torch.autograd.grad(logits.square().sum(), list(converted.parameters()))])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_a_converted_model_is_converted_again_copied_and_pickled():
    converted = cogwheel.huggingface.convert(small.model("Llama", "sdpa"), "consmax")
    given = small.inputs("Llama")
    expected = converted(**given).logits
    for again in (copy.deepcopy(converted), pickle.loads(pickle.dumps(converted))):
        assert torch.equal(again(**given).logits, expected)
    cogwheel.huggingface.convert(converted, "cog")
    assert not learned(converted)
    assert torch.equal(converted(**given).logits, small.model("Llama", "cogwheel_cog")(**given).logits)
    assert converted.config.cogwheel_attention == "cog"


@pytest.mark.parametrize("pattern", ["cog", "differential+softmax_off_by_one"])
def test_sixteen_bits(pattern):
    wide = cogwheel.huggingface.convert(small.model("Llama", "sdpa"), pattern)
    given = small.inputs("Llama", "right") | {"use_cache": False}  # a cache widens what it gets
    counted, expected = small.counted("Llama", given), wide(**given).logits
    narrow = copy.deepcopy(wide).bfloat16()(**given).logits
    with torch.autocast("cpu", torch.bfloat16):
        autocast = copy.deepcopy(wide).float()(**given).logits
    for found in (narrow, autocast):
        assert (found - expected)[counted].norm() < 0.1 * expected[counted].norm()  # of Cog some signs turn


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/huggingface.md"


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL), ids=["comparison", "register", "convert"])
def test_the_page_does_what_it_says(code, tmp_path, monkeypatch, capsys):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(PAGE), "exec"), {})  # here, for importing transformers takes longer than all that the page does
    if "TrainingArguments" in code:
        printed = capsys.readouterr().out
        assert len(re.findall(r"^(softmax|cog|softmax\+cog\+softmax) \d\.\d{3}$", printed, re.MULTILINE)) == 3, printed
