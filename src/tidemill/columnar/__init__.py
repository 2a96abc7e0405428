"""Reads topics as Arrow columns and writes them, with the options of Spark's Kafka connector, but without Spark."""
