"""Stand-ins for providers: real servers on this machine that speak their wire protocols and follow a script."""

from tests.standins.anthropic import AnthropicStandin as AnthropicStandin
from tests.standins.base import Complaint as Complaint
from tests.standins.base import Cut as Cut
from tests.standins.base import Hang as Hang
from tests.standins.base import Standin as Standin
from tests.standins.base import Status as Status
from tests.standins.bedrock import BedrockStandin as BedrockStandin
from tests.standins.gemini import GeminiStandin as GeminiStandin
from tests.standins.ollama import OllamaStandin as OllamaStandin
from tests.standins.openai import LlamaCppStandin as LlamaCppStandin
from tests.standins.openai import OpenAIStandin as OpenAIStandin
