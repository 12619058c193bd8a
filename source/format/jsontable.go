package format

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// jsonTable is the state of reading one value. The columns that it knows are those of former messages too.
type jsonTable struct {
	decoder *jsonDecoder
	limits  ipcguard.Limits
	message uint64 // counts them, so that what is known of a former one is told apart
	rows    []span
	top     jsonLevel // the keys of rows
	first   jsonFirst
	met     []*jsonColumn // that this message has, in the order they were met

	found []*jsonColumn    // by the place of a name in the decoder's columns: the column that it stands for
	out   []jsonOut        // the columns of the record
	types []arrow.DataType // also by column

	known      int // columns, in all messages
	knownBytes int // of their names
}

// jsonTables are those that are not in use. Small messages are smaller than what reading them takes.
type jsonTables struct{ pool sync.Pool }

// What a table may have had, or know, to be used again.
const (
	mostTableRows    = 4096
	mostTableColumns = 512
	mostTableBytes   = 64 << 10
)

func (p *jsonTables) take(d *jsonDecoder) *jsonTable {
	t, ok := p.pool.Get().(*jsonTable)
	if !ok {
		t = &jsonTable{decoder: d}
		t.top = jsonLevel{wants: d.wants, nested: d.config.Nested, decimals: d.decimals}
	}
	t.limits = ipcguard.MessageLimits()
	t.message++
	return t
}

// give takes a table back. It has let go of the message.
func (p *jsonTables) give(t *jsonTable) {
	if cap(t.rows) > mostTableRows || t.known > mostTableColumns || t.knownBytes > mostTableBytes {
		return
	}
	t.rows, t.met, t.first.numbers = t.rows[:0], t.met[:0], t.first.numbers[:0]
	p.pool.Put(t)
}

// jsonKind is the type of a column so far.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonNumber
	jsonBool
	jsonString
	jsonList // arrays of numbers and null
	jsonText // other arrays, objects, and what is of several types: kept as they stand
)

func (k jsonKind) String() string {
	return [...]string{"null", "a number", "true or false", "a string", "an array of numbers", "an object or array"}[k]
}

// jsonColumn is a key of an object, or a place in an array. It is kept from one message to the next, because messages
// tend to have the same keys in the same order.
type jsonColumn struct {
	name    string
	key     []byte     // name as it was first written, with its quotes; nil for a place
	level   *jsonLevel // of its object; nil for a place
	after   *jsonColumn
	decimal bool       // a text of it is a number
	wanted  int        // place in the decoder's columns of the name by which it is wanted; −1: by none
	heads   []string   // the parts of that name before the last
	inner   *jsonInner // what is looked for within; nil: nothing
	message uint64     // the last one that has it
	jsonMeasured

	filler jsonFiller // of the second pass; nil: it is passed
	floats []float64  // of the second pass, for numbers without a null among them: in the place of a filler
}

// jsonMeasured is what the first pass learns about a column in one message.
type jsonMeasured struct {
	kind     jsonKind
	row      int   // last row that has it
	at       int   // place of its first number among those of the first row
	count    int   // values that are not null
	objects  int   // of them that are objects
	text     int64 // bytes of strings, at most
	raw      int64 // bytes of all values that may have to be kept as they stand
	numbers  int64 // numbers in lists
	nulls    bool  // there is a null in a list
	size     int   // of every list so far; -1 where they differ
	signed   bool  // no number needs uint64
	unsigned bool  // no number is negative
	whole    bool  // every number is an integer that int64 or uint64 holds
	long     bool  // one has more than 15 digits, which float64 may round
}

// jsonWant is a name, or the rest of one, that is looked for in an object or array.
type jsonWant struct {
	name  int      // place in the decoder's columns
	rest  string   // of the name
	heads []string // the parts of the name before it
}

// jsonInner is what is looked for within the values of a column.
type jsonInner struct {
	wants  []jsonWant
	object jsonLevel
	places []jsonPlace // in order
}

type jsonPlace struct {
	at     int
	column *jsonColumn
}

// jsonLevel is the keys of objects in one place.
type jsonLevel struct {
	wants    []jsonWant
	nested   bool            // all that is within objects is looked for
	decimals map[string]bool // paths of numbers that are written as text
	path     string          // of these objects, with a dot at the end; "" for rows
	byName   map[string]*jsonColumn
	first    *jsonColumn // the first key of the object before
}

