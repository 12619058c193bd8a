package backtest

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/lca-stream/lca-stream/cmd/lca-stream/internal/app"
	"github.com/lca-stream/lca-stream/pipeline/episode"
)

// label is what is known of a row.
type label int8

const (
	unknown label = iota
	normal
	faulty
)

// labelsIn returns what reads a column of 0 and 1.
func labelsIn(col arrow.Array, name string) (func(i int) (label, error), error) {
	var of func(i int) float64
	switch col := col.(type) {
	case *array.Boolean:
		of = func(i int) float64 {
			if col.Value(i) {
				return 1
			}
			return 0
		}
	case *array.Int8:
		of = func(i int) float64 { return float64(col.Value(i)) }
	case *array.Int16:
		of = func(i int) float64 { return float64(col.Value(i)) }
	case *array.Int32:
		of = func(i int) float64 { return float64(col.Value(i)) }
	case *array.Int64:
		of = func(i int) float64 { return float64(col.Value(i)) }
	case *array.Uint8:
		of = func(i int) float64 { return float64(col.Value(i)) }
	case *array.Float32:
		of = func(i int) float64 { return float64(col.Value(i)) }
	case *array.Float64:
		of = col.Value
	case *array.Null:
		of = func(int) float64 { return 0 }
	default:
		return nil, fmt.Errorf("--labels: column %q is %s; want numbers or booleans", name, col.DataType())
	}
	return func(i int) (label, error) {
		switch {
		case col.IsNull(i):
			return unknown, nil
		case of(i) == 0:
			return normal, nil
		case of(i) == 1:
			return faulty, nil
		}
		return unknown, fmt.Errorf("--labels: column %q has %s; want 0 and 1", name, col.ValueStr(i))
	}, nil
}

// spans are labelled stretches, of each key in order and apart: of rows, or of times in µs.
type spans struct {
	timed, keyed bool
	of           map[string]*stretches // by key; "" where they are of all series
}

// stretches are those of one key.
type stretches struct {
	from, to []int64 // inclusive
	seen     bool    // a row has the key
}

// mostSpans bounds the lines of a file of labels.
const mostSpans = 1 << 20

