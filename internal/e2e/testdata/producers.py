"""Produces the lines of a file with librdkafka, compressed. Arguments: broker, topic, codec, file."""

import sys

from confluent_kafka import Producer

broker, topic, codec, lines = sys.argv[1:]
failed = []
producer = Producer({"bootstrap.servers": broker, "compression.type": codec, "linger.ms": 50, "message.max.bytes": 8_000_000})
for line in open(lines, "rb"):
    producer.produce(topic, line.rstrip(b"\n"), on_delivery=lambda error, _: error and failed.append(error))
    producer.poll(0)
producer.flush(60)
sys.exit(f"not delivered: {failed[:3]}" if failed else 0)
