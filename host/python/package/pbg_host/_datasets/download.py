"""Downloads of datasets, verified by their checksums."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ..errors import DataError, UsageError


def download(url: str, folder: str | os.PathLike[str], *, sha256: str) -> Path:
    """Downloads an archive (`.tar`, `.tar.gz`, `.zip`) and extracts its files to a new folder, which it returns.

    `sha256` is the SHA-256 of the archive, in hexadecimal digits; an archive with another one is not extracted. The
    folder appears only when it is complete. Links and files outside of the folder are refused.

    Raises `DataError` if the archive cannot be downloaded or is another one.
    """
    folder = Path(folder)
    wanted = sha256.strip().lower()
    if len(wanted) != 64 or not all(digit in "0123456789abcdef" for digit in wanted):
        raise UsageError(f"sha256: expected 64 hexadecimal digits, not {sha256!r}")
    if not url.startswith(("https://", "http://", "file://")):
        raise UsageError(f"url: expected an address that begins with https://, not {url!r}")
    if folder.exists():
        raise UsageError(f"{folder}: exists already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as place:
        archive, new = Path(place, "archive"), Path(place, "new")
        new.mkdir()
        found = _fetch(url, archive)
        if found != wanted:
            raise DataError(f"{url}: has the SHA-256 {found}, not {wanted}; it is another file, or damaged")
        _extract(url, archive, new)
        new.rename(folder)
    return folder


def _fetch(url: str, path: Path) -> str:
    """Downloads a file. Returns its SHA-256."""
    digest = hashlib.sha256()
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, path.open("wb") as file:
            while block := answer.read(1 << 20):
                digest.update(block)
                file.write(block)
    except (urllib.error.URLError, OSError) as error:
        raise DataError(f"{url}: cannot be downloaded: {error}") from None
    return digest.hexdigest()


_DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
)
"""Exceptions of archives that are damaged or end too early."""


def _extract(url: str, archive: Path, into: Path) -> None:
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for entry in zipped.infolist():
                    if not entry.is_dir():
                        with zipped.open(entry) as source:
                            _put(url, entry.filename, source, into)
            return
        with tarfile.open(archive) as tar:
            for member in tar:
                if member.isdir():
                    continue
                opened = tar.extractfile(member) if member.isfile() else None
                if opened is None:
                    raise DataError(f"{url}: contains {member.name}, which is not a file")
                with opened as source:
                    _put(url, member.name, source, into)
    except _DAMAGED as error:
        raise DataError(f"{url}: is not a complete archive: {error}") from None


def _put(url: str, name: str, source: IO[bytes] | Any, into: Path) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise DataError(f"{url}: contains {name}, which is outside of its folder")
    target = into.joinpath(*path.parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        shutil.copyfileobj(source, file)
