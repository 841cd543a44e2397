"""One loaded model: it renders conversations with the model's own template and continues text."""

import json
import os
import platform
import secrets
import threading
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from math import exp
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from strands.types.exceptions import ContextWindowOverflowException

from strands_cli.errors import ProviderError, UsageError, install_hint

CONTEXT = 8192
"""Tokens for prompt and answer together."""
SLOTS = 2
DECISIONS, ANSWERS = range(SLOTS)
"""Conversations that are kept in memory at the same time, by what they are for."""

OnText = Callable[[str], bool]
"""Told each new piece of text; True stops the generation."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    seed: int | None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    cut: bool
    """Whether it ended because there was no more room."""
    prompt_tokens: int
    completion_tokens: int
    seconds: float = 0.0
    """What the engine itself took, as it counts."""
    probabilities: dict[str, float] = {}
    """Of the texts that it could have begun with, where that was asked for."""


class LlamaEngine:
    """A GGUF file in memory. Requests are answered one after the other; what they share is computed once."""

    def __init__(self, file: Path, threads: int) -> None:
        self.file = file
        self._key = secrets.token_urlsafe(16)
        self._server = _load_model(file, threads, self._key)
        self.persona = self._persona()
        """What the model's template says of it where a conversation does not."""

    def render(self, messages: list[dict[str, str]]) -> str:
        """The conversation as the model was trained to read it, up to where its answer begins."""
        # The template is only reachable through the engine's own listener, on the loopback and behind a key.
        address = urlsplit(self._server.listening_address)
        connection = HTTPConnection(address.hostname or "127.0.0.1", address.port, timeout=30)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        try:
            connection.request("POST", "/apply-template", json.dumps({"messages": messages}), headers)
            document = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "prompt" not in document:
            raise ProviderError(f"The model's template refuses this conversation: {_error_reason(document)}")
        return str(document["prompt"])

    def _persona(self) -> str:
        own = self.render([{"role": "system", "content": "S\x07"}, {"role": "user", "content": "U\x07"}])
        before, _, rest = own.partition("S\x07")
        between = rest.partition("U\x07")[0]
        default = self.render([{"role": "user", "content": "U\x07"}])
        if not between or not default.startswith(before) or between not in default:
            return ""
        return default[len(before) : default.rindex(between)]

    def complete(
        self,
        prompt: str,
        sampling: Sampling,
        on_text: OnText = lambda text: False,
        *,
        grammar: str | None = None,
        alternatives: int = 0,
        slot: int = ANSWERS,
    ) -> Completion:
        """Continues the prompt, and hands on every piece as it comes."""
        request: dict[str, Any] = {
            "prompt": prompt,
            "id_slot": slot,
            "stream": True,
            "cache_prompt": True,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stop": list(sampling.stop),
            # Greedy decoding needs none of the samplers that weed out unlikely tokens.
            "samplers": [*(("top_k", "top_p", "min_p") if sampling.temperature else ()), "temperature"],
        }
        optional = {"seed": sampling.seed, "grammar": grammar, "logprobs": alternatives or None}
        request.update((name, value) for name, value in optional.items() if value is not None)
        pieces: list[str] = []
        answers: list[dict[str, Any]] = []

        def take(chunk: dict[str, Any]) -> bool:
            answers.append(chunk)
            text = chunk["choices"][0].get("text", "") if chunk.get("choices") else ""
            pieces.append(text)
            return bool(text) and on_text(text)

        self._server.handle_completions(request, take)
        last = answers[-1] if answers else {"error": {}}
        if "error" in last:
            error = last["error"]
            if error.get("type") == "exceed_context_size_error":
                tokens = error.get("n_prompt_tokens", "Too many")
                raise ContextWindowOverflowException(f"{tokens} tokens, the model takes {CONTEXT}")
            raise ProviderError(f"The embedded model refuses the request: {_error_reason(last)}")
        return _parsed_completion("".join(pieces), answers)


