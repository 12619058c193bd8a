package backtest

import (
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/google/go-cmp/cmp"
)

// Average precision and area under the ROC curve are those of scikit-learn 1.9, equal scores included.
func TestFigures(t *testing.T) {
	for name, c := range map[string]struct {
		scores  []float32
		faulty  string
		ap, auc float64
	}{
		"of its documentation": {[]float32{0.1, 0.4, 0.35, 0.8}, "0011", 0.8333333333333333, 0.75},
		"all equal":            {[]float32{1, 1, 1, 1}, "0101", 0.5, 0.5},
		"some equal":           {[]float32{3, 2, 2, 2, 1, 0}, "101001", 0.6666666666666666, 0.5555555555555556},
		"apart":                {[]float32{-1, 5, -2, 6}, "0101", 1, 1},
		"the wrong way":        {[]float32{5, -1, 6, -2}, "0101", 0.4166666666666667, 0},
	} {
		j := judge{}
		for i, s := range c.scores {
			j.rows = append(j.rows, judged{s, c.faulty[i] == '1'})
			if c.faulty[i] == '1' {
				j.worst++
			}
		}
		ap, auc := j.figures()
		if math.Abs(*ap-c.ap) > 1e-12 || math.Abs(*auc-c.auc) > 1e-12 {
			t.Errorf("%s: AP %v, AUC %v, want %v and %v", name, *ap, *auc, c.ap, c.auc)
		}
	}
}

// Where there are no figures, it is said why: a later file may have a column of labels that is empty.
func TestWhyThereAreNoFigures(t *testing.T) {
	for labels, want := range map[string]string{
		"": "no row has both", "??": "no row has both", "-?": "no row that has a score is faulty", "x?": "each row", "-x?": "",
	} {
		j := judge{labelled: true}
		for i, l := range labels {
			if l != '?' {
				j.rows = append(j.rows, judged{float32(i), l == 'x'})
			}
			if l == 'x' {
				j.worst++
			}
		}
		ap, auc := j.figures()
		if said := j.silent(); (ap == nil || auc == nil) != (want != "") || !strings.HasPrefix(said, want) || (said == "") != (want == "") {
			t.Errorf("%q: AP %v, AUC %v, said is %q, want %q", labels, ap, auc, said, want)
		}
	}
	if said := (&judge{}).silent(); said != "" {
		t.Errorf("without labels: %q", said)
	}
}

func TestSpans(t *testing.T) {
	s, err := readSpans(strings.NewReader("from,to\n7,9\n2,3\n3,4\n9,9\n20,20\n"))
	if err != nil {
		t.Fatal(err)
	}
	var is string
	for row := range int64(22) {
		is += string("?-x"[s.label(row, moment{}, "any")])
	}
	if want := "--xxx--xxx----------x-"; is != want {
		t.Errorf("%s, want %s", is, want)
	}
	s, err = readSpans(strings.NewReader("from;to\n01.01.2026 00:00;2026-01-01T12:00:00+01:00\n"))
	if err != nil {
		t.Fatal(err)
	}
	noon, _ := microsOf("2026-01-01T11:00:00Z")
	got := []label{s.label(0, moment{noon, true}, ""), s.label(0, moment{noon + 1, true}, ""), s.label(0, moment{}, "")}
	if diff := cmp.Diff([]label{faulty, normal, unknown}, got); diff != "" {
		t.Error(diff)
	}
	s, err = readSpans(strings.NewReader("from,to,key\n7,9,b\n2,8,a\n0,9,A\n"))
	if err != nil {
		t.Fatal(err)
	}
	got = []label{s.label(8, moment{}, "a"), s.label(9, moment{}, "a"), s.label(6, moment{}, "b"), s.label(7, moment{}, "b"), s.label(7, moment{}, "c")}
	if diff := cmp.Diff([]label{faulty, normal, normal, faulty, normal}, got); diff != "" {
		t.Error(diff)
	}
	if got := s.unseen(); len(got) != 1 || got[0] != `"A"` {
		t.Errorf("no row has the keys %q", got)
	}
	for text, says := range map[string]string{
		"":                                      `first line "from,to"`,
		"begin,end\n1,2\n":                      `first line "from,to"`,
		"from,to,machine\n1,2,a\n":              `or "from,to,key"`,
		"from,to\n1,x\n":                        `line 2: "x" is neither a row nor a time`,
		"from,to\n3,1\n":                        "line 2: it ends before it begins",
		"from,to\n1,2026-01-01":                 "line 2: rows and times stand next to each other",
		"from,to\n1,2\n1,2,3\n":                 "wrong number of fields",
		"from,to\n1,2\n2026-01-01,2026-01-02\n": "line 3: rows and times stand next to each other",
	} {
		if _, err := readSpans(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v does not say %q", text, err, says)
		}
	}
}

// A time that cannot be counted in microseconds is none, and no other one.
func TestTimesBeyondCounting(t *testing.T) {
	for at, want := range map[int64]bool{0: true, 253402300799: true, -62135596800: true, math.MaxInt64: false, math.MinInt64: false, 1 << 60: false} {
		of, err := momentOf(array.NewTimestampData(array.NewData(arrow.FixedWidthTypes.Timestamp_s, 1, []*memory.Buffer{nil, memory.NewBufferBytes(arrow.GetBytes([]int64{at}))}, nil, 0, 0)))
		if err != nil {
			t.Fatal(err)
		}
		if micros, known := of(0); known != want || known && micros != at*1_000_000 {
			t.Errorf("%d s: %d µs, %v; want %v", at, micros, known, want)
		}
	}
}
