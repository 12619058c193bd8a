// Package pipeline joins the other packages: one loop reads a batch, lets a stage work on it, and puts the results
// together with the input offsets that they stand for.
//
// Begin with a [Loop], made of a [Source], a [Stage] and a [Sink], and call [Loop.Run]. The stage is a [Transform],
// whose models come from a [Follow], or a [Learn].
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
// A record's way through Transform is decode → rows → whiten → encode. A message comes decoded, and waits in one queue, in
// input order (engine.go). Its rows lie where they are, as float32 in the message, or are gathered as float64 (rows.go);
// neighbours are whitened together (whiten.go) and written in their order, with dead letters and tombstones in their places
// (encode.go). What a message becomes does not depend on its neighbours.
//
// The numbered invariants that the code cites are in ARCHITECTURE.md.
package pipeline
