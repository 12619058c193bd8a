package transform

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// The table counts the anomalies of each model: rows with a lca_p below 1e-4. So the machine with a fault stands out also where no alarms are set up. A batch that is given up counts nothing.
func TestAnomaliesOfEachModel(t *testing.T) {
	models := modelsOf(t, 3)
	for name, c := range map[string]struct {
		by     modelkey.By
		alarms Alarms
	}{
		"by key":    {by: modelkey.By{Place: modelkey.Key}},
		"by column": {by: modelkey.By{Place: modelkey.Column, Name: "machine"}},
		"alarms":    {by: modelkey.By{Place: modelkey.Key}, alarms: Alarms{Topic: "alarms"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, topic := rand.New(rand.NewPCG(3, 4)), newKeyedTopic(t, 2)
			fleet := keyedModels(t, topic, c.by, 1<<20)
			config := keyedConfig(encode.OutputConfig{Format: encode.FormatInput, Passthrough: true, Score: true, P: true, Models: c.by.Place == modelkey.Column}, reject.NullRow, PassThrough)
			config.Alarms, config.Stats = c.alarms, fleet.Stats
			stage := keyedStage(fleet, config)
			for i, m := range models {
				topic.publish(snapshotOf(m, fmt.Sprint(i), 5))
			}
			if err := fleet.CatchUp(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			want := map[string]uint64{}
			for batch := range 6 {
				work, err := stage.Do(t.Context(), machinesBatch(t, r, int64(100*batch)))
				if err != nil {
					t.Fatal(err)
				}
				if batch%3 == 1 {
					continue // its transaction is aborted
				}
				for _, m := range work.Messages {
					var rows []struct {
						Machine string  `json:"machine"`
						P       float64 `json:"lca_p"`
					}
					if m.Topic == "alarms" {
						continue
					}
					if err := json.Unmarshal(m.Whole(), &rows); err != nil {
						t.Fatal(err)
					}
					for _, row := range rows {
						if float64(float32(row.P)) < RareRow {
							want[row.Machine]++
						}
					}
				}
				stage.Kept()
			}
			rows, _ := fleet.Stats.Models.List(0, 10, "id", false)
			for _, row := range rows {
				if row.Anomalies != want[row.Value] {
					t.Errorf("model %s has %d anomalies, want %d", row.ID, row.Anomalies, want[row.Value])
				}
			}
			if len(rows) != len(models) || want["1"] < 20 {
				t.Errorf("%d models, anomalies %v: that proves too little", len(rows), want)
			}
		})
	}
}

// machinesBatch is a batch of messages of three machines, of which the one in the middle has a fault now and then.
func machinesBatch(t *testing.T, r *rand.Rand, offset int64) (b source.Batch) {
	t.Helper()
	for i := range 40 {
		machine, a := r.IntN(3), r.NormFloat64()
		if machine == 1 && i%2 == 0 {
			a = 1e6
		}
		row := fmt.Sprintf(`{"machine": "%d", "a": %g, "b": %g, "c": %g}`, machine, a, r.NormFloat64(), r.NormFloat64())
		b.Messages = append(b.Messages, decodedAs(t, source.Message{
			Partition: fixtures.Events, Offset: offset + int64(i), Key: fmt.Append(nil, machine), Time: time.Unix(1000, 0),
			Value: []byte("[" + row + "]"),
		}))
	}
	return b
}
