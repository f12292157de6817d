"""Quality suites: what a partition must fulfil before a model may be trained on it."""
