"""Backends: how an admitted gang becomes processes somewhere."""
