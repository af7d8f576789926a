"""The nginx site of examples/deploy as it stands there, before two real gateways: TLS, websockets, no stickiness."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import re
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from gateway.broker.embedded import EmbeddedServer
from gateway.client import Client
from gateway.context.messages import Message
from gateway.publisher import Publisher
from tests.e2e.processes import ROOT, Gateway, until
from tests.servers import free_port
from tests.started import remember

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
SITE = (ROOT / "examples" / "deploy" / "nginx.conf").read_text()
NAME = "gateway.example.com"
READERS = 8
DELTAS = 200
TEXT = "".join(f"{number} " for number in range(DELTAS))

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed: `make test` installs it")

AROUND = """
daemon off;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 1000; }}
http {{
  log_format upstreams '$upstream_addr $status $http2 $request';
  access_log {directory}/access.log upstreams;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  include {directory}/gateway.conf;
}}
"""


def replaced(text: str, changes: dict[str, str]) -> str:
    """Replace what must be there once."""
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def certificate(directory: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName(NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    (directory / "fullchain.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    unencrypted = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, unencrypted)
    (directory / "privkey.pem").write_bytes(private)


class Front:
    """A site that runs."""

    def __init__(self, directory: Path, port: int, gateways: list[Gateway]) -> None:
        self.port = port
        self.gateways = gateways
        self.url = f"https://127.0.0.1:{port}"
        self.origin = f"https://{NAME}:{port}"
        self.trust = ssl.create_default_context(cafile=str(directory / "fullchain.pem"))
        self._log = directory / "access.log"

    def log(self) -> list[str]:
        return self._log.read_text().splitlines()

    def websocket(self, *, source: str = "127.0.0.1", **options: object) -> connect:
        """Connect as a page of the site does, by its name."""
        return connect(
            f"wss://{NAME}:{self.port}/connection/websocket",
            ssl=self.trust,
            host="127.0.0.1",
            local_addr=(source, 0),
            proxy=None,
            **{"origin": self.origin, **options},  # type: ignore[arg-type]
        )


@contextlib.asynccontextmanager
async def front(directory: Path, *arguments: str) -> AsyncIterator[Front]:
    """Run the site in front of two gateways, told what its comments say."""
    assert NGINX is not None
    port, plain = free_port(), free_port()
    certificate(directory)
    config = directory / "nginx.conf"
    config.write_text(AROUND.format(directory=directory))
    told = ("--trusted-proxies", "127.0.0.1", "--allowed-origins", f"https://{NAME}:{port}", *arguments)
    async with EmbeddedServer() as server:
        gateways = [Gateway(server.url, *told) for _ in range(2)]
        changes = {
            "listen 80;": f"listen 127.0.0.1:{plain};",
            "listen 443 ": f"listen 127.0.0.1:{port} ",
            "server 127.0.0.1:8000 ": f"server 127.0.0.1:{gateways[0].port} ",
            "server 127.0.0.1:8001 ": f"server 127.0.0.1:{gateways[1].port} ",
            "/etc/ssl/gateway/fullchain.pem": f"{directory}/fullchain.pem",
            "/etc/ssl/gateway/privkey.pem": f"{directory}/privkey.pem",
        }
        (directory / "gateway.conf").write_text(replaced(SITE, changes))
        tested = subprocess.run([NGINX, "-t", "-c", str(config)], capture_output=True, text=True, check=False)
        assert tested.returncode == 0, tested.stderr
        assert "[warn]" not in tested.stderr
        process = subprocess.Popen([NGINX, "-c", str(config)], stderr=subprocess.DEVNULL)
        remember(process.pid)
        try:
            await asyncio.gather(*(gateway.start() for gateway in gateways))
            site = Front(directory, port, gateways)

            async def listening() -> bool:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    return True
                return False

            await until(listening, "nginx to listen")
            yield site
        finally:
            process.terminate()
            process.wait()
            await asyncio.gather(*(gateway.stop() for gateway in gateways))


async def test_readers_are_exact_while_both_gateways_restart_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "fullchain.pem"))
    async with front(tmp_path, "--drain", "0.2") as site, contextlib.AsyncExitStack() as stack:
        redis_url = site.gateways[0].redis_url
        clients = [await stack.enter_async_context(Client(site.url)) for _ in range(READERS)]
        restarted = asyncio.Event()

        async def read(client: Client) -> dict[str, Any]:
            async for update in client.subscribe("t", since="start"):
                if [run["status"] for run in update.mirror.runs] == ["completed"]:
                    return update.mirror.state()
            raise AssertionError("the subscription ended before the run")

        async def write() -> None:
            async with Publisher(redis_url) as publisher, publisher.run("t", agent="counter") as run:
                for number in range(DELTAS):
                    await run.delta(f"{number} ")
                    await asyncio.sleep(0.01)
                await restarted.wait()
                await run.add_message(Message.assistant(TEXT))

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            readers = [group.create_task(read(client)) for client in clients]
            for gateway in site.gateways:
                await gateway.stop()
                await gateway.start()
            restarted.set()
        expected = (await site.gateways[0].topic("t"))["mirror"]
        assert expected["context"]["events"][-1]["data"]["content"] == TEXT
        assert [reader.result() for reader in readers] == [expected] * READERS
        served = {re.split(" [0-9]{3} ", line)[0].split(", ")[-1] for line in site.log() if " 101 " in line}
        assert served == {f"127.0.0.1:{gateway.port}" for gateway in site.gateways}


async def test_stream_passes_at_once_over_http2(tmp_path: Path) -> None:
    async with (
        front(tmp_path) as site,
        Publisher(site.gateways[0].redis_url) as publisher,
        httpx.AsyncClient(base_url=site.url, verify=site.trust, http2=True, trust_env=False) as http,
        http.stream("GET", "/topics/t/events?from=start") as response,
    ):
        assert response.http_version == "HTTP/2"
        lines = response.aiter_lines()
        for number in range(3):
            await publisher.publish("t", {"type": "count", "n": number})  # the next one only when this one has come
            while f'"n":{number}' not in await anext(lines):
                pass


async def test_page_of_the_site_may_connect_and_clients_have_their_own_addresses(tmp_path: Path) -> None:
    async with front(tmp_path, "--max-connections-per-address", "1") as site:
        for gateway in site.gateways[1:]:
            await gateway.stop()
        async with site.websocket(source="127.0.0.2"), site.websocket(source="127.0.0.3"):
            with pytest.raises(InvalidStatus, match="429"):
                await site.websocket(source="127.0.0.2")
            with pytest.raises(InvalidStatus, match="429"):  # whatever it says of itself
                await site.websocket(source="127.0.0.2", additional_headers={"X-Forwarded-For": "10.1.2.3"})
        with pytest.raises(InvalidStatus, match="403"):
            await site.websocket(origin="https://evil.example")
        async with httpx.AsyncClient(base_url=site.url, verify=site.trust, trust_env=False) as http:
            assert (await http.get("/readyz")).json() == {"ok": True}
            assert (await http.get("/metrics")).status_code == 404
