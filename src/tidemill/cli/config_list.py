"""The list of broker configuration keys that `tidemill broker --list-config` prints."""

from tidemill.cli.output import pipe_may_close, print_json, print_table
from tidemill.model.config_keys import BROKER_KEYS


def print_config_keys(*, as_json: bool) -> None:
    """Print every broker key with its type, default and meaning, except keys that Kafka uses only in its own tests."""
    keys = [key for key in BROKER_KEYS.values() if not key.internal]
    with pipe_may_close():
        if as_json:
            for key in keys:
                print_json(
                    {
                        "key": key.name,
                        "type": key.type.name.lower(),
                        "default": key.default_text,
                        "support": key.support.value,
                        "update": key.update.value,
                        "documentation": key.documentation,
                    }
                )
        else:
            rows = [(key.name, key.type.name.lower(), key.default_text, key.documentation) for key in keys]
            print_table(("key", "type", "default", "documentation"), rows)
