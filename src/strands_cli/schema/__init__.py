"""JSON Schema: compiled once, refusals explained."""
