"""The projection between a frozen backbone and the heads, against scikit-learn's principal components."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from crlc.model.projection import Projection, decompose_with_mrrr


@pytest.fixture
def vectors() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(12, 12, generator=generator)
    return 0.02 * torch.randn(200, 12, generator=generator) @ mixing + 0.3


def fit_projection(vectors: torch.Tensor, components: int = 5) -> Projection:
    projection = Projection(12, components)
    assert not projection.is_fitted
    projection.fit(lambda: vectors.split(37))
    assert projection.is_fitted
    return projection


def test_projection_matches_centred_normalised_pca_with_one_scale(vectors: torch.Tensor):
    x = fit_projection(vectors)(vectors)
    centred = vectors - vectors.mean(dim=0)
    unit = (centred / centred.norm(dim=1, keepdim=True)).numpy()
    expected = PCA(5).fit_transform(unit)
    expected /= expected.std()
    for column in range(5):  # the sign of a component is arbitrary
        np.testing.assert_allclose(x[:, column].abs().numpy(), np.abs(expected[:, column]), rtol=1e-3, atol=1e-4)
    assert x.std(unbiased=False).item() == pytest.approx(1, rel=1e-4)
    torch.testing.assert_close(x.mean(dim=0), torch.zeros(5), atol=1e-5, rtol=0)


def test_projection_is_independent_of_chunks_and_survives_a_checkpoint(vectors: torch.Tensor):
    one, many = Projection(12, 5), fit_projection(vectors)
    one.fit(lambda: [vectors])
    torch.testing.assert_close(one(vectors).abs(), many(vectors).abs(), rtol=1e-4, atol=1e-5)
    again = Projection(12, 5)
    again.load_state_dict(many.state_dict())
    assert (again(vectors) == many(vectors)).all()


def test_projection_of_identical_vectors_is_finite():
    x = fit_projection(torch.full((40, 12), 0.7))(torch.full((3, 12), 0.7))
    assert torch.isfinite(x).all()


def test_mrrr_decomposition_matches_eigh(vectors: torch.Tensor):
    few = vectors[:4] - vectors[:4].mean(dim=0)
    symmetric = (few.T @ few).double()  # most of its eigenvalues are zero
    values, axes = decompose_with_mrrr(symmetric)
    expected, expected_axes = torch.linalg.eigh(symmetric)
    torch.testing.assert_close(values, expected)
    same = (axes.T @ expected_axes).abs()[-3:, -3:]
    torch.testing.assert_close(same, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-6)
