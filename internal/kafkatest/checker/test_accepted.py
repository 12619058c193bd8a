"""The judge of accepted episodes finds each fault, and none where there is none."""

import json
import unittest

import accepted
import verify

SAID = {"schema": 1, "id": "m/0/k/7.0", "group": "g", "topic": "in", "partition": 0, "series": "k", "model_id": "m", "by": "anna", "message": "it is normal"}
WHEN = {"from": {"offset": 7, "row": 0, "time": "2026-05-09T05:38:00Z"}, "to": None, "time": "2026-05-09T07:00:00.5Z"}


def history():
    """Two episodes of a series: an open one that is accepted twice, and one that ends by itself, and is accepted afterwards."""
    told = lambda kind, id, **more: {"type": "episode_" + kind, "id": id, "model_id": "m", "reason": None, **more}
    command = {**SAID, **WHEN, "type": "episode_accept", "until": 60}
    late = {**command, "id": "m/0/k/1.0", "to": {"offset": 6, "row": 0, "time": "2026-05-09T06:00:00Z"}}
    fact = lambda of, offset, rows: {**of, "type": "episode_accepted", "time": "2026-05-09T07:00:02Z", "command": {"partition": 2, "offset": offset}, "at": {"0": 60, "1": 48}, "rows": rows}
    events = [
        told("opened", "m/0/k/1.0"), told("closed", "m/0/k/1.0", reason="usual"), told("opened", "m/0/k/7.0"), command, command, fact(command, 3, 840), fact(command, 4, 0), late,
        told("closed", "m/0/k/7.0", reason="accepted"), fact(late, 7, 12)]
    return [{"partition": 2, "offset": i, "key": b"m/0/k", "value": json.dumps(e).encode(), "headers": [("content-type", b"application/json")]} for i, e in enumerate(events)]


def changed(i, **more):
    def spoil(h):
        event = json.loads(h[i]["value"])
        event.update(more)
        h[i]["value"] = json.dumps({k: v for k, v in event.items() if v != "gone"}).encode()
    return spoil


DUP, WRONG = {"ACCEPT_DUP"}, {"ACCEPT_WRONG"}

SPOILED = [
    ("a fact twice", lambda h: h.append({**h[5], "offset": 90}), DUP),
    ("two facts of one command", changed(6, command={"partition": 2, "offset": 3}), DUP),
    ("a fact of no command", changed(6, command={"partition": 2, "offset": 2}), WRONG),
    ("a fact before its command", lambda h: h[3].update(offset=80), WRONG),
    ("a fact of another episode", changed(5, id="m/0/k/1.0"), WRONG),
    ("a fact by another person", changed(5, by="bert"), WRONG),
    ("a fact about other rows", changed(5, to={"offset": 6, "row": 0, "time": None}), WRONG),
    ("a fact at no place", changed(5, at={}), WRONG),
    ("a fact behind the end", changed(5, at={"0": 5000, "1": 3}), WRONG),
    ("a fact of what the learner has not read", lambda h: [changed(i, until=61)(h) for i in (3, 5)], WRONG),
    ("a fact in a partition that there is not", changed(5, at={"0": 5, "9": 3000}), WRONG),
    ("a fact without rows", changed(5, rows="gone"), WRONG),
    ("a fact of fewer rows than none", changed(5, rows=-1), WRONG),
    ("a fact with more to say", changed(5, why=1), WRONG),
    ("closed as accepted before the fact", lambda h: [h[i].update(offset=80 + i) for i in (5, 6)], WRONG),
    ("closed as accepted, and no learner did", lambda h: [h.remove(r) for r in h[3:8]], WRONG),
    ("a command about no episode", lambda h: h.pop(0) and h.pop(0), WRONG),
    ("a command of no one", changed(3, by=""), WRONG),
    ("a command without a time", changed(3, time=None), WRONG),
    ("a command at no time", changed(3, **{"from": {"offset": 7, "row": 0, "time": "yesterday"}}), WRONG),
    ("a command from no row", changed(3, **{"from": "2026-05-09T05:38:00Z"}), WRONG),
    ("another schema", changed(3, schema=2), WRONG),
    ("no message", changed(3, message=""), WRONG),
    ("another key", lambda h: h[3].update(key=b"m/0/l"), WRONG),
    ("no type", lambda h: h[3].update(headers=[]), WRONG),
]


def verdict(h):
    r = verify.Report()
    told = verify.check_alarms(h, verify.Options(model_id="m"), r)
    return r, accepted.check(told, {0: 70, 1: 50}, r.fault)


class Accepted(unittest.TestCase):
    def test_good(self):
        r, others = verdict(history())
        self.assertEqual((dict(r.codes), len(others)), ({}, 4), dict(r.examples))
        self.assertEqual((r.alarms["episode_accept"], r.alarms["episode_accepted"]), (3, 3))

    def test_spoiled(self):
        for name, spoil, want in SPOILED:
            with self.subTest(name):
                h = history()
                spoil(h)
                self.assertEqual(set(verdict(h)[0].codes), want)


if __name__ == "__main__":
    unittest.main()
