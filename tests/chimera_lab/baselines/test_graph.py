"""Graph baselines: invariances, gradients, sizes, saving and loading, repeatability."""

import pytest
import torch

import chimera_lab.baselines  # noqa: F401  (registers the baseline mixers)
import chimera_ssm as chimera
from chimera_lab.baselines.graph import PUBLISHED
from chimera_ssm import ChimeraForGraphs
from chimera_ssm.models.graph.configuration import ATOM, BOND

pytest.importorskip("torch_geometric")

#: Networks by name, and whether their output does not depend on the order of nodes.
NETWORKS = {
    "san": ({"mixer": "san"}, True),
    "exphormer": ({"mixer": "exphormer"}, False),
    "exphormer without random edges": ({"mixer": "exphormer", "expander_degree": 0}, True),
    "bigbird": ({"mixer": "bigbird"}, False),
    "graph_mamba": ({"mixer": "graph_mamba"}, False),
    "gmn": ({"mixer": "gmn"}, False),
    "neural_walker": ({"mixer": "neural_walker", "walk_length": 20}, False),
    "neural_walker_chimera": ({"mixer": "neural_walker_chimera", "walk_length": 20}, False),
}
ALL = pytest.mark.parametrize("name", NETWORKS)
EDGES = pytest.mark.parametrize("edge_features", [BOND, None], ids=["edges", "no edges"])


def build(name, **overrides):
    torch.manual_seed(0)
    return chimera.create_model("chimera_graph_test", **{**NETWORKS[name][0], **overrides}).double()


def molecules():
    """A ring of 9 atoms; 3 atoms with an edge twice; 2 isolated atoms; one atom: x, edge_index, edge_attr, batch."""
    draw = torch.Generator().manual_seed(0)
    ring = torch.stack([torch.arange(9), (torch.arange(9) + 1) % 9])
    path = torch.tensor([[9, 10, 10, 11, 10], [10, 9, 11, 10, 11]])
    edge_index = torch.cat([ring, ring.flip(0), path], dim=1)
    x = torch.stack([torch.randint(n, (15,), generator=draw) for n in ATOM], dim=1)
    edge_attr = torch.stack([torch.randint(n, (23,), generator=draw) for n in BOND], dim=1)
    return x, edge_index, edge_attr, torch.tensor([0] * 9 + [1] * 3 + [2] * 2 + [3])


def gradients(model, seed=0):
    torch.manual_seed(seed)
    model.zero_grad()
    loss = model(*molecules(), labels=torch.tensor([[0.0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 0]])).loss
    loss.backward()
    return loss, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@ALL
@EDGES
def test_gradients_reach_every_parameter_and_equal_seeds_give_equal_bits(name, edge_features):
    model = build(name, edge_features=edge_features).train()
    loss, found = gradients(model)
    assert found.keys() == dict(model.named_parameters()).keys()
    assert all(g.isfinite().all() and g.abs().sum() > 0 for g in found.values())
    torch.rand(3)
    twin_loss, twin = gradients(build(name, edge_features=edge_features).train())
    assert torch.equal(loss, twin_loss)
    assert all(torch.equal(found[key], twin[key]) for key in found)
    first, second = (
        gradients(build(name, edge_features=edge_features, dropout=0.0).train(), seed)[0] for seed in (0, 1)
    )
    drawn = name not in ("san", "exphormer without random edges", "bigbird")  # three blocks attend to all others
    assert torch.equal(first, second) != drawn


@ALL
@EDGES
def test_a_batch_equals_its_graphs_alone(name, edge_features):
    model = build(name, edge_features=edge_features).eval()
    x, edge_index, edge_attr, batch = molecules()
    logits = model(x, edge_index, edge_attr, batch).logits
    torch.rand(3)  # evaluation does not depend on earlier draws, and draws nothing itself
    state = torch.get_rng_state()
    assert torch.equal(model(x, edge_index, edge_attr, batch).logits, logits)
    assert torch.equal(torch.get_rng_state(), state)
    for g in range(4):
        here, own = batch == g, batch[edge_index[0]] == g
        start = int(here.nonzero()[0])
        torch.testing.assert_close(model(x[here], edge_index[:, own] - start, edge_attr[own]).logits, logits[g : g + 1])
    empty = batch + (batch > 1)  # a graph without nodes between two others
    torch.testing.assert_close(model(x, edge_index, edge_attr, empty).logits[[0, 1, 3, 4]], logits)


@pytest.mark.parametrize("name", [name for name, (_, invariant) in NETWORKS.items() if invariant])
def test_permutations_change_the_order_and_nothing_else(name):
    model = build(name, level="node", problem_type="single_label_classification").eval()
    x, edge_index, edge_attr, batch = molecules()
    order = torch.tensor([14, 12, 13, 3, 1, 8, 5, 7, 0, 2, 4, 6, 10, 9, 11])
    mixed = torch.randperm(23)
    sizes = torch.tensor([0, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3])
    expected = model(x, edge_index, edge_attr, batch).logits[order]
    found = model(x[order], order.argsort()[edge_index[:, mixed]], edge_attr[mixed], sizes).logits
    torch.testing.assert_close(found, expected)


@ALL
def test_single_nodes_train(name):
    model = build(name).train()
    x, _, edge_attr, _ = molecules()
    model(x[:1], torch.empty(2, 0, dtype=torch.long), edge_attr[:0], labels=torch.ones(1, 3)).loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@ALL
def test_a_saved_model_gives_equal_outputs(name, tmp_path):
    model = build(name).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    twin, info = ChimeraForGraphs.from_pretrained(tmp_path, output_loading_info=True)
    assert not info["missing_keys"] | info["unexpected_keys"]
    assert torch.equal(twin.eval()(*molecules()).logits, model(*molecules()).logits)


@ALL
def test_autocast(name):
    model = build(name).float().train()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(*molecules(), labels=torch.ones(4, 3)).loss
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.slow
@ALL
def test_gradient_checkpointing_changes_nothing(name):
    model = build(name).train()
    _, plain = gradients(model)
    model.gradient_checkpointing_enable()
    _, found = gradients(model)
    torch.testing.assert_close(found, plain)


@pytest.mark.parametrize("mixer", PUBLISHED)
def test_published_sizes_have_under_half_a_million_parameters(mixer):
    with torch.device("meta"):
        model = chimera.create_model(f"{mixer}_peptides_func")
    assert model.config.mixer == mixer
    assert 200_000 < model.num_parameters() < 500_000


@pytest.mark.parametrize("mixer", ["san", "exphormer", "bigbird"])
def test_heads_divide_the_features(mixer):
    with pytest.raises(ValueError, match=f"divisible by num_heads for the attention of {mixer}, found 16 features and"):
        build(mixer, num_heads=3)


def test_a_random_graph_has_an_even_degree():
    with pytest.raises(ValueError, match="expander_degree must be even, found 3"):
        build("exphormer", expander_degree=3)
