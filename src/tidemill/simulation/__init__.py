"""Simulations from a seed: one store, one shard or a whole cluster, on simulated machines."""
