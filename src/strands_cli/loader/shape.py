"""The short forms of a workflow file brought to the one form that the types have."""

from typing import Any


def shaped(document: dict[str, Any]) -> dict[str, Any]:
    """A valid document as `Spec` takes it; the document itself is left as it is."""
    pattern = document["pattern"]
    return {
        **document,
        "pattern": {"type": pattern["type"], **_SHAPES.get(pattern["type"], dict)(pattern["config"])},
        "tools": _tools(document.get("tools") or {}),
        "inputs": _inputs(document.get("inputs") or {}),
    }


def _tools(tools: dict[str, Any]) -> dict[str, Any]:
    python = [{"callable": item} if isinstance(item, str) else item for item in tools.get("python", ())]
    return {**tools, "python": python}


def _inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    declared = {
        key: {
            name: {"type": item} if isinstance(item, str) else item
            for name, item in inputs.get(key, {}).items()
        }
        for key in ("required", "optional")
    }
    return {**inputs, **declared}


def _steps(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_step(step) for step in steps]


def _step(step: dict[str, Any]) -> dict[str, Any]:
    if "human" not in step:
        return {"kind": "agent", **step}
    return {"kind": "human", **({"id": step["id"]} if "id" in step else {}), **step["human"]}


def _with_steps(*names: str) -> Any:
    """For a configuration some of whose keys are single steps."""
    return lambda config: config | {name: _step(config[name]) for name in names if name in config}


def _chain(config: dict[str, Any]) -> dict[str, Any]:
    return {**config, "steps": _steps(config["steps"])}


def _routing(config: dict[str, Any]) -> dict[str, Any]:
    routes = {name: {**route, "steps": _steps(route["steps"])} for name, route in config["routes"].items()}
    return {**config, "routes": routes, "router": _step(config["router"])}


def _parallel(config: dict[str, Any]) -> dict[str, Any]:
    branches = [{**branch, "steps": _steps(branch["steps"])} for branch in config["branches"]]
    return _with_steps("reduce")({**config, "branches": branches})  # type: ignore[no-any-return]


def _graph(config: dict[str, Any]) -> dict[str, Any]:
    edges = [
        {**edge, "to": [edge["to"]] if isinstance(edge["to"], str) else edge["to"]}
        for edge in config["edges"]
    ]
    return {**config, "edges": edges}


_SHAPES = {
    "chain": _chain,
    "routing": _routing,
    "parallel": _parallel,
    "evaluator_optimizer": _with_steps("producer", "evaluator"),
    "orchestrator_workers": _with_steps("orchestrator", "worker", "reduce"),
    "graph": _graph,
}
