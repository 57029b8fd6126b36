"""The paper's propositions and theorems, each in the form that is true, and counterexamples to what is not.

Numbers are the paper's: see docs/equations.md. All in float64 unless stated; ``TIGHT`` allows for rounding only.
"""

import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

import chimera_ssm as chimera
from chimera_ssm.cpu.availability import disable_kernels
from chimera_ssm.ops.tridiagonal.torch import pivots
from tests import zoo

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
BOUNDED = settings(deadline=None, max_examples=60, derandomize=True)
#: Just below the root 0.9166 of exp(−2Δ) + Δ² = 1: up to there the variance on a line does not grow.
LARGEST_STEP = 0.91


def matrix(topology, weight):
    """A itself, ``[E]`` → ``[T, T]``: row i is the target, column j the source."""
    A = torch.zeros(topology.num_nodes, topology.num_nodes, dtype=weight.dtype)
    for e, (j, i) in enumerate(topology.edge_index.T.tolist()):
        A[i, j] = weight[e]
    return A


def inverse(A):
    return torch.linalg.inv(torch.eye(A.shape[0], dtype=A.dtype) - A)


def series(A, power):
    """``I + A + … + A^power``, term by term."""
    term = total = torch.eye(A.shape[0], dtype=A.dtype)
    for _ in range(power):
        term = A @ term
        total = total + term
    return total


