"""Topologies as one types them, their places, DAGs and resolvents."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import chimera_ssm as chimera
from chimera_lab.show import picture, topology_page, topology_picture
from chimera_lab.show.layout import place
from chimera_lab.show.spec import parse_topology
from chimera_lab.show.topologies import STEP, show_topology


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("line:5", chimera.UndirectedLine(5)),
        ("sequence:5", chimera.Line(5)),
        ("grid:2x3", chimera.Grid((2, 3))),
        ("grid:2x3x2", chimera.Grid((2, 3, 2))),
        ("ring:3", chimera.Graph(3, [[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])),
        ("tree:3", chimera.Graph(3, [[0, 0, 1, 2], [1, 2, 0, 0]])),
        ("smiles:CO", chimera.Graph(2, [[0, 1], [1, 0]])),
    ],
)
def test_a_topology_is_what_one_types(spec, expected):
    assert parse_topology(spec) == expected


def test_files_of_edges(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("# a DAG\n0 -> 1\n0->2\n\n2 -> 1  # twice\n2 -> 1\n")
    assert parse_topology(str(path)) == chimera.DAG(3, [[0, 0, 2], [1, 2, 1]])
    path.write_text("0 1\n1 -- 2\n2, 3\n")
    found = parse_topology(str(path))
    assert isinstance(found, chimera.Graph)
    assert (found.num_nodes, found.num_edges, found.is_symmetric) == (4, 6, True)


@pytest.mark.parametrize(
    ("spec", "text", "message"),
    [
        ("circle:3", None, "there is no topology and no file 'circle:3'; a topology is line:8"),
        ("grid:3xa", None, "a size is a whole number, found 'a'"),
        ("ring:2", None, "at least 3 nodes"),
        ("grid:30x30", None, "grid:30x30 has 900 nodes, too many to draw"),
        ("edges.txt", "0 1\n1 > 2\n", "edges.txt, line 2: expected an edge such as 0 1 or 0 -> 1, found '1 > 2'"),
        ("edges.txt", "# none\n", "edges.txt has no edges"),
        ("edges.txt", "0 1000000\n", "nodes up to 1,000,000, too many"),
    ],
)
def test_mistakes_say_what_to_do(spec, text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / spec).write_text(text)
    with pytest.raises(ValueError, match=message):
        parse_topology(spec)


def test_places_keep_distances_where_the_plane_allows():
    apart = lambda at: np.linalg.norm(at[:, None] - at, axis=2)  # noqa: E731
    line = place(7, np.array([np.arange(6), np.arange(1, 7)]))
    np.testing.assert_allclose(apart(line), np.abs(np.subtract.outer(np.arange(7), np.arange(7))), atol=1e-3)
    two = place(4, np.array([[0, 2], [1, 3]]))  # not connected
    assert apart(two)[0, 2] > apart(two)[0, 1] > 0.5
    assert place(1, np.zeros((2, 0), int)).shape == (1, 2)


@pytest.mark.parametrize(("spec", "dags"), [("grid:2x3", 4), ("ring:5", 2), ("sequence:4", 1), ("smiles:c1ccccc1O", 2)])
def test_resolvents_are_those_of_the_definition(spec, dags):
    shown = show_topology(spec)
    names = shown.view.menus[0][1]
    assert len(names) == (dags + 2 if dags > 1 else 1)
    by_name = dict(zip(names, shown.view.planes[:, 0].astype(float), strict=True))
    for k, dag in enumerate(shown.dags):
        source, target = dag.edge_index.numpy()
        A = np.zeros((dag.num_nodes, dag.num_nodes))
        A[target, source] = np.exp(-STEP) / dag.in_degree.numpy()[target]
        np.testing.assert_allclose(by_name[f"DAG {k + 1}"], np.linalg.inv(np.eye(len(A)) - A), atol=1e-5)
    if dags > 1:
        np.testing.assert_allclose(
            by_name["sum of the DAGs"], sum(by_name[f"DAG {k + 1}"] for k in range(dags)), rtol=1e-5
        )


def test_page_and_picture_are_written(tmp_path):
    shown = show_topology("grid:2x3", "4")
    assert shown.view.node == 4
    text = topology_page.page(shown)
    assert text.count('class="dag"') == 4
    assert "4 levels" in text
    topology_picture.draw(shown, tmp_path / "grid.png")
    assert (tmp_path / "grid.png").stat().st_size > 10_000


def test_self_loops_are_drawn(tmp_path):
    (tmp_path / "edges.txt").write_text("0 0\n0 -> 1\n2 2\n1 -> 2\n")
    shown = show_topology(str(tmp_path / "edges.txt"))
    assert shown.view.scene.drawing["loops"] == [0, 2]
    topology_picture.draw(shown, tmp_path / "loops.png")
    axes = Figure().subplots()
    picture.loops(axes, np.arange(6).reshape(-1, 2), [0, 2])
    picture.loops(axes, np.zeros((1, 2)), [0])  # in the middle
    assert len(axes.collections) == 3
