"""Random calls of the functions: everything about a case follows from an integer."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch

import chimera_ssm as chimera
from chimera_ssm.ops.reference import reference_matrix
from chimera_ssm.ops.select import exact_solver
from tests.fuzz.topologies import ACYCLIC, CYCLIC, EDGELESS, draw_sizes, draw_topology

#: Families of cases, and how often they are drawn: bounded weights or acyclic topologies; several topologies in one
#: mix, some without edges; a dimension of size zero; weights for which I − A is well conditioned but not dominant.
#: Cases of the first in which PyTorch factorises large matrices are a family of their own, "large".
FAMILIES = {"usual": 0.85, "edgeless": 0.05, "empty": 0.05, "pivoting": 0.05}
_SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 48)
_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Case:
    """A call of a function, with all that is not a tensor.

    Attributes:
        seed: from which everything is drawn.
        family: one of `FAMILIES`, or ``"large"``.
        function: ``"mask"``, ``"solve"`` or ``"mix"``.
        topologies: on the same nodes; one unless the function is ``"mix"``.
        solver: as the function takes it.
        form: of a mix, ``"mask"`` or ``"state"`` where it is forced.
        engine: ``"kernels"``, ``"plain"`` PyTorch, or ``"operators"``.
        divided: whether lines and states are divided into short chunks and segments.
        mode: ``"grad"``, ``"no_grad"`` or ``"inference"``.
    """

    seed: int
    family: str
    function: str
    topologies: tuple
    solver: chimera.Solver | None
    form: str | None
    engine: str
    divided: bool
    mode: str

    def __str__(self):
        options = [
            f"solver {self.solver}" if self.solver else "",
            f"{self.form} form" if self.form else "",
            self.engine,
            "divided" if self.divided else "",
            self.mode if self.mode != "grad" else "",
        ]
        on = ", ".join(map(str, self.topologies))
        return f"{self.family}: {self.function} on {on}; " + ", ".join(o for o in options if o)

    def tensors(self):
        """The arguments, and the incoming gradient for results of a shape and dtype."""
        draw = _Tensors(self)
        return draw.arguments(), draw.gradient


def draw_case(seed):
    """The case of a seed."""
    rng = np.random.default_rng([seed, 0])
    family = str(rng.choice(list(FAMILIES), p=list(FAMILIES.values())))
    function = "mix" if family == "edgeless" else str(rng.choice(["mask", "solve", "mix"], p=[0.15, 0.25, 0.6]))
    sizes = draw_sizes(rng)
    several = function == "mix" and (family == "edgeless" or rng.random() < 0.3)
    if family == "edgeless":
        kinds = (*EDGELESS, *ACYCLIC) if rng.random() < 0.5 else EDGELESS
    elif family == "pivoting":
        kinds = CYCLIC
    else:
        kinds = (ACYCLIC, CYCLIC, (*ACYCLIC, *CYCLIC, *EDGELESS))[rng.choice(3, p=[0.45, 0.35, 0.2])]
    topologies = [draw_topology(rng, sizes, kinds) for _ in range(rng.integers(2, 5) if several else 1)]
    if several and rng.random() < 0.3:
        topologies[-1] = topologies[0] if rng.random() < 0.5 else topologies[0].flip()
    if family == "usual" and not any(t.num_edges for t in topologies):
        del topologies[1:]
    solver = _draw_solver(rng, topologies) if family != "pivoting" else (None, chimera.Dense())[rng.integers(2)]
    return Case(
        seed=seed,
        family="large" if family == "usual" and _is_large(topologies, solver) else family,
        function=function,
        topologies=tuple(topologies),
        solver=solver,
        form=(None, "mask", "state")[rng.integers(3)] if function == "mix" else None,
        engine=str(rng.choice(["kernels", "plain", "operators"], p=[0.65, 0.25, 0.1])),
        divided=bool(rng.random() < 0.3),
        mode=str(rng.choice(["grad", "no_grad", "inference"], p=[0.9, 0.05, 0.05])),
    )


def _is_large(topologies, solver):
    """Whether PyTorch factorises large matrices."""
    solvers = [exact_solver(t)[0] if solver is None else solver for t in topologies]
    pairs = zip(topologies, solvers, strict=True)
    return any(isinstance(s, chimera.Dense) and not t.is_acyclic and t.part_sizes.max() >= 128 for t, s in pairs)


def _draw_solver(rng, topologies):
    if rng.random() < 0.4:
        return None
    terms = None if rng.random() < 0.5 else int(rng.integers(0, 9))
    solvers = [
        chimera.Dense(), chimera.Sweep(), chimera.SparseLU(), chimera.Squaring(),
        chimera.Neumann(terms, squared=bool(rng.integers(2))),
    ]  # fmt: skip
    fitting = [s for s in solvers if all(s.unsupported_reason(t) is None and _has_truth(s, t) for t in topologies)]
    return fitting[rng.integers(len(fitting))]


def _has_truth(solver, topology):
    """Whether the dense truth is affordable: that of a series is a matrix product for each term."""
    terms = max(solver.highest_powers(topology)) if isinstance(solver, chimera.Neumann) else 0
    return terms * topology.num_nodes**3 < 3e7


class _Tensors:
    """Draws the tensors of a case."""

    def __init__(self, case):
        self.case, self.rng = case, np.random.default_rng([case.seed, 1])
        rng, nodes = self.rng, case.topologies[0].num_nodes
        G = int(rng.choice([1, 2, 3]))
        H = G * int(rng.choice([1, 2, 3]))
        self.N, self.P = (int(rng.choice(_SIZES)) for _ in range(2))
        if rng.random() < 0.04:
            self.P = 150
        self.lead = ((), (1,), (2,), (3,), (2, 2))[rng.integers(5)]
        if H * nodes**2 * int(np.prod(self.lead)) > 1 << 19:
            G, H, self.lead = 1, int(rng.choice([1, 2])), ()
        self.G, self.H, self.T = G, H, nodes
        if case.family == "empty":
            self._empty_one()
        self.dtype = (torch.float32, torch.float64, *_HALF)[rng.choice(4, p=[0.45, 0.35, 0.1, 0.1])]
        if case.family == "pivoting" and self.dtype in _HALF:
            self.dtype = torch.float32  # rounded weights might make I − A singular
        self.mixed = rng.random() < 0.15

    def _empty_one(self):
        self.N, self.P = (0, self.P) if self.case.function == "mix" and self.rng.random() < 0.5 else (self.N, 0)

    def arguments(self):
        """Weights, and what else the function takes."""
        rng, case = self.rng, self.case
        weights = [self._weight(t) for t in case.topologies]
        given = SimpleNamespace(weight=weights)
        if case.function == "solve":
            given.rhs = self._features(self.H, self.P)
        if case.function == "mix":
            count = len(weights)
            given.C = [self._features(self.G, self.N) for _ in range(count)]
            given.B = [self._features(self.G, self.N) for _ in range(count)]
            given.V = self._features(self.H, self.P)
            given.scale = [self._laid_out(rng.uniform(-1, 1, (*self.lead, self.H, self.T))) for _ in range(count)]
            given.scale = given.scale if rng.random() < 0.5 else [None] * count
            self._share(given)
        for x in _distinct(given):
            x.requires_grad_(case.mode == "grad" and bool(rng.random() < 0.9))
        return given

    def gradient(self, shape, dtype):
        """An incoming gradient, laid out in some way or other."""
        if self.rng.random() < 0.15:
            return torch.tensor(self.rng.normal(), dtype=dtype).expand(shape)
        return self._laid_out(self.rng.normal(size=shape), dtype, broadcast=False)

    def _share(self, given):
        """Give the same tensor object twice, in places where it fits."""
        rng, topologies = self.rng, self.case.topologies
        for lists in ((given.weight,), (given.C, given.B), (given.scale,)):
            places = [(tensors, k) for tensors in lists for k in range(len(topologies))]
            for _ in range(rng.integers(0, 3)):
                (ones, k), (others, m) = (places[rng.integers(len(places))] for _ in range(2))
                fits = lists[0] is not given.weight or topologies[k] == topologies[m]
                if fits and ones[k] is not None and ones[k].shape == others[m].shape:
                    others[m] = ones[k]

    def _features(self, heads, columns):
        return self._laid_out(self.rng.normal(size=(*self.lead, heads, self.T, columns)))

    def _weight(self, topology):
        rng, lead = self.rng, (*self.lead, self.H)
        values = rng.uniform(-1, 1, (*lead, topology.num_edges))
        style = rng.choice(["signed", "positive", "mostly zero", "zero", "free"], p=[0.4, 0.2, 0.1, 0.05, 0.25])
        if style == "positive":
            values = abs(values)
        if style in ("mostly zero", "zero"):
            values *= rng.random(values.shape) < (0.1 if style == "mostly zero" else 0)
        if self.case.family == "pivoting":
            values = _well_conditioned(rng, topology, values)
        elif style == "free" and topology.is_acyclic and self.dtype not in _HALF:
            values = _limited(topology, 2 * values)
        else:
            degree = np.maximum(np.bincount(topology._target, minlength=topology.num_nodes), 1)[topology._target]
            values *= 0.95 / degree
        return self._laid_out(values)

    def _laid_out(self, values, dtype=None, broadcast=True):
        """A tensor of the values, in one of the ways in which tensors lie in memory."""
        rng = self.rng
        if dtype is None:
            dtype = (torch.float32, torch.float64)[rng.integers(2)] if self.mixed else self.dtype
        x, lead = torch.from_numpy(np.ascontiguousarray(values)).to(dtype), len(self.lead)
        how = rng.choice(["contiguous", "transposed", "sliced", "expanded", "broadcast"], p=[0.4, 0.2, 0.2, 0.1, 0.1])
        if how == "transposed":
            order = rng.permutation(x.dim()).tolist()
            return x.permute(order).contiguous().permute(np.argsort(order).tolist())
        if how == "sliced":
            wide = torch.full([2 * n + 1 for n in x.shape], torch.nan, dtype=dtype)
            view = wide[tuple(slice(1, 2 * n + 1, 2) if rng.random() < 0.5 else slice(1, n + 1) for n in x.shape)]
            return view.copy_(x)
        if broadcast and lead and how == "expanded":
            return x[(slice(0, 1),) * lead].expand(x.shape)
        if broadcast and lead and how == "broadcast":
            return x[(slice(0, 1),) * lead] if rng.random() < 0.5 else x[(0,) * lead]
        return x


def _limited(topology, values):
    """Weights of an acyclic topology, halved until paths add up to less than a million."""
    nodes = topology.topological_order
    while True:
        A = reference_matrix(topology, torch.from_numpy(abs(values)))[..., nodes[:, None], nodes]
        unit = torch.eye(topology.num_nodes, dtype=torch.float64)
        if torch.linalg.solve_triangular(unit - A, unit, upper=False).max() < 1e6:
            return values
        values = values / 2


def _well_conditioned(rng, topology, values):
    """Weights with absolute row sums above one for which I − A has a condition of at most a thousand."""
    for row in values.reshape(-1, values.shape[-1]) if values.size else ():
        for factor in (2, 3, 1.5, 1, 0.7, 0.5, 0.3):
            trial = factor * rng.uniform(-1, 1, row.shape)
            A = reference_matrix(topology, torch.from_numpy(trial)).numpy()
            if np.linalg.cond(np.eye(topology.num_nodes) - A) < 1e3:
                row[:] = trial
                break
        else:
            row[:] = 0
    return values


def _distinct(given):
    tensors = [x for value in vars(given).values() for x in (value if isinstance(value, list) else [value])]
    return list({id(x): x for x in tensors if x is not None}.values())
