"""Pictures of what a workflow does: text for Mermaid and Graphviz, and SVG that needs no other program."""
