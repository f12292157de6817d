from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training.metrics import auc, calibration, expected_calibration_error, log_loss

samples = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 10)), min_size=2, max_size=60)


@settings(deadline=None)
@given(samples)
def test_auc_is_the_share_of_pairs_ranked_right(pairs: list[tuple[int, int]]) -> None:
    late, predicted = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    ups, downs = predicted[late == 1], predicted[late == 0]
    found = auc(late, predicted / 10)
    if not len(ups) or not len(downs):
        assert found is None
    else:
        right = (ups[:, None] > downs).sum() + 0.5 * (ups[:, None] == downs).sum()
        assert found == pytest.approx(right / (len(ups) * len(downs)))


def test_measures_agree_with_scikit_learn() -> None:
    theirs = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(0)
    predicted = random.random(500)
    late = (random.random(500) < predicted).astype(float)
    assert auc(late, predicted) == pytest.approx(theirs.roc_auc_score(late, predicted))
    assert log_loss(late, predicted) == pytest.approx(theirs.log_loss(late, predicted))


def test_log_loss_stays_finite_when_a_sure_prediction_is_wrong() -> None:
    assert log_loss(np.array([1.0]), np.array([0.0])) == pytest.approx(-np.log(1e-7))


def test_calibration_error_is_the_mean_distance_of_predicted_and_observed() -> None:
    late = np.array([0.0, 1.0, 1.0, 1.0])
    bins = calibration(late, np.array([0.25, 0.25, 0.95, 1.0]))
    assert [(each["samples"], each["observed"]) for each in bins] == [(2, 0.5), (2, 1.0)]
    assert expected_calibration_error(bins) == pytest.approx((0.25 + 0.025) / 2)
