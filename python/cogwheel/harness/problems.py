"""What went wrong, as the executable says it."""

from __future__ import annotations


def said(error: Exception) -> str:
    """The message, and before it the kind of an error that was not raised to be read."""
    return str(error) if isinstance(error, (ValueError, OSError, ImportError)) and str(error) else f"{type(error).__name__}: {error}"
