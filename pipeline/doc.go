// Package pipeline joins the other packages: one loop reads a batch, lets a stage work on it, and puts the results
// together with the input offsets that they stand for.
//
// Begin with a [Loop], made of a [Source], a [Stage] and a [Sink], and call [Loop.Run]; [Transforms] runs one for each partition that a
// group gives this process. The stage is a transform.Transform, whose models come from a models.Follow, or a learn.Learn.
//
//	source ──Read──▶ Stage.Do ──messages──▶ sink.Put (rows, snapshot, checkpoint AND offsets: all or nothing)
//	   ▲                 │                      │
//	   └──────Seek───────┴◀──── Rewind ◀────────┘ Put failed: back to what was last kept
//
// There are two stages. Transform whitens live records with the newest model and has no state of its own: to rewind, it
// reads the committed offsets again. Learn owns the learner: to rewind, it loads the last checkpoint. The two share no
// lock, because a model travels through the snapshot topic and an atomic pointer. So a slow learner never holds up a
// record.
//
// What happens in a loop has a room each, and each may use those above it:
//
//	reject      messages and rows that cannot be used: reasons, dead letters, faults that stop
//	stats       counts, readiness, the table of models
//	checkpoint  the bytes of a learner's state, its owner, reading back
//	start       where a partition is read from
//	models      the current model, or the models of many values
//	encode      rows and what they have become → the value of an output
//	pipeline    this package: the loop, partitions, merging, renewal
//	transform   the stage that whitens
//	learn       the stage that learns
//
// The numbered invariants that the code cites are in ARCHITECTURE.md.
package pipeline
