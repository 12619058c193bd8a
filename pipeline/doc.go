// Package pipeline is the assembly: one loop that reads, lets a stage work, and puts what it made
// together with the input offsets it stands for.
//
//	source ──Read──▶ Stage.Do ──messages──▶ sink.Put (rows, snapshot, checkpoint AND offsets: all or nothing)
//	   ▲                 │                      │
//	   └──────Seek───────┴◀──── Rewind ◀────────┘ Put failed: back to what was last kept
//
// There are two stages. Transform whitens live records with the newest model (Follow) and is
// stateless: rewinding means reading the committed offsets again. Learn owns the learner, and
// rewinding means loading the last checkpoint. The two never share a lock: a model travels through
// the snapshot topic and an atomic pointer, so a slow learner never holds up a record.
//
// A record's way through Transform is decode → rows → whiten → encode. A message comes decoded, and waits in one queue, in
// input order (engine.go). Its rows lie where they are, as float32 in the message, or are gathered as float64 (rows.go);
// neighbours are whitened together (whiten.go) and written in their order, with dead letters and tombstones in their places
// (encode.go). What a message becomes does not depend on its neighbours.
//
// The numbered invariants that the code cites are in ARCHITECTURE.md.
package pipeline
