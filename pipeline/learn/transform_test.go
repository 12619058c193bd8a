package learn

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/transform"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// learnt is a world whose events have been learnt: there is a snapshot to whiten with.
func learnt(t *testing.T) *world {
	t.Helper()
	w := newWorld()
	w.events(t, 1, 14, 30)
	loop, _ := w.learnLoop(t, 2)
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return w
}

// Key, timestamp and own headers are kept, and the output says what whitened it.
func TestTransformKeepsTheRecordAndSaysItsModel(t *testing.T) {
	w := learnt(t)
	if err := w.transformLoop(t, fixtures.Events, 3).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(w.topics[fixtures.Out]) != len(w.topics[fixtures.Events]) {
		t.Fatalf("%d outputs of %d inputs", len(w.topics[fixtures.Out]), len(w.topics[fixtures.Events]))
	}
	for i, got := range w.topics[fixtures.Out] {
		in := w.topics[fixtures.Events][i]
		if string(got.Key) != string(in.Key) || !got.Time.Equal(in.Time) || fixtures.Header(in, "traceparent") == "" || fixtures.Header(got, "traceparent") != fixtures.Header(in, "traceparent") {
			t.Fatalf("output %d lost its key, time or header", i)
		}
		if fixtures.Header(got, "lca-source-offset") == "" || fixtures.Header(got, "lca-model-version") != "400" || fixtures.Header(got, "lca-model-id") != "m" || fixtures.Header(got, "lca-group") != "g" {
			t.Fatalf("output %d has headers %v", i, got.Headers)
		}
	}
}

// Bad bytes go to the dead-letter topic untouched; everything else is whitened.
func TestTransformSetsBadRecordsAside(t *testing.T) {
	tests := []struct {
		name  string
		value []byte
		code  string
	}{
		{"random bytes", []byte("\x07garbage that is neither Arrow nor JSON"), format.CodeFormatUnknown},
		{"an Arrow file", []byte("ARROW1\x00\x00 and more"), format.CodeArrowFileFormat},
		{"a row that is no object", []byte(`["one", 2, 3]`), format.CodeJSONType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := learnt(t)
			broken := w.topics[fixtures.Events][4]
			broken.Value = tt.value
			w.topics[fixtures.Events][4] = broken
			if err := w.transformLoop(t, fixtures.Events, 3).Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if len(w.topics[fixtures.Dead]) != 1 || len(w.topics[fixtures.Out]) != len(w.topics[fixtures.Events])-1 {
				t.Fatalf("%d dead letters and %d outputs of %d inputs", len(w.topics[fixtures.Dead]), len(w.topics[fixtures.Out]), len(w.topics[fixtures.Events]))
			}
			got := w.topics[fixtures.Dead][0]
			if string(got.Value) != string(tt.value) || fixtures.Header(got, "lca-error-code") != tt.code || fixtures.Header(got, "lca-source-offset") != "4" {
				t.Errorf("dead letter has code %q (want %q) and value %q", fixtures.Header(got, "lca-error-code"), tt.code, got.Value)
			}
		})
	}
}

// Without a dead-letter topic the first bad record stops the process, and nothing behind it is read.
func TestTransformStopsWithoutADeadLetterTopic(t *testing.T) {
	w := learnt(t)
	w.topics[fixtures.Events][4].Value = []byte("garbage")
	loop := w.transformLoop(t, fixtures.Events, 1)
	loop.Stage.(*transform.Transform).DeadLetter.Topic = ""
	err := loop.Run(context.Background())
	var stop *reject.Stop
	if !errors.As(err, &stop) || !strings.Contains(err.Error(), "events/0@4") || !strings.Contains(err.Error(), "dead_letter.topic") {
		t.Fatalf("stopped with %v, want the place and the remedy", err)
	}
	if n := len(w.topics[fixtures.Out]); n != 4 {
		t.Errorf("%d records were written before the stop, want the 4 before the bad one", n)
	}
}

// More rejects than max_rejects within the window stop the process: the stream has gone bad.
func TestTransformStopsAtTheThreshold(t *testing.T) {
	w := learnt(t)
	for i := range 8 {
		w.topics[fixtures.Events][i].Value = []byte("garbage")
	}
	err := w.transformLoop(t, fixtures.Events, 1).Run(context.Background())
	var stop *reject.Stop
	if !errors.As(err, &stop) || !strings.Contains(err.Error(), "max_rejects = 5") {
		t.Fatalf("ended with %v, want a stop at the threshold", err)
	}
	if n := len(w.topics[fixtures.Dead]); n != 5 {
		t.Errorf("%d dead letters, want max_rejects of them", n)
	}
}

// tightSink takes no message above its limit, as a topic's max.message.bytes.
type tightSink struct {
	*memorySink
	limit int
}

func (s tightSink) Put(ctx context.Context, msgs []sink.Message, claim source.Claim) error {
	for i, m := range msgs {
		if m.Topic == "out" && len(m.Whole()) > s.limit {
			return &sink.TooLargeError{Index: i, Topic: m.Topic, Partition: m.Partition, Size: len(m.Whole()), Limit: s.limit}
		}
	}
	return s.memorySink.Put(ctx, msgs, claim)
}

// An output that its topic never takes is set aside by its input; its neighbours are whitened.
func TestTransformSetsTooLargeOutputsAside(t *testing.T) {
	w := learnt(t)
	big := newWorld()
	big.events(t, 1, 1, 500)
	w.topics[fixtures.Events][6].Value = big.topics[fixtures.Events][0].Value
	loop := w.transformLoop(t, fixtures.Events, 3)
	loop.Sink = tightSink{loop.Sink.(*memorySink), 8000}
	if err := loop.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(w.topics[fixtures.Dead]) != 1 || fixtures.Header(w.topics[fixtures.Dead][0], "lca-error-code") != "output_too_large" {
		t.Fatalf("dead letters: %v", w.topics[fixtures.Dead])
	}
	dead := w.topics[fixtures.Dead][0]
	if version := fixtures.Header(dead, "lca-model-version"); version == "" || version != fixtures.Header(w.topics[fixtures.Out][0], "lca-model-version") {
		t.Errorf("the dead letter has version %q", version)
	}
	if n := len(w.topics[fixtures.Out]); n != len(w.topics[fixtures.Events])-1 {
		t.Errorf("%d outputs of %d inputs", n, len(w.topics[fixtures.Events]))
	}
}