// labelsOf finds out what --labels names: a file by its ending, or else a column.
func labelsOf(name string, timed bool, key string) (column string, _ *spans, err error) {
	if !strings.EqualFold(filepath.Ext(name), ".csv") {
		return name, nil, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := readSpans(f)
	switch {
	case err != nil:
		return "", nil, app.UsageError("--labels %s: %v", name, err)
	case s.timed && !timed:
		return "", nil, app.UsageError("--labels %s has times: say with --time which column has the time of each row", name)
	case s.keyed && key == "":
		return "", nil, app.UsageError("--labels %s has keys: say with --key which column has the key of each row", name)
	}
	return "", s, nil
}

// readSpans reads lines of from,to or from,to,key.
func readSpans(from io.Reader) (*spans, error) {
	text := bufio.NewReader(from)
	r := csv.NewReader(text)
	if first, _ := text.Peek(len("from;")); strings.HasSuffix(string(first), ";") {
		r.Comma = ';'
	}
	r.TrimLeadingSpace, r.ReuseRecord = true, true
	head, err := r.Read()
	s := &spans{of: map[string]*stretches{}, keyed: slices.Equal(head, []string{"from", "to", "key"})}
	if err != nil || !s.keyed && !slices.Equal(head, []string{"from", "to"}) {
		return nil, errors.New(`want a first line "from,to" or "from,to,key", and then rows, counted from 0, or times`)
	}
	type span struct {
		from, to int64
		key      string
	}
	var all []span
	for line := 2; ; line++ {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		var one span
		from, timed, err1 := end(fields[0])
		to, timedTo, err2 := end(fields[1])
		if one.from, one.to = from, to; s.keyed {
			one.key = strings.Clone(fields[2]) // the others are in the same memory
		}
		switch err := cmp.Or(err1, err2); {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", line, err)
		case timed != timedTo || len(all) > 0 && timed != s.timed:
			return nil, fmt.Errorf("line %d: rows and times stand next to each other", line)
		case to < from:
			return nil, fmt.Errorf("line %d: it ends before it begins", line)
		case len(all) == mostSpans:
			return nil, fmt.Errorf("it has more than %d lines", mostSpans)
		}
		s.timed, all = timed, append(all, one)
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, one := range all {
		s.add(one.key, one.from, one.to)
	}
	return s, nil
}

// add adds a stretch that begins no earlier than those before it.
func (s *spans) add(key string, from, to int64) {
	of := s.of[key]
	if of == nil {
		of = &stretches{}
		s.of[key] = of
	}
	if last := len(of.to) - 1; last >= 0 && from <= of.to[last] {
		of.to[last] = max(of.to[last], to)
		return
	}
	of.from, of.to = append(of.from, from), append(of.to, to)
}

// unseen are keys that no row has.
func (s *spans) unseen() (keys []string) {
	for key, of := range s.of {
		if s.keyed && !of.seen {
			keys = append(keys, strconv.Quote(key))
		}
	}
	slices.Sort(keys)
	return keys
}

// end reads one end of a span.
func end(text string) (at int64, timed bool, err error) {
	if at, err = strconv.ParseInt(text, 10, 64); err == nil {
		return at, false, nil
	}
	at, timed = microsOf(text)
	if !timed {
		return 0, false, fmt.Errorf("%q is neither a row nor a time", text)
	}
	return at, true, nil
}

// label is that of a row.
func (s *spans) label(row int64, at moment, key string) label {
	if !s.keyed {
		key = ""
	}
	v := row
	if s.timed {
		v = at.micros
	}
	of := s.of[key]
	if of != nil {
		of.seen = true
	}
	switch {
	case s.timed && !at.known:
		return unknown
	case of == nil:
		return normal
	}
	if i := sort.Search(len(of.to), func(i int) bool { return of.to[i] >= v }); i < len(of.to) && of.from[i] <= v {
		return faulty
	}
	return normal
}

// judge compares scores with labels, row by row. It takes eight bytes for each row that is judged.
type judge struct {
	labelled bool
	spans    *spans // nil: labels are a column
	faults   []fault

	open  map[string]int // series whose last row is faulty: the number of its fault
	rows  []judged
	worst int // faulty ones among rows
}

// fault is a labelled stretch of a series.
type fault struct {
	series string
	rows   []int64 // all of them
}

type judged struct {
	score  float32
	faulty bool
}

// add judges a row, and returns its label. One without a score is none that could be told from the others, and is left out.
func (j *judge) add(c *cells, i int, row int64, score float32, hasScore bool) (is label, err error) {
	if !j.labelled {
		return unknown, nil
	}
	series := ""
	if c.key.Len() > 0 {
		series, _ = c.key.At(i)
	}
	if j.spans != nil {
		is = j.spans.label(row, c.at(i), series)
	} else if is, err = c.labels(i); err != nil {
		return unknown, fmt.Errorf("row %d: %w", row, err)
	}
	if j.fault(series, row, is); is == unknown || !hasScore {
		return is, nil
	}
	j.rows = append(j.rows, judged{score, is == faulty})
	if is == faulty {
		j.worst++
	}
	return is, nil
}

// fault begins a fault, or goes on with one, in the series of a row.
func (j *judge) fault(series string, row int64, is label) {
	at, open := j.open[series]
	switch {
	case is == faulty && !open:
		series = strings.Clone(series)
		at = len(j.faults)
		j.faults = append(j.faults, fault{series: series})
		if j.open == nil {
			j.open = map[string]int{}
		}
		j.open[series] = at
	case is == normal && open:
		delete(j.open, series)
	}
	if is == faulty {
		j.faults[at].rows = append(j.faults[at].rows, row)
	}
}

// meeting is what labels say of episodes.
type meeting struct {
	wrong, met int
	delay      *float64
	right      []bool // of each episode
}

// met compares episodes with faults. A fault is met if a row of its own is in an episode of its series; an episode with no such row is false. The delay is
// the median, over the faults that are met, of how many rows of the fault come before the first episode.
func (j *judge) met(all []*episode.Record) (m meeting) {
	var late []float64
	m.right = make([]bool, len(all))
	for _, f := range j.faults {
		first := -1
		for i, e := range all {
			if e.Series != nil && *e.Series != f.series {
				continue
			}
			at, _ := slices.BinarySearch(f.rows, e.From.Offset)
			if at == len(f.rows) || f.rows[at] > e.To.Offset {
				continue
			}
			if m.right[i] = true; first < 0 || at < first {
				first = at
			}
		}
		if first >= 0 {
			m.met++
			late = append(late, float64(first))
		}
	}
	for _, ok := range m.right {
		if !ok {
			m.wrong++
		}
	}
	if slices.Sort(late); len(late) > 0 {
		m.delay = new(float64)
		*m.delay = (late[(len(late)-1)/2] + late[len(late)/2]) / 2
	}
	return m
}

// silent says why there are no figures; "": there are.
func (j *judge) silent() string {
	switch {
	case !j.labelled || j.worst > 0 && j.worst < len(j.rows):
		return ""
	case len(j.rows) == 0:
		return "no row has both a score and a label"
	case j.worst == 0:
		return "no row that has a score is faulty by its label"
	}
	return "each row that has a score and a label is faulty"
}

// figures are the average precision and the area under the ROC curve; nil where there are no faulty rows, or no others.
//
//	AP = Σ_k (R_k − R_{k−1}) P_k,   AUC = P(score of a faulty row > that of another) + ½ P(equal)
//
// over the thresholds k, of which equal scores are one.
func (j *judge) figures() (ap, auc *float64) {
	n := len(j.rows)
	if j.worst == 0 || j.worst == n {
		return nil, nil
	}
	slices.SortFunc(j.rows, func(a, b judged) int { return cmp.Compare(b.score, a.score) })
	var precision, area, hits float64
	for from := 0; from < n; {
		to, now := from, 0.0
		for ; to < n && j.rows[to].score == j.rows[from].score; to++ {
			if j.rows[to].faulty {
				now++
			}
		}
		others := float64(to-from) - now
		area += others * (hits + now/2)
		hits += now
		precision += now * hits / float64(to)
		from = to
	}
	precision /= hits
	area /= hits * (float64(n) - hits)
	return &precision, &area
}
