"""Tokenizers of language models from Hugging Face's folders, and as AutoTokenizer reads ours: the same tokens and texts."""

import json
import subprocess

import pytest
from hostile_texts import hostile_texts
from tokenizer_peers import byte_level, converted, sentencepiece_model

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
TEXTS = hostile_texts(10_000, 3)


@pytest.fixture(scope="module")
def prose(repository):
    return [path.read_text() for path in sorted((repository / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def model(prose):
    """As Llama's first."""
    return sentencepiece_model([line for text in prose for line in text.split("\n") if line])


LEADING = {
    "prepended": lambda t: ("normalizer", t.normalizers.Sequence([t.normalizers.Prepend("▁"), t.normalizers.Replace(" ", "▁")])),
    "replaced": lambda t: ("normalizer", t.normalizers.Replace(" ", "▁")),
    "always": lambda t: ("pre_tokenizer", t.pre_tokenizers.Metaspace("▁", prepend_scheme="always", split=False)),
    "first": lambda t: ("pre_tokenizer", t.pre_tokenizers.Metaspace("▁", prepend_scheme="first", split=False)),
}


def of_pieces(model, leading, bytes_too=True, added=()):
    """The pieces of a model as `tokenizers` has them: its pairs in the order of the scores."""
    processor = spm.SentencePieceProcessor(model_proto=model)
    pieces = [processor.id_to_piece(token) for token in range(processor.vocab_size())]
    ours = {piece: token for token, piece in enumerate(pieces) if not processor.is_control(token) and not processor.is_byte(token)}
    merges = []
    for piece in sorted(ours, key=lambda piece: -processor.get_score(ours[piece])):
        merges += [(piece[:at], piece[at:]) for at in range(1, len(piece)) if piece[:at] in ours and piece[at:] in ours]
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=bytes_too)
    )
    setattr(made, *LEADING[leading](tokenizers))
    steps = tokenizers.decoders
    strip = [steps.Strip(" ", 1, 0)] if leading != "replaced" else []
    made.decoder = steps.Sequence([steps.Replace("▁", " "), steps.ByteFallback(), steps.Fuse(), *strip])
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    made.add_tokens([tokenizers.AddedToken(name, normalized=False) for name in added])
    begin = ("<s>", made.token_to_id("<s>"))
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[begin])
    return made


@pytest.mark.parametrize(
    ("leading", "bytes_too", "added"),
    [("prepended", True, ()), ("always", False, ()), ("first", True, ("<0x0A>>", "hello", "▁")), ("replaced", True, ("<s>>",))],
)
def test_pieces_are_read_from_tokenizer_json(leading, bytes_too, added, model, tmp_path, cogwheel_executable):
    theirs = of_pieces(model, leading, bytes_too, added)
    theirs.save(str(tmp_path / "tokenizer.json"))
    theirs.encode_special_tokens = True
    expected = [encoding.ids for encoding in theirs.encode_batch(TEXTS, add_special_tokens=False)]
    assert converted(cogwheel_executable, "encode", tmp_path, TEXTS) == expected
    assert converted(cogwheel_executable, "decode", tmp_path, expected) == theirs.decode_batch(expected)


def test_a_model_comes_before_the_file_made_of_it(model, tmp_path, cogwheel_executable):
    (tmp_path / "tokenizer.model").write_bytes(model)
    of_pieces(model, "first").save(str(tmp_path / "tokenizer.json"))
    theirs = spm.SentencePieceProcessor(model_proto=model)
    texts = ["  two", " one", "none", ""]
    assert converted(cogwheel_executable, "encode", tmp_path, texts) == [theirs.encode(text) for text in texts]
    # But not where the file has tokens that the model lacks.
    of_pieces(model, "first", added=["<|chat|>"]).save(str(tmp_path / "tokenizer.json"))
    assert converted(cogwheel_executable, "encode", tmp_path, ["<|chat|>"]) == [[theirs.vocab_size()]]


def written(kind, folder, cogwheel_executable, prose, model):
    """A tokenizer of each kind, and texts that it can read."""
    path, texts = folder / "tokenizer.json", TEXTS
    if kind == "character":
        known = {character for text in TEXTS[:300] for character in text}
        path.write_text(json.dumps({"kind": "character", "characters": "".join(sorted(known))}))
        texts = ["".join(character for character in text if character in known) for text in TEXTS]
    elif kind == "byte":
        path.write_text('{"kind": "byte"}')
    elif kind == "words":
        words = sorted({word for text in TEXTS[:300] for word in text.split(" ") if word} | {"<s>", "</s>"})
        path.write_text(json.dumps({"kind": "words", "words": words}))
    elif kind == "sentencepiece":
        path = folder / "tokenizer.model"
        path.write_bytes(model)
    elif kind in ("learned", "learned_llama3"):
        (folder / "text").mkdir()
        (folder / "text/a.txt").write_text("".join(prose))
        words = ["--words", "llama3"] if kind == "learned_llama3" else []
        command = [cogwheel_executable, "data", "tokenizer", "train", folder / "text", "--vocabulary", "1500", "--out", path, *words]
        subprocess.run(command, check=True, capture_output=True)
    elif kind == "pieces":
        of_pieces(model, "first", added=["hello"]).save(str(path))
    else:
        byte_level(kind, prose).save(str(path))
    return path, texts


