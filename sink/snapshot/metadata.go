package snapshot

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/lca"
	"github.com/lca-stream/lca-stream/source"
)

const (
	format      = 2 // of models
	formatYoung = 3 // of young ones, which earlier programs do not read; the newest
)

func (s *Snapshot) format() int {
	if s.Model.Young() {
		return formatYoung
	}
	return format
}

// field is one key of the metadata: how it is read from a snapshot, and how it is stored in one. Parsing requires the
// keys that the documented format requires; the others have a zero value.
type field struct {
	key      string
	required bool
	get      func(*Snapshot) string
	set      func(*Snapshot, string) error
	share    func(to, from *Snapshot) // of a value that takes time to read; see memo
}

// leftOut is what get returns where the key is not to be written.
const leftOut = "\x00"

// fields are all keys in the order of the bytes, except lca.format and lca.part, which come first.
var fields = allFields()

func allFields() []field {
	model := func(s *Snapshot) *lca.Model { return s.Model }
	info := func(s *Snapshot) *lca.Info { return &s.Model.Info }
	return []field{
		{"lca.model_id", true, func(s *Snapshot) string { return s.ModelID }, func(s *Snapshot, v string) error { s.ModelID = strings.Clone(v); return nil }, nil},
		unsigned("lca.model_version", true, func(s *Snapshot) *uint64 { return &s.Version }),
		unsigned("lca.number", false, func(s *Snapshot) *uint64 { return &s.Number }),
		unsigned("lca.parent_version", false, func(s *Snapshot) *uint64 { return &s.Parent }),
		integer("lca.d", true, func(s *Snapshot) *int { return &model(s).Dim }),
		counted("lca.d_gaussian", func(s *Snapshot) int { return model(s).Gaussian() }),
		inJSON("lca.features", func(s *Snapshot) *[]string { return &s.Features }),
		named("lca.kind", func(s *Snapshot) *lca.Kind { return &model(s).Kind }, lca.ParseKind),
		named("lca.metric", func(s *Snapshot) *lca.Metric { return &model(s).Metric }, lca.ParseMetric),
		named("lca.kernel", func(s *Snapshot) *lca.Kernel { return &model(s).Kernel }, lca.ParseKernel),
		integer("lca.dof", false, func(s *Snapshot) *int { return &model(s).DOF }),
		named("lca.coordinates", func(s *Snapshot) *lca.Coordinates { return &model(s).Coordinates }, lca.ParseCoordinates),
		named("lca.components", func(s *Snapshot) *lca.Components { return &model(s).Components }, lca.ParseComponents),
		unsigned("lca.rows_seen", false, func(s *Snapshot) *uint64 { return &info(s).Rows }),
		unsigned("lca.rows_learnt", false, func(s *Snapshot) *uint64 { return &info(s).Learnt }),
		float("lca.nll", func(s *Snapshot) *float64 { return &info(s).NLL }),
		float("lca.gaussian_nll", func(s *Snapshot) *float64 { return &info(s).GaussianNLL }),
		float("lca.gamma", func(s *Snapshot) *float64 { return &info(s).Gamma }),
		float("lca.pass_rows", func(s *Snapshot) *float64 { return &info(s).PassRows }),
		float("lca.nu", func(s *Snapshot) *float64 { return &info(s).Nu }),
		float("lca.nu_gaussian", func(s *Snapshot) *float64 { return &info(s).NuGaussian }),
		named("lca.nu_unit", func(s *Snapshot) *lca.Unit { return &info(s).NuUnit }, lca.ParseUnit),
		only(integer("lca.rank", false, func(s *Snapshot) *int { return &info(s).Rank }), "0"),
		only(inJSON("lca.scales", func(s *Snapshot) *[]float64 { return &info(s).Scales }), "[]"),
		integer("lca.minibatch", false, func(s *Snapshot) *int { return &info(s).Minibatch }),
		counted("lca.neighbours", func(s *Snapshot) int { return len(model(s).Neighbours) / max(1, model(s).Dim) }),
		counted("lca.scores", func(s *Snapshot) int { return len(sorted(model(s))) }),
		{"lca.tail", false, func(s *Snapshot) string { return tailJSON(model(s).Scores) }, func(s *Snapshot, v string) error { return parseTail(model(s), v) }, nil},
		{"lca.recent", false, func(s *Snapshot) string { return recentText(model(s).Recent) }, func(s *Snapshot, v string) error { return parseRecent(model(s), v) }, nil},
		only(field{"lca.young", false, func(s *Snapshot) string { return strconv.FormatBool(model(s).Young()) }, nil, nil}, "false"),
		{"lca.choice", false, func(s *Snapshot) string { return choiceJSON(info(s).Choice) }, func(s *Snapshot, v string) (err error) { info(s).Choice, err = parseChoice(v); return err }, func(to, from *Snapshot) { info(to).Choice = info(from).Choice }},
		float("lca.effective_neighbours", func(s *Snapshot) *float64 { return &info(s).Effective }),
		float("lca.drift", func(s *Snapshot) *float64 { return &info(s).Drift }),
		unsigned("lca.alarms", false, func(s *Snapshot) *uint64 { return &info(s).Alarms }),
		unsigned("lca.gated_rows", false, func(s *Snapshot) *uint64 { return &info(s).Gated }),
		unsigned("lca.copies", false, func(s *Snapshot) *uint64 { return &info(s).Copies }),
		only(unsigned("lca.rows_wanted", false, func(s *Snapshot) *uint64 { return &info(s).Wanted }), "0"),
		inJSON("lca.constant_columns", func(s *Snapshot) *[]int { return &info(s).Constant }),
		{"lca.input_offsets", false, func(s *Snapshot) string { return offsetsJSON(s.Offsets) }, func(s *Snapshot, v string) error { return parseOffsets(s, v) }, func(to, from *Snapshot) { to.Offsets = from.Offsets }},
		{"lca.producer", false, func(s *Snapshot) string { return s.Producer }, func(s *Snapshot, v string) error { s.Producer = strings.Clone(v); return nil }, nil},
	}
}

