"""The parts that all pages share: the templates, the request's parameters, and the page around the content."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from tidemill.console import formats, queue_summary, queue_view, rebalance_reader
from tidemill.console.cluster_reader import ClusterReader
from tidemill.console.cluster_view import ClusterView, Overview, spans
from tidemill.console.queue_summary import QueueSummary
from tidemill.console.rates import Rates
from tidemill.console.rebalance_reader import Rebalance
from tidemill.console.shared_read import SharedRead
from tidemill.model.clock import Clock

T = TypeVar("T")

ROWS_MAX: Final = 50  # per page of a table: more would be slow to read and to render
TEXT_MAX: Final = 300  # the limit on characters in a parameter
NUMBER_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One page of a list."""

    rows: Sequence[Any]
    total: int
    first: int  # the number of the first row, from 1
    number: int  # the number of the page, from 1
    previous: str | None  # the address of the previous page
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One request for a page, and the data from which the page is rendered."""

    request: Request
    view: ClusterView
    overview: Overview
    rates: Rates
    queue_summaries: SharedRead[QueueSummary]
    rebalance: SharedRead[Rebalance]
    templates: Environment
    wall_ms: int  # when the request arrived

    @property
    def query(self) -> QueryParams:
        return self.request.query_params

    def reader(self) -> ClusterReader:
        return ClusterReader(self.view.brokers())

    def text(self, name: str) -> str:
        return self.query.get(name, "").strip()[:TEXT_MAX]

    def number(self, name: str, default: int) -> int:
        """Return a parameter as a number, or the default if it is missing or not a number: people edit addresses."""
        text = self.query.get(name, "")
        return min(int(text), NUMBER_MAX) if text.isascii() and text.isdigit() and len(text) < 20 else default

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        text = self.query.get(name, default)
        return text if text in choices else default

    def address(self, **changes: object) -> str:
        """Return the address of this page with some parameters changed; None removes one."""
        query = {**self.query, **changes}
        kept = {name: value for name, value in query.items() if value not in (None, "")}
        return self.request.url.path + (f"?{urlencode(kept)}" if kept else "")

    def slice(self, rows: Sequence[Any]) -> Slice:
        """Return the page of `rows` whose number is the parameter `page`, or the last page if there are fewer pages."""
        pages = max(-(-len(rows) // ROWS_MAX), 1)
        number = min(max(self.number("page", 1), 1), pages)
        first = (number - 1) * ROWS_MAX
        return Slice(
            rows=rows[first : first + ROWS_MAX],
            total=len(rows),
            first=first + 1,
            number=number,
            previous=self.address(page=number - 1) if number > 1 else None,
            next=self.address(page=number + 1) if number < pages else None,
        )

    def render(self, template: str, *, status: int = 200, **values: object) -> HTMLResponse:
        text = self.templates.get_template(template).render(visit=self, overview=self.overview, **values)
        return HTMLResponse(text, status)


Page = Callable[[Visit], HTMLResponse]


class Site:
    def __init__(self, view: Callable[[], ClusterView | None], clock: Clock) -> None:
        self._view = view
        self._clock = clock
        self._rates = Rates(clock)
        self._queue_summaries = SharedRead(clock, queue_summary.read, queue_summary.NOT_READ)
        self._rebalance = SharedRead(clock, rebalance_reader.read, rebalance_reader.NOT_READ)
        self._templates = Environment(
            loader=PackageLoader("tidemill.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters |= {
            "count": formats.count,
            "size": formats.size,
            "rate": formats.rate,
            "milliseconds": formats.milliseconds,
            "age": formats.age,
            "moment": formats.moment,
            "plural": formats.plural,
            "spans": spans,
            "meant": formats.meant,
            "bar": queue_view.bar,
            "described_bar": queue_view.described_bar,
            "segment": lambda text: quote(text, safe=""),
        }
        self._templates.globals |= {"unknown": formats.UNKNOWN, "bar_parts": queue_view.PARTS}

    def endpoint(self, page: Page) -> Callable[[Request], HTMLResponse]:
        """
        Return an endpoint for `page`.  It is a plain function, which Starlette calls in a worker thread, so a page may
        wait for other brokers without blocking the event loop.
        """

        def answer(request: Request) -> HTMLResponse:
            view = self._view()
            if view is None:
                return self.plain(503, "This broker does not know its cluster yet. It waits to join, or for its peers.")
            visit = Visit(
                request=request,
                view=view,
                overview=view.overview(),
                rates=self._rates,
                queue_summaries=self._queue_summaries,
                rebalance=self._rebalance,
                templates=self._templates,
                wall_ms=self._clock.wall_ms(),
            )
            try:
                return page(visit)
            except HTTPException as missing:
                return visit.render("missing.html", status=missing.status_code, problem=missing.detail)

        return answer

    def plain(self, status: int, problem: str) -> HTMLResponse:
        """Return a page that shows nothing about the cluster."""
        return HTMLResponse(self._templates.get_template("plain.html").render(problem=problem), status)

    def history(self) -> dict[str, list[float]]:
        view = self._view()
        return {} if view is None else view.history()
