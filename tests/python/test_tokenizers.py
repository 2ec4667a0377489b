"""Tokenizers beside those of PyPI: tokenizers, tiktoken, sentencepiece."""

import collections
import gzip
import io
import json
import re
import subprocess
import unicodedata

import pytest
from hostile_texts import hostile_texts
from tokenizer_peers import GPT2, LLAMA3, byte_level, converted

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

TEXTS = hostile_texts(10_000, 1)
# Every mark that may change places with others, in a version of Unicode or another, between some that do.
MARKS = [chr(code) for code in [*range(0x300, 0x3100), *range(0xA600, 0xAC00), *range(0x10000, 0x1F000)]]
MARKS = [mark for mark in MARKS if unicodedata.category(mark)[0] == "M" or unicodedata.category(mark) == "Cn"]
COMBINING = [f"a\u0345{a}\u0334 e\u0301{b}\u0323" for a, b in zip(MARKS[::2], MARKS[1::2])]
COMBINING += [f"a{mark}\u0334\u0301" for mark in MARKS if unicodedata.combining(mark)] + ["\U00011935\U00011930"]


@pytest.fixture(scope="module")
def learned_from(repository):
    """What vocabularies are learned from: prose, code, and texts like those that are asked for."""
    documents = [path.read_text() for path in sorted((repository / "docs").glob("*.md"))]
    documents += [path.read_text() for path in sorted((repository / "tests/python").glob("test_a*.py"))]
    return [*documents, *hostile_texts(1500, 2)]


def byte_of_character():
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printing]
    return {chr(byte): byte for byte in printing} | {chr(256 + index): byte for index, byte in enumerate(others)}


@pytest.mark.parametrize("kind", ["gpt2", "llama3", "qwen2", "smollm"])
def test_byte_pairs_are_those_of_tokenizers_and_tiktoken(kind, tmp_path, cogwheel_executable, learned_from):
    theirs = byte_level(kind, learned_from)
    theirs.save(str(tmp_path / "tokenizer.json"))
    theirs.encode_special_tokens = True  # names of special tokens in a text are text
    texts = [*TEXTS, *COMBINING] if kind == "qwen2" else TEXTS
    expected = [encoding.ids for encoding in theirs.encode_batch(texts, add_special_tokens=False)]
    assert converted(cogwheel_executable, "encode", tmp_path, texts) == expected
    back = theirs.decode_batch(expected)
    assert kind == "qwen2" or back == TEXTS  # whose texts come back composed
    assert converted(cogwheel_executable, "decode", tmp_path, expected) == back
    if kind == "gpt2":
        folder = tmp_path / "gpt2"
        folder.mkdir()
        theirs.model.save(str(folder))
        assert converted(cogwheel_executable, "encode", folder / "merges.txt", TEXTS[:500]) == expected[:500]

    if kind not in ("gpt2", "llama3"):
        return
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    bytes_of = byte_of_character()
    special = {token.content: number for number, token in theirs.get_added_tokens_decoder().items()}
    ranks = {
        bytes(bytes_of[character] for character in text): number
        for text, number in theirs.get_vocab(with_added_tokens=False).items()
        if text not in special
    }
    pattern = GPT2 if kind == "gpt2" else LLAMA3
    other = tiktoken.Encoding("other", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    assert [other.encode_ordinary(text) for text in TEXTS] == expected


SENTENCEPIECE = {
    "llama": dict(
        model_type="bpe", vocab_size=1500, byte_fallback=True, normalization_rule_name="identity", split_digits=True,
        remove_extra_whitespaces=False, allow_whitespace_only_pieces=True,
    ),
    "without_prefix": dict(model_type="bpe", vocab_size=1200, add_dummy_prefix=False, pad_id=3, user_defined_symbols=["<sep>"]),
    "unigram": dict(model_type="unigram", vocab_size=1200, byte_fallback=True),
    "suffix": dict(model_type="unigram", vocab_size=1100, normalization_rule_name="nfkc_cf", treat_whitespace_as_suffix=True),
}  # fmt: skip


@pytest.mark.parametrize("kind", SENTENCEPIECE)
def test_sentencepiece_models_are_read(kind, tmp_path, cogwheel_executable, repository):
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    lines = [line for path in sorted((repository / "docs").glob("*.md")) for line in path.read_text().split("\n") if line]
    model = io.BytesIO()
    options = dict(minloglevel=3, num_threads=1, character_coverage=0.999) | SENTENCEPIECE[kind]
    spm.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **options)
    (tmp_path / "tokenizer.model").write_bytes(model.getvalue())
    theirs = spm.SentencePieceProcessor(model_proto=model.getvalue())
    expected = [theirs.encode(text) for text in TEXTS]
    found = converted(cogwheel_executable, "encode", tmp_path / "tokenizer.model", TEXTS)
    # Of two ways to cut a text that are as likely as each other, versions of unigram take either: by rounding.
    differ = [(one, other) for one, other in zip(found, expected, strict=True) if one != other]
    assert kind in ("unigram", "suffix") or not differ
    for pair in differ:
        one, other = (sum(map(theirs.get_score, tokens)) for tokens in pair)
        assert one == pytest.approx(other, rel=1e-6)
    assert len(differ) < 1000
    assert converted(cogwheel_executable, "decode", tmp_path, expected) == [theirs.decode(tokens) for tokens in expected]


