"""Add the results that `chimera reproduce` has written to the navigation of the site."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Put docs/results/*.md before the last section."""
    pages = sorted(path.name for path in Path(config.docs_dir, "results").glob("*.md"))
    if pages:
        config.nav.insert(-1, {"Results": [f"results/{page}" for page in pages]})
    return config
