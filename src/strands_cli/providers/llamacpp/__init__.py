"""The server of llama.cpp."""
