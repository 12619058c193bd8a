"""Reads a topic with librdkafka as it comes, and prints the partition, offset, size and CRC-32 of each message. Arguments: broker, topic."""

import sys
import zlib

from confluent_kafka import Consumer, TopicPartition

broker, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": broker, "group.id": "readers", "auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True})
partitions = consumer.list_topics(topic, 30).topics[topic].partitions
consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
left = set(partitions)
while left:
    m = consumer.poll(60)
    if m is None:
        sys.exit(f"nothing for a minute; not at the end of partitions {left}")
    if m.error() is None:
        print(m.partition(), m.offset(), len(m.value()), zlib.crc32(m.value()))
    elif m.error().name() == "_PARTITION_EOF":
        left.discard(m.partition())
    else:
        sys.exit(f"{topic}/{m.partition()}@{m.offset()}: {m.error()}")
