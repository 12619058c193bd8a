package minibatch

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/internal/nested"
	"github.com/lca-stream/lca-stream/internal/plural"
)

const (
	// JudgedRows is the number of values from which a column is judged by its values too. Fewer say little: in one row
	// every column is a constant.
	JudgedRows = 100
	// labelValues is the most values of a whole-numbered column that is taken for a label.
	labelValues = 10
	// setpointRows is the number of values from which a column may be a setpoint, and setpointRun for how many rows it then holds one, on average.
	// Sensors that step through their values more often do no harm. One that stood still and has begun to move holds most values for fewer than
	// setpointLeast rows.
	setpointRows, setpointRun, setpointLeast = 1000, 100, 10
	// surveyedRows is how many rows of its first record a learner looks at.
	surveyedRows = 10_000
	// CountedValues is the most different values of a column that a survey counts.
	CountedValues = 1000
)

// Survey gathers what the columns of records hold, and judges which of them can be features. Choose surveys one record;
// programs that look at many records see more.
//
// A column is left out if it is no number, or if its name is that of an id, a label or a time, or of what we write next to the coordinates. From 100 values on it is
// also left out if most rows have no number, if it is constant, if each value is above the one before it, as of a counter, a meter or a clock, or if it holds whole numbers of which
// at most 10 differ, as labels do. From 1000 values on it is left out if it holds each of them for 100 rows or more, as setpoints and states do: any other is an outlier until it
// has come back several times. Columns within structs are left out from the first row on if most rows have no number,
// because structs stand for alternatives, such as a row before and after a change. Where the values would leave out all columns, they do not count.
//
// The zero value is ready to use. A Survey depends on the records and their order alone.
type Survey struct {
	Nested  bool   // look at the columns within structs too; for the caller to set
	Without string // a column that says whose row it is, and is no feature; for the caller to set
	Rows    int    // rows of all records
	columns []*Column
	byName  map[string]*Column
	rows    Rows
}

// Column is what a survey knows of one column.
type Column struct {
	Name     string
	Type     arrow.DataType
	Rows     int // rows of the records that have the column
	Nulls    int // nulls in these rows
	Invalid  int // NaN and infinite values, and text among numbers
	Distinct int // different values, at most CountedValues
	Numeric  bool
	Within   bool    // a column within a struct, whose name is a path
	List     bool    // a list of numbers, which can be the only feature
	Min      float64 // smallest finite value; NaN: there is none
	Mean     float64 // mean of the finite values; NaN: there are none
	Max      float64 // largest finite value; NaN: there is none

	values map[string]struct{}
	finite int
	texts  int    // values that are no numbers
	shape  string // how to name what is within its values, see listed
	whole  bool
	rises  bool               // each value is above the one before it
	runs   int                // of one value, in each partition
	brief  int                // runs that ended before setpointLeast rows
	last   map[int32]run      // newest one by partition
	of     map[string]float64 // newest value by series
	counts bool               // within each series each value is above the one before it
	pairs  int                // values that had one before them in their series
}

// run is a value that a column holds for some rows.
type run struct {
	value float64
	rows  int
}

// Judgement is what a survey says of one column.
type Judgement struct {
	Column  *Column
	Feature bool
	Reason  string // why it is left out, or how it is taken
}

// Add looks at the rows of a record of a partition. Where all are of one series its name is not empty: what counts in each machine by itself goes up
// and down where the machines take turns.
func (s *Survey) Add(rec arrow.Record, partition int32, series string) error {
	if s.byName == nil {
		s.byName = map[string]*Column{}
	}
	s.Rows += int(rec.NumRows())
	for _, leaf := range s.leaves(rec.Schema()) {
		c := s.column(&leaf)
		c.Rows += int(rec.NumRows())
		numeric := isNumber(leaf.Type)
		if numeric || nested.IsKept(rec.Schema(), leaf.Name) {
			f := Features{Names: []string{leaf.Name}}
			if err := f.Gather(&s.rows, rec); err != nil {
				return err
			}
			numeric = numeric || slices.Contains(s.rows.Invalid, ReasonNone)
		}
		switch {
		case numeric:
			c.numbers(&s.rows, partition, series)
		case leaf.Type.ID() == arrow.NULL:
			c.Nulls += int(rec.NumRows())
		default:
			col, err := leaf.Column(rec)
			if err != nil {
				return featureError(CodeCorrupt, leaf.Name, "%v", err)
			}
			if c.others(col); c.texts > 0 && c.shape == "" && nested.IsKept(rec.Schema(), leaf.Name) {
				c.look(col)
			}
			col.Release()
		}
		if nested.IsOpen(rec.Schema()) {
			c.settle()
		}
	}
	return nil
}

