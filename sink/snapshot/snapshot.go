package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"gonum.org/v1/gonum/mat"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/source"
	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// Snapshot is a model and its origin.
type Snapshot struct {
	Model    *lca.Model
	ModelID  string            // any text without '/', not empty
	Version  uint64            // rows learnt when it was taken, ≥ 1; grows with each snapshot of a model id
	Number   uint64            // how many snapshots came before
	Parent   uint64            // Version of the predecessor, 0 for the first
	Features []string          // one name per column
	Offsets  source.Offsets    // next offset of each learnt partition; may be nil
	Producer string            // program and version
	Extra    map[string]string // further metadata, under keys that the format does not use; may be nil

	// Group is source.group of the pipeline that published the snapshot. Like Time it is part of the records on the
	// topic and not of the bytes. "" where the records do not say, as those of the first release.
	Group string

	// By is model.by of that pipeline, such as "key": whose model it is. Part of the records like Group. "" for the model of all rows.
	By string

	// Time is the timestamp of the Kafka record. It is not part of the bytes, and zero for a snapshot that does not
	// come from a topic.
	Time time.Time
}

// LearntFrom returns the topic that the model was learnt from, "" if that is not known: files have none.
func (s *Snapshot) LearntFrom() (topic string) {
	for p := range s.Offsets {
		if topic == "" || p.Topic < topic {
			topic = p.Topic
		}
	}
	return topic
}

// Young says how far a young model is, see [lca.Model.Young]; "" of one that is not.
func (s *Snapshot) Young() string {
	switch i := s.Model.Info; {
	case !s.Model.Young():
		return ""
	case i.Wanted > i.Rows:
		return fmt.Sprintf("young: %d rows so far; the row score comes after %d rows", i.Rows, i.Wanted)
	default:
		return fmt.Sprintf("young: %d rows so far; the row score comes later", i.Rows)
	}
}

// Validate returns the reason why a snapshot may not be written. Readers check it too, so that they never get a model
// with NaN or of contradictory sizes.
func (s *Snapshot) Validate() error {
	m := s.Model
	if m == nil {
		return errors.New("snapshot: no model")
	}
	d, parzen, gaussian := m.Dim, m.Parzen(), m.Gaussian()
	switch {
	case s.ModelID == "" || !utf8.ValidString(s.ModelID):
		return fmt.Errorf("snapshot: model id %q: want text that is not empty", s.ModelID)
	case s.Version < 1:
		return errors.New("snapshot: version 0 means no model: want at least 1")
	case s.Version > mostVersion:
		return fmt.Errorf("snapshot: version %d is more rows than any stream has: want at most %d", s.Version, uint64(mostVersion))
	case !utf8.ValidString(s.Producer):
		return fmt.Errorf("snapshot: producer %q is not UTF-8", s.Producer)
	case d < 1:
		return fmt.Errorf("snapshot: model of %d columns", d)
	case len(s.Features) != d:
		return fmt.Errorf("snapshot: %d feature names for a model of %d columns", len(s.Features), d)
	case len(m.Ratio) != parzen+gaussian:
		return fmt.Errorf("snapshot: %d eigenvalues for %d + %d directions", len(m.Ratio), parzen, gaussian)
	case len(m.Neighbours)%d != 0:
		return fmt.Errorf("snapshot: %d numbers are not rows of %d neighbours", len(m.Neighbours), d)
	case m.Kernel == lca.KernelAuto || (m.Kernel == lca.KernelStudent) != (m.DOF > 0) || m.DOF < 0 || m.DOF > lca.MostDOF:
		return fmt.Errorf("snapshot: kernel %v with %d degrees of freedom: want 1 … %d for student, none for gaussian", m.Kernel, m.DOF, lca.MostDOF)
	case len(m.Mean) != d:
		return fmt.Errorf("snapshot: mean of %d numbers for a model of %d columns", len(m.Mean), d)
	}
	if err := checkScores(m.Scores); err != nil {
		return err
	}
	for _, name := range s.Features {
		if !utf8.ValidString(name) {
			return fmt.Errorf("snapshot: feature name %q is not UTF-8", name)
		}
	}
	for key, value := range s.Extra {
		if key == "" || knownKeys[key] {
			return fmt.Errorf("snapshot: extra metadata may not be called %q: the format has a meaning for it", key)
		}
		if !utf8.ValidString(key + value) {
			return fmt.Errorf("snapshot: extra metadata %q is not UTF-8", key)
		}
	}
	if err := errors.Join(
		checkMatrix("B_L", m.BL, d, parzen), checkMatrix("B_G", m.BG, d, gaussian),
		checkMatrix("W", m.W, rowsOf(m.W), d), checkSymmetric("C_L", m.CL, d), checkSymmetric("C_G", m.CG, d),
		checkFinite("mean", m.Mean), checkFinite("eigenvalues", m.Ratio), checkNeighbours(m.Neighbours)); err != nil {
		return err
	}
	return checkWhitening(m)
}

