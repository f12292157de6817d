"""How good probabilities are: ranking, log loss, calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
BINS = 10
CERTAINTY = 1e-7  # no prediction counts as surer than this


def auc(late: Floats, predicted: Floats) -> float | None:
    """The chance that a late sample is ranked above one in time, ties counting half; None where one kind is missing."""
    positives = int(late.sum())
    negatives = len(late) - positives
    if not positives or not negatives:
        return None
    _, inverse, counts = np.unique(predicted, return_inverse=True, return_counts=True)
    last_ranks = np.cumsum(counts)
    ranks = (last_ranks - (counts - 1) / 2)[inverse]
    return float((ranks[late > 0].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def log_loss(late: Floats, predicted: Floats) -> float:
    """The mean negative log-likelihood, in nats."""
    sure = np.clip(np.asarray(predicted, dtype=np.float64), CERTAINTY, 1 - CERTAINTY)
    return float(-np.mean(np.where(late > 0, np.log(sure), np.log1p(-sure))))


def calibration(late: Floats, predicted: Floats) -> list[dict[str, float | int]]:
    """Bins of equal width that hold samples: bounds, mean prediction, observed rate, number of samples."""
    which = np.minimum((predicted * BINS).astype(int), BINS - 1)
    return [
        {
            "lower": number / BINS,
            "upper": (number + 1) / BINS,
            "mean_predicted": float(predicted[which == number].mean()),
            "observed": float(late[which == number].mean()),
            "samples": int((which == number).sum()),
        }
        for number in np.unique(which).tolist()
    ]


def expected_calibration_error(bins: list[dict[str, float | int]]) -> float:
    """The mean distance of predicted and observed rate over the bins, weighted by their samples."""
    samples = sum(each["samples"] for each in bins)
    return float(sum(each["samples"] * abs(each["mean_predicted"] - each["observed"]) for each in bins) / samples)
