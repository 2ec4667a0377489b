"""Small models of transformers, one of each architecture, and dense formulas as attention functions beside them: the reference of
cogwheel.huggingface. A formula gets the mask that `sdpa` has, never left out."""

import contextlib
import functools

import reference
import torch
import transformers
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

HEADS, KEY_HEADS, WIDTH, LAYERS, VOCABULARY, WINDOW = 4, 2, 32, 2, 61, 6

COMMON = {
    "vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
GROUPED = COMMON | {"num_key_value_heads": KEY_HEADS}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ENCODER_DECODER = {
    "vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 64, "dropout": 0.0,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip

# The class without "Config" and "ForCausalLM", and its configuration.
DECODERS = {
    "Llama": GROUPED,
    "Mistral": GROUPED | {"sliding_window": WINDOW},
    "Qwen2": GROUPED,
    "Qwen3": GROUPED | {"head_dim": 16},
    "Gemma2": GROUPED | {"head_dim": 16, "sliding_window": WINDOW, "attn_logit_softcapping": 0.7, "query_pre_attn_scalar": 16},
    "Gemma3": GROUPED | {"head_dim": 16, "sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    "Phi3": GROUPED,
    "Olmo2": GROUPED,
    "Granite": GROUPED,
    "SmolLM3": GROUPED,
    "Starcoder2": GROUPED | {"residual_dropout": 0.0, "embedding_dropout": 0.0, "sliding_window": WINDOW},
    "Glm4": GROUPED | {"head_dim": 16},
    "Cohere2": GROUPED | {"head_dim": 16, "sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    "GPT2": {
        "vocab_size": VOCABULARY, "n_positions": 64, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
    },
    "GPTNeoX": COMMON,
    "GptOss": GROUPED | {
        "head_dim": 16, "sliding_window": WINDOW, "num_local_experts": 2, "num_experts_per_tok": 1, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    },
}  # fmt: skip
ENCODERS = {
    "Bert": COMMON | NO_DROPOUT,
    "Roberta": COMMON | NO_DROPOUT | {"max_position_embeddings": 70},
    "ModernBert": COMMON | {"cls_token_id": 1, "sep_token_id": 2, "local_attention": WINDOW, "global_attn_every_n_layers": 2},
    "Electra": COMMON | NO_DROPOUT | {"embedding_size": WIDTH},
}
ENCODER_DECODERS = {
    "T5": {
        "vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 8, "d_ff": 48, "num_layers": LAYERS, "num_heads": HEADS, "dropout_rate": 0.0,
        "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
    },
    "Bart": ENCODER_DECODER,
    "Whisper": ENCODER_DECODER | {"num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 64},
}  # fmt: skip
# Of those whose attention is their own.
OTHERS = {"Bloom": {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}}
ARCHITECTURES = [*DECODERS, *ENCODERS, *ENCODER_DECODERS]

_NAMES = {"Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM"), "GPT2": ("GPT2Config", "GPT2LMHeadModel")}


def configuration(name: str, **more):
    for table in (DECODERS, ENCODERS, ENCODER_DECODERS, OTHERS):
        if name in table:
            config = getattr(transformers, _NAMES.get(name, (f"{name}Config",))[0])
            return config(**(table[name] | more))
    raise KeyError(name)


def model(name: str, implementation: str, seed: int = 0, **more):
    """In float64, in evaluation mode; of equal weights for an equal seed."""
    ending = {"Decoder": "ForCausalLM", "Encoder": "ForMaskedLM", "EncoderDecoder": "ForConditionalGeneration"}
    kind = "Encoder" if name in ENCODERS else "EncoderDecoder" if name in ENCODER_DECODERS else "Decoder"
    made_by = getattr(transformers, _NAMES.get(name, (None, f"{name}{ending[kind]}"))[1])
    torch.manual_seed(seed)
    config = configuration(name, **more)
    if name == "GptOss":  # the other one multiplies no float64
        config._experts_implementation = "eager"
    made = made_by._from_config(config, attn_implementation=implementation).double().eval()
    with torch.no_grad():
        for each in made.parameters():  # so that scores are not near 0, where Cog's sign turns
            each.mul_(1.7 if each.dim() > 1 else 1.0).add_(0.02 * torch.randn_like(each))
    return made


def inputs(name: str, padding: str | None = None, tokens: int = 13, seed: int = 1) -> dict[str, Tensor]:
    """Two entries, of which the second has four tokens less, on the left or on the right."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (2, tokens), generator=generator)
    mask = torch.ones_like(ids)
    if padding is not None:
        mask[1, slice(0, 4) if padding == "left" else slice(tokens - 4, tokens)] = 0
    if name == "Whisper":
        decoder = {"decoder_input_ids": ids} | ({"decoder_attention_mask": mask} if padding else {})
        return {"input_features": torch.randn(2, 8, 24, generator=generator, dtype=torch.float64), **decoder}
    given = {"input_ids": ids} | ({"attention_mask": mask} if padding else {})
    if name in ENCODER_DECODERS:
        given["decoder_input_ids"] = torch.randint(3, VOCABULARY, (2, 7), generator=generator)
    return given


def counted(name: str, given: dict[str, Tensor]) -> Tensor:
    """[B, N] bool: which logits count, those of no padding."""
    ids = given.get("decoder_input_ids", given.get("input_ids"))
    mask = given.get("decoder_attention_mask", given.get("attention_mask") if name not in ENCODER_DECODERS else None)
    return torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()


def visible_in(mask: Tensor | None, scores: Tensor) -> Tensor:
    assert mask is None or mask.dtype == torch.bool
    return torch.ones(scores.shape[-2:], dtype=torch.bool) if mask is None else mask.expand(len(scores), -1, -1, -1)


def formula(
    mechanism: str, module, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *, scaling: float | None = None, position_bias=None,
    softcap: float | None = None, s_aux=None, parameters=None, **_,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    row, heads = reference.TABLE[mechanism], query.shape[1]
    key, value = (each.repeat_interleave(heads // each.shape[1], 1) for each in (key, value))
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if position_bias is not None:
        scores = scores + position_bias
    if parameters is None:
        parameters = {"softmax_off_by_one": {"sink": torch.zeros(heads, dtype=scores.dtype)}, "sigmoid": {"shift": None}}.get(mechanism, {})
    if s_aux is not None:
        parameters = parameters | {"sink": s_aux}
    weights = row.weights(scores[:, None], visible_in(mask, scores), parameters)
    return (weights @ value).transpose(1, 2), weights


def _whole_mask(*args, **kwargs) -> Tensor:
    return sdpa_mask(*args, **(kwargs | {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}))


def register_formulas(mechanisms: list[str]) -> None:
    """As ``attn_implementation="formula_<name>"``."""
    for name in mechanisms:
        AttentionInterface.register(f"formula_{name}", functools.partial(formula, name))
        AttentionMaskInterface.register(f"formula_{name}", _whole_mask)


@contextlib.contextmanager
def whole_masks(implementation: str):
    """The masks of formulas for another implementation."""
    interface = AttentionMaskInterface()
    original = interface[implementation]
    AttentionMaskInterface.register(implementation, _whole_mask)
    try:
        yield
    finally:
        AttentionMaskInterface.register(implementation, original)
