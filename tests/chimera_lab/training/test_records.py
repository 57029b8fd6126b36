"""Tables of figures that survive a kill."""

from chimera_lab.training.records import CsvLog, read_table


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
