"""Which files of a folder are ingested."""

import os
from pathlib import Path

from app.cli.folder import File, files_of


def _write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def test_ids_are_paths_below_the_folder_in_order(tmp_path: Path) -> None:
    _write(tmp_path, "b.md", "a/z.md", "a/deep/er.txt", "A.md")

    assert files_of(tmp_path) == [File(tmp_path / name, name) for name in ("A.md", "a/deep/er.txt", "a/z.md", "b.md")]


def test_a_single_file_has_its_name(tmp_path: Path) -> None:
    _write(tmp_path, "a/z.md")

    assert files_of(tmp_path / "a" / "z.md") == [File(tmp_path / "a" / "z.md", "z.md")]


def test_names_that_begin_with_a_dot_are_passed_over(tmp_path: Path) -> None:
    _write(tmp_path, ".git/config", ".hidden.md", "a/.cache/x.md", "a/seen.md")

    assert [file.document_id for file in files_of(tmp_path)] == ["a/seen.md"]


def test_every_type_is_sent_for_the_gateway_decides(tmp_path: Path) -> None:
    _write(tmp_path, "CODENOTIFY", "image.png", "empty")

    assert [file.fault for file in files_of(tmp_path)] == ["", "", ""]


def test_symbolic_links_are_refused_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    _write(outside, "secret.md")
    _write(folder, "in.md")
    (folder / "file.md").symlink_to(outside / "secret.md")
    (folder / "dir").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    faults = {file.document_id: file.fault for file in files_of(folder)}

    link = "is a symbolic link"
    assert faults == {"dir": link, "file.md": link, "loop": link, "in.md": ""}


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # reading it would hang

    assert [file.fault for file in files_of(tmp_path)] == ["is not a regular file"]


def test_a_file_that_can_never_be_stored_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.md").open("wb") as file:
        file.truncate((1 << 30) + 1)

    assert "larger" in files_of(tmp_path)[0].fault


def test_names_that_are_not_utf8_are_refused_and_can_be_shown(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.md")).touch()
    (file,) = files_of(tmp_path)

    assert (file.document_id, file.fault) == ("caf\\xe9.md", "its name is not UTF-8")
