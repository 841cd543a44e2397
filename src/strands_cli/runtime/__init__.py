"""From our specs and tools to the SDK's agents, through the SDK's public seams only."""
