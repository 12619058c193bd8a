"""Writes a stream of Arrow messages into a topic: real digits, or eight sensors of different scale.

    python load.py --brokers HOST:PORT --topic T --rows 20000 --per-message 20 --rate 2000 --data sensors

Every row has a unique `id`. The same seed writes the same bytes. Prints one JSON object at the end:
rows, messages, bad (messages that cannot be used), invalid (rows with a null or NaN), stopped.
SIGTERM ends it early, with what was written so far.
"""

import argparse
import io
import json
import signal
import sys
import time

import confluent_kafka as ck
import fastavro
import numpy as np
import pyarrow as pa

import registered

SENSORS = ["temperature", "pressure", "flow", "current", "voltage", "vibration", "speed", "humidity"]


def sensors(rng, n):
    """Three operating points of a machine, seen by eight sensors whose units differ by up to 10^9."""
    state = rng.integers(0, 3, n)
    hidden = rng.normal(size=(n, 3)) * 0.3 + np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2]])[state]
    mix = np.array([[1, .2, .1, .8, 0, .3, .9, .1], [.1, 1, .5, 0, .2, .9, .1, .4], [.3, .1, 1, .2, .9, .1, .4, .8]])
    x = hidden @ mix + rng.normal(size=(n, 8)) * 0.2
    scale = np.array([5, 2e5, 1e-3, 3, 40, 1e-4, 900, 12])
    mean = np.array([60, 3e6, 2e-2, 20, 230, 1e-3, 3000, 45])
    return {name: x[:, i] * scale[i] + mean[i] for i, name in enumerate(SENSORS)}


class Sensors:
    def table(self, rng, first, n, invalid):
        columns = {"id": pa.array(range(first, first + n), pa.int64())}
        for name, v in sensors(rng, n).items():
            columns[name] = pa.array(v, pa.float64())
        count = 0
        if invalid:
            row, name = int(rng.integers(n)), SENSORS[int(rng.integers(8))]
            v = columns[name].to_pylist()
            v[row] = [None, float("nan"), float("inf")][int(rng.integers(3))]
            columns[name], count = pa.array(v, pa.float64()), 1
        return pa.table(columns), count


def faulty(table):
    i, name = table.column_names.index("vibration"), "vibration"
    return table.set_column(i, name, pa.array([v if v is None else v + 6e-4 for v in table[name].to_pylist()], pa.float64()))


class Digits:
    def __init__(self, path):
        t = pa.ipc.open_file(path).read_all().combine_chunks()
        self.type, self.rows = t["x"].type, np.asarray(t["x"].chunk(0).flatten()).reshape(-1, 64)
        self.label = t["label"].to_numpy()

    def table(self, rng, first, n, invalid):
        pick = (first + np.arange(n)) % len(self.rows)
        x, count = self.rows[pick].copy(), 0
        if invalid:
            x[rng.integers(n), rng.integers(64)], count = np.nan, 1
        array = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1), pa.float32()), type=self.type)
        return pa.table({"id": pa.array(range(first, first + n), pa.int64()), "x": array, "label": pa.array(self.label[pick])},
                        schema=pa.schema([("id", pa.int64()), pa.field("x", self.type), ("label", pa.int32())])), count


def stream(table):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as w:
        w.write_table(table.combine_chunks())
    return out.getvalue()


def texts(table):
    """JSON in each of its forms, by the first id. Numbers have all their digits, and there is no NaN: it is null, and Inf is 1e999."""
    rows = [json.dumps({k: number(v) for k, v in row.items()}).replace("Infinity", "1e999") for row in table.to_pylist()]
    form = table["id"][0].as_py() % 3
    return [rows[0] if len(rows) == 1 else "[" + ", ".join(rows) + " ]", "\n".join(rows) + "\n", " [" + ",".join(rows) + "]"][form].encode()


def number(v):
    if isinstance(v, list):
        return [number(w) for w in v]
    return None if v != v else v


class Registered:
    """Messages that name a schema, which is registered here."""

    def __init__(self, kind, registry, topic):
        avro = {"type": "record", "name": "Sensors", "fields": [{"name": "id", "type": "long"}] + [{"name": n, "type": ["null", "double"]} for n in SENSORS]}
        rows = {"title": "Sensors", "type": "object", "properties": {"id": {"type": "integer"}} | {n: {"type": ["number", "null"]} for n in SENSORS}}
        self.avro = fastavro.parse_schema(avro) if kind == "avro" else None
        self.id = registered.register(registry, f"{topic}-value", *(("AVRO", avro) if self.avro else ("JSON", rows)))

    def value(self, table):
        """The only row as Avro, or rows as JSON in each of its forms."""
        if self.avro is None:
            return registered.prefixed(self.id, texts(table))
        row, = table.to_pylist()
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self.avro, row)
        return registered.prefixed(self.id, out.getvalue())


