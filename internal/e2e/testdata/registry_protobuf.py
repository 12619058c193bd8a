"""Writes rows to a topic with ProtobufSerializer of confluent-kafka, which registers the schema and what it imports:
registry_protobuf.py JOB, where JOB is JSON: brokers, registry, topic, rows."""
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, timestamp_pb2, wrappers_pb2

F = descriptor_pb2.FieldDescriptorProto


def message(name, *fields, nested=()):
    """A message of fields (name, number, type), where a type is a number or the name of a message."""
    m = descriptor_pb2.DescriptorProto(name=name, nested_type=nested)
    for i, (field, number, kind, *more) in enumerate(fields):
        f = m.field.add(name=field, number=number, label=F.LABEL_REPEATED if "repeated" in more else F.LABEL_OPTIONAL)
        if isinstance(kind, str):
            f.type, f.type_name = F.TYPE_MESSAGE, kind
        else:
            f.type = kind
        if "optional" in more:
            f.proto3_optional, f.oneof_index = True, len(m.oneof_decl)
            m.oneof_decl.add(name="_" + field)
    return m


job = json.loads(sys.argv[1])
pool = descriptor_pool.Default()
pool.Add(descriptor_pb2.FileDescriptorProto(name="plant/place.proto", package="plant", syntax="proto3",
                                            message_type=[message("Place", ("c", 1, F.TYPE_FLOAT), ("room", 2, F.TYPE_STRING))]))
inner = message("Inner", ("a", 1, F.TYPE_SINT32), ("b", 2, F.TYPE_DOUBLE, "optional"), ("w", 3, ".google.protobuf.DoubleValue"))
reading = message("Reading", ("id", 1, F.TYPE_STRING), ("inner", 2, ".plant.Envelope.Reading.Inner"), ("place", 3, ".plant.Place"),
                  ("at", 4, ".google.protobuf.Timestamp"), ("vec", 5, F.TYPE_DOUBLE, "repeated"), nested=[inner])
pool.Add(descriptor_pb2.FileDescriptorProto(
    name="plant/reading.proto", package="plant", syntax="proto3",
    dependency=["plant/place.proto", timestamp_pb2.DESCRIPTOR.name, wrappers_pb2.DESCRIPTOR.name],
    message_type=[message("Other"), message("Envelope", nested=[reading])]))
kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("plant.Envelope.Reading"))
serialize = ProtobufSerializer(kind, SchemaRegistryClient({"url": job["registry"]}), {"use.deprecated.format": False})
context = SerializationContext(job["topic"], MessageField.VALUE)
producer = Producer({"bootstrap.servers": job["brokers"], "linger.ms": 5})
failed = []
for row in job["rows"]:
    value = serialize(json_format.ParseDict(row, kind()), context)
    producer.produce(job["topic"], value, on_delivery=lambda error, _: failed.append(error) if error else None)
left = producer.flush(60)
if failed or left:
    sys.exit(f"{left} records are left, {failed[:1]}")
