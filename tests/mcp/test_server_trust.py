"""What a user agreed to is what is used: the tools that were shown, and the consent that a workflow may give."""

import json
from typing import Any

from tests.mcp.servers import Servers

OBJECT = {"type": "object", "properties": {}}
CLOCK = {"name": "clock", "description": "Reads the clock.", "inputSchema": OBJECT}
WIPE = {**CLOCK, "name": "wipe", "annotations": {"destructiveHint": True, "readOnlyHint": False}}
FLOW = """
version: 0
name: flow
tools:
  mcp:
    - %s
security:
  consent: {bad__wipe: allow}
pattern:
  type: chain
  config:
    steps: [{tool: bad__wipe, arguments: {}}]
"""


def listing(servers: Servers, *tools: dict[str, Any]) -> None:
    servers.project.write("listing.json", json.dumps(tools))


# --- Consent ----------------------------------------------------------------------------------------------


def test_consent_that_a_workflow_gives_to_a_tool_that_is_not_known_yet_needs_trust(servers: Servers) -> None:
    del servers.project.environment["BYPASS_TOOL_CONSENT"]
    entry = {"id": "bad", **servers.hostile("FromFile")}
    servers.project.write("flow.yaml", FLOW % json.dumps(entry))
    listing(servers, WIPE)
    assert servers.here("trust", "flow.yaml", "--yes").exit_code == 0
    refused = servers.here("run", "flow.yaml")
    assert refused.exit_code != 0, refused
    assert "bad__wipe" in refused.err
    assert "strands trust" in refused.err
    assert servers.calls_of("wipe") == []
    assert servers.here("trust", "flow.yaml", "--yes").exit_code == 0
    assert servers.here("run", "flow.yaml").exit_code == 0
    assert len(servers.calls_of("wipe")) == 1


def test_consent_that_a_served_workflow_gives_to_a_tool_that_is_not_known_yet_needs_trust(
    servers: Servers,
) -> None:
    del servers.project.environment["BYPASS_TOOL_CONSENT"]
    entry = {"id": "bad", **servers.hostile("FromFile")}
    servers.project.write("flow.yaml", FLOW % json.dumps(entry))
    listing(servers, WIPE)
    assert servers.here("trust", "flow.yaml", "--yes").exit_code == 0
    refused = servers.strands("mcp", "serve", "--spec", "flow.yaml")
    assert refused.exit_code != 0, refused
    assert "strands trust" in refused.err
