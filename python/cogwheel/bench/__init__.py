"""Benchmarks of attention and of training, ours and peers in one run: ``cogwheel bench`` or ``python -m cogwheel.bench``.

What is compared takes turns, so that a busy or throttled machine slows all sides alike, and every result is a ratio of
least times beside the medians. All sides get the same threads and an allocator that keeps its pages.
"""
