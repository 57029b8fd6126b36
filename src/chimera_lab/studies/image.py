"""Images: the paper's tables 2 and 3 and its sharing ablation, on Fashion-MNIST and ImageNet; mazes, Pathfinder."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chimera_lab.recipes import find_recipe
from chimera_lab.studies.figures import against_distance
from chimera_lab.studies.study import Row, Section, Study, differences

MIXERS, TOPOLOGIES, SHARING = "Other mixers", "From two dimensions to one", "Which DAGs share B and C"
CONVOLUTION = "What the resolvent and the convolution contribute"
PATHS = "What paths contribute"


def _row(name: str, changes: Mapping[str, Any], *paper: float) -> Row:
    """A row with the paper's per cents: top-1 as trained and averaged, top-5 as trained and averaged."""
    metrics = "top1", "top1_ema", "top5", "top5_ema"
    return Row(name, changes, {metric: figure / 100 for metric, figure in zip(metrics, paper, strict=False)})


def _mixers(vit: Mapping[str, Any], s4: Mapping[str, Any], hyena: Mapping[str, Any], note: str) -> Section:
    rows = (
        _row("Chimera 2d", {}, 81.4, 82.1, 95.4, 95.9),
        _row("ViT", vit, 78.8, 80.6, 94.2, 95.2),
        _row("S4-ViT", s4, 79.4, 80.4, 94.2, 95.1),
        _row("Hyena-ViT", hyena, 78.4, 76.4, 94.0, 93.0),
    )
    return Section(MIXERS, rows, expected=("Chimera 2d", ("ViT", "S4-ViT", "Hyena-ViT")), note=note)


_TOPOLOGIES = Section(
    TOPOLOGIES,
    (
        _row("Chimera 2d", {}, 77.8, 76.7, 93.9, 93.5),
        _row("Chimera fwd_rev", {"topology": "fwd_rev", "conv_window": "grid"}, 76.5, 75.6, 93.4, 92.8),
        _row("Chimera fwd", {"topology": "fwd", "conv_window": "grid"}, 73.8, 73.8, 91.6, 91.6),
        _row("Chimera 2d, L = I", {"resolvent": "identity"}),
        _row("Chimera 2d, no convolution", {"conv": False}),
    ),
    expected=("Chimera 2d", "Chimera fwd_rev", "Chimera fwd"),
    note="The first three have the same convolution, 3 × 3 patches, and differ in the resolvent alone; through the "
    "convolution fwd, too, sees the next patch of its row and those of the row below. The last two show what the "
    "convolution does without the resolvent, and the resolvent without the convolution.",
)
_SHARING = Section(
    SHARING,
    (
        _row("diagonal", {}, 77.80, 76.69, 93.87, 93.53),
        _row("none", {"sharing": "none"}, 77.10, 76.13, 93.55, 93.15),
        _row("complete", {"sharing": "complete"}, 77.25, 76.09, 93.75, 93.21),
        _row("row", {"sharing": "row"}, 77.46, 76.57, 93.76, 93.37),
    ),
)

_NOTE = (
    "The paper's figures are of ImageNet-1k, with 88 million parameters for other mixers and 22 million elsewhere. "
    "What can be compared is the order, and by how much the first row is ahead."
)
_FASHION = replace(
    find_recipe("image/fashion-mnist", "laptop"),
    hidden_size=64,
    num_hidden_layers=3,
    state_size=16,
    num_heads=4,
    eval_every=100_000,  # evaluated at the end alone
)
_BASE, _SMALL = find_recipe("image/imagenet", "paper"), find_recipe("image/imagenet-small", "paper")
_IN_VIT = differences(_BASE, find_recipe("image/imagenet-vit", "paper"))
_AVERAGED: dict[str, Any] = {
    "metric": "top1_ema",
    "also": ("top1", "top5_ema", "top5"),
    "learning_rates": (),
    "matched": False,
}

_UNDIRECTED, _DAGS = "Chimera, undirected grid", "Chimera, four DAGs"


