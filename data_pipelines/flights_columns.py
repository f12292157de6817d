"""What a partition of the `flights` dataset holds: names, types, which may be null, what values are possible.

Everything but `late` is known before departure.
"""

from __future__ import annotations

DATASET = "flights"

LATE_AFTER_MINUTES = 15
"""`late` is 1 if the arrival delay is greater."""

# Name -> Arrow type, in the order of the file.
COLUMNS = {
    "flight_id": "string",  # carrier, flight, origin, dest, date and scheduled departure: one row each
    "date": "date32[day]",  # local, of the scheduled departure
    "sched_dep_minute": "int32",  # local minutes since midnight
    "sched_arr_minute": "int32",  # the same at the destination
    "month": "int32",  # 1-12
    "day_of_week": "int32",  # ISO: 1 is Monday
    "carrier": "string",
    "flight": "int32",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "distance_miles": "double",
    "plane_age_years": "double",
    "plane_seats": "double",
    "temp_f": "double",
    "dewpoint_f": "double",
    "humidity_pct": "double",
    "wind_dir_deg": "double",
    "wind_speed_mph": "double",
    "wind_gust_mph": "double",
    "precip_in": "double",
    "pressure_mb": "double",
    "visibility_mi": "double",
    "weather_missing": "bool",  # no observation for the origin and the scheduled hour
    "late": "int8",  # the label
}

# Raw name -> our name: the observation of the scheduled departure's hour at the origin. It stands for the forecast of
# that hour, which is what one has before departure.
WEATHER = {
    "temp": "temp_f",
    "dewp": "dewpoint_f",
    "humid": "humidity_pct",
    "wind_dir": "wind_dir_deg",
    "wind_speed": "wind_speed_mph",
    "wind_gust": "wind_gust_mph",
    "precip": "precip_in",
    "pressure": "pressure_mb",
    "visib": "visibility_mi",
}

NULLABLE = frozenset({"tailnum", "plane_age_years", "plane_seats", *WEATHER.values()})

# Lowest and highest possible value. Weather and plane values outside are sensor or clerical errors (a wind of 1048 mph
# on 2013-02-12) and become null; the gate refuses whatever is left.
POSSIBLE: dict[str, tuple[float, float]] = {
    "sched_dep_minute": (0, 1439),
    "sched_arr_minute": (0, 1440),
    "month": (1, 12),
    "day_of_week": (1, 7),
    "flight": (1, 9999),
    "distance_miles": (1, 6000),
    "plane_age_years": (0, 80),
    "plane_seats": (1, 900),
    "temp_f": (-60, 135),
    "dewpoint_f": (-80, 100),
    "humidity_pct": (0, 100),
    "wind_dir_deg": (0, 360),
    "wind_speed_mph": (0, 200),
    "wind_gust_mph": (0, 250),
    "precip_in": (0, 15),
    "pressure_mb": (850, 1100),
    "visibility_mi": (0, 100),
    "late": (0, 1),
}
NULLED_WHEN_IMPOSSIBLE = ("plane_age_years", "plane_seats", *WEATHER.values())
