"""Tokenizers of PyPI that ours are held to, and the command line over ours."""

import io
import json
import subprocess

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace("{1,3}", "")
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def converted(cogwheel_executable, action, path, values):
    """Tokens of texts (``encode``) or texts of tokens (``decode``), of the tokenizer at a path."""
    lines = "".join(json.dumps(value) + "\n" for value in values)
    told = subprocess.run(
        [cogwheel_executable, "data", "tokenizer", action, path], input=lines, capture_output=True, text=True, timeout=200
    )
    assert told.returncode == 0, told.stderr
    return [json.loads(line) for line in told.stdout.split("\n")[:-1]]


def byte_level(kind, texts):
    """A vocabulary of the kind of GPT-2, Llama 3, Qwen 2 or SmolLM, learned by ``tokenizers``."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=kind == "llama3"))
    pre = tokenizers.pre_tokenizers
    whole = pre.ByteLevel(add_prefix_space=False)
    split = tokenizers.Regex(QWEN2 if kind == "qwen2" else LLAMA3)
    parts = [pre.Split(split, "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]
    if kind == "smollm":
        parts = [pre.Digits(individual_digits=True), whole]
    tokenizer.pre_tokenizer = whole if kind == "gpt2" else pre.Sequence(parts)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    if kind == "qwen2":
        tokenizer.normalizer = tokenizers.normalizers.NFC()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=3000, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False,
        special_tokens=["<|endoftext|>"] if kind in ("gpt2", "smollm") else [],
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    if kind == "llama3":
        tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
        begin = ("<|begin_of_text|>", tokenizer.token_to_id("<|begin_of_text|>"))
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(single=f"{begin[0]} $A", special_tokens=[begin])
    if kind == "qwen2":
        tokenizer.add_special_tokens(["<|endoftext|>"])
        names = ["<think>", "</think>", "<s>", "<s>>", "größe\u0301"]
        tokenizer.add_tokens([tokenizers.AddedToken(name, normalized=False, special=False) for name in names])
    return tokenizer


def sentencepiece_model(lines, **options):
    """A model that ``sentencepiece`` trains, in bytes; by default as Llama's."""
    import sentencepiece

    model = io.BytesIO()
    llama = dict(
        model_type="bpe", vocab_size=1500, byte_fallback=True, normalization_rule_name="identity", split_digits=True,
        remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
    )  # fmt: skip
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, **{"minloglevel": 3, "num_threads": 1, **llama, **options}
    )
    return model.getvalue()
