"""Weights files: every layout restores the features of the saved network, and no code is executed."""

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

from crlc.errors import OutOfMemoryError, UsageError
from crlc.model.backbones import build_resnet
from crlc.model.heads import RepresentationHead
from crlc.model.weights_file import load_weights_file

IMAGES = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))


def perturb(module: nn.Module, seed: int) -> nn.Module:
    """Return the module in evaluation mode, with every tensor different from a new network."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.state_dict().values():
            if tensor.is_floating_point():
                tensor.mul_(torch.empty_like(tensor).uniform_(0.8, 1.2, generator=generator))
    return module.eval()


def build_untrained(size: int = 96) -> nn.Module:
    return build_resnet("resnet18", size).module.eval()


def add_prefix(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in state.items()}


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    return perturb(torchvision.models.resnet18(weights=None), seed=1)


@pytest.fixture(scope="module")
def features(trained: nn.Module) -> Tensor:
    """Return the features of the saved network, computed layer by layer."""
    with torch.no_grad():
        x = trained.maxpool(trained.relu(trained.bn1(trained.conv1(IMAGES))))
        x = trained.layer4(trained.layer3(trained.layer2(trained.layer1(x))))
        return trained.avgpool(x).flatten(1)


def build_moco_checkpoint(trained: nn.Module, head: nn.Module) -> dict[str, object]:
    """Return a checkpoint as MoCo's training script writes it, with a head in place of fc."""
    query = {name: tensor for name, tensor in trained.state_dict().items() if not name.startswith("fc.")}
    query |= add_prefix("fc.", head.state_dict())
    # The real key encoder has more tensors; all of them must be ignored.
    key = {"conv1.weight": torch.zeros(64, 3, 7, 7), "fc.0.bias": torch.zeros(512)}
    state = add_prefix("module.encoder_k.", key) | add_prefix("module.encoder_q.", query)
    state |= {"module.queue": torch.rand(128, 16), "module.queue_ptr": torch.zeros(1, dtype=torch.long)}
    optimiser = {"state": {0: {"momentum_buffer": torch.zeros(3)}}, "param_groups": [{"lr": 0.03, "params": [0]}]}
    return {"epoch": 200, "arch": "resnet50", "state_dict": state, "optimizer": optimiser}


LAYOUTS: dict[str, Callable[[nn.Module], object]] = {
    "torchvision": lambda net: net.state_dict(),
    "torchvision's training script": lambda net: {"model": net.state_dict(), "args": argparse.Namespace(lr=0.1)},
    "timm's training script": lambda net: {"arch": "resnet18", "epoch": 3, "state_dict": net.state_dict()},
    "DataParallel": lambda net: add_prefix("module.", net.state_dict()),
    "without classifier": lambda net: {n: t for n, t in net.state_dict().items() if not n.startswith("fc.")},
    "before counters": lambda net: {n: t for n, t in net.state_dict().items() if not n.endswith("tracked")},
    "MoCo v1": lambda net: build_moco_checkpoint(net, nn.Linear(512, 128)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_weights_file_of_every_layout_restores_the_features(
    layout: str, trained: nn.Module, features: Tensor, tmp_path: Path
):
    torch.save(LAYOUTS[layout](trained), tmp_path / "weights.pth")
    module = build_untrained()
    loaded = load_weights_file(tmp_path / "weights.pth", module)
    assert loaded.rl_head is None
    with torch.no_grad():
        torch.testing.assert_close(module(IMAGES), features)


def test_weights_file_of_timm_in_safetensors_restores_the_features(tmp_path: Path):
    saved = perturb(timm.create_model("resnet18", pretrained=False), seed=3)
    safetensors.torch.save_file(saved.state_dict(), tmp_path / "model.safetensors")
    module = build_untrained()
    load_weights_file(tmp_path / "model.safetensors", module)
    with torch.no_grad():
        expected = saved.forward_head(saved.forward_features(IMAGES), pre_logits=True)
        torch.testing.assert_close(module(IMAGES), expected)


def test_weights_file_of_moco_v2_restores_the_rl_head(trained: nn.Module, features: Tensor, tmp_path: Path):
    head = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 128))
    torch.save(build_moco_checkpoint(trained, head), tmp_path / "moco_v2_800ep_pretrain.pth.tar")
    module, rl_head = build_untrained(), RepresentationHead(512)
    loaded = load_weights_file(tmp_path / "moco_v2_800ep_pretrain.pth.tar", module)
    assert loaded.rl_head is not None
    rl_head.load_state_dict(loaded.rl_head)
    with torch.no_grad():
        torch.testing.assert_close(module(IMAGES), features)
        expected = head(features)
        torch.testing.assert_close(rl_head(module(IMAGES)), expected / expected.norm(dim=1, keepdim=True))


def test_weights_file_with_another_head_has_no_rl_head(trained: nn.Module, tmp_path: Path):
    for name, head in {
        "wide": nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 256)),
        "narrow": nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 128)),
        "without bias": nn.Sequential(nn.Linear(512, 512, bias=False), nn.ReLU(), nn.Linear(512, 128)),
    }.items():
        torch.save(build_moco_checkpoint(trained, head), tmp_path / name)
        assert load_weights_file(tmp_path / name, build_untrained()).rl_head is None


