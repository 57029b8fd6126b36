"""Pack the records of a study for the docs: ``python benchmarks/pack_records.py runs/properties``.

Writes docs/results/records/NAME.tar.gz with the settings, results and curves of all runs, and the model of the first
row with seed 0. Unpacked into a folder of studies, they let ``chimera reproduce`` draw its report without training.
"""

import sys
import tarfile
from pathlib import Path

from chimera_lab.studies import find_study
from chimera_lab.studies.study import run_folder

RECORDS = Path(__file__).parents[1] / "docs" / "results" / "records"
PATTERNS = "study.json", "*/*/config.yaml", "*/*/about/*", "*/*/*.csv", "*/*/result.json", "*/*/eval-*.json"


def pack(folder: Path) -> Path:
    """The archive of the study in a folder."""
    study = find_study(folder.name)
    first = run_folder(folder, study.rows[0].name, "seed-0")
    files = {path for pattern in PATTERNS for path in folder.glob(pattern)} | {*first.glob("model/*")}
    unfinished = [path.parent for path in folder.glob("*/*/config.yaml") if not (path.parent / "result.json").exists()]
    files = {path for path in files if not any(run in path.parents for run in unfinished)}
    target = RECORDS / f"{folder.name}.tar.gz"
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted(files):
            archive.add(path, path.relative_to(folder.parent))
    print(f"{target}: {len(files)} files; {len(unfinished)} unfinished runs are left out")
    return target


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
