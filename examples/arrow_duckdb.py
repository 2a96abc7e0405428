"""Count records per key with DuckDB.  Usage: python examples/arrow_duckdb.py FROM_TOPIC TO_TOPIC (both exist)"""

import os
import sys

import duckdb

from tidemill import arrow

bootstrap = os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092")

records = arrow.read(sys.argv[1], bootstrap_servers=bootstrap)
counts = duckdb.sql("SELECT key, count(*)::VARCHAR AS value FROM records GROUP BY key")
print(arrow.write(sys.argv[2], counts, bootstrap_servers=bootstrap))
