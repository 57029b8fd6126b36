"""When training starts: the resolvent has a share in every layer of every preset, and edge features matter."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.models.graph.presets import PRESETS as GRAPHS
from chimera_ssm.models.image.presets import PRESETS as IMAGES
from chimera_ssm.models.text.presets import PRESETS as TEXTS

SEEDS = range(2)
#: Deep presets are built with their first layers only: all layers are drawn alike.
LAYERS = 3


def shares(name, inputs, **overrides):
    """The smallest and largest share of a preset's layers over several draws of the weights."""
    found = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        layers = overrides.pop("num_hidden_layers", LAYERS)
        model = chimera.create_model(name, num_hidden_layers=layers, **overrides).train()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        found += chimera.resolvent_share(model, **inputs)
    return min(found), max(found)


def assert_shares(name, inputs, **overrides):
    low, high = shares(name, inputs, **overrides)
    assert low >= 0.3, (name, low)
    assert high <= 3, (name, high)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["dag", "ug"])
@pytest.mark.parametrize("name", TEXTS)
def test_text(name, variant):
    ids = torch.randint(5, 200, (2, 48), generator=torch.Generator().manual_seed(0))
    assert_shares(name, {"input_ids": ids}, variant=variant, vocab_size=200)


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["2d", "undirected", "fwd_rev", "fwd"])
@pytest.mark.parametrize("name", IMAGES)
def test_images(name, topology):
    size = 8 * chimera.ChimeraImageConfig(**IMAGES[name]).patch_size
    pixels = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(0))
    assert_shares(name, {"pixel_values": pixels}, topology=topology)


@pytest.mark.slow
@pytest.mark.parametrize("width", [16, 48, 128, 256])
def test_any_width(width):
    ids = torch.randint(5, 200, (2, 48), generator=torch.Generator().manual_seed(0))
    for options in ({"variant": "dag"}, {"variant": "ug"}):
        sizes = {"hidden_size": width, "num_heads": None, "state_size": 16}
        assert_shares("chimera_text_test", {"input_ids": ids}, **sizes, **options)


def graphs(name):
    """Trees with a few cycles, with the features that a preset reads."""
    settings, draw = GRAPHS[name], torch.Generator().manual_seed(0)
    nodes = torch.arange(1, 90)
    parents = (nodes - 1 - torch.randint(3, nodes.shape, generator=draw)).clamp(min=0)
    edges = torch.stack([nodes, parents])
    edges = torch.cat([edges, edges.flip(0)], dim=1)

    def features(sizes, count):
        if isinstance(sizes, int):
            return torch.randn(count, sizes, generator=draw)
        return torch.stack([torch.randint(n, (count,), generator=draw) for n in sizes], dim=1)

    x, edge_attr = features(settings["node_features"], 90), features(settings["edge_features"], edges.shape[1])
    return {"x": x, "edge_index": edges, "edge_attr": edge_attr}


@pytest.mark.parametrize("name", [name for name in GRAPHS if not name.endswith(("_authors", "_paper"))])
def test_graphs(name):
    assert_shares(name, graphs(name))


@pytest.mark.parametrize("name", [name for name in GRAPHS if not name.endswith(("_authors", "_paper"))])
def test_shuffled_edge_features_change_fresh_graph_models(name):
    torch.manual_seed(0)
    model, inputs = chimera.create_model(name, num_hidden_layers=LAYERS).eval(), graphs(name)
    shuffled = {**inputs, "edge_attr": inputs["edge_attr"][torch.randperm(len(inputs["edge_attr"]))]}
    with torch.no_grad():
        before, after = (model.chimera(**given).last_hidden_state for given in (inputs, shuffled))
    assert (after - before).norm() > 0.05 * before.norm()
