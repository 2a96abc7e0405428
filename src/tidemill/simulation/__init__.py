"""Simulations that a seed determines: one store, one shard or a whole cluster, on simulated machines."""
