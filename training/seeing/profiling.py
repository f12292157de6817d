"""Traces of `torch.profiler` from a running gang, on request."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from training.seeing.requests import NewRequests, SeeingRequest

LOOK_EVERY_S = 0.5


class Profiling:
    """Looks for requests and profiles the steps that follow one; each rank by itself, as no rank waits for it.

    A trace is `trace-rank<r>-step<first>.json.gz` in the launch folder, for chrome://tracing or ui.perfetto.dev.
    """

    def __init__(self, run_dir: Path, launch_dir: Path, rank: int) -> None:
        self._requests = NewRequests(run_dir, "profile")
        self._launch_dir, self._rank = launch_dir, rank
        self._profile: profile | None = None
        self._path = launch_dir
        self._left = 0
        self._looked_at = float("-inf")

    def step(self, step: int) -> Path | None:
        """To be called before each step; returns the path of a trace that has just been finished."""
        if self._profile is not None:
            self._left -= 1
            return self._finish() if self._left == 0 else None
        now = time.monotonic()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            request = self._requests.next()
            if request is not None:
                self._begin(request, step + 1)
        return None

    def close(self) -> None:
        """Write what there is of a trace that was not finished."""
        if self._profile is not None:
            self._finish()

    def _begin(self, request: SeeingRequest, step: int) -> None:
        activities = [ProfilerActivity.CPU]
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # torch's
            activities.append(ProfilerActivity.CUDA)
        self._profile = profile(activities=activities)
        self._profile.start()
        self._left = request.steps
        self._path = self._launch_dir / f"trace-rank{self._rank}-step{step}.json.gz"

    def _finish(self) -> Path:
        assert self._profile is not None
        self._profile.stop()
        self._profile.export_chrome_trace(str(self._path))
        self._profile = None
        return self._path
