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


def make_numbered_bank(clusterable: torch.Tensor | None = None) -> MemoryBank:
    """Return a bank of six images, in which every row holds the number of its image."""
    bank = MemoryBank(6, 2, 1, 0.5, torch.Generator().manual_seed(0), clusterable)
    numbers = torch.arange(6.0)
    bank.probabilities[:] = torch.stack([numbers, 10 - numbers], dim=1)
    bank.features[:] = numbers[:, None].expand(-1, bank.features.shape[1])
    return bank


@pytest.mark.parametrize("clusterable", [None, torch.tensor([1, 4, 5])])
def test_memory_bank_draws_rows_uniformly_and_reproducibly(clusterable: torch.Tensor | None):
    bank, generator, draws = make_numbered_bank(clusterable), torch.Generator().manual_seed(1), 6_000
    drawn_q, drawn_z = zip(*(bank.draw_rows(1, generator, torch.tensor([4])) for _ in range(draws)), strict=True)
    others = [0, 1, 2, 3, 5]
    for drawn, expected in (
        (torch.cat(drawn_q, dim=1)[0, :, 0], others if clusterable is None else [1, 5]),
        (torch.cat(drawn_z)[:, 0], others),
    ):
        images, counts = drawn.unique(return_counts=True)
        assert images.tolist() == expected
        mean = draws / len(images)
        assert (counts - mean).abs().max() < 5 * mean**0.5  # five standard deviations, or more
    first, again, other = (
        bank.draw_rows(3, torch.Generator().manual_seed(seed), torch.tensor([4]))[1] for seed in (1, 1, 2)
    )
    assert torch.equal(again, first)
    assert not torch.equal(other, first)


@pytest.mark.parametrize("count", [3, 4, 4096])
def test_memory_bank_draws_every_other_row_at_most_once(count: int):
    clusterable = torch.tensor([1, 4, 5])
    q, z = make_numbered_bank(clusterable).draw_rows(count, torch.Generator().manual_seed(3), torch.tensor([2, 4]))
    assert len(z) == len(z[:, 0].unique()) == min(count, 4)  # six images without the two of the batch
    assert set(z[:, 0].tolist()) <= {0, 1, 3, 5}
    assert sorted(q[0, :, 0].tolist()) == [1, 5]
