"""An ASGI application that serves health, readiness, metrics and the state of the cluster over HTTP."""
