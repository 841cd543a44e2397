"""What a small model is shown: the tools in brief, and the conversation with its calls and their results."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from strands_cli.errors import ProviderError
from strands_cli.providers.local.wording import first_sentence, without_examples, words

CALL_OPENING = '<tool_call>\n{"name": "'
TOOLS_BUDGET = 9000
"""Characters for the list of tools: about a third of the context window."""

_TOOLS = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{signatures}
</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
# Measured against longer wordings: with these, results come back word for word.
_CONCLUDE = "Answer with this result."
DEFAULT_SYSTEM = "You are a helpful assistant."
_KEPT = ("type", "enum", "items", "description")

Spec = dict[str, Any]


def schema_of(spec: Spec) -> dict[str, Any]:
    schema = spec.get("inputSchema", {})
    found = schema.get("json", schema)
    return found if isinstance(found, dict) else {}


def signature(spec: Spec) -> str:
    """A tool on one line of JSON: the first sentence of each description, and the plain types."""
    schema = schema_of(spec)
    properties = {name: _brief(part) for name, part in schema.get("properties", {}).items()}
    parameters = {"type": "object", "properties": properties, "required": schema.get("required", [])}
    described = first_sentence(spec.get("description", "")) + "."
    function = {"name": spec["name"], "description": described, "parameters": parameters}
    return json.dumps({"type": "function", "function": function}, ensure_ascii=False)


def _brief(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return {}
    brief = {key: schema[key] for key in _KEPT if key in schema}
    if "description" in brief:
        brief["description"] = without_examples(brief["description"])
    return brief


def ranked(specs: Iterable[Spec], text: str) -> list[Spec]:
    """The tools by how much of their name, description and arguments the text speaks of, best first."""
    said = words(text)

    def likeness(spec: Spec) -> int:
        arguments = " ".join(f"{name} {part}" for name, part in schema_of(spec).get("properties", {}).items())
        described = words(spec.get("description", "")) | words(arguments)
        return 3 * len(words(spec["name"]) & said) + len(described & said)

    return sorted(specs, key=likeness, reverse=True)


def shortened(specs: Sequence[Spec], text: str, budget: int = TOOLS_BUDGET) -> list[Spec]:
    """As many tools as the budget has room for, the likeliest of them, in the order they were given."""
    if sum(len(signature(spec)) for spec in specs) <= budget:
        return list(specs)
    kept: set[str] = set()
    left = budget
    for spec in ranked(specs, text):
        left -= len(signature(spec))
        if left < 0 and kept:
            break
        kept.add(spec["name"])
    return [spec for spec in specs if spec["name"] in kept]


def chat(
    messages: Sequence[Any], system: str, specs: Sequence[Spec], persona: str = ""
) -> list[dict[str, str]]:
    """The SDK's messages as roles and texts, with the tools in the first of them.

    The model's own persona and the tools come before the agent's prompt: so it was trained, and agents with
    the same tools share what is computed for them.
    """
    tools = _TOOLS.format(signatures="\n".join(signature(spec) for spec in specs))
    first = "\n\n".join(filter(None, (persona or DEFAULT_SYSTEM, tools, system)))
    turns = [{"role": "system", "content": first}]
    return turns + [{"role": message["role"], "content": _content(message)} for message in messages]


def stepwise(messages: Sequence[Any], steps: Sequence[str]) -> list[Any]:
    """The conversation with its latest request in pieces: a step, its call, the result, the next step."""
    place = latest_request(messages)
    calls = list(messages[place + 1 :])
    pieces = list(messages[:place])
    for step in steps:
        pieces += [{"role": "user", "content": [{"text": step}]}, *calls[:2]]
        calls = calls[2:]
    return pieces


def plain_chat(messages: Sequence[Any], system: str) -> list[dict[str, str]]:
    """The same conversation with the results of calls as something the user knows: for an answer in words.

    With its own calls before its eyes, a small model writes another one whatever it is asked for.
    """
    turns = [{"role": "system", "content": system or DEFAULT_SYSTEM}]
    names = _names(messages)
    for message in messages:
        _add(turns, message["role"], "\n".join(filter(None, _plain(message, names))))
    if any("toolResult" in block for block in messages[-1]["content"]):
        turns[-1]["content"] += "\n\n" + _CONCLUDE
    return turns


def _add(turns: list[dict[str, str]], role: str, text: str) -> None:
    if text and turns[-1]["role"] == role:
        turns[-1]["content"] += "\n\n" + text
    elif text:
        turns.append({"role": role, "content": text})


def _plain(message: Any, names: dict[str, str]) -> Iterator[str]:
    for block in message["content"]:
        if "toolResult" in block:
            result = block["toolResult"]
            yield f"Result of {names.get(result['toolUseId'], 'the tool')}:\n{result_text(result)}"
        elif "toolUse" not in block:
            yield _block(block)


def _names(messages: Sequence[Any]) -> dict[str, str]:
    uses = (block["toolUse"] for message in messages for block in message["content"] if "toolUse" in block)
    return {use["toolUseId"]: use["name"] for use in uses}


def _content(message: Any) -> str:
    return "\n".join(filter(None, (_block(block) for block in message["content"])))


def _block(block: dict[str, Any]) -> str:
    if "text" in block:
        return str(block["text"])
    if "toolUse" in block:
        use = block["toolUse"]
        return f"<tool_call>\n{call_text(use['name'], use['input'])}\n</tool_call>"
    if "toolResult" in block:
        return f"<tool_response>\n{result_text(block['toolResult'])}\n</tool_response>"
    if unreadable := {"image", "document", "video", "audio"} & set(block):
        kinds = " and ".join(sorted(unreadable))
        raise ProviderError(
            f"The embedded model reads text only, and this conversation has {kinds} in it.",
            hint="Use a provider whose model can see, such as ollama or openai.",
        )
    return ""


def call_text(name: str, arguments: Any) -> str:
    return f'{{"name": {json.dumps(name)}, "arguments": {json.dumps(arguments, ensure_ascii=False)}}}'


def result_text(result: dict[str, Any]) -> str:
    parts = (_result_part(part) for part in result.get("content", []))
    return "\n".join(part.strip("\n") for part in parts if part)


def _result_part(part: dict[str, Any]) -> str:
    if "text" in part:
        return str(part["text"])
    return json.dumps(part["json"], ensure_ascii=False) if "json" in part else ""


def spoken(messages: Sequence[Any], system: str = "") -> str:
    """All that was said to the model, which is what arguments are taken from: the latest last."""
    said = [system]
    for message in messages:
        if message["role"] == "user":
            said += [block["text"] for block in message["content"] if "text" in block]
        said += [result_text(block["toolResult"]) for block in message["content"] if "toolResult" in block]
    return "\n".join(said)


def latest_request(messages: Sequence[Any]) -> int:
    """Where the last message stands that a person wrote; what follows are this turn's calls and results."""
    for place in range(len(messages) - 1, -1, -1):
        if messages[place]["role"] == "user" and any("text" in block for block in messages[place]["content"]):
            return place
    return 0
