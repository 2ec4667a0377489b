"""Language models of Cogwheel in transformers; the Python package ``cogwheel`` computes.

    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
"""

import dataclasses

import torch
from torch import Tensor
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

try:  # where transformers does not look for packages: it would name another of this name to install
    from cogwheel.nn import LanguageModel, ModelCache

    LanguageModel.can_decode, LanguageModel.unembed, ModelCache.joined  # noqa: B018
except (ImportError, AttributeError) as problem:
    raise ImportError(f"cogwheel: expected the Python package of Cogwheel, which its ./quickstart or a wheel of it installs, got none, or an older one ({problem})") from None

FORMAT = 1
# As this version of transformers calls what `generate` keeps.
CACHE = next(field.name for field in dataclasses.fields(CausalLMOutputWithPast) if field.name in ("cache", "past_key_values"))


class CogwheelConfig(PretrainedConfig):
    """``model``: keys of ``[model]`` (``docs/configuration.md`` of Cogwheel), but for the vocabulary, which is ``vocab_size``."""

    model_type = "cogwheel"
    keys_to_ignore_at_inference = ["cache", "past_key_values"]
    hidden_size = property(lambda self: self.model.get("width"))
    num_hidden_layers = property(lambda self: self.model.get("layers"))
    num_attention_heads = property(lambda self: self.model.get("heads"))
    max_position_embeddings = property(lambda self: self.model.get("context"))

    def __init__(self, model=None, vocab_size=None, cogwheel_format=FORMAT, **others):
        if cogwheel_format != FORMAT:
            raise ValueError(f"config.json: cogwheel_format: expected {FORMAT}, which this modeling_cogwheel.py reads, got {cogwheel_format}")
        self.model, self.vocab_size, self.cogwheel_format = dict(model or {}), vocab_size, cogwheel_format
        super().__init__(**({"tie_word_embeddings": False} | others))  # the embedding is one parameter

    def options(self):
        """What makes the model."""
        missing = [name for name in ("mechanism", "layers", "heads", "width", "context") if name not in self.model]
        if missing or not isinstance(self.vocab_size, int):
            raise ValueError(f"config.json: {'model.' + missing[0] if missing else 'vocab_size'}: expected a value, got none")
        if "vocabulary" in self.model:
            raise ValueError(f"config.json: model.vocabulary: expected none beside vocab_size, got {self.model['vocabulary']}")
        return self.model | {"vocabulary": self.vocab_size}


class CogwheelCache:
    """What the layers keep of the tokens so far; ``width`` counts the columns of ``input_ids``, padding too."""

    is_compileable, is_croppable, is_linear = False, False, (False,)

    def __init__(self, kept, width):
        self.kept, self.width = kept, width

    def get_seq_length(self, layer_idx=0):
        return self.width

    def reorder_cache(self, beam_idx):
        self.kept = self.kept.fork(beam_idx.cpu().long())

    batch_select_indices = reorder_cache

    def batch_repeat_interleave(self, repeats):
        self.reorder_cache(torch.arange(len(self.kept.lengths)).repeat_interleave(repeats))


class CogwheelForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = CogwheelConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = False
    _is_stateful = True  # no cache forgets single tokens, as drafts of an assistant would need
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.model = LanguageModel(**config.options(), dtype=torch.get_default_dtype())
        self._layers = range(config.num_hidden_layers)
        self._has_states = any(layer.is_recurrent for layer in self.model.layers)
        self._is_dense = not self.model.can_decode
        for parameter in self.parameters():
            parameter._is_hf_initialized = not parameter.is_meta
        self.post_init()

    def _init_weights(self, module):
        """transformers puts memory in the place of what it made without any: buffers are computed anew, weights must be there."""
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.is_meta and not getattr(parameter, "_is_hf_initialized", False):
                path = next(path for path, other in self.named_parameters() if other is parameter)
                raise ValueError(f"weights: expected {path} {list(parameter.shape)}, got none of this shape")
        if hasattr(module, "reset_buffers"):
            module.reset_buffers()

    _supports_default_dynamic_cache = classmethod(lambda cls: False)

    def get_input_embeddings(self):
        return None  # a parameter, no module

    def resize_token_embeddings(self, *sizes, **options):
        raise NotImplementedError(f"resize_token_embeddings: expected the {self.config.vocab_size} tokens that the model was made for, got others")

    def prepare_inputs_for_generation(self, input_ids, next_sequence_length=None, attention_mask=None, **kwargs):
        if attention_mask is not None and not bool(attention_mask[:, -1].all()):
            raise ValueError('attention_mask: expected padding before texts that go on (padding_side="left"), got some behind one')
        if self._is_dense:  # a function of the whole matrix of scores
            next_sequence_length, kwargs = None, kwargs | {"use_cache": False}
        return super().prepare_inputs_for_generation(input_ids, next_sequence_length, attention_mask=attention_mask, **kwargs)

    def _read(self, tokens, attentions, hidden_states, cache):
        """What the head reads of whole texts, and by the names of hooks what else is wanted."""
        if not attentions and not hidden_states:
            return self.model(tokens, cache=cache, head=False), {}
        if cache is not None or (self.training and self.model.dropout > 0):
            raise ValueError("output_attentions, output_hidden_states: expected a pass without a cache (use_cache=False) and without dropout, got one with")
        names = {f"blocks.{layer}.attn.hook_pattern" for layer in self._layers if attentions and not self.model.layers[layer].is_recurrent}
        last = f"blocks.{self._layers[-1]}.hook_resid_post"
        names |= {f"blocks.{layer}.hook_resid_pre" for layer in self._layers if hidden_states}
        _, found = self.model.run_with_cache(tokens, names=[*sorted(names), last])
        return self.model.final_norm.of_sum(found.pop(last), None)[1], found

    def _read_padded(self, tokens, mask, attentions, hidden_states, cache):
        """Texts moved to the first column, where no token sees the padding behind it; of equal length together where that would
        enter states or a function of the whole matrix."""
        lengths, begins = mask.sum(1), mask.int().argmax(1)
        place = torch.arange(tokens.shape[1], device=tokens.device) - begins[:, None]
        inside = (place >= 0) & (place < lengths[:, None])
        if not torch.equal(inside, mask) or int(lengths.min()) == 0:
            raise ValueError("attention_mask: expected one run of ones in each text, got others")
        by_length = self._is_dense or (self._has_states and cache is not None)
        made, found, caches, order = None, {}, [], []
        for length in lengths.unique().tolist() if by_length else [int(lengths.max())]:
            rows = (lengths == length).nonzero().flatten() if by_length else torch.arange(len(tokens), device=tokens.device)
            part = tokens[rows[:, None], (begins[rows, None] + torch.arange(length, device=tokens.device)).clamp_max(tokens.shape[1] - 1)]
            caches.append(None if cache is None else self.model.make_cache(len(rows)))
            hidden, others = self._read(part, attentions, hidden_states, caches[-1])
            back, outside, group = place[rows].clamp(0, length - 1), ~inside[rows], torch.arange(len(rows), device=tokens.device)[:, None]
            if made is None:
                made = hidden.new_zeros(*tokens.shape, hidden.shape[-1])
                found = {name: each.new_zeros(len(tokens), each.shape[1], *place.shape[1:] * 2) if each.dim() == 4 else torch.zeros_like(made) for name, each in others.items()}
            made = made.index_put((rows,), hidden[group, back].masked_fill(outside[:, :, None], 0))
            for name, each in others.items():
                if each.dim() == 4:
                    each = each.transpose(1, 2)[group, back].transpose(1, 3)[group, back].permute(0, 2, 3, 1)  # both tokens
                    each = each.masked_fill(outside[:, None, :, None] | outside[:, None, None, :], 0)
                else:
                    each = each[group, back].masked_fill(outside[:, :, None], 0)
                found[name] = found[name].index_put((rows,), each)
            order += rows.tolist()
        if cache is not None:
            cache.layers = (ModelCache.joined(caches).fork(torch.tensor(order).argsort()) if by_length else caches[0]).layers
            cache.crop(lengths.cpu())
        return made, found

    def forward(
        self, input_ids=None, attention_mask=None, cache=None, labels=None, use_cache=None, output_attentions=None,
        output_hidden_states=None, logits_to_keep=0, past_key_values=None, return_dict=None, **others,
    ):  # fmt: skip
        """As of any causal model of transformers, but that a pass keeps a cache only where ``use_cache`` or ``cache`` says so."""
        for name in ("inputs_embeds", "position_ids"):
            if others.pop(name, None) is not None:
                raise ValueError(f"{name}: expected none (the model reads input_ids, at positions that follow from attention_mask), got some")
        if not isinstance(input_ids, Tensor) or input_ids.dim() != 2:
            raise ValueError(f"input_ids: expected [batch, tokens], got {list(input_ids.shape) if isinstance(input_ids, Tensor) else type(input_ids).__name__}")
        cache = past_key_values if cache is None else cache
        if not isinstance(cache, CogwheelCache | None):
            raise TypeError(f"cache: expected what an earlier pass returned, got a {type(cache).__name__}")
        attentions, hidden_states = (getattr(self.config, name, None) if given is None else given
                                     for name, given in (("output_attentions", output_attentions), ("output_hidden_states", output_hidden_states)))  # fmt: skip
        before = 0 if cache is None else cache.width
        if cache is None and use_cache and not self._is_dense:
            cache = CogwheelCache(self.model.make_cache(len(input_ids)), 0)
        if labels is not None and cache is not None:
            raise ValueError("labels: expected a pass without a cache, which no derivative passes, got one with")
        mask = attention_mask
        if mask is not None:
            if mask.shape != (len(input_ids), before + input_ids.shape[1]):
                raise ValueError(f"attention_mask: expected [{len(input_ids)}, {before + input_ids.shape[1]}], got {list(mask.shape)}")
            mask = mask[:, before:].bool()
        kept = None if cache is None else cache.kept
        if mask is None or bool(mask.all()):
            hidden, found = self._read(input_ids, attentions, hidden_states, kept)
        elif before:
            raise ValueError("attention_mask: expected ones after the tokens in the cache, got padding")
        else:
            hidden, found = self._read_padded(input_ids, mask, attentions, hidden_states, kept)
        if cache is not None:
            cache.width += input_ids.shape[1]
        logits = self.model.unembed(hidden[:, slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep])
        loss = None if labels is None else self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **others)
        output = CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            hidden_states=(*(found[f"blocks.{layer}.hook_resid_pre"] for layer in self._layers), hidden) if hidden_states else None,
            attentions=tuple(found.get(f"blocks.{layer}.attn.hook_pattern") for layer in self._layers) if attentions else None,
            **{CACHE: cache},
        )
        return output.to_tuple() if return_dict is False else output
