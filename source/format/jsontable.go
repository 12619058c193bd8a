package format

import (
	"slices"
	"strings"
	"sync"

	"github.com/lca-stream/lca-stream/source/format/ipcguard"
)

// jsonTables are those that are not in use. Small messages are smaller than what reading them takes, and one
// has the columns of the last.
type jsonTables struct{ pool sync.Pool }

// mostTableRows and mostTableColumns are what a table may have had to be used again.
const mostTableRows, mostTableColumns = 4096, 256

func (p *jsonTables) take() *jsonTable {
	t, ok := p.pool.Get().(*jsonTable)
	if !ok {
		t = &jsonTable{byName: map[string]int{}}
	}
	t.limits = ipcguard.MessageLimits()
	return t
}

// give takes a table back. It lets go of the message.
func (p *jsonTables) give(t *jsonTable) {
	if cap(t.rows) > mostTableRows || cap(t.columns) > mostTableColumns {
		return
	}
	for _, c := range t.columns {
		c.key = nil
	}
	clear(t.fillers)
	clear(t.byName)
	t.rows, t.columns = t.rows[:0], t.columns[:0]
	p.pool.Put(t)
}

// add makes the next column, of a key, and returns its name. What a former message had there serves again.
func (t *jsonTable) add(key []byte) (name string) {
	n := len(t.columns)
	t.columns = slices.Grow(t.columns, 1)[:n+1]
	c := t.columns[n]
	if c == nil {
		c = new(jsonColumn)
		t.columns[n] = c
	}
	if name = unquote(key); name == c.name {
		name = c.name
	} else {
		name = strings.Clone(name)
	}
	*c = jsonColumn{name: name, key: key, row: -1, signed: true, unsigned: true, whole: true}
	return name
}

// resized is s with n elements, which are to be written.
func resized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }
