package doctor

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/config"
	"github.com/lca-stream/lca-stream/pipeline/modelkey"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
	"github.com/lca-stream/lca-stream/source/kafkaconn"
	"github.com/lca-stream/lca-stream/source/registry"
)

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
		i := &inspection{rejected: map[string]int{"format_unknown": 1}, first: &Verdict{Partition: 3, Offset: 7, Error: c.message}}
		if err := i.verdict("events"); !errors.Is(err, errNothingUsable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %q", err, c.says)
		}
	}
}

// busy is a registry that has no time.
type busy struct{}

func (busy) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: io.NopCloser(strings.NewReader("busy"))}, nil
}

// inspect, init and doctor end when the registry is away, and say so; the stream waits for it.
func TestCommandsThatLookDoNotWaitForTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := registry.Open(registry.Config{URL: "http://registry.test", Transport: busy{}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		began := time.Now()
		_, err = briefRegistry{c}.Schema(t.Context(), 7)
		var said *kafkaconn.Error
		if !errors.As(err, &said) || !strings.Contains(said.Remedy, "source.registry.url") || time.Since(began) != registryFor {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
