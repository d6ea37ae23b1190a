"""Table of some images of a view, as CSV; it needs no run."""

from __future__ import annotations

import csv
from io import StringIO

from app.view_models.cluster_view import ClusterView
from crlc.arrays import ImageIds
from crlc.data.image_lookup import read_paths
from crlc.paths import escape_formula, to_printable

COLUMNS = ("path", "cluster", "cluster_name", "confidence", "label", "class", "image_id")
"""The columns have the names and contents of those in an exported table."""


def build_selection_table(view: ClusterView, ids: ImageIds) -> bytes:
    """Return the paths, clusters, labels and classes of images as CSV, in the order of the ids."""
    rows = view.find_rows(ids)
    paths = dict(read_paths(view.dataset, view.ids[rows]))
    labels = view.annotation_state.get_labels(view.ids[rows])
    stream = StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(COLUMNS)
    for row, label in zip(rows.tolist(), labels, strict=True):
        image, cluster = int(view.ids[row]), int(view.clusters[row])
        class_number = -1 if view.classes is None else int(view.classes[1][row])
        texts = (
            paths[image],
            "" if cluster < 0 else str(cluster),
            view.cluster_names.get(cluster, ""),
            "" if view.confidence is None else f"{view.confidence[row]:.6f}",
            label or "",
            "" if view.classes is None or class_number < 0 else view.classes[0][class_number],
            str(image),
        )
        writer.writerow([escape_formula(to_printable(text)) for text in texts])
    return stream.getvalue().encode("utf-8-sig")
