"""The broker and its link over TLS, on a server that speaks it itself; the shipped one does not."""

import subprocess
from pathlib import Path

import pytest

from gateway.broker.redis import RedisBroker
from gateway.errors import BrokerUnavailableError
from gateway.types import START, Topic
from tests.broker.author import Author
from tests.broker.test_link import Ears, until
from tests.servers import RedisServer, free_port

DEBIANS = Path(__file__).parents[2] / ".servers" / "debian" / "redis-server"
TOPIC = Topic("chat:1")


def authority(directory: Path) -> Path:
    """Make an authority, and a key and certificate of it for localhost; gives the authority's certificate."""

    def openssl(*arguments: str) -> None:
        subprocess.run(("openssl", *arguments), check=True, capture_output=True, cwd=directory)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=localhost"
    )
    (directory / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
    openssl("x509", "-req", "-in", "request.pem", "-out", "certificate.pem", *signed)
    return directory / "ca.pem"


@pytest.mark.skipif(not DEBIANS.exists(), reason="no server with TLS is here: `make servers` gets one")
async def test_calls_and_link_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TEST_SERVER", str(DEBIANS))
    ca, port = authority(tmp_path), free_port()
    files = {
        "tls-port": str(port),
        "tls-cert-file": str(tmp_path / "certificate.pem"),
        "tls-key-file": str(tmp_path / "key.pem"),
        "tls-ca-cert-file": str(ca),
        "tls-auth-clients": "no",
    }
    with RedisServer(tmp_path / "data", files | {"requirepass": "secret"}):
        broker, ears = RedisBroker(f"rediss://:secret@localhost:{port}/0?ssl_ca_certs={ca}"), Ears()
        link = broker.link(ears)
        await link.subscribe(broker.channel(TOPIC))
        author = Author(broker, TOPIC)
        await author.start()
        assert (await broker.read(TOPIC, START)).top == 1
        await until(lambda: ears.heard)
        await link.aclose()
        await broker.aclose()
        stranger = RedisBroker(f"rediss://:secret@localhost:{port}/0")
        with pytest.raises(BrokerUnavailableError, match="cannot connect") as caught:
            await stranger.read(TOPIC, START)
        assert "secret" not in str(caught.value)
        await stranger.aclose()
        plain = RedisBroker(f"redis://:secret@localhost:{port}/0", timeout=1)
        with pytest.raises(BrokerUnavailableError):
            await plain.read(TOPIC, START)
        await plain.aclose()
