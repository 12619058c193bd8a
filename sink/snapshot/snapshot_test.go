package snapshot

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
)

var update = flag.Bool("update", false, "write the golden files of the current format")

func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		d, p   int
	}{
		{"every field", func(*Snapshot) {}, 5, 2},
		{"one column", func(*Snapshot) {}, 1, 1},
		{"all Parzen", func(*Snapshot) {}, 4, 4},
		{"all Gaussian, no neighbours", func(s *Snapshot) { s.Model.Neighbours = nil }, 4, 0},
		{"no covariances", func(s *Snapshot) { s.Model.CL, s.Model.CG = nil, nil }, 3, 1},
		{"a constant column has no direction", func(s *Snapshot) {
			s.Model.BG = mat.NewDense(3, 1, []float64{1, 0, 2})
			s.Model.Ratio = s.Model.Ratio[:2]
		}, 3, 1},
		{"unknown kind and metric", func(s *Snapshot) { s.Model.Kind, s.Model.Metric, s.Model.Info.NuUnit = 0, 0, 0 }, 3, 1},
		{"nothing known yet", func(s *Snapshot) {
			s.Model.Info = lca.Info{NLL: math.NaN(), GaussianNLL: math.NaN()}
			s.Offsets, s.Producer, s.Number, s.Parent = nil, "", 0, 0
		}, 3, 1},
		{"further metadata", func(s *Snapshot) { s.Extra = map[string]string{"lca.tomorrow": "yes", "owner": "späti", "a": ""} }, 3, 1},
		{"model id with slashes", func(s *Snapshot) { s.ModelID = "plant/7/model" }, 3, 1},
		{"greatest numbers", func(s *Snapshot) {
			s.Version, s.Model.Info.Rows, s.Number = mostVersion, math.MaxUint64, math.MaxUint64
			s.Model.Mean[0], s.Model.Mean[1], s.Model.Mean[2] = math.MaxFloat64, math.SmallestNonzeroFloat64, math.Copysign(0, -1)
		}, 3, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := example(c.d, c.p, 7, 1000)
			c.change(s)
			var file bytes.Buffer
			if err := WriteFile(&file, s); err != nil {
				t.Fatal(err)
			}
			got, err := ReadFile(bytes.NewReader(file.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(s, got); d != "" {
				t.Errorf("through a file: %s", d)
			}
			at := time.UnixMilli(1700000000123)
			messages, _ := mustMessages(t, s, 16, nil)
			var a Assembler
			add(t, &a, at, messages...)
			got, ok := a.Newest(s.ModelID)
			if !ok {
				t.Fatalf("not whole: %v", a.List(s.ModelID))
			}
			if !got.Time.Equal(at) {
				t.Errorf("time %v, want that of the messages", got.Time)
			}
			got.Time = time.Time{}
			if d := diff(s, got); d != "" {
				t.Errorf("through the topic: %s", d)
			}
		})
	}
}

// TestDeterministic: the same snapshot is the same bytes, whatever the order of Go's maps.
func TestDeterministic(t *testing.T) {
	s := example(4, 2, 50, 900)
	s.Extra = map[string]string{"a": "1", "b": "2", "c": "3"}
	first, _ := mustMessages(t, s, 4, Slots{0: {9, 9}, 1: {9, 9}, 6: {9, 9}, 7: {9, 9}})
	fingerprint, err := Fingerprint(s)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, _ := mustMessages(t, s, 4, Slots{0: {9, 9}, 1: {9, 9}, 6: {9, 9}, 7: {9, 9}})
		if d := cmp.Diff(first, again); d != "" {
			t.Fatal(d)
		}
		s.Time = s.Time.Add(time.Hour) // never in the bytes
		if f, _ := Fingerprint(s); f != fingerprint {
			t.Fatal("the fingerprint changed")
		}
	}
	s.Model.W.Set(1, 1, math.Nextafter(s.Model.W.At(1, 1), 0))
	if f, _ := Fingerprint(s); f == fingerprint {
		t.Error("the fingerprint does not see the last bit of W")
	}
}

