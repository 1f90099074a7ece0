"""Tables as people have them."""

import bz2
import csv
import gzip
import io
import lzma
import zipfile

import pandas as pd
import pytest

from trl_mle.competitions import CompetitionError
from trl_mle.competitions.reading import are_unclear_dates, as_times, order_in_dates, read_tables


TEXT = "Straße,größe,note\nAm Wall 1,70.5,a\nIn der Aue 3,120,b\n"


def read(folder, text, encoding="utf-8", name="t.csv"):
    (folder / name).write_bytes(text.encode(encoding))
    return read_tables([folder / name])[0]


def made_by(separator, rows):
    file = io.StringIO()
    csv.writer(file, delimiter=separator).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", None),
        ("utf-16-le", None),
        ("utf-16-be", None),
        ("latin-1", "read as Windows-1252 (Latin-1)"),
        ("cp1252", "read as Windows-1252 (Latin-1)"),
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_encodings_and_separators(tmp_path, caplog, encoding, message, separator):
    rows = read(tmp_path, TEXT.replace(",", separator), encoding)
    assert rows.to_dict("list") == {
        "Straße": ["Am Wall 1", "In der Aue 3"],
        "größe": ["70.5", "120"],
        "note": ["a", "b"],
    }
    words = {";": "separated by semicolons", "\t": "separated by tabs", "|": "separated by vertical bars"}
    said = "; ".join(filter(None, [message, words.get(separator)]))
    assert caplog.messages == ([f"{tmp_path / 't.csv'}: {said}"] if said else [])


def test_latin_1_that_windows_does_not_know(tmp_path, caplog):
    (tmp_path / "t.csv").write_bytes(b"a,b\n\x81\xe9,2\n")
    assert read_tables([tmp_path / "t.csv"])[0]["a"].tolist() == ["\x81é"]
    assert caplog.messages == [f"{tmp_path / 't.csv'}: read as Latin-1"]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_compressed_tables(tmp_path, pack, request):
    path = tmp_path / f"t.csv.{request.node.callspec.id}"
    path.write_bytes(pack(TEXT.encode()))
    assert len(read_tables([path])[0]) == 2
    assert len(read_tables([path.rename(tmp_path / path.name.upper())])[0]) == 2
    path.write_bytes(b"abc" + pack(TEXT.encode()))
    with pytest.raises(CompetitionError, match=r"cannot be read: "):
        read_tables([path])


@pytest.mark.parametrize("name", ["t.zip", "T.ZIP"])
def test_a_zip_archive(tmp_path, name):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/", "")
        archive.writestr("folder/t.csv", TEXT)
    assert len(read_tables([path])[0]) == 2
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/._t.csv", b"a Mac's")
    assert len(read_tables([path])[0]) == 2
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.csv", TEXT)
    with pytest.raises(CompetitionError, match=rf"{name} holds 2 files: take the table out of it"):
        read_tables([path])


@pytest.mark.parametrize(
    ("field", "value", "message"), [(6, 1, "is encrypted"), (8, 9, "compression method is not supported")]
)
def test_a_zip_archive_that_python_cannot_unpack(tmp_path, field, value, message):
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("t.csv", TEXT)
    content = bytearray(path.read_bytes())
    for header, start in (b"PK\x03\x04", 0), (b"PK\x01\x02", 2):  # which both hold the flags and the method
        content[content.index(header) + start + field] = value
    path.write_bytes(content)
    with pytest.raises(CompetitionError, match=rf"t\.zip cannot be read: .*{message}"):
        read_tables([path])


