"""The dashboard's pages: files, as the chat page is one."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.site import Site

__all__ = ["routes"]


def routes(site: Site) -> list[Route]:
    """Make the routes of `/dashboard` and `/dashboard/run`; what they show is named in their query.

    Args:
        site: Where the pages are.

    """
    return [
        Route("/dashboard", _page(site, "dashboard.html")),
        Route("/dashboard/run", _page(site, "run.html")),
    ]


def _page(site: Site, name: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return await site.page(request, name)

    return answer
