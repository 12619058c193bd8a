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


@pytest.fixture
def serve():
    """Servers, each of which answers with what a function makes of a path: a status, and a body or where to go; and what they were shown."""
    servers = []

    def start(answer):
        shown = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                shown.append((self.path, self.headers["Authorization"]))
                status, text = answer(self.path)
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", text)
                self.end_headers()
                try:
                    self.wfile.write(text.encode())
                except OSError:
                    pass  # the reader has left

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server.server_port, shown

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_no_other_server_is_asked(serve):
    """Neither another host nor another port is shown the password; a redirect on the server itself is followed."""
    other, stolen = serve(lambda path: (200, json.dumps({"schema": '"long"'})))
    for host in ("localhost", "127.0.0.1"):
        port, _ = serve(lambda path, host=host: (302, f"http://{host}:{other}{path}"))
        with pytest.raises(OSError, match="leads to another server"):
            lca_stream.Registry(f"http://127.0.0.1:{port}", username="reader", password="s3cret")[7]
    assert stolen == []
    port, shown = serve(lambda path: (200, json.dumps({"schema": '"long"'})) if path.startswith("/there") else (302, "/there" + path))
    assert lca_stream.Registry(f"http://127.0.0.1:{port}", username="reader", password="s3cret")[7] == ('"long"',)
    assert [path for path, login in shown if login] == ["/schemas/ids/7", "/there/schemas/ids/7"]
    port, _ = serve(lambda path: (302, path + "x"))
    with pytest.raises(OSError, match="302"):
        lca_stream.Registry(f"http://127.0.0.1:{port}")[7]


def test_answers_are_bounded(serve):
    def chain(path):  # each refers to the next
        n = int(path.rpartition("/")[2].partition("?")[0])
        return 200, json.dumps({"schema": '"long"', "references": [{"name": "n", "subject": "s", "version": n + 1}]})

    port, shown = serve(chain)
    with pytest.raises(lca_stream.FormatError, match="more than 256"):
        lca_stream.Registry(f"http://127.0.0.1:{port}")[0]
    assert len(shown) == 257
    for one in (17 << 20, 6 << 20):  # too much at once, and together
        port, _ = serve(lambda path, one=one: (200, json.dumps({"schema": "x" * one, "references": [
            {"name": "n", "subject": "s", "version": v} for v in range(3)]})))
        with pytest.raises(lca_stream.FormatError, match="more than 16 MiB"):
            lca_stream.Registry(f"http://127.0.0.1:{port}")[0]


@pytest.mark.parametrize("url", ["http://u:s3cret@registry:8081", "http://registry?key=s3cret", "ftp://registry", "registry:8081", "http://u:s3cret@r:x"])
def test_an_address_holds_no_secret(url):
    with pytest.raises(ValueError, match="give the user as username") as refused:
        lca_stream.Registry(url)
    assert "s3cret" not in str(refused.value)


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
