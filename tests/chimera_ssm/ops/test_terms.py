"""Terms of a mix."""

import torch

import chimera_ssm as chimera
from chimera_ssm.ops.reference import reference_mask
from chimera_ssm.ops.terms import Term, pack_terms, unpack_terms
from tests import zoo


def terms():
    topologies = [chimera.Line(6), chimera.GridDAG((2, 3))]
    for k, topology in enumerate(topologies):
        C, B = torch.randn(2, 1, 1, 6, 4, dtype=torch.float64)
        scale = None if k else torch.rand(1, 3, 6, dtype=torch.float64)
        yield Term(topology, zoo.bounded_weights(topology, 1, 3, seed=k), C, B, scale, "sweep")


def test_terms_are_unpacked_and_packed_again():
    several = list(terms())
    topologies, tensors = unpack_terms(several, torch.randn(1, 3, 6, 5, dtype=torch.float64))
    again = pack_terms("sweep", topologies, tuple(tensors))
    for found, term in zip(again, several, strict=True):
        assert (found.topology, found.algorithm) == (term.topology, term.algorithm)
        assert all(getattr(found, name) is getattr(term, name) for name in ("weight", "C", "B"))
    assert again[0].scale is several[0].scale
    assert torch.equal(again[1].scale, torch.ones(1, 3, 6, dtype=torch.float64))


def test_the_resolvent_is_that_of_the_solver_or_of_the_algorithm():
    rhs = torch.randn(3, 6, 2, dtype=torch.float64)
    for term in terms():
        expected = reference_mask(term.topology, term.weight[0]) @ rhs
        torch.testing.assert_close(term.resolvent.solve(rhs), expected)
        term = Term(term.topology, term.weight, term.C, term.B, None, "dense", chimera.Dense())
        torch.testing.assert_close(term.resolvent.solve(rhs), expected)
