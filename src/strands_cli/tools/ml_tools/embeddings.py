"""Turn texts into vectors."""

from typing import Any

from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs
from strands_cli.tools.ml_tools._vectors import MODEL, REQUIRES, TEXTS, embed_texts, unit_vectors

TOOL_SPEC = {
    "name": "embeddings",
    "description": (
        "Turn texts into embeddings: one vector of length 1 for each text, in the same order. Texts with a "
        "similar meaning have similar vectors; their dot product is the similarity. Works best with English."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "texts": TEXTS,
                "dimensions": {
                    "type": "integer",
                    "enum": [64, 128, 256],
                    "description": "The length of each vector; fewer are smaller and a little less exact",
                    "default": 256,
                },
            },
            "required": ["texts"],
        }
    },
    "outputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "model": {"type": "string"},
                "dimensions": {"type": "integer"},
                "embeddings": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            },
            "required": ["model", "dimensions", "embeddings"],
        }
    },
}


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="compute",
    requires=REQUIRES,
    annotations={"readOnlyHint": True},
)
def embeddings(texts: list[str], dimensions: int = 256) -> dict[str, Any]:
    # The model is trained so that the first dimensions matter most.
    rows = unit_vectors(embed_texts(texts)[:, :dimensions])
    vectors = [[round(number, 6) for number in row] for row in rows.tolist()]
    return {"model": MODEL, "dimensions": dimensions, "embeddings": vectors}


__getattr__ = with_tool_specs(__name__)
