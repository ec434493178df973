"""Extracts files from a zip archive: extract.py ARCHIVE FOLDER FROM INTO [FROM INTO]...

FROM is the path of a file in the archive, or of a folder if it ends with "/"; INTO is the path below FOLDER. All of
them must exist. Nothing is extracted if the path of any entry leads out of the archive.
"""

import os
import shutil
import sys
import zipfile


def parts(name: str) -> list[str]:
    """Returns the components of an entry's path."""
    if name.startswith("/"):
        raise ValueError(f"entry {name!r} leads out of the archive")
    found = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in found or "\0" in name or "\\" in name:
        raise ValueError(f"entry {name!r} leads out of the archive")
    return found


def targets(name: str, takes: list[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Returns the requests that a file of the archive meets, each with its path below the folder."""
    path, found = parts(name), []
    for source, into in takes:
        prefix = parts(source)
        if source.endswith("/") and path[: len(prefix)] == prefix:
            found.append((source, parts(into) + path[len(prefix) :]))
        elif path == prefix:
            found.append((source, parts(into)))
    return found


def extract(archive: str, folder: str, takes: list[tuple[str, str]]) -> None:
    with zipfile.ZipFile(archive) as opened:
        entries = [(entry, targets(entry.filename, takes)) for entry in opened.infolist()]
        taken = {source for entry, found in entries if not entry.is_dir() for source, _ in found}
        for source, _ in takes:
            if source not in taken:
                raise ValueError(f"the archive has no {source}")
        for entry, found in entries:
            if entry.is_dir():
                continue
            for _, path in found:
                target = os.path.join(folder, *path)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                # Reading to the end checks the checksum.
                with opened.open(entry) as source, open(target, "wb") as file:
                    shutil.copyfileobj(source, file)


if __name__ == "__main__":
    archive, folder, *rest = sys.argv[1:]
    try:
        extract(archive, folder, list(zip(rest[::2], rest[1::2])))
    except Exception as error:  # zipfile raises errors of many kinds for damaged archives
        sys.exit(f"{archive}: {error or type(error).__name__}")