GERMAN = [["where", "price"], ["a;b", "1.234,50"], ["c", "-12,5"], ["d", "950"]]
NUMBERS = {
    "decimal commas": (made_by(";", GERMAN), ["1234.50", "-12.5", "950"]),
    "decimal commas in quotes": (made_by(",", GERMAN), ["1234.50", "-12.5", "950"]),
    "thousands": ('a,price\nx,"1,234"\ny,"1,234,567.5"\nz,−12\n', ["1234", "1234567.5", "-12"]),
    "thousands as spaces": ("a;price\nx;1 234,5\ny;1\u202f234\nz;5\n", ["1234.5", "1234", "5"]),
    "thousands as apostrophes": ("a,price\nx,1'234\ny,12.5\nz,\n", ["1234", "12.5", ""]),
    "thousands as points": ("a;b;price\nx;0,5;1.234\ny;1,5;12.000\nz;1;7\n", ["1234", "12000", "7"]),
    "thousands as points alone": ("a;price\nx;1.234.567\ny;12.000\nz;7\n", ["1234567", "12000", "7"]),
    "either, beside semicolons": ("a;price\nx;1,234\ny;2,345\nz;7\n", ["1.234", "2.345", "7"]),
    "either, beside points": ("a;b;price\nx;0.5;1,234\ny;1.5;2,345\nz;1;7\n", ["1234", "2345", "7"]),
    "three decimals": ('a,b,price\nx,"1,5",1.234\ny,"2,5",2.345\nz,3,7\n', ["1.234", "2.345", "7"]),
    "signs for missing": ("a,price\nx,?\ny,-\nz,1e3\n", ["", "", "1e3"]),
    "more words for missing": ("a,price\nx,Unknown\ny,n.a.\nz,#DIV/0!\nw,1\n", ["", "", "", "1"]),
    "a word for zero or missing": ("a,price\nx,none\ny,1\n", ["none", "1"]),
    "currencies": ('a,price\nx,"$1,200"\ny,"-$3,400.50"\nz,$ 5\n', ["1200", "-3400.50", "5"]),
    "currencies behind": ("a;price\nx;1.200,75 €\ny;10,50 €\n", ["1200.75", "10.50"]),
    "per cent": ("a,price\nx,12%\ny,3.5 %\nz,?\n", ["12", "3.5", ""]),
    "per cent beside shares": ("a,price\nx,12%\ny,0.035\n", ["12%", "0.035"]),
    "two currencies": ("a,price\nx,$12\ny,€5\n", ["$12", "€5"]),
    "ranges": ("a,price\nx,5%-10%\ny,5%\n", ["5%-10%", "5%"]),
    "missing": ("a,price\nx,NA\ny,.5\nz,\n", ["NA", ".5", ""]),
    "infinity is a word": ("a,price\nx,many\ny,1,\nz,2\n", ["many", "1", "2"]),
    "dates": ("a,price\nx,01.02.2020\ny,1-2\nz,?\n", ["01.02.2020", "1-2", "?"]),
    "words for missing": ("a,price\nx,1 234\ny,#N/A N/A\nz,5\n", ["1234", "#N/A N/A", "5"]),
    "thousands beside decimal commas": ("a;price\n0,5;1.234\n1,5;2.345\n", ["1234", "2345"]),
    "three decimals beside others": ("a;b;price\n0,5;1.5;1.234\n1;2.5;2.345\n", ["1.234", "2.345"]),
    "commas beside three decimals": ("a;price\n1.234;1,234\n2.345;2,345\n", ["1,234", "2,345"]),
    "thousands with decimals": ('a,price\nx,"1,234,567.5"\ny,"2,345,678.5"\n', ["1234567.5", "2345678.5"]),
    "codes": ("a;price\nx;007\ny;0123\nz;9\n", ["007", "0123", "9"]),
}


@pytest.mark.parametrize(("text", "price"), NUMBERS.values(), ids=NUMBERS)
def test_numbers(tmp_path, text, price):
    assert read(tmp_path, text)["price"].tolist() == price


OR_THOUSANDS = "(leave them out if they separate thousands)"
TEXTS = {
    "addresses": [f"192.168.100.{101 + i}" for i in range(12)],
    "versions": [f"{1 + i}.234.567" for i in range(12)],
    "phone numbers": [f"212 555 {100 + i}" for i in range(12)],
    "phone numbers of countries": ["+49 176 100 200", "+1 555 100"],
    "phone numbers in two forms": ["212 555 100", "212555100"],
    "lists": [f"{101 + i},{202 + i},{303 + i}" for i in range(12)],
    "pairs": [f"{i},{i + 1}" for i in range(12)],
}