def slowly_learned(texts, vocabulary):
    """The merges, counted anew for each."""
    regex = pytest.importorskip("regex", reason="regex is not installed")
    words = collections.Counter(tuple(word.encode()) for text in texts for word in regex.findall(GPT2, text))
    merges = []
    while 257 + len(merges) < vocabulary:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        new, merged = 256 + len(merges), collections.Counter()
        merges.append(best)
        for word, count in words.items():
            tokens, at = [], 0
            while at < len(word):
                both = word[at : at + 2] == best
                tokens.append(new if both else word[at])
                at += 2 if both else 1
            merged[tuple(tokens)] += count
        words = merged
    return merges


def test_learning_is_that_of_a_slow_one(tmp_path, cogwheel_in):
    texts = ["the cat sat on the mat, the other cat didn't\n" * 3 + "aaaa aaa aa aaaaaaa " * 5, "größe grüße Größe 123 1234\n\n  x" * 4]
    (tmp_path / "text").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / f"text/{number}.txt").write_text(text)
    cogwheel = cogwheel_in(tmp_path)
    told = cogwheel("data", "tokenizer", "train", "text", "--vocabulary", 300, "--out", "tokenizer.json")
    assert told.returncode == 0, told.stderr
    kept = json.loads((tmp_path / "tokenizer.json").read_text())
    expected = slowly_learned(texts, 300)
    assert kept["merges"] == [token for pair in expected for token in pair]
    assert told.stdout == f"tokenizer.json: bpe, {257 + len(expected)} tokens\n"
    # The same from compressed JSON lines.
    lines = "".join(json.dumps({"id": 1, "body": text}) + "\n\n" for text in texts)
    (tmp_path / "lines.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    told = cogwheel("data", "tokenizer", "train", "lines.jsonl.gz", "--field", "body", "--vocabulary", 300, "--out", "of_lines.json")
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "of_lines.json").read_text() == (tmp_path / "tokenizer.json").read_text()
    told = cogwheel("data", "tokenizer", "train", "lines.jsonl.gz", "--vocabulary", 300, "--out", "none.json")
    assert told.returncode == 1 and "lines.jsonl.gz, line 1: expected" in told.stderr and told.stderr.count("\n") == 1


