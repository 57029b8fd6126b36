"""What the resolvent contributes to each benchmark, as a Markdown table: python benchmarks/contributions.py.

Reads the records of all studies in docs/results/records; a comparison without records is left out.
"""

import json
import tarfile
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

RECORDS = Path(__file__).parents[1] / "docs" / "results" / "records"


class Benchmark(NamedTuple):
    """Rows of a study to compare: the folders of Chimera, of Chimera with L = I, and of the usual baseline."""

    task: str
    study: str
    metric: str
    ours: str
    identity: str
    baseline: tuple[str, str]
    percent: bool = True


BENCHMARKS = (
    Benchmark("connected cells of mazes", "mazes", "top1", "chimera-undirected-grid", "chimera-l-i", ("ViT", "vit")),
    Benchmark("a node across a ring", "long-range", "accuracy", "chimera-exact", "chimera-l-i", ("GCN", "gcn")),
    *(
        Benchmark(f"{what}, log₁₀ of the squared error", "properties", "log10_mse", f"chimera-exact-{name}",
                  f"chimera-l-i-{name}", ("GPS", f"gps-transformer-{name}"), percent=False)
        for what, name in (("shortest paths", "distance"), ("eccentricity", "eccentricity"), ("diameter", "diameter"))
    ),
    Benchmark("a node 3 to 50 hops away", "transfer", "accuracy", "chimera-exact", "chimera-l-i",
              ("GPS", "gps-transformer")),
    Benchmark("the key of a tree's leaf, depths 2 to 6", "trees", "accuracy", "chimera-exact", "chimera-l-i",
              ("GPS", "gps-transformer")),
    Benchmark("associative recall", "sequences", "accuracy", "chimera-recall", "l-i-recall", ("BERT", "bert-recall")),
    Benchmark("selective copying", "sequences", "accuracy", "chimera-copying", "l-i-copying", ("BERT", "bert-copying")),
    Benchmark("polar surface of molecules, Å²", "molecules", "mae", "chimera-exact", "chimera-l-i",
              ("GPS", "gps-transformer"), percent=False),
    Benchmark("functions of peptides, AP", "graphs", "ap", "chimera-exact", "chimera-l-i", ("GCN", "gcn")),
    Benchmark("masked words of WikiText-2", "text", "accuracy", "chimera-dag", "chimera-l-i", ("BERT", "bert")),
    Benchmark("Fashion-MNIST", "images", "top1_ema", "chimera-2d", "chimera-2d-l-i", ("ViT", "vit")),
)  # fmt: skip


def figures(archive: tarfile.TarFile, study: str, row: str, metric: str) -> list[float]:
    """The test metric of each seed of a row."""
    names = sorted(name for name in archive.getnames() if name.startswith(f"{study}/{row}/seed-"))
    results = [json.load(archive.extractfile(name)) for name in names if name.endswith("/result.json")]
    return [result["metrics"][metric] for result in results]


def spread(values: list[float], scale: float) -> str:
    """Mean and standard deviation."""
    return f"{scale * mean(values):.2f} ± {scale * stdev(values):.2f}"


def main() -> None:
    """Print the table."""
    print("| benchmark | Chimera | L = I | contribution of the resolvent | two standard deviations | usual baseline |")
    print("|---|---|---|---|---|---|")
    for task, study, metric, ours, identity, (name, baseline), percent in BENCHMARKS:
        path = RECORDS / f"{study}.tar.gz"
        if not path.exists():
            continue
        with tarfile.open(path) as archive:
            a, b, c = (figures(archive, study, row, metric) for row in (ours, identity, baseline))
        if not (a and b and c):
            continue
        scale, sign = (100, 1) if percent else (1, -1)
        lead, deviation = sign * scale * (mean(a) - mean(b)), 2 * scale * (stdev(a) ** 2 + stdev(b) ** 2) ** 0.5
        cells = spread(a, scale), spread(b, scale), f"{lead:+.2f}", f"{deviation:.2f}", f"{name} {spread(c, scale)}"
        print(f"| {' | '.join((task, *cells))} |")


if __name__ == "__main__":
    main()
