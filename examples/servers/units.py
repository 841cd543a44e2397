#!/usr/bin/env python3
"""An MCP server without any package: it converts lengths and weights.

A server reads one JSON message per line from standard input and answers on standard output. Most are written
with an SDK; this one shows how little the protocol needs.
"""

import json
import sys

FACTORS = {"mm": 0.001, "cm": 0.01, "m": 1, "km": 1000, "inch": 0.0254, "foot": 0.3048, "mile": 1609.344}
GRAMS = {"g": 1, "kg": 1000, "ounce": 28.349523125, "pound": 453.59237}
UNIT = {"type": "string", "enum": [*FACTORS, *GRAMS]}
TOOLS = [
    {
        "name": "convert",
        "description": "Convert a length or a weight from one unit to another",
        "inputSchema": {
            "type": "object",
            "properties": {"value": {"type": "number"}, "source": UNIT, "target": UNIT},
            "required": ["value", "source", "target"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {"value": {"type": "number"}, "unit": {"type": "string"}},
            "required": ["value", "unit"],
        },
        "annotations": {"readOnlyHint": True},
    }
]


def convert(value: float, source: str, target: str) -> dict:
    for table in (FACTORS, GRAMS):
        if source in table and target in table:
            return {"value": round(value * table[source] / table[target], 6), "unit": target}
    raise ValueError(f"{source} and {target} do not measure the same thing")


def answer(method: str, params: dict) -> dict:
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "units", "version": "1.0.0"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params["name"] == "convert":
        try:
            found = convert(**params["arguments"])
        except ValueError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        return {"content": [{"type": "text", "text": json.dumps(found)}], "structuredContent": found}
    raise LookupError(f"There is no method {method}")


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue  # a notification needs no answer
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    try:
        reply["result"] = answer(message["method"], message.get("params", {}))
    except LookupError as error:
        reply["error"] = {"code": -32601, "message": str(error)}
    print(json.dumps(reply), flush=True)
