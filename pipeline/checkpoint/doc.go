// Package checkpoint is the bytes of a learner's state on the checkpoint topic, and how they are read back.
//
// Begin with [Checkpoints]: it makes the records of a [Checkpoint], which a learner puts with the offsets that it stands for, and loads the
// newest one. A model has one [Owner], a group and a topic; [Checkpoints.Own] claims it. [ReadBack] reads a topic of ours up to its high
// watermark, where a missed record would make the program do its work again with another outcome.
//
// A checkpoint is at most [CheckpointLimit] bytes. One that is damaged, or of a newer format, is an error and never a panic; no older one is
// used in its place.
package checkpoint
