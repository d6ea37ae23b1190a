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
        told = [action() if self.is_writer else None]
        if self.size > 1:
            dist.broadcast_object_list(told)
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
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend, timeout=_PATIENCE)
    try:
        yield World(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def share_batch_norms(network: nn.Module, world: World) -> None:
    """Let the batch norms of a network see the batches of all processes. Before an optimiser knows its weights."""
    if world.size == 1:
        return
    on_gpu = next(network.parameters()).is_cuda
    convert: Callable[[nn.Module], nn.Module] = nn.SyncBatchNorm.convert_sync_batchnorm
    for name, child in network.named_children():
        setattr(network, name, convert(child) if on_gpu else _with_summed_norms(child))


def share_gradients(network: nn.Module, world: World) -> nn.Module:
    """The same network with the mean of all processes' gradients; itself where there is one."""
    if world.size == 1:
        return network
    # A head without a loss of its own gets no gradient: DDP must not wait for it.
    return nn.parallel.DistributedDataParallel(network, broadcast_buffers=False, find_unused_parameters=True)


class SummedBatchNorm2d(nn.BatchNorm2d):
    """Batch norm over the batches of all processes, for CPUs: torch's own refuses them."""

    def forward(self, input: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        if not self.training:
            return super().forward(input)
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
        if type(child) is nn.BatchNorm2d:
            summed = SummedBatchNorm2d(child.num_features, child.eps, child.momentum, child.affine)
            summed.to(child.weight)
            summed.load_state_dict(child.state_dict())
            setattr(network, name, summed)
        else:
            _with_summed_norms(child)
    return network
