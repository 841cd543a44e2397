"""Give each text the label that fits it best."""

from typing import Any

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs
from strands_cli.tools.ml_tools._vectors import REQUIRES, TEXT, TEXTS, embed_texts, unit_vectors

_LABEL = {"type": "string", "pattern": r"\S", "maxLength": 200}

TOOL_SPEC = {
    "name": "classifier",
    "description": (
        "Give each text the label that is closest to it in meaning. A label is compared by its examples, or "
        "by its own words if it has none: then words such as 'payment problem' work better than codes. "
        "Returns the label and the similarity to every label for each text, in the same order. Works best "
        "with English."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "texts": {**TEXTS, "description": "The texts to label"},
                "labels": {
                    "type": "array",
                    "items": _LABEL,
                    "maxItems": 100,
                    "description": "The labels without examples, such as ['invoice', 'complaint']",
                    "default": [],
                },
                "examples": {
                    "type": "object",
                    "propertyNames": _LABEL,
                    "maxProperties": 100,
                    "additionalProperties": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 100},
                    "description": "Labels with examples: texts that have the label, 3 to 10 for each",
                    "default": {},
                },
                "min_similarity": {
                    "type": "number",
                    "minimum": -1,
                    "maximum": 1,
                    "description": "Texts that are less similar to every label get the label null",
                    "default": -1,
                },
            },
            "required": ["texts"],
        }
    },
    "outputSchema": {
        "json": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "label": {"type": ["string", "null"]},
                    "similarities": {
                        "type": "object",
                        "additionalProperties": {"type": "number"},
                        "description": "By label, the best first; at most 1",
                    },
                },
                "required": ["label", "similarities"],
            },
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
def classifier(
    texts: list[str],
    labels: list[str] | None = None,
    examples: dict[str, list[str]] | None = None,
    min_similarity: float = -1,
) -> list[dict[str, Any]]:
    import numpy as np

    # A label that stands in both is compared by its examples.
    meanings = {label: [label] for label in labels or []} | (examples or {})
    if len(meanings) < 2:
        raise ToolFailed(
            f"At least two labels are needed, got {len(meanings)}",
            code="input_invalid",
            hint="Give labels, such as ['invoice', 'complaint'], or examples: {'invoice': ['Please pay …']}.",
        )
    centres = unit_vectors(np.stack([embed_texts(known).mean(axis=0) for known in meanings.values()]))
    answers = []
    for row in (embed_texts(texts) @ centres.T).tolist():
        scores = {label: round(score, 4) for label, score in zip(meanings, row, strict=True)}
        similarities = dict(sorted(scores.items(), key=lambda item: -item[1]))
        best = next(iter(similarities))
        label = best if similarities[best] >= min_similarity else None
        answers.append({"label": label, "similarities": similarities})
    return answers


__getattr__ = with_tool_specs(__name__)
