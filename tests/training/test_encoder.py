from __future__ import annotations

import json
from datetime import date

import numpy as np
import pyarrow as pa

from tests.training.day_partitions import flights_of
from training.data import SCHEMA
from training.encoder import CATEGORIES, FLIGHT_WIDTH, UNKNOWN, WEATHER_WIDTH, Encoder, Features

DAY = date(2013, 1, 1)


def flights(day: date = DAY, rows: int = 300) -> pa.Table:
    return flights_of(day, rows).select(SCHEMA.names).cast(SCHEMA)


def with_carrier(table: pa.Table, name: str) -> pa.Table:
    return table.set_column(table.schema.get_field_index("carrier"), "carrier", pa.array([name] * len(table)))


def assert_same(one: Features, other: Features) -> None:
    for name in ("categories", "flight", "weather", "late"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_features_have_the_shapes_that_they_say_and_no_gaps() -> None:
    table = flights()
    features = Encoder.fit(table).encode(table)
    assert features.categories.shape == (300, len(CATEGORIES))
    assert features.flight.shape == (300, FLIGHT_WIDTH)
    assert features.weather.shape == (300, WEATHER_WIDTH)
    assert np.isfinite(features.flight).all()
    assert np.isfinite(features.weather).all()
    assert (features.categories != UNKNOWN).all()


def test_scales_are_those_of_the_window_whatever_is_encoded_later() -> None:
    window = flights()
    encoder = Encoder.fit(window)
    scaled = encoder.encode(window).flight[:, 0]
    assert abs(scaled.mean()) < 1e-5
    assert abs(scaled.std() - 1) < 1e-5
    other = flights(date(2013, 1, 2))
    both = encoder.encode(pa.concat_tables([window, other]))
    np.testing.assert_array_equal(both.flight[:300], encoder.encode(window).flight)


def test_what_the_window_did_not_hold_is_unknown() -> None:
    encoded = Encoder.fit(flights()).encode(with_carrier(flights(), "ZZ"))
    assert (encoded.categories[:, CATEGORIES.index("carrier")] == UNKNOWN).all()


def test_known_values_keep_their_numbers_when_the_encoder_grows() -> None:
    window = flights()
    encoder = Encoder.fit(window)
    new = with_carrier(window, "AB")  # sorts between those it knows
    grown = encoder.grown(new)
    assert_same(grown.encode(window), encoder.encode(window))
    assert (grown.encode(new).categories[:, 0] == encoder.sizes[0]).all()


def test_the_encoder_reads_back_from_json_as_it_was() -> None:
    window = flights()
    encoder = Encoder.fit(window)
    read_back = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert read_back == encoder
    assert_same(read_back.encode(window), encoder.encode(window))


def test_a_column_that_is_missing_throughout_leaves_only_its_indicator() -> None:
    table = flights()
    nothing = pa.array([None] * len(table), pa.float64())
    table = table.set_column(table.schema.get_field_index("pressure_mb"), "pressure_mb", nothing)
    weather = Encoder.fit(table).encode(table).weather
    assert np.isfinite(weather).all()
    assert (weather == 1).all(axis=0).any()