// settle finds out whether a key of JSON objects is a number or text, if it holds both: which of them is the fault is for the majority to say.
func (c *Column) settle() {
	switch {
	case c.Numeric && c.texts > c.finite:
		c.Numeric, c.Type = false, arrow.BinaryTypes.String
	case !c.Numeric && c.texts > 0 && c.finite > c.texts:
		c.Numeric, c.Type = true, arrow.PrimitiveTypes.Float64
	}
}

// leaves are the columns to look at.
func (s *Survey) leaves(schema *arrow.Schema) []nested.Leaf {
	if s.Nested {
		return nested.Leaves(schema)
	}
	return nested.Columns(schema)
}

// column is what is known of a column so far.
func (s *Survey) column(leaf *nested.Leaf) *Column {
	c := s.byName[leaf.Name]
	if c == nil {
		_, top := leaf.Top()
		c = &Column{Name: leaf.Name, Type: leaf.Type, Within: !top, Numeric: isNumber(leaf.Type), List: isNumberList(leaf.Type),
			Min: math.NaN(), Mean: math.NaN(), Max: math.NaN(), values: map[string]struct{}{}, whole: true, rises: true, counts: true, last: map[int32]run{}, of: map[string]float64{}}
		s.columns, s.byName[leaf.Name] = append(s.columns, c), c
	}
	if c.Type.ID() == arrow.NULL { // the producer had no value before
		c.Type, c.Numeric, c.List = leaf.Type, isNumber(leaf.Type), isNumberList(leaf.Type)
	}
	return c
}

func (c *Column) numbers(rows *Rows, partition int32, series string) {
	for i, reason := range rows.Invalid {
		switch reason {
		case ReasonNone:
			c.number(rows.X[i], partition)
			if series != "" {
				c.inSeries(rows.X[i], series)
			}
		case ReasonNull:
			c.Nulls++
		case ReasonText:
			c.Invalid++
			c.texts++
		default:
			c.Invalid++
		}
	}
}

func (c *Column) number(x float64, partition int32) {
	c.finite++
	if c.Distinct < CountedValues {
		c.count(strconv.FormatFloat(x, 'g', -1, 64))
	}
	if c.finite == 1 {
		c.Min, c.Mean, c.Max = x, x, x
	}
	c.Min, c.Max = min(c.Min, x), max(c.Max, x)
	c.Mean += (x - c.Mean) / float64(c.finite)
	c.whole = c.whole && x == math.Trunc(x)
	now, ok := c.last[partition]
	if ok && x <= now.value {
		c.rises = false
	}
	if !ok || x != now.value {
		if c.runs++; ok && now.rows < setpointLeast {
			c.brief++
		}
		now = run{value: x}
	}
	now.rows++
	c.last[partition] = now
}

// mostSeries bounds the series of which the newest value is kept.
const mostSeries = 1000

// inSeries compares a value with the one before it in its series.
func (c *Column) inSeries(x float64, series string) {
	before, known := c.of[series]
	if known {
		c.pairs++
		c.counts = c.counts && x > before
	} else if len(c.of) >= mostSeries {
		return
	}
	c.of[series] = x
}

// others counts the nulls of what is no number, and the different values of text and booleans.
func (c *Column) others(col arrow.Array) {
	kind := col.DataType()
	if dict, ok := kind.(*arrow.DictionaryType); ok {
		kind = dict.ValueType
	}
	for i := range col.Len() {
		if col.IsNull(i) {
			c.Nulls++
			continue
		}
		c.texts++
		switch kind.ID() {
		case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW, arrow.BOOL:
			if c.Distinct < CountedValues {
				c.count(col.ValueStr(i))
			}
		}
	}
}

// look finds out whether the first value is a list of objects.
func (c *Column) look(col arrow.Array) {
	for i := range col.Len() {
		if col.IsValid(i) {
			c.shape = listed(c.Name, col.ValueStr(i))
			return
		}
	}
}

func (c *Column) count(value string) {
	if _, known := c.values[value]; known {
		return
	}
	c.values[strings.Clone(value)] = struct{}{} // text may be in the memory of its record, which is used again
	c.Distinct = len(c.values)
}

