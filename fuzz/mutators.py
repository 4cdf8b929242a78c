"""Changes that keep a file readable enough for its inner parts to be reached: `mutate(data, random) -> bytes`."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

Mutate = Callable[[bytes, Random], bytes]

NUMBERS = (0, 1, -1, 127, 255, 256, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, -(2**63), 10**30)
WORDS = ("", "a", "case_id", "label", "=1+1", "../../x", "\x00", "\ud800", "NaN", "'; DROP TABLE cases;--", "é" * 40)
VALUES: tuple[Any, ...] = (*NUMBERS, *WORDS, None, True, 0.5, 1e308, 1e-320, float("nan"), float("inf"), [], {}, [[]])


def flip(data: bytes, random: Random) -> bytes:
    """Some bytes changed, cut out, doubled or overwritten by numbers that are often too large."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 8))):
        if not changed:
            return bytes(random.randbytes(8))
        place, way = random.randrange(len(changed)), random.randrange(6)
        if way < 2:
            changed[place] = random.randrange(256)
        elif way == 2:
            changed[place] ^= 1 << random.randrange(8)
        elif way == 3:
            size, order = random.choice((1, 2, 4, 8)), random.choice(("little", "big"))
            value = random.choice(NUMBERS) % 2 ** (8 * size)
            changed[place : place + size] = value.to_bytes(size, order)
        elif way == 4:
            del changed[place : place + random.choice((1, 2, 8, 64))]
        else:
            changed[place:place] = changed[place : place + random.choice((1, 4, 32))]
    return bytes(changed)


def text(data: bytes, random: Random) -> bytes:
    """Lines and cells exchanged for strange ones."""
    if random.random() < 0.4:
        return flip(data, random)
    marks = [
        b",",
        b"\t",
        b"\n",
        b"\r",
        b'"',
        b"'",
        b"\x00",
        b"\xff",
        b"1e999",
        b"inf",
        b"NA",
        b"0x1",
        b"1_0",
        b" ",
        b";",
    ]
    place, piece = random.randrange(len(data) + 1), random.choice(marks) * random.choice((1, 1, 2))
    return data[:place] + piece + data[place + random.choice((0, 0, 1)) :]


def packed(data: bytes, random: Random) -> bytes:
    """`text` inside gzip, or bytes of gzip itself."""
    if random.random() < 0.3:
        return flip(data, random)
    try:
        return gzip.compress(text(gzip.decompress(data), random), 1, mtime=0)
    except (OSError, EOFError, zlib.error):
        return flip(data, random)


# Trees -------------------------------------------------------------------------------------------------------


def grown(tree: Any, random: Random) -> Any:
    """One node of a tree exchanged, dropped, wrapped or doubled."""
    places = list(_places(tree))
    if not places:
        return random.choice(VALUES)
    parent, key = random.choice(places)
    way = random.randrange(5)
    if way == 0:
        other, name = random.choice(places)
        parent[key] = json.loads(json.dumps(other[name]))
    elif way == 1:
        del parent[key]
    elif way == 2:
        parent[key] = [parent[key]] * random.choice((1, 2))
    elif way == 3 and isinstance(parent, dict):
        parent[random.choice(WORDS)] = parent.pop(key)
    else:
        parent[key] = random.choice(VALUES)
    return tree


