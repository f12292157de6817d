"""Starts ranks in about a second: a parent that has torch imported forks them."""
