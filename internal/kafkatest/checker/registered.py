"""Messages that name their schema in a registry: a byte 0, the id in four bytes, and then Avro or JSON."""

import io
import json
import urllib.error
import urllib.request

import fastavro

import text


class Schema:
    """What a registry says of an id: the JSON of GET /schemas/ids/ID."""

    def __init__(self, answer):
        self.json = json.loads(answer["schema"])
        self.is_avro = answer.get("schemaType", "AVRO") == "AVRO"
        self.avro = fastavro.parse_schema(json.loads(answer["schema"])) if self.is_avro else None

    def row(self, body):
        source = io.BytesIO(body)
        row = fastavro.schemaless_reader(source, self.avro)
        if source.tell() != len(body):
            raise ValueError(f"{len(body) - source.tell()} bytes behind the row")
        return row


def named(value):
    return value[:1] == b"\0" and len(value) >= 5


def number(value):
    if not named(value):
        raise ValueError("it names no schema")
    return int.from_bytes(value[1:5], "big")


def prefixed(id, body):
    return b"\0" + id.to_bytes(4, "big") + body


def table(value, schemas):
    schema = schemas[number(value)]
    return text.of_rows([schema.row(value[5:])]) if schema.is_avro else text.table(value[5:])


def added(before, after, column, layout, width, passthrough, schemas):
    """As text.added, of Avro: our fields stand after the bytes of the input."""
    was, now = schemas[number(before)], schemas[number(after)]
    own = was.json["fields"] if passthrough else []
    ours = now.json["fields"][len(own):]
    if now.json != {**was.json, "fields": own + ours}:
        raise ValueError("the schema is not the input's with fields at its end")
    for f in ours:
        if f["type"][0] != "null" or f.get("default", 0) is not None:
            raise ValueError(f"readers of the input's schema cannot read {f}")
    if passthrough and not after[5:].startswith(before[5:]):
        return None
    row = now.row(after[5:])
    return text.typed([{f["name"]: row[f["name"]] for f in ours}], column, layout, width)


def check_properties(before, after, keys, schemas):
    """The schema of JSON with further keys is that of the input with what they are."""
    was, now = (schemas[number(v)].json for v in (before, after))
    if was.get("type") == "array":
        was, now = was["items"], now["items"]
    want = was.get("properties", {}) | {k: now["properties"][k] for k in keys}
    if now != {**was, "properties": want} or any("null" not in now["properties"][k]["type"] for k in keys):
        raise ValueError("the schema is not the input's with our keys")


def fetch(url, ids):
    """The schemas of ids, without those that the registry does not have."""
    found = {}
    for id in sorted(ids):
        try:
            with urllib.request.urlopen(f"{url}/schemas/ids/{id}", timeout=30) as answer:
                found[id] = Schema(json.load(answer))
        except urllib.error.HTTPError as e:
            if e.code != 404:
                raise
    return found


def register(url, subject, kind, schema):
    body = json.dumps({"schema": json.dumps(schema), "schemaType": kind}).encode()
    request = urllib.request.Request(f"{url}/subjects/{subject}/versions", body, {"Content-Type": "application/vnd.schemaregistry.v1+json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["id"]