def positive_weights(topology, seed=0):
    """Random weights in (0.1, 1) over the in-degree, ``[E]``."""
    generator = torch.Generator().manual_seed(seed)
    weight = 0.1 + 0.85 * torch.rand(topology.num_edges, generator=generator, dtype=torch.float64)
    return weight / topology.in_degree[topology.edge_index[1]]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def uniform(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def binary_tree(depth):
    """An undirected balanced binary tree with 2**depth − 1 nodes."""
    child = np.arange(1, 2**depth - 1)
    links = np.stack([child, (child - 1) // 2])
    return chimera.Graph(2**depth - 1, np.concatenate([links, links[::-1]], axis=1))


def in_tree(num_nodes, seed=0):
    """A random tree with all edges toward its root: the ancestors of any two parents are disjoint."""
    child = np.arange(1, num_nodes)
    parent = (np.random.default_rng(seed).random(num_nodes - 1) * child).astype(int)
    return chimera.DAG(num_nodes, np.stack([child, parent]))


def star(leaves):
    """Node 0 linked with every other one, both ways."""
    leaf, hub = np.arange(1, leaves + 1), np.zeros(leaves, int)
    return chimera.Graph(leaves + 1, np.stack([np.append(leaf, hub), np.append(hub, leaf)]))


# Section 3.1: the resolvent


def walks(topology, start, length):
    """All walks of ``length`` edges from a node, each as a list of edge numbers."""
    if not length:
        yield []
        return
    for e, (j, i) in enumerate(topology.edge_index.T.tolist()):
        if j == start:
            yield from ([e, *rest] for rest in walks(topology, i, length - 1))


@pytest.mark.parametrize("length", range(5))
def test_powers_of_A_sum_over_paths(length):
    """Proposition 3.2. Entry (i, j) belongs to the walks from j to i; nodes and edges may repeat."""
    graph = zoo.random_graph(6, 9, seed=3, directed=True, loops=True)
    weight = normal(graph.num_edges)
    expected = torch.zeros(6, 6, dtype=torch.float64)
    for j in range(6):
        for walk in walks(graph, j, length):
            i = int(graph.edge_index[1, walk[-1]]) if walk else j
            expected[i, j] += math.prod(weight[e].item() for e in walk)
    assert expected.count_nonzero() > 3
    assert not torch.equal(expected, expected.T) or length == 0
    found = chimera.mask(graph, weight[None], chimera.Neumann(length))
    if length:
        found = found - chimera.mask(graph, weight[None], chimera.Neumann(length - 1))
    torch.testing.assert_close(found[0], expected, **TIGHT)


@pytest.mark.parametrize("lam", [2.0, 0.98, -1.5])
@pytest.mark.parametrize("name", ["lines", "grid dag 5x8", "undirected line 63", "directed graph with loops"])
def test_lambda_is_a_rescaling_of_weights(name, lam):
    """Definition 3.1: (λI − A)⁻¹ = (1/λ) (I − A/λ)⁻¹ for every real λ ≠ 0 that is not an eigenvalue."""
    topology = zoo.ZOO[name]
    weight = zoo.bounded_weights(topology)
    expected = torch.linalg.inv(lam * torch.eye(topology.num_nodes, dtype=torch.float64) - matrix(topology, weight))
    torch.testing.assert_close(chimera.mask(topology, weight[None] / lam)[0] / lam, expected, **TIGHT)


def test_neumann_series_converges_by_the_spectral_radius_not_the_norm():
    """Equation 7 needs no norm below 1: a star's A has 2-norm above 1, and its series converges all the same."""
    graph = star(9)
    weight = _saturated(graph)
    A = matrix(graph, weight)
    assert torch.linalg.matrix_norm(A, 2) > 1
    L = chimera.mask(graph, weight[None])[0]
    errors = [(series(A, n) - L).abs().max().item() for n in (50, 200, 400)]
    assert errors[0] > 1e-2  # it converges as slowly as 0.95ⁿ
    assert errors[2] < 1e-6


# Section 3.2: the directed line


def test_mask_of_the_line_is_the_product_of_its_weights():
    """Proposition 3.3: L_ij = Π_{j<k≤i} a_k for i ≥ j, else 0; a_k enters node k from k − 1."""
    T = 70
    a = normal(T)
    expected = torch.zeros(T, T, dtype=torch.float64)
    for i, j in itertools.product(range(T), repeat=2):
        expected[i, j] = math.prod(a[j + 1 : i + 1].tolist()) if i >= j else 0
    torch.testing.assert_close(chimera.mask(chimera.Line(T), a[None, 1:])[0], expected, **TIGHT)


@pytest.mark.parametrize("T", [1, 2, 33, 200])
def test_mix_on_the_line_is_the_recurrence(T):
    """Equations 2, 3 and 5: h_t = a_t h_{t−1} + b_t B_t v_t and y_t = C_tᵀ h_t."""
    N, P = 3, 4
    a, b = uniform(T, seed=1), uniform(T, seed=2)
    B, C, V = normal(T, N, seed=3), normal(T, N, seed=4), normal(T, P, seed=5)
    h, expected = torch.zeros(N, P, dtype=torch.float64), []
    for t in range(T):
        h = a[t] * h + b[t] * torch.outer(B[t], V[t])
        expected.append(C[t] @ h)
    found = chimera.mix(chimera.Line(T), a[None, 1:], C[None], B[None], V[None], b[None])
    torch.testing.assert_close(found[0], torch.stack(expected), **TIGHT)


# Section 2.1: other models as special cases


def test_linear_attention_is_a_special_case():
    """a = b = 1: y_t = Σ_{s≤t} (C_t · B_s) v_s."""
    T, H, line = 40, 2, chimera.Line(40)
    C, B, V = normal(H, T, 3, seed=1), normal(H, T, 3, seed=2), normal(H, T, 4, seed=3)
    weight, scale = chimera.linear_attention(line, H)
    expected = torch.stack([torch.cumsum(B[h, :, :, None] * V[h, :, None, :], 0) for h in range(H)])
    expected = torch.einsum("htn,htnp->htp", C, expected)
    torch.testing.assert_close(chimera.mix(line, weight, C, B, V, scale), expected, **TIGHT)


def test_retnet_is_a_special_case():
    """a = γ of the head, b = 1: y_t = Σ_{s≤t} γ^{t−s} (C_t · B_s) v_s."""
    T, line = 40, chimera.Line(40)
    decay = torch.tensor([0.9, 0.99], dtype=torch.float64)
    C, B, V = normal(2, T, 3, seed=1), normal(2, T, 3, seed=2), normal(2, T, 4, seed=3)
    weight, scale = chimera.retnet(line, decay)
    lag = torch.arange(T)[:, None] - torch.arange(T)
    D = torch.where(lag >= 0, decay[:, None, None] ** lag.clamp(min=0), 0.0)
    torch.testing.assert_close(chimera.mix(line, weight, C, B, V, scale), (D * (C @ B.mT)) @ V, **TIGHT)


@pytest.mark.parametrize("T", [1, 50, 100])
def test_line_with_target_steps_is_mamba2(T):
    """Against the Mamba-2 of `transformers` with A = −1, values and all gradients.

    That one computes in float32: the tolerance is 2e-4 of the largest entry of each tensor.
    """
    mamba2 = pytest.importorskip("transformers.models.mamba2.modeling_mamba2")
    Z, H, G, N, P, line = 2, 4, 2, 8, 6, chimera.Line(T)
    steps = torch.nn.functional.softplus(normal(Z, T, H, seed=1) - 1)
    B, C, V = normal(Z, T, G, N, seed=2), normal(Z, T, G, N, seed=3), normal(Z, T, H, P, seed=4)
    leaves = [x.float().requires_grad_() for x in (steps, B, C, V)]
    Δ, B, C, V = leaves
    theirs = mamba2.mamba2_chunk_scan(V, Δ, -torch.ones(H), B, C, chunk_size=16)
    weight, scale = chimera.mamba2(line, Δ.transpose(1, 2))
    ours = chimera.mix(line, weight, C.transpose(1, 2), B.transpose(1, 2), V.transpose(1, 2), scale).transpose(1, 2)
    grad = normal(*theirs.shape, seed=5).float()
    pairs = zip(
        [ours, *torch.autograd.grad(ours, leaves, grad)],
        [theirs, *torch.autograd.grad(theirs, leaves, grad)],
        strict=True,
    )
    for found, expected in pairs:
        assert found.shape == expected.shape
        assert (found - expected).abs().max() < 2e-4 * expected.abs().max()


# Section 3.3: step sizes and row normalisation


class Spy(chimera.OnGraph):
    """A kind that keeps the steps it is given."""

    seen: ClassVar[list] = []

    def terms(self, topology, steps, *others):
        self.seen.append(steps)
        return super().terms(topology, steps, *others)


def test_steps_are_positive_and_belong_to_one_node():
    """Equation 10 names a convolution and Swish for Δ as well. Swish may be negative, and A would exceed 1.

    Here Δ is a softplus of the node's own projection: positive, and no neighbour enters.
    """
    torch.manual_seed(0)
    mixer, grid = chimera.Chimera(16, kind=Spy()), chimera.Grid((3, 3))
    x = 10 * torch.randn(1, 9, 16)
    Spy.seen.clear()
    mixer(x, grid)
    x[:, 4] += 1
    mixer(x, grid)
    first, second = Spy.seen
    assert first.min() > 0
    projections = mixer.in_proj(x)[..., -mixer.splits[-1] :]
    assert torch.nn.functional.silu(projections).min() < -0.1
    assert (first != second).flatten(0, 2).any(0).nonzero().flatten().tolist() == [4]


def test_heads_have_64_channels():
    """Table 8 has 12 heads of 64 in a model 768 wide; a block that expands to 1536 has 24 of them."""
    with torch.device("meta"):
        assert chimera.Chimera(768).num_heads == 24


@st.composite
def graphs_with_steps(draw):
    """A graph, and for each node Δ¹, Δ² and Ψ of any size from 1e-8 to 1e8, Ψ of either sign, as ``[3, 1, T]``."""
    num_nodes = draw(st.integers(1, 16))
    graph = zoo.random_graph(
        num_nodes, draw(st.integers(0, 40)), draw(st.integers(0, 999)), draw(st.booleans()), draw(st.booleans())
    )
    spread, seed = draw(st.floats(0, 8)), draw(st.integers(0, 999))
    steps = 10 ** (spread * (2 * uniform(3, 1, num_nodes, seed=seed) - 1))
    steps[2] *= draw(st.sampled_from([-1, 1]))
    return graph, steps


@BOUNDED
@given(graphs_with_steps(), st.sampled_from([0.5, 0.95, 0.999]))
def test_row_normalisation_bounds_the_resolvent_for_any_data(drawn, gamma):
    """Proposition 3.4 made true: ‖A‖∞ and the spectral radius are at most γ, ‖L‖∞ ≤ 1/(1−γ), L ≥ 0. Always."""
    graph, (delta, delta_source, psi) = drawn
    weight, _ = chimera.graph_adjacency(graph, delta, psi, delta_source=delta_source, gamma=gamma)
    A = matrix(graph, weight[0])
    rounding = 1 + 1e-9
    assert weight.isfinite().all()
    assert A.min() >= 0
    assert A.sum(1).max() <= gamma * rounding
    assert torch.linalg.eigvals(A).abs().max() <= gamma * rounding
    L = chimera.mask(graph, weight)[0]
    assert L.min() >= -1e-12
    assert L.abs().sum(1).max() <= rounding / (1 - gamma)


def _saturated(graph, gamma=0.95):
    """Weights of the row normalisation with exp(−Ψ) next to nothing: every row sums to γ."""
    steps = torch.full((1, graph.num_nodes), 0.1, dtype=torch.float64)
    return chimera.graph_adjacency(graph, steps, steps + 50, gamma=gamma).weight[0]


@pytest.mark.parametrize("leaves", [2, 9, 100])
def test_row_normalisation_does_not_bound_the_two_norm(leaves):
    """Proposition 3.4 says ‖A‖ < 1, as an operator norm. On a star with n leaves ‖A‖₂ = γ √n."""
    graph = star(leaves)
    A = matrix(graph, _saturated(graph))
    torch.testing.assert_close(A.sum(1), torch.full((leaves + 1,), 0.95, dtype=torch.float64), **TIGHT)
    assert torch.linalg.matrix_norm(A, 2).item() == pytest.approx(0.95 * math.sqrt(leaves))
    assert torch.linalg.matrix_norm(A, 2) > 1


def test_gaussian_rows_of_the_proof_have_two_norm_near_two_gamma():
    """The proof's own model (equation 19) with γ = 0.95: the 2-norm is near 2γ, not below 1.

    A vector that was fixed beforehand, as in equation 20, does not see it.
    """
    T, gamma = 400, 0.95
    noise = normal(T, T)
    A = gamma * noise / (noise.norm(dim=1, keepdim=True) + 1)
    assert torch.linalg.matrix_norm(A, 2).item() == pytest.approx(2 * gamma, rel=0.1)
    fixed = torch.full((T,), T**-0.5, dtype=torch.float64)
    assert (A @ fixed).norm() < 1.1 * gamma
    assert (noise.norm(dim=1) >= math.sqrt(T) / 2).all()  # fails with probability at most T exp(−T/8) = 8e-20


# Section 4.1: acyclic graphs


@pytest.mark.parametrize("name", zoo.ACYCLIC)
def test_A_of_a_dag_is_nilpotent(name):
    """Proposition 4.1 with K = ℓ + 1: A^ℓ ≠ 0 and A^(ℓ+1) = 0 exactly, ℓ the edges of the longest path."""
    dag = zoo.ACYCLIC[name]
    weight = positive_weights(dag)
    A, longest = matrix(dag, weight), dag.longest_path
    last = torch.linalg.matrix_power(A, longest)
    assert last.max() > 0
    assert not (A @ last).any()
    torch.testing.assert_close(chimera.mask(dag, weight[None])[0], series(A, longest), **TIGHT)


def test_the_length_that_counts_is_the_longest_path_not_the_largest_distance():
    """A complete DAG: every pair is one edge apart (diameter 1), and yet A^(T−1) ≠ 0."""
    dag = zoo.complete_dag(7)
    assert (dag.diameter, dag.longest_path) == (1, 6)
    weight = positive_weights(dag)
    L = chimera.mask(dag, weight[None])
    assert (chimera.mask(dag, weight[None], chimera.Neumann()) - L).abs().max() > 0.1
    torch.testing.assert_close(chimera.mask(dag, weight[None], chimera.Neumann(6)), L, **TIGHT)


@pytest.mark.parametrize("name", ["line 63", "grid dag 5x8", "dag 63", "dag with isolated nodes", "complete dag"])
@pytest.mark.parametrize("normalize", ["sqrt", "mean"])
def test_mix_on_a_dag_is_the_graph_recurrence(name, normalize):
    """Propositions 4.2 and 4.3: h_i = Σ_{j∈p(i)} A_ij h_j + B̄_i v_i, with a plus; it starts at roots, h = B̄ v."""
    dag = zoo.ACYCLIC[name]
    T, N, P = dag.num_nodes, 3, 2
    delta = 0.05 + 0.4 * uniform(T)
    C, B, V = normal(1, T, N, seed=1), normal(1, T, N, seed=2), normal(1, T, P, seed=3)
    parents = [[] for _ in range(T)]
    for j, i in dag.edge_index.T.tolist():
        parents[i].append(j)
    h, expected = {}, torch.zeros(T, P, dtype=torch.float64)
    for i in dag.topological_order.tolist():
        steps = [(delta[i] + delta[j]) / 2 for j in parents[i]]
        divisor = len(steps) ** (0.5 if normalize == "sqrt" else 1)
        injected = torch.outer(B[0, i], V[0, i])
        if not parents[i]:
            h[i] = delta[i] * injected
        else:
            terms = [torch.exp(-s) * h[j] + s * injected for s, j in zip(steps, parents[i], strict=True)]
            h[i] = sum(terms) / divisor
        expected[i] = C[0, i] @ h[i]
    weight, scale = chimera.dag_adjacency(dag, delta[None], normalize=normalize)
    torch.testing.assert_close(chimera.mix(dag, weight, C, B, V, scale)[0], expected, **TIGHT)


def test_roots_inject_with_their_own_step():
    """The paper's Σ_{j∈p(i)} Δ_ij is empty at a root and would silence the first word of every text."""
    line = chimera.Line(5)
    delta = 0.1 + uniform(1, 5)
    assert chimera.dag_adjacency(line, delta).scale[0, 0] == delta[0, 0]
    grid = chimera.GridDAG((2, 3))
    per_axis = 0.1 + uniform(1, 2, 6)
    torch.testing.assert_close(chimera.grid_adjacency(grid, per_axis).scale[0, 0], per_axis[0, :, 0].mean())
    weight, scale = chimera.mamba2(line, delta)
    y = chimera.mix(line, weight, torch.ones(1, 5, 1), torch.ones(1, 5, 1), torch.eye(5)[None, :, :1].double(), scale)
    assert (y > 0).all()  # the first node reaches every node


# Proposition 4.3: what the normalisers do to the variance


def variances(dag, delta, normalize, step="mean"):
    """``s_i = Σ_j L_ij² β_j²``, and L."""
    weight, scale = chimera.dag_adjacency(dag, delta[None], normalize=normalize, step=step)
    L = chimera.mask(dag, weight)[0]
    return L.square() @ scale[0].square(), L


@pytest.mark.parametrize("normalize", ["sqrt", "mean"])
def test_variance_is_N_times_s(normalize):
    """Var(C_iᵀ h_i) = N Σ_j L_ij² β_j² for standard normal C_i and B_j v_j.

    Monte-Carlo with 40,000 samples: an estimate is off by less than 1 % (one standard deviation), and 5 % are
    allowed. At N = 4 the variance itself, which the paper bounds by 1, is four times as large as s.
    """
    samples, N, dag = 40_000, 4, chimera.GridDAG((3, 3))
    delta = 0.05 + 0.3 * uniform(9)
    s, _ = variances(dag, delta, normalize)
    weight, scale = chimera.dag_adjacency(dag, delta[None], normalize=normalize)
    C, B = normal(samples, 1, 9, N, seed=1), normal(samples, 1, 9, N, seed=2)
    V = torch.ones(1, 9, 1, dtype=torch.float64)
    y = chimera.mix(dag, weight, C, B, V, scale)[:, 0, :, 0]
    torch.testing.assert_close(y.var(0) / N, s, rtol=0.05, atol=0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [chimera.Line, in_tree], ids=["line", "in-tree"])
def test_sqrt_normaliser_bounds_variance_where_paths_do_not_join(make, seed):
    """s ≤ 1 if any two parents have disjoint ancestors, Δ_ij ≤ 0.86/|p(i)| and Δ ≤ 1 at roots."""
    dag = make(60)
    degree = dag.in_degree
    most = torch.where(degree > 0, 0.86 / degree.clamp(min=1), torch.ones(60)).double()
    at_bound, _ = variances(dag, most, "sqrt", step="target")
    assert at_bound.max() == 1  # at the roots
    below, _ = variances(dag, most * uniform(60, seed=seed), "sqrt", step="target")
    assert below.max() <= 1
    mean_steps, _ = variances(dag, uniform(60, seed=seed) * most.min(), "sqrt", step="mean")
    assert mean_steps.max() <= 1


def test_sqrt_normaliser_fails_for_large_steps_even_on_a_tree():
    """Proposition 4.3 has no condition on Δ; two roots that join with Δ_ij = 1 give s = 2 + e⁻²."""
    s, _ = variances(chimera.DAG(3, [[0, 1], [2, 2]]), torch.ones(3, dtype=torch.float64), "sqrt")
    assert s[2].item() == pytest.approx(2 + math.exp(-2))


def test_sqrt_normaliser_fails_on_grids():
    """14 × 14 at Δ = 0.01, an ordinary initial step: s is about 1000, not at most 1."""
    s, _ = variances(chimera.GridDAG((14, 14)), torch.full((196,), 0.01, dtype=torch.float64), "sqrt")
    assert 900 < s.max() < 1100


@pytest.mark.parametrize("delta", [0.001, 0.01, 0.1, 0.5, LARGEST_STEP])
@pytest.mark.parametrize(
    "dag",
    [chimera.Line(60), in_tree(60), chimera.GridDAG((14, 14)), zoo.random_dag(60, 150), zoo.complete_dag(30)],
    ids=["line", "in-tree", "grid", "random", "complete"],
)
def test_mean_normaliser_bounds_variance_on_any_dag(dag, delta):
    """s ≤ 1 for Δ ≤ 0.91, equal or not; and every entry of L lies in [0, 1]."""
    T = dag.num_nodes
    for steps in (torch.full((T,), delta, dtype=torch.float64), delta * uniform(T)):
        s, L = variances(dag, steps, "mean")
        assert s.max() <= 1
        assert L.min() >= 0
        assert L.max() <= 1 + 1e-12


def test_resolvent_of_grids_grows_with_sqrt_and_stays_with_mean():
    """At exp(−Δ) = 0.95: 26, 7e2 and 2e7 on grids of 8², 14² and 32² with sqrt, against 1."""
    largest = {}
    for size in (8, 14, 32):
        for normalize in ("sqrt", "mean"):
            grid = chimera.GridDAG((size, size))
            delta = torch.full((1, size * size), -math.log(0.95), dtype=torch.float64)
            weight, _ = chimera.dag_adjacency(grid, delta, normalize=normalize)
            impulse = torch.zeros(1, size * size, 1, dtype=torch.float64)
            impulse[0, 0] = 1
            influence = chimera.solve(grid, weight, impulse)
            assert influence.min() >= 0
            largest[normalize, size] = influence.max().item()
    assert 20 < largest["sqrt", 8] < 30
    assert 600 < largest["sqrt", 14] < 800
    assert 1e7 < largest["sqrt", 32] < 3e7
    assert all(largest["mean", size] <= 1 for size in (8, 14, 32))


# Figures 2 and 3: decomposition into DAGs


@pytest.mark.parametrize(
    "topology", [chimera.UndirectedLine(9), chimera.Grid((4, 5)), chimera.Grid((2, 3, 4))], ids=["line", "2d", "3d"]
)
def test_dags_together_reach_every_pair(topology):
    """Every node reaches every other in at least one of the DAGs, and all of them are needed for that."""
    reach = [chimera.mask(dag, positive_weights(dag)[None])[0] > 0 for dag in topology.dags()]
    assert torch.stack(reach).any(0).all()
    for left_out in range(len(reach)):
        assert not torch.stack(reach[:left_out] + reach[left_out + 1 :]).any(0).all()


def test_sum_over_dags_is_not_the_resolvent_of_the_undirected_graph():
    """Walks that turn back are in no DAG, and the empty walk is in all of them."""
    line = chimera.UndirectedLine(6)
    weight = torch.full((1, line.num_edges), 0.4, dtype=torch.float64)
    whole = chimera.mask(line, weight)[0]
    ahead, back = (chimera.mask(dag, weight[:, : dag.num_edges])[0] for dag in line.dags())
    assert (whole.diagonal() > 1.1).all()
    torch.testing.assert_close((ahead + back).diagonal(), torch.full((6,), 2.0, dtype=torch.float64))
    assert (whole - whole.diag().diag() > (ahead + back).fill_diagonal_(0) - 1e-12).all()


# Section 4.1.2: work


class Work(TorchDispatchMode):
    """Counts the elements that operators write, and the matrix products.

    An operator that works in place counts its other arguments: adding rows to a few nodes touches only those.
    Views cost nothing.
    """

    def __init__(self):
        super().__init__()
        self.elements = self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.products += func.overloadpacket.__name__ in ("mm", "bmm", "addmm", "baddbmm", "matmul")
        aliases = [r.alias_info for r in func._schema.returns]
        if all(alias is None for alias in aliases):
            self.elements += sum(x.numel() for x in tree_leaves(out) if isinstance(x, torch.Tensor))
        elif any(alias is not None and alias.is_write for alias in aliases):
            self.elements += sum(x.numel() for x in tree_leaves(args[1:]) if isinstance(x, torch.Tensor))
        return out


def work_of_solve(topology, solver=None):
    weight, rhs = positive_weights(topology)[None], torch.ones(1, topology.num_nodes, 1, dtype=torch.float64)
    with disable_kernels():  # what compiled kernels do is not seen
        chimera.solve(topology, weight, rhs, solver)  # plans are made once, and are not counted
        with Work() as work:
            chimera.solve(topology, weight, rhs, solver)
    return work.elements


@pytest.mark.parametrize(
    ("small", "large"),
    [
        (chimera.Line(2048), chimera.Line(4096)),
        (chimera.UndirectedLine(2048), chimera.UndirectedLine(4096)),
        (binary_tree(10), binary_tree(11)),
        (chimera.GridDAG((4, 256)), chimera.GridDAG((4, 512))),
    ],
    ids=["line", "undirected line", "tree", "grid strip"],
)
def test_applying_L_is_linear_work(small, large):
    """Proposition 4.4 for L applied to a vector: twice the nodes, less than 2.2 times the work."""
    assert 1.8 < large.num_nodes / small.num_nodes < 2.2
    ratio = work_of_solve(large) / work_of_solve(small)
    assert 1.8 < ratio < 2.2


def test_the_mask_itself_is_quadratic():
    """Proposition 4.4 says L is computed in O(V + E), but on a line half of its T² entries are not zero.

    The dense solver shows that the count of work sees more than linear growth.
    """
    line = chimera.Line(100)
    assert chimera.mask(line, positive_weights(line)[None]).count_nonzero() == 100 * 101 // 2
    assert work_of_solve(chimera.Line(256), chimera.Dense()) > 3.5 * work_of_solve(chimera.Line(128), chimera.Dense())


@pytest.mark.parametrize("longest", [1, 2, 3, 4, 7, 8, 31, 32, 100])
def test_squaring_takes_logarithmically_many_products(longest):
    """Theorem 4.5: 2(⌈log₂(ℓ+1)⌉ − 1) products for L, one to apply it; backward one more, whatever ℓ."""
    line = chimera.Line(longest + 1)
    weight = positive_weights(line)[None].requires_grad_()
    with Work() as forward:
        L = chimera.mask(line, weight, chimera.Squaring())
    assert forward.products == 2 * (math.ceil(math.log2(longest + 1)) - 1) + 1
    with Work() as backward:
        (grad,) = torch.autograd.grad(L, weight, torch.ones_like(L))
    assert backward.products == 1
    A = matrix(line, weight[0].detach())
    torch.testing.assert_close(L[0].detach(), inverse(A), **TIGHT)
    rule = inverse(A).T @ torch.ones_like(A) @ inverse(A).T  # equation 25
    torch.testing.assert_close(grad[0], rule[1:, :-1].diagonal(), **TIGHT)


def test_squaring_is_cubic_work():
    """A product of two T × T matrices takes T³ multiplications: "quadratic" is the memory only."""
    flops = []
    for size in (32, 64):
        dag = chimera.GridDAG((4, size // 4))
        with FlopCounterMode(display=False) as counter:
            chimera.mask(dag, positive_weights(dag)[None], chimera.Squaring())
        flops.append(counter.get_total_flops())
    assert flops[1] >= 8 * flops[0]


# Section 4.2: the truncated series


def reachable(topology):
    """Whether a walk leads from j to i, ``[T, T]``: squares of I + A until nothing is added."""
    reach = matrix(topology, torch.ones(topology.num_edges)) + torch.eye(topology.num_nodes)
    for _ in range(topology.num_nodes.bit_length()):
        reach = (reach @ reach).clamp(max=1)
    return reach > 0


@pytest.mark.parametrize("name", [name for name, topology in zoo.CYCLIC.items() if topology.diameter > 0])
def test_truncation_at_the_diameter_reaches_every_pair(name):
    """Proposition 4.6: with k the largest finite distance L̂ is positive where L is; with k − 1 it is not."""
    topology = zoo.CYCLIC[name]
    weight = positive_weights(topology)[None]
    at_diameter = chimera.mask(topology, weight, chimera.Neumann())[0] > 0
    one_fewer = chimera.mask(topology, weight, chimera.Neumann(topology.diameter - 1))[0] > 0
    assert torch.equal(at_diameter, reachable(topology))
    assert (at_diameter & ~one_fewer).any()


@pytest.mark.parametrize("name", ["undirected line 2", "triangle", "grid 4x6", "dense graph", "molecule"])
def test_truncation_is_only_an_approximation_where_there_are_cycles(name):
    """The introduction writes (I − A)⁻¹ = Σ_{i≤d} Aⁱ. Longer walks are missing: with rows of 0.95, more than 0.1."""
    topology = zoo.CYCLIC[name]
    weight = _saturated(topology)[None]
    missing = chimera.mask(topology, weight) - chimera.mask(topology, weight, chimera.Neumann())
    assert missing.min() > -1e-12
    assert missing.max() > 0.1


@pytest.mark.parametrize("name", zoo.ACYCLIC)
def test_truncation_at_the_longest_path_is_exact(name):
    """Equation 12: on a DAG the series is complete."""
    dag = zoo.ACYCLIC[name]
    weight = zoo.bounded_weights(dag, 2)
    found = chimera.mask(dag, weight, chimera.Neumann(dag.longest_path))
    torch.testing.assert_close(found, chimera.mask(dag, weight), **TIGHT)


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 5, 8])
def test_squared_series_is_the_papers_product(terms):
    """Equation 18: (I + A)(I + A²)…(I + A^p), p the least power of two ≥ k. It is Σ up to 2p − 1, not up to k."""
    graph = zoo.random_graph(12, 18, seed=5)
    weight = _saturated(graph)
    A = matrix(graph, weight)
    unit, last = torch.eye(12, dtype=torch.float64), 2 ** math.ceil(math.log2(terms))
    product, power = unit + A, 1
    while power < last:
        power *= 2
        product = product @ (unit + torch.linalg.matrix_power(A, power))
    found = chimera.mask(graph, weight[None], chimera.Neumann(terms, squared=True))[0]
    torch.testing.assert_close(found, product, **TIGHT)
    torch.testing.assert_close(found, series(A, 2 * last - 1), **TIGHT)
    exactly = chimera.mask(graph, weight[None], chimera.Neumann(terms))[0]
    torch.testing.assert_close(exactly, series(A, terms), **TIGHT)
    assert ((found - exactly).abs().max() > 0.01) == (terms > 1)


@pytest.mark.parametrize("verb", ["mask", "solve"])
def test_gradient_of_the_truncated_series_is_not_the_rule_of_the_inverse(verb):
    """The gradient is that of Σ_{k≤n} Aᵏ; the inverse's rule L̂ᵀ G L̂ᵀ (equation 25) is off by more than 10 %."""
    graph = zoo.molecule(24)
    weight = _saturated(graph)[None].requires_grad_()
    rhs = torch.eye(24, dtype=torch.float64) if verb == "mask" else normal(24, 1, seed=1)
    solver = chimera.Neumann(6)
    if verb == "mask":
        found = chimera.mask(graph, weight, solver)[0]
    else:
        found = chimera.solve(graph, weight, rhs[None], solver)[0]
    g = uniform(*found.shape)
    (grad,) = torch.autograd.grad(found, weight, g)

    A = matrix(graph, weight[0].detach()).requires_grad_()
    (dense,) = torch.autograd.grad(series(A, 6) @ rhs, A, g)
    source, target = graph.edge_index
    torch.testing.assert_close(grad[0], dense[target, source], **TIGHT)
    truncated = series(A.detach(), 6)
    rule = (truncated.T @ g @ (truncated @ rhs).T)[target, source]
    assert (rule - grad[0]).norm() > 0.1 * grad.norm()


# Appendix B.1: the undirected line


@BOUNDED
@given(st.integers(2, 40), st.floats(0, 8), st.integers(0, 999), st.sampled_from([0.5, 0.99, 0.999]))
def test_undirected_line_bounds_two_cycles_and_pivots(T, spread, seed, gamma):
    """Proposition B.1 made true: ab < γ²/4 on each link and pivots of at least (1 + √(1−γ²))/2, for any data."""
    line = chimera.UndirectedLine(T)
    delta, delta_source, psi = 10 ** (spread * (2 * uniform(3, 1, T, seed=seed) - 1))
    weight, _ = chimera.undirected_line_adjacency(line, delta, psi, delta_source=delta_source, gamma=gamma)
    assert weight.isfinite().all()
    product, least = weight[:, : T - 1] * weight[:, T - 1 :], (1 + math.sqrt(1 - gamma**2)) / 2
    assert product.max() < gamma**2 / 4
    assert pivots(product).min() >= least * (1 - 1e-12)
    assert pivots(product.flip(1)).min() >= least * (1 - 1e-12)


@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.99])
def test_symmetric_undirected_line_has_a_bounded_resolvent(gamma):
    """One Δ for both ends: A is symmetric and ‖L‖₂ ≤ 1/(1−γ), whatever the length; near it on a long line."""
    line = chimera.UndirectedLine(300)
    for psi in (uniform(1, 300, seed=1), torch.full((1, 300), 50.0, dtype=torch.float64)):
        weight, _ = chimera.undirected_line_adjacency(line, 0.001 * uniform(1, 300), psi, gamma=gamma)
        L = chimera.mask(line, weight)[0]
        torch.testing.assert_close(L, L.T, **TIGHT)
        norm = torch.linalg.matrix_norm(L, 2).item()
        assert norm <= 1 / (1 - gamma)
    assert norm > 0.9 / (1 - gamma)


def test_the_bound_of_one_third_is_false():
    """Proposition B.1 bounds the sum over all paths by 1/3. With ab = 1/4 on one link it is 4/3 from a node to
    itself and 2/3 to the other; on longer lines it grows like T/2: walks are more than one for each length.
    """
    weight = torch.full((1, 2), 0.5, dtype=torch.float64)
    two = chimera.mask(chimera.UndirectedLine(2), weight)[0]
    expected = torch.tensor([[4, 2], [2, 4]], dtype=torch.float64) / 3
    torch.testing.assert_close(two, expected, **TIGHT)
    for T in (9, 99):
        line = chimera.UndirectedLine(T)
        L = chimera.mask(line, torch.full((1, line.num_edges), 0.5, dtype=torch.float64))
        assert L.max().item() == pytest.approx((T + 1) / 2)
    weight = torch.tensor([2.0, 1 / 8], dtype=torch.float64).repeat_interleave(8)  # ab = 1/4 again
    assert chimera.mask(chimera.UndirectedLine(9), weight[None]).max() > 2**8


def test_undirected_line_of_the_library_exceeds_one_third_too():
    line = chimera.UndirectedLine(50)
    steps = torch.full((1, 50), 0.01, dtype=torch.float64)
    L = chimera.mask(line, chimera.undirected_line_adjacency(line, steps, steps + 10).weight)[0]
    assert (L - L.diag().diag()).max() > 1


def test_link_and_row_constraints_are_incomparable():
    """The appendix calls the bound on two-cycles strictly more expressive than the bound on rows. Each allows
    what the other forbids: rows of γ give ab = γ² > 1/4 on one link, and links allow rows above 1.
    """
    line = chimera.UndirectedLine(2)
    by_rows = _saturated(line)
    assert by_rows.prod() > 1 / 4
    line = chimera.UndirectedLine(3)
    delta = torch.tensor([[0.01, 4.0, 0.01]], dtype=torch.float64)
    by_links = chimera.undirected_line_adjacency(line, delta, delta + 50, delta_source=delta / 4).weight[0]
    assert matrix(line, by_links).sum(1).max() > 1
