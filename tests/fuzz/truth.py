"""The dense float64 truth of the functions, and bounds on the rounding errors of any sound way to compute them.

A solver commits relative errors of the order of eps in every product along a path, so that the error of L is bounded
by ``eps · |L| K |L|``, with K the moduli of the factors of I − A. All other operations are sums of products, bounded by
the same sums of moduli. So the bound of a value, or of a gradient, is the same expression with moduli in the place of
numbers, and ``M = |L| K |L|`` in the place of L: both are computed by one model.
"""

from types import SimpleNamespace

import numpy as np
import torch

from chimera_ssm.ops import Neumann, SparseLU
from chimera_ssm.ops.reference import reference_matrix, reference_mix, reference_series
from chimera_ssm.ops.select import exact_solver


class _Resolvent(torch.autograd.Function):
    """X, given as a function of A whose gradient is ``Xᵀ G Xᵀ``, as that of (I − A)⁻¹ is."""

    @staticmethod
    def forward(ctx, A, X):
        ctx.save_for_backward(X)
        return X.clone()

    @staticmethod
    def backward(ctx, grad):
        (X,) = ctx.saved_tensors
        return X.mT @ grad @ X.mT, None


def inverse(topology, matrix):
    """Part by part, by NumPy, one matrix after the other: batched factorisations of PyTorch depend on its threads.

    A step of Newton's iteration makes small entries as accurate as large ones, and zeros between nodes without a path.
    """
    matrix = matrix.detach().numpy()
    found, start = np.zeros_like(matrix), 0
    for size in topology.part_sizes.tolist():
        block = (..., slice(start, start + size), slice(start, start + size))
        X = np.linalg.inv(matrix[block])
        found[block] = X + X @ (np.eye(size) - matrix[block] @ X)
        start += size
    return torch.from_numpy(found)


def resolvent(topology, weight, solver):
    """``(I − A)⁻¹``, or what the solver puts in its place."""
    if isinstance(solver, Neumann):
        return reference_series(topology, weight, solver.highest_powers(topology))
    A = reference_matrix(topology, weight)
    return _Resolvent.apply(A, inverse(topology, torch.eye(topology.num_nodes) - A))


def amplification(topology, weight, solver, original, unbounded):
    """M: the error of L in units of eps, see above; a function of the moduli of the weights.

    On acyclic topologies, and where absolute row sums are below one, ``R = (I − |A|)⁻¹`` is positive and bounds |L|.
    Substitution in topological order has ``K = I + |A|``; sparse factors have entries for whole paths, sums
    of which R bounds. With pivoting K is known by its largest entry only.
    """
    if isinstance(solver, Neumann):
        powers = solver.highest_powers(topology)
        return (1 + max(powers)) * reference_series(topology, weight, powers)
    A, unit = reference_matrix(topology, weight), torch.eye(topology.num_nodes, dtype=torch.float64)
    solver = exact_solver(topology)[0] if solver is None else solver
    if topology.is_acyclic or (isinstance(solver, SparseLU) and not unbounded):
        R = inverse(topology, unit - A).abs()  # positive but for what rounding leaves where there is no path
        return _Resolvent.apply(A, R @ (R if isinstance(solver, SparseLU) else unit + A.detach()) @ R)
    L, part = resolvent(topology, original, None).detach().abs(), torch.from_numpy(topology._part)
    K = (part[:, None] == part) * (unit + A.detach()).amax((-2, -1), keepdim=True)
    return _Resolvent.apply(A, L @ K @ L)


def evaluate(function, resolvents, given):
    """A function as an expression in L and the tensors."""
    if function == "mask":
        return resolvents[0]
    if function == "solve":
        return resolvents[0] @ given.rhs
    terms = zip(resolvents, given.C, given.B, given.scale, strict=True)
    return sum(reference_mix(L, C, B, given.V, scale) for L, C, B, scale in terms)


def truth_and_bounds(case, given, grad):
    """Values and gradients of all tensors, and for each the bound of its error in units of eps."""
    results = []
    for moduli in (False, True):
        leaves = {}

        def leaf(x, moduli=moduli, leaves=leaves):
            if x is None:
                return None
            if id(x) not in leaves:
                value = x.detach().double()
                leaves[id(x)] = (value.abs() if moduli else value).requires_grad_()
            return leaves[id(x)]

        tensors = SimpleNamespace(**{
            name: [leaf(x) for x in value] if isinstance(value, list) else leaf(value)
            for name, value in vars(given).items()
        })  # fmt: skip
        resolvents = [
            amplification(t, w, case.solver, original, unbounded=case.family == "pivoting")
            if moduli
            else resolvent(t, w, case.solver)
            for t, w, original in zip(case.topologies, tensors.weight, given.weight, strict=True)
        ]
        y = evaluate(case.function, resolvents, tensors)
        along = grad.detach().double()
        found = torch.autograd.grad(
            y + 0 * sum(x.sum() for x in leaves.values()), list(leaves.values()), along.abs() if moduli else along
        )
        results.append((y.detach(), dict(zip(leaves, found, strict=True))))
    return results
