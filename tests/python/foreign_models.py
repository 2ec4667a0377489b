"""Models as Hugging Face's transformers keeps them: small ones with random weights, and formulas over their names."""

import json

import torch
from tensor_files import write_tensors
from torch.nn import functional as F

WIDTH, HEADS, HIDDEN = 32, 2, 48


class Foreign:
    """Weights by name, and what a formula reads of them."""

    def __init__(self, architecture, kind, classes, **config):
        self.config = {
            "architectures": [architecture], "model_type": kind, "hidden_size": WIDTH, "num_hidden_layers": 2,
            "num_attention_heads": HEADS, "intermediate_size": HIDDEN, "hidden_act": "gelu",
            "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12,
            "torch_dtype": "float32", **config,
        }  # fmt: skip
        if classes > 0:
            self.config["id2label"] = {str(label): f"class {label}" for label in range(classes)}
        self.weights, self.files = {}, {}
        self.generator = torch.Generator().manual_seed(7)

    def add(self, name, *sizes):
        self.weights[name] = 0.2 * torch.randn(sizes, generator=self.generator)

    def add_linear(self, name, inputs, outputs):
        self.add(name + ".weight", outputs, inputs)
        self.add(name + ".bias", outputs)

    def add_norm(self, name):
        self.add(name + ".weight", WIDTH)
        self.add(name + ".bias", WIDTH)

    def write(self, folder):
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(self.config))
        write_tensors(self.weights, folder / "model.safetensors")
        for name, text in self.files.items():
            (folder / name).write_text(text)

    def linear(self, name, x):
        return F.linear(x, self.weights[name + ".weight"], self.weights[name + ".bias"])

    def norm(self, name, x):
        return F.layer_norm(x, (WIDTH,), self.weights[name + ".weight"], self.weights[name + ".bias"], 1e-12)

    def attention(self, name, x):
        query, key, value = (
            self.linear(name + part, x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in ("query", "key", "value")
        )
        return F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)


class Vit(Foreign):
    """Images of 3 × 16 × 16, in patches of 4 × 4."""

    def __init__(self):
        sizes = {"image_size": 16, "patch_size": 4, "num_channels": 3, "qkv_bias": True}
        super().__init__("ViTForImageClassification", "vit", 5, **sizes)
        self.add("vit.embeddings.cls_token", 1, 1, WIDTH)
        self.add("vit.embeddings.position_embeddings", 1, 17, WIDTH)
        self.add("vit.embeddings.patch_embeddings.projection.weight", WIDTH, 3, 4, 4)
        self.add("vit.embeddings.patch_embeddings.projection.bias", WIDTH)
        for prefix in ("vit.encoder.layer.0.", "vit.encoder.layer.1."):
            for part in ("query", "key", "value"):
                self.add_linear(f"{prefix}attention.attention.{part}", WIDTH, WIDTH)
            self.add_linear(prefix + "attention.output.dense", WIDTH, WIDTH)
            self.add_linear(prefix + "intermediate.dense", WIDTH, HIDDEN)
            self.add_linear(prefix + "output.dense", HIDDEN, WIDTH)
            self.add_norm(prefix + "layernorm_before")
            self.add_norm(prefix + "layernorm_after")
        self.add_norm("vit.layernorm")
        self.add_linear("classifier", WIDTH, 5)

    def logits(self, images):
        name = "vit.embeddings.patch_embeddings.projection"
        x = F.conv2d(images, self.weights[name + ".weight"], self.weights[name + ".bias"], stride=4).flatten(2).mT
        x = torch.cat([self.weights["vit.embeddings.cls_token"].expand(len(x), 1, -1), x], 1)
        x = x + self.weights["vit.embeddings.position_embeddings"]
        for prefix in ("vit.encoder.layer.0.", "vit.encoder.layer.1."):
            mixed = self.attention(prefix + "attention.attention.", self.norm(prefix + "layernorm_before", x))
            x = x + self.linear(prefix + "attention.output.dense", mixed)
            inner = self.linear(prefix + "intermediate.dense", self.norm(prefix + "layernorm_after", x))
            x = x + self.linear(prefix + "output.dense", F.gelu(inner))
        return self.linear("classifier", self.norm("vit.layernorm", x)[:, 0])


class Bert(Foreign):
    """20 pieces, up to 9 of them in a sequence; of 3 classes or of hidden words."""

    def __init__(self, classes):
        architecture = "BertForSequenceClassification" if classes else "BertForMaskedLM"
        sizes = {"vocab_size": 20, "max_position_embeddings": 9, "type_vocab_size": 2}
        super().__init__(architecture, "bert", 3 if classes else 0, position_embedding_type="absolute", **sizes)
        self.classes = classes
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmno"]
        self.files["vocab.txt"] = "".join(piece + "\n" for piece in pieces)
        self.add("bert.embeddings.word_embeddings.weight", 20, WIDTH)
        self.add("bert.embeddings.position_embeddings.weight", 9, WIDTH)
        self.add("bert.embeddings.token_type_embeddings.weight", 2, WIDTH)
        self.add_norm("bert.embeddings.LayerNorm")
        for prefix in ("bert.encoder.layer.0.", "bert.encoder.layer.1."):
            for part in ("query", "key", "value"):
                self.add_linear(f"{prefix}attention.self.{part}", WIDTH, WIDTH)
            self.add_linear(prefix + "attention.output.dense", WIDTH, WIDTH)
            self.add_norm(prefix + "attention.output.LayerNorm")
            self.add_linear(prefix + "intermediate.dense", WIDTH, HIDDEN)
            self.add_linear(prefix + "output.dense", HIDDEN, WIDTH)
            self.add_norm(prefix + "output.LayerNorm")
        if classes:
            self.add_linear("bert.pooler.dense", WIDTH, WIDTH)
            self.add_linear("classifier", WIDTH, 3)
        else:
            self.add_linear("cls.predictions.transform.dense", WIDTH, WIDTH)
            self.add_norm("cls.predictions.transform.LayerNorm")
            self.add("cls.predictions.bias", 20)

    def logits(self, tokens, segments):
        words = self.weights["bert.embeddings.word_embeddings.weight"]
        x = words[tokens] + self.weights["bert.embeddings.token_type_embeddings.weight"][segments]
        x = x + self.weights["bert.embeddings.position_embeddings.weight"][: tokens.shape[1]]
        x = self.norm("bert.embeddings.LayerNorm", x)
        for prefix in ("bert.encoder.layer.0.", "bert.encoder.layer.1."):
            mixed = self.linear(prefix + "attention.output.dense", self.attention(prefix + "attention.self.", x))
            x = self.norm(prefix + "attention.output.LayerNorm", x + mixed)
            inner = F.gelu(self.linear(prefix + "intermediate.dense", x))
            x = self.norm(prefix + "output.LayerNorm", x + self.linear(prefix + "output.dense", inner))
        if self.classes:
            return self.linear("classifier", self.linear("bert.pooler.dense", x[:, 0]).tanh())
        read = F.gelu(self.linear("cls.predictions.transform.dense", x))
        return self.norm("cls.predictions.transform.LayerNorm", read) @ words.T + self.weights["cls.predictions.bias"]