def bad(rng, table, named):
    """One of the ways in which a message can be useless. It names a schema where others do."""
    value = stream(table)
    return [
        lambda: named.value(table)[:9] if named else value[: len(value) // 2], lambda: rng.bytes(200), lambda: b"", lambda: b"{\"not\": ",
        lambda: stream(pa.table({"other": [1.0, 2.0]})), lambda: b"\xff\xff\xff\xff\x00\x00\x00\x7f" + b"\x00" * 64,
    ][int(rng.integers(6))]()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--brokers", required=True)
    a.add_argument("--topic", required=True)
    a.add_argument("--data", default="sensors", help="sensors, or the path of digits.arrow")
    a.add_argument("--rows", type=int, required=True)
    a.add_argument("--per-message", type=int, default=20)
    a.add_argument("--rate", type=float, default=0, help="rows per second; 0: as fast as it goes")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--fault", type=int, default=0, help="one sensor of partition 0 is wrong in each second stretch of that number of messages; 0: in none")
    a.add_argument("--apart", type=float, default=0, help="seconds between the timestamps of messages, from two days ago to now; 0: they are those of the writing")
    a.add_argument("--bad", type=float, default=0, help="share of messages that cannot be used")
    a.add_argument("--format", default="arrow", choices=["arrow", "json", "avro", "json_schema"])
    a.add_argument("--registry", default="", help="URL, for avro (one row per message) and json_schema")
    a.add_argument("--invalid", type=float, default=0, help="share of messages with one null, NaN or Inf")
    a = a.parse_args()
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    rng = np.random.default_rng(a.seed)
    data = Sensors() if a.data == "sensors" else Digits(a.data)
    failed = []
    p = ck.Producer({"bootstrap.servers": a.brokers, "enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 20000,
                     "message.max.bytes": 16 << 20, "delivery.timeout.ms": 300000, "log_level": 3})
    partitions = len(p.list_topics(a.topic, timeout=30).topics[a.topic].partitions)
    named = Registered(a.format, a.registry, a.topic) if a.registry else None
    kind = [] if named else [("content-type", b"application/vnd.apache.arrow.stream")]
    value = named.value if named else {"arrow": stream, "json": texts}[a.format]
    done = {"rows": 0, "messages": 0, "bad": 0, "invalid": 0}
    began, began_at = time.monotonic(), time.time() - 2 * 86400
    while done["rows"] < a.rows and not stop and not failed:
        n = min(a.per_message, a.rows - done["rows"])
        spoil = rng.random(2)
        table, invalid = data.table(rng, done["rows"], n, spoil[1] < a.invalid)
        m = done["messages"]
        if a.fault and m // a.fault % 2 and m % partitions == 0:
            table = faulty(table)
        at = time.time()
        at = min(at, began_at + m * a.apart) if a.apart else at
        send(p, a.topic, m % partitions, m, value(table), kind, failed, at)
        done["rows"], done["messages"], done["invalid"] = done["rows"] + n, m + 1, done["invalid"] + invalid
        if spoil[0] < a.bad:
            send(p, a.topic, m % partitions, m, bad(rng, table, named), kind, failed, at)
            done["bad"] += 1
        # poll ends with the first delivery report. Once for each message it would run ahead, and then stand still.
        while a.rate and not stop and (early := began + done["rows"] / a.rate - time.monotonic()) > 0:
            p.poll(early)
    if p.flush(300) or failed:
        sys.exit(f"not delivered: {failed[:3]}")
    done["stopped"], done["seconds"] = bool(stop), round(time.monotonic() - began, 2)
    print(json.dumps(done))


def send(p, topic, partition, m, value, kind, failed, at):
    headers = kind + [("trace", str(m).encode())]
    key = None if m % 7 == 0 else f"k{m % 50}".encode()
    while True:
        try:
            p.produce(topic, value, key, partition, timestamp=int(at * 1000), headers=headers, on_delivery=lambda e, _: failed.append(str(e)) if e else None)
            p.poll(0)
            return
        except BufferError:
            p.poll(0.5)


if __name__ == "__main__":
    main()
