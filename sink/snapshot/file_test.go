package snapshot

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
)

func fileBytes(t testing.TB, s *Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteFile(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadFileRefuses(t *testing.T) {
	good := fileBytes(t, example(3, 1, 2, 100))
	model, err := ModelPart(example(3, 1, 2, 100))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(good, model) {
		t.Fatal("a file does not begin with the model part, which its fingerprint is of")
	}
	scores, err := onlyChunk(scoresPart(example(3, 1, 2, 100)))
	if err != nil {
		t.Fatal(err)
	}
	// edit writes a file whose streams are made from changed parts, as another program might.
	edit := func(change func(p *part, s *Snapshot)) []byte {
		s := example(3, 1, 2, 100)
		var all []byte
		for _, p := range []part{modelPart(s), neighboursPart(s), scoresPart(s)} {
			change(&p, s)
			b, err := p.stream(0, p.rows)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		return all
	}
	metadata := func(key, value string) []byte {
		return edit(func(p *part, s *Snapshot) {
			m := p.schema.Metadata()
			keys, values := slices.Clone(m.Keys()), slices.Clone(m.Values())
			i := slices.Index(keys, key)
			if values[i] = value; value == "" {
				keys, values = slices.Delete(keys, i, i+1), slices.Delete(values, i, i+1)
			}
			changed := arrow.NewMetadata(keys, values)
			p.schema = arrow.NewSchema(p.schema.Fields(), &changed)
		})
	}
	rows := func(change func(*table)) []byte {
		return edit(func(p *part, s *Snapshot) {
			if p.name == PartModel {
				changed := *s
				q := modelPartOf(&changed, change)
				*p = q
			}
		})
	}
	for _, c := range []struct {
		name string
		data []byte
		says string
	}{
		{"nothing", nil, "no Arrow stream"},
		{"more rows than a model has", rows(func(t *table) {
			for i := range 300 {
				t.add("other", i, 0, make([]float64, t.d))
			}
		}), "rows in the model part of a model of 3 columns, at most 256 are read"},
		{"text", []byte("kind,index\n"), "no Arrow stream"},
		{"an Arrow file", []byte("ARROW1\x00\x00............"), "Arrow file"},
		{"the model part alone", model, "part neighbours"},
		{"the parts swapped", append(slices.Clone(good[len(model):]), model...), `says "neighbours"`},
		{"more than three parts", append(slices.Clone(good), model...), "after the last part"},
		{"the scores missing", good[:len(good)-len(scores)], `lca.scores is "4"`},
		{"a newer format", metadata("lca.format", "4"), "use a newer one"},
		{"format 0", metadata("lca.format", "0"), "formats up to 3"},
		{"not a snapshot", metadata("lca.format", ""), "not a snapshot"},
		{"no version", metadata("lca.model_version", ""), "no lca.model_version"},
		{"a version that is no number", metadata("lca.model_version", "many"), `lca.model_version is "many"`},
		{"another width", metadata("lca.d", "4"), "lca.d is 4"},
		{"a width beyond memory", metadata("lca.d", "1000000000000"), "lca.d is 1000000000000"},
		{"neighbours missing", metadata("lca.neighbours", "3"), "the rows make it 2"},
		{"d_gaussian wrong", metadata("lca.d_gaussian", "1"), "the rows make it 2"},
		{"an unknown metric", metadata("lca.metric", "round"), "round"},
		{"features that are no JSON", metadata("lca.features", "a,b,c"), "lca.features"},
		{"two features for three columns", metadata("lca.features", `["a","b"]`), "2 feature names"},
		{"no mean", rows(func(t *table) { t.kind[0] = "average" }), `kind "mean"`},
		{"two means", rows(func(t *table) { t.kind[1], t.index[1], t.index[2], t.index[3] = KindMean, 1, 0, 1 }), "2 rows of kind mean"},
		{"an index twice", rows(func(t *table) { t.index[2] = 0 }), "comes twice"},
		{"an index below 0", rows(func(t *table) { t.index[2] = -1 }), "index -1"},
		{"half of C_L", rows(func(t *table) { t.kind[7], t.index[8], t.index[9] = "other", 0, 1 }), "2 rows of kind \"c_l\""},
		{"NaN in W", rows(func(t *table) { t.vector[5] = nan() }), "W holds NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ReadFile(bytes.NewReader(c.data))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want …%s…", err, c.says)
			}
		})
	}
	for n := range len(good) {
		if _, err := ReadFile(bytes.NewReader(good[:n])); err == nil && n < len(good)-8 { // the last mark may be missing
			t.Fatalf("%d bytes of %d were taken", n, len(good))
		}
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

// modelPartOf is modelPart with its table changed.
func modelPartOf(s *Snapshot, change func(*table)) part {
	t := tableOf(s.Model)
	change(t)
	return partOf(s, t)
}

// TestUnknownIsPassedOver: later writers may add kinds and keys, and earlier ones had no part for the scores; readers of
// today must not mind.
func TestUnknownIsPassedOver(t *testing.T) {
	s := example(3, 1, 2, 100)
	s.Model.Scores = nil
	p := modelPartOf(s, func(t *table) { t.add("rotation", 0, 0, []float64{1, 2, 3}) })
	model, err := onlyChunk(p)
	if err != nil {
		t.Fatal(err)
	}
	neighbours, err := onlyChunk(neighboursPart(s))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(bytes.NewReader(append(model, neighbours...)))
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(s, got); d != "" {
		t.Error(d)
	}
}

// FuzzReadFile: no bytes make it panic, and what it takes is valid.
func FuzzReadFile(f *testing.F) {
	f.Add(fileBytes(f, example(2, 1, 1, 100)))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ReadFile(bytes.NewReader(data))
		if err != nil {
			return
		}
		if err := s.Validate(); err != nil {
			t.Error(err)
		}
	})
}
