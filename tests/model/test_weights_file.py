"""Weights from files: every layout gives the features of the network that was saved, and no file runs code."""

from __future__ import annotations

import argparse
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import timm
import torch
import torchvision
from torch import Tensor, nn

from crlc.errors import UsageError
from crlc.model.backbones import resnet
from crlc.model.heads import RepresentationHead
from crlc.model.weights_file import load_weights_file

IMAGES = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))


def shaken(module: nn.Module, seed: int) -> nn.Module:
    """In eval mode, with every tensor (statistics too) different from those of any fresh network."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.mul_(torch.empty_like(tensor).uniform_(0.8, 1.2, generator=generator))
    return module.eval()


def untrained(size: int = 96) -> nn.Module:
    return resnet("resnet18", size).module.eval()


def prefixed(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in state.items()}


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    return shaken(torchvision.models.resnet18(weights=None), seed=1)


@pytest.fixture(scope="module")
def features(trained: nn.Module) -> Tensor:
    """Of the saved network, by the names of its parts."""
    with torch.no_grad():
        x = trained.maxpool(trained.relu(trained.bn1(trained.conv1(IMAGES))))
        x = trained.layer4(trained.layer3(trained.layer2(trained.layer1(x))))
        return trained.avgpool(x).flatten(1)


def moco(trained: nn.Module, head: nn.Module) -> dict[str, object]:
    """A checkpoint as MoCo's training script writes it, around a network and a head in the place of fc."""
    query = {name: tensor for name, tensor in trained.state_dict().items() if not name.startswith("fc.")}
    query |= prefixed("fc.", head.state_dict())
    key = {"conv1.weight": torch.zeros(64, 3, 7, 7), "fc.0.bias": torch.zeros(512)}  # and so on; not to be looked at
    state = prefixed("module.encoder_k.", key) | prefixed("module.encoder_q.", query)
    state |= {"module.queue": torch.rand(128, 16), "module.queue_ptr": torch.zeros(1, dtype=torch.long)}
    optimiser = {"state": {0: {"momentum_buffer": torch.zeros(3)}}, "param_groups": [{"lr": 0.03, "params": [0]}]}
    return {"epoch": 200, "arch": "resnet50", "state_dict": state, "optimizer": optimiser}


LAYOUTS: dict[str, Callable[[nn.Module], object]] = {
    "torchvision": lambda net: net.state_dict(),
    "torchvision's training script": lambda net: {"model": net.state_dict(), "args": argparse.Namespace(lr=0.1)},
    "timm's training script": lambda net: {"arch": "resnet18", "epoch": 3, "state_dict": net.state_dict()},
    "DataParallel": lambda net: prefixed("module.", net.state_dict()),
    "without classifier": lambda net: {n: t for n, t in net.state_dict().items() if not n.startswith("fc.")},
    "before counters": lambda net: {n: t for n, t in net.state_dict().items() if not n.endswith("tracked")},
    "MoCo v1": lambda net: moco(net, nn.Linear(512, 128)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_features_of_the_saved_network(
    layout: str, trained: nn.Module, features: Tensor, tmp_path: Path
):
    torch.save(LAYOUTS[layout](trained), tmp_path / "weights.pth")
    module = untrained()
    loaded = load_weights_file(tmp_path / "weights.pth", module)
    assert loaded.rl_head is None
    with torch.no_grad():
        torch.testing.assert_close(module(IMAGES), features)


def test_a_timm_resnet_as_safetensors(tmp_path: Path):
    saved = shaken(timm.create_model("resnet18", pretrained=False), seed=3)
    safetensors.torch.save_file(saved.state_dict(), tmp_path / "model.safetensors")
    module = untrained()
    load_weights_file(tmp_path / "model.safetensors", module)
    with torch.no_grad():
        expected = saved.forward_head(saved.forward_features(IMAGES), pre_logits=True)
        torch.testing.assert_close(module(IMAGES), expected)


def test_the_head_of_moco_v2_becomes_the_rl_head(trained: nn.Module, features: Tensor, tmp_path: Path):
    head = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
    torch.save(moco(trained, head), tmp_path / "moco_v2_800ep_pretrain.pth.tar")
    module, rl_head = untrained(), RepresentationHead(512)
    loaded = load_weights_file(tmp_path / "moco_v2_800ep_pretrain.pth.tar", module)
    assert loaded.rl_head is not None
    rl_head.load_state_dict(loaded.rl_head)
    with torch.no_grad():
        torch.testing.assert_close(module(IMAGES), features)
        expected = head(features)
        torch.testing.assert_close(rl_head(module(IMAGES)), expected / expected.norm(dim=1, keepdim=True))


def test_a_head_of_another_form_is_left_out(trained: nn.Module, tmp_path: Path):
    for name, head in {
        "wide": nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256)),
        "narrow": nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 128)),
        "without bias": nn.Sequential(nn.Linear(512, 512, bias=False), nn.ReLU(), nn.Linear(512, 128)),
    }.items():
        torch.save(moco(trained, head), tmp_path / name)
        assert load_weights_file(tmp_path / name, untrained()).rl_head is None


