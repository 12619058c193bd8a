"""Models from files and bytes: the parts of a snapshot as Arrow streams one after the other (.arrows), or .npz."""

from __future__ import annotations

import json
import os

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
            table = pa.ipc.open_stream(buffer).read_all()
            parts[_metadata(table)["lca.part"]] = table
    except (pa.ArrowException, OSError, KeyError) as err:
        raise FormatError(f"these bytes are no snapshot of lca-stream: {err}") from err
    return model_from_parts(parts)


def model_from_parts(parts: dict[str, pa.Table]) -> Model:
    """A model from its parts by name, each as one table."""
    if missing := WANTED_PARTS - parts.keys():
        raise FormatError(f"the snapshot is cut: it has no part {', '.join(sorted(missing))}")
    table = parts["model"]
    metadata = _metadata(table)
    vectors, kinds = _vectors(table["vector"]), np.array(table["kind"])
    order = np.lexsort((np.array(table["index"]), kinds))  # rows of a kind by their index, whatever their order
    of = {kind: vectors[order[kinds[order] == kind]] for kind in ("mean", "whiten", "parzen", "gaussian")}
    scores = parts["scores"]["score"].to_numpy() if "scores" in parts else np.empty(0)
    if len(scores) != int(metadata.get("lca.scores", 0)):
        raise FormatError(f"the snapshot is cut: it has {len(scores)} scores of {metadata['lca.scores']}")
    return _model(metadata, of["mean"][0], of["whiten"], of["parzen"].T, of["gaussian"].T, _vectors(parts["neighbours"]["x"]), scores)


def _from_npz(path) -> Model:
    with np.load(path) as arrays:
        if "metadata" not in arrays:
            raise FormatError(f"{path} was not exported by lca-stream: it has no array metadata")
        metadata = json.loads(str(arrays["metadata"]))
        scores = arrays["scores"] if "scores" in arrays else np.empty(0)
        return _model(metadata, arrays["mean"].ravel(), arrays["whiten"], arrays["parzen"].T, arrays["gaussian"].T, arrays["neighbours"], scores)


def _model(metadata, mean, whitening, parzen, gaussian, neighbours, scores) -> Model:
    if int(metadata["lca.format"]) > NEWEST_FORMAT:
        raise FormatError(f"the snapshot has format {metadata['lca.format']}; this package reads up to {NEWEST_FORMAT}: update it")
    if metadata["lca.format"] == "1":
        neighbours = neighbours - mean  # the first format has x_j itself
    return Model(metadata, mean, whitening, parzen, gaussian, neighbours, scores)


def _metadata(table: pa.Table) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in (table.schema.metadata or {}).items()}


def _vectors(column: pa.ChunkedArray) -> np.ndarray:
    """A column of fixed-size lists as a matrix."""
    flat = column.combine_chunks()
    if isinstance(flat, pa.ChunkedArray):
        flat = flat.chunk(0)
    return flat.flatten().to_numpy().reshape(len(flat), flat.type.list_size)
