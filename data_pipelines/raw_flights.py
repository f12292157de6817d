"""The raw files of one day as they were delivered: where they lie, what they must look like, which are inputs."""

from __future__ import annotations

from pathlib import Path

from data_pipelines.durable_files import sha256_of
from data_pipelines.job_errors import BadData
from data_pipelines.manifest import InputFile, Manifest

LANDED = "landed.json"
NULL = "NA"

FLIGHTS = "raw/flights"
WEATHER = "raw/weather"
PLANES = "raw/planes"

# Names and order as delivered, with the Spark type each is read as.
FLIGHT_COLUMNS = {
    "year": "int", "month": "int", "day": "int",
    "dep_time": "int", "sched_dep_time": "int", "dep_delay": "double",
    "arr_time": "int", "sched_arr_time": "int", "arr_delay": "double",
    "carrier": "string", "flight": "int", "tailnum": "string", "origin": "string", "dest": "string",
    "air_time": "double", "distance": "double", "hour": "int", "minute": "int", "time_hour": "string",
}  # fmt: skip
WEATHER_COLUMNS = {
    "origin": "string", "year": "int", "month": "int", "day": "int", "hour": "int",
    "temp": "double", "dewp": "double", "humid": "double", "wind_dir": "double", "wind_speed": "double",
    "wind_gust": "double", "precip": "double", "pressure": "double", "visib": "double", "time_hour": "string",
}  # fmt: skip
PLANE_COLUMNS = {
    "tailnum": "string", "year": "int", "type": "string", "manufacturer": "string", "model": "string",
    "engines": "int", "seats": "double", "speed": "double", "engine": "string",
}  # fmt: skip
COLUMNS = {FLIGHTS: FLIGHT_COLUMNS, WEATHER: WEATHER_COLUMNS, PLANES: PLANE_COLUMNS}


def raw_dir(data_dir: Path, dataset: str, day: str | None) -> Path:
    """The folder of a day's deliveries; of the one table if `day` is None."""
    return data_dir / dataset / f"day={day}" if day else data_dir / dataset


def delivered(data_dir: Path, dataset: str, day: str | None) -> list[Path]:
    """The CSV files that lie in a folder of deliveries, in the order of their names.

    A file that was put there after the first landing counts too: it makes the day's partition out of date.

    Raises:
        BadData: nothing was landed there, or a landed file is gone.
    """
    folder = raw_dir(data_dir, dataset, day)
    landed = Manifest.read(folder / LANDED)
    files = sorted(folder.glob("*.csv"))
    if gone := {file.path for file in landed.files} - {path.name for path in files}:
        raise BadData(
            f"raw file {folder / min(gone)} was landed, but isn't there any more. Put it back, or remove {folder} to "
            f"land the day again."
        )
    return files


def inputs_of_day(data_dir: Path, day: str, planes: tuple[InputFile, ...]) -> tuple[InputFile, ...]:
    """What the partition of `day` is made from; `planes` is the same for every day."""
    return (
        *input_files(data_dir, delivered(data_dir, FLIGHTS, day)),
        *input_files(data_dir, delivered(data_dir, WEATHER, day)),
        *planes,
    )


def input_files(data_dir: Path, files: list[Path]) -> tuple[InputFile, ...]:
    """Names, sizes and SHA-256 of files below the data folder.

    Raises:
        BadData: one can't be read.
    """
    found = []
    for path in files:
        try:
            found.append(InputFile(path.relative_to(data_dir).as_posix(), path.stat().st_size, sha256_of(path)))
        except OSError as error:
            raise BadData(
                f"raw file {path} can't be read: {error.strerror}. Give the job read access, or deliver the file again."
            ) from None
    return tuple(found)


def check_columns(path: Path, dataset: str) -> None:
    """Check that a raw file is text and has the columns that this dataset is delivered with, in their order.

    Raises:
        BadData: naming the file, the first column that differs, what was expected and what was found.
    """
    expected = list(COLUMNS[dataset])
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no UTF-8 text at byte {error.start}"
        raise BadData(f"raw file {path} can't be read: {reason}. Deliver the file again.") from None
    found = text.split("\n", 1)[0].rstrip("\r").split(",")
    if found == expected:
        return
    missing = [name for name in expected if name not in found]
    added = [name for name in found if name not in expected]
    position = next((n for n, pair in enumerate(zip(expected, found, strict=False)) if pair[0] != pair[1]), None)
    if missing:
        problem = f"column {missing[0]!r} is missing" + (f"; unknown column {added[0]!r} is there" if added else "")
    elif added:
        problem = f"column {added[0]!r} is unknown"
    else:
        problem = f"column {expected[position or 0]!r} isn't at its place"
    raise BadData(
        f"raw file {path}: {problem}. Expected columns {', '.join(expected)}; found {', '.join(found)} "
        f"(data_pipelines/raw_flights.py). Deliver the file as before, or teach the pipeline the new columns."
    )
