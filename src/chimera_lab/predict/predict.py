"""`predict`: from SMILES, image files or texts to the predictions of a trained model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from chimera_lab.predict import graphs, images, texts
from chimera_lab.show.loading import Trained, load

#: A prediction: the input, and columns of values.
Row = dict[str, Any]

_PREDICTORS: dict[str, Callable[[Trained, list[str], int], list[Row]]] = {
    "chimera_causal": texts.predict,
    "chimera_graph": graphs.predict,
    "chimera_image": images.predict,
    "chimera_text": texts.predict,
}


def predict(folder: str | Path | Trained, inputs: Sequence[str | Path], batch_size: int = 32) -> list[Row]:
    """The predictions of a trained model, a dictionary for each input.

    Args:
        folder: of a run, or of a model written by ``save_pretrained``; or the name of a trained model that comes with
            the package, such as ``"chimera_graph_nci"``.
        inputs: molecules as SMILES, paths of images, or texts, according to the model. In texts for a model of masked
            words ``[MASK]`` marks the words to predict; a model of pairs of sentences takes both with a tab in between.
        batch_size: inputs at a time.

    Returns:
        For each input its text or path as ``"input"``; then values in the units of the labels (regression),
        probabilities of labels, or the ``"class"``, its ``"probability"`` and the probabilities of all classes; for
        masked words ``"word"``, its ``"probability"`` and the text with the words filled in; for causal language models
        a ``"continuation"`` by 20 tokens, each the most likely after those before it.

    Raises:
        ValueError: an input cannot be read; the message says which, counted from 1.

    Example:
        >>> predict("runs/graph-nci-20260101-120000", ["CCO", "c1ccccc1"])
        [{'input': 'CCO', 'y': 21.3}, {'input': 'c1ccccc1', 'y': 2.1}]
    """
    trained = folder if isinstance(folder, Trained) else load(Path(folder))
    if isinstance(inputs, (str, Path)):
        raise ValueError(f"inputs must be a sequence of SMILES, paths or texts, found one: pass [{str(inputs)!r}]")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, found {batch_size}")
    kind = trained.model.config.model_type
    return _PREDICTORS[kind](trained, [str(x) for x in inputs], batch_size)
