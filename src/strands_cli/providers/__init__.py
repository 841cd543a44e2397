"""Where models come from: a table of providers, each of which builds a model for the SDK."""
