"""Tables as people have them: read right, or refused with the option of `--read_csv` that reads them."""

import gzip

import pandas as pd
import pytest

from trl_mle.competitions import CompetitionError
from trl_mle.competitions.reading import as_read, as_times, read_options, read_table
from trl_mle.competitions.table_checks import holds_times


TEXT = "Straße,größe,note\nAm Wall 1,70.5,a\nIn der Aue 3,120,b\n"


def read(folder, text, *options, encoding="utf-8"):
    (folder / "t.csv").write_bytes(text.encode(encoding))
    return read_table(folder / "t.csv", read_options(options))


def refusal(folder, text, *options):
    with pytest.raises(CompetitionError) as caught:
        read(folder, text, *options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("encoding", "separator"), [("utf-8", "\t"), ("utf-8-sig", "|"), ("utf-16", ","), ("cp1252", ";")]
)
def test_encodings_and_separators(tmp_path, caplog, encoding, separator):
    text = TEXT.replace(",", separator)
    if encoding in ("utf-16", "cp1252"):
        (tmp_path / "t.csv").write_bytes(text.encode(encoding))
        with pytest.raises(
            CompetitionError, match=r"save it as CSV, or name its encoding, as in --read_csv encoding=\w+"
        ):
            read_table(tmp_path / "t.csv")
        rows = read(tmp_path, text, f"encoding={encoding}", encoding=encoding)
    else:
        rows = read(tmp_path, text, encoding=encoding)
    cells = [["Am Wall 1", "In der Aue 3"], ["70.5", "120"], ["a", "b"]]
    assert rows.to_dict("list") == dict(zip(["Straße", "größe", "note"], cells, strict=True))
    assert ("separated by" in caplog.text) == (separator != ",")


def test_what_is_no_text(tmp_path):
    for content, why in (
        (b"PK\x03\x04\x00\x00\xff\x81", "is compressed: unpack it"),
        (gzip.compress(TEXT.encode()), "is compressed: unpack it"),
        ("a,b\n1,2\n".encode("utf-16-le"), "name its encoding, as in --read_csv encoding=utf-16"),
    ):
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(CompetitionError, match=why):
            read_table(tmp_path / "t.csv")
    for empty in "", "\n\n", "a,b\n":
        assert "t.csv is empty" in refusal(tmp_path, empty)
    assert "takes NAME=VALUE with one of sep, " in refusal(tmp_path, TEXT, "chunksize=2")
    assert "cannot be read" in refusal(tmp_path, TEXT, "skiprows=x")


LINES = ["id,size,note,price", *(f"{i},{i / 2},word {i},{2 * i}" for i in range(240))]
# What pandas reads without a word, the option that reads it right, and a cell of its row
MISREAD = {
    "escaped quotes": (
        [*LINES, r'240,1,"a \"quoted\" word, and 0",3'],
        r"escapechar=\ ".strip(),
        'a "quoted" word, and 0',
    ),
    "a quote that is never closed": ([*LINES, '240,1,"word,3'], "quoting=3", '"word'),
    "a row of totals": ([*LINES, "Total,7140,,57360"], "skipfooter=1", "word 239"),
    "lines above": (["My table", "of houses", *LINES], "skiprows=2", "word 239"),
    "a separator too many": ([LINES[0], *(f"{line}," for line in LINES[1:])], "index_col=false", "word 239"),
    "R's row names": ([LINES[0], *(f"{i},{line}" for i, line in enumerate(LINES[1:]))], "index_col=0", "word 239"),
}


@pytest.mark.parametrize(("lines", "option", "cell"), MISREAD.values(), ids=MISREAD)
def test_what_would_be_misread_is_refused(tmp_path, lines, option, cell):
    text = "\n".join(lines) + "\n"
    assert option.replace("=2", "=1") in refusal(tmp_path, text)
    rows = read(tmp_path, text, option)
    assert list(rows.columns) == ["id", "size", "note", "price"]
    assert len(rows) in (240, 241)
    assert rows["note"].iloc[-1] == cell


@pytest.mark.parametrize("above", [["My table"], ['"Houses" of 2024; all', ""], ['pipes of 5"', "a,b,c,d,e"]])
def test_lines_that_are_skipped_may_hold_anything(tmp_path, above):
    """And the rest is read, guessed and checked as if they were not there, but counted as in the file."""
    skip = f"skiprows={len(above)}"
    for separator in ",;":
        rows = read(tmp_path, "\n".join([*above, *LINES]).replace(",", separator), skip)
        assert list(rows.columns) == ["id", "size", "note", "price"]
        assert list(rows.index) == list(range(2 + len(above), 242 + len(above)))
    message = refusal(tmp_path, "\n".join([*above, *LINES, "1,2,3,4,5"]), skip)
    assert f"line {242 + len(above)} of" in message
    assert "has 5 cells, and the header 4" in message
    assert "a quoted cell" in refusal(tmp_path, "\n".join([*above, *LINES, '1,2,"3,4']), skip)
    assert "is empty" in refusal(tmp_path, "\n".join(above), skip)
    assert list(read(tmp_path, "\n".join(["x", *LINES]), "skiprows=[0]").columns) == ["id", "size", "note", "price"]