def test_weights_file_identity_depends_on_the_content(trained: nn.Module, tmp_path: Path):
    first, copy, other = tmp_path / "a b:ü.pth", tmp_path / "sub" / "a b:ü.pth", tmp_path / "other.pth"
    copy.parent.mkdir()
    torch.save(trained.state_dict(), first)
    copy.write_bytes(first.read_bytes())
    torch.save(perturb(torchvision.models.resnet18(weights=None), seed=4).state_dict(), other)
    identities = [load_weights_file(file, build_untrained()).identity for file in (first, copy, other)]
    assert identities[0] == identities[1]
    assert re.fullmatch(r"a_b__@[0-9a-f]{12}", identities[0])
    assert re.fullmatch(r"other@[0-9a-f]{12}", identities[2])
    assert identities[0].partition("@")[2] != identities[2].partition("@")[2]


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


def test_weights_file_with_code_is_refused(tmp_path: Path):
    touched = tmp_path / "touched"
    pickle.loads(pickle.dumps(Trap(touched)))
    assert touched.exists(), "unpickling creates the file"
    touched.unlink()
    torch.save({"state_dict": {"conv1.weight": Trap(touched)}}, tmp_path / "torch.pth")
    (tmp_path / "pickle.pth").write_bytes(pickle.dumps({"conv1.weight": Trap(touched)}, protocol=2))
    for name in ("torch.pth", "pickle.pth"):
        with pytest.raises(UsageError, match=rf"{name} cannot be used: .*execute code") as caught:
            load_weights_file(tmp_path / name, nn.Identity())
        assert "\n" not in str(caught.value)
    assert not touched.exists()


def test_weights_file_with_a_pickled_network_is_refused(tmp_path: Path):
    torch.save(torchvision.models.resnet18(weights=None), tmp_path / "network.pth")
    with pytest.raises(UsageError, match=r"torchvision.models.resnet.ResNet.*model.state_dict\(\)"):
        load_weights_file(tmp_path / "network.pth", nn.Identity())


def test_weights_file_that_does_not_fit_changes_nothing(trained: nn.Module, tmp_path: Path):
    state = trained.state_dict()
    del state["bn1.bias"]
    state |= {f"extra.{number}": torch.zeros(1) for number in range(6)}
    state["layer1.0.conv1.weight"] = torch.zeros(64, 64, 1, 1)
    torch.save(state, tmp_path / "other.pth")
    module = build_untrained()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(UsageError) as caught:
        load_weights_file(tmp_path / "other.pth", module)
    assert (
        "1 missing: bn1.bias; "
        "6 unexpected: extra.0, extra.1, extra.2, extra.3 and 2 more; "
        "1 of another shape: layer1.0.conv1.weight (64x64x1x1 in the file, 64x64x3x3 here)."
    ) in str(caught.value)
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_weights_file_does_not_fit_the_stem_for_small_images(trained: nn.Module, tmp_path: Path):
    torch.save(trained.state_dict(), tmp_path / "large.pth")
    with pytest.raises(UsageError, match=r"1 of another shape: conv1.weight .*image size"):
        load_weights_file(tmp_path / "large.pth", build_untrained(size=32))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.pth", b"", "incomplete"),
        ("text.pth", b"epoch,loss\n1,0.5\n", "neither a torch file"),
        ("image.pth", b"\x89PNG\r\n\x1a\n" + bytes(64), "neither a torch file"),
        ("text.safetensors", b"epoch,loss\n1,0.5\n", "neither a torch file"),
        ("empty.safetensors", b"", "incomplete"),
    ],
    ids=["empty", "text", "image", "text as safetensors", "empty safetensors"],
)
def test_weights_file_of_another_format_is_refused(name: str, content: bytes, reason: str, tmp_path: Path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=reason) as caught:
        load_weights_file(tmp_path / name, nn.Identity())
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_weights_file_that_is_truncated_is_refused(suffix: str, trained: nn.Module, tmp_path: Path):
    whole, half = tmp_path / f"whole{suffix}", tmp_path / f"half{suffix}"
    save = torch.save if suffix == ".pth" else safetensors.torch.save_file
    save({"conv1.weight": trained.conv1.weight.detach(), "bn1.weight": trained.bn1.weight.detach()}, whole)
    content = whole.read_bytes()
    for part in (0.001, 0.3, 0.999):
        half.write_bytes(content[: int(len(content) * part)])
        with pytest.raises(UsageError, match="incomplete") as caught:
            load_weights_file(half, nn.Identity())
        assert "\n" not in str(caught.value)


def test_weights_file_with_one_changed_bit_is_refused(trained: nn.Module, tmp_path: Path):
    file = tmp_path / "weights.pth"
    torch.save({"conv1.weight": trained.conv1.weight.detach()}, file)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x40
    file.write_bytes(content)
    with pytest.raises(UsageError, match="checksum"):
        load_weights_file(file, nn.Identity())


def test_too_little_memory_for_a_weights_file_is_named(
    trained: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    torch.save({"conv1.weight": trained.conv1.weight.detach()}, tmp_path / "weights.pth")

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(OutOfMemoryError):
        load_weights_file(tmp_path / "weights.pth", nn.Identity())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (torch.zeros(3), "contains a Tensor"),
        ([torch.zeros(3)], "contains a list"),
        ({"epoch": 3}, "contains no tensors"),
    ],
)
def test_weights_file_without_tensor_names_is_refused(content: object, reason: str, tmp_path: Path):
    torch.save(content, tmp_path / "file.pth")
    with pytest.raises(UsageError, match=reason):
        load_weights_file(tmp_path / "file.pth", nn.Identity())


def test_weights_file_that_is_missing_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match=r"nowhere.pth cannot be read: No such file"):
        load_weights_file(tmp_path / "nowhere.pth", nn.Identity())
    with pytest.raises(UsageError, match="cannot be read"):
        load_weights_file(tmp_path, nn.Identity())
