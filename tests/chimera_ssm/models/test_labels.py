"""Labels that are not classes of the model are refused with a message that names ``num_labels``."""

import pytest
import torch

import chimera_ssm as chimera
from chimera_ssm.models import (
    ChimeraForImageClassification,
    ChimeraForSequenceClassification,
    ChimeraForTokenClassification,
    ChimeraImageConfig,
    ChimeraTextConfig,
)

SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "state_size": 4, "num_heads": 1}
IDS = torch.randint(5, 100, (2, 6), generator=torch.Generator().manual_seed(0))


def image(labels, **options):
    config = ChimeraImageConfig(**SIZES, patch_size=4, **{"num_labels": 4, **options})
    return ChimeraForImageClassification(config)(torch.zeros(2, 3, 8, 8), labels=torch.tensor(labels)).loss


def text(labels, head=ChimeraForSequenceClassification, **options):
    config = ChimeraTextConfig(**SIZES, vocab_size=100, **{"num_labels": 4, **options})
    return head(config)(IDS, labels=torch.tensor(labels)).loss


@pytest.mark.parametrize("model", [image, text])
@pytest.mark.parametrize("labels", [[9, 0], [4, 1], [0, -1]])
def test_labels_out_of_range(model, labels):
    found = f"{min(labels)} to {max(labels)}"
    with pytest.raises(ValueError, match=f"classes from 0 to 3, as num_labels=4, found {found}; number the classes"):
        model(labels)


def test_labels_of_tokens():
    labels = torch.tensor([[0, 3, -100, 1, 2, 2], [-100, 1, 1, 1, 1, 0]])
    assert text(labels.tolist(), ChimeraForTokenClassification).isfinite()
    labels[0, 0] = 4
    with pytest.raises(ValueError, match="as num_labels=4, found -100 to 4"):
        text(labels.tolist(), ChimeraForTokenClassification)


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ([[1.0, 0.0, 1.0, 0.0]] * 2, {"problem_type": "multi_label_classification"}),
        ([7.5, -3.0], {"num_labels": 1}),
        ([[7.0], [-3.0]], {"num_labels": 1, "problem_type": "regression"}),
    ],
)
def test_other_labels_are_not_classes(labels, options):
    assert text(labels, **options).isfinite()


def test_a_compiled_model_is_one_graph_with_labels():
    model = chimera.create_model("chimera_image_test", num_labels=3)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    inputs = {"pixel_values": torch.zeros(2, 3, 16, 16), "labels": torch.tensor([0, 2])}
    torch.testing.assert_close(compiled(**inputs).loss, model(**inputs).loss)
