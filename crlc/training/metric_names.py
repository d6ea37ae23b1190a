"""Names of the metrics in a run's metrics log, in groups.

The names are part of the file format. Metrics of the C-head are those of the selected subhead unless their name says
otherwise.
"""

from __future__ import annotations

SUBHEAD_TERMS = ("probability", "entropy", "penalty", "labels")
"""Terms of the loss that every subhead has: L_PC, the entropy H, the penalty on large logits, and the cross-entropy on
labelled images."""

LOSS_TERMS = (*SUBHEAD_TERMS, "feature")
"""All terms of the loss; `feature` is L_FC."""

FEATURE_METRICS = ("feature", "feature_bound")
"""L_FC and its InfoNCE bound log M - L_FC (Eq. 2-3), which are computed only if L_FC has a positive weight."""

CLUSTER_INFORMATION_METRICS = (
    "cluster_information",
    "cluster_information_mean",
    "cluster_information_low",
    "cluster_information_high",
)
"""Mutual information between the clusters of two views, 0 to 1: of the selected subhead, and the mean, lowest and
highest over all subheads. They are meaningful only while the C-head is trained."""

CLASSIFICATION_ACCURACY = "classification_accuracy"
"""Of a run with labels: fraction of images in the cluster of their class, where the labelled images of a cluster decide
its class. Unlike ACC, no cluster is matched with the classes of unlabelled images; labelled images are not counted."""

FINAL_EPOCH_METRICS = ("cluster_information", "subhead")
"""Metrics of the last epoch that the `end` record repeats."""

ORACLE_ACC = "oracle_acc"
"""ACC of the subhead with the highest ACC, with its `oracle_nmi` and `oracle_ari`. It is chosen by the classes, so it
is no result of the method. The authors' released evaluation reports it, so a comparison with the paper needs it."""

ORACLE_ACC_ANY_EPOCH = "oracle_acc_any_epoch"
"""Highest `oracle_acc` of all evaluations of the run: the best subhead at the best epoch."""