@pytest.mark.parametrize(
    "kind",
    ["character", "byte", "words", "learned", "learned_llama3", "sentencepiece", "pieces", "gpt2", "llama3", "qwen2", "smollm"],
)
def test_an_export_gives_the_same_tokens(kind, tmp_path, cogwheel_executable, prose, model):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    path, texts = written(kind, tmp_path, cogwheel_executable, prose, model)
    if kind not in ("character", "byte", "learned", "sentencepiece"):  # not learned here
        texts = texts[-2000:]
    out = tmp_path / "out"
    told = subprocess.run(
        [cogwheel_executable, "data", "tokenizer", "export", path, "--out", out], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    # Beside a model, whose type has a class of tokenizers of its own.
    types = {"sentencepiece": "llama", "pieces": "mistral", "qwen2": "qwen2", "learned": "llama", "llama3": "llama"}
    (out / "config.json").write_text(json.dumps({"model_type": types.get(kind, "gpt2")}))
    theirs = transformers.AutoTokenizer.from_pretrained(out)
    assert isinstance(theirs, transformers.PreTrainedTokenizerFast)
    expected = converted(cogwheel_executable, "encode", path, texts)
    begins = [theirs.bos_token_id] if kind in ("words", "sentencepiece", "pieces", "llama3") else []
    assert theirs(texts)["input_ids"] == [[*begins, *tokens] for tokens in expected]
    assert theirs(texts[:100], add_special_tokens=False)["input_ids"] == expected[:100]
    back = converted(cogwheel_executable, "decode", path, expected)
    assert theirs.batch_decode(expected, skip_special_tokens=True) == back
    assert theirs.batch_decode([[*begins, *tokens] for tokens in expected[:100]], skip_special_tokens=True) == back[:100]
    # What begins and ends texts is there, and in a text its name is text.
    shown = subprocess.run([cogwheel_executable, "data", "tokenizer", "show", path], capture_output=True, text=True).stdout
    tokens = int(shown.split("\ntokens: ")[1].split("\n")[0])
    one_more = kind == "character"
    assert len(theirs) == tokens + one_more and f"{kind if kind in ('byte', 'character') else ''}, {len(theirs)} tokens\n" in told.stdout
    assert theirs.bos_token_id is not None and theirs.eos_token_id is not None
    assert not one_more or theirs.eos_token_id == tokens
    if kind != "words":  # which no folder holds that is imported
        assert converted(cogwheel_executable, "encode", out, texts) == expected


def test_a_character_without_a_token_is_refused_on_both_sides(tmp_path, cogwheel_in):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    (tmp_path / "tokenizer.json").write_text('{"kind": "character", "characters": "abc"}')
    cogwheel = cogwheel_in(tmp_path)
    told = cogwheel("data", "tokenizer", "encode", "tokenizer.json", input='"abx"\n')
    assert told.returncode == 1 and "expected one of the 3 characters" in told.stderr
    assert cogwheel("data", "tokenizer", "export", "tokenizer.json", "--out", "out").returncode == 0
    with pytest.raises(Exception, match="Missing"):
        transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("abx")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(model_type="unigram"), "expected a SentencePiece model of byte pairs, which `tokenizers` cuts alike, got another kind"),
        (dict(normalization_rule_name="nfkc"), "expected a SentencePiece model that leaves characters as they are, got one that"),
        (dict(remove_extra_whitespaces=True), "expected a SentencePiece model that keeps every space, got one that drops some"),
        (dict(user_defined_symbols=["<sep>"]), "expected pieces that were learned, got one that a user defined"),
    ],
)  # fmt: skip
def test_what_tokenizers_cannot_imitate_is_not_exported(options, message, prose, tmp_path, cogwheel_in):
    lines = [line for line in prose[0].split("\n") if line]
    (tmp_path / "t.model").write_bytes(sentencepiece_model(lines, **{"vocab_size": 500, **options}))
    told = cogwheel_in(tmp_path)("data", "tokenizer", "export", "t.model", "--out", "out")
    assert told.returncode == 1 and message in told.stderr and told.stderr.count("\n") == 1, told.stderr
    assert not (tmp_path / "out").exists()
