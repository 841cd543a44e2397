"""What a small model is shown, and what the words of a conversation say about tools and their arguments."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from strands_cli.errors import ProviderError

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

ToolEntry = dict[str, Any]
"""A tool as the SDK describes it."""

# What models read as one token, and take for the frame of a conversation: in ChatML, and in the formats of
# Llama, Mistral, Gemma and DeepSeek. llama.cpp reads the tags of calls as tokens even with special ones off.
_FRAME = re.compile(
    r"<(?=[|｜][^<>\s]{1,80}[|｜]>"
    r"|/?(?:tools?|tool_calls?|tool_responses?|tool_results?|function_calls?|think|thinking|im_start|im_end"
    r"|start_of_turn|end_of_turn|endoftext|system|user|assistant|bos|eos|pad|unk|mask|s)>"
    r"|</?SYS>>)"
    r"|\[(?=/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|TOOL_RESULTS|AVAILABLE_TOOLS)\])",
    re.IGNORECASE,
)


def as_plain_text(text: str) -> str:
    """A text that somebody else wrote, with a space in whatever the model would take for its own frame.

    Otherwise an answer of a tool could end its turn and open one of the system's. The space is seen, so that
    nothing is hidden from the model, and `value_as_written` takes it out of arguments that copy the text.
    """
    return _FRAME.sub(lambda found: f"{found[0]} ", text)


def schema_of(spec: ToolEntry) -> dict[str, Any]:
    schema = spec.get("inputSchema", {})
    found = schema.get("json", schema)
    return found if isinstance(found, dict) else {}


def tool_signature(spec: ToolEntry) -> str:
    """A tool on one line of JSON: the first sentence of each description, and the plain types."""
    schema = schema_of(spec)
    properties: dict[str, dict[str, Any]] = {}
    for name, part in schema.get("properties", {}).items():
        brief = {key: part[key] for key in _KEPT if key in part} if isinstance(part, dict) else {}
        if "description" in brief:  # without quoted examples: a small model takes them for values
            brief["description"] = _EXAMPLES.sub("", first_sentence(brief["description"])).strip()
        properties[name] = brief
    parameters = {"type": "object", "properties": properties, "required": schema.get("required", [])}
    described = first_sentence(spec.get("description", "")) + "."
    function = {"name": spec["name"], "description": described, "parameters": parameters}
    return as_plain_text(json.dumps({"type": "function", "function": function}, ensure_ascii=False))


def ranked_tools(specs: Iterable[ToolEntry], text: str) -> list[ToolEntry]:
    """The tools by how much of their name, description and arguments the text speaks of, best first."""
    spoken_of = meaningful_words(text)

    def likeness(spec: ToolEntry) -> int:
        arguments = " ".join(f"{name} {part}" for name, part in schema_of(spec).get("properties", {}).items())
        described = meaningful_words(spec.get("description", "")) | meaningful_words(arguments)
        return 3 * len(meaningful_words(spec["name"]) & spoken_of) + len(described & spoken_of)

    return sorted(specs, key=likeness, reverse=True)


def tools_that_fit(specs: Sequence[ToolEntry], text: str, budget: int = TOOLS_BUDGET) -> list[ToolEntry]:
    """As many tools as the budget has room for, the likeliest of them, in the order they were given."""
    if sum(len(tool_signature(spec)) for spec in specs) <= budget:
        return list(specs)
    kept: set[str] = set()
    left = budget
    for spec in ranked_tools(specs, text):
        left -= len(tool_signature(spec))
        if left < 0 and kept:
            break
        kept.add(spec["name"])
    return [spec for spec in specs if spec["name"] in kept]


def chat_with_tools(
    messages: Sequence[Any], system: str, specs: Sequence[ToolEntry], persona: str = ""
) -> list[dict[str, str]]:
    """The SDK's messages as roles and texts, with the tools in the first of them.

    The model's own persona and the tools come before the agent's prompt: so it was trained, and agents with
    the same tools share what is computed for them.
    """
    tools = _TOOLS.format(signatures="\n".join(tool_signature(spec) for spec in specs))
    first = "\n\n".join(filter(None, (persona or DEFAULT_SYSTEM, tools, as_plain_text(system))))
    turns = [{"role": "system", "content": first}]
    for message in messages:
        content = "\n".join(filter(None, (_prompt_block(block) for block in message["content"])))
        turns.append({"role": message["role"], "content": content})
    return turns


def messages_by_step(messages: Sequence[Any], steps: Sequence[str]) -> list[Any]:
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
    turns = [{"role": "system", "content": as_plain_text(system) or DEFAULT_SYSTEM}]
    names = {use["toolUseId"]: use["name"] for use in tool_uses(messages)}
    for message in messages:
        texts = []
        for block in message["content"]:
            if "toolResult" in block:
                result = block["toolResult"]
                name = names.get(result["toolUseId"], "the tool")
                texts.append(as_plain_text(f"Result of {name}:\n{_tool_result_text(result)}"))
            elif "toolUse" not in block:
                texts.append(_prompt_block(block))
        text = "\n".join(filter(None, texts))
        if text and turns[-1]["role"] == message["role"]:
            turns[-1]["content"] += "\n\n" + text
        elif text:
            turns.append({"role": message["role"], "content": text})
    if any("toolResult" in block for block in messages[-1]["content"]):
        turns[-1]["content"] += "\n\n" + _CONCLUDE
    return turns


def tool_uses(messages: Sequence[Any]) -> list[dict[str, Any]]:
    return [block["toolUse"] for message in messages for block in message["content"] if "toolUse" in block]


def _prompt_block(block: dict[str, Any]) -> str:
    if "text" in block:
        return as_plain_text(str(block["text"]))
    if "toolUse" in block:
        use = block["toolUse"]
        arguments = json.dumps(use["input"], ensure_ascii=False)
        call = f'{{"name": {json.dumps(use["name"])}, "arguments": {arguments}}}'
        return f"<tool_call>\n{as_plain_text(call)}\n</tool_call>"
    if "toolResult" in block:
        return f"<tool_response>\n{as_plain_text(_tool_result_text(block['toolResult']))}\n</tool_response>"
    if unreadable := {"image", "document", "video", "audio"} & set(block):
        kinds = " and ".join(sorted(unreadable))
        raise ProviderError(
            f"The embedded model reads text only, and this conversation has {kinds} in it.",
            hint="Use a provider whose model can see, such as ollama or openai.",
        )
    return ""


def _tool_result_text(result: dict[str, Any]) -> str:
    parts = [
        str(part["text"]) if "text" in part else json.dumps(part["json"], ensure_ascii=False)
        for part in result.get("content", [])
        if "text" in part or "json" in part
    ]
    return "\n".join(part.strip("\n") for part in parts if part)


def spoken_text(messages: Sequence[Any], system: str = "") -> str:
    """All that was said to the model, which is what arguments are taken from: the latest last."""
    texts = [system]
    for message in messages:
        for block in message["content"]:
            if "text" in block and message["role"] == "user":
                texts.append(block["text"])
            elif "toolResult" in block:
                texts.append(_tool_result_text(block["toolResult"]))
    return "\n".join(texts)


def latest_request(messages: Sequence[Any]) -> int:
    """Where the last message stands that a person wrote; what follows are this turn's calls and results."""
    written = [
        place
        for place, message in enumerate(messages)
        if message["role"] == "user" and any("text" in block for block in message["content"])
    ]
    return written[-1] if written else 0


