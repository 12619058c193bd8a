"""Schemas come from a registry, and messages that cannot be read by them say why."""

import base64
import http.server
import io
import json
import threading

import fastavro
import pytest

import lca_stream

HEADERS = [(k, v.encode()) for k, v in {
    "lca-model-id": "m", "lca-model-version": "7", "lca-source-topic": "t", "lca-source-partition": "0", "lca-source-offset": "5"}.items()]
UNIT = {"type": "enum", "name": "of.ours.Unit", "symbols": ["ON", "OFF"]}
PLACE = {"type": "record", "name": "of.ours.Place", "fields": [{"name": "t", "type": "double"}, {"name": "unit", "type": "Unit"}]}
ROW = {"type": "record", "name": "Row", "fields": [
    {"name": "place", "type": "of.ours.Place"}, {"name": "lca", "type": ["null", {"type": "array", "items": "float"}], "default": None}]}
SUBJECTS = {"unit/1": {"schema": json.dumps(UNIT)},
            "of place/2": {"schema": json.dumps(PLACE), "references": [{"name": "of.ours.Unit", "subject": "unit", "version": 1}]}}
SCHEMAS = {"7": {"schema": json.dumps(ROW), "references": [{"name": "of.ours.Place", "subject": "of place", "version": 2},
                                                         {"name": "of.ours.Unit", "subject": "unit", "version": 1}]}}


@pytest.fixture
def server():
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            path = self.path.replace("%20", " ").partition("?")[0]
            answers = {f"/api/schemas/ids/{n}": s for n, s in SCHEMAS.items()} | {
                "/api/subjects/" + s.replace("/", "/versions/"): text for s, text in SUBJECTS.items()}
            allowed = self.headers["Authorization"] == "Basic " + base64.b64encode(b"reader:s3cret").decode()
            self.send_response(401 if not allowed else 200 if path in answers else 404)
            self.end_headers()
            self.wfile.write(json.dumps(answers[path] if allowed and path in answers else {"message": "none for you"}).encode())

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/api/", asked
    server.shutdown()
    server.server_close()


def body(number=7):
    out, named = io.BytesIO(), {}
    for schema in (UNIT, PLACE):
        fastavro.parse_schema(schema, named_schemas=named)
    row = {"place": {"t": 21.5, "unit": "OFF"}, "lca": [0.5, 2]}
    fastavro.schemaless_writer(out, fastavro.parse_schema(ROW, named_schemas=named), row)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_references_are_asked_for_once(server):
    url, asked = server
    registry = lca_stream.Registry(url, username="reader", password="s3cret")
    for _ in range(2):
        rows = lca_stream.rows_from_bytes(body(), HEADERS, registry=registry)
        assert rows["place"].to_pylist() == [{"t": 21.5, "unit": "OFF"}] and rows["lca"].to_pylist() == [[0.5, 2]]
    assert [p.partition("?")[0] for p in asked] == ["/api/schemas/ids/7", "/api/subjects/of%20place/versions/2", "/api/subjects/unit/versions/1"]
    assert lca_stream.matrix(rows, ["place.t"]).tolist() == [[21.5]]


def test_a_registry_that_refuses(server):
    url, _ = server
    with pytest.raises(OSError, match="401.*none for you"):
        lca_stream.rows_from_bytes(body(), HEADERS, registry=lca_stream.Registry(url))
    with pytest.raises(lca_stream.FormatError, match="ids/8.*none for you"):
        lca_stream.rows_from_bytes(body(8), HEADERS, registry=lca_stream.Registry(url, username="reader", password="s3cret"))


TEXTS = tuple(json.dumps(s) for s in (UNIT, PLACE, ROW))


@pytest.mark.parametrize("value, schemas, says", [
    (body(), None, "schema 7.*registry="),
    (body(), {8: TEXTS}, "schema 7, which was not given"),
    (body(), {7: TEXTS[1:]}, "type 'Unit'"),
    (body(), {7: 'syntax = "proto3";'}, "cannot be read"),
    (body()[:4], {7: TEXTS}, "cut off"),
    (body()[:-3], {7: TEXTS}, "not of its schema"),
    (body() + b"\0", {7: TEXTS}, "1 bytes"),
    (body().replace(b"\2\2\4", b"\4\2\4"), {7: TEXTS}, "not of its schema"),  # a third symbol of two
])
def test_what_cannot_be_read(value, schemas, says):
    with pytest.raises(lca_stream.FormatError, match=says):
        lca_stream.rows_from_bytes(value, HEADERS, registry=schemas)
