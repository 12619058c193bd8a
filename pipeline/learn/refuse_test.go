package learn

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/pipeline"
	"github.com/lca-stream/lca-stream/pipeline/internal/fixtures"
	"github.com/lca-stream/lca-stream/pipeline/reject"
	"github.com/lca-stream/lca-stream/pipeline/stats"
	"github.com/lca-stream/lca-stream/sink"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format"
)

// flaky aborts its first puts.
type flaky struct {
	pipeline.Sink
	fails int
}

func (f *flaky) Put(ctx context.Context, msgs []sink.Message, claim source.Claim) error {
	if f.fails > 0 {
		f.fails--
		return errors.New("the broker is away")
	}
	return f.Sink.Put(ctx, msgs, claim)
}

// A message is counted once, however often its batch goes back: as read, as whitened, and as a reject on the
// way to the threshold, which an outage of a broker would reach otherwise.
func TestAbortsDoNotCount(t *testing.T) {
	counted := func(fails int) (*stats.Stats, stats.Tables) {
		w := learnt(t)
		for i := range 3 {
			w.topics[fixtures.Events][3+i].Value = []byte("garbage")
		}
		w.topics[fixtures.Events][9].Value = []byte(`[{"a": 1, "b": null, "c": 3}, {"a": 4, "b": 5, "c": 60}]`)
		loop := w.transformLoop(t, fixtures.Events, 5)
		loop.Sink = &flaky{loop.Sink, fails}
		if err := loop.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		return loop.Stats, loop.Stats.Tables()
	}
	once, want := counted(0)
	again, got := counted(4)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after four aborts (-without +with):\n%s", diff)
	}
	if once.TransformRows.Load() != again.TransformRows.Load() || once.SourceRows.Load() != again.SourceRows.Load() || once.SourceBytes.Load() != again.SourceBytes.Load() {
		t.Errorf("rows whitened %d and %d, read %d and %d", once.TransformRows.Load(), again.TransformRows.Load(), once.SourceRows.Load(), again.SourceRows.Load())
	}
	if want.DeadLetters[format.CodeFormatUnknown] != 3 || want.Rejected["null"] != 1 {
		t.Errorf("counted %v and %v", want.DeadLetters, want.Rejected)
	}
}

// narrow takes no dead letter above its limit, headers and key included.
type narrow struct {
	*memorySink
	limit int
}

func (s narrow) Put(ctx context.Context, msgs []sink.Message, claim source.Claim) error {
	for i, m := range msgs {
		size := len(m.Key) + len(m.Value)
		for _, h := range m.Headers {
			size += len(h.Key) + len(h.Value)
		}
		if m.Topic == "dead" && size > s.limit {
			return &sink.TooLargeError{Index: i, Topic: m.Topic, Partition: m.Partition, Size: size, Limit: s.limit}
		}
	}
	return s.memorySink.Put(ctx, msgs, claim)
}

// A dead letter that its topic does not take is cut as far as it must be, and says where the whole of it is.
func TestDeadLettersAreCut(t *testing.T) {
	value := []byte(strings.Repeat("garbage ", 1000))
	large := []source.Header{{Key: "large", Value: bytes.Repeat([]byte("h"), 3000)}}
	tests := []struct {
		name    string
		headers []source.Header
		limit   int
		cut     string // "" = it stops
	}{
		{"without its value", nil, 2000, reject.CutValue},
		{"without anything of its own", large, 2000, reject.CutAll},
		{"without the sentence", large, 260, reject.CutAll},
		{"the topic takes next to nothing", large, 100, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := learnt(t)
			w.topics[fixtures.Events][4].Value, w.topics[fixtures.Events][4].Headers = value, tt.headers
			loop := w.transformLoop(t, fixtures.Events, 3)
			loop.Sink = narrow{loop.Sink.(*memorySink), tt.limit}
			err := loop.Run(context.Background())
			if tt.cut == "" {
				stop := (*reject.Stop)(nil)
				if !errors.As(err, &stop) {
					t.Fatalf("ended with %v, want a stop", err)
				}
				if !strings.Contains(stop.Remedy, strconv.Itoa(reject.DeadLetterBytes)) {
					t.Errorf("the remedy is %q", stop.Remedy)
				}
				return
			}
			if err != nil || len(w.topics[fixtures.Dead]) != 1 || len(w.topics[fixtures.Out]) != len(w.topics[fixtures.Events])-1 {
				t.Fatalf("%v, %d dead letters, %d outputs of %d inputs", err, len(w.topics[fixtures.Dead]), len(w.topics[fixtures.Out]), len(w.topics[fixtures.Events]))
			}
			got := w.topics[fixtures.Dead][0]
			crc := strconv.FormatUint(uint64(crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli))), 16)
			if got.Value == nil || len(got.Value) != 0 || (got.Key == nil) != (tt.cut == reject.CutAll) || fixtures.Header(got, "lca-cut") != tt.cut || fixtures.Header(got, "lca-original-size") != "8000" ||
				strings.TrimLeft(fixtures.Header(got, "lca-original-crc32c"), "0") != crc || fixtures.Header(got, "lca-source-offset") != "4" || fixtures.Header(got, "lca-error-code") != format.CodeFormatUnknown {
				t.Errorf("value %q, key %q, headers %v", got.Value, got.Key, got.Headers)
			}
		})
	}
}

