"""Tables of figures that survive a kill."""

import pytest

from chimera_lab.training.records import CsvLog, curves, read_table


def test_a_table_drops_what_came_after_and_what_was_cut_off(tmp_path):
    table = CsvLog(tmp_path / "t.csv", 0)
    for step in range(1, 6):
        table.add({"step": step, "loss": 0.5 * step})
    table.close()
    with open(tmp_path / "t.csv", "a") as file:
        file.write("6,3")  # killed in the middle of a row
    assert [row["step"] for row in read_table(tmp_path / "t.csv")] == ["1", "2", "3", "4", "5"]
    table = CsvLog(tmp_path / "t.csv", 3)
    table.add({"step": 4, "loss": 9.0})
    table.close()
    assert (tmp_path / "t.csv").read_text().splitlines() == ["step,loss", "1,0.5", "2,1.0", "3,1.5", "4,9.0"]


def test_curves_have_one_colour_for_each_kind_and_hide_none():
    pytest.importorskip("matplotlib")
    names = "step", "epoch", "train_loss", "test_loss", "test_loss_ema", "test_top5", "test_top5_ema"
    rows = [dict.fromkeys(names, "1"), dict.fromkeys(names, "2")]
    loss, top5 = curves(rows).axes
    assert (loss.get_title(), top5.get_title()) == ("loss", "top5")
    labels = [line.get_label() for line in loss.lines]
    assert labels == ["train", "test", "test, averaged weights"]
    assert [line.get_label() for line in top5.lines] == labels[1:]
    assert [line.get_color() for line in top5.lines] == [line.get_color() for line in loss.lines][1:]
    widths = [line.get_linewidth() for line in loss.lines]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 3
    assert loss.lines[0].get_ydata().tolist() == [1.0, 2.0]