# --- Words, and spans that were meant to be copied -------------------------------------------------------

_WORD = re.compile(r"[^\W_]+")
_QUOTES = "\"'`\\“”‘’„«»"
_LOST = _QUOTES + "()[]{}/"
# Words that any request may have, whatever it is about.
_EMPTY_WORDS = """
a about after all an and any are as at be by can do does for from get give has have how i in into is it its me
my no of on or our please return returns set show such tell that the their them then there these this those to
up use used using was what when where which who will with without you your
"""
_EMPTY = frozenset(_EMPTY_WORDS.split())


def meaningful_words(text: str) -> set[str]:
    """The words of a text that say something, in lower case and without a plural's s."""
    spread = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    found = {word.lower() for word in _WORD.findall(spread)}
    return {word.removesuffix("s") if len(word) > 3 else word for word in found - _EMPTY}


_NAME_LIKE = re.compile(r"\w[./@\\:_]\w|\d-\d")
_EXAMPLES = re.compile(r",?\s*(?:such as|like|e\.g\.|for example)\s+'[^']*'(?:(?:,| or|, or)\s+'[^']*')*")
_BREAK = re.compile(
    r"(?<=[.!?;])\s+|,?\s+(?:and\s+)?(?:then|after that|afterwards),?\s+(?=\S)"
    r"|,?\s+and\s+(?=\w+\s+(?:the|a|an|it|its|this|that|them|him|her|these|those|what|whatever|which|to|into)\b)"
)
_LONG_WORD = 5
_SIMILAR_RATIO = 0.5
MANY = 4
"""With more steps than this it is a text, not a list of things to do."""


def spoken_words(text: str) -> set[str]:
    """The words of a text that belong to its language: not those inside of paths, addresses and the like."""
    return meaningful_words(" ".join(token for token in text.split() if not _NAME_LIKE.search(token)))


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.;:])\s", text.strip(), maxsplit=1)[0].rstrip(".;:")