// punctual takes times of the last hour and the next minute.
type punctual struct {
	*memorySink
	known bool
	puts  int
}

func (s *punctual) Put(ctx context.Context, msgs []sink.Message, claim source.Claim) error {
	s.puts++
	for _, m := range msgs {
		if age := time.Since(m.Time); !m.Time.IsZero() && (age > time.Hour || age < -time.Minute) {
			return &sink.TimestampError{Topic: m.Topic, Known: s.known, Before: time.Hour, After: time.Minute, Err: errors.New("refused")}
		}
	}
	return s.memorySink.Put(ctx, msgs, claim)
}

// A record with a time that the output topic or the dead letter topic does not take goes on with the present, and
// has its own in a header; the others keep theirs. What was learnt of a topic is remembered.
func TestTimesThatATopicDoesNotTake(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run("known="+strconv.FormatBool(known), func(t *testing.T) {
			w := learnt(t)
			recent := time.UnixMilli(time.Now().Add(-10 * time.Minute).UnixMilli())
			for i := range w.topics[fixtures.Events] {
				w.topics[fixtures.Events][i].Time = recent
			}
			ages := map[int]time.Time{5: time.UnixMilli(1000), 6: time.UnixMilli(2000), 9: recent.Add(30 * time.Hour)}
			for i, at := range ages {
				w.topics[fixtures.Events][i].Time = at
			}
			w.topics[fixtures.Events][6].Value = []byte("garbage")
			loop := w.transformLoop(t, fixtures.Events, 3)
			s := &punctual{memorySink: loop.Sink.(*memorySink), known: known}
			loop.Sink = s
			if err := loop.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			if n := len(w.topics[fixtures.Out]); n != len(w.topics[fixtures.Events])-1 {
				t.Fatalf("%d outputs of %d inputs", n, len(w.topics[fixtures.Events]))
			}
			for _, m := range append(slices.Clone(w.topics[fixtures.Out]), w.topics[fixtures.Dead]...) {
				offset, _ := strconv.Atoi(fixtures.Header(m, "lca-source-offset"))
				own := w.topics[fixtures.Events][offset].Time
				if _, moved := ages[offset]; moved && (time.Since(m.Time) > time.Minute || fixtures.Header(m, "lca-source-timestamp") != strconv.FormatInt(own.UnixMilli(), 10)) {
					t.Errorf("record %d: time %v, headers %v", offset, m.Time, m.Headers)
				} else if known && !moved && !m.Time.Equal(own) {
					t.Errorf("record %d has lost its time", offset)
				}
			}
			if batches := (len(w.topics[fixtures.Events]) + 2) / 3; s.puts > batches+2 {
				t.Errorf("%d puts of %d batches: what a topic does not take must be remembered", s.puts, batches)
			}
		})
	}
}

// A topic that takes no time at all stops the process, with the setting to change.
func TestNoTimeIsTaken(t *testing.T) {
	w := learnt(t)
	loop := w.transformLoop(t, fixtures.Events, 3)
	loop.Sink = refusing{loop.Sink, &sink.TimestampError{Topic: "out", Err: errors.New("refused")}}
	var stop *reject.Stop
	if err := loop.Run(context.Background()); !errors.As(err, &stop) || !strings.Contains(err.Error(), "message.timestamp.before.max.ms") {
		t.Errorf("ended with %v", err)
	}
}

type refusing struct {
	pipeline.Sink
	err error
}

func (r refusing) Put(context.Context, []sink.Message, source.Claim) error { return r.err }