// mostWeight bounds the numbers of W: a column in its own units would have to vary by less than 1e-100.
const mostWeight = 1e100

// checkWhitening refuses a W with which all rows look alike, or none is finite. No learner makes one; that one is right cannot be seen.
func checkWhitening(m *lca.Model) error {
	if rowsOf(m.W) == 0 {
		return nil
	}
	most := max(mat.Max(m.W), -mat.Min(m.W))
	if most > mostWeight || most == 0 && m.Components == lca.ComponentsAll && len(m.Ratio) > 0 {
		return fmt.Errorf("snapshot: the largest number of W is %v, which no learner writes: want more than 0 and at most %v", most, mostWeight)
	}
	return nil
}

// mostVersion bounds a version, which is a number of rows: those of a million per second for thirty years. Versions only grow, so
// a learner could not publish after one that is not a learner's.
const mostVersion = 1_000_000_000_000_000

// mostScores is how many scores fit into one chunk together with the metadata.
const mostScores = 50_000

func checkScores(s *lca.Scores) error {
	switch {
	case s == nil:
		return nil
	case len(s.Sorted) == 0 || len(s.Sorted) > mostScores:
		return fmt.Errorf("snapshot: %d scores, want 1 … %d, or none and no tail", len(s.Sorted), mostScores)
	case !slices.IsSorted(s.Sorted):
		return errors.New("snapshot: the scores do not ascend")
	case s.Tail.Beta < 0:
		return fmt.Errorf("snapshot: the tail of the scores has the scale %v, want at least 0", s.Tail.Beta)
	}
	return errors.Join(checkFinite("scores", s.Sorted), checkFinite("the tail of the scores", []float64{s.Tail.U, s.Tail.Xi, s.Tail.Beta}))
}

func rowsOf(m *mat.Dense) int {
	if m == nil || m.IsEmpty() {
		return 0
	}
	r, _ := m.Dims()
	return r
}

func checkMatrix(name string, m *mat.Dense, rows, columns int) error {
	if rows == 0 || columns == 0 {
		return nil // an empty part
	}
	if r, c := m.Dims(); r != rows || c != columns {
		return fmt.Errorf("snapshot: %s is %d×%d, want %d×%d", name, r, c, rows, columns)
	}
	for i := range rows {
		if err := checkFinite(name, m.RawRowView(i)); err != nil {
			return err
		}
	}
	return nil
}

func checkSymmetric(name string, m *mat.SymDense, d int) error {
	if m == nil {
		return nil
	}
	if n := m.SymmetricDim(); n != d {
		return fmt.Errorf("snapshot: %s is %d×%d, want %d×%d", name, n, n, d, d)
	}
	for i := range d {
		for j := i; j < d; j++ {
			if v := m.At(i, j); v-v != 0 {
				return fmt.Errorf("snapshot: %s holds %v at %d, %d", name, v, i, j)
			}
		}
	}
	return nil
}

func checkFinite(name string, values []float64) error {
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("snapshot: %s holds %v at %d", name, v, i)
		}
	}
	return nil
}

// checkNeighbours refuses what a row becomes that is further from the mean than float32 reaches.
func checkNeighbours(values []float32) error {
	for i, v := range values {
		if v-v != 0 {
			return fmt.Errorf("snapshot: neighbours holds %v at %d: a row further from the mean than float32 reaches (3.4e38): divide its columns by a constant, or leave it out", v, i)
		}
	}
	return nil
}

// Choice is lca.Choice in JSON, as the metadata and the status page show it.
type Choice struct {
	Rows       uint64            `json:"rows"`
	Candidates []ChoiceCandidate `json:"candidates"`
	Taken      string            `json:"taken"` // name of a candidate
}

