"""Delayed delivery, as pure cores: when a record of a timer topic is due, and what time it is for all replicas."""