def _load_model(file: Path, threads: int, key: str) -> Any:
    if lacking := missing_on_this_processor():
        raise ProviderError(
            f"This processor lacks {', '.join(lacking)}, which the embedded model's engine needs.",
            hint="Use another provider: 'strands run FILE --provider ollama', or another machine.",
        )
    try:
        import xllamacpp  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise ProviderError(
            f"The embedded model's engine is not installed: {error}",
            hint=install_hint("local"),
        ) from None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(file)
    parameters.n_ctx = CONTEXT
    # One for decisions, whose prompts begin with the tools, one for answers: neither drives the other out.
    parameters.n_parallel = SLOTS
    parameters.kv_unified = True
    parameters.cache_ram_mib = 0
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.warmup = False
    parameters.verbosity = 0
    parameters.api_keys = [key]
    try:
        return xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise ProviderError(
            f"{file} cannot be loaded: it is damaged, or not a GGUF file that the engine knows ({error})",
            hint="Fetch it again with 'strands models pull', or name another file.",
        ) from None


def _parsed_completion(text: str, answers: list[dict[str, Any]]) -> Completion:
    usage: dict[str, int] = next((answer["usage"] for answer in reversed(answers) if "usage" in answer), {})
    timings: dict[str, float] = answers[-1].get("timings", {})
    reasons = (
        answer["choices"][0].get("finish_reason") for answer in reversed(answers) if answer.get("choices")
    )
    probabilities: dict[str, float] = {}
    content = (answers[0]["choices"][0].get("logprobs") or {}).get("content") or [{}]
    for token in content[0].get("top_logprobs", []):
        probabilities[token["token"]] = probabilities.get(token["token"], 0.0) + exp(token["logprob"])
    return Completion(
        text=text,
        cut=next((reason for reason in reasons if reason), None) == "length",
        prompt_tokens=usage.get("prompt_tokens", 0),
        completion_tokens=usage.get("completion_tokens", len(answers)),
        seconds=(timings.get("prompt_ms", 0.0) + timings.get("predicted_ms", 0.0)) / 1000,
        probabilities=probabilities,
    )


def _error_reason(document: dict[str, Any]) -> str:
    error = document.get("error", {})
    return str(error.get("message", error) or "no reason given")


_engines: dict[tuple[Path, int], LlamaEngine] = {}
_loading = threading.Lock()


def engine_for(file: Path, threads: int) -> LlamaEngine:
    """The model in a file, loaded once in a process."""
    key = (file.resolve(), threads)
    with _loading:
        if key not in _engines:
            _engines[key] = LlamaEngine(key[0], threads)
        return _engines[key]


# --- The processor -----------------------------------------------------------------------------------------
# Without these the engine would end the whole process, and say nothing.

_NEEDED = ("avx2", "fma", "f16c")
_MAX_THREADS = 8
"""Beyond that, small models gain nothing."""


def missing_processor_flags(cpuinfo: str) -> list[str]:
    """What the engine needs and the first processor in a text such as /proc/cpuinfo does not have."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    present = next((flags.lower().split() for name, _, flags in lines if name.strip() == "flags"), [])
    return [flag for flag in _NEEDED if flag not in present] if present else []


def missing_on_this_processor() -> list[str]:
    """What this machine's processor lacks; nothing where that cannot be known, or is not a question."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return []
    try:
        return missing_processor_flags(Path("/proc/cpuinfo").read_text("utf-8", "replace"))
    except OSError:
        return []


def thread_count(setting: int | None = None, environment: Mapping[str, str] = os.environ) -> int:
    """What the environment says, else the setting `local.threads`, else one per processor we may use."""
    text = environment.get("STRANDS_LOCAL_THREADS", "").strip()
    if text and not (text.isdecimal() and int(text) > 0):
        raise UsageError(
            f"STRANDS_LOCAL_THREADS: {text!r} is not a number of threads", hint="Use 1, 2 or more."
        )
    affinity = getattr(os, "sched_getaffinity", None)
    usable = len(affinity(0)) if affinity else os.cpu_count() or 1
    return int(text) if text else setting or min(usable, _MAX_THREADS)
