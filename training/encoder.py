"""From a table of flights to arrays: category numbers, and scaled numbers with their missing indicators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Floats = npt.NDArray[np.float64]
UNKNOWN = 0  # the category number of what the training window did not hold
CLIP = 8.0  # standard deviations; a broken sensor must not drive a prediction by itself

# No day of the week: a window holds four of each, so what it would learn is those four days and not the weekday.
CATEGORIES = ("carrier", "origin", "dest", "tailnum", "carrier_flight", "hour")


@dataclass(frozen=True, slots=True)
class Features:
    """Encoded flights; n samples.

    Shapes: categories int64 [n, len(CATEGORIES)], flight float32 [n, FLIGHT_WIDTH], weather float32
    [n, WEATHER_WIDTH], late float32 [n].
    """

    categories: npt.NDArray[np.int64]
    flight: npt.NDArray[np.float32]
    weather: npt.NDArray[np.float32]
    late: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.late)


def _column(name: str) -> Callable[[pa.Table], Floats]:
    return lambda table: table[name].to_numpy(zero_copy_only=False).astype(np.float64)


def _daily_wave(function: np.ufunc, times: int) -> Callable[[pa.Table], Floats]:
    minute = _column("sched_dep_minute")
    return lambda table: function(minute(table) * (times * 2 * np.pi / 1440))


def _wind(function: np.ufunc) -> Callable[[pa.Table], Floats]:
    direction, speed = _column("wind_dir_deg"), _column("wind_speed_mph")
    return lambda table: function(np.deg2rad(direction(table))) * speed(table)


def _rain(table: pa.Table) -> Floats:
    """Hundredths of an inch matter, inches hardly differ."""
    wet: Floats = np.log1p(20 * _column("precip_in")(table))
    return wet


# What is known of the flight itself, and of the hour's weather: name -> how it comes from a table. NaN is missing.
FLIGHT: dict[str, Callable[[pa.Table], Floats]] = {
    "sched_dep_minute": _column("sched_dep_minute"),
    "sched_arr_minute": _column("sched_arr_minute"),
    "distance_miles": _column("distance_miles"),
    "plane_age_years": _column("plane_age_years"),
    "plane_seats": _column("plane_seats"),
    "dep_sin": _daily_wave(np.sin, 1),
    "dep_cos": _daily_wave(np.cos, 1),
    "dep_sin_2": _daily_wave(np.sin, 2),
    "dep_cos_2": _daily_wave(np.cos, 2),
}
WEATHER: dict[str, Callable[[pa.Table], Floats]] = {
    "temp_f": _column("temp_f"),
    "dewpoint_f": _column("dewpoint_f"),
    "humidity_pct": _column("humidity_pct"),
    "wind_speed_mph": _column("wind_speed_mph"),
    "wind_gust_mph": _column("wind_gust_mph"),
    "wind_east": _wind(np.sin),
    "wind_north": _wind(np.cos),
    "log_precip": _rain,
    "pressure_mb": _column("pressure_mb"),
    "visibility_mi": _column("visibility_mi"),
}
# Where a value may be missing, whether it is becomes a feature of its own.
FLIGHT_MAY_MISS = ("plane_age_years", "plane_seats")
WEATHER_MAY_MISS = ("wind_gust_mph", "wind_east", "pressure_mb", "visibility_mi")
FLIGHT_WIDTH = len(FLIGHT) + len(FLIGHT_MAY_MISS)
WEATHER_WIDTH = len(WEATHER) + len(WEATHER_MAY_MISS) + 1  # one for weather_missing


def _categories(table: pa.Table) -> dict[str, list[str]]:
    carriers, flights = table["carrier"].to_pylist(), table["flight"].to_pylist()
    minutes = table["sched_dep_minute"].to_pylist()
    return {
        "carrier": carriers,
        "origin": table["origin"].to_pylist(),
        "dest": table["dest"].to_pylist(),
        "tailnum": [tailnum or "" for tailnum in table["tailnum"].to_pylist()],
        "carrier_flight": [f"{carrier}{flight}" for carrier, flight in zip(carriers, flights, strict=True)],
        "hour": [str(minute // 60) for minute in minutes],
    }


@dataclass(frozen=True, slots=True)
class Encoder:
    """What was learned of the training window's inputs, and nothing of any other day's.

    `vocabularies` maps a category to its values, of which the one at index i has number i + 1; `scales` maps a number
    to (mean, standard deviation).
    """

    vocabularies: dict[str, tuple[str, ...]]
    scales: dict[str, tuple[float, float]]

    @classmethod
    def fit(cls, table: pa.Table) -> Self:
        """Learn vocabularies and scales from a training window."""
        vocabularies = {name: tuple(sorted(set(values))) for name, values in _categories(table).items()}
        return cls(vocabularies, {name: _scale(make(table)) for name, make in (FLIGHT | WEATHER).items()})

    def grown(self, table: pa.Table) -> Self:
        """This encoder with the window's new values appended: known ones keep their numbers."""
        vocabularies = {
            name: (*self.vocabularies[name], *sorted(set(values) - set(self.vocabularies[name])))
            for name, values in _categories(table).items()
        }
        return type(self)(vocabularies, self.scales)

    @property
    def sizes(self) -> list[int]:
        """How many numbers each category uses, UNKNOWN included; in the order of CATEGORIES."""
        return [len(self.vocabularies[name]) + 1 for name in CATEGORIES]

    def encode(self, table: pa.Table) -> Features:
        """The table's rows as arrays."""
        categories = _categories(table)
        numbers = [self._number(name, categories[name]) for name in CATEGORIES]
        return Features(
            categories=np.stack(numbers, axis=1),
            flight=self._scaled(table, FLIGHT, FLIGHT_MAY_MISS),
            weather=np.column_stack(
                [
                    self._scaled(table, WEATHER, WEATHER_MAY_MISS),
                    table["weather_missing"].to_numpy(zero_copy_only=False).astype(np.float32),
                ]
            ),
            late=table["late"].to_numpy(zero_copy_only=False).astype(np.float32),
        )

    def _number(self, name: str, values: list[str]) -> npt.NDArray[np.int64]:
        number = {value: index + 1 for index, value in enumerate(self.vocabularies[name])}
        return np.array([number.get(value, UNKNOWN) for value in values], dtype=np.int64)

    def _scaled(
        self, table: pa.Table, made: dict[str, Callable[[pa.Table], Floats]], may_miss: tuple[str, ...]
    ) -> npt.NDArray[np.float32]:
        values = {name: make(table) for name, make in made.items()}
        scaled = [(values[name] - self.scales[name][0]) / self.scales[name][1] for name in made]
        missing = [np.isnan(values[name]) for name in may_miss]
        filled = [np.clip(np.nan_to_num(column, nan=0.0), -CLIP, CLIP) for column in scaled]
        return np.column_stack([*filled, *missing]).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """What `from_json` reads."""
        return {
            "vocabularies": {name: list(values) for name, values in self.vocabularies.items()},
            "scales": {name: list(scale) for name, scale in self.scales.items()},
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """The encoder that `to_json` described."""
        return cls(
            {name: tuple(content["vocabularies"][name]) for name in CATEGORIES},
            {name: (float(content["scales"][name][0]), float(content["scales"][name][1])) for name in FLIGHT | WEATHER},
        )


def _scale(values: Floats) -> tuple[float, float]:
    """Mean and standard deviation of what is there; a constant, or nothing at all, is left as it is."""
    there = values[~np.isnan(values)]
    if not len(there):
        return 0.0, 1.0
    deviation = float(there.std())
    return float(there.mean()), deviation if deviation > 1e-9 else 1.0
