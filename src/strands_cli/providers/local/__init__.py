"""The embedded model: llama.cpp in this process, verified weights, tool calls by constrained decoding."""
