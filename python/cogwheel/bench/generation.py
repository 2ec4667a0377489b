"""`bench generation`: texts of a model in Llama's form, beside `generate` of transformers on equal weights (PyPI's `transformers`, if it is there)."""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import cogwheel
from cogwheel.bench.timing import Timing, take_turns

READ = "reading"
PEER = "transformers"
OURS = ("fp32", "bf16", "int8")  # as what weights are kept
THEIRS = ("fp32", "bf16")
PROMPT, BATCH, LONG_PROMPT = 16, 8, 1024


@dataclass(frozen=True)
class GenerationShape:
    layers: int
    heads: int
    width: int
    hidden: int
    vocabulary: int
    context: int

    def describe(self) -> str:
        return (
            f"{self.layers} layers of width {self.width}, {self.heads} heads, {self.hidden} hidden units, {self.vocabulary} pieces, "
            "Llama's form, random weights"
        )

    @property
    def read_weights(self) -> int:
        """Of the matrices that each token reads whole: the embedding is one row."""
        return self.layers * (4 * self.width**2 + 3 * self.width * self.hidden) + self.width * self.vocabulary


SHAPES = {
    "tiny": GenerationShape(layers=2, heads=2, width=32, hidden=48, vocabulary=65, context=2048),
    "110m": GenerationShape(layers=12, heads=12, width=768, hidden=2048, vocabulary=32000, context=2048),
}


def has_peer() -> bool:
    return importlib.util.find_spec("transformers") is not None


def our_model(shape: GenerationShape) -> cogwheel.nn.LanguageModel:
    return cogwheel.nn.LanguageModel(
        shape.layers, shape.heads, shape.width, shape.vocabulary, context=shape.context, norm="rms",
        position="rotary_halves", activation="swiglu", feed_forward=shape.hidden, bias=False, tied_head=False,
    )  # fmt: skip


@torch.no_grad()
def peer_of(model: cogwheel.nn.LanguageModel, shape: GenerationShape) -> Any:
    """The model of transformers with the same weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    peer = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.hidden, num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads, max_position_embeddings=shape.context, rms_norm_eps=1e-6, tie_word_embeddings=False,
            bos_token_id=None, eos_token_id=None, pad_token_id=0,
        )
    ).eval()  # fmt: skip
    weights = {"model.embed_tokens.weight": model.token_embedding, "model.norm.weight": model.final_norm.weight, "lm_head.weight": model.head.weight}
    for number, layer in enumerate(model.layers):
        query, key, value = layer.attention.query_key_value.weight.chunk(3)
        gate, up = layer.feed_forward.up.weight.chunk(2)
        of_layer = {
            "self_attn.q_proj": query, "self_attn.k_proj": key, "self_attn.v_proj": value, "self_attn.o_proj": layer.attention.output.weight,
            "mlp.gate_proj": gate, "mlp.up_proj": up, "mlp.down_proj": layer.feed_forward.out.weight,
            "input_layernorm": layer.attention_norm.weight, "post_attention_layernorm": layer.feed_forward_norm.weight,
        }  # fmt: skip
        weights |= {f"model.layers.{number}.{name}.weight": weight for name, weight in of_layer.items()}
    peer.load_state_dict({name: weight.clone() for name, weight in weights.items()})
    return peer


def prompts_of(shape: GenerationShape, count: int, length: int) -> Tensor:
    return torch.randint(shape.vocabulary, (count, length), generator=torch.Generator().manual_seed(1))


def greedy(peer: Any, prompts: Tensor, length: int) -> Tensor:
    """[texts, length]: of transformers."""
    with torch.inference_mode():
        mask = torch.ones_like(prompts)
        made = peer.generate(prompts, attention_mask=mask, max_new_tokens=length, min_new_tokens=length, do_sample=False, use_cache=True)
    return made[:, prompts.shape[1] :]


class Sides:
    """The model with weights of each kind, and transformers'."""

    def __init__(self, shape: GenerationShape) -> None:
        torch.manual_seed(0)
        self.shape, self.model = shape, our_model(shape).requires_grad_(False)
        self.peers = {}
        if has_peer():
            peer = peer_of(self.model, shape)
            self.peers = {"fp32": peer, "bf16": peer_of(self.model, shape).bfloat16()}

    def jobs(self, texts: int, prompt: int, length: int, kinds: tuple[str, ...] = OURS) -> dict[str, Callable[[], object]]:
        """A job of each side makes `length` tokens after each of so many prompts."""
        prompts = prompts_of(self.shape, texts, prompt)

        def ours(kind: str) -> Callable[[], object]:
            options = {"length": length, "temperature": 0, "batch": texts, "weights": None if kind == "fp32" else kind}
            return lambda: self.model.generate(list(prompts), **options)

        jobs = {kind: ours(kind) for kind in kinds}
        return jobs | {
            f"{PEER} {kind}": lambda peer=peer: greedy(peer, prompts, length) for kind, peer in self.peers.items() if kind in kinds
        }


