"""Attention that is a function of scores: each kernel around a row map (row_maps.py)."""
