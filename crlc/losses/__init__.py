"""The losses of the paper as pure functions of tensors, without stored devices, batch sizes or masks.

Shapes: B images, S subheads, C clusters, D feature dimensions, M samples drawn from a bank.
"""

from crlc.losses.feature import bank_feature_contrastive, feature_contrastive
from crlc.losses.information import cluster_information, infonce_bound, joint_probability
from crlc.losses.probability import (
    CRITICS,
    bank_probability_contrastive,
    compute_critic,
    probability_contrastive,
    smooth,
)
from crlc.losses.regularizers import labelled_cross_entropy, logit_penalty, mean_entropy, soft_cross_entropy
from crlc.losses.total import LossTerms, LossWeights, combine_loss_terms

__all__ = [
    "CRITICS",
    "LossTerms",
    "LossWeights",
    "bank_feature_contrastive",
    "bank_probability_contrastive",
    "cluster_information",
    "combine_loss_terms",
    "compute_critic",
    "feature_contrastive",
    "infonce_bound",
    "joint_probability",
    "labelled_cross_entropy",
    "logit_penalty",
    "mean_entropy",
    "probability_contrastive",
    "smooth",
    "soft_cross_entropy",
]