func TestChunks(t *testing.T) {
	for _, c := range []struct{ d, neighbours int }{{1, 3}, {64, 3000}, {512, 3000}, {2048, 400}} {
		t.Run(fmt.Sprintf("d=%d", c.d), func(t *testing.T) {
			s := example(c.d, c.d/4, c.neighbours, 7)
			messages, slots := mustMessages(t, s, 16, nil)
			model := 0
			for _, m := range messages {
				if len(m.Value) > MaxChunk {
					t.Errorf("%s has %d bytes", m.Key, len(m.Value))
				}
				if header(m, "lca-part") == "model" {
					model++
				}
			}
			// The mean and four d×d matrices (W, B_L with B_G, C_L, C_G). Chunks are filled, except for
			// the metadata, in which the names of 2048 features take 40 kB.
			rows, perChunk := 1+4*c.d, (MaxChunk-50_000)/(8*c.d+28)
			if most := (rows + perChunk - 1) / perChunk; model > most {
				t.Errorf("%d chunks for the model part, want at most %d", model, most)
			}
			if got := slots[0]; got.Model != model || got.Model+got.Neighbours+1 != len(messages) {
				t.Errorf("slots say %+v of %d messages", got, len(messages))
			}
			var a Assembler
			add(t, &a, time.Time{}, messages...)
			got, ok := a.Newest("default")
			if !ok {
				t.Fatal(a.List("default")[0].Fault)
			}
			if d := diff(s, got); d != "" {
				t.Error("the snapshot changed on its way")
			}
		})
	}
	// A row that does not fit a chunk goes alone into a larger one.
	chunks, err := modelPart(example(40, 10, 1, 7)).chunks(100)
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + 4*40; len(chunks) != want { // mean, W, B_L with B_G, C_L, C_G
		t.Errorf("%d chunks, want one per row: %d", len(chunks), want)
	}
}

// TestMessages fixes what the outside sees of a message.
func TestMessages(t *testing.T) {
	s := example(3, 1, 2, 3700) // number 37
	messages, _ := mustMessages(t, s, 16, nil)
	var keys []string
	for i, m := range messages {
		keys = append(keys, string(m.Key))
		if m.Topic != "snapshots" || m.Partition != 0 || !m.Time.IsZero() {
			t.Errorf("message %d goes to %s/%d at %v", i, m.Topic, m.Partition, m.Time)
		}
	}
	if d := cmp.Diff([]string{"default/5/model/0", "default/5/scores/0", "default/5/neighbours/0"}, keys); d != "" {
		t.Error(d)
	}
	for key, want := range map[string]string{
		"content-type": "application/vnd.apache.arrow.stream", "lca-model-id": "default", "lca-model-version": "3700",
		"lca-part": "neighbours", "lca-chunk": "0/1", "lca-crc32c": fmt.Sprint(checksum(messages[2].Value)),
	} {
		if got := header(messages[2], key); got != want {
			t.Errorf("header %s is %q, want %q", key, got, want)
		}
	}
	// Check value of CRC-32C from RFC 3720, B.4: 32 bytes of zeros.
	if got := checksum(make([]byte, 32)); got != 0x8a9136aa {
		t.Errorf("crc32c of 32 zeros is %#x", got)
	}
}

