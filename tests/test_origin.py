"""Pages of other origins, and names that are made to point here, are refused; all else passes."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from gateway.origin import OriginGuard, origins_of
from gateway.settings import SettingsError


async def _page(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("in")


async def _socket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("in")
    await websocket.close()


def _client(*, host: str = "127.0.0.1", allowed: str = "") -> TestClient:
    guard = Middleware(OriginGuard, host=host, allowed=origins_of(allowed))
    return TestClient(
        Starlette(
            routes=[Route("/", _page, methods=["GET", "POST"]), WebSocketRoute("/ws", _socket)], middleware=[guard]
        )
    )


def _admitted(client: TestClient, headers: dict[str, str]) -> bool:
    response = client.get("/", headers=headers)
    try:
        with client.websocket_connect("/ws", headers=headers) as websocket:
            websocket.receive_text()
    except WebSocketDisconnect:
        assert response.status_code == 403
        assert response.json()["error"]["code"] == 103
        return False
    assert response.status_code == 200
    return True


@pytest.mark.parametrize("setting", ["http://[::1", "example.com", "https://good.example,null"])
def test_setting_that_names_no_origin_is_refused(setting: str) -> None:
    with pytest.raises(SettingsError, match="GATEWAY_ALLOWED_ORIGINS: expected origins such as"):
        origins_of(setting)


LOCAL = "127.0.0.1:8000"


@pytest.mark.parametrize(
    ("listens", "allowed", "host", "origin", "answer"),
    [
        ("127.0.0.1", "", LOCAL, None, "in"),
        ("127.0.0.1", "", LOCAL, f"http://{LOCAL}", "in"),
        ("127.0.0.1", "", "localhost:8000", "http://localhost:8000", "in"),
        ("127.0.0.1", "", "[::1]:8000", "http://[::1]:8000", "in"),
        ("127.0.0.1", "", LOCAL, "https://evil.example", "refused"),
        ("127.0.0.1", "", LOCAL, "http://127.0.0.1:9000", "refused"),
        ("127.0.0.1", "", LOCAL, "null", "refused"),
        ("127.0.0.1", "", "evil.example:8000", "http://evil.example:8000", "refused"),
        ("127.0.0.1", "", "evil.example:8000", None, "refused"),
        ("127.0.0.1", "https://good.example", LOCAL, "https://good.example", "in"),
        ("127.0.0.1", "https://good.example/", "good.example", "https://GOOD.example", "in"),
        ("127.0.0.1", "https://good.example", LOCAL, "https://evil.example", "refused"),
        ("127.0.0.1", "*", "evil.example:8000", "https://evil.example", "in"),
        ("0.0.0.0", "", "chat.example", "https://chat.example", "in"),
        ("0.0.0.0", "", "chat.example", "https://evil.example", "refused"),
        ("127.0.0.1", "", LOCAL, "http://[::1", "refused"),
        ("127.0.0.1", "", "[::1", None, "refused"),
        ("127.0.0.1", "", f"{LOCAL}@evil.example", None, "refused"),
        ("127.0.0.1", "", "127.0.0.1.evil.example", None, "refused"),
        ("127.0.0.1", "", "evil.example@127.0.0.1", None, "refused"),
        ("127.0.0.1", "https://good.example", LOCAL, "https://good.example.evil.example", "refused"),
        ("0.0.0.0", "", "chat.example", "https://chat.example@evil.example", "refused"),
        ("0.0.0.0", "", "chat.example", "null", "refused"),
        ("0.0.0.0", "", "", "null", "refused"),
    ],
)
def test_origin_and_host_decide(listens: str, allowed: str, host: str, origin: str | None, answer: str) -> None:
    headers = {"host": host} | ({"origin": origin} if origin else {})
    assert _admitted(_client(host=listens, allowed=allowed), headers) is (answer == "in")


@pytest.mark.parametrize(
    ("method", "said", "answer"),
    [
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, "refused"),
        ("POST", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, "refused"),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, "refused"),
        ("GET", {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, "in"),
        ("GET", {"sec-fetch-site": "same-origin", "sec-fetch-mode": "no-cors"}, "in"),
        ("GET", {"sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, "in"),
        (
            "POST",
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors", "origin": "https://good.example"},
            "in",
        ),
    ],
)
def test_what_other_sites_embed_is_refused(method: str, said: dict[str, str], answer: str) -> None:
    client = _client(allowed="https://good.example")
    response = client.request(method, "/", headers={"host": LOCAL, **said})
    assert (response.status_code == 403) is (answer == "refused")


def test_several_hosts_are_refused() -> None:
    assert _client().get("/", headers=[("host", LOCAL), ("host", "evil.example")]).status_code == 403
