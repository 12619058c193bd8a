"""The checker against a broker: what is aborted is not seen, and what is wrong is.

    python test_live.py HOST:PORT
"""

import json
import subprocess
import sys
import unittest

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient, NewTopic

import test_verify as made

BROKERS = sys.argv.pop(1)


def publish(name, h):
    """Writes a history into topics, the output in one transaction after an aborted copy of itself."""
    topics = {k: f"{name}-{k}" for k in ("input", "output", "dead", "alarms", "snapshots")}
    admin = AdminClient({"bootstrap.servers": BROKERS})
    for f in admin.create_topics([NewTopic(t, 2 if k != "snapshots" else 1, 1) for k, t in topics.items()]).values():
        f.result(30)
    p = ck.Producer({"bootstrap.servers": BROKERS, "transactional.id": name, "transaction.timeout.ms": 60000, "topic.metadata.refresh.interval.ms": 100})
    p.init_transactions(30)
    plain = ck.Producer({"bootstrap.servers": BROKERS, "enable.idempotence": True})
    for k in ("input", "snapshots", "dead", "alarms"):
        send(plain, topics[k], h[k])
    assert plain.flush(30) == 0
    p.begin_transaction()
    send(p, topics["output"], h["output"])
    assert p.flush(30) == 0
    p.abort_transaction(30)
    p.begin_transaction()
    send(p, topics["output"], h["output"])
    p.commit_transaction(30)
    return topics, p


def send(p, topic, records):
    for r in records:
        p.produce(topic, r["value"], r["key"], r["partition"], timestamp=r["timestamp"], headers=r["headers"])


def check(topics, *more):
    done = subprocess.run([sys.executable, "check.py", "--brokers", BROKERS, "--input", topics["input"], "--output", topics["output"],
        "--snapshots", topics["snapshots"], "--dead-letters", topics["dead"], "--alarms", topics["alarms"], "--no-recent", "--model-id", "m", "--why", "2", "--patience", "2", *more],
        capture_output=True, text=True)
    if not done.stdout:
        raise AssertionError(done.stderr)
    return done.returncode, json.loads(done.stdout)


class Live(unittest.TestCase):
    def test_good(self):
        h = made.history(gaps=False)
        topics, _ = publish("good", h)
        code, got = check(topics, "--min-rows", "90", "--min-versions", "2")
        self.assertEqual((code, got["codes"], got["rows"], got["aborted"]), (0, {}, 96, len(h["output"])), got)
        code, got = check(topics, "--min-rows", "97")
        self.assertEqual((code, got["enough"]), (2, False))
        code, got = check(topics, "--min-versions", "3")
        self.assertEqual((code, got["enough"]), (2, False))

    def test_spoiled(self):
        for name, spoil, want in [
            ("dup", lambda h: made.clone(h, "output", 3), {"DUP"}),
            ("loss", lambda h: h["output"].pop(3), {"LOSS"}),
            ("value", lambda h: made.edit(h["output"][0], made.replace("lca", made.flat(made.set_at(7, lambda v: v * 1.001)))), {"VALUE"}),
        ]:
            with self.subTest(name):
                h = made.history(gaps=False)
                spoil(h)
                code, got = check(publish(name, h)[0])
                self.assertEqual((code, set(got["codes"])), (1, want), got)

    def test_open_transaction(self):
        topics, p = publish("open", made.history(gaps=False))
        p.begin_transaction()
        p.produce(topics["output"], b"never ended", partition=0)
        assert p.flush(30) == 0
        code, got = check(topics)
        self.assertEqual((code, got["codes"]), (1, {"OPEN_TXN": 1}), got)
        p.abort_transaction(30)


if __name__ == "__main__":
    unittest.main()
