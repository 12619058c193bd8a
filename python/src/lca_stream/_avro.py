"""Rows of Avro, with the types that they have in output as Arrow. Needs fastavro: ``pip install 'lca-stream[avro]'``.

fastavro reads a schema that has the same bytes as the writer's and tells more about them: dates are plain integers, and
each branch of a union is a record, which says which branch it was.
"""

from __future__ import annotations

import dataclasses
import decimal
import io
import itertools

import pyarrow as pa

from lca_stream._files import FormatError

_INTEGERS = {
    "int": (pa.int32(), {"date": pa.date32(), "time-millis": pa.time32("ms")}),
    "long": (pa.int64(), {"time-micros": pa.time64("us")}),
}
for _name, _unit in (("millis", "ms"), ("micros", "us"), ("nanos", "ns")):
    _INTEGERS["long"][1]["timestamp-" + _name] = pa.timestamp(_unit, "UTC")
    _INTEGERS["long"][1]["local-timestamp-" + _name] = pa.timestamp(_unit)
_PLAIN = {"null": pa.null(), "boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "bytes": pa.binary()}
_PRIMITIVES = {*_PLAIN, *_INTEGERS}
_NAMED = {"record", "error", "enum", "fixed"}
_COMPLEX = {*_NAMED, "array", "map"}


@dataclasses.dataclass(eq=False)
class _Node:
    """A type of a schema. A named type is one node wherever it is used, so nodes may form rings."""

    kind: str
    schema: dict = dataclasses.field(default_factory=dict)
    name: str = ""  # of a record, an enum or a fixed, without its namespace
    names: list[str] = dataclasses.field(default_factory=list)  # of the fields of a record
    children: list[_Node] = dataclasses.field(default_factory=list)  # fields, branches or items

    def is_number(self) -> bool:
        return self.kind in ("float", "double") or self.kind in _INTEGERS and self.schema.get("logicalType") not in _INTEGERS[self.kind][1]

    def is_numbers(self) -> bool:
        """Whether this is a union of several numbers, with or without null."""
        some = [b for b in self.children if b.kind != "null"]
        return self.kind == "union" and len(some) > 1 and all(b.is_number() for b in some)

    def is_decimal(self) -> bool:
        precision, scale = self.schema.get("precision", 0), self.schema.get("scale", 0)
        return self.schema.get("logicalType") == "decimal" and self.kind in ("bytes", "fixed") and 1 <= precision <= 76 and 0 <= scale <= precision

    def without_null(self) -> _Node:
        """The one type that [null, T] has next to null."""
        some = [b for b in self.children if b.kind != "null"]
        return some[0] if self.kind == "union" and len(self.children) == 2 and len(some) == 1 else self


def _node(schema, namespace: str, named: dict[str, _Node]) -> _Node:
    if isinstance(schema, list):
        return _Node("union", children=[_node(b, namespace, named) for b in schema])
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return _Node(schema)
        found = named.get(f"{namespace}.{schema}") or named.get(schema)
        if found is None:
            raise FormatError(f"the schema does not define its type {schema!r}")
        return found
    kind = schema["type"]
    if not isinstance(kind, str) or kind not in {*_PRIMITIVES, *_COMPLEX}:
        return _node(kind, namespace, named)
    if kind not in _NAMED:
        items = [schema[k] for k in ("items", "values") if k in schema]
        return _Node(kind, schema, children=[_node(s, namespace, named) for s in items])
    namespace, name = schema["name"].rpartition(".")[::2] if "." in schema["name"] else (schema.get("namespace", namespace), schema["name"])
    node = _Node("record" if kind == "error" else kind, schema, name)
    named[f"{namespace}.{name}" if namespace else name] = node
    for field in schema.get("fields", []):
        node.names.append(field["name"])
        node.children.append(_node(field["type"], namespace, named))
    return node


@dataclasses.dataclass
class _Shape:
    """A node as a column, or a part of one. Shapes form a tree."""

    node: _Node
    type: pa.DataType
    children: list[_Shape | None]  # None: a record within itself, which Arrow has no type for


def _shape(node: _Node, path: tuple[_Node, ...] = ()) -> _Shape | None:
    node = node.without_null()
    if node in path:
        return None
    if node.is_numbers():
        return _Shape(node, pa.float64(), [])
    children = [_shape(c, (*path, node)) for c in node.children]
    if node.kind == "record":
        return _Shape(node, pa.struct([(n, c.type) for n, c in zip(node.names, children) if c]), children)
    if None in children:
        return None
    return _Shape(node, _type(node, [c.type for c in children]), children)


def _type(node: _Node, within: list[pa.DataType]) -> pa.DataType:
    kind, logical = node.kind, node.schema.get("logicalType")
    if kind == "array":
        return pa.list_(within[0])
    if kind == "map":
        return pa.map_(pa.string(), within[0])
    if kind == "union":
        return pa.dense_union([pa.field(b.name or b.kind, t) for b, t in zip(node.children, within)])
    if kind in _INTEGERS:
        plain, logicals = _INTEGERS[kind]
        return logicals.get(logical, plain)
    if node.is_decimal():
        make = pa.decimal128 if node.schema["precision"] <= 38 else pa.decimal256
        return make(node.schema["precision"], node.schema.get("scale", 0))
    if kind == "fixed":
        return pa.binary(node.schema["size"])
    return pa.string() if kind == "enum" else _PLAIN[kind]


def _bytes_of(node: _Node, numbers: itertools.count, done: dict[_Node, str]):
    """A schema for fastavro that has the bytes of a node."""
    if node.kind == "enum":
        return "int"  # the place among its symbols
    if node in done:
        return done[node]
    name = f"T{next(numbers)}"
    if node.kind == "record":
        done[node] = name
        fields = [{"name": f"f{i}", "type": _bytes_of(c, numbers, done)} for i, c in enumerate(node.children)]
        return {"type": "record", "name": name, "fields": fields}
    if node.kind == "fixed":
        return {"type": "fixed", "name": name, "size": node.schema["size"]}
    within = [_bytes_of(c, numbers, done) for c in node.children]
    if node.kind == "array":
        return {"type": "array", "items": within[0]}
    if node.kind == "map":
        return {"type": "map", "values": within[0]}
    if node.kind == "union" and node.without_null() is node and not node.is_numbers():
        return [{"type": "record", "name": f"{name}_{i}", "fields": [{"name": f"f{i}", "type": b}]} for i, b in enumerate(within)]
    return within if node.kind == "union" else node.kind


def _array(shape: _Shape, values: list) -> pa.Array:
    node, null = shape.node, [v is None for v in values]
    if node.kind == "record":
        fields = [(i, c) for i, c in enumerate(shape.children) if c]
        arrays = [_array(c, [None if v is None else v[f"f{i}"] for v in values]) for i, c in fields]
        if not arrays:
            return pa.array([None if v is None else {} for v in values], shape.type)
        return pa.StructArray.from_arrays(arrays, fields=list(shape.type), mask=pa.array(null, pa.bool_()))
    if node.kind in ("array", "map"):
        ends = list(itertools.accumulate((len(v or ()) for v in values), initial=0))
        offsets = pa.array([None if n else end for n, end in zip([*null, False], ends)], pa.int32())
        if node.kind == "array":
            return pa.ListArray.from_arrays(offsets, _array(shape.children[0], [x for v in values if v for x in v]), type=shape.type)
        keys, items = pa.array([k for v in values if v for k in v], pa.string()), [x for v in values if v for x in v.values()]
        return pa.MapArray.from_arrays(offsets, keys, _array(shape.children[0], items), type=shape.type)
    if pa.types.is_union(shape.type):
        return _union(shape, values)
    if node.kind == "enum":
        values = [None if v is None else node.schema["symbols"][v] for v in values]
    elif node.is_decimal():
        scale = node.schema.get("scale", 0)
        values = [None if v is None else _decimal(int.from_bytes(v, "big", signed=True), scale) for v in values]
    return pa.array(values, shape.type)


def _union(shape: _Shape, values: list) -> pa.Array:
    codes, offsets, within = [], [], [[] for _ in shape.children]
    for v in values:
        (name, value), = v.items() if v is not None else [("f0", None)]  # within a null, where something has to be
        code = int(name[1:])
        codes.append(code)
        offsets.append(len(within[code]))
        within[code].append(value)
    children = [_array(c, w) for c, w in zip(shape.children, within)]
    return pa.UnionArray.from_dense(pa.array(codes, pa.int8()), pa.array(offsets, pa.int32()), children, [f.name for f in shape.type])


def _decimal(unscaled: int, scale: int) -> decimal.Decimal:
    return decimal.Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))


