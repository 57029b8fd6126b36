"""The paper's tables: which study reproduces each, at a laptop's scale and at the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chimera_lab.recipes import Scale
from chimera_lab.studies.graph import NETWORKS, TRUNCATED
from chimera_lab.studies.image import MIXERS, SHARING, TOPOLOGIES
from chimera_lab.studies.text import LAYERS, MASKED

_BENCHMARK = ("peptides-func", "peptides-struct", "pascalvoc-sp", "coco-sp")


@dataclass(frozen=True)
class PaperTable:
    """A table.

    Attributes:
        doc: its number, and what it says.
        studies: by scale, names of the studies.
        section: their section that has its rows.
    """

    doc: str
    studies: Mapping[Scale, tuple[str, ...]]
    section: str


TABLES = {
    "glue": PaperTable("Table 1: masked words and GLUE", {"laptop": ("text",), "paper": ("c4",)}, MASKED),
    "imagenet": PaperTable("Table 2: images", {"laptop": ("images",), "paper": ("imagenet",)}, MIXERS),
    "topology": PaperTable(
        "Table 3: from two dimensions to one", {"laptop": ("images",), "paper": ("imagenet-small",)}, TOPOLOGIES
    ),
    "lrgb": PaperTable(
        "Table 4: the Long Range Graph Benchmark", {"laptop": ("graphs",), "paper": _BENCHMARK}, NETWORKS
    ),
    "truncation": PaperTable("Table 5: truncated resolvents", {"laptop": ("graphs",), "paper": _BENCHMARK}, TRUNCATED),
    "sharing": PaperTable(
        "Appendix: which DAGs share B and C", {"laptop": ("images",), "paper": ("imagenet-small",)}, SHARING
    ),
    "layers": PaperTable("Appendix: layers controlled", {"laptop": ("text",), "paper": ("c4",)}, LAYERS),
}
