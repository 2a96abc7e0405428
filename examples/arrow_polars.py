"""Count records per key with Polars.  Usage: python examples/arrow_polars.py FROM_TOPIC TO_TOPIC (both exist)"""

import os
import sys

import polars

from tidemill import arrow

bootstrap = os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092")

records = polars.DataFrame(arrow.read(sys.argv[1], bootstrap_servers=bootstrap))
counts = records.group_by("key").agg(value=polars.len().cast(polars.String))
print(arrow.write(sys.argv[2], counts, bootstrap_servers=bootstrap))
