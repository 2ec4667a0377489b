"""Trained models as plain PyTorch in float64, dense formulas throughout: the judge of `cogwheel.load`.

Each activation goes through ``at(name, value)``, which reads or replaces it, as a forward hook would.
"""

import json
import math
from collections.abc import Callable

import reference
import torch
from plain_layers import frequencies, rotated, slopes
from tensor_files import read_tensors
from torch import Tensor
from torch.nn import functional as F

import cogwheel


def layer_mechanism(options: dict, layer: int) -> str:
    """As in ``gla*3+softmax``, which repeats down the layers; the outer ones may be softmax."""
    if layer < options["first_softmax_layers"] or layer >= options["layers"] - options["last_softmax_layers"]:
        return "softmax"
    period = []
    for part in options["mechanism"].split("+"):
        name, _, times = part.partition("*")
        period += [name] * int(times or 1)
    return period[layer % len(period)]


class PlainModel:
    norm_epsilon = 1e-5
    norms_before = True
    causal = False

    def __init__(self, run, options: dict) -> None:
        tensors = read_tensors(run / "checkpoint.safetensors")
        prefix = "average." if any(name.startswith("average.") for name in tensors) else "model."
        self.weights = {
            name.removeprefix(prefix): tensor.double() for name, tensor in tensors.items() if name.startswith(prefix)
        }
        self.options = options
        self.known = {each["name"]: each for each in cogwheel.mechanisms()}
        self.at: Callable[[str, Tensor], Tensor] = lambda name, value: value

    def linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.weights[name + ".weight"], self.weights.get(name + ".bias"))

    def norm(self, name: str, x: Tensor, place: str | None = None) -> Tensor:
        at = (lambda what, value: self.at(f"{place}.{what}", value)) if place else lambda what, value: value
        rms = self.options.get("norm") == "rms"
        centered = x if rms else x - x.mean(-1, keepdim=True)
        epsilon = self.options.get("norm_epsilon") or (1e-6 if rms else self.norm_epsilon)
        scale = at("hook_scale", (centered.square().mean(-1, keepdim=True) + epsilon).sqrt())
        normed = at("hook_normalized", centered / scale) * self.weights[name + ".weight"]
        return normed + self.weights[name + ".bias"] if name + ".bias" in self.weights else normed

    def placed(self, heads: Tensor) -> Tensor:
        """Queries or keys [B, N, heads, head_dim] after what positions make of them."""
        return heads

    def attention(self, layer: int, stream: Tensor, before: Callable[[Tensor], Tensor], lengths: Tensor | None) -> Tensor:
        """What attention adds to the stream, which it reads through `before`."""
        prefix, mechanism = f"layers.{layer}.attention.", self.known[layer_mechanism(self.options, layer)]
        at = lambda name, value: self.at(f"blocks.{layer}.{name}", value)  # noqa: E731
        count = self.options["heads"]
        head_dim = self.options.get("head_dim") or self.options["width"] // count
        shared, width = self.options.get("key_value_heads") or count, count * head_dim
        difference = prefix + "lambda_query1" in self.weights
        value_heads = shared // 2 if difference else shared
        tied = prefix + "query_value.weight" in self.weights
        projection = prefix + ("query_value" if tied else "query_key_value")
        weight, bias = self.weights[projection + ".weight"], self.weights.get(projection + ".bias")

        split = stream[:, :, None]
        inputs = {
            part: at(f"hook_{part}_input", split.expand(-1, -1, heads, -1))
            for part, heads in (("q", count), ("k", shared), ("v", value_heads))
        }

        def projected(part: str, first: int, wide: int) -> Tensor:
            """Head by head, of inputs that may differ by head."""
            heads = inputs[part].shape[2]
            rows = weight[first : first + wide].unflatten(0, (heads, -1))
            made = torch.einsum("bnhw,hdw->bnhd", before(inputs[part]), rows)
            return made if bias is None else made + bias[first : first + wide].unflatten(0, (heads, -1))

        query = at("attn.hook_q", projected("q", 0, width))
        if not tied:
            key = projected("k", width, shared * head_dim)
        elif torch.equal(inputs["k"], split.expand_as(inputs["k"])):
            key = query  # as hooks left it
        else:
            key = projected("k", 0, width)
        key = at("attn.hook_k", key)
        value = at("attn.hook_v", projected("v", len(weight) - shared * head_dim, shared * head_dim))
        if self.options.get("query_key_norm"):
            gains = self.weights[prefix + "query_norm"], self.weights[prefix + ("query_norm" if tied else "key_norm")]
            epsilon = self.options["norm_epsilon"] or 1e-6
            query, key = (F.rms_norm(each, each.shape[-1:], gain, epsilon) for each, gain in zip((query, key), gains, strict=True))
        if self.options.get("position", "").startswith("rotary"):
            query, key = at("attn.hook_rot_q", self.placed(query)), at("attn.hook_rot_k", self.placed(key))
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        visible = reference.visible_keys(query.shape[2], key.shape[2], self.causal)
        if self.options.get("window"):
            visible = visible.tril().triu(1 - self.options["window"])
        if lengths is not None:
            visible = visible & (torch.arange(key.shape[2]) < lengths[:, None])[:, None, None]
        pattern = at("attn.hook_pattern", self.pattern(layer, mechanism, at, query, key, visible, difference))
        z = pattern @ value.repeat_interleave(pattern.shape[1] // value.shape[1], 1)
        z = at("attn.hook_z", z.transpose(1, 2))
        if difference:
            first = 0.8 - 0.6 * math.exp(-0.3 * (layer + self.options["first_lambda_depth"]))
            normed = F.rms_norm(z, z.shape[-1:], None, self.options.get("head_norm_epsilon") or 1e-5) * self.weights[prefix + "head_norm"] * (1 - first)
            z = at("attn.hook_z_normed", normed)
        by_head = self.weights[prefix + "output.weight"].unflatten(1, (z.shape[2], -1))
        result = at("attn.hook_result", torch.einsum("bnhd,whd->bnhw", z, by_head)).sum(2)
        bias = self.weights.get(prefix + "output.bias")
        return at("hook_attn_out", result if bias is None else result + bias)

    def pattern(self, layer, mechanism, at, query, key, visible, difference) -> Tensor:
        prefix = f"layers.{layer}.attention."
        parameters = {
            name: self.weights.get(prefix + name) for name in mechanism["parameters"] if name != "lam"
        }  # fmt: skip
        hidden = ~visible.expand(len(query), 1, *visible.shape[-2:])
        scale = query.shape[-1] ** -0.5
        if mechanism["name"] == "polynomial":
            scores = query @ key.transpose(-1, -2) * scale
            at("attn.hook_attn_scores", scores.masked_fill(hidden, -torch.inf))
            # Row i is that of the polynomial of the matrix of the tokens that it sees.
            power, total = torch.eye(scores.shape[-1], dtype=scores.dtype).expand_as(scores), 0
            for coefficient in parameters["coefficients"].unbind(1):
                total, power = total + coefficient[:, None, None] * power, torch.where(visible, power @ scores, 0.0)
            return total
        row = reference.row_of(mechanism["name" if mechanism["form"] == "centered" else "member"])
        if row.cosine:
            query, key, scale = query / query.norm(dim=-1, keepdim=True), key / key.norm(dim=-1, keepdim=True), 1.0
        of_head = key.unflatten(1, (-1, 2 if difference else 1))  # sub-heads meet sub-heads
        key = of_head.repeat_interleave(query.shape[1] // key.shape[1], 1).flatten(1, 2)
        scores = query @ key.transpose(-1, -2) * scale
        decay = 0.0
        if self.options.get("position") == "alibi":
            distance = torch.arange(scores.shape[-1])[:, None] - torch.arange(scores.shape[-1])
            falls = torch.tensor(slopes(scores.shape[1] // (2 if difference else 1))).double()
            decay = falls.repeat_interleave(2 if difference else 1)[:, None, None] * distance
        of_exponents = mechanism["member"] in ("softmax", "softmax_off_by_one")  # which are their scores
        scores = at("attn.hook_attn_scores", (scores if of_exponents else scores - decay).masked_fill(hidden, -torch.inf))
        seen = ~hidden & (scores > -torch.inf)
        scores = scores - decay if of_exponents else scores
        members = row.weights(torch.where(seen, scores, 0.0)[:, None], seen, parameters)
        if not difference:
            return members
        members = at("attn.hook_pattern_members", members)
        scalar = {part: self.weights[f"{prefix}lambda_{part}"] for part in ("query1", "key1", "query2", "key2")}
        first = 0.8 - 0.6 * math.exp(-0.3 * (layer + self.options["first_lambda_depth"]))
        parts = [(scalar[f"query{part}"] @ scalar[f"key{part}"]).exp() for part in (1, 2)]
        lam = parts[0] - parts[1] + first
        at("attn.hook_lambda", torch.stack([*parts, torch.full_like(lam, first), lam]))
        return members[:, 0::2] - lam * members[:, 1::2]

    def feed_forward(self, layer: int, x: Tensor) -> Tensor:
        prefix = f"layers.{layer}.feed_forward."
        at = lambda name, value: self.at(f"blocks.{layer}.mlp.{name}", value)  # noqa: E731
        units = self.linear(prefix + "up", x)
        if self.options.get("activation") == "swiglu":
            gate, up = units.chunk(2, -1)
            units = F.silu(at("hook_pre", gate)) * at("hook_pre_linear", up)
        else:
            tanh = self.options.get("activation") == "gelu_tanh"
            units = F.gelu(at("hook_pre", units), approximate="tanh" if tanh else "none")
        return self.linear(prefix + "out", at("hook_post", units))

    def block(self, layer: int, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        prefix, place = f"layers.{layer}.", f"blocks.{layer}"
        at = lambda name, value: self.at(f"{place}.{name}", value)  # noqa: E731
        x = at("hook_resid_pre", x)
        if self.norms_before:
            def before(heads: Tensor) -> Tensor:  # one norm for all heads, but those with inputs of their own
                unsplit = x[:, :, None].expand(-1, -1, heads.shape[2], -1)
                if not torch.equal(heads, unsplit):
                    return self.norm(prefix + "attention_norm", heads)
                return normed[:, :, None].expand(-1, -1, heads.shape[2], -1)

            normed = self.norm(prefix + "attention_norm", x, f"{place}.ln1")
            x = at("hook_resid_mid", x + self.attention(layer, x, before, lengths))
            read = self.norm(prefix + "feed_forward_norm", x, f"{place}.ln2")
            return at("hook_resid_post", x + at("hook_mlp_out", self.feed_forward(layer, read)))
        x = at("hook_resid_mid", x + self.attention(layer, x, lambda heads: heads, lengths))
        x = self.norm(prefix + "attention_norm", x, f"{place}.ln1")
        x = at("hook_resid_post", x + at("hook_mlp_out", self.feed_forward(layer, x)))
        return at("hook_normalized_resid_post", self.norm(prefix + "feed_forward_norm", x, f"{place}.ln2"))

    def patches(self, images: Tensor) -> Tensor:
        """Patches [B, patches, width], row by row."""
        patch = self.options["patch"]
        return self.linear("patch", F.unfold(images, patch, stride=patch).transpose(1, 2))


class PlainLanguageModel(PlainModel):
    causal = True

    def placed(self, heads: Tensor) -> Tensor:
        names = ("base", "scaling", "factor", "low_frequency", "high_frequency", "original_context")
        omega = frequencies(heads.shape[-1], *(self.options["rotary_" + name] for name in names))
        return rotated(heads, torch.arange(heads.shape[1]).expand(heads.shape[:2]), omega, self.options["position"] == "rotary_halves")

    def __call__(self, tokens: Tensor) -> Tensor:
        embedding = self.weights["token_embedding"]
        x = self.at("hook_embed", F.embedding(tokens, embedding))
        if "position_embedding" in self.weights:
            x = x + self.at("hook_pos_embed", self.weights["position_embedding"][: tokens.shape[1]].expand_as(x))
        x = self.at("hook_full_embed", x)
        for layer in range(self.options["layers"]):
            x = self.block(layer, x)
        x = self.norm("final_norm", x, "ln_final")
        head = self.linear("head", x) if "head.weight" in self.weights else F.linear(x, embedding)
        return self.at("hook_logits", head)


class PlainEncoder(PlainModel):
    norm_epsilon = 1e-12
    norms_before = False

    def __call__(self, tokens: Tensor, segments: Tensor, lengths: Tensor) -> Tensor:
        embedding = self.weights["token_embedding"]
        x = F.embedding(tokens, embedding) + self.weights["position_embedding"][: tokens.shape[1]]
        x = self.norm("embedding_norm", x + F.embedding(segments, self.weights["segment_embedding"]))
        x = self.at("hook_full_embed", x)
        for layer in range(self.options["layers"]):
            x = self.block(layer, x, lengths)
        return self.linear("classifier", self.linear("pooler", x[:, 0]).tanh())


class PlainVisionTransformer(PlainModel):
    norm_epsilon = 1e-12

    def __call__(self, images: Tensor) -> Tensor:
        x = self.patches(images)
        if "class_token" in self.weights:
            x = torch.cat([self.weights["class_token"].expand(len(x), 1, -1), x], 1)
        x = self.at("hook_full_embed", x + self.weights["position_embedding"])
        for layer in range(self.options["layers"]):
            x = self.block(layer, x)
        x = self.norm("final_norm", x, "ln_final")
        return self.linear("head", x[:, 0] if "class_token" in self.weights else x.mean(1))


class PlainUVit(PlainModel):
    def __call__(self, x: Tensor, time: Tensor, condition: Tensor | None = None) -> Tensor:
        options = self.options
        half = options["width"] // 2
        frequencies = torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(10000.0) / half))
        angles = time.float()[:, None] * frequencies
        tokens = [torch.cat([angles.cos(), angles.sin()], 1).double()[:, None]]
        if condition is not None:
            tokens.insert(0, F.embedding(condition, self.weights["class_embedding"])[:, None])
        patches = self.patches(x)
        y = self.at("hook_full_embed", torch.cat([*tokens, patches], 1) + self.weights["position_embedding"])
        skipped: list[Tensor] = []
        middle = options["layers"] // 2
        for layer in range(options["layers"]):
            if layer > middle:
                y = self.linear(f"skips.{layer - middle - 1}", torch.cat([y, skipped.pop()], -1))
            y = self.block(layer, y)
            if layer < middle:
                skipped.append(y)
        y = self.linear("pixels", self.norm("final_norm", y, "ln_final")[:, -patches.shape[1] :])
        side, patch = options["image_size"] // options["patch"], options["patch"]
        pixels = y.unflatten(2, (patch, patch, -1)).unflatten(1, (side, side)).permute(0, 5, 1, 3, 2, 4)
        image = pixels.flatten(4).flatten(2, 3)
        return F.conv2d(image, self.weights["convolution_weight"], self.weights["convolution_bias"], padding=1)


def plain(run) -> PlainModel:
    """The model of a run's checkpoint."""
    content = (run / "checkpoint.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    configuration = json.loads(header["__metadata__"]["configuration"])
    options = {key.removeprefix("model."): value for key, value in configuration.items() if key.startswith("model.")}
    topologies = {
        "tied_head": PlainLanguageModel, "segments": PlainEncoder, "pooling": PlainVisionTransformer,
        "condition_tokens": PlainUVit,
    }  # fmt: skip
    return next(topology for key, topology in topologies.items() if key in options)(run, options)