// only is a key that is left out where it has a value that says nothing.
func only(f field, nothing string) field {
	get := f.get
	f.get = func(s *Snapshot) string {
		if v := get(s); v != nothing {
			return v
		}
		return leftOut
	}
	return f
}

func unsigned(key string, required bool, at func(*Snapshot) *uint64) field {
	return field{key, required,
		func(s *Snapshot) string { return strconv.FormatUint(*at(s), 10) },
		func(s *Snapshot, v string) (err error) { *at(s), err = strconv.ParseUint(v, 10, 64); return err }, nil}
}

func integer(key string, required bool, at func(*Snapshot) *int) field {
	return field{key, required,
		func(s *Snapshot) string { return strconv.Itoa(*at(s)) },
		func(s *Snapshot, v string) (err error) { *at(s), err = strconv.Atoi(v); return err }, nil}
}

// counted is a number that also follows from the rows. It is written for readers of the metadata, and compared after
// decoding.
func counted(key string, count func(*Snapshot) int) field {
	return field{key, false, func(s *Snapshot) string { return strconv.Itoa(count(s)) }, nil, nil}
}

func float(key string, at func(*Snapshot) *float64) field {
	return field{key, false,
		func(s *Snapshot) string { return strconv.FormatFloat(*at(s), 'g', -1, 64) },
		func(s *Snapshot, v string) (err error) { *at(s), err = strconv.ParseFloat(v, 64); return err }, nil}
}

// named is an enumeration; its zero value, "unknown", is written as the empty text.
func named[T interface {
	comparable
	String() string
}](key string, at func(*Snapshot) *T, parse func(string) (T, error)) field {
	return field{key, false,
		func(s *Snapshot) string {
			var zero T
			if *at(s) == zero {
				return ""
			}
			return (*at(s)).String()
		},
		func(s *Snapshot, v string) (err error) {
			if v != "" {
				*at(s), err = parse(v)
			}
			return err
		}, nil}
}

// inJSON is a list; an empty one is written as [].
func inJSON[T any](key string, at func(*Snapshot) *[]T) field {
	return field{key, false,
		func(s *Snapshot) string { return mustJSON(append([]T{}, *at(s)...)) },
		func(s *Snapshot, v string) error {
			if err := json.Unmarshal([]byte(v), at(s)); err != nil {
				return err
			}
			if len(*at(s)) == 0 {
				*at(s) = nil
			}
			return nil
		},
		func(to, from *Snapshot) { *at(to) = *at(from) }}
}

// mustJSON encodes strings and finite numbers, which cannot fail.
func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("snapshot: internal error: %v", err))
	}
	return string(b)
}

// offsetsJSON writes {"topic": {"partition": next}}; encoding/json sorts the keys.
func offsetsJSON(offsets source.Offsets) string {
	topics := make(map[string]map[int32]int64)
	for p, next := range offsets {
		if topics[p.Topic] == nil {
			topics[p.Topic] = make(map[int32]int64)
		}
		topics[p.Topic][p.ID] = next
	}
	return mustJSON(topics)
}

