import re
from pathlib import Path

import httpx
from starlette.applications import Starlette

from gateway.app import static_directory
from gateway.dashboard import routes
from gateway.site import Site


async def fetched(static: Path, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=Starlette(routes=list(routes(Site(static)))))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        return await http.get(path)


async def test_pages_are_the_files_with_versions_whatever_the_query() -> None:
    static = static_directory()
    for path, name in (("/dashboard?q=state:failed", "dashboard.html"), ("/dashboard/run?topic=a&run=b", "run.html")):
        reply = await fetched(static, path)
        assert reply.status_code == 200
        assert re.sub(r"\?v=\w+", "", reply.text) == (static / name).read_text()
        assert reply.headers["content-type"] == "text/html; charset=utf-8"


async def test_pages_ask_for_nothing_that_is_not_there() -> None:
    static = static_directory()
    for name, root in (("dashboard.html", "./static/"), ("run.html", "../static/")):
        page = (static / name).read_text()
        asked = [part.split('"')[0] for part in page.split(root)[1:]]
        assert len(asked) >= 6
        for path in asked:
            assert (static / path).is_file(), path


async def test_page_that_is_missing_is_not_found(tmp_path: Path) -> None:
    assert (await fetched(tmp_path, "/dashboard")).status_code == 404
