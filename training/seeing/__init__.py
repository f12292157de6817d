"""Says where a run's time and memory go, and what went wrong where: always on, and more on request."""
