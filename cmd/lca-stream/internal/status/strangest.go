package status

import (
	"net/http"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
)

// Strangest is the answer of /api/v1/strangest: whitened rows with the least lca_p, the strangest first.
type Strangest struct {
	Minutes int       `json:"minutes"` // how far back it looks
	Rows    []Strange `json:"rows"`
}

// Strange is one of them.
type Strange struct {
	Time    time.Time         `json:"time"` // of its record
	Source  Place             `json:"source"`
	ModelID string            `json:"model_id"`
	Version uint64            `json:"version"` // of the model that has scored it
	Score   float32           `json:"score"`
	P       float32           `json:"p"`
	LeastP  float32           `json:"least_p"` // what the model's scores can tell: a smaller p says that it is less
	Why     []pipeline.Guilty `json:"why"`     // the features that make the score high, the largest first
}

// Place is where a row came from.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Row       int    `json:"row"` // within its record, from 0 on
}

const (
	strangestMinutes = 5
	strangestRows    = 20
)

// strangest serves the strangest rows of this process. Each process has those of its own partitions.
func strangest(mux *http.ServeMux, c Config) {
	mux.Handle("/api/v1/strangest", &shared{compute: func() any {
		out := Strangest{Minutes: strangestMinutes, Rows: []Strange{}}
		for _, s := range c.Stats.Strangest(time.Now()) {
			if len(out.Rows) == strangestRows {
				break
			}
			out.Rows = append(out.Rows, Strange{
				Time: s.Time.UTC(), Source: Place{s.Partition.Topic, s.Partition.ID, s.Offset, s.Row}, ModelID: s.ModelID, Version: s.Version,
				Score: s.Score, P: s.P, LeastP: s.LeastP, Why: s.Why,
			})
		}
		return out
	}})
}
