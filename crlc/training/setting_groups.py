"""Groups of settings: each field has a range, a description and the paper's value. `TrainSettings` combines them."""

from __future__ import annotations

from dataclasses import dataclass

from crlc.backbone_catalogue import CATALOGUE
from crlc.validation import Validated, choice, number, text

IMPLEMENTATIONS = ("simclr", "memory-bank")
CRITIC_NAMES = ("log-dot", "dot", "neg-l2", "neg-js")
METHODS = ("end-to-end", "two-stage", "semi")
PAIRS = (VIEWS, NEIGHBOURS) = ("views", "neighbours")
SCRATCH_NAMES = ("small", "resnet18", "resnet34", "resnet50")
PIP_BACKBONES = tuple(one.name for one in CATALOGUE if one.pip_name)
"""Pretrained backbones whose weights are pip packages; EfficientNet-Lite0 is the default."""

ENGINES = ("auto", "torch", "openvino")
"""Engines that compute the features of a frozen backbone; `auto` is OpenVINO on CPUs where possible, else torch."""

AUGMENTATIONS = ("auto", "photo", "photo-blur", "glyph", "none")
OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "cosine", "cosine-by-epoch", "cooldown")
STEMS = ("auto", "small", "pooled", "large")
VIEW_SOURCES = (STORED, ORIGINALS) = ("stored", "originals")


@dataclass(frozen=True)
class ModelSettings(Validated):
    """The network: number of clusters, backbone and heads."""

    clusters: int = number(10, 2, 100_000)
    """Number of clusters C, at least 2."""

    subheads: int = number(10, 1, 1000)
    """Number of C-subheads; the clustering loss is their mean. Paper: 10."""

    backbone: str = text("small", suggestions=(*SCRATCH_NAMES, *(one.name for one in CATALOGUE)))
    """small, resnet18, resnet34, resnet50; pretrained: default, efficientnet-lite1, efficientnet-lite2,
    torchvision/NAME, timm/NAME, open_clip/NAME, or two of these joined by +. Paper: resnet34."""

    stem: str = choice("auto", STEMS)
    """First layers of a ResNet: small (3x3), pooled (3x3, then pooling to half the size), large (7x7 with stride, then
    pooling: a quarter), or auto (small up to 64 px, else large). Paper: pooled on STL10, as in SCAN."""

    weights: str = text("")
    """File with weights for a ResNet (torchvision, timm or MoCo) or for open_clip/NAME; empty for none. Paper: MoCo on
    ImageNet50+."""

    frozen: bool = False
    """Whether the backbone stays untrained; its features are then computed once and cached. Paper: on ImageNet50+."""

    stored_features: bool = True
    """Whether the heads of a frozen backbone are trained on one stored vector per image; otherwise on augmented views
    of the images, which pass the backbone in every step. Paper: on views."""

    pca_components: int = number(256, 0, 100_000, json_name="components")
    """Principal components of a frozen backbone's features that the heads receive, fewer if there are fewer images;
    0 for the features without PCA. Paper: without PCA."""

    hidden_width: int = number(0, 0, 100_000, json_name="hidden")
    """Width of the heads' hidden layers; 0 for the width of their input. Paper: the width of their input."""


@dataclass(frozen=True)
class PairSettings(Validated):
    """Positive pairs and negatives of both contrastive losses."""

    pairs: str = choice(VIEWS, PAIRS)
    """Positive pairs: two views of an image, or views of an image and one of its neighbours. Paper: views end to end,
    neighbours in the second of two stages."""

    neighbours: int = number(20, 1, 10_000)
    """Number K of nearest images from which the neighbour of a positive pair is drawn. Paper: 50."""

    implementation: str = choice("simclr", IMPLEMENTATIONS)
    """simclr (two views, negatives from the batch) or memory-bank (one view, negatives from a bank, Eq. 10)."""

    bank_negatives: int = number(4096, 1, 10_000_000)
    """Number M of negatives drawn from the memory bank; at most the images that are not in the batch. Paper: 4096."""

    bank_momentum: float = number(0.5, 0.0, 0.9999)
    """Weight α of the old value when a row of the memory bank is updated (Eq. 10). Paper: 0.5."""


