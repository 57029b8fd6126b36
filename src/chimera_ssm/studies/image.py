"""Images, at a laptop's scale: the paper's tables 2 and 3 and its sharing ablation on Fashion-MNIST."""

from dataclasses import replace

from chimera_ssm.recipes import find_recipe
from chimera_ssm.studies.study import Row, Section, Study

_CHIMERA = Row("Chimera 2d", {}, "77.8")
_FASHION = replace(
    find_recipe("image/fashion-mnist", "laptop"),
    hidden_size=64,
    num_hidden_layers=3,
    state_size=16,
    num_heads=4,
    eval_every=100_000,  # evaluated at the end alone
)

STUDIES = {
    "images": Study(
        doc="Chimera and its rivals on images as grids of patches, in the paper's comparisons, at a laptop's scale.",
        recipe_name="image/fashion-mnist",
        recipe=_FASHION,
        metric="top1",
        learning_rates=(1e-3, 2e-3, 4e-3),
        sweep={"epochs": 2},
        sections=(
            Section(
                "From two dimensions to one, and other mixers",
                (
                    _CHIMERA,
                    Row("Chimera fwd_rev", {"topology": "fwd_rev"}, "76.5"),
                    Row("Chimera fwd", {"topology": "fwd"}, "73.8"),
                    Row("ViT", {"mixer": "vit"}),
                    Row("S4-ViT", {"mixer": "s4"}),
                    Row("Hyena-ViT", {"mixer": "hyena"}, "78.4 (base)"),
                ),
                expected=("Chimera 2d", "Chimera fwd_rev", "Chimera fwd"),
            ),
            Section("Against ViT", (_CHIMERA, Row("ViT", {"mixer": "vit"})), expected=("Chimera 2d", "ViT")),
            Section(
                "Which DAGs share B and C",
                (
                    Row("diagonal", {}, "77.80"),
                    Row("none", {"sharing": "none"}, "77.10"),
                    Row("complete", {"sharing": "complete"}, "77.25"),
                    Row("row", {"sharing": "row"}, "77.46"),
                ),
            ),
            Section(
                "Normalisers, and twice the image size",
                (Row("mean", {}), Row("sqrt", {"normalize": "sqrt"}), Row("ViT", {"mixer": "vit"})),
                evaluations={"56 × 56": {"image_size": 56}},
            ),
        ),
    )
}
