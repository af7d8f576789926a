import gzip
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from gateway.app import static_directory
from gateway.site import Site

PAGE = '<script type="module" src="./static/a.js"></script>\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "a.js").write_text("import { b } from './lib/b.js';\n/** Says it. */\nconsole.log(b);\n" * 1)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "b.js").write_text("export const b = 'b';\n// nothing\n" + "b;\n" * 100)
    (tmp_path / "style.css").write_text("/* why */\n.a { color: red }\n" * 20)
    return tmp_path


def client(folder: Path) -> httpx.AsyncClient:
    site = Site(folder)

    async def index(request: Request) -> Response:
        return await site.page(request, "index.html")

    app = Starlette(routes=[Route("/", index), Mount("/static", site)])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway")


@pytest.fixture
async def http(folder: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with client(folder) as http:
        yield http


async def script_of(http: httpx.AsyncClient) -> str:
    found = re.search(r'src="\.(/static/a\.js\?v=\w+)"', (await http.get("/")).text)
    assert found
    return found[1]


async def test_file_is_served_as_it_is_and_asked_for_again(http: httpx.AsyncClient, folder: Path) -> None:
    reply = await http.get("/static/a.js")
    assert reply.content == (folder / "a.js").read_bytes()
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["content-type"].startswith("text/javascript")
    again = await http.get("/static/a.js", headers={"if-none-match": f'"other", W/{reply.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == reply.headers["etag"]


async def test_page_names_versions_and_their_files_are_kept(http: httpx.AsyncClient) -> None:
    page = await http.get("/")
    assert page.headers["cache-control"] == "no-cache"
    reply = await http.get(await script_of(http))
    assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "import" not in reply.text
    assert "const b = 'b'" in reply.text
    assert "Says" not in reply.text


async def test_change_anywhere_is_another_version(http: httpx.AsyncClient, folder: Path) -> None:
    before = await script_of(http)
    (folder / "lib" / "b.js").write_text("export const b = 'changed';\n")
    after = await script_of(http)
    assert after != before
    assert "'changed'" in (await http.get(after)).text


async def test_version_of_another_process_is_served_once(http: httpx.AsyncClient) -> None:
    reply = await http.get("/static/a.js?v=0123456789ab")
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.text == (await http.get(await script_of(http))).text


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [("gzip, br", True), ("GZIP", True), ("gzip;q=0", False), ("gzip; q=0.0, br", False), ("br", False), ("", False)],
)
async def test_compressed_where_it_is_accepted(http: httpx.AsyncClient, accepted: str, *, packed: bool) -> None:
    async with http.stream("GET", "/static/lib/b.js", headers={"accept-encoding": accepted}) as reply:
        raw = b"".join([piece async for piece in reply.aiter_raw()])
        assert (reply.headers.get("content-encoding") == "gzip") is packed
        assert int(reply.headers["content-length"]) == len(raw)
        assert reply.headers["vary"] == "accept-encoding"
    body = gzip.decompress(raw) if packed else raw
    assert body.startswith(b"export const b")


async def test_tags_of_the_two_encodings_differ(http: httpx.AsyncClient) -> None:
    packed = await http.get("/static/lib/b.js", headers={"accept-encoding": "gzip"})
    plain = await http.get("/static/lib/b.js", headers={"accept-encoding": "identity"})
    assert packed.headers["etag"] != plain.headers["etag"]


async def test_style_loses_its_comments_under_a_version(http: httpx.AsyncClient) -> None:
    assert "why" in (await http.get("/static/style.css")).text
    assert "why" not in (await http.get("/static/style.css?v=x")).text


async def test_head_has_no_body(http: httpx.AsyncClient) -> None:
    reply = await http.head("/static/a.js")
    assert reply.content == b""
    assert int(reply.headers["content-length"]) > 0


@pytest.mark.parametrize(
    "path", ["nothing.js", "lib", "lib/", "", "../secret", "..%2fsecret", "%2e%2e/secret", "a.js/"]
)
async def test_nothing_else_is_served(http: httpx.AsyncClient, folder: Path, path: str) -> None:
    (folder.parent / "secret").write_text("secret")
    assert (await http.get(f"/static/{path}")).status_code == 404


async def test_only_reading(http: httpx.AsyncClient) -> None:
    reply = await http.post("/static/a.js")
    assert (reply.status_code, reply.headers["allow"]) == (405, "GET, HEAD")


async def test_missing_page_is_not_found(tmp_path: Path) -> None:
    async with client(tmp_path) as http:
        assert (await http.get("/")).status_code == 404


@pytest.mark.parametrize(("name", "most"), [("index.html", 90_000), ("dashboard.html", 90_000), ("run.html", 105_000)])
async def test_page_with_all_it_loads_is_small(name: str, most: int) -> None:
    """UI.md 9: page, styles and library in at most 90 kB as they travel; the run's has what the two others have."""
    site = Site(static_directory())

    async def index(request: Request) -> Response:
        return await site.page(request, name)

    app = Starlette(routes=[Route("/", index), Mount("/static", site)])
    size = 0
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://gateway") as http:
        page = await http.get("/")
        links = re.findall(r'(?:href|src)="\.{1,2}(/static/[^"]+)"', page.text)
        assert len(links) >= 5
        for path in ("/", *links):
            async with http.stream("GET", path, headers={"accept-encoding": "gzip"}) as reply:
                assert reply.status_code == 200, path
                size += len(b"".join([piece async for piece in reply.aiter_raw()]))
    assert size <= most, f"{name}: {size} bytes"
