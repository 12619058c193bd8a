package demo

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/demo/toy"
)

// demoResult is the JSON object of --json; every number in it was computed in this run.
type demoResult struct {
	Rows          int      `json:"rows"`
	RowsPerSecond float64  `json:"rows_per_second"`
	Seconds       float64  `json:"seconds"`
	Processor     float64  `json:"processor_seconds"` // of the whole process, the broker and the page included; 0: the system does not say
	Paced         bool     `json:"-"`                 // the rows came at the pace of --pace
	Gaussian      int      `json:"d_gaussian"`
	Parzen        int      `json:"d_parzen"`
	Versions      []uint64 `json:"versions"`
	ExactlyOnce   bool     `json:"exactly_once"`
	ARI           demoARI  `json:"ari"`
	NLL           demoNLL  `json:"nll"`
}

type demoARI struct {
	Raw      float64 `json:"raw"`
	Whitened float64 `json:"whitened"`
	LCA      float64 `json:"lca"`
}

type demoNLL struct {
	Gaussian float64 `json:"gaussian"`
	LCA      float64 `json:"lca"`
}

func reportDemo(p *app.Program, f demoFlags, s *toy.Stream, r *demoResult) error {
	if f.json {
		return json.NewEncoder(p.Stdout).Encode(r)
	}
	_, err := fmt.Fprint(p.Stdout, r.story(s))
	return err
}

// story tells what was streamed, what was found in it, and what to try next.
func (r *demoResult) story(s *toy.Stream) string {
	once := "every row came back exactly once"
	if !r.ExactlyOnce {
		once = "NOT every row came back exactly once"
	}
	return fmt.Sprintf(`
What was streamed
  %s rows of %s,
  learnt and whitened in %.1f s; %s.
%s
What was found
  %s
  %s
  Rows were whitened by %d versions of the model: %s.

What it is good for: clusters found in the last %s rows, compared with the true labels, which the learner never saw
(adjusted Rand index: 1 is perfect, 0 is chance)
  raw records           %5.2f
  globally whitened     %5.2f
  whitened by LCA       %5.2f
  %s

What to try next
%s`,
		thousand(uint64(r.Rows)), s.About, r.Seconds, once, r.rate(),
		r.structure(), r.fit(), len(r.Versions), shortList(r.Versions), thousand(judgeRows), r.ARI.Raw, r.ARI.Whitened, r.ARI.LCA,
		r.ARI.verdict(), nextSteps(s.Name))
}

// rate says how fast the rows came, and how fast they could have come.
func (r *demoResult) rate() string {
	pace := "  They came as fast as they were taken"
	if r.Paced {
		pace = "  They came at the demo's own pace"
	}
	pace += fmt.Sprintf(", %s rows/s", thousand(uint64(r.RowsPerSecond)))
	if r.Processor > 0 {
		pace += fmt.Sprintf("; a processor alone would do %s, with the broker and the page", thousand(uint64(float64(r.Rows)/r.Processor)))
	}
	return pace + ".\n"
}

func (r *demoResult) structure() string {
	all := r.Parzen + r.Gaussian
	switch {
	case r.Gaussian == 0:
		return fmt.Sprintf("All %d directions carry structure.", all)
	case r.Parzen == 0:
		return fmt.Sprintf("None of %d directions carries structure.", all)
	}
	return fmt.Sprintf("%d of %d directions carry structure; the other %d look Gaussian.", r.Parzen, all, r.Gaussian)
}

func (r *demoResult) fit() string {
	how, gain := "more", r.NLL.Gaussian-r.NLL.LCA
	if gain < 0 {
		how, gain = "less", -gain
	}
	return fmt.Sprintf("A row is %.2f nats %s likely under the model than under a single Gaussian (surprise %.2f against %.2f).", gain, how, r.NLL.LCA, r.NLL.Gaussian)
}

// clearly is the difference of two adjusted Rand indices that counts: what another seed changes is smaller.
const clearly = 0.05

