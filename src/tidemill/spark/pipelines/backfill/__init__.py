"""The pipeline `backfill`: writes files to a topic, in event-time order and at a limited rate.

Entry point: `pipeline`.
"""
