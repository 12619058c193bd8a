package episode

import (
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
)

// Schema is that of Record. Fields are only ever added.
const Schema = 1

// The types of records.
const (
	Opened  = "episode_opened"
	Updated = "episode_updated"
	Closed  = "episode_closed"
)

// The reasons why an episode is closed.
const (
	Usual         = "usual"          // its rows are usual again
	Silent        = "silent"         // its series has had no row for a day, by the clock of the partition
	Evicted       = "evicted"        // there are too many series
	ModelReplaced = "model_replaced" // its model has another id, or other features
	Reset         = "reset"          // offsets were set back to before its last row
	Accepted      = recent.Accepted  // someone said that this is normal
	Aged          = recent.Aged      // it has lasted for lca.accept_after
	Returned      = recent.Returned  // it was normal before, and is again
)

// Reasons are all of them.
var Reasons = []string{Usual, Silent, Evicted, ModelReplaced, Reset, Accepted, Aged, Returned}

// Record is what is said of an episode. What is not known is null.
type Record struct {
	Schema    int        `json:"schema"`
	Type      string     `json:"type"`
	ID        string     `json:"id"`
	Seq       int        `json:"seq"`    // of the records of the episode, from 0 on
	Reason    *string    `json:"reason"` // of one that is closed
	Group     string     `json:"group"`
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Series    *string    `json:"series"`                  // null: rows without a value, or all rows of the partition
	Base64    *string    `json:"series_base64,omitempty"` // the series, where it is no UTF-8
	ModelID   string     `json:"model_id"`
	Version   uint64     `json:"version"` // that the row was scored with
	Time      *time.Time `json:"time"`    // of the row
	From      Place      `json:"from"`
	To        Place      `json:"to"`        // the last row that was unusual: see end
	Rows      int64      `json:"rows"`      // of the series, from…to
	RowsOver  int64      `json:"rows_over"` // of them, with a score above the level of their time
	Peak      Peak       `json:"peak"`
	Level     float64    `json:"level"`  // that the first row passed
	Budget    string     `json:"budget"` // by which the level is made
	Young     bool       `json:"young"`  // the model knew too few rows to make the level well
	Causes    []Cause    `json:"causes"`
	Message   string     `json:"message"`
}

// Place is a row.
type Place struct {
	Offset int64      `json:"offset"`
	Row    int        `json:"row"`
	Time   *time.Time `json:"time"`
}

// Millis is the time of a row in ms since the epoch; 0: it is not known.
func (p *Place) Millis() int64 {
	if p.Time == nil {
		return 0
	}
	return p.Time.UnixMilli()
}

// Peak is the row with the highest score.
type Peak struct {
	Score  float64  `json:"score"`
	P      *float64 `json:"p"`
	Offset int64    `json:"offset"`
	Row    int      `json:"row"`
}

// Cause is a column that has changed.
type Cause struct {
	Feature   string   `json:"feature"`
	Rank      int      `json:"rank"`
	Direction string   `json:"direction"` // up, down, noisy, quiet
	Before    *float64 `json:"before"`
	Now       *float64 `json:"now"`
	Onset     *int     `json:"onset"` // in rows from the first of the episode
}
