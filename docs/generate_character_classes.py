#!/usr/bin/env python3
"""Writes cogwheel/text/byte_pairs/character_ranges.inc: the letters, numbers and white space of byte-pair tokenizers.

Asked are `tokenizers` and `tiktoken` of PyPI, about every code point, which must agree: their tables decide where words
end, not those of the newest Unicode.
"""

import pathlib
import sys

import tiktoken
import tokenizers
from tokenizers import pre_tokenizers

PATH = pathlib.Path(__file__).resolve().parents[1] / "cogwheel/text/byte_pairs/character_ranges.inc"
CLASSES = {"letter": r"\p{L}", "number": r"\p{N}", "space": r"\s"}
CODE_POINTS = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
# A letter that each version of Unicode was the first to have.
FIRST_LETTERS = {"15.0": 0x11F02, "15.1": 0x2EBF0, "16.0": 0x105C0, "17.0": 0x10940}


def of_tokenizers(pattern: str) -> set[int]:
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "removed")
    return {code for code in CODE_POINTS if not split.pre_tokenize_str(chr(code))}


def of_tiktoken(pattern: str) -> set[int]:
    every_byte = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=pattern, mergeable_ranks=every_byte, special_tokens={})
    return {code for code in CODE_POINTS if encoding.encode_ordinary(chr(code))}


def ranges_of(codes: set[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for code in sorted(codes):
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1] = (ranges[-1][0], code)
        else:
            ranges.append((code, code))
    return ranges


def main() -> None:
    classes = {name: of_tokenizers(pattern) for name, pattern in CLASSES.items()}
    for name, pattern in CLASSES.items():
        if classes[name] != of_tiktoken(pattern):
            sys.exit(f"{pattern}: expected the same characters from tokenizers and tiktoken, got others")
    unicode = max((float(version), version) for version, code in FIRST_LETTERS.items() if code in classes["letter"])[1]
    counts = ", ".join(f"{len(codes):,} of class {name}" for name, codes in classes.items())
    lines = [
        "// Made by docs/generate_character_classes.py: the ranges of characters in which tokenizers"
        f" {tokenizers.__version__} and",
        f"// tiktoken {tiktoken.__version__} agree, those of Unicode {unicode}: {counts}.",
        f'COGWHEEL_UNICODE("{unicode}")',
    ]
    for name, codes in classes.items():
        entries = [f"COGWHEEL_RANGE({name}, {first:#x}, {last:#x})" for first, last in ranges_of(codes)]
        lines += [" ".join(entries[at : at + 3]) for at in range(0, len(entries), 3)]
    PATH.write_text("\n".join(lines) + "\n")
    print(f"{PATH.name}: Unicode {unicode}, {counts}")


if __name__ == "__main__":
    main()