// Judge returns a judgement of each column, in the order in which they came.
func (s *Survey) Judge() []Judgement {
	all := make([]Judgement, len(s.columns))
	numbers, features, lists := 0, 0, 0
	strict := false // columns that look like no features are none, even where no others are there
	for i, c := range s.columns {
		strict = strict || c.shape != "" // the measurements are within it
		all[i] = Judgement{Column: c, Reason: c.named(s.Rows)}
		if s.Without != "" && c.Name == s.Without {
			all[i].Reason = "it says whose row it is"
		}
		switch {
		case all[i].Reason != "":
		case c.List:
			lists++
		default:
			numbers++
			if c.valued(s.Rows) == "" {
				features++
			}
		}
	}
	strict = strict || features > 0
	for i := range all {
		j := &all[i]
		switch {
		case j.Reason != "":
		case j.Column.List && numbers > 0:
			j.Reason = "a list next to columns of numbers: name it alone to learn it"
		case j.Column.List && lists > 1:
			j.Reason = fmt.Sprintf("one of %d lists: name the one to learn", lists)
		case j.Column.List:
			j.Feature, j.Reason = true, "a list, whose elements are the features"
		default:
			if strict {
				j.Reason = j.Column.valued(s.Rows)
			}
			j.Feature = j.Reason == ""
		}
	}
	return all
}

// Features returns the names that the survey proposes, in the form that Resolve takes, and what it leaves out.
func (s *Survey) Features() (columns []string, leftOut []Judgement) {
	for _, j := range s.Judge() {
		if j.Feature {
			columns = append(columns, j.Column.Name)
		} else {
			leftOut = append(leftOut, j)
		}
	}
	return columns, leftOut
}

// named says why a column is no feature by its type and name; "": it may be one.
func (c *Column) named(rows int) string {
	switch {
	case !c.Numeric && c.shape != "":
		return c.shape
	case !c.Numeric && !c.List:
		return notNumeric(c.Type)
	case 2*c.Rows < rows:
		return fmt.Sprintf("it is in %d of %s", c.Rows, plural.Count(rows, "row"))
	case c.List:
		return ""
	case c.Within:
		return namedReason(c.Name[strings.LastIndexByte(c.Name, '.')+1:])
	}
	return namedReason(c.Name)
}

// valued says why a column of numbers is no feature by its values; "": they do not tell.
func (c *Column) valued(rows int) string {
	switch {
	case (rows >= JudgedRows || c.Within) && 2*c.finite < rows:
		return fmt.Sprintf("no number in %d of %s", rows-c.finite, plural.Count(rows, "row"))
	case c.finite < JudgedRows:
		return ""
	case c.Distinct == 1:
		return fmt.Sprintf("a constant: %v in %d rows", c.Min, c.finite)
	case c.whole && c.goesUp():
		return fmt.Sprintf("it counts up, from %.0f to %.0f, as an id or a time does", c.Min, c.Max)
	case c.goesUp():
		return fmt.Sprintf("it grows with every row, from %.6g to %.6g, as a meter or a clock does", c.Min, c.Max)
	case c.whole && c.Distinct <= labelValues:
		return fmt.Sprintf("a label: %d whole numbers in %d rows", c.Distinct, c.finite)
	case c.finite >= setpointRows && c.runs*setpointRun <= c.finite && 2*c.brief < c.runs:
		return fmt.Sprintf("it changes once in %d rows, as a setpoint does: a value that is new would be an outlier", c.finite/c.runs)
	}
	return ""
}

// goesUp reports whether each value is above the one before it, in its partition or in its series.
func (c *Column) goesUp() bool { return c.rises || c.counts && c.pairs >= JudgedRows }

func notNumeric(t arrow.DataType) string {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.STRING_VIEW:
		return "text"
	case arrow.BOOL:
		return "a boolean"
	case arrow.TIMESTAMP, arrow.DATE32, arrow.DATE64, arrow.TIME32, arrow.TIME64:
		return "a time"
	case arrow.NULL:
		return "it has no value"
	case arrow.STRUCT:
		return "a struct; a column within it is a feature if it is named by its path"
	case arrow.MAP:
		return "a map; a value is a feature if it is named by its key"
	case arrow.LIST, arrow.LARGE_LIST, arrow.FIXED_SIZE_LIST:
		return "a list; an element is a feature if it is named by its place"
	}
	return "no number"
}

