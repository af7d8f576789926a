"""The dashboard's pages: files, as the chat page is one."""

from collections.abc import Callable
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

__all__ = ["routes"]


def routes(static: Path) -> list[Route]:
    """Make the routes of `/dashboard` and `/dashboard/run`; what they show is named in their query.

    Args:
        static: The directory of the pages.

    """
    return [
        Route("/dashboard", _page(static / "dashboard.html")),
        Route("/dashboard/run", _page(static / "run.html")),
    ]


def _page(path: Path) -> Callable[[Request], Response]:
    def answer(_request: Request) -> Response:
        if not path.is_file():
            raise HTTPException(404)
        return FileResponse(path)

    return answer
