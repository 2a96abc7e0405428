"""Health, readiness and metrics over HTTP, as an ASGI application."""
