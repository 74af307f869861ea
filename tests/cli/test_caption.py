"""`workings caption`, with a captioner of colored squares."""

import pytest

from workings.cli import main

pytest.importorskip("PIL")


def test_images_are_captioned(squares_run, squares, tmp_path, capsys):
    image = squares.parent / "7.png"
    assert main(["caption", str(squares_run), str(image)]) == 0
    caption = capsys.readouterr().out
    rows = (line.partition(",") for line in squares.read_text().splitlines())
    assert caption.strip() in [text for name, _, text in rows if name == "7.png"]
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"not an image")
    assert main(["caption", str(squares_run), str(bad), str(image)]) == 2
    printed = capsys.readouterr()
    assert printed.out == f"7.png\t{caption}"
    assert "bad.png: not an image" in printed.err
    assert main(["caption", str(squares_run), str(image), "--test", "1", "--n-best", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t")[0] for line in lines][:2] == ["7.png", "7.png"]
    assert len(lines) == 4


@pytest.mark.parametrize("suffix", ["html", "svg", "png", "json", "txt"])
def test_attention_is_drawn(squares_run, squares, tmp_path, suffix):
    out, image = tmp_path / f"attention.{suffix}", squares.parent / "7.png"
    assert main(["caption", str(squares_run), str(image), "--show", "--out", str(out)]) == 0
    assert out.stat().st_size > 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no pictures"),
        (["--test", "99"], "there are 15 test"),
        (["--test", "0"], "there are 15 test"),
        (["missing.png"], "No such file"),
        (["--test", "1", "--n-best", "0"], "at least 1"),
        (["--test", "1", "--n-best", "2", "--temperature", "1"], "exclude each other"),
        (["--test", "1", "--n-best", "2", "--show"], "exclude each other"),
        (["--test", "1", "--test", "2", "--show"], "--show"),
        (["--test", "1", "--show", "--head", "2"], "head 2"),
        (["--test", "1", "--out", "seen.html"], "--out needs --show"),
    ],
)
def test_invalid_options_are_refused_in_one_line(squares_run, capsys, options, message):
    assert main(["caption", str(squares_run), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
