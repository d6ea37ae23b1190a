"""Data-parallel training: every process works on its slice of a batch, and all compute the loss of the whole batch.

Each process gathers the outputs of the others and computes the whole loss; gradients flow only into its own rows.
The sum over the processes is the gradient that a single process would compute for the whole batch.
DistributedDataParallel averages the gradients, so the loss is first multiplied by the number of processes
(`World.size`).
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

from crlc.data.augmentation import BatchSlice
from crlc.errors import CrlcError, UsageError

_COLLECTIVE_TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True)
class World:
    """The group of processes that train one run, and the rank of this process in it."""

    rank: int = 0
    size: int = 1

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process writes the files of the run and reports its progress."""
        return self.rank == 0

    def slice_rows(self, count: int) -> slice:
        """Return this process's rows of a batch of `count` rows, a multiple of the number of processes."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def slice_draws(self, count: int) -> BatchSlice | None:
        """Return this process's slice of the random draws for a batch of `count` rows; `None` for all of them.

        Every process makes the draws of the whole batch, so that views do not depend on the number of processes.
        """
        return None if self.size == 1 else BatchSlice(self.slice_rows(count).start, count)

    def gather(self, rows: Tensor, dim: int = 0) -> Tensor:
        """Return the rows of all processes in order of rank; gradients flow only into those of this process."""
        if self.size == 1:
            return rows
        pieces = [torch.empty_like(rows) for _ in range(self.size)]
        dist.all_gather(pieces, rows.detach().contiguous())
        pieces[self.rank] = rows
        return torch.cat(pieces, dim=dim)

    def any_rank(self, flag: bool) -> bool:
        """Return whether the flag is true in any process; every process gets the same answer."""
        if self.size == 1:
            return flag
        votes = torch.tensor(int(flag), device=self._collective_device())
        dist.all_reduce(votes, op=dist.ReduceOp.MAX)
        return bool(votes)

    def wait_for_all(self) -> None:
        """Block until every process has reached this call."""
        if self.size > 1:
            dist.barrier()

    def run_on_rank_zero(self, action: Callable[[], str | None]) -> str:
        """Run an action in rank 0 only, and return its result in every process, with `None` as an empty string.

        Raises:
            CrlcError: raised in every process, with the same class and fields, if the action raises it in rank 0.
        """
        if self.size == 1:
            return action() or ""
        outcome: list[str | CrlcError | None] = [None]
        if self.is_rank_zero:
            try:
                outcome[0] = action()
            except CrlcError as error:
                dist.broadcast_object_list([error])
                raise
        dist.broadcast_object_list(outcome)
        if isinstance(outcome[0], CrlcError):
            raise outcome[0]
        return outcome[0] or ""

    @staticmethod
    def _collective_device() -> torch.device:
        return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


SINGLE_PROCESS = World()


@dataclass(frozen=True)
class ComputeContext:
    """The device, the processes and the precision of a run."""

    device: torch.device
    world: World = SINGLE_PROCESS
    dtype: torch.dtype = torch.float32


@contextmanager
def join_processes(device: str) -> Iterator[World]:
    """Join torchrun's process group, or yield `SINGLE_PROCESS` if torchrun did not start this process.

    Raises:
        UsageError: the device cannot be used by several processes, or there are more processes than GPUs.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield SINGLE_PROCESS
        return
    backend = "nccl" if device == "cuda" else "gloo"
    if device == "mps":
        raise UsageError(
            "device='mps' is not allowed with several processes.",
            advice="Use device cpu, or a single process.",
            parameters=("device", "devices"),
        )
    if backend == "nccl":
        own, available = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if own >= available:
            raise UsageError(f"devices={own + 1} is not allowed: this computer has {available} GPUs.")
        torch.cuda.set_device(own)
    dist.init_process_group(backend, timeout=_COLLECTIVE_TIMEOUT)
    try:
        yield World(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def synchronize_batch_norms(network: nn.Module, world: World) -> None:
    """Make the batch norms of a network use the statistics of all processes.

    It replaces modules, so it must be called before an optimizer holds their parameters.
    """
    if world.size == 1:
        return
    from timm.layers import convert_sync_batchnorm  # torch's own conversion loses the activation in timm's batch norms

    convert = convert_sync_batchnorm if next(network.parameters()).is_cuda else _convert_batch_norms
    for name, child in network.named_children():
        setattr(network, name, convert(child))


def synchronize_gradients(network: nn.Module, world: World) -> nn.Module:
    """Wrap a network in DistributedDataParallel, or return it unchanged for a single process."""
    if world.size == 1:
        return network
    # A head without a loss gets no gradient: DDP must not wait for it.
    return nn.parallel.DistributedDataParallel(network, broadcast_buffers=False, find_unused_parameters=True)


class CpuSyncBatchNorm2d(nn.BatchNorm2d):
    """Batch norm over the batches of all processes, for CPUs: torch's SyncBatchNorm supports GPUs only."""

    def __init__(self, original: nn.BatchNorm2d) -> None:
        """Copy weights and statistics, and the dropout and activation that timm's batch norms contain."""
        super().__init__(original.num_features, original.eps, original.momentum, original.affine)
        self.to(original.weight)
        own = self.state_dict()
        self.load_state_dict({name: value for name, value in original.state_dict().items() if name in own})
        self.train(original.training)
        self._following = [getattr(original, name) for name in ("drop", "act") if hasattr(original, name)]

    def forward(self, input: Tensor) -> Tensor:
        """Normalise a batch, (B, C, H, W)."""
        output = self._normalize(input) if self.training else super().forward(input)
        for module in self._following:
            output = module(output)
        return output

    def _normalize(self, input: Tensor) -> Tensor:
        count = input.numel() // input.shape[1] * dist.get_world_size()
        dims = (0, 2, 3)
        mean: Tensor = _SumOverProcesses.apply(input.sum(dim=dims)) / count
        centred = input - mean[:, None, None]
        variance: Tensor = _SumOverProcesses.apply(centred.square().sum(dim=dims)) / count
        if self.running_mean is not None and self.running_var is not None and self.momentum is not None:
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * count / (count - 1), self.momentum)
                if self.num_batches_tracked is not None:
                    self.num_batches_tracked += 1
        scaled = centred * (variance + self.eps).rsqrt()[:, None, None]
        return scaled * self.weight[:, None, None] + self.bias[:, None, None]


class _SumOverProcesses(torch.autograd.Function):
    """Sum over all processes; its gradient is summed too."""

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


def _convert_batch_norms(network: nn.Module) -> nn.Module:
    for name, child in network.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(network, name, CpuSyncBatchNorm2d(child))
        else:
            _convert_batch_norms(child)
    return network
