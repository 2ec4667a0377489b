"""A comparison small enough to be made by a test: 4 runs in two seconds."""

KEYS = {"preset": "tiny", "text": "text.txt", "seeds": 2, "steps": 30, "set": {"training.batch": 4, "training.curve_tokens": 128}}


def write_text(folder):
    (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 200)
