"""Memory bank: initial state, random rows and the update of Eq. 10."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from crlc.model.memory_bank import MemoryBank


def test_memory_bank_starts_uniform_and_updates_by_equation_10():
    bank = MemoryBank(10, clusters=4, subheads=2, momentum=0.75, generator=torch.Generator().manual_seed(0))
    assert (bank.probabilities == 0.25).all()
    torch.testing.assert_close(bank.features.norm(dim=1), torch.ones(10))
    before = bank.features.clone()
    positions = torch.tensor([3, 7])
    q = torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0]], [[0, 0, 1, 0], [0, 0, 0, 1]]])
    z = functional.normalize(torch.randn(2, 128, generator=torch.Generator().manual_seed(1)), dim=1)
    bank.update(positions, q, z)
    assert bank.probabilities[0, 3].tolist() == [0.4375, 0.1875, 0.1875, 0.1875]
    torch.testing.assert_close(
        bank.features[positions], functional.normalize(0.75 * before[positions] + 0.25 * z, dim=1)
    )
    unchanged = [0, 1, 2, 4, 5, 6, 8, 9]
    assert (bank.features[unchanged] == before[unchanged]).all()
    assert set(bank.state_dict()) == {"probabilities", "features"}


@pytest.mark.parametrize("clusterable", [None, torch.tensor([1, 4, 5])])
def test_memory_bank_draws_rows_uniformly_and_reproducibly(clusterable: torch.Tensor | None):
    bank = MemoryBank(6, 2, 1, 0.5, torch.Generator().manual_seed(0), clusterable)
    numbers = torch.arange(6.0)
    bank.probabilities[:] = torch.stack([numbers, 10 - numbers], dim=1)  # every row tells its image
    bank.features[:] = numbers[:, None].expand(-1, bank.features.shape[1])
    count = 6_000
    q, z = bank.draw_rows(count, torch.Generator().manual_seed(1))
    assert q.shape == (1, count, 2)
    torch.testing.assert_close(q.sum(dim=2), torch.full((1, count), 10.0))
    for drawn, expected in ((q[0, :, 0], range(6) if clusterable is None else [1, 4, 5]), (z[:, 0], range(6))):
        images, counts = drawn.unique(return_counts=True)
        assert images.tolist() == list(expected)
        mean = count / len(images)
        assert (counts - mean).abs().max() < 5 * mean**0.5  # five standard deviations, or more
    again = bank.draw_rows(count, torch.Generator().manual_seed(1))
    other = bank.draw_rows(count, torch.Generator().manual_seed(2))
    assert torch.equal(again[0], q)
    assert torch.equal(again[1], z)
    assert not torch.equal(other[0], q)
