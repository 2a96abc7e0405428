"""The pipeline `stats`: counts the records of a topic and draws charts of them.  Entry point: `stats.pipeline`."""