@dataclass(frozen=True)
class Speed:
    """Tokens that a side makes, or reads, in so many seconds."""

    name: str
    seconds: float
    tokens: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds


def between(short: dict[str, Timing], long: dict[str, Timing], tokens: int) -> list[Speed]:
    """Without what each call does once, the reading of the prompt among it; with it where other programs disturb more than that."""
    seconds = {name: long[name].min - short[name].min for name in long}
    return [Speed(name, each if each > 0 else long[name].min, tokens) for name, each in seconds.items()]


def step_speeds(sides: Sides, texts: int, lengths: tuple[int, int], seconds: float) -> tuple[list[Speed], float]:
    """Tokens after a short prompt, and the bytes a second at which the weights can be read, in turns with them."""
    shape = sides.shape
    jobs = [sides.jobs(texts, PROMPT, length) for length in lengths]
    weights = torch.empty(shape.read_weights).normal_()
    both = {f"{length} {name}": job for length, of in zip(lengths, jobs, strict=True) for name, job in of.items()}
    timings = take_turns({READ: lambda: weights.sum()} | both, seconds=seconds, min_turns=3)
    short, long = ({name: timings[f"{length} {name}"] for name in jobs[0]} for length in lengths)
    bandwidth = 4 * shape.read_weights / timings[READ].min
    return between(short, long, texts * (lengths[1] - lengths[0])), bandwidth


def whole_speeds(sides: Sides, prompt: int, length: int, tokens: int, seconds: float, turns: int, kinds: tuple[str, ...]) -> list[Speed]:
    jobs = sides.jobs(1, prompt, length, kinds)
    if turns == 1:  # minutes each: the turn that is not counted would be one of two
        timings = {}
        for name, job in jobs.items():
            timings |= take_once(name, job)
    else:
        timings = take_turns(jobs, seconds=seconds, min_turns=turns)
    return [Speed(name, timing.min, tokens) for name, timing in timings.items()]


def take_once(name: str, job: Callable[[], object]) -> dict[str, Timing]:
    begin = time.perf_counter()
    job()
    seconds = time.perf_counter() - begin
    return {name: Timing(seconds, seconds, 1)}


def ratios(speeds: list[Speed]) -> dict[str, float]:
    """Of each of ours over the peer of its kind, int8 over the faster peer; none without peers."""
    by_name = {speed.name: speed.tokens_per_second for speed in speeds}
    theirs = {kind: by_name[f"{PEER} {kind}"] for kind in THEIRS if f"{PEER} {kind}" in by_name}
    return {kind: by_name[kind] / theirs.get(kind, max(theirs.values())) for kind in OURS if kind in by_name and theirs}


def share_of_reading(shape: GenerationShape, speed: Speed, bandwidth: float) -> float:
    """Of the speed at which each token would only read the weights once."""
    size = {"fp32": 4, "bf16": 2, "int8": 1}[speed.name.split()[-1]]
    return speed.tokens_per_second * size * shape.read_weights / bandwidth
