// Package bench measures the whole product on a real broker. Its benchmarks are not part of the
// tests; see docs/benchmarks.md for what they found and how they are run.
package bench
