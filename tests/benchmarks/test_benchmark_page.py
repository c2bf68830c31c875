"""The page and the table of benchmarks, from made-up runs."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import run
from page import BEGIN, END, ROWS, _digits, make_page, merge, readme_table, with_table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results.json"


def machine(load=0.1):
    return {
        "processor": "Some Processor",
        "cores": 4,
        "memory": 15.6,
        "load": load,
        "single": 123.4,
        "double": 61.0,
        "versions": {
            "Python": "3.11.7",
            "duelrank": "9.8.7",
            "scikit-learn": "1.9.1",
            "numpy": "2.4.6",
        },
    }


def line(key, ours, theirs=None, unit="s", **more):
    compared = {} if theirs is None else {"peer": "a peer", "theirs": theirs}
    return {"key": key, "question": f"about {key}", "unit": unit, "ours": ours} | compared | more


def made_up_run(lines, day="01", **more):
    benchmark = {"name": "many_labels", "seconds": 90.0, "lines": lines, "skipped": [], **more}
    return {
        "started": f"2026-03-{day} 08:00 UTC",
        "start": machine(),
        "end": machine(load=0.3),
        "benchmarks": [benchmark],
    }


def run_of_all_rows(factor=1.0, day="01"):
    lines = {}
    for row in ROWS:
        words_alone = row.peer in ("", "the paper reports 40 min")
        lines[row.key] = line(row.key, 2.0, None if words_alone else 20.0 * factor)
        if row.more:
            lines[row.more] = line(row.more, 1.3, unit="GB")
    return made_up_run(list(lines.values()), day)


def cells(text, key):
    (found,) = [row for row in text.splitlines() if f"about {key}" in row]
    return [cell.strip() for cell in found.strip("|").split("|")]


def test_ratios_range_over_the_runs():
    runs = [
        made_up_run([line("a", 2.0, 20.0), line("b", 1.0, 3.0)], "01"),
        made_up_run([line("a", 4.0, 60.0)], "02"),
        made_up_run([line("a", 3.0, 36.0)], "03"),
    ]
    page = make_page(merge(runs))
    assert cells(page, "a") == ["about a", "2.0–4.0 s", "a peer", "20–60 s", "10–15×"]
    assert cells(page, "b") == ["about b", "1.0 s", "a peer", "3.0 s", "3.0×"]
    for day in ("01", "02", "03"):
        assert f"2026-03-{day} 08:00 UTC" in page
    assert "0.1 → 0.3" in page
    assert "123 → 123" in page
    assert "| duelrank | 9.8.7 |" in page


def test_ratios_of_faster_peers_are_bold():
    page = make_page(
        merge([made_up_run([line("a", 2.0, 1.0)]), made_up_run([line("a", 2.0, 3.0)])])
    )
    assert cells(page, "a")[-1] == "**0.5–1.5×**"


def test_short_times_figures_and_notes():
    lines = [
        line("fast", 0.0123, 0.05, note="one thread"),
        line("faster", 12e-6, 13e-6),
        line("memory", 1.25, unit="GB", note="of the process"),
    ]
    page = make_page(merge([made_up_run(lines)]))
    assert cells(page, "fast ") == ["about fast", "12 ms", "a peer (one thread)", "50 ms", "4.1×"]
    assert cells(page, "faster") == ["about faster", "12 µs", "a peer", "13 µs", "1.1×"]
    assert cells(page, "memory") == ["about memory (of the process)", "1.2 GB", "", "", ""]


def test_what_was_not_measured_is_told():
    runs = [
        made_up_run([], failed="ValueError: no"),
        made_up_run([], skipped=[{"skipped": "MNIST", "why": "no data"}]),
        made_up_run([], failed="ValueError: no"),
        made_up_run([]),
    ]
    page = make_page(merge(runs))
    assert "- many_labels, run 1, 3: failed: ValueError: no\n" in page
    assert "- many_labels, run 2: MNIST: skipped, no data\n" in page
    assert "- many_labels, run 4: measures no times" in page
    assert "Nothing failed" in make_page(merge([made_up_run([line("a", 1.0)])]))


def test_a_run_that_was_stopped_has_no_end():
    run = made_up_run([line("a", 1.0)])
    del run["end"]
    assert "0.1 → ?" in make_page(merge([run]))


@given(st.floats(1e-4, 1e6))
def test_numbers_keep_two_digits(value):
    assert float(_digits(value).replace(",", "")) == pytest.approx(value, rel=0.051)
    assert "e" not in _digits(value)


def test_table_of_the_readme():
    merged = merge([run_of_all_rows(1.0, "01"), run_of_all_rows(1.3, "02")])
    text = readme_table(merged)
    assert text.count("\n| ") == 2 + len(ROWS)
    first, second = text.splitlines()[-len(ROWS) :][:2]
    peer = "one-vs-one, newton-cholesky: 23 s"
    assert first == f"| MNIST, 45 duels, C = 1e-4 | 2.0 s | {peer} | 10–13× |"
    assert second == "| | | one-vs-one, default solver: 23 s | 10–13× |"
    assert "| 1,000 labels, 499,500 duels | 2.0 s, 1.3 GB | | |" in text
    assert "| 2.0 s | the paper reports 40 min | |" in text
    assert "2 runs, 2026-03-01 to 2026-03-02" in text
    assert "Some Processor, 4 cores, 16 GB" in text
    assert "scikit-learn 1.9.1" in text


def test_results_that_lack_a_row_are_refused():
    run = run_of_all_rows()
    lines = run["benchmarks"][0]["lines"]
    lines[:] = [line for line in lines if line["key"] not in ("mnist/cv", "text/rank")]
    with pytest.raises(ValueError, match="the results lack mnist/cv, text/rank"):
        readme_table(merge([run]))


def test_only_the_part_between_the_marks_changes():
    merged = merge([run_of_all_rows()])
    made = with_table(f"# Title\n\n{BEGIN}\nby hand\n{END}\n\nThe end.\n", merged)
    assert made.startswith(f"# Title\n\n{BEGIN}\n\nMeasured ")
    assert made.endswith(f" |\n\n{END}\n\nThe end.\n")
    assert "by hand" not in made
    assert with_table(made, merged) == made


@pytest.mark.parametrize("text", ["nothing", BEGIN, f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_readme_without_marks_is_refused(text):
    with pytest.raises(ValueError, match="must have each of these lines once"):
        with_table(text, merge([run_of_all_rows()]))


def test_the_readme_has_the_marks():
    made = with_table((ROOT / "README.md").read_text("utf-8"), merge([run_of_all_rows()]))
    assert "Some Processor" in made


def test_runs_are_kept_together(tmp_path):
    folder, results, readme = tmp_path / "runs", tmp_path / "results.json", tmp_path / "README.md"
    with pytest.raises(SystemExit, match="there are no runs in"):
        run.keep(folder, results)
    folder.mkdir()
    for day, made_up in {"01": made_up_run([line("a", 1.0)]), "02": run_of_all_rows()}.items():
        if day == "02":
            with pytest.raises(SystemExit, match="nothing was kept: the results lack mnist/fit"):
                run.keep(folder, results)
            assert not results.exists()
        (folder / f"2026-03-{day}T08-00-00.json").write_text(json.dumps(made_up))
    run.keep(folder, results)
    merged = json.loads(results.read_text("utf-8"))
    assert [line["ours"] for line in merged["lines"]][:2] == [[1.0, None], [None, 2.0]]
    assert results.with_suffix(".md").read_text("utf-8") == make_page(merged)
    readme.write_text(f"{BEGIN}{END}")
    run.write_table(results, readme)
    assert readme.read_text("utf-8") == with_table(f"{BEGIN}{END}", merged)


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are kept in benchmarks/results.json")
def test_the_readme_and_the_page_are_made_from_the_kept_results():
    merged = json.loads(RESULTS.read_text("utf-8"))
    readme = (ROOT / "README.md").read_text("utf-8")
    assert with_table(readme, merged) == readme, "run benchmarks/run.py --readme"
    page = RESULTS.with_suffix(".md").read_text("utf-8")
    assert make_page(merged) == page, "run benchmarks/run.py --keep"
