// Package system connects a configuration with its brokers.
//
// Commands that look begin with Connect, and get a System:
//
//   - Topics reads and writes the topics of the configuration.
//   - Models finds snapshots and checkpoints.
//   - Publisher publishes models that no live learner has made.
//   - Positions decides where partitions are read from.
//
// Commands that stay begin with Command, and get a Process: a System with a status page, members of groups, and a guard
// that stops the work when a topic that it needs is gone.
package system
