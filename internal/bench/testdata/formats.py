"""Messages of one row as Arrow, JSON and in the formats of a schema registry, by confluent-kafka's own serializers and deserializers.

    formats.py write|read|whiten JSON

write fills a topic: rows of dim numbers and a text. read is the least that a consumer does: it reads the topic and makes a float32 row
of each message. whiten does what lca-stream does: it multiplies the rows of a fetch by a matrix, and writes each message
again with its vector, by the serializer, in transactions with the offsets. The last line is what it did, in JSON; its clock starts after the imports.
"""
import json
import os
import resource
import sys
import time

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

job = json.loads(sys.argv[2])
names = [f"f{k}" for k in range(job["dim"])]


def kind(vector):
    """The message of Protobuf."""
    F = descriptor_pb2.FieldDescriptorProto
    m = descriptor_pb2.DescriptorProto(name="Row")
    for k, name in enumerate(names):
        m.field.add(name=name, number=k + 1, label=F.LABEL_OPTIONAL, type=F.TYPE_DOUBLE)
    m.field.add(name="note", number=len(names) + 1, label=F.LABEL_OPTIONAL, type=F.TYPE_STRING)
    if vector:
        m.field.add(name="lca", number=len(names) + 2, label=F.LABEL_REPEATED, type=F.TYPE_FLOAT)
    file = f"rows{int(vector)}.proto"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto(name=file, package=f"rows{int(vector)}", syntax="proto3", message_type=[m]))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"rows{int(vector)}.Row"))


def avro(vector):
    fields = [{"name": n, "type": "double"} for n in names] + [{"name": "note", "type": "string"}]
    return json.dumps({"type": "record", "name": "Row", "fields": fields + [{"name": "lca", "type": {"type": "array", "items": "float"}}] * vector})


def json_schema(vector):
    properties = {n: {"type": "number"} for n in names} | {"note": {"type": "string"}} | ({"lca": {"type": "array", "items": {"type": "number"}}} if vector else {})
    return json.dumps({"type": "object", "title": "Row", "properties": properties})


def stream(row):
    """A stream of Arrow with one batch of one row, whose numbers are one list."""
    kinds = {"x": pa.list_(pa.float64(), len(names)), "lca": pa.list_(pa.float32(), len(names)), "note": pa.string()}
    batch = pa.RecordBatch.from_arrays([pa.array([v], kinds[name]) for name, v in row.items()], list(row))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def serializer(topic, vector):
    """From a dict to the value of a message."""
    form, context = job["format"], SerializationContext(topic, MessageField.VALUE)
    if form == "arrow":
        return stream
    if form == "json":
        return lambda row: json.dumps(row, separators=(",", ":")).encode()
    registry = SchemaRegistryClient({"url": job["registry"]})
    if form == "avro":
        s = AvroSerializer(registry, Schema(avro(vector), "AVRO"))
        return lambda row: s(row, context)
    if form == "json_schema":
        s = JSONSerializer(Schema(json_schema(vector), "JSON"), registry, conf={"validate": False})
        return lambda row: s(row, context)
    message = kind(vector)
    s = ProtobufSerializer(message, registry, {"use.deprecated.format": False})
    return lambda row: s(message(**row), context)


def deserializer():
    """From the value of a message to a dict, or to a message of Protobuf."""
    form, context = job["format"], SerializationContext(job["input"], MessageField.VALUE)
    if form == "arrow":
        return lambda value: pa.ipc.open_stream(value).read_next_batch().to_pylist()[0]
    if form == "json":
        return json.loads
    registry = SchemaRegistryClient({"url": job["registry"]})
    if form == "avro":
        d = AvroDeserializer(registry)
    elif form == "json_schema":
        d = JSONDeserializer(json_schema(False), schema_registry_client=registry, conf={"validate": False})
    else:
        d = ProtobufDeserializer(kind(False), {"use.deprecated.format": False}, registry)
    return lambda value: d(value, context)


def peak():
    """The largest resident size, in MiB. ru_maxrss counts the program that started this one, too."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024


def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def write():
    serialize, rng = serializer(job["input"], False), np.random.default_rng(1)
    producer = Producer({"bootstrap.servers": job["brokers"], "linger.ms": 20, "batch.size": 1 << 20, "queue.buffering.max.messages": 1_000_000})
    for i in range(job["messages"]):
        x = rng.standard_normal(len(names))
        x[0] += 6 * rng.integers(2) - 3
        row = ({"x": x.tolist()} if job["format"] == "arrow" else dict(zip(names, x.tolist()))) | {"note": f"row {i}"}
        producer.produce(job["input"], serialize(row), partition=i % job["partitions"])
        producer.poll(0)
    if producer.flush(120):
        sys.exit("records are left")


def consume(whiten):
    deserialize, serialize = deserializer(), serializer(job["output"], True) if whiten else None
    consumer = Consumer({"bootstrap.servers": job["brokers"], "group.id": job["group"], "auto.offset.reset": "earliest", "enable.auto.commit": False,
                         "isolation.level": "read_committed", "fetch.min.bytes": 1 << 16, "fetch.wait.max.ms": 50})
    consumer.subscribe([job["input"]])
    if whiten:
        producer = Producer({"bootstrap.servers": job["brokers"], "transactional.id": job["group"], "compression.type": "zstd", "linger.ms": 5, "batch.size": 1 << 20, "queue.buffering.max.messages": 1_000_000})
        producer.init_transactions(300)
    W, mean = np.eye(len(names), dtype=np.float32), np.zeros(len(names), np.float32)
    done, last = 0, {}
    began, wall = cpu(), time.time()
    while done < job["messages"]:
        messages = [m for m in consumer.consume(2000, 0.1) if m.error() is None]
        if not messages:
            continue
        rows = [deserialize(m.value()) for m in messages]
        if job["format"] == "protobuf":
            x = np.array([[getattr(r, n) for n in names] for r in rows], np.float32)
        elif job["format"] == "arrow":
            x = np.array([r["x"] for r in rows], np.float32)
        else:
            x = np.array([[r[n] for n in names] for r in rows], np.float32)
        y = (x - mean) @ W
        if whiten:
            producer.begin_transaction()
            for m, row, v in zip(messages, rows, y):
                if job["format"] == "protobuf":
                    row = {n: getattr(row, n) for n in names} | {"note": row.note}
                row["lca"] = v.tolist()
                producer.produce(job["output"], serialize(row), key=m.key(), partition=m.partition())
                last[m.partition()] = m.offset() + 1
            producer.send_offsets_to_transaction([TopicPartition(job["input"], p, o) for p, o in last.items()], consumer.consumer_group_metadata(), 300)
            producer.commit_transaction(300)
        done += len(messages)
    spent = cpu() - began
    print(json.dumps({"messages": done, "cpu": spent, "wall": time.time() - wall, "rss": peak()}))
    sys.stdout.flush()
    os._exit(0)


{"write": write, "read": lambda: consume(False), "whiten": lambda: consume(True)}[sys.argv[1]]()