def test_sentencepiece_is_learned_for_documents(tmp_path, cogwheel_in, cogwheel_executable, repository):
    cogwheel = cogwheel_in(tmp_path)
    words = ["data", "tokenizer", "train", repository / "docs/tasks.md", "--vocabulary", 700, "--kind", "sentencepiece"]
    for name in ("tokenizer.json", "tokenizer.model"):
        told = cogwheel(*words, "--out", name)
        assert told.stdout == f"{name}: sentencepiece, 700 tokens\n", told.stderr
    text = "  two  spaces\n\tΩ 123 "
    (one,) = converted(cogwheel_executable, "encode", tmp_path / "tokenizer.json", [text])
    (back,) = converted(cogwheel_executable, "decode", tmp_path / "tokenizer.model", [one])
    assert back == text
    shown = cogwheel("data", "tokenizer", "show", "tokenizer.model").stdout
    assert "before a text: token 1\nafter a document: token 2\nspecial: 0 <unk>\n" in shown


def test_a_run_learns_byte_pairs_from_its_text(tmp_path, cogwheel_in, cogwheel_executable, repository):
    (tmp_path / "text.txt").write_text((repository / "docs/tasks.md").read_text())
    (tmp_path / "run.toml").write_text(
        'data.tokenizer = "bpe"\ndata.vocabulary = 400\nmodel = {layers = 1, heads = 1, width = 16, context = 16}\n'
        "training = {steps = 2, batch = 2, warm_up = 0, curve_tokens = 64}\n"
    )
    cogwheel = cogwheel_in(tmp_path)
    told = cogwheel("train", "run.toml", "--text", "text.txt", "--out", "run")
    assert told.returncode == 0, told.stderr
    kept = json.loads((tmp_path / "run/tokenizer.json").read_text())
    assert kept["kind"] == "bpe" and len(kept["tokens"]) == 400
    config = (tmp_path / "run/config.toml").read_text()
    assert 'tokenizer = "bpe"\nvocabulary = 400\n' in config and re.search(r"^vocabulary = 400$", config.split("[model]")[1], re.M)
    sample = [cogwheel_executable, "sample", "run", "--prompt", "A task", "--length", "3"]
    assert subprocess.run(sample, cwd=tmp_path, capture_output=True, check=True).stdout.startswith(b"A task")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["train", "a.txt", "--vocabulary", "12", "--out", "t.json"], 2, "--vocabulary: expected at least 258, got 12"),
        (["train", "a.txt", "--kind", "word", "--out", "t.json"], 2, "--kind: expected one of bpe, sentencepiece, got word"),
        (["train", "a.txt", "--words", "gpt4", "--out", "t.json"], 2, "--words: expected gpt2 or llama3, got gpt4"),
        (["train", "missing.txt", "--out", "t.json"], 1, "sources: expected a file or folder, got none at missing.txt"),
        (["train", "a.txt", "--out", "t.model"], 2, "--out: expected a name that does not end with .model, for --kind bpe, got t.model"),
        (["trian"], 2, "data tokenizer: expected train (the nearest of 5 names), got trian"),
        (["show", "a.txt"], 1, "a.txt: expected a tokenizer as cogwheel writes it, got something else"),
        (["show", "broken.model"], 1, "broken.model: expected a SentencePiece model, got something else"),
        (["show", "no.json"], 1, "no.json: expected"),
        (["encode", "byte.json"], 1, "standard input, line 2: expected a JSON string, got something else"),
        (["decode", "byte.json"], 1, "standard input, line 1: expected a JSON array of tokens, got something else"),
    ],
)  # fmt: skip
def test_one_line_says_what_is_wrong(words, status, message, tmp_path, cogwheel_executable):
    (tmp_path / "a.txt").write_text("a text\n")
    (tmp_path / "broken.model").write_bytes(b"\xff\x00abc")
    (tmp_path / "byte.json").write_text('{"kind": "byte"}')
    told = subprocess.run(
        [cogwheel_executable, "data", "tokenizer", *words], cwd=tmp_path, input='"a"\n{}\n', capture_output=True, text=True
    )
    assert told.returncode == status and told.stderr.count("\n") == 1, told.stderr
    assert message in told.stderr
    assert not (tmp_path / "t.json").exists()
