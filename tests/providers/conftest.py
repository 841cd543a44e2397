"""Keys that no provider knows, and nothing of the environment that points to a real one."""

import pytest

_KEYS = {
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "AWS_ACCESS_KEY_ID": "key-of-aws",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_REGION": "eu-west-1",
    "AWS_SECRET_ACCESS_KEY": "secret-of-aws",
    "GEMINI_API_KEY": "key-of-gemini",
    "OPENAI_API_KEY": "key-of-openai",
}
_ABSENT = ("AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_API_KEY", "OLLAMA_API_KEY", "OLLAMA_HOST", "OPENAI_BASE_URL")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _KEYS.items():
        monkeypatch.setenv(name, value)
    for name in (*_ABSENT, "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
