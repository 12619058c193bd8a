package snapshot

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/lca/recent"
	"github.com/lca-stream/lca-stream/sink"
)

// young is a snapshot from before there is a metric.
func young(t *testing.T, version uint64) *Snapshot {
	t.Helper()
	s := scoring(t, 3, version)
	was := s.Model
	s.Parent = 0
	s.Model = &lca.Model{
		Dim: 3, Mean: was.Recent.Centre, BG: new(mat.Dense), BL: new(mat.Dense), Recent: was.Recent,
		Kind: was.Kind, Metric: was.Metric, Kernel: was.Kernel, Coordinates: was.Coordinates, Components: was.Components,
		Info: was.Info,
	}
	s.Model.Info.Rows, s.Model.Info.Wanted = version, 3000
	return s
}

// A young snapshot comes out of a topic and a file as it was, says what it is, and takes its place among the others.
func TestYoungComesThrough(t *testing.T) {
	s := young(t, 128)
	var a Assembler
	messages, slots := mustMessages(t, s, 4, nil)
	add(t, &a, time.Time{}, messages...)
	got, ok := a.Newest("default")
	if !ok || !got.Model.Young() {
		t.Fatalf("the topic has %v", got)
	}
	if text := diff(s, got); text != "" {
		t.Error("of the topic:", text)
	}
	for _, m := range messages {
		if m.Value != nil && header(m, headerYoung) != "true" {
			t.Errorf("%s does not say that it is young", m.Key)
		}
	}
	if says := got.Young(); says != "young: 128 rows so far; the row score comes after 3000 rows" {
		t.Error(says)
	}
	if m := got.Metadata(); m["lca.young"] != "true" || m["lca.format"] != "3" {
		t.Error(m)
	}
	var b bytes.Buffer
	if err := WriteFile(&b, s); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(&b); err != nil || diff(s, got) != "" {
		t.Error("of a file:", err, diff(s, got))
	}
	grown := scoring(t, 3, 3000)
	grown.Number = s.Number + 4 // the same slot
	messages, _ = mustMessages(t, grown, 4, slots)
	add(t, &a, time.Time{}, messages...)
	got, ok = a.Newest("default")
	if !ok || got.Young() != "" || diff(grown, got) != "" {
		t.Error("the model that replaces it:", diff(grown, got))
	}
	if m := got.Metadata(); m["lca.young"] != "" || m["lca.format"] != "2" || header(messages[0], headerYoung) != "" {
		t.Error(m)
	}
}

// A young snapshot without what it holds is none, and neither is a model without a metric that does not say so.
func TestYoungIsWhole(t *testing.T) {
	s := young(t, 128)
	var a Assembler
	messages, _ := mustMessages(t, s, 4, nil)
	add(t, &a, time.Time{}, slices.DeleteFunc(messages, func(m sink.Message) bool {
		return slices.Contains([]string{PartRecent, PartFactors}, header(m, headerPart))
	})...)
	if _, err := a.Version("default", 128); err == nil || !strings.Contains(err.Error(), "something is missing") {
		t.Error("without its parts:", err)
	}
	table := tableOf(s.Model)
	if err := table.fill(new(lca.Model), false); err == nil || !strings.Contains(err.Error(), `no row of kind "whiten"`) {
		t.Error("a model without a metric:", err)
	}
}

// A young snapshot as it was first written is read, and is written so to the byte.
func TestYoungGolden(t *testing.T) {
	e := &recent.Evaluator{
		Dim: 2, Learnt: 128, Centre: []float64{1e9, -0.1}, Scale: []float64{2, 0.3}, Constant: []bool{false, true},
		Charts: recent.Gaussian{Mean: []float64{1, 2, 3, 4, 5, 1.0 / 3}}, Row: recent.Gaussian{Mean: []float64{7, 8}, Factor: []float32{1, -2, 0.7}},
		Scores: recent.Distribution{Low: 200, Weights: []float64{1, 0, 31.7}, Sum: 32.7}, First: recent.Distribution{Low: 256, Weights: []float64{50}, Sum: 50},
	}
	e.Deviations = recent.Gaussian{Mean: e.Charts.Mean[4:], Factor: []float32{0.1, 0.2, 0.3}}
	for i := range 21 {
		e.Charts.Factor = append(e.Charts.Factor, float32(i)/7)
	}
	s := young(t, 128)
	s.Features, s.Model.Dim, s.Model.Mean, s.Model.Recent = []string{"a", "b"}, 2, e.Centre, e
	s.Model.Info.Constant = []int{1}
	var now bytes.Buffer
	if err := WriteFile(&now, s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "format3.arrows")
	if *update {
		if err := os.WriteFile(path, now.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if text := diff(s, got); text != "" || !bytes.Equal(data, now.Bytes()) {
		t.Errorf("the bytes are the same: %t; %s", bytes.Equal(data, now.Bytes()), text)
	}
}

// What has no place for a young model says so.
func TestYoungIsNotExported(t *testing.T) {
	for _, f := range Formats() {
		err := Export(new(bytes.Buffer), young(t, 128), f)
		if want := f != FormatArrow; (err != nil) != want || want && !strings.Contains(err.Error(), "young: 128 rows so far") {
			t.Errorf("%s: %v", f, err)
		}
	}
}