def _paths(
    first: str, second: tuple[str, Mapping[str, Any]], further: Mapping[str, Mapping[str, Any]], **evaluated: Any
) -> tuple[Section, Section]:
    """Pictures in which paths decide: two topologies, what the resolvent contributes, and ViT; then further rows."""
    rows = {
        first: {},
        second[0]: second[1],
        "Chimera, L = I": {"resolvent": "identity"},
        "Chimera, no convolution": {"conv": False},
        "ViT": {"mixer": "vit"},
        "ViT with the convolution": {"mixer": "vit_conv"},
    }
    lines = {
        "Chimera, fwd_rev": {"topology": "fwd_rev"},
        "Chimera, fwd": {"topology": "fwd"},
        "S4-ViT": {"mixer": "s4"},
        "Hyena-ViT": {"mixer": "hyena"},
    }
    note = (
        "All Chimeras have a convolution over 3 × 3 patches, except the row without one. With L = I, patches are "
        "connected only by the convolution."
    )
    paths = Section(
        PATHS,
        tuple(Row(name, changes) for name, changes in rows.items()),
        (first, ("Chimera, L = I", "ViT", "ViT with the convolution")),
        note=note,
        **evaluated,
    )
    others = Section(
        "Lines, other mixers and settings",
        tuple(Row(name, changes) for name, changes in {first: {}, **lines, **further}.items()),
        (first, tuple(lines)),
        note="S4 and Hyena are in Chimera's block.",
        **evaluated,
    )
    return paths, others


#: Both studies of paths.
_GENERATED: dict[str, Any] = {"metric": "top1", "learning_rates": (1e-3, 3e-3)}

STUDIES = {
    "images": Study(
        doc="Chimera and baselines on images as grids of patches, in the paper's comparisons, at a laptop's scale.",
        recipe_name="image/fashion-mnist",
        recipe=_FASHION,
        metric="top1_ema",
        learning_rates=(1e-3, 2e-3, 4e-3),
        sweep={"epochs": 2},
        sections=(
            replace(_TOPOLOGIES, note=f"{_TOPOLOGIES.note} {_NOTE}"),
            _mixers(
                {"mixer": "vit"},
                {"mixer": "s4"},
                {"mixer": "hyena"},
                f"S4 and Hyena are in Chimera's block here, in ViT's at the paper's scale. {_NOTE}",
            ),
            Section(
                CONVOLUTION,
                (
                    Row("Chimera 2d", {}),
                    Row("Chimera 2d, L = I", {"resolvent": "identity"}),
                    Row("Chimera 2d, no convolution", {"conv": False}),
                    Row("ViT", {"mixer": "vit"}),
                    Row("ViT with the convolution", {"mixer": "vit_conv"}),
                ),
                note="In ViT with the convolution, queries, keys and values of the patches go through the convolution "
                "over 3 × 3 patches that V, B and C go through in Chimera.",
            ),
            replace(_SHARING, note=_NOTE),
            Section(
                "Normalisers, and twice the image size",
                (Row("mean", {}), Row("sqrt", {"normalize": "sqrt"}), Row("ViT", {"mixer": "vit"})),
                evaluations={"56 × 56": {"image_size": 56}},
            ),
        ),
    ),
    "mazes": Study(
        doc="Are two marked cells of a maze connected? Trained on mazes of 12 × 12 cells, tested on larger ones.",
        recipe_name="image/mazes",
        recipe=replace(find_recipe("image/mazes"), eval_every=100_000),
        sweep={"epochs": 1},
        sections=_paths(
            _UNDIRECTED,
            (_DAGS, {"topology": "2d"}),
            {"step injection": {"injection": "step"}, "mean pooling": {"pooling": "mean"}},
            evaluations={f"{n} cells wide": {"data": f"mazes:{n}", "image_size": n} for n in (16, 24)},
        ),
        figures={"accuracy-by-size": against_distance},
        **_GENERATED,
    ),
    "pathfinder": Study(
        doc="Are two dots at the ends of one dashed path? Pictures of 32 × 32 pixels in patches of 2 × 2.",
        recipe_name="image/pathfinder",
        recipe=replace(find_recipe("image/pathfinder"), eval_every=100_000),
        sweep={"epochs": 2},
        sections=_paths(_DAGS, (_UNDIRECTED, {"topology": "undirected"}), {}),
        **_GENERATED,
    ),
    "imagenet": Study(
        doc="Chimera with 88 million parameters and baselines on ImageNet-1k, as in the paper.",
        recipe_name="image/imagenet",
        recipe=_BASE,
        sections=(
            _mixers(
                _IN_VIT,
                _IN_VIT | {"mixer": "s4_vit"},
                _IN_VIT | {"mixer": "hyena_vit"},
                "S4-ViT and Hyena-ViT are ViT-B, with its class token and positions and S4 (N = 64) or Hyena "
                "in place of attention.",
            ),
        ),
        seeds=1,
        **_AVERAGED,
    ),
    "imagenet-small": Study(
        doc="Topologies and sharing with 22 million parameters on ImageNet-1k, as in the paper.",
        recipe_name="image/imagenet-small",
        recipe=_SMALL,
        sections=(_TOPOLOGIES, _SHARING),
        seeds=1,
        **_AVERAGED,
    ),
}
