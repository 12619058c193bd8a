"""What users write today for a fleet: a dict of models behind a consumer, one for each key.

    dicts.py numpy|scikit-learn|kernels JSON

Messages are one JSON object each. A fetch is divided by key, so that the rows of a key are one matrix; each row is whitened and scored by
its key's model, written again with both, exactly once, and given to its model, which is refitted every 100 rows. numpy: a running mean
and covariance. scikit-learn: IncrementalPCA with whiten=True. kernels: numpy, with a score by Gaussian kernels on the last 250 rows. The models are in memory; every `save` messages all of them are pickled,
never with 0. With `crash` the process kills itself after that number of messages. The last line is what it did, in JSON; its clock
starts after the imports.
"""
import ctypes
import gc
import json
import os
import pickle
import resource
import signal
import sys
import time

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

job = json.loads(sys.argv[2])
DIM, REFIT = job["dim"], 100
MANY, TXN_BYTES, TXN_SECONDS = 10_000, 8 << 20, 0.1  # as in rival.py
NAMES = [f"s{k}" for k in range(DIM)]


class Gaussian:
    """A running mean and covariance, whose whitening is made again every 100 rows."""

    def __init__(self):
        self.n, self.sum, self.outer, self.left, self.w = 0, np.zeros(DIM), np.zeros((DIM, DIM)), [], None

    def refit(self, x):
        self.n += len(x)
        self.sum += x.sum(0)
        self.outer += x.T @ x
        self.mean = self.sum / self.n
        values, vectors = np.linalg.eigh(self.outer / self.n - np.outer(self.mean, self.mean))
        values = np.maximum(values, 1e-9)
        self.w = vectors / np.sqrt(values)
        self.constant = 0.5 * np.log(values).sum() + 0.5 * DIM * np.log(2 * np.pi)

    def whiten(self, x):
        y = (x - self.mean) @ self.w
        return y, 0.5 * (y * y).sum(1) + self.constant


class Components:
    """scikit-learn's IncrementalPCA."""

    def __init__(self):
        from sklearn.decomposition import IncrementalPCA
        self.n, self.pca, self.left, self.w = 0, IncrementalPCA(n_components=DIM, whiten=True), [], None

    def refit(self, x):
        self.n += len(x)
        self.pca.partial_fit(x)
        self.w = True
        self.constant = 0.5 * np.log(np.maximum(self.pca.explained_variance_, 1e-9)).sum() + 0.5 * DIM * np.log(2 * np.pi)

    def whiten(self, x):
        y = self.pca.transform(x)
        return y, 0.5 * (y * y).sum(1) + self.constant


class Kernels(Gaussian):
    """Whitened as by Gaussian, and scored by a kernel density of the last 250 rows, in whitened coordinates."""
    WIDTH = (4 / (DIM + 2) / 250) ** (1 / (DIM + 4))

    def refit(self, x):
        super().refit(x)
        self.kept = x if self.n == len(x) else np.concatenate([self.kept, x])[-250:]
        self.centres = (self.kept - self.mean) @ self.w / self.WIDTH
        self.squares = 0.5 * (self.centres ** 2).sum(1)
        self.offset = self.constant + DIM * np.log(self.WIDTH) + np.log(len(self.centres))

    def whiten(self, x):
        y = (x - self.mean) @ self.w
        z = y / self.WIDTH
        e = z @ self.centres.T - self.squares
        top = e.max(1)
        return y, self.offset + 0.5 * (z * z).sum(1) - top - np.log(np.exp(e - top[:, None]).sum(1))


def peak():
    """The largest resident size, in MiB. ru_maxrss counts the program that started this one, too."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")) / 1024


def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def rss():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def learn(model, x):
    model.left.append(x)
    if sum(map(len, model.left)) >= REFIT:
        rows = np.concatenate(model.left)
        full = len(rows) // REFIT * REFIT
        for a in range(0, full, REFIT):
            model.refit(rows[a:a + REFIT])
        model.left = [rows[full:]] if full < len(rows) else []


def main():
    kind = {"numpy": Gaussian, "scikit-learn": Components, "kernels": Kernels}[sys.argv[1]]
    kind()  # the import
    models = {}
    if job["save"] and os.path.exists(job["file"]):
        with open(job["file"], "rb") as f:
            models = pickle.load(f)
    began, start = cpu(), time.perf_counter()
    consumer = Consumer({"bootstrap.servers": job["brokers"], "group.id": job["group"], "enable.auto.commit": False, "auto.offset.reset": "earliest",
                         "isolation.level": "read_committed", "session.timeout.ms": 6000, "fetch.wait.max.ms": 20, "queued.min.messages": 100_000})
    producer = Producer({"bootstrap.servers": job["brokers"], "transactional.id": job["group"] + "-txn", "linger.ms": 5, "batch.size": 1 << 20,
                         "queue.buffering.max.messages": 1_000_000})
    producer.init_transactions()
    consumer.subscribe([job["input"]])
    done, saved, following = 0, 0, {}
    while done < job["messages"]:
        msgs = consumer.consume(1, 1.0)
        if not msgs:
            continue
        producer.begin_transaction()
        size, first = 0, time.monotonic()
        while msgs:
            msgs += consumer.consume(MANY, 0)
            work(kind, models, msgs, producer)
            for m in msgs:
                following[m.topic(), m.partition()] = m.offset() + 1
                size += len(m.value())
            done += len(msgs)
            if size >= TXN_BYTES or time.monotonic() - first >= TXN_SECONDS or done >= job["messages"]:
                break
            msgs = consumer.consume(1, 0)
        producer.send_offsets_to_transaction([TopicPartition(t, p, o) for (t, p), o in following.items()], consumer.consumer_group_metadata())
        producer.commit_transaction()
        if job["crash"] and done >= job["crash"]:
            print(json.dumps({"Messages": done}), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if job["save"] and done - saved >= job["save"]:
            saved = done
            with open(job["file"] + ".new", "wb") as f:
                pickle.dump(models, f)
            os.replace(job["file"] + ".new", job["file"])
    used, wall = cpu() - began, time.perf_counter() - start
    learnt, count = sum(m.n for m in models.values()), len(models)
    consumer.close()
    trim = ctypes.CDLL(None).malloc_trim
    gc.collect()
    trim(0)
    before = rss()
    models.clear()
    gc.collect()
    trim(0)
    print(json.dumps({"Messages": done, "CPU": used, "Wall": wall, "RSS": peak(),
                      "Learnt": learnt, "Models": count, "ModelKiB": (before - rss()) / 1024 / count}))


def work(kind, models, msgs, producer):
    of = {}
    for m in msgs:
        of.setdefault(m.key(), []).append(m)
    for key, rows in of.items():
        if key not in models:
            models[key] = kind()
        model, values = models[key], [json.loads(m.value()) for m in rows]
        x = np.array([[v[n] for n in NAMES] for v in values])
        y, score = model.whiten(x) if model.w is not None else ([None] * len(x), [None] * len(x))
        if model.w is not None:
            y, score = y.tolist(), score.tolist()
        for m, v, a, s in zip(rows, values, y, score):
            v["lca"], v["lca_score"] = a, s
            producer.produce(job["output"], json.dumps(v, separators=(",", ":")), key, m.partition())
        learn(model, x)
    producer.poll(0)


main()
