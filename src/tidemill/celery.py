"""Registers Tidemill as a broker of Celery: `import tidemill.celery`, and the broker URL `tidemill+http://HOST:PORT`.

kombu, Celery's library for brokers, has a table of transports and no other way to add one.
"""

try:
    from kombu.transport import TRANSPORT_ALIASES
except ImportError as error:
    raise ImportError("tidemill.celery needs Celery: pip install 'tidemill[celery]'") from error

TRANSPORT_ALIASES["tidemill"] = "tidemill.sdk.celery_transport:Transport"
