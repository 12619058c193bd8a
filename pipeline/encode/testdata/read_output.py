"""Compares an output message with the input it came from, in pyarrow.

usage: read_output.py INPUT OUTPUT: rows 0, 1, … of lca are [2i+1, 2i+2], row 3 is null.
"""
import sys

import pyarrow as pa

before = pa.ipc.open_stream(sys.argv[1]).read_all()
reader = pa.ipc.open_stream(sys.argv[2])
after = pa.Table.from_batches([reader.read_next_batch()])
after.validate(full=True)
ours = ["lca", "lca_score", "lca_p", "lca_why"]
assert after.column_names[-4:] == ours
assert after.drop(ours).schema.equals(before.schema, check_metadata=True), after.schema
for name in before.column_names:
    assert after[name].equals(before[name]), (name, before[name], after[name])
lca = after.schema.field("lca").type
assert lca == pa.list_(pa.field("item", pa.float32(), nullable=False), 2), lca
n = before.num_rows
assert after["lca"].to_pylist() == [None if i == 3 else [2.0 * i + 1, 2.0 * i + 2] for i in range(n)]
assert after["lca_score"].to_pylist() == [None if i == 3 else float(i) for i in range(n)]
assert after.schema.field("lca_score").type == after.schema.field("lca_p").type == pa.float32()
assert after["lca_p"].to_pylist() == [None if i == 3 else i / 64 for i in range(n)]
item = pa.struct([pa.field("feature", pa.string(), nullable=False), pa.field("nats", pa.float32(), nullable=False)])
assert after.schema.field("lca_why").type == pa.list_(pa.field("item", item, nullable=False)), after.schema.field("lca_why").type
named = [{"feature": "α", "nats": 2.0}, {"feature": "second", "nats": 1.0}]
assert after["lca_why"].to_pylist() == [None if i == 3 else named for i in range(n)]
try:
    reader.read_next_batch()
    raise AssertionError("more than one batch")
except StopIteration:
    print(len(before.column_names), "columns passed through")
