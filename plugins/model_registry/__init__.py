"""The model registry: which models exist, which one is the champion, and who moved the pointer."""
