"""One stochastic EM step in numpy and scipy, as fast as we could make it: the rival of BenchmarkTwin.

It reads commands from stdin, one JSON object per line, and answers each with one. It does
everything that a careful author would do: float32 where that is sound, work in place, triangular products,
syrk for symmetric ones, Cholesky factors instead of eigendecompositions, the bias and the sum of
the weights folded into the products, blocks of rows that stay in the cache; where there are
two ways it tries both first and takes the faster one. The time to centre the pool is not counted.
"""
import json
import sys
import time

import numpy as np
from scipy.linalg import blas, lapack

f4, f8 = np.float32, np.float64


class Step:
    def __init__(self, path, rows, n, dim, keep):
        read = lambda name, shape: np.fromfile(f"{path}/{name}.f64", f8).reshape(shape)
        q, z, self.c = read("q", (rows, dim)), read("z", (n, dim)), read("c", (dim, dim))
        mean = z.mean(0)
        self.rows, self.n, self.dim, self.keep = rows, n, dim, keep
        self.q8, self.z8 = q - mean, z - mean
        # In Fortran's order, so that BLAS takes the arrays as they are: columns are points.
        self.q4 = np.asfortranarray(self.q8.T.astype(f4))
        self.z4 = np.asfortranarray(self.z8.T.astype(f4))
        self.zw = np.empty((dim + 1, n), f4, order="F")
        self.qw = np.empty((dim + 1, rows), f4, order="F")
        self.r = np.empty((dim, rows), f4, order="F")
        self.sqrt_s = np.empty((dim, n), f4, order="F")
        self.block, self.trmm = rows, False
        self.tune()

    def tune(self):
        """Finds the fastest block of rows, and whether the triangular product pays."""
        def cost(block, trmm):
            self.block, self.trmm = block, trmm
            times = []
            for _ in range(3):
                began = time.thread_time()
                self.run()
                times.append(time.thread_time() - began)
            return min(times)
        ways = [(b, t) for b in sorted({min(b, self.rows) for b in (50, 100, 250, 1000)}) for t in (False, True)]
        self.run()
        self.block, self.trmm = min(ways, key=lambda w: cost(*w))

    def run(self):
        dim, n, rows = self.dim, self.n, self.rows
        low, info = lapack.dpotrf(self.c, lower=1, clean=1)
        assert info == 0
        inv, info = lapack.dtrtri(low, lower=1)
        assert info == 0
        inv4 = inv.astype(f4, order="F")
        zw, qw = self.zw, self.qw
        if self.trmm:
            zw[:dim] = blas.strmm(1, inv4, self.z4, lower=1)
            qw[:dim] = blas.strmm(1, inv4, self.q4, lower=1)
        else:
            np.matmul(inv4, self.z4, out=zw[:dim])
            np.matmul(inv4, self.q4, out=qw[:dim])
        # The last coordinate holds the bias for the logits, and then ones for the sums of weights.
        np.einsum("kj,kj->j", zw[:dim], zw[:dim], out=zw[dim])
        zw[dim] *= -0.5
        qw[dim] = 1
        s = np.zeros(n, f4)
        bias = zw[dim].copy()
        mean = np.empty((dim + 1, rows), f4, order="F")
        logits = []
        for at in range(0, rows, self.block):
            to = min(rows, at + self.block)
            zw[dim] = bias
            e = zw.T @ qw[:, at:to]
            e -= e.max(0)
            np.maximum(e, -80, out=e)  # subnormal weights would stall the products
            np.exp(e, out=e)
            zw[dim] = 1
            m = zw @ e
            inverse = 1 / m[dim]
            s += e @ inverse
            np.multiply(m, inverse, out=mean[:, at:to])
        r, m = self.r, np.asfortranarray(mean[:dim])
        np.subtract(qw[:dim], m, out=r)
        np.multiply(zw[:dim], np.sqrt(s), out=self.sqrt_s)
        cov = blas.ssyrk(1, self.sqrt_s, lower=1)
        cov = blas.ssyrk(1, r, beta=1, c=cov, overwrite_c=1, lower=1)
        cov = blas.ssyrk(-1, m, beta=1, c=cov, overwrite_c=1, lower=1)
        w = cov.astype(f8)
        w = np.tril(w) + np.tril(w, -1).T
        w = blas.dtrmm(1, low, np.asfortranarray(w), lower=1, overwrite_b=1)
        w = blas.dtrmm(1, low, w, lower=1, side=1, trans_a=1, overwrite_b=1)
        w *= (1 - self.keep) / rows
        w += self.keep * self.c
        self.out = w

    def textbook(self):
        """The same step in float64 without any of it."""
        low = np.linalg.cholesky(self.c)
        q, z = np.linalg.solve(low, self.q8.T).T, np.linalg.solve(low, self.z8.T).T
        s = q @ z.T - 0.5 * (z * z).sum(1)
        s = np.exp(s - s.max(1, keepdims=True))
        s /= s.sum(1, keepdims=True)
        cov = np.zeros((self.dim, self.dim))
        mean = s @ z
        cov = q.T @ q - q.T @ mean - mean.T @ q + z.T @ (s.sum(0)[:, None] * z)
        return self.keep * self.c + (1 - self.keep) / self.rows * (low @ cov @ low.T)


def timed(f):
    cpu, wall = time.thread_time(), time.perf_counter()
    f()
    return {"cpu": time.thread_time() - cpu, "wall": time.perf_counter() - wall}


def serve():
    step = None
    for line in sys.stdin:
        ask = json.loads(line)
        answer = {}
        if ask["do"] == "load":
            step = Step(ask["path"], ask["rows"], ask["n"], ask["dim"], ask["keep"])
            step.textbook().tofile(ask["path"] + "/textbook.f64")
            answer = {"block": step.block, "trmm": step.trmm}
        elif ask["do"] == "step":
            answer = timed(step.run)
            np.ascontiguousarray(step.out).tofile(ask["path"] + "/python.f64")
        elif ask["do"] == "eigen":
            a = np.fromfile(ask["path"] + "/c.f64", f8).reshape(ask["dim"], ask["dim"])
            answer = timed(lambda: lapack.dsyevd(a, lower=1))
        print(json.dumps(answer), flush=True)


serve()
