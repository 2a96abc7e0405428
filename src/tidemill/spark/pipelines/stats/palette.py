"""The colours of the charts and the page, in a light and a dark variant.

Charts are drawn in the light colours.  In the page, each light colour is replaced by a variable of the style sheet, so
that a chart follows the browser's colour scheme.  Every light colour must therefore have exactly one name.
"""

from collections.abc import Mapping
from typing import Final

SERIES: Final = ("series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "series-7")
OTHERS: Final = "others"
HOT: Final = "hot"

LIGHT: Final[Mapping[str, str]] = {
    "page": "#f7f8fa",
    "surface": "#ffffff",
    "line": "#dfe3e8",
    "faint": "#eef1f4",
    "text": "#17202b",
    "muted": "#556270",
    "series-1": "#0b6bcb",
    "series-2": "#e8892b",
    "series-3": "#0e9488",
    "series-4": "#b0408f",
    "series-5": "#d9a916",
    "series-6": "#7a5fd0",
    "series-7": "#5b8c2a",
    "others": "#98a3af",
    "hot": "#c2410c",
}
DARK: Final[Mapping[str, str]] = {
    "page": "#10151b",
    "surface": "#171e26",
    "line": "#2b3540",
    "faint": "#1f2831",
    "text": "#e6ebf0",
    "muted": "#a0adba",
    "series-1": "#4f9fe8",
    "series-2": "#f0a05a",
    "series-3": "#3fb8aa",
    "series-4": "#dc7cc0",
    "series-5": "#e3c255",
    "series-6": "#a592f2",
    "series-7": "#93c15b",
    "others": "#748290",
    "hot": "#ff8a5b",
}


def variables(colours: Mapping[str, str]) -> str:
    """Return the declarations of the style sheet's variables."""
    return " ".join(f"--{name}: {value};" for name, value in colours.items())
