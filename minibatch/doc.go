// Package minibatch turns Arrow records into the rows that a model learns from and transforms.
//
// Begin with [ResolveRecord] and [Features.Gather]. ResolveRecord chooses, once, which columns make a row: named numeric columns, or
// the elements of one list column. Without names it goes by names and types, [Choose] by the values of a record too, and a
// [Survey] by those of many. The resulting [Features] then maps every later schema by name, so that a producer
// may reorder its columns, add others or change their width (float32 to float64) without notice,
// but never silently swap, lose or rename one: that is a [FeatureError].
//
//	f, err := minibatch.ResolveRecord(rec, nil)  // nil: the numeric columns, without ids and labels
//	var rows minibatch.Rows
//	err = f.Gather(&rows, rec)                   // rows.X is row-major float64, N×d
//	x, ids = rows.AppendValid(x, ids, minibatch.NewRowIDs("events", 3), offset, 0)
//	for b := range batcher.Add(x, ids, 3) {            // exactly B rows each, in order
//		learner.Learn(b.X, b.IDs, b.Partitions)
//	}
//
// # Invalid rows
//
// A row is refused as a whole, never a single value of it: a row with a null, text, NaN or ±Inf feature, or a list of
// another length, has a [Reason] and holds zeros, so that arithmetic on the whole matrix stays
// finite. Every finite number is taken, 1e308 included: whether such a row is an outlier is for
// the model to say (its gate leaves it out of the statistics). Integers beyond ±2⁵³ are rounded
// to the nearest float64.
//
// # Minibatches
//
// A [Batcher] closes a minibatch by the number of rows, never by time, and keeps the remainder
// as part of the learner's checkpoint. The same rows in the same order therefore give the same
// minibatches, however the producer cut them into records.
package minibatch
