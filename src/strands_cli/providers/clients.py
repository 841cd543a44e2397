"""How every provider's HTTP client behaves.

It tries once, since a run retries in one place. It keeps no idle connection, since nobody closes the clients
of the SDK's models, and a connection belongs to the event loop in which it was opened.
"""

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

CONNECT_SECONDS = 10.0
READ_SECONDS = 300.0
"""The longest silence of a hosted model."""
PATIENT_READ_SECONDS = 1800.0
"""The longest silence of a model on somebody's own machine, which may read a long prompt for many minutes."""
WRITE_SECONDS = 60.0
NO_KEY = "none"
"""What is sent as a key to a host that asks for none; the clients refuse to be made without one."""


def client_options(read_seconds: float) -> dict[str, Any]:
    """What an `httpx.AsyncClient` is made with."""
    import httpx

    return {
        "timeout": httpx.Timeout(connect=CONNECT_SECONDS, read=read_seconds, write=WRITE_SECONDS, pool=None),
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=0),
        "verify": _trust(),
        "follow_redirects": True,
    }


@cache
def _trust() -> "ssl.SSLContext":
    """Reading the certificates takes longer than all the rest of a client."""
    import httpx

    return httpx.create_ssl_context()


def set_values(**values: Any) -> dict[str, Any]:
    """Those of the values that somebody has set."""
    return {name: value for name, value in values.items() if value not in (None, [])}