@dataclass(frozen=True)
class ClusteringLossSettings(Validated):
    """The loss of the C-head: probability contrastive loss (Eq. 9), entropy and labels (Eq. 12)."""

    clustering_weight: float = number(1.0, 0.0, 1000.0)
    """Weight of the C-head's loss; 0 trains the RL-head alone, for comparison. Paper: 1."""

    critic: str = choice("log-dot", CRITIC_NAMES)
    """Critic that compares two probability vectors: log-dot, dot, neg-l2 or neg-js. Paper: log-dot."""

    smoothing: float = number(0.01, 0.0, 0.5)
    """Weight γ of the uniform distribution that is mixed into the probabilities before the critic. Paper: 0.01."""

    entropy_weight: float = number(1.0, -0.9, 1000.0)
    """Weight λ1 of the entropy of the mean probabilities. Paper: 1; authors' code: 2. L_PC itself favours clusters of
    equal size, with weight 1: lower λ1 for unbalanced data, even below 0. At -1 nothing would prevent a single
    cluster."""

    unbalanced_subheads: int = number(0, 0, 1000, json_name="uneven_subheads")
    """Number of subheads, at most half of them, trained with another λ1 to find clusters of different sizes; one of
    them is selected only if its neighbour information is clearly higher. Only for pairs of neighbours. Paper: 0."""

    unbalanced_entropy_weight: float = number(0.0, -0.9, 1000.0)
    """λ1 of the unbalanced subheads. Below 0 they no longer favour clusters of equal size, as L_PC itself does."""

    consensus: bool = False
    """Whether the selected subhead finally learns the mean of all subheads with the same λ1. Only for pairs of
    neighbours on a frozen backbone, without labels. Paper: no."""

    label_weight: float = number(1.0, 0.0, 1000.0)
    """Weight λ3 of the cross-entropy on labelled images in CRLC-semi (Eq. 12). Paper: 1."""

    pseudo_label_weight: float = number(0.0, 0.0, 1000.0)
    """Weight of the cross-entropy on pseudo-labels of all images, relative to λ3. Only for CRLC-semi on a frozen
    backbone. Paper: 0."""


@dataclass(frozen=True)
class FeatureLossSettings(Validated):
    """The loss of the RL-head: feature contrastive loss (Eq. 5)."""

    feature_weight: float = number(10.0, 0.0, 1000.0)
    """Weight λ2 of the feature contrastive loss; 0 trains the C-head alone. Paper: 10."""

    temperature: float = number(0.1, 0.001, 100.0)
    """Temperature τ of the feature critic (Eq. 4). Paper: 0.1."""


@dataclass(frozen=True)
class StageSettings(Validated):
    """The training method, and the length and learning rate of its stages."""

    method: str = choice("end-to-end", METHODS)
    """end-to-end; two-stage (representation first, then clusters of neighbours); semi (a parent run and labels)."""

    epochs: int = number(60, 1, 1_000_000)
    """Number of passes over the images. Paper: 2000; 500 on ImageNet10 and ImageNet-Dogs; 200 in the second stage."""

    pretrain_epochs: int = number(0, 0, 1_000_000)
    """Epochs of the first stage, L_FC alone; 0 for none, as with pretrained weights. Paper: 500."""

    pretrain_optimizer: str = choice("adamw", OPTIMIZERS, json_name="pretrain_optimiser")
    """Optimizer of the first stage: sgd, adam or adamw. Paper: sgd."""

    pretrain_learning_rate: float = number(3e-3, 0.0, 100.0)
    """Highest learning rate of the first stage, which follows a cosine. Paper: 0.4 with sgd."""

    finetune_epochs: int = number(0, 0, 1_000_000)
    """Epochs in which a frozen backbone is trained after its heads; 0 for none. Paper: none."""

    finetune_learning_rate: float = number(1e-4, 0.0, 100.0)
    """Highest learning rate of fine-tuning, which follows a cosine."""

    finetune_feature_weight: float | None = number(None, 0.0, 1000.0)
    """λ2 of fine-tuning; by default that of the run. Paper: 0, because L_FC in the second stage gave worse clusters."""

    @property
    def total_epochs(self) -> int:
        """Number of epochs of all stages."""
        return self.pretrain_epochs + self.epochs + self.finetune_epochs


