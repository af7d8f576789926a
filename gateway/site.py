"""The pages and their files over HTTP: compressed, and kept by browsers where the address names their version."""

import asyncio
import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.bundle import bundle, slim

__all__ = ["Site"]

_LINK = re.compile(r'((?:href|src)=")((?:\.\./|\./)+static/[^"?#]+)(")')
_NOT_GZIP = re.compile(r"gzip\s*;\s*q\s*=\s*0(?:\.0*)?\s*(?:,|$)", re.IGNORECASE)
_TEXTS = frozenset({".css", ".html", ".js", ".json", ".md", ".svg", ".ts"})
_TYPES = {".js": "text/javascript", ".md": "text/markdown", ".mjs": "text/javascript", ".ts": "text/plain"}
_KEPT = "public, max-age=31536000, immutable"
_ASKED_AGAIN = "no-cache"


@dataclass(frozen=True, kw_only=True)
class _Asset:
    kind: str
    plain: bytes
    packed: bytes | None
    """gzip; None where it would not help."""
    tag: str


class Site:
    """A directory of pages, scripts and styles, as an ASGI application for its files.

    A file is served as it is, and asked for again each time. Pages name their files with ``?v=`` and the version of the
    whole directory: then a script is one file with all that it imports (`gateway.bundle`), and a browser keeps it. A
    version that is not the present one, as during an upgrade of several machines, gets the present files, for once.
    """

    def __init__(self, directory: Path) -> None:
        """Serve a directory; a change in it is seen with the next request."""
        self._directory = directory.resolve()
        self._seen: tuple[tuple[str, int, int], ...] = ()
        """Every file with its time and size, when the assets were made."""
        self._version = ""
        self._assets: dict[tuple[str, bool], _Asset | None] = {}
        """What was asked for, in the two forms; bounded by the files that there are."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request for a file."""
        request = Request(scope, receive)
        if request.method not in {"GET", "HEAD"}:
            raise HTTPException(405, headers={"allow": "GET, HEAD"})
        path = scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/")
        await (await self._answer(request, path, request.query_params.get("v")))(scope, receive, send)

    async def page(self, request: Request, name: str) -> Response:
        """Answer with a page whose links name the present version; 404 where it is missing."""
        return await self._answer(request, name, "")

    async def _answer(self, request: Request, path: str, version: str | None) -> Response:
        asset = await asyncio.to_thread(self._asset, path, version is not None)
        if asset is None:
            raise HTTPException(404)
        wanted = request.headers.get("accept-encoding", "")
        packed = asset.packed if "gzip" in wanted.lower() and not _NOT_GZIP.search(wanted) else None
        headers = {
            "cache-control": _KEPT if version and version == self._version else _ASKED_AGAIN,
            "etag": f'"{asset.tag}{"" if packed is None else "-gzip"}"',
        }
        if asset.packed is not None:
            headers["vary"] = "accept-encoding"
        known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        if headers["etag"] in known:
            return Response(status_code=304, headers=headers)
        if packed is not None:
            headers["content-encoding"] = "gzip"
        body = asset.plain if packed is None else packed
        headers["content-length"] = str(len(body))
        return Response(b"" if request.method == "HEAD" else body, media_type=asset.kind, headers=headers)

    def _asset(self, path: str, made: bool) -> _Asset | None:  # noqa: FBT001 - one of the two forms, as in the key
        seen = self._look()
        if seen != self._seen:
            digest = hashlib.sha256()
            for name, _, _ in seen:
                digest.update(f"{name}\0".encode() + (self._directory / name).read_bytes() + b"\0")
            self._assets = {}
            self._seen, self._version = seen, digest.hexdigest()[:12]
        if not any(name == path for name, _, _ in seen):
            return None
        asset = self._assets.get((path, made))
        if asset is None:
            asset = self._assets[path, made] = self._make(path, made)
        return asset

    def _look(self) -> tuple[tuple[str, int, int], ...]:
        files = sorted(file for file in self._directory.rglob("*") if file.is_file())
        return tuple(
            (file.relative_to(self._directory).as_posix(), stat.st_mtime_ns, stat.st_size)
            for file in files
            for stat in [file.stat()]
        )

    def _make(self, path: str, made: bool) -> _Asset:  # noqa: FBT001 - as in the key
        body = (self._directory / path).read_bytes()
        suffix = Path(path).suffix
        if made and suffix == ".js":
            body = bundle(path, self._text).encode()
        elif made and suffix == ".css":
            body = slim(body.decode()).encode()
        elif made and suffix == ".html":
            body = _LINK.sub(rf"\1\2?v={self._version}\3", body.decode()).encode()
        kind = _TYPES.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
        packed = gzip.compress(body, 9, mtime=0) if suffix in _TEXTS else None
        return _Asset(
            kind=kind,
            plain=body,
            packed=packed if packed is not None and len(packed) < len(body) else None,
            tag=hashlib.sha256(body).hexdigest()[:16],
        )

    def _text(self, path: str) -> str:
        return (self._directory / path).read_text(encoding="utf-8")
