"""Predictions of the demo's models beside the true values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from chimera_lab.cli.demo.comparisons import Comparison
from chimera_lab.predict import predict
from chimera_lab.show.loading import load
from chimera_lab.training.run import Run

#: Molecules that are not among those of the data.
MOLECULES = {
    "aspirin": "CC(=O)OC1=CC=CC=C1C(=O)O",
    "vanillin": "COC1=C(O)C=CC(C=O)=C1",
    "serotonin": "NCCC1=CNC2=C1C=C(O)C=C2",
    "vitamin C": "OCC(O)C1OC(=O)C(O)=C1O",
}
_WORDS = 8


def image_model(run: Run) -> Any:
    """The trained image model of a run, of Chimera or a baseline."""
    from transformers import AutoModelForImageClassification

    return AutoModelForImageClassification.from_pretrained(run.model).eval()


def predictions(comparison: Comparison, runs: Mapping[str, Run]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table: an input, its true value, and the prediction of each model; empty for mazes."""
    if comparison.name == "words":
        return _of_words(runs)
    return _of_molecules(runs) if comparison.name == "molecules" else ([], [])


def _of_words(runs: Mapping[str, Run]) -> tuple[list[str], list[list[str]]]:
    """The first hidden words of the test sample whose influence map is shown."""
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    first = next(iter(runs.values()))
    sample: Any = load(first.folder).sample(None, "")
    tokenizer: Any = AutoTokenizer.from_pretrained(first.model)
    places = (sample["input_ids"] == tokenizer.mask_token_id).nonzero().flatten()[:_WORDS]
    columns = [tokenizer.convert_ids_to_tokens(sample["labels"][places])]
    for run in runs.values():
        model: Any = AutoModelForMaskedLM.from_pretrained(run.model).eval()
        with torch.inference_mode():
            logits = model(input_ids=sample["input_ids"][None]).logits[0, places]
        probabilities, best = logits.float().softmax(-1).max(-1)
        words = tokenizer.convert_ids_to_tokens(best)
        columns.append([f"{word} ({p:.0%})" for word, p in zip(words, probabilities.tolist(), strict=True)])
    rows = [[f"{k}. [MASK] in the text below", *cells] for k, cells in enumerate(zip(*columns, strict=True), 1)]
    return ["hidden word", "true word", *runs], rows


def _of_molecules(runs: Mapping[str, Run]) -> tuple[list[str], list[list[str]]]:
    """The polar surface of some molecules; RDKit computes the true values."""
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.rdMolDescriptors import CalcTPSA

    true = [CalcTPSA(MolFromSmiles(smiles)) for smiles in MOLECULES.values()]
    found = [[row["y"] for row in predict(run.folder, list(MOLECULES.values()))] for run in runs.values()]
    rows = [
        [name, *(f"{value:.1f} Å²" for value in values)] for name, *values in zip(MOLECULES, true, *found, strict=True)
    ]
    return ["molecule", "true value", *runs], rows
