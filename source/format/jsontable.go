package format

import (
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
