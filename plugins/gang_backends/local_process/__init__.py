"""The local-process backend: one detached supervisor an attempt, and under it torchrun on this host."""

from gang_backends.local_process.local_backend import LocalProcessBackend as LocalProcessBackend
from gang_backends.local_process.warm_agent import WarmStart as WarmStart
