"""
Write the pages of `docs/reference` from the code, and the tables of options in `docs/spark.md`.

python tools/reference_pages.py
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
SPARK_PAGE = ROOT / "docs" / "spark.md"
A_TABLE = re.compile(
    r"(?P<begin><!-- written by tools/reference_pages\.py: (?P<name>[a-z ]+) -->\n).*?(?P<end>\n<!-- end -->)",
    re.DOTALL,
)
WRITTEN_BY = "\n`tools/reference_pages.py` writes this page; do not edit it.\n"
HELP_COLUMNS = 100


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    sys.path.insert(0, str(ROOT / "src"))
    return {"configuration.md": _configuration(), "metrics.md": _metrics(), "commands.md": _commands()}


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def _configuration() -> str:
    from tidemill.model.config_keys import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS

    return f"""# Configuration keys

Keys have Kafka's names and, with few exceptions, its defaults; Tidemill's own begin with
`tidemill.`. A key is *obeyed*, *accepted without effect* where ignoring it does no harm, or
*refused* where it would: a refused key may only have its default. Any other name is refused, with
the nearest known one.
{WRITTEN_BY}
## Broker
Set in the file of `tidemill broker --config`, with `--set`, or in the environment. Keys that are
not read-only can be changed while the broker runs, with `tidemill configs set`.

{_keys(BROKER_KEYS, has_update=True)}
## Topic
Set with `tidemill topics create --config` and `tidemill configs set --topic`. The default is that
of a broker without settings; many topic keys fall back to a broker key.

{_keys(TOPIC_KEYS)}
## Consumer group
{_keys(GROUP_KEYS)}"""


def _keys(keys: Mapping[str, Any], *, has_update: bool = False) -> str:
    from tidemill.model.config_key import KeySupport

    head = ("key", "type", "default", "legal values", *(["changed"] if has_update else []), "support", "meaning")
    listed = [key for key in keys.values() if not key.internal]
    order = [*KeySupport]
    listed.sort(key=lambda key: (order.index(key.support), key.name))
    return _table(
        head,
        (
            (
                _code(key.name),
                key.type.name.lower(),
                _code(key.default_text),
                _legal_values(key),
                *([key.update.value] if has_update else []),
                "obeyed" if key.support is KeySupport.OBEYED else key.support.value,
                key.documentation,
            )
            for key in listed
        ),
    )


def _legal_values(key: Any) -> str:
    bounds = [f"{word} {bound}" for word, bound in (("from", key.at_least), ("to", key.at_most)) if bound is not None]
    return ", ".join(_code(choice) for choice in key.choices) or " ".join(bounds)


def _metrics() -> str:
    from tidemill.telemetry.metrics import Metrics
    from tidemill.telemetry.prometheus import PrometheusText

    families = PrometheusText(Metrics(), {}, str, dict.fromkeys(("version", "python"), "")).collect()
    rows = (
        (
            _code(f"{family.name}_total" if family.type == "counter" else family.name),
            family.type,
            ", ".join(_code(label) for label in family._labelnames),  # the library has no public name for it
            family.documentation,
        )
        for family in sorted(families, key=lambda family: family.name)
    )
    return f"""# Metrics

`/metrics` of the HTTP port has these metrics in Prometheus's text format, and `process_*` by
Prometheus's library. A histogram also has `_bucket` (label `le`), `_sum` and `_count`. The page
about [HTTP](../http.md) says how they are counted.
{WRITTEN_BY}
{_table(("metric", "type", "labels", "help"), rows)}"""


def _commands() -> str:
    import typer.main

    from tidemill.cli.main import application

    sections = "".join(_help_sections(typer.main.get_command(application([])), None, "tidemill"))
    return (
        f"""# Commands

What each command prints with `--help`.
{WRITTEN_BY}
{sections}""".rstrip()
        + "\n"
    )


def _help_sections(command: Any, parent: Any, name: str) -> Iterator[str]:
    """Yield the section of a command and those of its subcommands; the root's `--help` is the first section."""
    context = command.context_class(
        command, info_name=name, parent=parent, terminal_width=HELP_COLUMNS, **(command.context_settings or {})
    )
    heading = "##" if parent is None or parent.parent is None else "###"
    yield f"{heading} {context.command_path}\n```text\n{command.get_help(context).strip()}\n```\n\n"
    for subname in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from _help_sections(command.get_command(context, subname), context, subname)


def spark_page(text: str) -> str:
    """Return the text of `docs/spark.md` with every generated table as the code has it.  Raise KeyError for a name."""
    sys.path.insert(0, str(ROOT / "src"))
    tables = _spark_tables()
    return A_TABLE.sub(lambda found: f"{found['begin']}\n{tables[found['name']]}{found['end']}", text)


def _spark_tables() -> dict[str, str]:
    from tidemill.client import connection_settings, producer_settings
    from tidemill.client.security_keys import SECURITY_KEYS, Use
    from tidemill.columnar import connection_option_table, sink_options, source_option_table

    ignored = (
        (connection_settings.NO_EFFECT, "a consumer's key; the query plans its reads and keeps its offsets itself"),
        (producer_settings.NO_EFFECT, "a producer's key; rows arrive in bulk and are sent at once"),
    )
    keys: dict[Use, list[Any]] = {use: [key for key in SECURITY_KEYS.values() if key.use is use] for use in Use}
    return {
        "source options": _options(source_option_table.OPTIONS),
        "sink options": _options(sink_options.OPTIONS),
        "connection keys": _options(connection_option_table.OPTIONS),
        "security keys": _table(
            ("key", "type", "default", "meaning", "secret"),
            (
                (_code(f"kafka.{key.name}"), key.type, _default(key.default), key.text, "yes" if key.is_secret else "")
                for key in keys[Use.USED]
            ),
        ),
        "keys without effect": _table(
            ("keys", "why they have no effect"),
            [
                *((", ".join(_code(f"kafka.{name}") for name in sorted(names)), why) for names, why in ignored),
                *_by_text(keys[Use.NO_EFFECT]),
            ],
        ),
        "refused keys": _table(("keys", "what to do instead"), _by_text(keys[Use.REFUSED])),
    }


def _options(options: Iterable[Any]) -> str:
    rows = ((_code(one.name), one.type, _default(one.default), one.meaning) for one in options)
    return _table(("option", "type", "default", "meaning"), rows)


def _default(text: str) -> str:
    """Return a default as code, unless it is a description, which has a space or an apostrophe."""
    return text if re.search(r"[ ']", text) else _code(text)


def _by_text(keys: Iterable[Any]) -> Iterator[tuple[str, str]]:
    """Yield a row for all keys with the same text, with the values of refused keys that are accepted."""
    names: dict[str, list[str]] = {}
    for key in keys:
        allowed = f" (except {', '.join(map(_code, sorted(key.allowed)))})" if key.allowed else ""
        names.setdefault(key.text, []).append(_code(f"kafka.{key.name}") + allowed)
    for text, same in names.items():
        yield ", ".join(same), text


def main() -> None:
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)
    SPARK_PAGE.write_text(spark_page(SPARK_PAGE.read_text()))


if __name__ == "__main__":
    main()
