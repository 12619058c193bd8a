"""Reads the topics of a finished run with librdkafka and says which promises were broken.

    python check.py --brokers HOST:PORT --input T --output T --snapshots T [--dead-letters T] [--min-rows N] ...

Prints one JSON object. Exit 0: all held. 1: a promise was broken. 2: too little was there to judge.
"""

import argparse
import json
import sys
import time

import confluent_kafka as ck

import registered
import verify


def consumer(brokers, isolation):
    return ck.Consumer({
        "bootstrap.servers": brokers, "group.id": "lca-checker", "isolation.level": isolation, "check.crcs": True,
        "enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "error",
        "fetch.message.max.bytes": 32 << 20, "receive.message.max.bytes": 128 << 20, "log_level": 3,
    })


def ends(client, topic):
    """First and next offset by partition. A broker that is electing leaders is asked again for a while."""
    deadline = time.monotonic() + 60
    while True:
        try:
            meta = client.list_topics(topic, timeout=30).topics[topic]
            if meta.error is not None:
                raise ck.KafkaException(meta.error)
            return {p: client.get_watermark_offsets(ck.TopicPartition(topic, p), timeout=30) for p in meta.partitions}
        except ck.KafkaException as e:
            if time.monotonic() > deadline:
                sys.exit(f"topic {topic}: {e}")
            time.sleep(0.5)


def partitions(brokers, topic):
    client = consumer(brokers, "read_committed")
    try:
        return ends(client, topic)
    finally:
        client.close()


def open_offsets(brokers, topic, patience):
    """How many offsets lie behind an open transaction: a read_committed client is told the last
    stable offset when it asks for the end, so the true end needs a second client."""
    committed, uncommitted = consumer(brokers, "read_committed"), consumer(brokers, "read_uncommitted")
    try:
        deadline = time.monotonic() + patience
        while True:
            stable, end = ends(committed, topic), ends(uncommitted, topic)
            behind = sum(end[p][1] - stable[p][1] for p in end)
            if behind == 0 or time.monotonic() > deadline:
                return behind
            time.sleep(0.1)
    finally:
        committed.close()
        uncommitted.close()


def read(brokers, topic, isolation):
    """Every record of a topic up to its present end, in the order of offsets within partitions."""
    c, records = consumer(brokers, isolation), []
    try:
        todo = {p for p, (low, high) in ends(c, topic).items() if high > low}
        c.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in todo])
        last = time.monotonic()
        while todo:
            for m in c.consume(500, timeout=0.1):
                last = time.monotonic()
                if m.error() is None:
                    records.append({
                        "partition": m.partition(), "offset": m.offset(), "timestamp": m.timestamp()[1], "key": m.key(),
                        "value": m.value(), "headers": m.headers() or []})
                elif m.error().code() == ck.KafkaError._PARTITION_EOF:
                    todo.discard(m.partition())
                else:
                    sys.exit(f"topic {topic}: {m.error()}")
            if time.monotonic() - last > 60:
                sys.exit(f"topic {topic}: no end of partitions {sorted(todo)} in 60 s")
    finally:
        c.close()
    records.sort(key=lambda r: (r["partition"], r["offset"]))
    return records


def main():
    a = argparse.ArgumentParser()
    for name in ("brokers", "input", "output", "snapshots"):
        a.add_argument("--" + name, required=True)
    a.add_argument("--dead-letters", default="")
    a.add_argument("--model-id", default="default")
    a.add_argument("--by-key", action="store_true", help="model.by: key")
    a.add_argument("--column", default="lca")
    a.add_argument("--layout", default="vector", choices=["vector", "columns"])
    a.add_argument("--no-score", action="store_true")
    a.add_argument("--no-p", action="store_true")
    a.add_argument("--no-recent", action="store_true")
    a.add_argument("--series", default="partition", choices=["partition", "key"])
    a.add_argument("--alarms", default="")
    a.add_argument("--budget", default="", help="alarms.budget; without it no episode may be told")
    a.add_argument("--shares", type=int, default=0, help="partitions that share it; 0: those of the input")
    a.add_argument("--former", action="store_true", help="the first edition has written some of the output: without p")
    a.add_argument("--why", type=int, default=0)
    a.add_argument("--no-passthrough", action="store_true")
    a.add_argument("--on-invalid", default="null", choices=["null", "dead_letter", "impute"])
    a.add_argument("--without-model", action="store_true", help="until_model: pass_through, so version 0 is allowed")
    a.add_argument("--registry", default="", help="URL of the schemas that messages name")
    a.add_argument("--min-rows", type=int, default=1)
    a.add_argument("--min-versions", type=int, default=1)
    a.add_argument("--patience", type=float, default=15, help="seconds to wait for open transactions to end")
    a = a.parse_args()
    began = time.monotonic()
    topics = {"input": a.input, "output": a.output, "dead": a.dead_letters, "alarms": a.alarms, "snapshots": a.snapshots}
    history = {k: read(a.brokers, t, "read_committed") if t else [] for k, t in topics.items()}
    history["open"] = {t: open_offsets(a.brokers, t, a.patience) for k, t in topics.items() if t and k != "input"}
    values = [m["value"] for k in ("input", "output") for m in history[k] if a.registry and m["value"]]
    schemas = registered.fetch(a.registry, {registered.number(v) for v in values if registered.named(v)})
    shares = a.shares or len(partitions(a.brokers, a.input))
    report = verify.verify(history, verify.Options(
        model_id=a.model_id, by_key=a.by_key, column=a.column, layout=a.layout, score=not a.no_score, p=not a.no_p, recent=not a.no_recent, series=a.series, budget=a.budget, shares=shares, former=a.former, why=a.why, passthrough=not a.no_passthrough,
        on_invalid=a.on_invalid, without_model=a.without_model, schemas=schemas))
    result = report.as_dict()
    result["input_messages"] = len(history["input"])
    # Work that was begun and aborted: it shows that faults hit transactions, and not the gaps between.
    result["aborted"] = len(read(a.brokers, a.output, "read_uncommitted")) - len(history["output"])
    result["enough"] = report.rows >= a.min_rows and len(report.versions) >= a.min_versions
    result["seconds"] = round(time.monotonic() - began, 1)
    print(json.dumps(result, default=float))
    sys.exit(1 if report.codes else 0 if result["enough"] else 2)


if __name__ == "__main__":
    main()
