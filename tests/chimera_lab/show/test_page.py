"""Pages in a real browser, where there is one: no complaints, nothing from outside, maps that answer."""

from dataclasses import replace

import pytest

from chimera_lab.show import page, topology_page
from chimera_lab.show.charts import curves
from chimera_lab.show.loading import load
from chimera_lab.show.models import show_model
from chimera_lab.show.topologies import show_topology
from tests import browser
from tests.chimera_lab.show.conftest import SENTENCE


@pytest.fixture(scope="module")
def path(saved, tmp_path_factory):
    inputs = {"image": str(saved / "one.png"), "text": SENTENCE, "graph": "OC1=CC=C(N)C=C1"}
    views = [show_model(load(saved / kind), given, None, None, None) for kind, given in inputs.items()]
    path = tmp_path_factory.mktemp("pages") / "page.html"
    chart = curves("share <right>", {"ours": ([0, 5], [0.1, 0.9]), "theirs": ([0, 5], [0.1, 0.5])}, "steps", True)
    table = page.table([f"column {k}" for k in range(9)], [[f"cell {k}" for k in range(9)]])
    path.write_text(page.document("maps", chart, table, *map(page.figure, views)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.PROGRAM is None:
        pytest.skip("there is no Chromium on this machine")
    window = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield window
    window.close()


def test_a_page_is_whole_in_itself(path):
    text = path.read_text(encoding="utf-8")
    for outside in ("http://", "https://", "src=", "@import", "url("):
        assert outside not in text.replace("http://www.w3.org/2000/svg", ""), outside
    assert text.count("<figure") == text.count("</figure>") == 3
    assert "share &lt;right&gt;" in text


def test_no_text_ends_the_script():
    view = show_topology("line:2").view
    view = replace(view, scene=replace(view.scene, title="</script><b>"))
    assert page.figure(view).count("</script>") == 1
    assert "<b>" not in page.figure(view)


def status(window, map_):
    return window.run(f"document.querySelectorAll('.status')[{map_}].textContent")


def test_maps_answer_to_pointer_click_and_keys(chromium, path):
    chromium.open(path)
    assert status(chromium, 0).startswith("Influence on patch (row 2, column 2): itself")
    chromium.point(".pixels:nth-of-type(2) [data-node='5']")
    assert status(chromium, 0).startswith("Influence on patch (row 1, column 1): ")
    chromium.point(".words [data-node='1']")  # elsewhere: the first map returns to its own
    assert status(chromium, 0).startswith("Influence on patch (row 2, column 2): ")
    assert status(chromium, 1).startswith("Influence on word “return”: ")
    chromium.point(".words [data-node='4']", click=True)
    chromium.point("h1, svg.chart")
    assert status(chromium, 1).startswith("Influence on word “of”: ")
    chromium.run("document.querySelectorAll('.drawing')[1].focus()")
    chromium.press("ArrowRight")
    assert status(chromium, 1).startswith("Influence on word “strings”: ")
    chromium.run("document.querySelectorAll('.drawing')[0].focus()")
    chromium.press("ArrowUp")
    chromium.press("ArrowLeft")
    assert status(chromium, 0).startswith("Influence on patch (row 1, column 1): ")
    chromium.point(".atoms [data-node='5']")
    assert status(chromium, 2).startswith("Influence on atom N5: ")
    assert chromium.run("document.querySelectorAll('.atoms .chosen').length") == 1
    assert chromium.troubles == []
    assert [url for url in chromium.requests if not url.startswith(("file:", "data:"))] == []


def test_menus_choose_layer_and_head(chromium, path):
    chromium.open(path)
    before = status(chromium, 0)
    chromium.run("(s => { s.value = 2; s.dispatchEvent(new Event('change')) })(document.querySelector('select'))")
    assert status(chromium, 0) != before
    assert chromium.run("document.querySelectorAll('.map:first-of-type select')[1].options.length") == 5
    assert chromium.troubles == []


def test_what_is_said_is_what_was_computed(chromium, saved, path):
    chromium.open(path)
    view = show_model(load(saved / "text"), SENTENCE, None, None, None)
    own = view.row[view.node]
    assert f"itself {own:.2f}"[:-1] in status(chromium, 1)  # bytes are 2 % off at most


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_is_wider_than_a_phone(chromium, path, dark):
    chromium.resize(390, 800, dark)
    chromium.open(path)
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    assert chromium.run("(s => s.scrollWidth <= s.clientWidth)(document.querySelector('.scroll'))")
    assert "column 8" in chromium.run("getComputedStyle(document.querySelector('td:last-child'), '::before').content")
    assert chromium.run("Math.min(...[...document.querySelectorAll('select')].map(s => s.offsetHeight))") >= 40
    assert chromium.run("document.querySelector('.pixels [data-node]').getBoundingClientRect().width") > 20  # a finger
    chromium.resize(1000)


def test_topologies_answer_in_the_matrix_too(chromium, tmp_path):
    shown = show_topology("grid:3x3")
    (tmp_path / "grid.html").write_text(topology_page.page(shown), encoding="utf-8")
    chromium.open(tmp_path / "grid.html")
    chromium.point("canvas")
    assert status(chromium, 0).startswith("Influence on node 4: itself")
    chromium.point(".atoms [data-node='8']")
    assert status(chromium, 0).startswith("Influence on node 8: itself")
    assert chromium.run("document.querySelector('canvas').getContext('2d').getImageData(8, 8, 1, 1).data[3]") == 255
    assert chromium.troubles == []
