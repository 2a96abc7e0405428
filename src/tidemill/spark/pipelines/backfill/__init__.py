"""The pipeline `backfill`: files → topic, in event-time order and at a bounded rate.  Entry point: `pipeline`."""
