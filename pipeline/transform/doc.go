// Package transform is the stage that whitens live records with the newest model.
//
// Begin with a [Transform], or with a [KeyedTransform] where each value has a model of its own; both are a pipeline.Stage and take a
// [TransformConfig]. They have no state of their own: to rewind, they read the committed offsets again. [HoldSource] reads nothing before
// the first model.
//
// A record's way is decode → rows → whiten → encode. A message comes decoded, and waits in one queue, in input order (transform.go). Its
// rows lie where they are, as float32 in the message, or are gathered as float64; neighbours are whitened together and written in their
// order, with dead letters and tombstones in their places (batch.go). What a message becomes does not depend on its neighbours.
//
// Partitions of a process share [Engines], which bound the memory of what is whitened at a time. A batch ends with its context.
package transform