@pytest.mark.parametrize("cells", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_what_only_looks_like_numbers_stays(tmp_path, caplog, cells, separator):
    numbers = [f"{1.099 + 1.234 * i:.3f}" for i in range(len(cells))]  # with three decimals each
    text = made_by(separator, [["code", "x", "y"], *zip(cells, numbers, numbers[::-1], strict=True)])
    assert read(tmp_path, text).to_dict("list") == {"code": cells, "x": numbers, "y": numbers[::-1]}
    said = [line for line in caplog.messages if not line.endswith(f"decimal points {OR_THOUSANDS} in 'x', 'y'")]
    assert not [line for line in said if " in 'code'" in line or " in 'x'" in line]


def test_what_was_done_with_numbers_is_said_in_a_line(tmp_path, caplog):
    text = "a;self;c;d;e\n" + "0,5;1.234.567;?;x;$2\n" * 3
    read(tmp_path, text + "1;2;3;y;$3\n")
    assert caplog.messages == [
        f"{tmp_path / 't.csv'}: separated by semicolons",
        f"{tmp_path / 't.csv'}: '?' for a missing number in 'c'; $ left out in 'e'; decimal commas in 'a'; thousands "
        "separators in 'self'",
    ]


def test_points_beside_decimal_commas_separate_thousands(tmp_path, caplog):
    prices = read(tmp_path, "area;price\n60,5;296.000\n71,0;1.112.000\n58,5;85.000\n")
    assert prices.to_dict("list") == {"area": ["60.5", "71.0", "58.5"], "price": ["296000", "1112000", "85000"]}
    alone = read(tmp_path, "area;price\n60,5;296.000\n71,0;112.000\n58,5;85.000\n")
    assert alone["price"].tolist() == ["296000", "112000", "85000"]
    assert "thousands separators in 'price'" in caplog.text


@pytest.mark.parametrize("mark", ["k.A.", "k. A.", "-"])
def test_marks_of_what_is_missing(tmp_path, mark):
    assert read(tmp_path, f"a;b\n{mark};1\n12;2\n7,5;3\n")["a"].tolist() == ["", "12", "7.5"]


@pytest.mark.parametrize(
    ("text", "is_said"),
    [
        ("a;b\n85.812;x\n7.123;y\n", True),
        ("a;b\n85.812;1.5\n7.123;2\n", False),
        ("a;b\n85.812;1\n7;2\n", True),
        ("a,b\n85.812,x\n7.123,y\n", False),
    ],
    ids=["alone", "beside points", "beside whole numbers", "between commas"],
)
def test_points_that_may_separate_thousands_are_reported(tmp_path, caplog, text, is_said):
    assert read(tmp_path, text)["a"].iloc[0] == "85.812"
    assert (f"t.csv: decimal points {OR_THOUSANDS} in 'a'" in caplog.text) == is_said


def test_two_tables_are_read_alike(tmp_path):
    (tmp_path / "one.csv").write_text("a;b;c\n1.234;x;5\n7;y;6\n")
    (tmp_path / "two.csv").write_text('c,a\n?,"1,5"\n')
    one, two = read_tables([tmp_path / "one.csv", tmp_path / "two.csv"])
    assert one.to_dict("list") == {"a": ["1234", "7"], "b": ["x", "y"], "c": ["5", "6"]}
    assert two.to_dict("list") == {"c": [""], "a": ["1.5"]}


def test_one_column_of_decimal_commas(tmp_path, caplog):
    (tmp_path / "one.csv").write_text("x;y\n1,5;2\n7;3\n")
    (tmp_path / "two.csv").write_text("x\n1,203\n-4,5\n12\n")
    assert read_tables([tmp_path / "one.csv", tmp_path / "two.csv"])[1]["x"].tolist() == ["1.203", "-4.5", "12"]
    assert not [message for message in caplog.messages if "two.csv: separated" in message]
    for text in "x\n1,203\n2,5\n", 'x\n"4",203\n"2",5\n':
        assert read(tmp_path, text)["x"].tolist() == ["203", "5"]  # R's row names


@pytest.mark.parametrize("test", [["1.802", "2.253"], ["1234.5", "7"]], ids=["three decimals", "one"])
def test_decimal_commas_in_one_table_and_points_in_the_other(tmp_path, caplog, test):
    (tmp_path / "one.csv").write_text("x;y\n1,802;a, b\n2,503;c\n")
    (tmp_path / "two.csv").write_text("x,y\n" + "".join(f"{x},d.\n" for x in test))
    one, two = read_tables([tmp_path / "one.csv", tmp_path / "two.csv"])
    assert one.to_dict("list") == {"x": ["1.802", "2.503"], "y": ["a, b", "c"]}
    assert two["x"].tolist() == test
    assert f"{tmp_path / 'one.csv'}: numbers in 'x' have another form than in the other table" in caplog.messages
    two, one = read_tables([tmp_path / "two.csv", tmp_path / "one.csv"])
    assert [one["x"].tolist(), two["x"].tolist()] == [["1.802", "2.503"], test]
    (tmp_path / "one.csv").write_text("x;y;z\n1,802;a;0.5\n2,503;b;1.5\n")  # the points tell: thousands
    assert read_tables([tmp_path / "one.csv", tmp_path / "two.csv"])[0]["x"].tolist() == ["1802", "2503"]


def test_names_are_made_plain_and_different(tmp_path, caplog):
    text = ' a ,"b\n(km)", a,a,a_2,,,\n' + "".join(f"{i},1, {i},9,8,, x{i},\n" for i in range(3)) + ",,,,,,,\n"
    rows = read(tmp_path, text)
    assert list(rows) == ["a", "b (km)", "a_3", "a_2", "Unnamed: 6"]
    assert rows["Unnamed: 6"].tolist() == ["x0", "x1", "x2"]
    assert caplog.messages == [
        f"{tmp_path / 't.csv'}: left out the second 'a', which is the same; named a column that has another's name 'a_3'"
    ]


def test_an_index_is_left_out(tmp_path, caplog):
    table = pd.DataFrame({"a": [5, 4, 3], "b": ["x", "y", "z"]})
    for text in table.to_csv(), table.to_csv(index_label="Unnamed: 0"), 'a,b\n"1",5,x\n"2",4,y\n"3",3,z\n':
        caplog.clear()
        assert read(tmp_path, text).to_dict("list") == {"a": ["5", "4", "3"], "b": ["x", "y", "z"]}
        assert caplog.messages == [f"{tmp_path / 't.csv'}: left out 'Unnamed: 0', which numbers rows"]
    assert list(read(tmp_path, "a\nMazda,1\nFiat,2\n")) == ["Unnamed: 0", "a"]  # R's row names


NO_CSV = "t.csv is not CSV: save it as text"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "t.csv is empty$"),
        (b"\n\n", "t.csv is empty$"),
        (b"PK\x03\x04\x00\x00", f"{NO_CSV} with a header, separated by commas or semicolons or tabs or vertical bars"),
        (b"\xff\xfe\x00", NO_CSV),
        (b'[{"a": 1}]', NO_CSV),
        (b'\n{"a": 1}\n{"a": 2}\n', NO_CSV),
        (b"<!DOCTYPE html>\n<p>Log in, please", NO_CSV),
        (b"a,b\n1,2\n1,2,3\n", r"^line 3 of .* has more cells than its header \(2\): quote texts that hold a sep"),
        (b"a,b\n1,2,3,4\n", "^line 2 of "),
        (b"My table\n\na,b,c\n1,2,3\n", "^line 3 of .* delete lines that do not belong to the table$"),
        (b"# made by X, Y\n# on Monday\na,b,c\n1,2,3\n", "^line 3 of "),
        (b'sep=,\na,b\n1,"2\n3"\n4,5,6\n', "^line 5 of "),
        (b"a,b\n" + b"x" * 200_000 + b",1\n2,3,4,5\n", "^line 3 of "),
        (b'a,b\n1,"2\n3,4\n', "is not CSV: a quote that opens in row 2 is never closed$"),
    ],
)
def test_what_is_no_table_is_said_in_a_line(tmp_path, content, message):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(CompetitionError, match=message) as caught:
        read_tables([tmp_path / "t.csv"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["a,b,c\n1,2,3\n\n4,5\n6\n", 'a,b\n"1\n",2\n3\n'])
def test_rows_with_fewer_cells_are_reported(tmp_path, caplog, text):
    assert read(tmp_path, text).iloc[1, -1] == ""
    assert caplog.messages == [f"{tmp_path / 't.csv'}: line 4 has fewer cells than the header"]
    caplog.clear()
    read(tmp_path, "a,b\n1,\n2,\n")
    assert not caplog.messages


def test_rows_are_counted_as_in_a_spreadsheet(tmp_path):
    assert list(read(tmp_path, 'a,b\n"1\n2",3\n,\n4,5\n').index) == [2, 4]


@pytest.mark.parametrize(
    "text",
    [
        "<|a|>,<|b|>\n1,2\n",
        '"a;b;c;d",e\n"1;2;3;4",5\n',
        "a;b\n1,5,x;2,5,y\n",
        'a,b\n"|||",1\n',
        '"height, cm";"weight, kg"\n1,70;70,5\n1,8;80,5\n',
        "a|x,b|y\n1|2,3\n4,5|6\n",
    ],
)
def test_names_and_texts_may_hold_separators(tmp_path, text):
    assert len(read(tmp_path, text).columns) == 2


def test_rows_may_be_long(tmp_path):
    assert list(read(tmp_path, "a;b;c\n" + f"{'word, ' * 5000};1;x\n" * 5)) == ["a", "b", "c"]


def test_a_line_for_excel_is_no_header(tmp_path):
    assert read(tmp_path, "sep=;\na;b\n1;2\n").to_dict("list") == {"a": ["1"], "b": ["2"]}


def test_times():
    for cells, order in (
        (["1/2/2024", "2/1/2024", "13/1/2024"], [1, 2, 0]),
        (["1/13/2024", "2/1/2024", "1/2/2024"], [2, 0, 1]),
        (["01.02.2024", "02.01.2024", "03.01.2024"], [1, 2, 0]),
        (["2024-02-01", "1 Jan 2024", "2024-01-02T03:04"], [1, 2, 0]),
        (["10", "9", "9.5"], [1, 2, 0]),
        (["2020-01-02 00:00:00.5", "2020-03-01 00:00:00.1", "2020-02-01 00:00:00"], [0, 2, 1]),
        (["2020-04-20", "01.05.2020", "05.03.2020"], [2, 0, 1]),
        (["5/3/18", "13/3/18", "4/3/18", "5/3/99"], [3, 2, 0, 1]),
        (["3/5/18", "3/13/18", "3/4/18 10:00"], [2, 0, 1]),
        (["05.03.18", "04.04.18", "06.03.18"], [0, 2, 1]),
    ):
        assert as_times(pd.Series(cells)).argsort().tolist() == order


@pytest.mark.parametrize(
    ("cells", "rows"),
    [
        (["2024-01-02", "later", "2024-01-03", "never"], [1, 3]),
        (["2", "1", ""], [2]),
        (["1/31/2024", "31/1/2024", "2/28/2024", "x"], [3]),
        (["a", "b"], [0, 1]),
        (["2024-01-01", ""], [1]),
        (["Jan-19", "19-Jan", "Jan 19", "Jan. '19", "01-19", "1/19"], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_cells_that_are_no_times(cells, rows):
    times = as_times(pd.Series(cells))
    assert list(times.index[times.isna()]) == rows


DAYS = pd.date_range("2018-03-05", periods=400)


@pytest.mark.parametrize(
    "form", ["%y/%m/%d", "%d-%m-%y", "%y-%m-%d %H:%M", "%d%m%y", "%y%m%d", "%d%m%Y", "%m%d%Y", "%m.%Y"]
)
def test_dates_that_may_be_misread(form):
    cells = pd.Series(DAYS.strftime(form))
    assert are_unclear_dates(cells)
    assert are_unclear_dates(cells.str.removeprefix("0")) or form in ("%d%m%y", "%d-%m-%y")


@pytest.mark.parametrize(
    "form", ["%m/%d/%y", "%d.%m.%y", "%Y%m%d", "%Y%m", "%Y", "%B %Y", "%d-%b-%y", "%Y-%m-%d %H:%M", "%d/%m/%Y", "%j"]
)
def test_dates_that_may_not(form):
    assert not are_unclear_dates(pd.Series(DAYS.strftime(form)))


def test_months_that_read_as_fractions_may_be_misread():
    months = [f"{day.year}.{day.month}" for day in DAYS]
    assert as_times(pd.Series(["2018.10", "2018.9"])).is_monotonic_increasing  # as numbers
    assert are_unclear_dates(pd.Series(months))
    for others in DAYS.strftime("%Y.%m"), [*months, "2018.25"], ["2018.1", "2018.5"]:
        assert not are_unclear_dates(pd.Series(others))


@pytest.mark.parametrize(
    ("cells", "first"),
    [
        (["1/2/2024", "2/1/2024"], "the month"),
        (["01.02.2024", "02.01.2024"], "the day"),
        (["1/2/2024", "13/1/2024"], None),
        (["1/1/2024", "2/2/2024"], None),
        (["2024-01-02 10:00", "2024-02-01 10:00:00.5"], None),
        (["2024", "2023"], None),
        (["2020-04-20", "01.05.2020"], "the day"),
        (["2024-01-02", "later"], None),
    ],
)
def test_the_order_in_dates(cells, first):
    assert order_in_dates(pd.Series(cells)) == first


@pytest.mark.parametrize(
    "first", [("5.1", "3.5", "setosa"), ("0", "0", "a"), ("7", "3", "x")], ids=["floats", "equal", "label seen once"]
)
def test_a_table_without_names(tmp_path, first):
    kinds = ["setosa", "virginica", "a"] if first[2] != "x" else [f"kind {i}" for i in range(40)]
    rows = [first, *((5 + i % 9 / 10, i % 7, kinds[i % len(kinds)]) for i in range(40))]
    pd.DataFrame(rows).to_csv(tmp_path / "t.csv", index=False, header=False)
    with pytest.raises(
        CompetitionError, match=rf"the first line of .*t.csv looks like data \('{first[0]}', say\): write a"
    ):
        read_tables([tmp_path / "t.csv"])


def test_names_that_are_numbers(tmp_path):
    for names in (["0", "1", "2", "label"], ["2018", "2020", "2024", "country"], ["country", "1", "7", "2"]):
        columns = {name: [i % 50 for i in range(40)] for name in names}
        columns |= {"country": [f"country {i}" for i in range(40)]} if "country" in names else {}
        pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
        if names[1:] == ["1", "7", "2"]:  # years or measurements: nothing distinguishes them
            with pytest.raises(CompetitionError, match="looks like data"):
                read_tables([tmp_path / "t.csv"])
        else:
            assert list(read_tables([tmp_path / "t.csv"])[0]) == list(columns)


def test_times_of_day_are_no_dates():
    assert as_times(pd.Series(["09:30:00", "10:15", "23:59:59.5"])).isna().all()
    assert as_times(pd.Series(["2024-01-31 09:30", "2024-02-01 10:15"])).notna().all()
