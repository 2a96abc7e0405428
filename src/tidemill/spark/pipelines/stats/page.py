"""Writes the report as a self-contained HTML page: no network access, no scripts, no other files."""

import html
from importlib.resources import files
from typing import Final

from tidemill.spark.pipelines.stats import drawing, palette, readable
from tidemill.spark.pipelines.stats.chart import Chart, Table
from tidemill.spark.pipelines.stats.figures import TopicFigures
from tidemill.spark.pipelines.stats.findings import findings
from tidemill.spark.pipelines.stats.themed_svg import themed

# With this policy, nothing is loaded and no script runs, even if a key that looks like HTML were not escaped.
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E%3Crect width='24' height='24' "
    "rx='6' fill='%230b6bcb'/%3E%3Cpath d='M5 19v-6m5 6V8m5 11v-8m5 8V5' fill='none' stroke='%23fff' "
    "stroke-width='2.5' stroke-linecap='round'/%3E%3C/svg%3E"
)


def page(figures: TopicFigures, charts: list[Chart], made_at_s: float) -> str:
    """Return the page.  `made_at_s` is the time of the run, in seconds since 1970; ages are relative to it."""
    title = html.escape(figures.topic)
    body = "\n".join(
        [
            f"<header><p>Tidemill · statistics of a topic</p><h1>{title}</h1>{_range(figures, made_at_s)}</header>",
            "<main>",
            _tiles(figures),
            _findings(figures),
            '<section class="charts" aria-label="Charts">',
            *map(_figure, charts),
            "</section>",
            "</main>",
            f"<footer><p>Made on {readable.moment(made_at_s)} by <code>tidemill pipeline run stats</code>. Times are "
            "record times in UTC. The tables <code>per_minute</code>, <code>hot_keys</code> and "
            "<code>key_hash</code> beside this page have all rows as Parquet.</p></footer>",
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{title} · statistics</title>\n<link rel="icon" href="{_ICON}">\n'
        f"<style>\n{_style()}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _style() -> str:
    sheet = files("tidemill.spark.pipelines.stats").joinpath("page.css").read_text()
    return (
        f":root {{ color-scheme: light dark; {palette.variables(palette.LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {palette.variables(palette.DARK)} }} }}\n{sheet}"
    )


def _range(figures: TopicFigures, made_at_s: float) -> str:
    first_s, last_s = figures.total.first_s, figures.total.last_s
    if first_s is None or last_s is None:
        return ""
    return (
        f'<p class="range">{readable.moment(first_s)} to {readable.moment(last_s)} '
        f"<span>({readable.span(last_s - first_s)}; the newest record is {_age(made_at_s - last_s)})</span></p>"
    )


def _age(seconds: float) -> str:
    return f"{readable.span(seconds)} old" if seconds >= 0 else f"{readable.span(-seconds)} in the future"


def _tiles(figures: TopicFigures) -> str:
    total = figures.total
    per_second = total.records / total.span_s if total.span_s else 0.0
    unit_s, unit = readable.rate_unit(per_second)
    tiles = [
        ("Records", readable.short_count(total.records), readable.count(total.records)),
        ("Bytes", readable.size(total.bytes), f"{readable.count(total.bytes)} bytes of keys and values"),
        ("Mean rate", readable.short_count(per_second * unit_s), f"records per {unit}, by record time"),
        ("Mean size", readable.size(total.size_mean), f"p99 {readable.size(total.size_p99)}"),
        ("Partitions", readable.count(len(figures.partitions)), "in the range"),
        ("Different keys", readable.short_count(figures.key_count), _without_key(figures)),
    ]
    return (
        '<dl class="tiles">'
        + "".join(
            f"<div><dt>{name}</dt><dd>{html.escape(value)}<small>{html.escape(note)}</small></dd></div>"
            for name, value, note in tiles
        )
        + "</dl>"
    )


def _without_key(figures: TopicFigures) -> str:
    if not figures.total.without_key:
        return "every record has a key"
    return f"{readable.percent(figures.total.without_key, figures.total.records)} of the records have none"


def _findings(figures: TopicFigures) -> str:
    sentences = findings(figures)
    if not sentences:
        return ""
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f'<section class="findings"><h2>What stands out</h2><ul>{items}</ul></section>'


def _figure(chart: Chart) -> str:
    size = drawing.WIDE if chart.is_wide else drawing.HALF
    label = f"{chart.title}. {chart.summary}"
    legend = "".join(
        f'<li><i style="background:var(--{colour})"></i>{html.escape(text)}</li>' for colour, text in chart.legend
    )
    return "\n".join(
        [
            f'<figure id="{chart.name}" class="{"wide" if chart.is_wide else "half"}">',
            f"<figcaption><h2>{html.escape(chart.title)}</h2><p>{html.escape(chart.summary)}</p></figcaption>",
            f'<ul class="legend" aria-label="Legend">{legend}</ul>' if legend else "",
            '<div class="plot">',
            themed(drawing.svg(chart, size), f"{chart.name}-r", "regular", label),
            themed(drawing.svg(chart, drawing.NARROW), f"{chart.name}-n", "narrow", label),
            "</div>",
            _table(chart.title, chart.table),
            "</figure>",
        ]
    )


def _table(title: str, table: Table) -> str:
    def cell(tag: str, index: int, text: str, scope: str = "") -> str:
        css = "" if index in table.text_columns else ' class="n"'
        return f"<{tag}{scope}{css}>{html.escape(text)}</{tag}>"

    head = "".join(cell("th", index, name, ' scope="col"') for index, name in enumerate(table.columns))
    rows = "\n".join(
        "<tr>"
        + cell("th", 0, row[0], ' scope="row"')
        + "".join(cell("td", index, text) for index, text in enumerate(row[1:], 1))
        + "</tr>"
        for row in table.rows
    )
    return (
        f'<details><summary>Table<span class="hidden"> of {html.escape(title)}</span></summary>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(title, quote=True)}, table">'
        f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div></details>"
    )
