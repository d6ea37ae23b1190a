"""The paper's tables and figures as experiments. The numbers are those of the paper, in per cent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.paper.data import DATASETS, IMAGENET
from benchmarks.paper.experiment import (
    BARS,
    CONFIDENT,
    ERRORS,
    LOSSES,
    MAPS,
    STRIPS,
    SURFACES,
    SWEEP,
    Experiment,
    Trial,
)

_TABLE = {"cifar10": "digits", "cifar20": "fashion_10k", "stl10": "cifar10_5k"}
_TABLE_WITH_SPLITS = {"cifar10": "digits-split", "cifar20": "fashion_10k-split"}
_DIGITS = {"cifar10": "digits", "cifar20": "digits", "cifar100": "fashion_10k"}


def _score(acc: float, nmi: float, ari: float, acc5: float | None = None) -> dict[str, str]:
    numbers = {"acc": acc, "nmi": nmi, "ari": ari} | ({} if acc5 is None else {"acc5": acc5})
    return {name: f"{number:.1f}" for name, number in numbers.items()}


_END_TO_END = {
    "cifar10": (_score(79.9, 67.9, 63.4), _score(66.9, 56.9, 47.5)),
    "cifar20": (_score(42.5, 41.6, 26.3), _score(37.7, 35.7, 21.6)),
    "stl10": (_score(81.8, 72.9, 68.2), _score(61.2, 52.7, 43.4)),
    "imagenet10": (_score(85.4, 83.1, 75.9), _score(80.0, 75.2, 67.6)),
    "imagenet-dogs": (_score(46.1, 48.4, 29.7), _score(36.3, 37.5, 19.8)),
}
"""Table 1: CRLC, and its C-head alone."""

_TWO_STAGE = {
    "cifar10": _score(84.2, 74.7, 70.6),
    "cifar20": _score(45.0, 44.8, 28.7),
    "stl10": _score(78.7, 68.4, 62.7),
}
_FROZEN = {
    "imagenet50": _score(75.4, 80.6, 63.4, 93.3),
    "imagenet100": _score(66.7, 79.2, 55.0, 88.3),
    "imagenet200": _score(57.9, 76.4, 45.9, 80.6),
}
_SEMI_CIFAR10 = {1: "46.75 ± 8.01", 2: "29.81 ± 1.18", 4: "19.87 ± 0.82", 25: "13.53 ± 0.21"}
_SEMI_CIFAR100 = {1: "82.20", 2: "73.04", 4: "60.87", 25: "41.10"}
"""Error in per cent, by number of labels per class."""


def _build_table1() -> tuple[Trial, ...]:
    trials = []
    for dataset, (whole, alone) in _END_TO_END.items():
        preset = f"paper-{dataset}"
        trials.append(Trial(f"{dataset}, CRLC", dataset, preset, paper=whole))
        trials.append(Trial(f"{dataset}, C-head only", dataset, preset, "c-head-only", paper=alone))
    return tuple(trials)


def _build_table2() -> tuple[Trial, ...]:
    trained = [Trial(name, name, f"paper-two-stage-{name}", paper=paper) for name, paper in _TWO_STAGE.items()]
    return (*trained, *(Trial(name, name, f"paper-{name}", paper=paper) for name, paper in _FROZEN.items()))


def _build_semi(dataset: str, errors: dict[int, str], classes: int) -> tuple[Trial, ...]:
    return tuple(
        Trial(
            f"{classes * count} labels",
            dataset,
            f"paper-semi-{dataset}",
            labels=f"classes:{count}",
            split="train",
            evaluate_split="test",
            paper={"error": error},
        )
        for count, error in errors.items()
    )


def _vary(
    dataset: str, name: str, values: Sequence[Any], group: str = "", symbol: str = "", **fields: Any
) -> tuple[Trial, ...]:
    """Return trials that differ in one setting, on the train split where the dataset has splits."""
    changes = fields.pop("changes", {})
    split = None if DATASETS[dataset].kind == IMAGENET else "train"  # ImageNet is a folder of class folders
    return tuple(
        Trial(
            f"{group + ', ' if group else ''}{symbol or name} = {value}",
            dataset,
            f"paper-{dataset}",
            changes={**changes, name: value},
            group=group or symbol,
            value=None if isinstance(value, str) else float(value),
            split=split,
            **fields,
        )
        for value in values
    )


_LAMBDA2 = (0.0, 1.0, 3.0, 10.0, 20.0)
_SGD = {"optimizer": "sgd", "learning_rate": 0.1}

EXPERIMENTS = (
    Experiment("table1", "Table 1: end-to-end training", _build_table1(), miniature=_TABLE),
    Experiment(
        "table2",
        "Table 2: two-stage training",
        _build_table2(),
        ("acc", "acc5", "nmi", "ari", "oracle_acc", "oracle_acc_any_epoch"),
        miniature=_TABLE,
    ),
    Experiment(
        "table5",
        "Table 5: trained on the train split only, tested on the test split",
        tuple(
            Trial(name, name, f"paper-{name}", split=split, evaluate_split="test")
            for name, split in (("cifar10", "train"), ("cifar20", "train"), ("stl10", "train+unlabelled"))
        ),
        miniature=_TABLE_WITH_SPLITS,
        unrecorded=("acc", "nmi", "ari"),
    ),
    Experiment(
        "semi-cifar10",
        "Semi-supervised, CIFAR10: classification error",
        _build_semi("cifar10", _SEMI_CIFAR10, 10),
        ("error", "acc"),
        miniature=_DIGITS,
        finding="The error falls with the number of labels; with one label per class it varies by 8 points.",
    ),
    Experiment(
        "semi-cifar100",
        "Semi-supervised, CIFAR100: classification error",
        _build_semi("cifar100", _SEMI_CIFAR100, 100),
        ("error", "acc"),
        miniature=_DIGITS,
    ),
    Experiment(
        "fig2",
        "Figure 2: nearest neighbours that are correct, false negatives and false positives",
        (Trial("CRLC", "cifar10", "paper-cifar10", split="train"),),
        figures=(STRIPS,),
        miniature=_DIGITS,
        max_seeds=1,
    ),
    Experiment(
        "fig3",
        "Figure 3: critics, and the weight λ2 of L_FC",
        (
            *_vary("cifar20", "critic", ("log-dot", "neg-l2", "dot", "neg-js"), symbol="critic"),
            *_vary("cifar20", "feature_weight", _LAMBDA2, "SGD", "λ2", changes=_SGD),
            *_vary("cifar20", "feature_weight", _LAMBDA2, "AdamW", "λ2", miniature_only=True, is_in_paper=False),
        ),
        figures=(BARS, SWEEP, LOSSES),
        miniature=_DIGITS,
        unrecorded=("acc",),
        sweep_name="λ2",
        finding="Critics: log-dot > neg-l2 > dot ≈ neg-js. λ2 = 10 is best on CIFAR20.",
    ),
    Experiment(
        "fig4",
        "Figure 4: SimCLR form against MemoryBank form; t-SNE of the RL-head alone and of CRLC",
        (
            Trial("SimCLR form", "cifar20", "paper-cifar20", split="train", isolated=True),
            Trial("MemoryBank form", "cifar20", "paper-cifar20", "memory-bank", split="train", isolated=True),
            Trial(
                "MemoryBank form, twice the epochs (equal views; not in the paper)",
                "cifar20",
                "paper-cifar20",
                "memory-bank",
                epochs_factor=2.0,
                is_in_paper=False,
                split="train",
                isolated=True,
            ),
            Trial(
                "RL-head alone",
                "cifar20",
                "paper-cifar20",
                changes={"clustering_weight": 0.0},
                split="train",
                isolated=True,
            ),
        ),
        ("acc", "nmi", "ari", "oracle_acc", "k_means_acc", "seconds", "memory_mb"),
        (BARS, MAPS),
        _DIGITS,
        unrecorded=("acc", "seconds", "memory_mb"),
        bar_metrics=("acc", "seconds", "memory_mb"),
        finding="The bank is less accurate, takes about half the time and 30 % less memory.",
    ),
    Experiment("a2", "A.2: surfaces of the four critics", (), figures=(SURFACES,)),
    Experiment(
        "a10-1",
        "A.10.1: λ2 on ImageNet-Dogs",
        _vary("imagenet-dogs", "feature_weight", (1.0, 3.0, 10.0), "SGD", "λ2", changes=_SGD),
        figures=(SWEEP, LOSSES),
        miniature={"imagenet-dogs": "fashion_10k"},
        unrecorded=("acc",),
        sweep_name="λ2",
        finding="λ2 = 3 would have been better than 10.",
    ),
    Experiment(
        "a10-2",
        "A.10.2: number of negatives M and momentum α of the memory bank",
        (
            *_vary("cifar20", "bank_negatives", (64, 256, 1024, 4096), symbol="M", variant="memory-bank"),
            *_vary("cifar20", "bank_momentum", (0.0, 0.25, 0.5, 0.9), symbol="α", variant="memory-bank"),
        ),
        figures=(SWEEP, LOSSES),
        miniature=_DIGITS,
        unrecorded=("acc",),
        sweep_name="M or α",
        finding="α = 0.5 is the paper's choice; its study of α uses 4,096 negatives.",
    ),
    Experiment(
        "a11",
        "A.11: most confident images of each cluster",
        (Trial("CRLC", "cifar10", "paper-cifar10", split="train"),),
        figures=(CONFIDENT,),
        miniature=_DIGITS,
        max_seeds=1,
    ),
    Experiment(
        "a14",
        "A.14: error of CRLC-semi during training",
        _build_semi("cifar10", _SEMI_CIFAR10, 10),
        ("error",),
        (ERRORS,),
        _DIGITS,
    ),
)
"""All tables and figures, in the order of the paper."""
