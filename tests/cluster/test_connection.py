"""How workers and commands reach a Temporal server behind TLS."""

import asyncio
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.clusters import Cluster
from tests.cluster.servers import Temporal
from tests.plugins.makers import need

LEAF = "basicConstraints=CA:FALSE\nsubjectAltName=IP:127.0.0.1\n"


class Certificates:
    """An authority, and a certificate of it for a server and for a client."""

    def __init__(self, directory: Path) -> None:
        need("openssl")
        self._directory = directory
        self.ca = directory / "ca.pem"
        self._openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=authority", "-days", "2"),
            *("-keyout", "ca.key", "-out", "ca.pem"),
        )
        (directory / "leaf").write_text(LEAF)
        self.server, self.client = self._certificate("server"), self._certificate("client")

    def _certificate(self, name: str) -> tuple[Path, Path]:
        request = ("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self._openssl("req", "-newkey", "rsa:2048", "-nodes", *request)
        signed = ("-in", f"{name}.csr", "-out", f"{name}.pem", "-days", "2", "-extfile", "leaf")
        self._openssl("x509", "-req", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", *signed)
        return self._directory / f"{name}.pem", self._directory / f"{name}.key"

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._directory, check=True, capture_output=True)


class Relay:
    """Passes what comes by TLS to another server."""

    def __init__(self, context: ssl.SSLContext, target: str) -> None:
        self._context, self._target = context, target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._passed, "127.0.0.1", 0, ssl=context))
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())

    def _do(self, work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target.split(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        both = [self._pump(reader, there_writer), self._pump(there_reader, writer)]
        await asyncio.gather(*both, return_exceptions=True)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        finally:
            target.close()

    def end(self) -> None:
        async def end() -> None:
            self._server.close()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self._do(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def relay(certificates: Certificates, target: str, *, asks_client: bool) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates.server)
    context.set_alpn_protocols(["h2"])
    if asks_client:
        context.load_verify_locations(certificates.ca)
        context.verify_mode = ssl.CERT_REQUIRED
    running = Relay(context, target)
    try:
        yield running.address
    finally:
        running.end()


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def listed(cluster: Cluster, address: str, **engine: object) -> tuple[int, str]:
    """The exit code of a command that needs the server, and what it says."""
    cluster.settle(address=address, **engine)
    outcome = cluster.strands("schedule", "list")
    return outcome.exit_code, outcome.err


NONE = (0, "There are no schedules.\n")


@pytest.mark.long
def test_a_server_is_reached_by_tls_with_the_authority_of_the_settings(
    cluster: Cluster, temporal: Temporal, certificates: Certificates
) -> None:
    cluster.flow("{{ who }}")
    with relay(certificates, temporal.address, asks_client=False) as address:
        assert listed(cluster, address, ca=str(certificates.ca)) == NONE
        cluster.worker().ready()
        assert cluster.strands("submit", "flow.yaml", "--watch").out == "it\n"
        code, err = listed(cluster, address)
        assert (code, "Does it need TLS?" in err) == (17, True), err
        for engine in ({"tls": True}, {"ca": str(certificates.client[0])}):
            code, err = listed(cluster, address, **engine)
            assert code == 17, err
            refused = "its certificate is refused, UnknownIssuer.\n  Set [engine] ca"
            assert f"Temporal at {address} cannot be reached: {refused}" in err
        code, err = listed(cluster, address, ca="nowhere.pem")
        assert code == 2
        assert "nowhere.pem" in err


@pytest.mark.long
def test_a_server_that_asks_for_a_certificate_gets_that_of_the_settings(
    cluster: Cluster, temporal: Temporal, certificates: Certificates
) -> None:
    ca, (cert, key) = str(certificates.ca), certificates.client
    with relay(certificates, temporal.address, asks_client=True) as address:
        assert listed(cluster, address, ca=ca, cert=str(cert), key=str(key)) == NONE
        assert listed(cluster, address, ca=ca)[0] == 17
        variables = {
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": ca,
            "TEMPORAL_TLS_CLIENT_CERT_PATH": str(cert),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": str(key),
        }
        cluster.project.environment |= variables
        assert listed(cluster, address) == NONE
    code, err = listed(cluster, address, cert=str(cert))
    assert code == 3
    assert "cert and key belong together" in err


@pytest.mark.long
def test_an_api_key_comes_from_the_environment_and_needs_tls(
    cluster: Cluster, temporal: Temporal, certificates: Certificates
) -> None:
    ca = str(certificates.ca)
    with relay(certificates, temporal.address, asks_client=False) as address:
        cluster.project.environment["MY_KEY"] = "key-of-mine"
        assert listed(cluster, address, ca=ca, api_key_env="MY_KEY") == NONE
        code, err = listed(cluster, temporal.address, api_key_env="MY_KEY")
        assert code == 17  # a key is not sent in plain text unless the settings say so
        assert "it does not use TLS.\n  Set [engine] tls = false" in err
        assert "key-of-mine" not in err
        assert listed(cluster, temporal.address, api_key_env="MY_KEY", tls=False) == NONE
