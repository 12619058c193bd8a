// Package offsets holds `offsets show` and `offsets reset`: where transform and learner read on, by what is committed, what the
// learner's checkpoint says and what start markers remember; and how to move it while no process runs.
package offsets
