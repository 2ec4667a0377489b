"""Benchmarks of attention, decoding and training: ``cogwheel bench`` or ``python -m cogwheel.bench``.

Cogwheel and its peers take turns in one run, so that a busy or throttled machine slows all of them equally, and every
result is a ratio of minimum times, with the ratio of medians beside it. All use the same threads and an allocator that
keeps its pages.
"""
