"""Group texts by meaning."""

from typing import TYPE_CHECKING, Any

from strands_cli.errors import ToolFailed
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs
from strands_cli.tools.ml_tools._vectors import MAX_TEXTS, REQUIRES, TEXTS, embed_texts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from strands_cli.tools.ml_tools._vectors import Vectors

_MOST_CHOSEN = 20
"""The most groups that are tried where the caller names no number."""

TOOL_SPEC = {
    "name": "cluster",
    "description": (
        "Sort texts into groups of similar meaning. Returns for each group its size, its most typical text, "
        "and the positions of its texts in the input, counted from 0; the largest group comes first. The "
        "same texts always give the same groups. Works best with English."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "texts": {**TEXTS, "minItems": 2},
                "k": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_TEXTS,
                    "description": "How many groups to make; by default as many as separate the texts best, "
                    "from 2 to 20",
                },
            },
            "required": ["texts"],
        }
    },
    "outputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "k": {"type": "integer"},
                "silhouette": {
                    "type": ["number", "null"],
                    "description": "How well the groups are separated: 1 is best, around 0 means that they "
                    "overlap; null for one group, or if each text is a group",
                },
                "clusters": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "size": {"type": "integer"},
                            "typical": {"type": "string"},
                            "members": {"type": "array", "items": {"type": "integer"}},
                        },
                        "required": ["size", "typical", "members"],
                    },
                },
            },
            "required": ["k", "silhouette", "clusters"],
        }
    },
}


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="compute",
    timeout=60.0,
    requires=REQUIRES,
    annotations={"readOnlyHint": True},
)
def cluster(texts: list[str], k: int | None = None) -> dict[str, Any]:
    import numpy as np

    # Equal texts are one point: they can never be in different groups.
    different = list(dict.fromkeys(texts))
    if k is not None and k > len(different):
        raise ToolFailed(
            f"k is {k}, but the number of different texts is {len(different)}",
            code="input_invalid",
            hint=f"Give a k of at most {len(different)}, or leave it out.",
        )
    points = embed_texts(different)
    point_of_text = np.array([different.index(text) for text in texts])
    vectors = points[point_of_text]
    merges = _ward_merges(points, np.bincount(point_of_text))
    distances = np.sqrt(np.maximum(2 - 2 * vectors @ vectors.T, 0))
    # Two texts are two groups; from three on, at least two texts share one.
    most = min(_MOST_CHOSEN, max(2, len(points) - 1), len(points))
    rated = []
    for count in [k] if k is not None else range(min(2, most), most + 1):
        groups = _groups(merges, len(points), count)[point_of_text]
        rated.append((_silhouette(distances, groups), groups))
    silhouette, groups = max(rated, key=lambda one: -2 if one[0] is None else one[0])
    found = [_described(group, groups, vectors, texts) for group in range(int(groups.max()) + 1)]
    found.sort(key=lambda one: (-one["size"], one["members"]))
    return {"k": len(found), "silhouette": silhouette, "clusters": found}


def _ward_merges(points: "Vectors", sizes: "NDArray[np.int64]") -> list[tuple[int, int]]:
    """Joins the two closest groups until one is left. Returns each pair; the second went into the first.

    Ward's criterion joins those whose union grows the least in variance. It needs no random start, and one
    pass answers for every number of groups.
    """
    import numpy as np

    weights = sizes.astype(np.float64)
    squared = np.maximum(2 - 2 * points.astype(np.float64) @ points.T, 0)
    costs = squared * (weights[:, None] * weights) / (weights[:, None] + weights)
    np.fill_diagonal(costs, np.inf)
    merges = []
    for _ in range(len(points) - 1):
        first, second = sorted(divmod(int(costs.argmin()), len(points)))
        total = weights[first] + weights[second] + weights
        row = (weights[first] + weights) * costs[first] + (weights[second] + weights) * costs[second]
        row = (row - weights * costs[first, second]) / total
        row[[first, second]] = np.inf
        costs[first], costs[:, first] = row, row
        costs[second], costs[:, second] = np.inf, np.inf
        weights[first] += weights[second]
        merges.append((first, second))
    return merges


def _groups(merges: list[tuple[int, int]], points: int, count: int) -> "NDArray[np.int64]":
    """Returns the number of the group of each point, where `count` groups are left."""
    import numpy as np

    groups = np.arange(points)
    for first, second in merges[: points - count]:
        groups[groups == second] = first
    return np.unique(groups, return_inverse=True)[1].reshape(-1)


def _silhouette(distances: "Vectors", groups: "NDArray[np.int64]") -> float | None:
    """Compares how far each text is from its own group and from the nearest other one; the mean over all."""
    import numpy as np

    counts = np.bincount(groups)
    if not 1 < len(counts) < len(groups):
        return None
    own = np.arange(len(groups)), groups
    sums = np.stack([distances[:, groups == group].sum(axis=1) for group in range(len(counts))], axis=1)
    inside = sums[own] / np.maximum(counts[groups] - 1, 1)
    means = sums / counts
    means[own] = np.inf
    outside = means.min(axis=1)
    scale = np.maximum(np.maximum(inside, outside), 1e-12)
    scores = np.where(counts[groups] == 1, 0, (outside - inside) / scale)
    return round(float(scores.mean()), 4)


def _described(
    group: int, groups: "NDArray[np.int64]", vectors: "Vectors", texts: list[str]
) -> dict[str, Any]:
    members = (groups == group).nonzero()[0]
    centre = vectors[members].mean(axis=0)
    typical = members[(vectors[members] @ centre).argmax()]
    return {"size": len(members), "typical": texts[typical], "members": members.tolist()}


__getattr__ = with_tool_specs(__name__)
