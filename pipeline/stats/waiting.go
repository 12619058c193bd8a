package stats

import (
	"fmt"
)

// Waiting says why a learner has published no model yet.
type Waiting struct {
	Rows   int    // Rows collected for the first model.
	Wanted int    // Rows that the first model takes; 0 while that is not known, because no usable row has come.
	Reason string // What it waits for, if not only for rows.

	Kind WaitingKind
}

// String returns it as a sentence.
func (w *Waiting) String() string {
	switch {
	case w.Wanted == 0:
		return "no model yet: " + w.Reason
	case w.Reason == "":
		return fmt.Sprintf("no model yet: %d of %d rows collected", w.Rows, w.Wanted)
	}
	return fmt.Sprintf("no model yet: %d of %d rows collected; %s", w.Rows, w.Wanted, w.Reason)
}

// WaitingKind is a Reason without its numbers.
type WaitingKind int

// What a learner may wait for, in the order in which it does; WaitingKinds is their number.
const (
	WaitsForHistory WaitingKind = iota
	WaitsForMessages
	WaitsForUsableMessages
	WaitsForValidRows
	WaitsForRows
	WaitsForIndependentRows
	WaitsForVariation
	WaitingKinds
)