// ChoiceCandidate is lca.Trial in JSON.
type ChoiceCandidate struct {
	Name   string   `json:"name"`
	Nu     float64  `json:"nu"`
	NuUnit string   `json:"nu_unit"`
	Kernel string   `json:"kernel"`
	Parzen int      `json:"d_parzen"`
	NLL    *float64 `json:"nll"` // nil where the candidate collapsed
}

// ChoiceOf returns a choice in JSON's form; nil for nil.
func ChoiceOf(c *lca.Choice) *Choice {
	if c == nil || len(c.Candidates) == 0 {
		return nil
	}
	out := &Choice{Rows: c.Rows, Taken: c.Candidates[c.Taken].Name}
	for _, t := range c.Candidates {
		entry := ChoiceCandidate{Name: t.Name, Nu: t.Nu, NuUnit: t.NuUnit.String(), Kernel: t.Kernel.String(), Parzen: t.Parzen}
		if !math.IsNaN(t.NLL) && !math.IsInf(t.NLL, 0) {
			entry.NLL = &t.NLL
		}
		out.Candidates = append(out.Candidates, entry)
	}
	return out
}

// Beginning is that of lca.Choice.
func (c *Choice) Beginning() bool { return c.Candidates[0].Name == lca.FirstFit }

// choiceJSON writes a choice, null for none.
func choiceJSON(c *lca.Choice) string { return mustJSON(ChoiceOf(c)) }

func parseChoice(text string) (*lca.Choice, error) {
	var from *Choice
	if err := json.Unmarshal([]byte(text), &from); err != nil || from == nil {
		return nil, err
	}
	c := &lca.Choice{Rows: from.Rows}
	for _, e := range from.Candidates {
		t := lca.Trial{Name: e.Name, Parzen: e.Parzen, Nu: e.Nu, NLL: math.Inf(1)}
		if e.NLL != nil {
			t.NLL = *e.NLL
		}
		var err error
		if t.NuUnit, err = lca.ParseUnit(e.NuUnit); err != nil {
			return nil, err
		}
		if t.Kernel, err = lca.ParseKernel(e.Kernel); err != nil {
			return nil, err
		}
		c.Candidates = append(c.Candidates, t)
	}
	c.Taken = slices.IndexFunc(c.Candidates, func(t lca.Trial) bool { return t.Name == from.Taken })
	if c.Taken < 0 {
		return nil, fmt.Errorf("took %q, which is no candidate", from.Taken)
	}
	return c, nil
}

// Loading is a feature's share of a direction, between −1 and 1.
type Loading struct {
	Feature string  `json:"feature"`
	Weight  float64 `json:"weight"`
}

// Direction is one Parzen direction and the features that weigh most in it.
type Direction struct {
	Eigenvalue float64   `json:"eigenvalue"`
	Features   []Loading `json:"features"`
}

// Directions describes the first Parzen directions, those of the smallest eigenvalue, by the
// features that weigh most in them. A weight is the entry of B_L times the feature's standard
// deviation, so that units do not matter; those of a whole direction have norm 1.
func (s *Snapshot) Directions(directions, features int) []Direction {
	m := s.Model
	out := []Direction{}
	for k := range min(m.Parzen(), directions) {
		all, norm := make([]Loading, m.Dim), 0.0
		for i := range all {
			w := m.BL.At(i, k)
			if m.CG != nil {
				w *= math.Sqrt(m.CG.At(i, i))
			}
			all[i] = Loading{Feature: s.Features[i], Weight: w}
			norm += w * w
		}
		for i := range all {
			all[i].Weight /= max(math.Sqrt(norm), math.SmallestNonzeroFloat64)
		}
		slices.SortStableFunc(all, func(a, b Loading) int { return cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)) })
		out = append(out, Direction{Eigenvalue: m.Ratio[k], Features: all[:min(len(all), features)]})
	}
	return out
}

// About returns what a chunk says of its snapshot: all but the numbers of its parts, which are missing.
func About(chunk []byte) (*Snapshot, error) {
	schema, records, _, err := readStream(chunk, ipcguard.MessageLimits())
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	for _, rec := range records {
		rec.Release()
	}
	return new(memo).metadata(pairsIn(schema.Metadata()))
}
