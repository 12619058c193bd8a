// Package stats counts what the loops of one process do, and says whether it is ready.
//
// Begin with [NewStats]. Loops and stages add to a [Stats]; metrics and the status page read [Stats.Tables], [Stats.Ready] and the
// [ModelTable]. Everything but the table is atomic, so that a reader never holds up a writer.
//
// What grows is bounded: counts by reason, a few hundred points of a curve, the strangest rows of five minutes, and one row for each model.
package stats
