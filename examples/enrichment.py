"""Enrich the flights with the weather at departure and with the plane, as a streaming query from topic to topic.

The weather is that of the airport and hour of departure, the plane that of the tail number.  A flight whose weather or
plane the package does not know keeps its row, without that part.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from examples import flights
from examples.failure import DemoFailed
from examples.flights import FlightTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WITHOUT_WEATHER_COUNT = 1_556
WITHOUT_PLANE_COUNT = 52_606

_FLIGHT = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
    "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, "
    "distance int, hour int, minute int, time_hour string"
)
_WEATHER = (
    "origin string, year int, month int, day int, hour int, temp double, dewp double, humid double, wind_dir double, "
    "wind_speed double, wind_gust double, precip double, pressure double, visib double, time_hour string"
)
_PLANE = (
    "tailnum string, year int, type string, manufacturer string, model string, engines int, seats int, speed int, "
    "engine string"
)
_ADDED = "weather struct<temp: double, humid: double>, plane struct<manufacturer: string, seats: int>"


@dataclass(frozen=True)
class Enriched:
    """What a topic of enriched flights has."""

    rows: int
    without_weather: int
    without_plane: int
    seats: int  # of all flights whose plane is known
    temperature: float  # the sum of the temperatures at departure, in degrees Fahrenheit

    @classmethod
    def expected(cls, table: FlightTable) -> Self:
        """Return what the package's own tables say about the flights in `table`, without Spark."""
        weather = {(row["origin"], row["time_hour"]): row for row in _rows("weather.csv")}
        planes = {row["tailnum"]: row for row in _rows("planes.csv")}
        by_hour, by_plane = table.by_origin_and_hour, table.by_tail_number
        return cls(
            rows=by_hour.total(),
            without_weather=sum(count for hour, count in by_hour.items() if hour not in weather),
            without_plane=sum(count for number, count in by_plane.items() if number not in planes),
            seats=sum(int(planes[number]["seats"]) * count for number, count in by_plane.items() if number in planes),
            temperature=math.fsum(
                float(weather[hour]["temp"]) * count
                for hour, count in by_hour.items()
                if hour in weather and weather[hour]["temp"] != "NA"
            ),
        )

    def check(self, found: "Enriched") -> None:
        """Raise DemoFailed unless `found` is equal; temperatures are added in another order."""
        for name in ("rows", "without_weather", "without_plane", "seats"):
            expected, actual = getattr(self, name), getattr(found, name)
            if expected != actual:
                raise DemoFailed(f"enriched flights, {name}: the package's tables say {expected}, the topic {actual}")
        if not math.isclose(self.temperature, found.temperature, rel_tol=1e-9):
            raise DemoFailed(
                f"enriched flights, sum of temperatures: the package's tables say {self.temperature}, the topic "
                f"{found.temperature}"
            )


def enrich(spark: "SparkSession", bootstrap: str, source: str, target: str, checkpoint: Path) -> None:
    """Write what `source` has to `target`, and return when all of it is written."""
    from pyspark.sql import functions as f

    records = (
        spark.readStream.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    rows = records.select(
        "key", "timestamp", f.from_json(f.col("value").cast("string"), _FLIGHT).alias("flight")
    ).select("key", "timestamp", "flight.*")
    weather = _table(spark, "weather.csv", _WEATHER)
    planes = _table(spark, "planes.csv", _PLANE)
    measures = [name for name in weather.columns if name not in ("origin", "year", "month", "day", "hour", "time_hour")]
    weather = weather.select("origin", "time_hour", f.struct(*measures).alias("weather"))
    planes = planes.select("tailnum", f.struct(*(it for it in planes.columns if it != "tailnum")).alias("plane"))
    enriched = rows.join(f.broadcast(weather), ["origin", "time_hour"], "left").join(
        f.broadcast(planes), "tailnum", "left"
    )
    columns = [name for name in enriched.columns if name not in ("key", "timestamp")]
    query = (
        enriched.select("key", f.to_json(f.struct(*columns)).alias("value"), "timestamp")
        .writeStream.format("tidemill")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("kafka.compression.type", "lz4")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read_back(spark: "SparkSession", bootstrap: str, topic: str) -> Enriched:
    """Return what the topic has."""
    from pyspark.sql import functions as f

    records = (
        spark.read.format("tidemill")
        .schema("value binary")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .load()
    )
    row = (
        records.select(f.from_json(f.col("value").cast("string"), _ADDED).alias("added"))
        .select("added.*")
        .agg(
            f.count(f.lit(1)).alias("rows"),
            f.count_if(f.col("weather").isNull()).alias("without_weather"),
            f.count_if(f.col("plane").isNull()).alias("without_plane"),
            f.sum("plane.seats").alias("seats"),
            f.sum("weather.temp").alias("temperature"),
        )
        .collect()[0]
    )
    return Enriched(**row.asDict())


def _table(spark: "SparkSession", name: str, schema: str) -> "DataFrame":
    return spark.read.csv(str(flights.data_file(name)), schema=schema, header=True, nullValue="NA")


def _rows(name: str) -> Iterator[dict[str, str]]:
    with flights.data_file(name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
