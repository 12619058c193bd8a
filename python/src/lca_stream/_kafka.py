"""Rows and models from Kafka. Needs confluent-kafka: ``pip install 'lca-stream[kafka]'``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from lca_stream._files import ARROW_FAULTS, WANTED_PARTS, FormatError, model_from_parts, read_stream
from lca_stream._model import Model
from lca_stream._rows import Schemas, ours, rows_from_bytes


def read_rows(
    topic: str,
    brokers: str,
    *,
    follow: bool = False,
    config: Mapping | None = None,
    column: str = "lca",
    registry: Schemas | None = None,
    on_fault: Callable[[FormatError], object] | None = None,
) -> Iterator[pa.Table]:
    """The rows of each output message that is there now, in order within a partition; with ``follow``, then of each new one.

    Only rows of committed transactions are read, and none is acknowledged: the next call begins at the beginning. A
    tombstone of the input has no rows and is left out. ``config`` goes to confluent_kafka.Consumer: login, TLS, … ``column`` and
    ``registry`` are as in rows_from_bytes.

    A message that cannot be read ends it with a FormatError that names its topic, partition and offset. With ``on_fault``,
    that is called with the FormatError instead, and the message is left out.
    """
    for message in _messages(topic, brokers, follow, config):
        if message.value() is None:
            continue
        try:
            rows = rows_from_bytes(message.value(), message.headers() or [], column=column, registry=registry)
        except FormatError as err:
            fault = FormatError(f"{topic}/{message.partition()}@{message.offset()}: {err}")
            if on_fault is None:
                raise fault from err
            on_fault(fault)
            continue
        yield rows


def read_models(topic: str, brokers: str, *, version: int | None = None, config: Mapping | None = None) -> dict[str, Model]:
    """The newest model of each id on a snapshot topic, or that of ``version`` where an id has it."""
    chunks: dict[bytes, object] = {}  # the last message of a key counts, and one without a value deletes it
    for message in _messages(topic, brokers, False, config):
        if message.value() is None:
            chunks.pop(message.key(), None)
        else:
            chunks[message.key()] = message
    models: dict[str, Model] = {}
    for (model_id, number), parts in sorted(_whole_versions(chunks.values()).items(), reverse=True):
        if model_id in models or version not in (None, number):
            continue
        with contextlib.suppress(FormatError):  # a part has been compacted away: an older version may be whole
            models[model_id] = model_from_parts(parts)
    return models


def _whole_versions(messages) -> dict[tuple[str, int], dict[str, pa.Table]]:
    """Part → table of every version of which all chunks are there."""
    found: dict[tuple[str, int], dict[str, dict[int, bytes]]] = {}
    sizes = {}
    for message in messages:
        try:
            h = ours(message.headers())
            version = h["lca-model-id"], int(h["lca-model-version"])
            i, n = map(int, h["lca-chunk"].split("/"))
        except (KeyError, ValueError):  # what another program wrote
            continue
        if "lca-part" not in h:
            continue
        found.setdefault(version, {}).setdefault(h["lca-part"], {})[i] = message.value()
        sizes[version, h["lca-part"]] = n
    whole = {}
    for version, parts in found.items():
        complete = {part: chunks for part, chunks in parts.items() if len(chunks) == sizes[version, part]}
        if WANTED_PARTS <= complete.keys() and complete.keys() == parts.keys():
            with contextlib.suppress(*ARROW_FAULTS):  # it is damaged
                whole[version] = {part: _table(chunks) for part, chunks in complete.items()}
    return whole


def _table(chunks: dict[int, bytes]) -> pa.Table:
    return pa.concat_tables([read_stream(chunks[i]) for i in sorted(chunks)])


def _messages(topic: str, brokers: str, follow: bool, config: Mapping | None) -> Iterator:
    try:
        import confluent_kafka as ck
    except ImportError as err:
        raise ImportError("reading from Kafka needs confluent-kafka: pip install 'lca-stream[kafka]'") from err
    consumer = ck.Consumer(
        {
            "group.id": "lca-stream-python",  # never joined: partitions are assigned by hand, and nothing is committed
            "auto.offset.reset": "earliest",
            **(config or {}),
            "bootstrap.servers": brokers,
            "isolation.level": "read_committed",  # rows of transactions that were given up do not count
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        described = consumer.list_topics(topic, timeout=30).topics[topic]
        if described.error is not None:
            raise ck.KafkaException(described.error)
        left = set(described.partitions)
        consumer.assign([ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING) for p in left])
        while left or follow:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is None:
                yield message
            elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise ck.KafkaException(message.error())
    finally:
        consumer.close()