// verdict says in words who won.
func (a demoARI) verdict() string {
	name, best := "raw records", a.Raw
	if a.Whitened > best {
		name, best = "globally whitened records", a.Whitened
	}
	switch {
	case a.LCA > best+clearly:
		return "LCA wins: it shows clusters that noise hides in the other two."
	case a.LCA < best-clearly:
		return fmt.Sprintf("LCA loses here: %s give better clusters (%.2f against %.2f).", name, best, a.LCA)
	}
	return fmt.Sprintf("LCA does not win here: %s do about as well (%.2f against %.2f).", name, best, a.LCA) +
		"\n  Where all columns have one unit and all matter, as pixels do, plain distances are hard to beat."
}

// nextSteps suggests other data than what was shown.
func nextSteps(shown string) string {
	var steps []string
	for _, step := range []struct{ data, why string }{
		{"circles", "two circles: no clustering method sees them in the raw records"},
		{"digits", "real data, on which LCA does not win"},
		{"five", "five clusters among ten columns of noise"},
	} {
		if step.data != shown && len(steps) < 2 {
			steps = append(steps, fmt.Sprintf("  %-40s %s\n", "lca-stream demo --keep --data "+step.data, step.why))
		}
	}
	return strings.Join(steps, "") +
		fmt.Sprintf("  %-40s %s\n", "docs/tutorial.md", "your own sensors in fifteen minutes") +
		fmt.Sprintf("  %-40s %s\n", "lca-stream init TOPIC", "your own Kafka: it looks at a topic, and writes a configuration")
}

func shortList(v []uint64) string {
	text := make([]string, 0, 8)
	for i, n := range v {
		if len(v) > 8 && i == 4 {
			text = append(text, "…")
		}
		if len(v) <= 8 || i < 4 || i >= len(v)-3 {
			text = append(text, fmt.Sprint(n))
		}
	}
	return strings.Join(text, ", ")
}

const (
	knownRows = 100_000 // far more than the learner keeps as neighbours
	labelGrid = 1e-3    // far more than a row moves by rounding on its way through the learner
)

// labelBook knows the true labels of the newest rows, so that the page can colour them. A row comes back from the
// learner with rounding errors, so rows are found by the place of two random projections on a grid.
type labelBook struct {
	weights [2][]float64

	mu     sync.Mutex // guards the fields below; never held while waiting
	labels map[[2]int64]int
	places [][2]int64 // a ring, so that the oldest can be forgotten
	next   int
}

func newLabelBook(dim int) *labelBook {
	b := &labelBook{labels: map[[2]int64]int{}}
	rng := rand.New(rand.NewPCG(1, uint64(dim)))
	for i := range b.weights {
		for range dim {
			b.weights[i] = append(b.weights[i], rng.NormFloat64())
		}
	}
	return b
}

// add remembers rows as they are sent: in float32.
func (b *labelBook) add(x []float64, labels []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := len(b.weights[0])
	for i, label := range labels {
		at := b.place(x[i*d : (i+1)*d])
		if _, known := b.labels[at]; !known {
			b.remember(at)
		}
		b.labels[at] = label
	}
}

func (b *labelBook) remember(at [2]int64) {
	if len(b.places) < knownRows {
		b.places = append(b.places, at)
		return
	}
	delete(b.labels, b.places[b.next])
	b.places[b.next] = at
	b.next = (b.next + 1) % knownRows
}

func (b *labelBook) place(row []float64) (at [2]int64) {
	for i, weights := range b.weights {
		sum := 0.0
		for j, w := range weights {
			sum += w * float64(float32(row[j]))
		}
		at[i] = int64(math.Round(sum / labelGrid))
	}
	return at
}

func (b *labelBook) label(row []float64) (label int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.place(row)
	for _, di := range []int64{0, -1, 1} {
		for _, dj := range []int64{0, -1, 1} {
			if label, ok := b.labels[[2]int64{at[0] + di, at[1] + dj}]; ok {
				return label, true
			}
		}
	}
	return 0, false
}