def test_the_identity_is_of_the_content_and_fit_for_a_file_name(trained: nn.Module, tmp_path: Path):
    first, copy, other = tmp_path / "a b:ü.pth", tmp_path / "sub" / "a b:ü.pth", tmp_path / "other.pth"
    copy.parent.mkdir()
    torch.save(trained.state_dict(), first)
    copy.write_bytes(first.read_bytes())
    torch.save(shaken(torchvision.models.resnet18(weights=None), seed=4).state_dict(), other)
    identities = [load_weights_file(file, untrained()).identity for file in (first, copy, other)]
    assert identities[0] == identities[1]
    assert re.fullmatch(r"a_b__@[0-9a-f]{12}", identities[0])
    assert re.fullmatch(r"other@[0-9a-f]{12}", identities[2])
    assert identities[0].partition("@")[2] != identities[2].partition("@")[2]


class Trap:
    """Whoever unpickles this makes a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def test_code_in_a_file_is_not_run(tmp_path: Path):
    touched = tmp_path / "touched"
    pickle.loads(pickle.dumps(Trap(touched)))
    assert touched.exists(), "the trap works"
    touched.unlink()
    torch.save({"state_dict": {"conv1.weight": Trap(touched)}}, tmp_path / "torch.pth")
    (tmp_path / "plain.pth").write_bytes(pickle.dumps({"conv1.weight": Trap(touched)}, protocol=2))
    for name in ("torch.pth", "plain.pth"):
        with pytest.raises(UsageError, match=rf"{name} cannot be used: .*run code") as caught:
            load_weights_file(tmp_path / name, nn.Identity())
        assert "\n" not in str(caught.value)
    assert not touched.exists()


def test_a_whole_pickled_network_is_refused_with_what_to_do(tmp_path: Path):
    torch.save(torchvision.models.resnet18(weights=None), tmp_path / "network.pth")
    with pytest.raises(UsageError, match=r"torchvision.models.resnet.ResNet.*model.state_dict\(\)"):
        load_weights_file(tmp_path / "network.pth", nn.Identity())


def test_what_does_not_fit_is_listed_and_changes_nothing(trained: nn.Module, tmp_path: Path):
    state = trained.state_dict()
    del state["bn1.bias"]
    state |= {f"extra.{number}": torch.zeros(1) for number in range(6)}
    state["layer1.0.conv1.weight"] = torch.zeros(64, 64, 1, 1)
    torch.save(state, tmp_path / "odd.pth")
    module = untrained()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(UsageError) as caught:
        load_weights_file(tmp_path / "odd.pth", module)
    assert (
        "1 missing: bn1.bias; "
        "6 unexpected: extra.0, extra.1, extra.2, extra.3 and 2 more; "
        "1 of another shape: layer1.0.conv1.weight (64x64x1x1 in the file, 64x64x3x3 here)."
    ) in str(caught.value)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_the_first_layer_for_small_images_does_not_fit(trained: nn.Module, tmp_path: Path):
    torch.save(trained.state_dict(), tmp_path / "large.pth")
    with pytest.raises(UsageError, match=r"1 of another shape: conv1.weight .*image size"):
        load_weights_file(tmp_path / "large.pth", untrained(size=32))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("empty.pth", b"", "incomplete"),
        ("text.pth", b"epoch,loss\n1,0.5\n", "neither a torch file"),
        ("picture.pth", b"\x89PNG\r\n\x1a\n" + bytes(64), "neither a torch file"),
        ("text.safetensors", b"epoch,loss\n1,0.5\n", "neither a torch file"),
        ("empty.safetensors", b"", "incomplete"),
    ],
    ids=["empty", "text", "picture", "text as safetensors", "empty safetensors"],
)
def test_other_files_are_refused_in_one_line(name: str, content: bytes, said: str, tmp_path: Path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        load_weights_file(tmp_path / name, nn.Identity())
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_half_a_download_is_refused(suffix: str, trained: nn.Module, tmp_path: Path):
    whole, half = tmp_path / f"whole{suffix}", tmp_path / f"half{suffix}"
    save = torch.save if suffix == ".pth" else safetensors.torch.save_file
    save({"conv1.weight": trained.conv1.weight.detach(), "bn1.weight": trained.bn1.weight.detach()}, whole)
    content = whole.read_bytes()
    for part in (0.001, 0.3, 0.999):
        half.write_bytes(content[: int(len(content) * part)])
        with pytest.raises(UsageError, match="incomplete") as caught:
            load_weights_file(half, nn.Identity())
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (torch.zeros(3), "holds a Tensor, not tensors by name"),
        ([torch.zeros(3)], "holds a list"),
        ({"epoch": 3}, "holds no tensors"),
    ],
)
def test_tensors_without_names_are_refused(content: object, said: str, tmp_path: Path):
    torch.save(content, tmp_path / "file.pth")
    with pytest.raises(UsageError, match=said):
        load_weights_file(tmp_path / "file.pth", nn.Identity())


def test_files_that_are_not_there(tmp_path: Path):
    with pytest.raises(UsageError, match=r"nowhere.pth cannot be read: No such file"):
        load_weights_file(tmp_path / "nowhere.pth", nn.Identity())
    with pytest.raises(UsageError, match="cannot be read"):
        load_weights_file(tmp_path, nn.Identity())