def _places(tree: Any) -> Any:
    """Every (container, key) of a tree, without recursion: trees that grow can be deep."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        for key in keys:
            yield node, key
            waiting.append(node[key])


def as_json(data: bytes, random: Random) -> bytes:
    """A changed tree as JSON; now and then changed bytes, or very deep."""
    if random.random() < 0.02:
        deep = random.choice((50, 2000))
        return b"[" * deep + data + b"]" * deep
    try:
        return json.dumps(grown(json.loads(data), random)).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return flip(data, random)


# Formats with sums and offsets -------------------------------------------------------------------------------


def png(data: bytes, random: Random) -> bytes:
    """A chunk changed, its sum made right; pixels are changed before they are compressed."""
    chunks, place = [], 8
    while place + 12 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    if not chunks or random.random() < 0.2:
        return flip(data, random)
    number = random.randrange(len(chunks))
    kind, content = chunks[number]
    if kind == b"IDAT" and random.random() < 0.5:
        try:
            content = zlib.compress(flip(zlib.decompress(content), random), 1)
        except zlib.error:
            content = flip(content, random)
    elif random.random() < 0.15:
        kind = random.choice((b"IHDR", b"PLTE", b"tRNS", b"eXIf", b"acTL", b"fcTL", b"iCCP", b"zTXt", b"pHYs", b"IEND"))
    else:
        content = flip(content, random)
    chunks[number] = kind, content
    parts = [struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def tiff(data: bytes, random: Random) -> bytes:
    """A field of a directory (tag, type, count or value) exchanged; XML and descriptions are bytes like others."""
    if len(data) < 16 or random.random() < 0.3:
        return flip(data, random)
    order = "<" if data[:2] == b"II" else ">"
    big = data[2:4] in (b"+\0", b"\0+")
    (first,) = struct.unpack_from(order + ("Q" if big else "I"), data, 8 if big else 4)
    size, start = (20, first + 8) if big else (12, first + 2)
    if start + size > len(data):
        return flip(data, random)
    (count,) = struct.unpack_from(order + ("Q" if big else "H"), data, first)
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        field = start + size * random.randrange(min(max(count, 1), 64))
        if field + size > len(changed):
            continue
        kind, where = random.choice((("H", 0), ("H", 2), ("I", 4), ("I", 8), ("I", 8), ("H", 8)))
        where += field + (8 if big and where == 8 and kind == "I" else 0)
        value = random.choice(NUMBERS) if random.random() < 0.6 else random.randrange(600)
        struct.pack_into(order + kind, changed, where, value % 2 ** (8 * struct.calcsize(kind)))
    return bytes(changed)


def model(data: bytes, random: Random) -> bytes:
    """The header of a saved model or its arrays changed, the checksum made right."""
    from clearfold.archive.model import CHECKSUM, MAGIC

    if random.random() < 0.1:
        return flip(data, random)
    start = len(MAGIC) + 12
    length = int.from_bytes(data[len(MAGIC) + 4 : start], "little")
    header, raw = data[start : start + length], data[start + length : -CHECKSUM]
    if random.random() < 0.7:
        header = as_json(header, random)
    elif raw:
        raw = flip(raw, random)
    body = data[: len(MAGIC) + 4] + len(header).to_bytes(8, "little") + header + raw
    return body + blake2b(body, digest_size=CHECKSUM).digest()


def archive(data: bytes, random: Random) -> bytes:
    """A cell of a table changed through SQL, or bytes of the file."""
    if random.random() < 0.35:
        return flip(data, random)
    with tempfile.TemporaryDirectory(dir=_memory()) as folder:
        path = Path(folder) / "a"
        path.write_bytes(data)
        try:
            _change_cell(path, random)
        except (sqlite3.Error, UnicodeError, OverflowError):
            return flip(data, random)
        return path.read_bytes()


def _change_cell(path: Path, random: Random) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = MEMORY")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = random.choice(tables)
        column = random.choice([row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')])
        cells = connection.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()
        row, value = random.choice(cells) if cells else (0, None)
        connection.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE rowid = ?', (_cell(value, random), row))
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _cell(value: Any, random: Random) -> Any:
    if isinstance(value, bytes) and random.random() < 0.8:
        try:
            return model(value, random) if value.startswith(b"clearfold model") else flip(value, random)
        except (IndexError, ValueError):
            return flip(value, random)
    if isinstance(value, str) and value[:1] in ("{", "[", '"') and random.random() < 0.8:
        return as_json(value.encode(), random).decode("utf-8", "replace")
    return random.choice((0, -1, 2**62, 0.5, None, "", "x", b"", b"\x00" * 9, "[]", "{}", "null", '"a"', "1e999"))


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
