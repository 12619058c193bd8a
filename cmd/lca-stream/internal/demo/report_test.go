package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/demo/toy"
)

// What the demo tells, word for word.
func TestDemoTellsAStory(t *testing.T) {
	s, err := toy.Open("five", 1)
	if err != nil {
		t.Fatal(err)
	}
	opened := opening(s, demoFlags{rows: 20000, pace: demoPace})
	if diff := cmp.Diff(`Streaming 20,000 rows of five Gaussians in a plane, the middle one four times as heavy, and 10 noise columns, and 1,000 more to judge by, over 1m0s, through a broker inside this process.
The learner sees 12 columns of numbers, and is told neither which of them matter nor that there are 5 clusters.
`, opened); diff != "" {
		t.Error(diff)
	}
	r := &demoResult{
		Rows: 20000, RowsPerSecond: 333.2, Seconds: 60.02, Processor: 4, Paced: true, Gaussian: 10, Parzen: 2, Versions: []uint64{1000, 2000, 4000}, ExactlyOnce: true,
		ARI: demoARI{Raw: 0.14, Whitened: 0.03, LCA: 0.98}, NLL: demoNLL{Gaussian: 30.23, LCA: 29.49},
	}
	want := `
What was streamed
  20,000 rows of five Gaussians in a plane, the middle one four times as heavy, and 10 noise columns,
  learnt and whitened in 60.0 s; every row came back exactly once.
  They came at the demo's own pace, 333 rows/s; a processor alone would do 5,000, with the broker and the page.

What was found
  2 of 12 directions carry structure; the other 10 look Gaussian.
  A row is 0.74 nats more likely under the model than under a single Gaussian (surprise 29.49 against 30.23).
  Rows were whitened by 3 versions of the model: 1000, 2000, 4000.

What it is good for: clusters found in the last 1,000 rows, compared with the true labels, which the learner never saw
(adjusted Rand index: 1 is perfect, 0 is chance)
  raw records            0.14
  globally whitened      0.03
  whitened by LCA        0.98
  LCA wins: it shows clusters that noise hides in the other two.

What to try next
  lca-stream demo --keep --data circles    two circles: no clustering method sees them in the raw records
  lca-stream demo --keep --data digits     real data, on which LCA does not win
  docs/tutorial.md                         your own sensors in fifteen minutes
  lca-stream init TOPIC                    your own Kafka: it looks at a topic, and writes a configuration
`
	if diff := cmp.Diff(want, r.story(s)); diff != "" {
		t.Error(diff)
	}
}

// Where LCA does not win, the demo says so.
func TestDemoVerdict(t *testing.T) {
	const hard = "\n  Where all columns have one unit and all matter, as pixels do, plain distances are hard to beat."
	for want, a := range map[string]demoARI{
		"LCA wins: it shows clusters that noise hides in the other two.":                                {Raw: 0.14, Whitened: 0.03, LCA: 0.98},
		"LCA does not win here: raw records do about as well (0.71 against 0.69)." + hard:               {Raw: 0.71, Whitened: 0.30, LCA: 0.69},
		"LCA does not win here: globally whitened records do about as well (0.71 against 0.74)." + hard: {Raw: 0.70, Whitened: 0.71, LCA: 0.74},
		"LCA loses here: raw records give better clusters (0.71 against 0.50).":                         {Raw: 0.71, Whitened: 0.30, LCA: 0.50},
	} {
		if got := a.verdict(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A row is known again after the rounding of a way through float32 with its mean taken out; other rows are not.
func TestLabelsAreFoundAgain(t *testing.T) {
	for _, name := range toy.Names() {
		s, err := toy.Open(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		const rows = 500
		x, labels := make([]float64, 2*rows*s.Dim), make([]int, 2*rows)
		s.Next(x, labels)
		b := newLabelBook(s.Dim)
		b.add(x[:rows*s.Dim], labels[:rows])
		for i := range 2 * rows {
			row := make([]float64, s.Dim)
			for j, v := range x[i*s.Dim : (i+1)*s.Dim] {
				const mean = 1.2345678
				row[j] = float64(float32(float64(float32(v))-mean)) + mean
			}
			label, ok := b.label(row)
			if i < rows && (!ok || label != labels[i]) {
				t.Fatalf("%s: row %d has label %d, %v; want %d", name, i, label, ok, labels[i])
			}
			if i >= rows && ok {
				t.Fatalf("%s: row %d was not sent, and has label %d", name, i, label)
			}
		}
	}
}