// Words that a name ends with, or that are the whole name, of columns that are no measurements. They are few and plain:
// what they miss is found by its values, or named by the user.
var (
	idWords    = map[string]bool{"id": true, "uuid": true, "guid": true}
	idNames    = map[string]bool{"index": true, "idx": true, "seq": true, "sequence": true, "row": true, "rownum": true}
	timeWords  = map[string]bool{"timestamp": true, "ts": true, "epoch": true, "datetime": true}
	timeNames  = map[string]bool{"time": true, "date": true}
	labelWords = map[string]bool{"label": true, "labels": true}
	ourNames   = map[string]bool{"lca_score": true, "lca_p": true, "lca_imputed": true, "lca_version": true}
	labelNames = map[string]bool{"class": true, "target": true, "cluster": true, "category": true}
)

// namedReason says why a column of this name is no feature; "": the name says nothing.
func namedReason(name string) string {
	words := strings.FieldsFunc(splitCamel(name), func(r rune) bool { return r == '_' || r == '-' || r == '.' || r == ' ' })
	if len(words) == 0 {
		return ""
	}
	last, alone := words[len(words)-1], len(words) == 1
	switch {
	case strings.HasPrefix(name, "__index_level_") || strings.HasPrefix(name, "Unnamed: "):
		return "an index of pandas, by its name"
	case ourNames[name]:
		return "made by lca-stream, by its name"
	case idWords[last] || alone && idNames[last]:
		return "an id, by its name"
	case timeWords[last] || alone && timeNames[last]:
		return "a time, by its name"
	case labelWords[last] || alone && labelNames[last]:
		return "a label, by its name"
	}
	return ""
}

// splitCamel writes machineId as machine_id, in lower case.
func splitCamel(name string) string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if lower && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		lower = r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// Some producers write numbers next to their names, as rows or within one. A survey says how to name them.

// mostShown bounds the text of a list that is looked into.
const mostShown = 1 << 20

// listed says what to do with a list of objects that is kept as its text; "": the text is none.
func listed(name, text string) string {
	rest, ok := strings.CutPrefix(strings.TrimLeft(text, " \t\r\n"), "[")
	if rest = strings.TrimLeft(rest, " \t\r\n"); !ok || !strings.HasPrefix(rest, "{") {
		return ""
	}
	path := name + ".0.…"
	if len(text) <= mostShown {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if found, _ := firstNumber(d, name); found != "" {
			path = found
		}
	}
	return "a list of objects; name a value by its path, such as " + path + ", if each message has it in the same place: paths count places, and do not look for names"
}

// firstNumber reads a value, and returns the path of the first number within that may be a measurement; ok: the text is well-formed up to
// there.
func firstNumber(d *json.Decoder, path string) (found string, ok bool) {
	t, err := d.Token()
	if err != nil {
		return "", false
	}
	switch t := t.(type) {
	case json.Number:
		if namedReason(path[strings.LastIndexByte(path, '.')+1:]) == "" {
			return path, true
		}
	case json.Delim:
		for i := 0; d.More(); i++ {
			key := strconv.Itoa(i)
			if t == '{' {
				name, err := d.Token()
				if err != nil {
					return "", false
				}
				key, _ = name.(string)
			}
			if found, ok = firstNumber(d, path+"."+key); !ok || found != "" {
				return found, ok
			}
		}
		_, err = d.Token()
	}
	return "", err == nil
}

// Of a column of names next to rows of one or two numbers.
const (
	namedNumbers = 2  // most numbers
	namedRows    = 10 // rows of each name, at least, on average
)

// Tall returns the column that names what the numbers of a row are of, if rows are of few numbers and a name, such as
// {"sensorId": "a7", "value": 21.5}, and how many names there are; "": rows are not.
func (s *Survey) Tall() (column string, names int) {
	features, found := 0, 0
	for _, j := range s.Judge() {
		c := j.Column
		switch label := c.Numeric && c.whole && !c.rises && (j.Reason == namedReason("id") || strings.HasPrefix(j.Reason, "a label")); {
		case j.Feature:
			features++
		case (label || notNumeric(c.Type) == "text") && c.shape == "" && c.Nulls == 0 && c.Rows == s.Rows && c.Distinct > 1 && c.Distinct*namedRows <= s.Rows:
			column, names = c.Name, c.Distinct
			found++
		}
	}
	if s.Without != "" || features == 0 || features > namedNumbers || found != 1 {
		return "", 0
	}
	return column, names
}