def request_steps(request: str) -> list[str]:
    """The things that a request asks for one after the other; one if it cannot be divided.

    What stands after a colon or in quotation marks is something to pass on, and is left whole.
    """
    asked = request.strip()
    end = next((found.start() for found in re.finditer(r":\s|[\"“«]|(?<!\w)'", asked)), len(asked))
    parts = [part.strip() for part in _BREAK.split(asked[:end])]
    parts[-1] = f"{parts[-1]}{' ' if asked[:end] != asked[:end].rstrip() else ''}{asked[end:]}"
    parts = [part for part in parts if meaningful_words(part)]
    return parts if 0 < len(parts) <= MANY else [request]


def is_argument_mentioned(name: str, schema: dict[str, Any], text: str) -> bool:
    """Whether a text mentions an argument: one of its values, its name, or two words of its description."""
    spoken_of = meaningful_words(text)
    if "enum" in schema:
        return any(meaningful_words(str(value)) & spoken_of for value in schema["enum"])
    return (
        bool(meaningful_words(name) & spoken_of)
        or len(meaningful_words(first_sentence(schema.get("description", ""))) & spoken_of) > 1
    )


def is_grounded(value: str, text: str, description: str = "", taken: Iterable[str] = ()) -> bool:
    """Whether a value comes from the text: as a whole, or with a word of it that no other value has taken.

    One that only repeats its own description is an example, not a value.
    """
    if value and value in text:
        return True
    if value and value in description:
        return False
    others = _lowercase_words(" ".join(taken))
    return bool((_lowercase_words(value) - others) & _lowercase_words(text))


def _lowercase_words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def value_as_written(value: str, text: str) -> str:
    """The span of the text that a value repeats but for quotes, brackets and spaces; else the value.

    Small models copy words well and punctuation badly, above all inside JSON. A name they sometimes change a
    little: that is taken as it was written too.
    """
    value = value.strip() if value.strip() in text else value
    if not value or value in text:
        return value
    wanted, _ = _folded_text(value)
    folded, places = _folded_text(text)
    start = folded.find(wanted) if len(wanted) > 1 else -1
    if start < 0:
        return _nearest_name(value, text)
    first, last = places[start], places[start + len(wanted) - 1] + 1
    if value[-1] in _QUOTES and text[last : last + 1] and text[last] in _QUOTES:
        last += 1
    if value[0] in _QUOTES and first and text[first - 1] in _QUOTES:
        first -= 1
    return _balanced_span(text, first, last)


_HANDED_OVER = re.compile(r":\s+(?P<all>\S.*)\Z|[\"“«](?P<quoted>[^\"”»]+)[\"”»]", re.DOTALL)


def value_as_handed_over(value: str, request: str) -> str:
    """What a request hands over, after a colon or in quotes, where a value is most of it; else the value.

    Small models translate what they should only pass on.
    """
    found = _HANDED_OVER.search(request)
    if not value or value in request or found is None:
        return value
    from difflib import SequenceMatcher

    given = (found["all"] or found["quoted"]).strip()
    return given if SequenceMatcher(None, value, given).ratio() > _SIMILAR_RATIO else value


def _nearest_name(value: str, text: str) -> str:
    """What a word, a path or a date was meant to be, if it differs by a letter or has something added."""
    if " " in value or len(value) < _LONG_WORD or value.lower() in _lowercase_words(text):
        return value
    from difflib import get_close_matches

    tokens = [token.strip(".,;:!?" + _QUOTES) for token in text.split()]
    named = [token for token in tokens if _NAME_LIKE.search(token)]
    paths = [token for token in named if value.endswith(token) or value.startswith(token)]
    alike = [token for token in tokens if token.isalpha() and token[0] == value[0]]
    near = [token for token in alike if abs(len(token) - len(value)) < 2] if value.isalpha() else []
    return next(iter(paths or get_close_matches(value, near, n=1, cutoff=0.8)), value)


def _balanced_span(text: str, first: int, last: int) -> str:
    """A span, with the bracket before or after it that it lacks."""
    for opening, closing in ("()", "[]", "{}"):
        span = text[first:last]
        if span.count(closing) > span.count(opening) and text[first - 1 : first] == opening:
            first -= 1
        if span.count(opening) > span.count(closing) and text[last : last + 1] == closing:
            last += 1
    return text[first:last]


def _folded_text(text: str) -> tuple[str, list[int]]:
    """A text without what is easily lost in copying, and where each of its characters stood."""
    places = [place for place, letter in enumerate(text) if letter not in _LOST and not letter.isspace()]
    return "".join(text[place] for place in places), places
