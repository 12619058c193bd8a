// Package learn is the stage that learns what is normal, and publishes models of it.
//
// Begin with a [Learn] for one model, or with a [KeyedLearn] for a model of each value: both are a pipeline.Stage. Learn owns the learner;
// what it puts carries a checkpoint of exactly the state that belongs to the offsets in the same transaction, and to rewind, it loads that.
// KeyedLearn (shard.go) has the models of one partition: those with rows in memory, the others as checkpoints ([KeyedStates]). [History]
// replays what was there before, and [RangeModel] learns from a range for commands.
//
// Memory is bounded by [ModelMemory] and the number of models by model.max: those heard of longest ago leave. A learner that is behind
// skips rows evenly.
//
// The tests of several rooms together are here, because this one may use all others: crashes at every call, and the simulations
// (go test -run TestSimulation).
package learn