func TestTombstones(t *testing.T) {
	for _, c := range []struct {
		name       string
		keep       int
		before     Slots
		tombstones []string
		after      Slots
	}{
		{"first", 4, nil, nil, Slots{3: {1, 1}}},
		{"same size", 4, Slots{3: {1, 1}, 2: {5, 5}}, nil, Slots{2: {5, 5}, 3: {1, 1}}},
		{"smaller", 4, Slots{3: {3, 2}}, []string{"default/3/model/1", "default/3/model/2", "default/3/neighbours/1"}, Slots{3: {1, 1}}},
		{"grown", 4, Slots{3: {0, 1}}, nil, Slots{3: {1, 1}}},
		{"fewer slots than before", 2, Slots{0: {1, 1}, 1: {1, 1}, 2: {1, 1}, 5: {0, 1}},
			[]string{"default/2/scores/0", "default/2/recent/0", "default/2/factors/0", "default/2/model/0", "default/2/neighbours/0", "default/5/scores/0", "default/5/recent/0", "default/5/factors/0", "default/5/neighbours/0"}, Slots{0: {1, 1}, 1: {1, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			messages, after := mustMessages(t, example(2, 1, 1, 700), c.keep, c.before) // number 7
			var got []string
			for _, m := range messages {
				if m.Value == nil {
					got = append(got, string(m.Key))
				}
			}
			if d := cmp.Diff(c.tombstones, got); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.after, after); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		says   string
	}{
		{"no model", func(s *Snapshot) { s.Model = nil }, "no model"},
		{"no model id", func(s *Snapshot) { s.ModelID = "" }, "model id"},
		{"version 0", func(s *Snapshot) { s.Version = 0 }, "at least 1"},
		{"a version that nothing could follow", func(s *Snapshot) { s.Version = math.MaxUint64 }, "more rows than any stream has"},
		{"W of zeros", func(s *Snapshot) { s.Model.W.Zero() }, "largest number of W is 0"},
		{"a huge W", func(s *Snapshot) { s.Model.W.Scale(1e200, s.Model.W) }, "largest number of W is"},
		{"no column", func(s *Snapshot) { s.Model.Dim = 0 }, "0 columns"},
		{"names", func(s *Snapshot) { s.Features = s.Features[1:] }, "2 feature names"},
		{"name of other bytes", func(s *Snapshot) { s.Features[1] = "\xff" }, "UTF-8"},
		{"mean", func(s *Snapshot) { s.Model.Mean = s.Model.Mean[1:] }, "mean of 2"},
		{"eigenvalues", func(s *Snapshot) { s.Model.Ratio = nil }, "0 eigenvalues"},
		{"neighbours", func(s *Snapshot) { s.Model.Neighbours = s.Model.Neighbours[1:] }, "rows of 3 neighbours"},
		{"W of another width", func(s *Snapshot) { s.Model.W = mat.NewDense(3, 2, nil) }, "W is 3×2"},
		{"NaN in W", func(s *Snapshot) { s.Model.W.Set(2, 1, math.NaN()) }, "W holds NaN"},
		{"Inf in B_L", func(s *Snapshot) { s.Model.BL.Set(2, 0, math.Inf(1)) }, "B_L holds +Inf"},
		{"Inf in C_G", func(s *Snapshot) { s.Model.CG.SetSym(2, 1, math.Inf(-1)) }, "C_G holds -Inf at 1, 2"},
		{"C_L of another size", func(s *Snapshot) { s.Model.CL = mat.NewSymDense(2, nil) }, "C_L is 2×2"},
		{"NaN in the mean", func(s *Snapshot) { s.Model.Mean[1] = math.NaN() }, "mean holds NaN at 1"},
		{"Inf in the neighbours", func(s *Snapshot) { s.Model.Neighbours[4] = float32(math.Inf(1)) }, "neighbours holds +Inf at 4"},
		{"no scores, but a tail", func(s *Snapshot) { s.Model.Scores.Sorted = nil }, "0 scores"},
		{"scores in disorder", func(s *Snapshot) { slices.Reverse(s.Model.Scores.Sorted) }, "do not ascend"},
		{"Inf in the scores", func(s *Snapshot) { s.Model.Scores.Sorted[3] = math.Inf(1) }, "scores holds +Inf at 3"},
		{"NaN in the tail", func(s *Snapshot) { s.Model.Scores.Tail.Xi = math.NaN() }, "tail of the scores holds NaN"},
		{"negative scale", func(s *Snapshot) { s.Model.Scores.Tail.Beta = -1 }, "scale -1"},
		{"a key of the format's", func(s *Snapshot) { s.Extra = map[string]string{"lca.nll": "0"} }, `"lca.nll"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := example(3, 1, 2, 7)
			c.change(s)
			_, _, err := Messages(s, "snapshots", 16, nil)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Messages: %v; want …%s…", err, c.says)
			}
			if err := WriteFile(new(bytes.Buffer), s); err == nil {
				t.Error("WriteFile took it")
			}
		})
	}
}

// TestGolden: every format ever written stays readable, and the newest is written to the byte.
func TestGolden(t *testing.T) {
	s := example(3, 1, 2, 4200)
	s.Extra = map[string]string{"owner": "späti"}
	var now bytes.Buffer
	if err := WriteFile(&now, s); err != nil {
		t.Fatal(err)
	}
	current := filepath.Join("testdata", fmt.Sprintf("format%d.arrows", format))
	if *update {
		if err := os.WriteFile(current, now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for f := 1; f <= format; f++ {
		path := filepath.Join("testdata", fmt.Sprintf("format%d.arrows", f))
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadFile(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		want, model := *s, *s.Model
		want.Model = &model
		if f == 1 { // its neighbours are x_j, and it has no scores
			model.Scores = nil
			model.Neighbours = slices.Clone(model.Neighbours)
			for k, v := range model.Neighbours {
				model.Neighbours[k] = float32(float64(v) - model.Mean[k%model.Dim])
			}
		}
		if d := diff(&want, got); d != "" {
			t.Errorf("%s: %s", path, d)
		}
		if path == current && !bytes.Equal(data, now.Bytes()) {
			t.Error("the bytes written have changed: fingerprints change with them; raise the format, or -update if that is meant")
		}
	}
}

func BenchmarkMessages(b *testing.B) {
	for _, d := range []int{64, 256} {
		s := example(d, d/4, 3000, 7)
		messages, _ := mustMessages(b, s, 16, nil)
		bytes := int64(0)
		for _, m := range messages {
			bytes += int64(len(m.Value))
		}
		b.Run(fmt.Sprintf("write/d=%d", d), func(b *testing.B) {
			b.SetBytes(bytes)
			b.ReportAllocs()
			for b.Loop() {
				mustMessages(b, s, 16, nil)
			}
		})
		b.Run(fmt.Sprintf("read/d=%d", d), func(b *testing.B) {
			b.SetBytes(bytes)
			b.ReportAllocs()
			for b.Loop() {
				var a Assembler
				add(b, &a, time.Time{}, messages...)
				if _, ok := a.Newest("default"); !ok {
					b.Fatal("not whole")
				}
			}
		})
	}
}
