package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/internal/kafkatest"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// -n counts messages: the marks that transactions leave at the end of a partition are none.
func TestInspectCountsMessages(t *testing.T) {
	h := newHistory(t, kafkatest.Embedded)
	newest := map[int32][]int64{}
	for _, r := range h.ReadCommitted(t, "events") {
		newest[r.Partition] = append(newest[r.Partition], r.Offset)
	}
	for _, n := range []int{1, 7, historyMessages, 1000} {
		out, err := exec.Command("lca-stream", "inspect", "events", "-c", h.config, "--json", "-n", strconv.Itoa(n)).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := map[int32][]int64{}
		for line := range strings.Lines(string(out)) {
			var v verdict
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatal(err)
			}
			got[v.Partition] = append(got[v.Partition], v.Offset)
		}
		for p, want := range newest {
			if want = want[max(0, len(want)-n):]; !slices.Equal(got[p], want) {
				t.Errorf("-n %d of partition %d: messages %v, want %v", n, p, got[p], want)
			}
		}
	}
}

// The rows of alarms are about those of the source: they are not judged by its features, nor by its model.by.
func TestInspectAlarms(t *testing.T) {
	event := `{"type": "anomaly", "model_id": "default/0/press", "version": 400, "source": {"topic": "events", "partition": 0, "offset": 7}, "score": 4.8, "p": 0.04}`
	d, err := format.NewDecoder(format.Config{Nested: true})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := d.Decode(t.Context(), []byte(event), "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Release()
	for topic, usable := range map[string]bool{"alarms": true, "events": false} {
		c := config.Default()
		c.Source.Topic, c.Source.Features, c.Alarms.Topic, c.Model.By = "events", []string{"s0", "s1"}, "alarms", modelkey.By{Place: modelkey.Column, Name: "machine"}
		var out strings.Builder
		i := newInspection(c, &out)
		i.of(c, topic)
		for n := range 3 {
			if err := i.message(&source.Message{Offset: int64(n), Value: []byte(event), Record: rec}); err != nil {
				t.Fatal(err)
			}
		}
		err := i.summary(topic)
		if (err == nil) != usable || strings.Contains(out.String(), "nothing is learnt") != usable || strings.Contains(out.String(), "source.features") && usable {
			t.Errorf("%s: %v\n%s", topic, err, out.String())
		}
	}
}

// Before there is a configuration, the registry is a flag of init and inspect. What needs another remedy stays as it is.
func TestVerdictNamesTheFlagOfTheRegistry(t *testing.T) {
	for _, c := range []struct{ message, says string }{
		{"begins with 0: set source.registry.url; send JSON", "begins with 0: set source.registry.url (here --registry URL); send JSON"},
		{"no JSON", "the first, 3@7: no JSON"},
	} {
		i := &inspection{rejected: map[string]int{"format_unknown": 1}, first: &verdict{Partition: 3, Offset: 7, Error: c.message}}
		if err := i.verdict("events"); !errors.Is(err, errNothingUsable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
}
