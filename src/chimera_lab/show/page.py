"""Self-contained HTML pages: style, script and data are all in the file."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Container, Iterable
from html import escape
from importlib.resources import files

from chimera_lab.show.view import View, span
from chimera_lab.training.files import to_json

LEGEND = (
    "Point at a node (a word, a pixel, an atom), tap it, or use the arrow keys: the colours show the influence of all "
    "nodes on it, on one logarithmic scale for all layers and heads. The influence is a row of the resolvent "
    "(I − A)⁻¹, which sums the weights of all paths from a node to this one; B and C, which depend on the contents of "
    "the nodes, are not included. The influence of a node on itself is 1 for the path without edges, plus the weights "
    "of all paths that return to it; a layer with several directions adds theirs, so that a word, read in two "
    "directions, has 2.00. Layers, heads, rows, columns and atoms are counted from 0."
)


def document(title: str, *body: str) -> str:
    """A whole page from the given parts of HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'  # otherwise the browser requests one
        f"<title>{escape(title)}</title>\n<style>\n{_static('page.css')}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>\n{_static('map.js')}</script>\n</body>\n</html>\n"
    )


def view_page(view: View) -> str:
    """The page of one view."""
    title = f"Influence on each {view.scene.node}"
    return document(title, f"<h1>{escape(title)}</h1>", f"<p>{escape(LEGEND)}</p>", figure(view))


def figure(view: View) -> str:
    """An interactive map, drawn by the page's script."""
    data = to_json(_data(view)).replace("<", "\\u003c")  # no text may close the script element
    return (
        f'<figure class="map">\n<figcaption>{escape(view.scene.title)}</figcaption>\n'
        + "".join(f'<p class="quiet">{escape(line)}</p>\n' for line in (view.scene.prediction, view.note) if line)
        + f'<script type="application/json">{data}</script>\n'
        "<noscript>This map is drawn by a script, and scripts are disabled in this browser.</noscript>\n</figure>"
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]], bold: Container[int] = ()) -> str:
    """A table with HTML cells; the rows in ``bold`` are highlighted. On a phone each cell repeats its column's name."""
    head = list(head)
    lines = ["<tr>" + "".join(f'<th scope="col">{cell}</th>' for cell in head) + "</tr>"]
    for number, row in enumerate(rows):
        kind = ' class="bold"' if number in bold else ""
        cells = (f'<td data-column="{column}">{cell}</td>' for column, cell in zip(head, row, strict=True))
        lines.append(f"<tr{kind}>" + "".join(cells) + "</tr>")
    return '<div class="scroll"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _data(view: View) -> dict[str, object]:
    low, high = span(view.planes)
    return {
        "kind": view.scene.kind,
        "title": view.scene.title,
        "node": view.scene.node,
        "labels": list(view.scene.labels),
        "drawing": view.scene.drawing,
        "menus": [[name, list(choices)] for name, choices in view.menus],
        "chosen": view.chosen,
        "nodes": view.nodes.tolist(),
        "first": view.node,
        "low": float(f"{low:.4g}"),
        "high": float(f"{high:.4g}"),
        "matrix": view.matrix,
        "planes": b64encode(view.codes().tobytes()).decode(),
    }


def _static(name: str) -> str:
    return (files("chimera_lab.show") / "static" / name).read_text(encoding="utf-8")
