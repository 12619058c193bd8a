"""Writes rows to a topic with the serializers of confluent-kafka, which register the schema: registry_write.py JOB,
where JOB is JSON: brokers, registry, topic, type (AVRO or JSON), schema, references, rows. What JSON does not have is an
object of one key: $decimal, $bytes, $date, $time or $timestamp."""
import base64
import datetime
import decimal
import json
import sys

from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

kinds = {
    "$decimal": decimal.Decimal, "$bytes": base64.b64decode, "$date": datetime.date.fromisoformat,
    "$time": datetime.time.fromisoformat, "$timestamp": datetime.datetime.fromisoformat,
}


def native(o):
    for name, read in kinds.items():
        if name in o:
            return read(o[name])
    return o


job = json.loads(sys.argv[1], object_hook=native)
registry = SchemaRegistryClient({"url": job["registry"]})
references = [SchemaReference(r["name"], r["subject"], r["version"]) for r in job["references"] or []]
schema = Schema(job["schema"], job["type"], references)
serialize = AvroSerializer(registry, schema) if job["type"] == "AVRO" else JSONSerializer(schema, registry)
context = SerializationContext(job["topic"], MessageField.VALUE)
producer = Producer({"bootstrap.servers": job["brokers"], "linger.ms": 5})
failed = []
for row in job["rows"]:
    producer.produce(job["topic"], serialize(row, context), on_delivery=lambda error, _: failed.append(error) if error else None)
left = producer.flush(60)
if failed or left:
    sys.exit(f"{left} records are left, {failed[:1]}")
