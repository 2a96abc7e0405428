"""ASGI applications over HTTP: health, readiness, metrics, the state of the cluster, and in `v1` the API."""
