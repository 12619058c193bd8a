"""Reads a topic and its output with the deserializers of confluent-kafka, and compares them.

usage: registry_read.py JOB: brokers, registry, input, output, type (AVRO, JSON, or MADE for Avro out of JSON without a schema). Every output is its input with lca (a list of floats), lca_score, lca_p, lca_recent_score, lca_recent_p and perhaps lca_why.
Prints how many outputs there are, and how many of them have lca.
"""

import json
import sys

import confluent_kafka as ck
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

job = json.loads(sys.argv[1])
registry = SchemaRegistryClient({"url": job["registry"]})


def read(topic):
    consumer = ck.Consumer({
        "bootstrap.servers": job["brokers"], "group.id": "reader", "isolation.level": "read_committed", "enable.auto.commit": False,
        "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    left = set(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    consumer.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in left])
    records = {}
    while left:
        m = consumer.poll(30)
        if m is None:
            raise TimeoutError(topic)
        if m.error() is None:
            records[m.partition(), m.offset()] = m
        elif m.error().code() == ck.KafkaError._PARTITION_EOF:
            left.discard(m.partition())
        else:
            raise ck.KafkaException(m.error())
    consumer.close()
    return records


def rows(topic, records):
    if job["type"] == "MADE" and topic == job["input"]:  # JSON without a schema, of which Avro is made: without what is null
        return {k: {name: v for name, v in json.loads(m.value()).items() if v is not None} for k, m in records.items()}
    if job["type"] in ("AVRO", "MADE"):
        deserializer = AvroDeserializer(registry)
    else:
        deserializer = JSONDeserializer(None, schema_registry_client=registry)
    return {k: deserializer(m.value(), SerializationContext(topic, MessageField.VALUE)) for k, m in records.items()}


written = read(job["output"])
sources = {k: (k[0], int(dict(m.headers())["lca-source-offset"])) for k, m in written.items()}
before = read(job["input"])
inputs = rows(job["input"], {k: before[k] for k in sources.values()})
count = 0
for k, row in rows(job["output"], written).items():
    ours = [row.pop(name) for name in ("lca", "lca_score", "lca_p", "lca_recent_score", "lca_recent_p")]
    row.pop("lca_why", None)
    if job["type"] == "MADE":  # keys of other messages are null
        row = {name: v for name, v in row.items() if v is not None}
    assert row == inputs[sources[k]], (row, inputs[sources[k]])
    lca, score, *_ = ours
    missing = row.get("b", None if job["type"] == "MADE" else 0) is None or row.get("after", 0) is None or "after" in row and row["after"].get("price") == "much"
    assert (lca is None) == (score is None) == missing, ours
    if lca is not None:
        assert len(lca) == job["width"] and all(isinstance(v, float | int) for v in lca), ours
        count += 1
    kept = dict(before[sources[k]].headers() or []).get("content-type")
    assert dict(written[k].headers()).get("content-type") == (b"application/avro" if job["type"] == "MADE" else kept)
print(len(written), count)
