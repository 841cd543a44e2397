"""OpenAI, and hosts that speak its protocol."""