def test_a_last_row_may_be_kept(tmp_path):
    text = "\n".join([*LINES, "240,1,average,3"])
    assert "keep it with skipfooter=0" in refusal(tmp_path, text)
    assert len(read(tmp_path, text, "skipfooter=0")) == 241
    assert len(read(tmp_path, text.replace("word 7,", "average,"))) == 241


def test_a_header_inside_is_left_out(tmp_path, caplog):
    rows = read(tmp_path, "\n".join([*LINES[:100], LINES[0], *LINES[100:]]))
    assert as_read(rows)["price"].tolist() == list(range(0, 480, 2))
    assert "left out 1 rows that repeat the header" in caplog.text


def test_cells_may_have_several_lines(tmp_path):
    assert read(tmp_path, 'a,b\n"1\n2\n3",3\n4,5\n')["a"].tolist() == ["1\n2\n3", "4"]
    assert "it holds whole rows" in refusal(tmp_path, 'a\tb\n"x\t1\ny\t2\nz\t3\n"\t4\n')


@pytest.mark.parametrize(
    ("text", "options", "price"),
    [
        ("a;price\nx;-12,5\ny;1.234,50\n", ["decimal=,", "thousands=."], ["-12.5", "1234.5"]),
        ('a,price\nx,"1,234"\ny,7\nz,"12,34,567"\n', ["thousands=,"], ["1234", "7", "1234567"]),
        ("a;price\nx;950\ny;1.200\nz;-12.500 \n", ["decimal=,", "thousands=."], ["950", "1200", "-12500"]),
        ("a;price\nx;28.07.2023\ny;1.12.2023\n", ["decimal=,", "thousands=."], ["28.07.2023", "1.12.2023"]),
        ("a,price\nx,007\ny,1\n", ["decimal=,"], ["007", "1"]),
        ("a,price\nx,1-2\ny,\n", [], ["1-2", ""]),
    ],
)
def test_values(tmp_path, text, options, price):
    assert read(tmp_path, text, *options)["price"].tolist() == price


def test_numbers_of_two_forms_are_refused_and_texts_like_numbers_named(tmp_path, caplog):
    assert "is '3.372' in row 2, a thousand times as" in refusal(tmp_path, "PK;price\nx;3.372\ny;656\n", "decimal=,")
    options = "decimal=,", "thousands=."
    assert "is '3.372' in row 2, a thousand times as" in refusal(tmp_path, "a;price\nx;3.372\ny;12.5\n", *options)
    for others in [], options:
        assert read(tmp_path, "a;latitude\nx;52.52\ny;1\n", *others)["latitude"].tolist() == ["52.52", "1"]
    read(tmp_path, "a;b;price\nx;;3,372\ny;;\n")
    assert caplog.messages[-1].startswith("'price' look like numbers")


def test_names(tmp_path, caplog):
    table = pd.DataFrame({" a ": [5, 4, 3], "b\n(km)": ["x ", "y", "z"]})
    assert read(tmp_path, table.to_csv()).to_dict("list") == {"a": ["5", "4", "3"], "b (km)": ["x", "y", "z"]}
    assert "left out 'Unnamed: 0', which numbers rows" in caplog.text
    assert "has two columns 'a'" in refusal(tmp_path, 'a,"a\n"\n1,2\n')
    assert list(read(tmp_path, "5,x\n4,y\n", "header=null", 'names=["a", "b"]')) == ["a", "b"]


@pytest.mark.parametrize("text", ['"a;b;c;d",e\n"1;2;3;4",5\n', '"height, cm";"weight, kg"\n1,70;70,5\n1,8;80,5\n'])
def test_names_and_texts_may_hold_separators(tmp_path, text):
    assert len(read(tmp_path, text).columns) == 2


HOURS = pd.Series(pd.date_range("2018-03-05 01:05", periods=400, freq="25h"))


@pytest.mark.parametrize("form", ["%d/%m/%Y %I:%M %p", "%m/%d/%Y %H:%M", "%d.%m.%y %H:%M", "%b %d, %Y %H:%M"])
def test_all_dates_of_a_column_have_one_format_which_is_named(form):
    """Pandas alone would swap day and month where the day is at most 12."""
    cells = HOURS.dt.strftime(form)
    assert holds_times(cells)
    assert (as_times(cells, form).dt.tz_localize(None) == HOURS).all()
    for unclear in (cells, pd.Series(["2024-02-01", "1 Jan 2024"]), pd.Series(["2024-01-02", ""])):
        with pytest.raises(CompetitionError, match="--read_csv date_format="):
            as_times(unclear)
    for digits in ("%d%m%Y", "%m%d%Y"):
        with pytest.raises(CompetitionError, match="--read_csv date_format="):
            as_times(HOURS.dt.strftime(digits).str.removeprefix("0"))
    with pytest.raises(CompetitionError, match=f"'x' in row 0, which is not {form}"):
        as_times(pd.Series(["x"]), form)


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%Y%m%d", "%Y"])
def test_dates_in_iso_8601_and_numbers_are_times(form):
    assert as_times(HOURS.dt.strftime(form)).is_monotonic_increasing
