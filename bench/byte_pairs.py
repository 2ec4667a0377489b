"""Times byte pairs against tiktoken and tokenizers, taking turns in one process.

    python bench/byte_pairs.py [TEXT…] [--vocabulary 32000] [--bytes 20000000] [--rounds 7]

TEXT is a file or a folder; without any, the source of Python's standard library. It is repeated up to the number of bytes
and cut into documents of 4,000 characters. The vocabulary is learned from it by `tokenizers`, in the form of GPT-2 and of Llama 3, and
given to all three. Each encodes the same documents on one thread, Cogwheel also on two; the tokens must be equal. Numbers are of
the minimum times, and ratios to tiktoken's.
"""

import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import tiktoken  # noqa: E402
import tokenizers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = [
    "bench/byte_pairs.cpp",
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "cogwheel/text/byte_pairs").glob("*.cpp")),
    *(f"cogwheel/core/{name}.cpp" for name in ("error", "range", "files/atomic_file", "encoding/utf8")),
]
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# As tiktoken has GPT-2's, without backtracking.
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def compiled(folder: pathlib.Path) -> ctypes.CDLL:
    target = folder / "byte_pairs.so"
    words = ["c++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{ROOT}", "-o", target, *(ROOT / source for source in SOURCES)]
    subprocess.run([*words, "-lpthread"], check=True)
    library = ctypes.CDLL(str(target))
    library.open_byte_pairs.restype = ctypes.c_void_p
    library.encode.restype = ctypes.c_int64
    return library


def read(texts: list[str]) -> str:
    paths = [pathlib.Path(text) for text in texts] or [pathlib.Path(sysconfig.get_paths()["stdlib"])]
    files = [file for path in paths for file in (sorted(path.rglob("*.py" if not texts else "*")) if path.is_dir() else [path])]
    if not texts:
        files = [file for file in files if "site-packages" not in file.parts and "test" not in file.parts]
    return "".join(file.read_text(errors="ignore") for file in files if file.is_file())


def learn(kind: str, vocabulary: int, text: str) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=kind == "llama3"))
    pre = tokenizers.pre_tokenizers
    parts = [pre.Split(tokenizers.Regex(LLAMA3), "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)]
    tokenizer.pre_tokenizer = pre.ByteLevel(add_prefix_space=False) if kind == "gpt2" else pre.Sequence(parts)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator((text[at : at + 10_000] for at in range(0, len(text), 10_000)), trainer)
    return tokenizer


def tiktoken_of(tokenizer: tokenizers.Tokenizer, pattern: str) -> tiktoken.Encoding:
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printing]
    bytes_of = {chr(byte): byte for byte in printing} | {chr(256 + index): byte for index, byte in enumerate(others)}
    ranks = {bytes(bytes_of[character] for character in text): rank for text, rank in tokenizer.get_vocab().items()}
    return tiktoken.Encoding("same", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="*", metavar="TEXT")
    parser.add_argument("--vocabulary", type=int, default=32_000)
    parser.add_argument("--bytes", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    once = read(options.texts)
    text = once * (options.bytes // len(once.encode()) + 1)
    documents = [text[at : at + 4000] for at in range(0, len(text), 4000)]
    while sum(map(len, documents)) > options.bytes:
        documents.pop()
    encoded = [document.encode() for document in documents]
    joined, size = b"".join(encoded), sum(map(len, encoded))
    ends, at = (ctypes.c_int64 * len(encoded))(), 0
    for index, document in enumerate(encoded):
        at += len(document)
        ends[index] = at
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(pathlib.Path(folder))
        print(f"{size / 1e6:.1f} MB, {len(documents)} documents; tiktoken {tiktoken.__version__}, tokenizers {tokenizers.__version__}")
        for kind, pattern in (("gpt2", GPT2), ("llama3", LLAMA3)):
            theirs = learn(kind, options.vocabulary, once)
            path = pathlib.Path(folder) / f"{kind}.json"
            theirs.save(str(path))
            other = tiktoken_of(theirs, pattern)
            ours = ctypes.c_void_p(library.open_byte_pairs(str(path).encode()))
            if not ours:
                sys.exit(1)

            def encode(threads: int, tokens=None, ours=ours) -> int:
                return library.encode(ours, joined, ends, ctypes.c_int64(len(encoded)), threads, tokens)

            found = (ctypes.c_int32 * size)()
            count = encode(2, found)
            expected = [token for document in documents for token in other.encode_ordinary(document)]
            if found[:count] != expected:
                sys.exit(f"{kind}: expected the tokens of tiktoken, got others")
            jobs = {
                "cogwheel": lambda encode=encode: encode(1),
                "cogwheel, two threads": lambda encode=encode: encode(2),
                "tiktoken": lambda other=other: [other.encode_ordinary(document) for document in documents],
                "tokenizers": lambda theirs=theirs: [theirs.encode(document, add_special_tokens=False) for document in documents],
            }
            best = dict.fromkeys(jobs, float("inf"))
            for _ in range(options.rounds):
                for name, job in jobs.items():
                    start = time.perf_counter()
                    job()
                    best[name] = min(best[name], time.perf_counter() - start)
            for name, seconds in best.items():
                ratio = best["tiktoken"] / seconds
                print(f"{kind}: {name}: {size / seconds / 1e6:.1f} MB/s, {ratio:.2f} times tiktoken", flush=True)


if __name__ == "__main__":
    main()
