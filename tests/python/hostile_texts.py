"""Texts that tokenizers tell apart where they are not equal: characters of every plane, and what cuts words."""

import random
from collections.abc import Callable


def any_character(rng: random.Random) -> str:
    return chr(rng.choice([rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)]))


PARTS: list[Callable[[random.Random], str]] = [
    any_character,
    lambda rng: rng.choice(["'s", "'S", "'T", "'re", "'RE", "'Ve", "'ll", "'LL", "'lL", "'d", "'ſ", "'", "'l", "'v", "’s"]),
    lambda rng: " " * rng.randrange(1, 5),
    lambda rng: rng.choice("\n \r\n \n\n \r \t \u3000 \u00a0 \u2028 \u0085 \x0b \x1c \u180e \u200b".split(" ")) * rng.randrange(1, 3),
    lambda rng: str(rng.randrange(10 ** rng.randrange(1, 9))),
    lambda rng: rng.choice("²½٣४ⅣⅩ৪𝟘"),
    lambda rng: rng.choice(["the", " hello", "World", "don", "naïve", "größe", " и", "привет", "你好", "日本語", "안녕", "ﬁ"]),
    lambda rng: "e" + "\u0301" * rng.randrange(1, 4),
    lambda rng: rng.choice(["😀", "👩‍👩‍👧", "🇩🇪", "❤️"]),
    lambda rng: rng.choice("!@#$%^&*()[]{}<>?/\\|.,;:-_=+`~\"") * rng.randrange(1, 6),
    lambda rng: rng.choice(["<|endoftext|>", "<|begin_of_text|>", "<s>", "</s>", "<0x0A>", "▁"]),
    lambda rng: chr(rng.randrange(128)),
    lambda rng: rng.choice("ab") * rng.randrange(1, 80),
    lambda rng: chr(rng.randrange(0x100, 0x3000)),
    lambda rng: chr(rng.randrange(0x10000, 0x1FC00)),
]


def hostile_texts(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    texts = ["".join(rng.choice(PARTS)(rng) for _ in range(rng.randrange(25))) for _ in range(count - 4)]
    return [*texts, "a" * 5000, " " * 3000 + "x", "\n" * 2000, "ab" * 3000]
