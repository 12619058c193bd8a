"""Reads one snapshot in all its forms with the libraries that users have, and compares.

usage: read_exports.py DIR, which holds model-*.arrows, neighbours-*.arrows and scores-*.arrows (the values of the
topic's messages), snapshot.{arrow,npz,safetensors,onnx,json}, and x.npz with rows x and y = W(x−μ).
"""
import glob
import json
import sys

import numpy as np
import onnx
import onnxruntime
import pyarrow as pa
from safetensors import safe_open

folder = sys.argv[1]
rows = np.load(folder + "/x.npz")
X, want = rows["x"], rows["y"]


def check(name, y, tolerance):
    error = np.abs(y - want).max() / np.abs(want).max()
    print(f"{name}: y of {y.shape}, relative error {error:.1e}")
    assert y.shape == want.shape and error <= tolerance, name


def same(name, got, expected):
    assert got.dtype == expected.dtype and got.shape == expected.shape and (got == expected).all(), name


# The topic, as the README has it.
chunks = [open(p, "rb").read() for p in sorted(glob.glob(folder + "/model-*.arrows"))]
assert len(chunks) > 1, "the example must be larger than a chunk"
t = pa.concat_tables(pa.ipc.open_stream(c).read_all() for c in chunks)
t.validate(full=True)
d = int(t.schema.metadata[b"lca.d"])
V = t["vector"].combine_chunks().flatten().to_numpy().reshape(-1, d)
kind = np.array(t["kind"].to_pylist())
check("topic", (X - V[kind == "mean"]) @ V[kind == "whiten"].T, 1e-12)
assert not any(f.nullable for f in t.schema) and not t.schema.field("vector").type.value_field.nullable

metadata = {k.decode(): v.decode() for k, v in t.schema.metadata.items() if k != b"lca.part"}
expected = {k: V[kind == k] for k in ["whiten", "parzen", "gaussian", "c_l", "c_g"]}
expected["mean"] = V[kind == "mean"][0]
expected["eigenvalues"] = t["eigenvalue"].to_numpy()[(kind == "parzen") | (kind == "gaussian")]
n = pa.concat_tables(pa.ipc.open_stream(p).read_all() for p in sorted(glob.glob(folder + "/neighbours-*.arrows")))
expected["neighbours"] = n["x"].combine_chunks().flatten().to_numpy().reshape(-1, d)

s = pa.concat_tables(pa.ipc.open_stream(p).read_all() for p in sorted(glob.glob(folder + "/scores-*.arrows")))
expected["scores"] = s["score"].to_numpy()

# A file is the three streams, one after the other.
with open(folder + "/snapshot.arrow", "rb") as f:
    model, neighbours, scores = (pa.ipc.open_stream(f).read_all() for _ in range(3))
    assert not f.read()
assert model.equals(t.combine_chunks()) and neighbours.equals(n.combine_chunks()) and scores.equals(s.combine_chunks())

npz = np.load(folder + "/snapshot.npz")
for k, v in expected.items():
    same("npz " + k, npz[k], v)
assert json.loads(str(npz["metadata"])) == metadata
check("npz", (X - npz["mean"]) @ npz["whiten"].T, 1e-12)

with safe_open(folder + "/snapshot.safetensors", framework="numpy") as f:
    assert sorted(f.keys()) == sorted(expected) and f.metadata() == metadata
    for k, v in expected.items():
        same("safetensors " + k, f.get_tensor(k), v)
    check("safetensors", (X - f.get_tensor("mean")) @ f.get_tensor("whiten").T, 1e-12)

j = json.load(open(folder + "/snapshot.json"))
for k, v in expected.items():
    same("json " + k, np.array(j[k], v.dtype).reshape(v.shape), v)
assert j["metadata"] == metadata
check("json", (X - np.array(j["mean"])) @ np.array(j["whiten"]).T, 1e-12)

onnx.checker.check_model(folder + "/snapshot.onnx", full_check=True)
session = onnxruntime.InferenceSession(folder + "/snapshot.onnx", providers=["CPUExecutionProvider"])
props = session.get_modelmeta().custom_metadata_map
assert all(props[k] == v for k, v in metadata.items())
assert [(i.name, i.shape[1]) for i in session.get_inputs() + session.get_outputs()] == [("x", d), ("y", len(expected["whiten"]))]
check("onnx", session.run(["y"], {"x": X.astype(np.float32)})[0], 1e-5)
