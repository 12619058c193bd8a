"""Writes messages to a topic with ProtobufSerializer of confluent-kafka, which registers the schema and what it imports:
registry_protobuf.py JOB, where JOB is JSON: brokers, registry, topic, and batches of files (a FileDescriptorSet in base64),
message (a full name) and rows (in the JSON of Protobuf)."""
import base64
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

job = json.loads(sys.argv[1])
registry = SchemaRegistryClient({"url": job["registry"]})
context = SerializationContext(job["topic"], MessageField.VALUE)
producer = Producer({"bootstrap.servers": job["brokers"], "linger.ms": 5})
failed = []
for batch in job["batches"]:
    pool = descriptor_pool.DescriptorPool()  # each batch has files of the same names
    for file in descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(batch["files"])).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(batch["message"]))
    serialize = ProtobufSerializer(kind, registry, {"use.deprecated.format": False})
    for row in batch["rows"]:
        value = serialize(json_format.ParseDict(row, kind()), context)
        producer.produce(job["topic"], value, on_delivery=lambda error, _: failed.append(error) if error else None)
left = producer.flush(60)
if failed or left:
    sys.exit(f"{left} records are left, {failed[:1]}")
