"""Reads what names its schema with the package of python/ and compares it with the same rows as Arrow.

usage: read_registered.py JOB: schemas (texts by id, each a list in which others stand before those that refer to them) and messages
(pairs of value and headers: as registered, and as Arrow; in base64). Prints how many messages there are.
"""
import base64
import json
import sys

import lca_stream

with open(sys.argv[1]) as f:
    job = json.load(f)
schemas = {int(number): tuple(texts) for number, texts in job["schemas"].items()}
for pair in job["messages"]:
    got, want = (
        lca_stream.rows_from_bytes(base64.b64decode(m["value"]), [(h["Key"], base64.b64decode(h["Value"])) for h in m["headers"]], registry=schemas)
        for m in pair
    )
    got.validate(full=True)
    if pair[0]["text"]:  # JSON does not say all types
        assert got.column_names == want.column_names and got.to_pylist() == want.to_pylist(), (got, want)
        continue
    if want["lca"].null_count == want.num_rows:  # how long vectors are, other messages say
        i = want.column_names.index("lca")
        want = want.set_column(i, "lca", got["lca"])
    assert got.schema.equals(want.schema), f"{got.schema}\nwant\n{want.schema}"
    for name in want.column_names:
        assert got[name].to_pylist() == want[name].to_pylist(), (name, got[name], want[name])
print(len(job["messages"]))
