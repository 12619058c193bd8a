package transform

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/encode"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/pipeline/models"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/source"
)

// Records that pass before there is a model for their rows are counted and said, so that null results are not taken for a fault of the
// data. A record without a key is counted elsewhere, and a row with a model is whitened.
func TestRecordsWithoutAModelAreSaid(t *testing.T) {
	record := func(offset int64, key, value string) source.Message {
		m := source.Message{Partition: fixtures.Events, Offset: offset, Value: []byte(value), Time: time.Unix(1000, 0)}
		if key != "" {
			m.Key = []byte(key)
		}
		return decodedAs(t, m)
	}
	known := snapshotOf(modelsOf(t, 1)[0], "x", 3)
	for _, test := range []struct {
		name  string
		by    modelkey.By
		batch []source.Message
		want  string
	}{
		{"all", modelkey.By{}, []source.Message{record(4, "y", `{"a":1,"b":2,"c":3}`), record(5, "x", `{"a":1,"b":2,"c":3}`)}, "records=2 example=events/0@4\n"},
		{"key", modelkey.By{Place: modelkey.Key}, []source.Message{
			record(4, "", `{"a":1,"b":2,"c":3}`), record(5, "x", `{"a":1,"b":2,"c":3}`), record(6, "y", `{"a":1,"b":2,"c":3}`), record(7, "y", `[]`),
		}, "records=1 example=events/0@6\n"},
		{"column", modelkey.By{Place: modelkey.Column, Name: "machine"}, []source.Message{
			record(4, "", `{"a":1,"b":2,"c":3,"machine":null}`), record(5, "", `[{"a":1,"b":2,"c":3,"machine":"x"},{"a":1,"b":2,"c":3,"machine":"y"}]`),
			record(6, "", `[{"a":1,"b":2,"c":3,"machine":"z"},{"a":1,"b":2,"c":3,"machine":"y"}]`), record(7, "", `{"a":1,"b":2,"c":3,"machine":"y"}`),
		}, "records=2 example=events/0@6\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			now := time.Now()
			config := keyedConfig(encode.OutputConfig{Passthrough: true}, reject.NullRow, PassThrough)
			config.DeadLog = &reject.DeadLog{Log: fixtures.SaidLog(&out), Now: func() time.Time { return now }}
			config.Alarms = Alarms{}
			var stage interface {
				pipeline.Stage
				Kept()
			}
			if test.by.Keyed() {
				topic := newKeyedTopic(t, 2)
				topic.publish(known)
				fleet := keyedModels(t, topic, test.by, 1<<20)
				stage = keyedStage(fleet, config)
				if err := fleet.CatchUp(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
			} else {
				config.Follow = &models.Follow{ModelID: "m"}
				stage = &Transform{TransformConfig: config}
			}
			work, err := stage.Do(context.Background(), source.Batch{Messages: test.batch})
			if err != nil || len(work.Messages) == 0 {
				t.Fatalf("%d messages, %v", len(work.Messages), err)
			}
			stage.Kept()
			_, said, found := strings.Cut(out.String(), `msg="records pass with null results: there is no model for their rows yet" `)
			line, _, _ := strings.Cut(said, "\n")
			if line, remedy, _ := strings.Cut(line, " remedy="); !found || line+"\n" != test.want || !strings.Contains(remedy, "lca-stream replay") {
				t.Errorf("said\n%s\nwant %s", &out, test.want)
			}
			now = now.Add(2 * time.Minute)
			config.DeadLog.WithoutModel(3, reject.RecordPlace{}) // what to do is said once
			if all := out.String(); !strings.Contains(all, "records=3 ") || strings.Count(all, "remedy=") != 1 {
				t.Errorf("said\n%s", all)
			}
			if n := config.Stats.Tables().Passed[reject.ReasonNoModel]; !strings.HasPrefix(test.want, fmt.Sprintf("records=%d ", n)) {
				t.Errorf("%d records are counted, want %s", n, test.want)
			}
		})
	}
}