// column finds the column of a key, which comes after the given one; if there is none, it makes one.
func (t *jsonTable) column(l *jsonLevel, before *jsonColumn, key []byte) *jsonColumn {
	c := l.byName[unquote(key)]
	if c == nil {
		c = newJSONColumn(strings.Clone(unquote(key)), l.wants, l.nested)
		c.key, c.level, c.decimal = bytes.Clone(key), l, l.decimals[l.path+c.name]
		if c.inner != nil {
			c.inner.object.decimals, c.inner.object.path = l.decimals, l.path+c.name+"."
		}
		if l.byName == nil {
			l.byName = map[string]*jsonColumn{}
		}
		l.byName[c.name] = c
		t.known++
		t.knownBytes += len(key)
	}
	if before == nil {
		l.first = c
	} else {
		before.after = c
	}
	return c
}

func (t *jsonTable) meet(c *jsonColumn) {
	c.message = t.message
	c.jsonMeasured = jsonMeasured{row: -1, signed: true, unsigned: true, whole: true}
	t.met = append(t.met, c)
}

func newJSONColumn(name string, wants []jsonWant, nested bool) *jsonColumn {
	c := &jsonColumn{name: name, wanted: -1}
	var inner []jsonWant
	for _, w := range wants {
		if w.rest == name {
			c.wanted, c.heads = w.name, w.heads
		} else if rest, ok := strings.CutPrefix(w.rest, name+"."); ok && name != "" && rest != "" {
			inner = append(inner, jsonWant{w.name, rest, append(slices.Clip(w.heads), name)})
		}
	}
	if len(inner) > 0 || nested {
		c.inner = newJSONInner(inner, nested)
	}
	return c
}

func newJSONInner(wants []jsonWant, nested bool) *jsonInner {
	n := &jsonInner{wants: wants, object: jsonLevel{wants: wants, nested: nested}}
	for _, w := range wants {
		digits, _, _ := strings.Cut(w.rest, ".")
		at, err := strconv.ParseUint(digits, 10, 31)
		known := func(p jsonPlace) bool { return p.at == int(at) }
		if err == nil && digits == strconv.FormatUint(at, 10) && !slices.ContainsFunc(n.places, known) {
			n.places = append(n.places, jsonPlace{int(at), newJSONColumn(digits, wants, nested)})
		}
	}
	slices.SortFunc(n.places, func(a, b jsonPlace) int { return cmp.Compare(a.at, b.at) })
	return n
}

// jsonOut is a column of the record.
type jsonOut struct {
	name   string
	column *jsonColumn
	within []jsonOut // a struct of these, if there are any
}

// choose decides which columns the record has. It is false if one that is wanted is not in the message.
func (t *jsonTable) choose() (all bool) {
	config := &t.decoder.config
	t.found = t.found[:0]
	for range t.decoder.columns {
		t.found = append(t.found, nil)
	}
	for _, c := range t.met {
		if w := c.wanted; w >= 0 && (t.found[w] == nil || longerHeads(c.heads, t.found[w].heads)) {
			t.found[w] = c
		}
	}
	t.out, all = t.out[:0], true
	if !config.Only {
		t.out = t.outOf(t.out, &t.top)
	}
	for i, name := range t.decoder.columns {
		switch c := t.found[i]; {
		case c == nil:
			all = all && i >= len(config.Columns)
		case i >= len(config.Columns) && len(c.heads) > 0: // within a field, and it is no path
		case config.Only || len(c.heads) > 0:
			t.out = append(t.out, jsonOut{name: name, column: c})
		}
	}
	return all
}

// longerHeads reports whether a name is to be read with these heads rather than with others: the first that differs is
// longer. No heads are the name as a whole.
func longerHeads(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == 0
	}
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return len(a[i]) > len(b[i])
		}
	}
	return len(a) < len(b)
}

// outOf appends the columns of a level that the message has.
func (t *jsonTable) outOf(dst []jsonOut, l *jsonLevel) []jsonOut {
	for _, c := range t.met {
		if c.level != l {
			continue
		}
		o := jsonOut{name: c.name, column: c}
		if c.inner != nil && c.inner.object.nested && c.objects > 0 && c.objects == c.count {
			o.within = t.outOf(nil, &c.inner.object)
		}
		dst = append(dst, o)
	}
	return dst
}
