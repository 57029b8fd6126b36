"""Hooks of the site: pages of results in the navigation, names in the API as users import them."""

import re
from pathlib import Path
from typing import Any

#: The packages from which the names below them are imported.
_HOMES = ("chimera_lab.baselines", "chimera_ssm")
_ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)


def on_config(config: Any) -> Any:
    """Put docs/results/*.md before the last section."""
    names = (path.name for path in Path(config.docs_dir, "results").glob("*.md"))
    pages = sorted(names, key=lambda name: (name != "index.md", name))
    if pages:
        config.nav.insert(-1, {"Results": [f"results/{page}" for page in pages]})
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Head each entry of the API with the name that is imported: ``chimera_ssm.Line``, not the module of its source."""
    return _ENTRY.sub(_with_heading, markdown) if page.file.src_uri == "api.md" else markdown


def _with_heading(entry: re.Match[str]) -> str:
    path = entry[1]
    name = path.rpartition(".")[2]
    home = next((home for home in _HOMES if path.startswith(f"{home}.")), None)
    if home is None or name == "kinds":  # a module
        return entry[0]
    return f"{entry[0]}\n    options:\n      heading: {home}.{name}\n      toc_label: {name}"
