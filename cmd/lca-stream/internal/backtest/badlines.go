package backtest

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/lca-stream/lca-stream/internal/plural"
	"github.com/lca-stream/lca-stream/source/format"
)

const (
	mostBad      = 5  // lines that are named
	mostBadNames = 50 // columns with values that are named
)

// badLines are the lines of CSV files that are no rows, and the values that are none of their columns'.
type badLines struct {
	lines   int64
	first   []string // lines
	columns []string
	values  map[string]*badValues
}

type badValues struct {
	n     int64
	first string
}

func (b *badLines) add(one format.Bad) {
	at := fmt.Sprintf("%s:%d", filepath.Base(one.Path), one.Line)
	if one.Column == "" {
		if b.lines++; len(b.first) < mostBad {
			b.first = append(b.first, at+" ("+one.What+")")
		}
		return
	}
	v := b.values[one.Column]
	if v == nil {
		if b.values == nil {
			b.values = map[string]*badValues{}
		}
		v = &badValues{first: at + " (" + strconv.Quote(brief(one.What)) + ")"}
		b.values[one.Column] = v
		b.columns = append(b.columns, one.Column)
	}
	v.n++
}

// texts say what was passed over.
func (b *badLines) texts() (all []string) {
	if b.lines > 0 {
		text := plural.Count(b.lines, "line") + " without a row: "
		for i, one := range b.first {
			if i > 0 {
				text += ", "
			}
			text += one
		}
		if b.lines > mostBad {
			text += ", …"
		}
		all = append(all, text)
	}
	for _, column := range b.columns[:min(len(b.columns), mostBadNames)] {
		v := b.values[column]
		all = append(all, fmt.Sprintf("%s in %s, where most are of another kind: the first at %s", plural.Count(v.n, "value"), brief(column), v.first))
	}
	return all
}