class Reader:
    """Reads rows of one writer's schema."""

    def __init__(self, schemas: list):
        """The last of the schemas is the writer's; the others are those to which it refers, each before it is used."""
        try:
            import fastavro
        except ImportError as err:
            raise ImportError("reading Avro needs fastavro: pip install 'lca-stream[avro]'") from err
        named: dict[str, _Node] = {}
        root = [_node(s, "", named) for s in schemas][-1]
        self._columns = [(f"f{i}", name, shape) for i, (name, shape) in enumerate(zip(root.names, _shape(root).children)) if shape]
        self._schema = fastavro.parse_schema(_bytes_of(root, itertools.count(), {}))
        self._read = fastavro.schemaless_reader

    def columns(self, body: bytes) -> dict[str, pa.Array]:
        """The columns of a row."""
        source = io.BytesIO(body)
        try:
            row = self._read(source, self._schema)
            columns = {name: _column(shape, row[field]) for field, name, shape in self._columns}
        except (EOFError, ValueError, IndexError, MemoryError, OverflowError) as err:
            raise FormatError(f"this value is not of its schema: {err!r}") from err
        if source.tell() != len(body):
            raise FormatError(f"{len(body) - source.tell()} bytes stand behind the row of this value")
        return columns


def _column(shape: _Shape, value) -> pa.Array:
    """A column of one row. A list of numbers has a fixed size there, as far as the row says how long it is."""
    if shape.node.kind == "array" and value and (shape.children[0].node.is_number() or shape.children[0].node.is_numbers()):
        items = _array(shape.children[0], value)
        return pa.FixedSizeListArray.from_arrays(items, type=pa.list_(items.type, len(items)))
    return _array(shape, [value])
