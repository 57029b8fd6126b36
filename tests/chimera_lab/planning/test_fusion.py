"""Counts of compiled functions against counts by hand."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import rms_norm, softmax

from chimera_lab.planning.count import SmallStep, count_with_kernels
from chimera_lab.planning.fusion import GraphCounts, trace
from chimera_lab.planning.synthetic_data import task_without_data
from chimera_lab.recipes import find_recipe
from chimera_ssm import Line, batch, mix
from chimera_ssm.gpu.availability import assume_gpu
from chimera_ssm.nn import Block, Chimera
from tests import zoo

X, W = torch.randn(64, 32), torch.randn(32, 32)
BYTES = X.nbytes


def counted(function, *args):
    counts = GraphCounts()
    result = trace(function, counts, *args)
    return result, counts


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((x * 2).sin() + x).cos(),
        lambda x: softmax(x, -1) * x,
        lambda x: x - x.mean(-1, keepdim=True),
        lambda x: rms_norm(x, (32,)),
    ],
)
def test_elementwise_operations_and_reductions_of_rows_are_one_kernel(function):
    result, counts = counted(function, X)
    assert (counts.operations, counts.bytes_moved) == (1, 2 * BYTES)
    assert result.shape == X.shape
    assert counts.half_flops == counts.single_flops == 0


def test_a_reduction_over_columns_computes_its_terms_itself():
    _, counts = counted(lambda x: ((x * 2).cos().sum(0), (x * 2).cos()), X)
    assert (counts.operations, counts.bytes_moved) == (2, BYTES + 32 * 4 + 2 * BYTES)
    _, counts = counted(lambda x: x - x.sum(0), X)  # what reads its result is another kernel
    assert (counts.operations, counts.bytes_moved) == (2, (BYTES + 32 * 4) + (BYTES + 32 * 4 + BYTES))


def test_a_product_separates_kernels():
    _, counts = counted(lambda x: ((x.cos() + 1) @ W).sin() * 2, X)
    assert counts.single_flops == 2 * 64 * 32 * 32
    assert (counts.operations, counts.bytes_moved) == (3, 4 * BYTES)


def test_what_is_computed_early_and_used_late_is_computed_late():
    _, counts = counted(lambda x: (x @ W) * x.cos(), X)
    assert (counts.operations, counts.bytes_moved) == (2, 3 * BYTES)  # reads the product and x


def test_the_backward_pass_and_what_is_saved_for_it():
    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    _, counts = counted(lambda x: (x @ w).sin(), x)
    assert counts.single_flops == 3 * 2 * 64 * 32 * 32
    assert counts.bytes_moved == 2 * BYTES + 3 * BYTES  # sin; and its gradient, from the product and the gradient
    assert counts.activation_bytes == 2 * BYTES  # the result and the product
    assert counts.largest_bytes == BYTES


def test_mixes_are_listed():
    C, V, weight = torch.randn(3, 1, 8, 4), torch.randn(3, 2, 8, 16, requires_grad=True), torch.rand(3, 2, 7)
    result, counts = counted(lambda V: mix(Line(8), weight, C, C, V), V)
    (call,) = counts.mixes
    assert result.shape == V.shape
    assert (call.topologies, call.V.size, call.weights[0].size) == ("Line(8)", (3, 2, 8, 16), (3, 2, 7))
    tensors = call.tensors(micro=6, samples=3)
    assert [tuple(x.shape) for x in tensors] == [(6, 2, 8, 16), (6, 2, 7), *[(6, 1, 8, 4)] * 2]
    assert tensors[2] is tensors[3]  # C, given twice


@pytest.mark.parametrize("name", ["image/imagenet", "text/c4", "image/imagenet-vit", "text/c4-bert"])
def test_models_have_no_graph_breaks_on_a_gpu(name):
    recipe = replace(find_recipe(name, "paper"), hidden_size=128, num_heads=2, num_hidden_layers=2)
    step = SmallStep(recipe, task_without_data(recipe), 2, 2, torch.bfloat16)
    found = count_with_kernels(step, compiled=True)  # an error at a graph break
    is_ours = recipe.mixer == "chimera"
    assert len(found.mixes) == (2 if is_ours else 0)
    assert all(x.dtype == torch.bfloat16 for call in found.mixes for x in (call.V, *call.Cs, *call.Bs))
    assert all(x.contiguous for call in found.mixes for x in (call.V, *call.Cs, *call.Bs))
    assert all(x.dtype == torch.float32 for call in found.mixes for x in (*call.weights, *call.scales))


def test_a_batch_of_small_graphs_has_no_graph_breaks_on_a_gpu():
    topology = batch([zoo.molecule(20), zoo.molecule(7)])
    block, x = Block(32, Chimera(32, num_heads=2, state_size=4)), torch.randn(topology.num_nodes, 32)
    counts = GraphCounts()
    with assume_gpu():
        trace(block, counts, x, topology)
    assert len(counts.mixes) == 1


def test_a_graph_break_is_an_error():
    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        counted(broken, X)
