"""Count records per key with pandas.  Usage: python examples/arrow_pandas.py FROM_TOPIC TO_TOPIC (both exist)"""

import os
import sys

from tidemill import arrow

bootstrap = os.environ.get("TIDEMILL_BOOTSTRAP", "127.0.0.1:9092")

records = arrow.read(sys.argv[1], bootstrap_servers=bootstrap).read_pandas()
counts = records.groupby("key", as_index=False).agg(value=("offset", "size")).astype({"value": str})
print(arrow.write(sys.argv[2], counts, bootstrap_servers=bootstrap))
