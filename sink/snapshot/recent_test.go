package snapshot

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/sink"
)

// scoring is an example with an evaluator that has been learnt.
func scoring(t testing.TB, d int, version uint64) *Snapshot {
	t.Helper()
	s, r := example(d, 1, 2, version), rand.New(rand.NewPCG(version, 3))
	l, series := recent.NewLearner(d), make([]*recent.Series, 100)
	for i := range series {
		series[i] = new(recent.Series)
		if i > 0 {
			series[i] = series[0]
		}
	}
	for range 12 {
		rows := make([]float64, 100*d)
		for i := range rows {
			if rows[i] = 1e9 + r.NormFloat64(); i%d == 0 {
				rows[i] = 7 // constant
			}
		}
		l.Learn(rows, series)
	}
	if s.Model.Recent = l.Evaluator(); s.Model.Recent == nil {
		t.Fatal("no evaluator")
	}
	return s
}

// What scores the last rows comes out of a topic and a file with each bit of it.
func TestRecentComesThrough(t *testing.T) {
	for _, d := range []int{1, 3, 40} {
		s := scoring(t, d, 700)
		messages, _ := mustMessages(t, s, 4, nil)
		var a Assembler
		add(t, &a, time.Time{}, messages...)
		got, ok := a.Newest("default")
		if !ok {
			t.Fatal("the topic has no snapshot")
		}
		got.Time = s.Time
		if text := diff(s, got); text != "" {
			t.Errorf("d = %d: of the topic: %s", d, text)
		}
		var b bytes.Buffer
		if err := WriteFile(&b, s); err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(&b)
		if err != nil {
			t.Fatal(err)
		}
		if text := diff(s, got); text != "" {
			t.Errorf("d = %d: of a file: %s", d, text)
		}
		for _, flat := range []bool{false, true} {
			got, err := decodedBy(partsOf(t, s), func(dec *decoder, part string, data []byte) ([]byte, error) {
				if !flat {
					return dec.addAny(part, data, fileLimits(len(data)))
				}
				rest, ok := dec.addFlat(part, data, fileLimits(len(data)))
				if !ok {
					t.Fatalf("part %s is not read from where its numbers lie", part)
				}
				return rest, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if text := diff(s, got); text != "" {
				t.Errorf("d = %d, flat %v: %s", d, flat, text)
			}
		}
	}
}

// A snapshot of the most columns is one chunk a part, because slots are emptied by that.
func TestRecentIsOneChunk(t *testing.T) {
	s := scoring(t, recent.MostColumns, 5)
	count := map[string]int{}
	messages, _ := mustMessages(t, s, 4, nil)
	for _, m := range messages {
		count[header(m, headerPart)]++
	}
	if count[PartRecent] != 1 || count[PartFactors] != 1 {
		t.Errorf("%v chunks, want one of recent and of factors", count)
	}
}

// With one of the parts missing or cut the snapshot is none; with neither, as a program copies it that knows none of them, the last rows are not scored.
func TestRecentIsWholeOrNone(t *testing.T) {
	s := scoring(t, 3, 700)
	without := func(parts ...string) (*Snapshot, error) {
		var a Assembler
		messages, _ := mustMessages(t, s, 4, nil)
		messages = slices.DeleteFunc(messages, func(m sink.Message) bool { return slices.Contains(parts, header(m, headerPart)) })
		add(t, &a, time.Time{}, messages...)
		return a.Version("default", 700)
	}
	for _, part := range []string{PartRecent, PartFactors} {
		if _, err := without(part); err == nil || !strings.Contains(err.Error(), "something is missing") {
			t.Errorf("without %s: %v, want that something is missing", part, err)
		}
	}
	got, err := without(PartRecent, PartFactors)
	if err != nil || got.Model.Recent != nil {
		t.Errorf("without both: %v, %v", got.Model.Recent, err)
	}
	for name, text := range map[string]string{
		"a bin beyond the last": `{"learnt":9,"scores":{"low":1000,"bins":1000}}`, "bins below 0": `{"first":{"bins":-1}}`, "a column too many": `{"constant":[3]}`, "no JSON": `{`,
	} {
		if err := parseRecent(example(3, 1, 2, 700).Model, text); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if err := parseRecent(example(recent.MostColumns+1, 1, 2, 700).Model, `{}`); err == nil {
		t.Errorf("an evaluator of %d columns was read", recent.MostColumns+1)
	}
}
