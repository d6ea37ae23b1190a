"""Several processes as one: each works on its share of a batch, all see the whole of it.

Every process gathers the others' outputs and computes the whole loss; the gradient flows into its own rows only.
Summed over the processes that is the gradient of one process with the whole batch. DistributedDataParallel takes
the mean of the gradients, so the loss is multiplied by their number (`World.size`) before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist

from crlc.data.augment import Share
from crlc.errors import CrlcError, UsageError

_PATIENCE = timedelta(minutes=30)


@dataclass(frozen=True)
class World:
    """The processes that train one run together."""

    rank: int = 0
    size: int = 1

    @property
    def is_writer(self) -> bool:
        """Whether this process writes files and talks to people."""
        return self.rank == 0

    def rows(self, count: int) -> slice:
        """This process's rows of a batch; `count` is a multiple of the number of processes."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def share(self, count: int) -> Share | None:
        """The same for chance: which throws of the whole batch are this process's."""
        return None if self.size == 1 else Share(self.rows(count).start, count)

    def gather(self, rows: Tensor, dim: int = 0) -> Tensor:
        """The rows of all processes in their order; gradient flows into this one's."""
        if self.size == 1:
            return rows
        pieces = [torch.empty_like(rows) for _ in range(self.size)]
        dist.all_gather(pieces, rows.detach().contiguous())
        pieces[self.rank] = rows
        return torch.cat(pieces, dim=dim)

    def agreed(self, flag: bool) -> bool:
        """Whether it is true for any process."""
        if self.size == 1:
            return flag
        votes = torch.tensor(int(flag), device=self._talking_device())
        dist.all_reduce(votes, op=dist.ReduceOp.MAX)
        return bool(votes)

    def wait(self) -> None:
        """Go on when all have come this far."""
        if self.size > 1:
            dist.barrier()

    def told_by_first(self, action: Callable[[], str | None]) -> str:
        """Let the first process do what must be done once; the others wait, and learn what it gives."""
        if self.size == 1:
            return action() or ""
        told: list[str | None] = [None, None]
        if self.is_writer:
            try:
                told[0] = action()
            except CrlcError as error:
                told[1] = str(error)
                dist.broadcast_object_list(told)
                raise
        dist.broadcast_object_list(told)
        if told[1] is not None and not self.is_writer:
            raise CrlcError(told[1])
        return told[0] or ""

    @staticmethod
    def _talking_device() -> torch.device:
        return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


ALONE = World()


@dataclass(frozen=True)
class Compute:
    """Where and in which precision a run is computed, and by whom."""

    device: torch.device
    world: World = ALONE
    dtype: torch.dtype = torch.float32


@contextmanager
def joined_world(device: str) -> Iterator[World]:
    """The processes that torchrun started, if it started this one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    backend = "nccl" if device == "cuda" else "gloo"
    if device == "mps":
        raise UsageError("device='mps' cannot be shared by several processes. Use --device cpu, or one process.")
    if backend == "nccl":
        own, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if own >= there:
            raise UsageError(f"devices={own + 1} is not allowed: this computer has {there} GPUs.")
        torch.cuda.set_device(own)
    dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        yield World(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def share_batch_norms(network: nn.Module, world: World) -> None:
    """Let the batch norms of a network see the batches of all processes. Before an optimiser knows its weights."""
    if world.size == 1:
        return
    from timm.layers import convert_sync_batchnorm  # torch's own loses the activation in timm's batch norms

    convert = convert_sync_batchnorm if next(network.parameters()).is_cuda else _with_summed_norms
    for name, child in network.named_children():
        setattr(network, name, convert(child))


def share_gradients(network: nn.Module, world: World) -> nn.Module:
    """The same network with the mean of all processes' gradients; itself where there is one."""
    if world.size == 1:
        return network
    # A head without a loss of its own gets no gradient: DDP must not wait for it.
    return nn.parallel.DistributedDataParallel(network, broadcast_buffers=False, find_unused_parameters=True)


class SummedBatchNorm2d(nn.BatchNorm2d):
    """Batch norm over the batches of all processes, for CPUs: torch's own refuses them."""

    def __init__(self, like: nn.BatchNorm2d) -> None:
        """Take over weights and statistics; also what timm's batch norms do afterwards."""
        super().__init__(like.num_features, like.eps, like.momentum, like.affine)
        self.to(like.weight)
        self.load_state_dict({name: value for name, value in like.state_dict().items() if name in self.state_dict()})
        self.train(like.training)
        self._after = [getattr(like, name) for name in ("drop", "act") if hasattr(like, name)]

    def forward(self, input: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        output = self._normalised(input) if self.training else super().forward(input)
        for module in self._after:
            output = module(output)
        return output

    def _normalised(self, input: Tensor) -> Tensor:
        count = input.numel() // input.shape[1] * dist.get_world_size()
        over = (0, 2, 3)
        mean: Tensor = _Sum.apply(input.sum(dim=over)) / count
        centred = input - mean[:, None, None]
        variance: Tensor = _Sum.apply(centred.square().sum(dim=over)) / count
        if self.running_mean is not None and self.running_var is not None and self.momentum is not None:
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked += 1
        scaled = centred * (variance + self.eps).rsqrt()[:, None, None]
        return scaled * self.weight[:, None, None] + self.bias[:, None, None]


class _Sum(torch.autograd.Function):
    """The sum over all processes; so is its gradient."""

    @staticmethod
    def forward(_: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        total = gradient.contiguous().clone()
        dist.all_reduce(total)
        return total


def _with_summed_norms(network: nn.Module) -> nn.Module:
    for name, child in network.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(network, name, SummedBatchNorm2d(child))
        else:
            _with_summed_norms(child)
    return network