func parseOffsets(s *Snapshot, text string) error {
	var topics map[string]map[int32]int64
	if err := json.Unmarshal([]byte(text), &topics); err != nil {
		return err
	}
	for topic, partitions := range topics {
		for id, next := range partitions {
			if s.Offsets == nil {
				s.Offsets = make(source.Offsets)
			}
			s.Offsets[source.Partition{Topic: topic, ID: id}] = next
		}
	}
	return nil
}

// tailJSON writes the tail of the scores as {"u":…,"xi":…,"beta":…}, and null where there are none.
func tailJSON(s *lca.Scores) string {
	if s == nil {
		return "null"
	}
	return mustJSON(s.Tail)
}

func parseTail(m *lca.Model, text string) error {
	var tail *lca.Tail
	if err := json.Unmarshal([]byte(text), &tail); err != nil || tail == nil {
		return err
	}
	m.Scores = &lca.Scores{Tail: *tail}
	return nil
}

const (
	formatKey = "lca.format"
	partKey   = "lca.part"
)

// knownKeys are the keys that the format defines.
var knownKeys = allKeys()

func allKeys() map[string]bool {
	known := map[string]bool{formatKey: true, partKey: true}
	for _, f := range fields {
		known[f.key] = true
	}
	return known
}

// Metadata returns what every chunk says about the snapshot, as text, without lca.part.
func (s *Snapshot) Metadata() map[string]string {
	m, text := s.metadata(""), map[string]string{}
	for i, key := range m.Keys() {
		if key != partKey {
			text[key] = m.Values()[i]
		}
	}
	return text
}

// metadata returns a chunk's schema metadata: the known keys in their order, then the extra ones sorted.
func (s *Snapshot) metadata(part string) *arrow.Metadata {
	keys, values := []string{formatKey, partKey}, []string{strconv.Itoa(s.format()), part}
	for _, f := range fields {
		if v := f.get(s); v != leftOut {
			keys, values = append(keys, f.key), append(values, v)
		}
	}
	extra := make([]string, 0, len(s.Extra))
	for key := range s.Extra {
		extra = append(extra, key)
	}
	sort.Strings(extra)
	for _, key := range extra {
		keys, values = append(keys, key), append(values, s.Extra[key])
	}
	m := arrow.NewMetadata(keys, values)
	return &m
}

// memo is values that were read last. Those of many models are equal, and reading a list takes longer than the rest of the metadata. No reader changes
// them within.
type memo map[*field]remembered

type remembered struct {
	text string
	in   *Snapshot // nothing else
}

// set is f.set with a value that was read before, if there is one.
func (k *memo) set(f *field, s *Snapshot, text string) error {
	if f.share == nil {
		return f.set(s, text)
	}
	known, ok := (*k)[f]
	if !ok || known.text != text {
		known = remembered{strings.Clone(text), &Snapshot{Model: &lca.Model{}}}
		if err := f.set(known.in, known.text); err != nil {
			return err
		}
		if *k == nil {
			*k = memo{}
		}
		(*k)[f] = known
	}
	f.share(s, known.in)
	return nil
}

// metadata starts a Snapshot from a chunk's metadata. It fills everything except the model's arrays.
func (k *memo) metadata(m pairs) (*Snapshot, error) {
	text, ok := m.get(formatKey)
	if !ok {
		return nil, fmt.Errorf("snapshot: no %s in the schema's metadata: not a snapshot", formatKey)
	}
	switch f, err := strconv.Atoi(text); {
	case err != nil || f < 1:
		return nil, fmt.Errorf("snapshot: format %q is none: this program reads formats up to %d", text, formatYoung)
	case f > formatYoung:
		return nil, fmt.Errorf("snapshot: %w: format %d, and this program reads formats up to %d, use a newer one", ErrNewer, f, formatYoung)
	}
	s := &Snapshot{Model: &lca.Model{}}
	s.Model.Info.NLL, s.Model.Info.GaussianNLL = math.NaN(), math.NaN()
	err := m.eachField(func(f *field, text string, ok bool) error {
		switch {
		case !ok && f.required:
			return fmt.Errorf("snapshot: no %s in the schema's metadata", f.key)
		case !ok || f.set == nil:
			return nil
		}
		if err := k.set(f, s, text); err != nil {
			return fmt.Errorf("snapshot: %s is %q: %w", f.key, text, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, key := range m.keys {
		if !knownKeys[key] {
			if s.Extra == nil {
				s.Extra = make(map[string]string)
			}
			s.Extra[strings.Clone(key)] = strings.Clone(m.values[i])
		}
	}
	return s, nil
}
