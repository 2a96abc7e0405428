"""Prepares an SVG from matplotlib for the page: colours become variables, and ids do not clash with those of other
charts.
"""

import html
import re
from typing import Final

from tidemill.spark.pipelines.stats.palette import LIGHT

_A_COLOUR: Final = re.compile("|".join(re.escape(colour) for colour in LIGHT.values()), re.IGNORECASE)
_A_PLACE: Final = re.compile(r' (?:d|x|y|transform|points)="[^"]*"')
_A_NUMBER: Final = re.compile(r"-?\d+\.\d{2,}")
_A_FONT: Final = re.compile(r"(font(?:-family)?: ?)([^;\"]*?)'DejaVu Sans'[^;\"]*")
_AN_ID: Final = re.compile(r' id="([^"]+)"')
_A_REFERENCE: Final = re.compile(r'(url\(#|xlink:href="#)([^)"]+)')
_NAMES: Final = {colour.lower(): name for name, colour in LIGHT.items()}
_BACKGROUND: Final = re.compile(r"<metadata>.*?</metadata>|<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->", re.DOTALL)


def themed(svg: str, chart: str, css_class: str, label: str) -> str:
    """
    Return the SVG for the page.

    `chart` is a name that is unique in the page; it becomes the prefix of ids that are referenced, and other ids are
    removed.  `label` is the text that screen readers read for the image, because they cannot interpret axes and bars;
    the numbers are in the table.
    """
    body = _BACKGROUND.sub("", svg)
    used = {name for _, name in _A_REFERENCE.findall(body)}
    body = _AN_ID.sub(lambda found: f' id="{chart}-{found[1]}"' if found[1] in used else "", body)
    body = _A_REFERENCE.sub(lambda found: f"{found[1]}{chart}-{found[2]}", body)
    body = _A_COLOUR.sub(lambda found: f"var(--{_NAMES[found[0].lower()]})", body)
    body = _A_FONT.sub(lambda found: f"{found[1]}{found[2]}var(--font)", body)
    body = _A_PLACE.sub(lambda place: _A_NUMBER.sub(lambda found: _short(found[0]), place[0]), body)
    opening, rest = body[body.index("<svg") :].split(">", 1)
    view_box = re.search(r'viewBox="[^"]+"', opening)
    assert view_box is not None, "matplotlib writes a viewBox"
    head = f'<svg class="{css_class}" role="img" aria-label="{html.escape(label, quote=True)}" {view_box[0]}>'
    return head + re.sub(r"\s*\n\s*", "\n", rest).strip()


def _short(number: str) -> str:
    """Return the number with one decimal, which is a tenth of a CSS pixel."""
    rounded = f"{float(number):.1f}".removesuffix(".0")
    return "0" if rounded == "-0" else rounded
