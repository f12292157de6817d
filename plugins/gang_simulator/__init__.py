"""Replays traces of jobs on a described cluster through the scheduler's own decisions, and measures what came of it."""
