"""What a mixer refuses: an error says what was found, what was expected and what to do."""

from functools import partial

import pytest
import torch

import chimera_ssm as chimera

DIM, T = 32, 24
X = torch.randn(3, DIM)
RING = chimera.Graph(3, [[0, 1, 2], [1, 2, 0]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chimera.Chimera(32, num_heads=5), "inner width 64 .* divisible by num_heads, found 5"),
        (lambda: chimera.Chimera(32, num_heads=4, groups=3), "4 heads and 3 groups"),
        (lambda: chimera.Chimera(32, edge_dim=4, kind=chimera.OnLine()), "OnLine has no edge features"),
        (lambda: chimera.OnGrid(sharing="all"), "sharing must be one of"),
        (lambda: chimera.OnGrid(num_axes=0), "at least one axis"),
        (lambda: chimera.Chimera(32)(X.long(), RING), "floating point.*embed"),
        (lambda: chimera.Chimera(32)(X[:2], RING), r"x must have shape \[..., 3, 32\].*found \[2, 32\]"),
        (lambda: chimera.Chimera(32)(X, "ring"), "expected a topology"),
        (lambda: chimera.Chimera(32)(X, RING, node_mask=torch.ones(3)), "node_mask must be boolean"),
        (lambda: chimera.Chimera(32)(X, RING, node_mask=torch.tensor(True)), r"node_mask must be boolean, .*, \[\]"),
        (
            lambda: chimera.Chimera(32)(X, RING, node_mask=torch.ones(2, 3).bool()),
            r"leading dimensions of node_mask must broadcast to those of x, \[\], found \[2\]; reshape node_mask",
        ),
        (
            lambda: chimera.Chimera(32, edge_dim=2)(X.expand(2, 3, -1, -1), RING, torch.rand(6, 3, 2)),
            r"leading dimensions of edge_attr must broadcast to those of x, \[2, 3\], found \[6\]",
        ),
        (
            lambda: chimera.Chimera(32, edge_dim=2)(X.expand(6, -1, -1), RING, torch.rand(2, 3, 3, 2)),
            r"leading dimensions of edge_attr must broadcast to those of x, \[6\], found \[2, 3\]",
        ),
        (
            lambda: chimera.Chimera(32)(X, RING, edge_weight=torch.ones(2)),
            r"edge_weight must be floating point, \[..., 3\], a weight for each edge of Graph.*, found .*, \[2\]",
        ),
        (
            lambda: chimera.Chimera(32)(X, RING, edge_weight=torch.ones(2, 3)),
            r"leading dimensions of edge_weight must broadcast to those of x, \[\], found \[2\]",
        ),
        (
            lambda: chimera.Chimera(32, kind=chimera.OnDAG())(X, RING, edge_weight=torch.ones(3)),
            r"edge_weight needs a mixer with kind=OnGraph\(\), found OnDAG",
        ),
        (
            lambda: chimera.Chimera(32)(X, RING, torch.rand(3, 2)),
            r"edge_attr needs a layer with edge_dim, found .*\[3, 2\]",
        ),
        (
            lambda: chimera.Chimera(32, edge_dim=2)(X, RING),
            r"edge_attr is missing: this layer was made with edge_dim=2; pass edge_attr \[3, 2\], a row for each edge",
        ),
        (
            lambda: chimera.Chimera(32)(X.double(), RING),
            r"x must be torch.float32, as the weights of the layer are, found torch.float64; convert x with .to\(torch"
            r".float32\), or the layer with .to\(torch.float64\)",
        ),
        (
            lambda: chimera.Chimera(32, edge_dim=2)(X, RING, torch.rand(3, 2).double()),
            "edge_attr must be torch.float32, as the weights of the layer are, found torch.float64; convert edge_attr",
        ),
        (
            lambda: chimera.Chimera(32, kind=chimera.OnDAG),
            r"kind must be an instance, found the class OnDAG: write kind=OnDAG\(\)",
        ),
        (lambda: chimera.Chimera(32, kind="dag"), r"kind must be one of OnDAG\(\), OnGraph\(\), .*; found 'dag'"),
        (
            lambda: chimera.Chimera(32, edge_dim=2)(X, RING, torch.rand(2, 2)),
            r"edge_attr must have shape \[..., 3, 2\]",
        ),
        (lambda: chimera.Chimera(32, edge_dim=2)(X, RING, torch.ones(3, 2).long()), "edge_attr must be floating point"),
        (lambda: chimera.Chimera(32, kind=chimera.OnLine())(X, RING), "OnLine needs a Line.*OnGraph"),
        (lambda: chimera.Chimera(32, kind=chimera.OnGrid())(X, chimera.Grid((1, 1, 3))), "Grid with 2 axes"),
        (lambda: chimera.Chimera(32, kind=chimera.OnTwoLines())(X, chimera.Line(3)), "UndirectedLine"),
        (lambda: chimera.Chimera(32, solver=chimera.Sweep())(X, RING), "Sweep cannot treat .*cycles"),
        (lambda: chimera.OnLine(step="source"), "step must be one of .*found 'source'"),
        (lambda: chimera.OnLine(width=0), "at least the node itself, found width=0"),
        (lambda: chimera.Chimera(32, dt_limit=(0.1, 0.1)), r"0 ≤ smallest < largest, found \(0.1, 0.1\)"),
        (lambda: chimera.DropPath(1.0), "from 0 to below 1"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_all_kinds_are_named():
    kinds = {name for name in chimera.__all__ if name.startswith("On")}
    with pytest.raises(ValueError, match="kind must be one of") as error:
        chimera.Chimera(32, kind=3)
    assert all(f"{kind}()" in str(error.value) for kind in kinds)


def test_autocast_converts_features():
    layer = chimera.Chimera(DIM, edge_dim=2)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(X.bfloat16(), RING, torch.rand(3, 2).bfloat16())
    assert y.dtype == torch.bfloat16


def test_unknown_resolvents_and_injections_are_named():
    with pytest.raises(ValueError, match=r"resolvent must be one of .* found 'none'"):
        chimera.Chimera(DIM, resolvent="none")
    with pytest.raises(ValueError, match=r"injection must be one of .* found 'delta'"):
        chimera.OnGraph(injection="delta")
    for kind in (partial(chimera.OnGrid, normalize="sqrt"), partial(chimera.OnDAG, "sqrt"), chimera.OnUndirectedLine):
        assert kind().injection == "step"
        with pytest.raises(ValueError, match="hold injection needs row sums of A of at most one"):
            kind(injection="hold")
