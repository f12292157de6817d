"""Checkpoints by every rank at once: staged in memory, written behind the steps, loaded into any layout."""
