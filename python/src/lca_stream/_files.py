"""Models from files and bytes: the parts of a snapshot as Arrow streams one after the other (.arrows), or .npz."""

from __future__ import annotations

import json
import os
import zipfile
import zlib

import numpy as np
import pyarrow as pa

from lca_stream._model import Model

NEWEST_FORMAT = 2
WANTED_PARTS = {"model", "neighbours"}


class FormatError(ValueError):
    """The bytes are no model that this version of the package can read."""


def read_model(path: str | os.PathLike) -> Model:
    """A model from a file of ``lca-stream snapshot export`` or ``lca-stream replay``: .arrows or .npz."""
    if os.fspath(path).endswith(".npz"):
        return _from_npz(path)
    with open(path, "rb") as f:
        return model_from_bytes(f.read())


def model_from_bytes(data: bytes) -> Model:
    """The same from the bytes of an .arrows file."""
    buffer, parts = pa.BufferReader(data), {}
    try:
        while buffer.tell() < buffer.size():
            table = read_stream(buffer)
            parts[_metadata(table)["lca.part"]] = table
    except (*ARROW_FAULTS, KeyError) as err:
        raise FormatError(f"these bytes are no snapshot of lca-stream: {err}") from err
    return model_from_parts(parts)


ARROW_FAULTS = pa.ArrowException, OSError, UnicodeDecodeError  # what pyarrow raises for bytes that it cannot read


def read_stream(source) -> pa.Table:
    """One Arrow stream as a table. pyarrow believes what the bytes say of their lengths and offsets, and would read
    outside of them later; so they are checked first."""
    table = pa.ipc.open_stream(source).read_all()
    table.validate(full=True)
    table.schema.to_string(show_field_metadata=False, show_schema_metadata=False)  # names that are no text
    return table


def model_from_parts(parts: dict[str, pa.Table]) -> Model:
    """A model from its parts by name, each as one table."""
    try:
        return _from_parts(parts)
    except FormatError:
        raise
    except (*ARROW_FAULTS, ArithmeticError, IndexError, KeyError, TypeError, ValueError) as err:
        raise FormatError(f"the snapshot is damaged: {type(err).__name__}: {err}") from err


def _from_parts(parts: dict[str, pa.Table]) -> Model:
    if missing := WANTED_PARTS - parts.keys():
        raise FormatError(f"the snapshot is cut: it has no part {', '.join(sorted(missing))}")
    table = parts["model"]
    metadata = _metadata(table)
    _not_young(metadata)
    vectors, kinds = _vectors(table["vector"]), np.array(table["kind"])
    order = np.lexsort((np.array(table["index"]), kinds))  # rows of a kind by their index, whatever their order
    of = {kind: vectors[order[kinds[order] == kind]] for kind in ("mean", "whiten", "parzen", "gaussian")}
    scores = parts["scores"]["score"].to_numpy() if "scores" in parts else np.empty(0)
    if len(scores) != int(metadata.get("lca.scores", 0)):
        raise FormatError(f"the snapshot is cut: it has {len(scores)} scores of {metadata['lca.scores']}")
    return _model(metadata, of["mean"][0], of["whiten"], of["parzen"].T, of["gaussian"].T, _vectors(parts["neighbours"]["x"]), scores)


def _from_npz(path) -> Model:
    try:
        with np.load(path) as arrays:
            if "metadata" not in arrays:
                raise FormatError(f"{path} was not exported by lca-stream: it has no array metadata")
            metadata = json.loads(str(arrays["metadata"]))
            scores = arrays["scores"] if "scores" in arrays else np.empty(0)
            return _model(metadata, arrays["mean"].ravel(), arrays["whiten"], arrays["parzen"].T, arrays["gaussian"].T, arrays["neighbours"], scores)
    except (FormatError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (ArithmeticError, EOFError, KeyError, OSError, NotImplementedError, SyntaxError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as err:
        raise FormatError(f"{path} is damaged: {type(err).__name__}: {err}") from err


def _not_young(metadata) -> None:
    if metadata.get("lca.young") == "true":
        raise FormatError(
            f"the snapshot is young: {metadata['lca.rows_seen']} rows so far; the row score comes after {metadata.get('lca.rows_wanted', 'more')} rows, and nothing is whitened before"
        )


def _model(metadata, mean, whitening, parzen, gaussian, neighbours, scores) -> Model:
    if int(metadata["lca.format"]) > NEWEST_FORMAT:
        raise FormatError(f"the snapshot has format {metadata['lca.format']}; this package reads up to {NEWEST_FORMAT}: update it")
    if metadata["lca.format"] == "1":
        neighbours = neighbours - mean  # the first format has x_j itself
    _check(metadata, mean, whitening, parzen, gaussian, neighbours)
    return Model(metadata, mean, whitening, parzen, gaussian, neighbours, scores)


def _check(metadata, mean, whitening, parzen, gaussian, neighbours) -> None:
    """Raises FormatError for parts that do not belong together: methods of the model would fail, or give anything."""
    d, features, constant, tail = len(mean), *(json.loads(metadata.get(f"lca.{key}", "null")) for key in ("features", "constant_columns", "tail"))
    shapes = whitening.shape, parzen.shape[0], gaussian.shape[0], neighbours.shape[1]
    if shapes != ((d, d), d, d, d) or parzen.shape[1] + gaussian.shape[1] not in (d, d - len(constant or ())):
        raise FormatError(f"the parts of the snapshot have shapes that do not fit {d} features")
    if not (isinstance(features, list) and len(features) == d and set(constant or ()) <= set(range(d))):
        raise FormatError(f"the snapshot names other features than its {d}: {metadata.get('lca.features')}")
    if tail and tail.keys() != {"u", "xi", "beta"}:
        raise FormatError(f"the snapshot's lca.tail is {tail}")
    int(metadata["lca.model_version"]), int(metadata.get("lca.dof", 0)), metadata["lca.model_id"]


def _metadata(table: pa.Table) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}


def _vectors(column: pa.ChunkedArray) -> np.ndarray:
    """A column of fixed-size lists as a matrix."""
    flat = column.combine_chunks()
    if isinstance(flat, pa.ChunkedArray):
        flat = flat.chunk(0)
    return flat.flatten().to_numpy().reshape(len(flat), flat.type.list_size)