@dataclass(frozen=True)
class OptimizationSettings(Validated):
    """The optimizer, its learning rate schedule, and the precision of training."""

    optimizer: str = choice("adamw", OPTIMIZERS, json_name="optimiser")
    """sgd, adam (weight decay as an L2 term) or adamw. Paper: sgd; adam in the second of two stages."""

    learning_rate: float = number(3e-3, 0.0, 100.0)
    """Highest learning rate. Paper: 0.1 with sgd."""

    schedule: str = choice("constant", SCHEDULES)
    """constant, cosine (down to the final fraction, changing every step), cosine-by-epoch (the same, constant within an
    epoch), or cooldown (linearly to 0 in the last fifth). Paper: constant; cosine-by-epoch in CRLC-semi."""

    final_rate_fraction: float = number(0.0, 0.0, 1.0, json_name="last_share")
    """Fraction of the highest learning rate at which a cosine ends. Paper: 0.01 in CRLC-semi."""

    warmup_epochs: float = number(0.0, 0.0, 1_000_000.0)
    """Epochs over which the learning rate rises linearly from zero. Paper: 0."""

    momentum: float = number(0.9, 0.0, 0.9999)
    """Momentum of sgd. Paper: 0.9, no Nesterov."""

    weight_decay: float = number(5e-4, 0.0, 10.0)
    """Weight decay, not on biases and norms (authors' code). Paper: 5e-4; 1e-4 in two stages."""

    clip_norm: float = number(0.0, 0.0, 1_000_000.0)
    """Maximum gradient norm (gradient clipping); 0 for no limit. Paper: no limit."""

    mixed_precision: bool = True
    """Whether the network is trained in mixed precision on a CUDA GPU: bfloat16, or float16 on older ones, with losses
    in float32. No effect on other devices. Paper: not stated; its presets do not use it."""


@dataclass(frozen=True)
class DataSettings(Validated):
    """Image size, batch sizes and augmentation."""

    image_size: int = number(32, 8, 1024)
    """Side of the images in pixels. Paper: 32 for CIFAR, 96 for STL10."""

    batch_size: int = number(256, 2, 1_000_000)
    """Images per step; at most the number of images. Paper: 512."""

    clusterable_fraction: float = number(0.0, 0.0, 1.0)
    """Fraction of a batch that L_cluster is computed for, if the dataset has a split `unlabelled`, which trains the
    RL-head only; 0 for the fraction of such images in the dataset. Paper: not stated; the preset of STL10 has 0.5."""

    labelled_batch_size: int = number(64, 1, 1_000_000, json_name="labelled_batch")
    """Labelled images per step of CRLC-semi, repeated when there are fewer. Paper: 64."""

    augment: str = choice("auto", AUGMENTATIONS)
    """Augmentation: photo (crop, flip, colour), photo-blur, glyph (rotation, shear, scale), none, or auto to choose
    by the images."""

    view_source: str = choice(STORED, VIEW_SOURCES)
    """Pixels that views are cut from: stored (centre squares, decoded once) or originals (whole images, decoded for
    every view). Paper: originals."""

    feature_dropout: float = number(0.0, 0.0, 0.9, json_name="dropout")
    """Fraction of a frozen backbone's components that each view drops. Paper: 0."""


@dataclass(frozen=True)
class RunSettings(Validated):
    """Random seed, and how often a run is logged, evaluated and saved."""

    seed: int = number(0, 0, 2**62)
    """Seed of initial weights, order, views and negatives."""

    log_steps: int = number(10, 1, 1_000_000)
    """Number of steps between two step records of the metrics log."""

    evaluations: int = number(20, 1, 1_000_000)
    """Number of evaluations during the run, each with an intermediate result."""

    checkpoint_seconds: float = number(30.0, 0.0, 1_000_000.0)
    """Seconds between checkpoints; one more is written at the end."""

    engine: str = choice("auto", ENGINES)
    """Engine that computes the features of a frozen backbone: torch, or openvino, which is several times as fast on a
    CPU; auto uses openvino on a CPU where it can."""
